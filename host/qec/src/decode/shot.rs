//! Decoding of shots in packed bits.

use super::{DecodeError, Decoder, Matched};
use crate::shots::BitRow;

/// A decoder for shots in packed bits: lists the detectors that fired by a scan of words, and packs the answer.
///
/// ```
/// use ringcall_qec::decode::{MatchingDecoder, ShotDecoder};
/// use ringcall_qec::sample::Sampler;
///
/// let model = ringcall_qec::dem::text::parse("error(0.01) D0\nerror(0.01) D0 D1\nerror(0.01) D1 L0")?;
/// let mut sampler = Sampler::new(&model, 1)?;
/// let mut decoder = ShotDecoder::new(MatchingDecoder::from_dem(&model)?);
/// let mut shot = sampler.new_shot();
/// let mut predicted = shot.observables.clone();
/// let mut errors = 0;
/// for _ in 0..1000 {
///     sampler.sample_into(&mut shot)?;
///     decoder.decode(&shot.detectors, &mut predicted)?;
///     errors += u32::from(predicted != shot.observables);
/// }
/// assert!(errors < 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShotDecoder<D> {
    decoder: D,
    defects: Vec<u32>,
    observables: Vec<u8>,
}

impl<D: Decoder> ShotDecoder<D> {
    /// Wraps a decoder. A `Box<dyn Decoder>` is one too.
    pub fn new(decoder: D) -> Self {
        let defects = Vec::with_capacity(decoder.num_detectors() as usize);
        let observables = vec![0; (decoder.num_observables() as usize).div_ceil(8)];
        Self { decoder, defects, observables }
    }

    /// The number of observables of a decoded shot.
    pub fn num_observables(&self) -> u32 {
        self.decoder.num_observables()
    }

    /// The wrapped decoder.
    pub fn get_mut(&mut self) -> &mut D {
        &mut self.decoder
    }

    /// Decodes the detectors of one shot and writes the observables predicted to be flipped to `predicted`.
    ///
    /// # Errors
    /// [`DecodeError::Length`] if a row has another length than the decoder needs, and the errors of [`Decoder::decode`].
    pub fn decode(&mut self, detectors: &BitRow, predicted: &mut BitRow) -> Result<Matched, DecodeError> {
        for (what, expected, row) in [
            ("detectors", self.decoder.num_detectors(), detectors),
            ("observables", self.decoder.num_observables(), &*predicted),
        ] {
            if row.len() != expected {
                return Err(DecodeError::Length {
                    what,
                    expected: expected as usize,
                    found: row.len() as usize,
                });
            }
        }
        detectors.ones_into(&mut self.defects);
        let matched = self.decoder.decode(&self.defects, &mut self.observables)?;
        predicted.load(&self.observables, 0);
        Ok(matched)
    }
}

impl Decoder for Box<dyn Decoder> {
    fn num_detectors(&self) -> u32 {
        (**self).num_detectors()
    }

    fn num_observables(&self) -> u32 {
        (**self).num_observables()
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        (**self).decode(defects, observables)
    }

    fn decode_until(
        &mut self,
        defects: &[u32],
        observables: &mut [u8],
        expired: &mut dyn FnMut() -> bool,
    ) -> Result<Matched, DecodeError> {
        (**self).decode_until(defects, observables, expired)
    }
}
