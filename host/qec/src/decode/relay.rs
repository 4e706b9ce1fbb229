//! The belief propagation decoder: `ringcall-bp` on any detector error model, with this crate's errors.

use ringcall_bp::{BpConfig, BpDecoder, BpError, BpGraph, BpGraphBuilder, BpOutcome};

use super::{DecodeError, Decoder, DecoderFactory, Matched};
use crate::dem::DetectorErrorModel;

/// Belief propagation with memory in relayed legs, on a model whose errors may flip any number of detectors.
///
/// The decoder ignores decompositions of errors into edges: each error counts as a whole, and errors with the same symptoms are
/// merged. An error that is likelier than not counts as one that always happens and is undone with the remaining probability.
///
/// The weight of an answer is a sum of priors rounded to eighths. An answer that does not explain the syndrome says so
/// ([`Matched::converged`]); its observables are the best guess.
///
/// ```
/// use ringcall_qec::decode::{BpConfig, Decoder, RelayDecoder};
/// let model = ringcall_qec::dem::text::parse("error(0.01) D0\nerror(0.01) D0 D1 D2 L0\nerror(0.01) D2 L1")?;
/// let mut decoder = RelayDecoder::from_dem(&model, &BpConfig::relay())?;
/// let mut observables = [0u8];
/// let matched = decoder.decode(&[0, 1, 2], &mut observables)?;
/// assert!(matched.converged);
/// assert_eq!((observables, matched.corrections), ([1], 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RelayDecoder {
    decoder: BpDecoder,
    likely: Likely,
    /// A bit for each detector, if the model has likely errors.
    fired: Vec<u64>,
    defects: Vec<u32>,
    outcome: Option<BpOutcome>,
}

/// The symptoms of the errors above one half, flipped in every shot.
#[derive(Debug, Clone, Default)]
struct Likely {
    /// Packed bits; empty if there are none.
    detectors: Vec<u64>,
    observables: Vec<u8>,
}

impl Likely {
    fn toggle(&mut self, model: &DetectorErrorModel, detectors: &[u32], observables: &[u32]) {
        self.detectors.resize((model.num_detectors as usize).div_ceil(64), 0);
        self.observables.resize((model.num_observables as usize).div_ceil(8), 0);
        detectors.iter().for_each(|id| self.detectors[*id as usize / 64] ^= 1 << (id % 64));
        observables.iter().for_each(|id| self.observables[*id as usize / 8] ^= 1 << (id % 8));
    }
}

impl RelayDecoder {
    /// A decoder of `model`.
    ///
    /// # Errors
    /// As [`RelayFactory::new`].
    pub fn from_dem(model: &DetectorErrorModel, config: &BpConfig) -> Result<Self, DecodeError> {
        RelayFactory::new(model, config).map(|factory| factory.prototype)
    }

    /// The outcome of the last decode: legs and iterations; `None` before the first.
    pub fn outcome(&self) -> Option<BpOutcome> {
        self.outcome
    }

    /// The engine.
    pub fn engine(&self) -> &BpDecoder {
        &self.decoder
    }

    /// The defects that remain without the symptoms of likely errors.
    fn without_likely(&mut self, defects: &[u32]) -> Result<(), DecodeError> {
        let count = self.num_detectors();
        self.fired.fill(0);
        for &detector in defects {
            if detector >= count {
                return Err(DecodeError::Detector { detector, count });
            }
            let (word, bit) = (detector as usize / 64, 1 << (detector % 64));
            if self.fired[word] & bit != 0 {
                return Err(DecodeError::Duplicate { detector });
            }
            self.fired[word] |= bit;
        }
        self.defects.clear();
        for (at, (fired, likely)) in (0..).zip(self.fired.iter().zip(&self.likely.detectors)) {
            let mut word = fired ^ likely;
            while word != 0 {
                self.defects.push(64 * at + word.trailing_zeros());
                word &= word - 1;
            }
        }
        Ok(())
    }
}

impl Decoder for RelayDecoder {
    fn num_detectors(&self) -> u32 {
        self.decoder.graph().num_checks() as u32
    }

    fn num_observables(&self) -> u32 {
        self.decoder.graph().num_observables() as u32
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        self.decode_until(defects, observables, &mut || false)
    }

    /// The decoder calls `expired` before each iteration. A late answer without a solution does not explain the syndrome.
    fn decode_until(
        &mut self,
        defects: &[u32],
        observables: &mut [u8],
        expired: &mut dyn FnMut() -> bool,
    ) -> Result<Matched, DecodeError> {
        let count = self.num_detectors();
        let go_on = || !expired();
        let outcome = if self.likely.detectors.is_empty() {
            self.decoder.decode_while(defects, observables, go_on)
        } else {
            self.without_likely(defects)?;
            self.decoder.decode_while(&self.defects, observables, go_on)
        }
        .map_err(|error| refusal(error, count))?;
        observables.iter_mut().zip(&self.likely.observables).for_each(|(byte, likely)| *byte ^= likely);
        self.outcome = Some(outcome);
        Ok(Matched {
            weight: f64::from(outcome.weight) / PRIOR_STEPS,
            corrections: self.decoder.error().len() as u32,
            converged: outcome.converged,
            late: outcome.cancelled,
            confidence: None,
        })
    }
}

/// Priors are whole eighths.
const PRIOR_STEPS: f64 = 8.0;

fn refusal(error: BpError, count: u32) -> DecodeError {
    match error {
        BpError::CheckOutOfRange { check: detector, .. } => DecodeError::Detector { detector, count },
        BpError::DuplicateDefect { defect: detector } => DecodeError::Duplicate { detector },
        BpError::ObservablesLength { found, expected } => {
            DecodeError::Length { what: "bytes for observables", expected, found }
        }
        other => DecodeError::Relay(other),
    }
}

/// Makes [`RelayDecoder`]s that share their graph.
#[derive(Debug, Clone)]
pub struct RelayFactory {
    prototype: RelayDecoder,
}

impl RelayFactory {
    /// Decoders of `model`. Errors of probability 0 are left out, and so are those that flip no detector: no syndrome shows
    /// them.
    ///
    /// # Errors
    /// [`DecodeError::Model`] for a model that contradicts itself, [`DecodeError::Relay`] for one that is too large, for an
    /// error that flips too many detectors, and for a configuration out of range.
    pub fn new(model: &DetectorErrorModel, config: &BpConfig) -> Result<Self, DecodeError> {
        model.validate()?;
        let mut builder = BpGraphBuilder::new(model.num_detectors, model.num_observables);
        let mut likely = Likely::default();
        for error in &model.mechanisms {
            let (p, detectors, observables) = (error.probability, &error.detectors, &error.observables);
            // No syndrome shows an error without detectors, however likely: matching leaves such an error out as well.
            if p > 0.5 && !detectors.is_empty() {
                likely.toggle(model, detectors, observables);
            }
            builder.error(p.min(1.0 - p), detectors, observables)?;
        }
        let graph: BpGraph = builder.build()?;
        let decoder = BpDecoder::new(&graph, config)?;
        let fired = vec![0; likely.detectors.len()];
        let defects = match fired.len() {
            0 => Vec::new(),
            _ => Vec::with_capacity(model.num_detectors as usize),
        };
        Ok(Self { prototype: RelayDecoder { decoder, likely, fired, defects, outcome: None } })
    }

    /// Whether the model has errors that are likelier than not, which decoders take out of a syndrome before its graph is used.
    pub fn has_likely_errors(&self) -> bool {
        !self.prototype.likely.detectors.is_empty()
    }

    /// The decoders' configuration.
    pub fn config(&self) -> &BpConfig {
        self.prototype.decoder.config()
    }

    /// The graph that the decoders share.
    pub fn graph(&self) -> &BpGraph {
        self.prototype.decoder.graph()
    }
}

impl DecoderFactory for RelayFactory {
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        Ok(Box::new(RelayDecoder::clone(&self.prototype)))
    }
}
