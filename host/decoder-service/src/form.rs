//! How a problem's requests and answers look on the wire.

use ringcall::Status;
use ringcall::wire::bits::{BitView, packed_len};
use ringcall::wire::payload::TypeDesc;
use ringcall::wire::qec::{DecodeResponse, decode_syndrome_schema, read_decode_result, write_decode_result};
use ringcall::wire::schema::HandlerSchema;
use ringcall_qec::circuit::MeasurementLayout;
use ringcall_qec::shots::Bits;
use smallvec::SmallVec;
use std::sync::Arc;

/// A bit for each observable of a shot, 64 in a word; those of one word take no allocation.
pub type Observables = SmallVec<[u64; 1]>;

/// The form of a `decode_syndrome`.
///
/// | | request | answer |
/// |---|---|---|
/// | by itself | a bit for each detector | observables, then a [`DecodeResponse`] |
/// | measured | an `INT32` for each measurement, 0 or 1, as [`MeasurementLayout`] has them | the same |
/// | alone | either | a [`DecodeResponse`] alone |
#[derive(Debug, Clone)]
pub struct WireForm {
    detectors: usize,
    observables: usize,
    measurements: Option<Arc<MeasurementLayout>>,
    alone: bool,
    schema: HandlerSchema,
}

impl WireForm {
    pub(crate) fn new(detectors: u32, observables: u32) -> Self {
        Self {
            detectors: detectors as usize,
            observables: observables as usize,
            measurements: None,
            alone: false,
            schema: decode_syndrome_schema(detectors, observables),
        }
    }

    /// The same with measurements as requests. The layout has as many detectors.
    pub(crate) fn measured(self, layout: Arc<MeasurementLayout>) -> Self {
        Self { measurements: Some(layout), ..self }.described()
    }

    /// The same with answers that are a [`DecodeResponse`] alone.
    pub(crate) fn alone(self) -> Self {
        Self { alone: true, ..self }.described()
    }

    /// With the schema of its requests and answers; all sizes are far below 2^32.
    fn described(self) -> Self {
        let argument = match &self.measurements {
            Some(layout) => TypeDesc::array_int32(layout.measurements() as u32),
            None => TypeDesc::bit_packed(self.detectors as u32),
        };
        let schema = HandlerSchema::new().arg(argument);
        let schema =
            if self.alone { schema } else { schema.result(TypeDesc::bit_packed(self.observables as u32)) };
        Self { schema: schema.result(TypeDesc::int32()).result(TypeDesc::int32()), ..self }
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

    /// Which measurements a request has; `None` where it has detectors.
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
        DecodeResponse::BYTES + if self.alone { 0 } else { packed_len(self.observables) }
    }

    /// Writes the request of a shot, [`request_bytes`](Self::request_bytes) long: measurements with these detectors, what the
    /// experiment leaves open of them drawn by `coin`.
    pub fn write_request(&self, detectors: &Bits, coin: impl FnMut() -> bool, out: &mut RequestBuffer) {
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

    /// The detectors of a request, a bit each, into `out`; how many are set.
    ///
    /// # Errors
    /// [`Status::BAD_PAYLOAD`] for another length, bits set in padding, and measurements that are not 0 or 1;
    /// [`Status::ENGINE_FAILED`] where `out` is shorter than a bit for each detector.
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

    /// Writes an answer; its length. `observables` are packed, and not written where the answer is [alone](Self::is_alone).
    ///
    /// # Errors
    /// [`Status::RESULT_TOO_LONG`] where `out` is too short, or `observables` are not the problem's.
    pub fn write_result(
        &self,
        out: &mut [u8],
        observables: &[u8],
        outcome: DecodeResponse,
    ) -> Result<usize, Status> {
        if self.alone {
            let out = out.get_mut(..DecodeResponse::BYTES).ok_or(Status::RESULT_TOO_LONG)?;
            out.copy_from_slice(&outcome.to_bytes());
            return Ok(DecodeResponse::BYTES);
        }
        write_decode_result(&self.schema, out, observables, outcome).map_err(|_| Status::RESULT_TOO_LONG)
    }

    /// Reads an answer: its observables, of which there are none where it is [alone](Self::is_alone); and its outcome. `None` for bytes
    /// that are no answer.
    #[must_use]
    pub fn read_result(&self, result: &[u8]) -> Option<(Observables, DecodeResponse)> {
        if self.alone {
            let outcome = DecodeResponse::from_bytes(result).ok()?;
            return matches!(outcome.converged, 0 | 1 | DecodeResponse::LATE)
                .then(|| (Observables::new(), outcome));
        }
        let (bits, outcome) = read_decode_result(&self.schema, result).ok()?;
        let mut observables = Observables::from_elem(0, self.observables.div_ceil(64));
        for index in bits.ones() {
            observables[index / 64] |= 1 << (index % 64);
        }
        Some((observables, outcome))
    }
}

/// A request, and what it is made with.
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
            let mut detectors = Bits::new(16);
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
        assert_eq!(form.write_result(&mut out, &[1], outcome), Ok(8));
        assert_eq!(form.read_result(&out[..8]), Some((Observables::new(), outcome)));
        assert_eq!(form.read_result(&out), None);
        assert_eq!(form.write_result(&mut out[..7], &[1], outcome), Err(Status::RESULT_TOO_LONG));
    }
}
