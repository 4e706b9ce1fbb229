//! Residual decoding: from the detectors that inference leaves to an answer.

use crate::{Problem, WireForm};
use ringcall::Status;
use ringcall::wire::bits::{BitView, packed_len};
use ringcall::wire::qec::{DecodeResponse, read_decode_result};
use ringcall::wire::schema::HandlerSchema;
use ringcall_infer::ElementType;
use ringcall_qec::decode::{DecodeError, Decoder, Matched, MatchingEngine};

/// Turns the output of inference into an answer: `frame XOR decoded(residual)`. An empty residual needs no decoder. Each worker
/// has its own; it makes all answers, wherever inference ran.
///
/// ```
/// use ringcall::wire::qec::read_decode_result;
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// use ringcall_decoder_service::{Problem, ResidualDecoder};
///
/// let noise = CircuitNoise::uniform(0.003);
/// let experiment = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise };
/// let problem = Problem::new(experiment.detector_error_model()?)?;
/// let mut decoder = ResidualDecoder::new(&problem)?;
/// // An empty residual, and a flipped frame.
/// let mut left = vec![0; problem.inferred_bytes()];
/// *left.last_mut().expect("the frame") = 1;
/// let mut answer = vec![0; problem.result_bytes()];
/// let len = decoder.decode(&left, &mut answer).expect("an answer");
/// let schema = problem.schema();
/// let (predicted, _) = read_decode_result(&schema, &answer[..len])?;
/// assert!(predicted.ones().eq([0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ResidualDecoder {
    decoder: Box<dyn Decoder>,
    defects: Vec<u32>,
    predicted: Vec<u8>,
    detectors: usize,
    observables: usize,
    form: WireForm,
    /// No error is likelier than not, so the best answer to an empty residual is no flip.
    nothing_is_nothing: bool,
    /// The decoder's confidence in that answer.
    sure_of_nothing: Option<f64>,
}

impl std::fmt::Debug for ResidualDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResidualDecoder")
            .field("detectors", &self.detectors)
            .field("observables", &self.observables)
            .finish_non_exhaustive()
    }
}

impl ResidualDecoder {
    /// Makes a residual decoder with its own decoder.
    ///
    /// # Errors
    /// The decoder cannot be made.
    pub fn new(problem: &Problem) -> Result<Self, DecodeError> {
        Ok(Self {
            decoder: problem.decoder()?,
            defects: Vec::with_capacity(problem.detectors() as usize),
            predicted: vec![0; packed_len(problem.observables() as usize)],
            detectors: problem.detectors() as usize,
            observables: problem.observables() as usize,
            form: problem.form().clone(),
            nothing_is_nothing: problem.model().mechanisms.iter().all(|error| error.probability <= 0.5),
            sure_of_nothing: (problem.matching() == Some(MatchingEngine::Ensemble)).then_some(f64::INFINITY),
        })
    }

    /// Reads [`Problem::inferred_bytes`] bytes, residual detectors and logical frame bit-packed one after the other, and writes a
    /// result of `decode_syndrome`. Returns its length. Allocates nothing.
    ///
    /// # Errors
    /// [`Status::ENGINE_FAILED`] for another length, for bits set in padding, and for a syndrome that matching refuses;
    /// [`Status::RESULT_TOO_LONG`] if `out` is too short.
    pub fn decode(&mut self, inferred: &[u8], out: &mut [u8]) -> Result<usize, Status> {
        // Not trusted: inference may have run on a device.
        let (residual, frame) =
            inferred.split_at_checked(packed_len(self.detectors)).ok_or(Status::ENGINE_FAILED)?;
        let residual = BitView::new(residual, self.detectors).map_err(|_| Status::ENGINE_FAILED)?;
        let frame = BitView::new(frame, self.observables).map_err(|_| Status::ENGINE_FAILED)?.as_bytes();
        self.defects.clear();
        // An index below the number of detectors, which is a u32.
        self.defects.extend(residual.ones().map(|index| index as u32));
        let matched = if self.defects.is_empty() && self.nothing_is_nothing {
            self.predicted.fill(0);
            Matched {
                weight: 0.0,
                corrections: 0,
                converged: true,
                late: false,
                confidence: self.sure_of_nothing,
            }
        } else {
            self.decoder.decode(&self.defects, &mut self.predicted).map_err(|_| Status::ENGINE_FAILED)?
        };
        for (bits, frame) in self.predicted.iter_mut().zip(frame) {
            *bits ^= frame;
        }
        let outcome = DecodeResponse {
            total_corrections: i32::try_from(matched.corrections).unwrap_or(i32::MAX),
            converged: converged(&matched),
        };
        self.form.write_result(out, &self.predicted, outcome, matched.confidence)
    }

    /// The number of residual detectors of the last request.
    #[must_use]
    pub fn left(&self) -> usize {
        self.defects.len()
    }
}

/// The convergence of a decode, as its answer reports it.
#[must_use]
pub fn converged(matched: &Matched) -> i32 {
    match matched {
        Matched { late: true, .. } => DecodeResponse::LATE,
        Matched { converged: false, .. } => 0,
        _ => 1,
    }
}

/// Whether a result says that its decode exceeded the deadline ([`DecodeResponse::LATE`]).
#[must_use]
pub fn is_late(schema: &HandlerSchema, result: &[u8]) -> bool {
    read_decode_result(schema, result).is_ok_and(|(_, outcome)| outcome.converged == DecodeResponse::LATE)
}

/// Packs the first `count` elements of a tensor of one element a bit into bytes that are 0: set if an integer is not 0, or a
/// float is above one half. Call [`check_finite`](ringcall_infer::check_finite) first: a NaN is not set.
pub fn pack_elements(tensor: &[u8], element: ElementType, count: usize, packed: &mut [u8]) {
    let is_set = |bytes: &[u8]| match element {
        ElementType::F32 => bytes.try_into().is_ok_and(|bytes| f32::from_le_bytes(bytes) > 0.5),
        // Positive half-precision numbers are ordered like their bits; 0x3800 is one half, above 0x7C00 is NaN.
        ElementType::F16 => {
            bytes.try_into().is_ok_and(|bytes| (0x3801..=0x7C00).contains(&u16::from_le_bytes(bytes)))
        }
        ElementType::I32 | ElementType::I64 | ElementType::U8 | ElementType::Bool => {
            bytes.iter().any(|&byte| byte != 0)
        }
    };
    for (index, bytes) in tensor.chunks_exact(element.size_bytes()).take(count).enumerate() {
        if is_set(bytes)
            && let Some(byte) = packed.get_mut(index / 8)
        {
            *byte |= 1 << (index % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_count_above_one_half_and_nan_never() {
        let mut packed = [0];
        let tensor: Vec<u8> = [0.4_f32, 0.5, 0.51, -3.0, f32::NAN, f32::INFINITY]
            .iter()
            .flat_map(|f| f.to_le_bytes())
            .collect();
        pack_elements(&tensor, ElementType::F32, 6, &mut packed);
        assert_eq!(packed, [0b10_0100]);
        let mut packed = [0];
        let halves: Vec<u8> =
            [0x3800_u16, 0x3801, 0xBC00, 0x7E00, 0x7C00].iter().flat_map(|h| h.to_le_bytes()).collect();
        pack_elements(&halves, ElementType::F16, 5, &mut packed);
        assert_eq!(packed, [0b1_0010]);
        // Elements beyond the room are not written.
        pack_elements(&[1; 20], ElementType::U8, 20, &mut packed);
        assert_eq!(packed, [0xFF]);
    }
}
