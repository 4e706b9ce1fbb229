//! Decoding of batches of shots in packed bits, from the text of a detector error model.

use super::{DecodeError, Decoder, DecoderFactory, DecoderOptions, ModelDecoders};
use crate::QecError;
use crate::dem::text;

/// A decoder of batches: correlated matching if the model has correlations to use, else plain matching, and Relay-BP if matching
/// cannot decode the model.
///
/// ```
/// use ringcall_qec::decode::BatchDecoder;
///
/// // Three qubits in a row with two checks; an error on the last flips the observable.
/// let mut decoder = BatchDecoder::from_dem("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0")?;
/// // One byte a shot: no detector, D0 alone, D1 alone, both.
/// assert_eq!(decoder.decode_batch(&[0b00, 0b01, 0b10, 0b11])?, [0, 0, 1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BatchDecoder {
    decoder: Box<dyn Decoder>,
    name: &'static str,
    defects: Vec<u32>,
}

impl std::fmt::Debug for BatchDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchDecoder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl BatchDecoder {
    /// Reads a detector error model in Stim's text format.
    ///
    /// # Errors
    /// [`DecodeError::Model`] for malformed text, with the number of the line, and the errors of [`ModelDecoders::new`].
    pub fn from_dem(text: &str) -> Result<Self, DecodeError> {
        let decoders =
            ModelDecoders::new(&text::parse(text).map_err(QecError::from)?, &DecoderOptions::default())?;
        let decoder = decoders.build()?;
        let defects = Vec::with_capacity(decoder.num_detectors() as usize);
        Ok(Self { decoder, name: decoders.name(), defects })
    }

    /// The kind of decoder: `plain`, `correlated` or `relay`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Bytes of a shot: a bit for each detector, least significant first, rounded up (Stim's format `b8`). At least 1.
    #[must_use]
    pub fn shot_bytes(&self) -> usize {
        (self.decoder.num_detectors() as usize).div_ceil(8).max(1)
    }

    /// Bytes of a prediction: a bit for each observable, packed in the same way.
    #[must_use]
    pub fn prediction_bytes(&self) -> usize {
        (self.decoder.num_observables() as usize).div_ceil(8)
    }

    /// Predicts the flipped observables: [`prediction_bytes`](Self::prediction_bytes) for each shot of
    /// [`shot_bytes`](Self::shot_bytes).
    ///
    /// # Errors
    /// [`DecodeError::Length`] if `shots` does not divide into shots, and the error of [`Decoder::decode`] for the first shot
    /// that is refused: a shot that no errors explain, or with a bit beyond the last detector.
    pub fn decode_batch(&mut self, shots: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let (shot_bytes, prediction_bytes) = (self.shot_bytes(), self.prediction_bytes());
        let count = shots.len() / shot_bytes;
        if count * shot_bytes != shots.len() {
            let (what, found) = ("bytes of whole shots", shots.len());
            return Err(DecodeError::Length { what, expected: (count + 1) * shot_bytes, found });
        }
        let mut predictions = vec![0; count * prediction_bytes];
        for (index, shot) in shots.chunks_exact(shot_bytes).enumerate() {
            self.defects.clear();
            for (place, &byte) in shot.iter().enumerate() {
                let ones = (0..8).filter(|bit| byte >> bit & 1 == 1);
                self.defects.extend(ones.map(|bit| place as u32 * 8 + bit));
            }
            let prediction = &mut predictions[index * prediction_bytes..][..prediction_bytes];
            self.decoder.decode(&self.defects, prediction)?;
        }
        Ok(predictions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::{Code, Experiment};
    use crate::sample::Sampler;

    #[test]
    fn a_batch_is_its_shots_one_by_one() {
        for code in [Code::Surface, Code::Bb72] {
            let model = Experiment { p: 0.003, ..Experiment::of(code) }.detector_error_model().unwrap();
            let mut batch = BatchDecoder::from_dem(&model.to_string()).unwrap();
            assert_eq!(batch.name(), if code == Code::Surface { "correlated" } else { "relay" });
            let mut decoder =
                ModelDecoders::new(&model, &DecoderOptions::default()).unwrap().build().unwrap();
            let mut sampler = Sampler::new(&model, 5).unwrap();
            let mut shot = sampler.new_shot();
            let (mut shots, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..50 {
                sampler.sample_into(&mut shot).unwrap();
                shots.extend(shot.detectors.iter_bytes().take(batch.shot_bytes()));
                let mut defects = Vec::new();
                shot.detectors.ones_into(&mut defects);
                let mut prediction = vec![0; batch.prediction_bytes()];
                decoder.decode(&defects, &mut prediction).unwrap();
                expected.extend(prediction);
            }
            assert_eq!(batch.decode_batch(&shots).unwrap(), expected);
            assert!(shots.iter().any(|&byte| byte != 0));
        }
    }

    #[test]
    fn what_is_no_batch_is_refused_and_the_next_is_right() {
        let mut decoder = BatchDecoder::from_dem("error(0.1) D0 L0\nerror(0.1) D8 D0").unwrap();
        assert_eq!((decoder.shot_bytes(), decoder.prediction_bytes()), (2, 1));
        assert!(matches!(
            decoder.decode_batch(&[1, 0, 1]),
            Err(DecodeError::Length { expected: 4, found: 3, .. })
        ));
        // A bit beyond the last detector.
        assert!(decoder.decode_batch(&[0, 2]).is_err());
        assert_eq!(decoder.decode_batch(&[1, 0]).unwrap(), [1]);
        assert_eq!(decoder.decode_batch(&[]).unwrap(), []);
        let error = BatchDecoder::from_dem("error(0.1) D0\nerror(2) D1").unwrap_err();
        assert!(error.to_string().contains('2'), "{error}");
    }
}
