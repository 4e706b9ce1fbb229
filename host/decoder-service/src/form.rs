//! Wire form of a problem's requests and answers.

use ringcall::Status;
use ringcall::wire::bits::{BitView, packed_len};
use ringcall::wire::payload::TypeDesc;
use ringcall::wire::qec::{DecodeResponse, decode_syndrome_schema};
use ringcall::wire::schema::HandlerSchema;
use ringcall::wire::{PayloadDecoder, PayloadEncoder};
use ringcall_qec::circuit::MeasurementLayout;
use ringcall_qec::shots::BitRow;
use smallvec::SmallVec;
use std::sync::Arc;

/// A bit for each observable of a shot, 64 in a word; one word needs no allocation.
pub type Observables = SmallVec<[u64; 1]>;

/// The form of `decode_syndrome` requests and answers.
///
/// | | request | answer |
/// |---|---|---|
/// | plain | a bit for each detector | observables, then a [`DecodeResponse`] |
/// | measured | an `INT32` for each measurement, 0 or 1, in the order of [`MeasurementLayout`] | the same |
/// | alone | either | a [`DecodeResponse`] alone |
/// | with confidence | either | the same, then a `FLOAT32`: the natural logarithm of the odds that the observables are right |
#[derive(Debug, Clone)]
pub struct WireForm {
    detectors: usize,
    observables: usize,
    measurements: Option<Arc<MeasurementLayout>>,
    alone: bool,
    confident: bool,
    schema: HandlerSchema,
}

impl WireForm {
    pub(crate) fn new(detectors: u32, observables: u32) -> Self {
        Self {
            detectors: detectors as usize,
            observables: observables as usize,
            measurements: None,
            alone: false,
            confident: false,
            schema: decode_syndrome_schema(detectors, observables),
        }
    }

    /// The same form with measurements as requests. The layout has as many detectors.
    pub(crate) fn measured(self, layout: Arc<MeasurementLayout>) -> Self {
        Self { measurements: Some(layout), ..self }.described()
    }

    /// The same form with a [`DecodeResponse`] alone as the answer.
    pub(crate) fn alone(self) -> Self {
        Self { alone: true, ..self }.described()
    }

    /// The same form with a confidence at the end of each answer.
    pub(crate) fn confident(self) -> Self {
        Self { confident: true, ..self }.described()
    }

    /// Adds the schema of requests and answers; all sizes are far below 2^32.
    fn described(self) -> Self {
        let argument = match &self.measurements {
            Some(layout) => TypeDesc::array_int32(layout.measurements() as u32),
            None => TypeDesc::bit_packed(self.detectors as u32),
        };
        let schema = HandlerSchema::new().arg(argument);
        let schema =
            if self.alone { schema } else { schema.result(TypeDesc::bit_packed(self.observables as u32)) };
        let schema = schema.result(TypeDesc::int32()).result(TypeDesc::int32());
        let schema = if self.confident { schema.result(TypeDesc::float32()) } else { schema };
        Self { schema, ..self }
    }

    /// The schema of `decode_syndrome` in this form.
    #[must_use]
    pub fn schema(&self) -> HandlerSchema {
        self.schema
    }

    /// Whether an answer is a [`DecodeResponse`] alone.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether an answer ends with its confidence.
    #[must_use]
    pub fn is_confident(&self) -> bool {
        self.confident
    }

    /// The layout of a request's measurements; `None` if requests have detectors.
    #[must_use]
    pub fn measurements(&self) -> Option<&Arc<MeasurementLayout>> {
        self.measurements.as_ref()
    }

    /// Bytes of a request.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        let detectors = packed_len(self.detectors);
        self.measurements.as_ref().map_or(detectors, |layout| 4 * layout.measurements())
    }

    /// Bytes of an answer.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        let observables = if self.alone { 0 } else { packed_len(self.observables) };
        observables + DecodeResponse::BYTES + if self.confident { CONFIDENCE_BYTES } else { 0 }
    }

    /// Writes the request of a shot, [`request_bytes`](Self::request_bytes) long. Measurements match the detectors, and `coin`
    /// draws those that detectors do not determine.
    pub fn write_request(&self, detectors: &BitRow, coin: impl FnMut() -> bool, out: &mut RequestBuffer) {
        let RequestBuffer { payload, integers } = out;
        payload.resize(self.request_bytes(), 0);
        match &self.measurements {
            None => {
                for (place, byte) in payload.iter_mut().zip(detectors.iter_bytes()) {
                    *place = byte;
                }
            }
            Some(layout) => {
                integers.resize(layout.measurements(), 0);
                layout.measure(detectors.iter_ones(), coin, integers);
                for (bytes, value) in payload.as_chunks_mut::<4>().0.iter_mut().zip(integers) {
                    *bytes = value.to_le_bytes();
                }
            }
        }
    }

    /// Writes the detectors of a request, a bit each, to `out`. Returns the number of those that are set.
    ///
    /// # Errors
    /// [`Status::BAD_PAYLOAD`] for another length, bits set in padding, and measurements that are not 0 or 1;
    /// [`Status::ENGINE_FAILED`] if `out` is shorter than a bit for each detector.
    pub fn detectors(&self, payload: &[u8], out: &mut [u8]) -> Result<usize, Status> {
        let out = out.get_mut(..packed_len(self.detectors)).ok_or(Status::ENGINE_FAILED)?;
        let Some(layout) = &self.measurements else {
            let bits = BitView::new(payload, self.detectors).map_err(|_| Status::BAD_PAYLOAD)?;
            out.copy_from_slice(bits.as_bytes());
            return Ok(bits.count_ones());
        };
        let (values, rest) = payload.as_chunks::<4>();
        let whole = rest.is_empty() && values.len() == layout.measurements();
        if !whole || values.iter().any(|&value| !matches!(i32::from_le_bytes(value), 0 | 1)) {
            return Err(Status::BAD_PAYLOAD);
        }
        out.fill(0);
        let mut set = 0;
        for index in 0..self.detectors {
            if layout.detector(index, |at| values.get(at).is_some_and(|value| value[0] == 1)) {
                out[index / 8] |= 1 << (index % 8);
                set += 1;
            }
        }
        Ok(set)
    }

    /// Writes an answer. Returns its length. `observables` are packed, and not written if answers are [alone](Self::is_alone);
    /// `confidence` is written if answers [have one](Self::is_confident), as NaN for `None`.
    ///
    /// # Errors
    /// [`Status::RESULT_TOO_LONG`] if `out` is too short, or `observables` has another length than the problem's.
    pub fn write_result(
        &self,
        out: &mut [u8],
        observables: &[u8],
        outcome: DecodeResponse,
        confidence: Option<f64>,
    ) -> Result<usize, Status> {
        let mut encoder = PayloadEncoder::results(&self.schema, out).map_err(|_| Status::RESULT_TOO_LONG)?;
        let mut write = || {
            if !self.alone {
                encoder.packed_bits(observables)?;
            }
            encoder.i32(outcome.total_corrections)?.i32(outcome.converged)?;
            if self.confident {
                encoder.f32(confidence.unwrap_or(f64::NAN) as f32)?;
            }
            encoder.finish()
        };
        write().map_err(|_| Status::RESULT_TOO_LONG)
    }

    /// Reads an answer; `None` for malformed bytes.
    #[must_use]
    pub fn read_result(&self, result: &[u8]) -> Option<Answer> {
        let mut decoder = PayloadDecoder::results(&self.schema, result).ok()?;
        let mut observables = Observables::new();
        if !self.alone {
            observables.resize(self.observables.div_ceil(64), 0);
            for index in decoder.bits().ok()?.ones() {
                observables[index / 64] |= 1 << (index % 64);
            }
        }
        let outcome =
            DecodeResponse { total_corrections: decoder.i32().ok()?, converged: decoder.i32().ok()? };
        let confidence = if self.confident { Some(f64::from(decoder.f32().ok()?)) } else { None };
        decoder.finish().ok()?;
        let known = matches!(outcome.converged, 0 | 1 | DecodeResponse::LATE);
        known.then_some(Answer { observables, outcome, confidence })
    }
}

/// The contents of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// A bit for each observable; none if the answer is [alone](WireForm::is_alone).
    pub observables: Observables,
    /// How the decode ended.
    pub outcome: DecodeResponse,
    /// The natural logarithm of the odds that the observables are right, if answers [have one](WireForm::is_confident): infinite
    /// if the decoder saw no alternative, NaN if it reports none.
    pub confidence: Option<f64>,
}

/// Bytes of a confidence.
const CONFIDENCE_BYTES: usize = 4;

/// A request, and the buffers for making it.
#[derive(Debug, Clone, Default)]
pub struct RequestBuffer {
    /// The request.
    pub payload: Vec<u8>,
    integers: Vec<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
    use ringcall_qec::code::Basis;

    fn measured() -> WireForm {
        let experiment =
            MemoryExperiment { distance: 3, rounds: 2, basis: Basis::X, noise: CircuitNoise::default() };
        let layout = MeasurementLayout::new(&experiment).expect("an experiment");
        WireForm::new(layout.detectors() as u32, 1).measured(Arc::new(layout))
    }

    #[test]
    fn detectors_come_back_from_measurements() {
        let form = measured();
        let (mut buffer, mut packed) = (RequestBuffer::default(), [0; 2]);
        for shot in 0..1_u32 << 16 {
            let mut detectors = BitRow::new(16);
            (0..16).filter(|i| shot >> i & 1 == 1).for_each(|i| {
                detectors.set(i, true);
            });
            let mut coin = shot;
            form.write_request(
                &detectors,
                || {
                    coin = coin.wrapping_mul(747_796_405) + 1;
                    coin >> 31 == 1
                },
                &mut buffer,
            );
            assert_eq!(form.detectors(&buffer.payload, &mut packed), Ok(shot.count_ones() as usize));
            assert_eq!(u32::from(u16::from_le_bytes(packed)), shot);
        }
    }

    #[test]
    fn measurements_that_are_no_bits_are_refused() {
        let form = measured();
        let mut payload = vec![0; form.request_bytes()];
        assert_eq!(form.detectors(&payload, &mut [0; 2]), Ok(0));
        assert_eq!(form.detectors(&payload[1..], &mut [0; 2]), Err(Status::BAD_PAYLOAD));
        assert_eq!(form.detectors(&payload, &mut [0; 1]), Err(Status::ENGINE_FAILED));
        payload[3] = 1;
        assert_eq!(form.detectors(&payload, &mut [0; 2]), Err(Status::BAD_PAYLOAD));
    }

    #[test]
    fn an_answer_alone_is_8_bytes() {
        let form = measured().alone();
        assert_eq!((form.result_bytes(), form.schema().results_bytes()), (8, Ok(8)));
        let (mut out, outcome) = ([0xFF; 9], DecodeResponse { total_corrections: 3, converged: 1 });
        assert_eq!(form.write_result(&mut out, &[1], outcome, None), Ok(8));
        let answer = Answer { observables: Observables::new(), outcome, confidence: None };
        assert_eq!(form.read_result(&out[..8]), Some(answer));
        assert_eq!(form.read_result(&out), None);
        assert_eq!(form.write_result(&mut out[..7], &[1], outcome, None), Err(Status::RESULT_TOO_LONG));
    }

    #[test]
    fn a_confidence_is_the_last_four_bytes_of_an_answer_that_has_one() {
        let (plain, form) = (WireForm::new(24, 3), WireForm::new(24, 3).confident());
        assert_eq!((plain.result_bytes(), plain.schema().results_bytes()), (9, Ok(9)));
        assert_eq!((form.result_bytes(), form.schema().results_bytes()), (13, Ok(13)));
        let outcome = DecodeResponse { total_corrections: 2, converged: 1 };
        let mut bytes = [[0xFF; 13]; 2];
        assert_eq!(plain.write_result(&mut bytes[0], &[5], outcome, Some(2.5)), Ok(9));
        for confidence in [2.5, -1.0, f64::INFINITY] {
            assert_eq!(form.write_result(&mut bytes[1], &[5], outcome, Some(confidence)), Ok(13));
            assert_eq!(bytes[0][..9], bytes[1][..9]);
            let answer =
                Answer { observables: Observables::from_elem(5, 1), outcome, confidence: Some(confidence) };
            assert_eq!(form.read_result(&bytes[1]), Some(answer));
        }
        assert_eq!(form.write_result(&mut bytes[1], &[5], outcome, None), Ok(13));
        assert!(form.read_result(&bytes[1]).and_then(|answer| answer.confidence).is_some_and(f64::is_nan));
        assert_eq!((form.read_result(&bytes[0][..9]), plain.read_result(&bytes[1])), (None, None));
        assert_eq!(form.write_result(&mut bytes[1][..12], &[5], outcome, None), Err(Status::RESULT_TOO_LONG));
        // Alone, and of measurements.
        let both = measured().confident().alone();
        assert_eq!((both.result_bytes(), both.schema().results_bytes()), (12, Ok(12)));
    }
}
