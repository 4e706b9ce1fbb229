//! Payload of `decode_syndrome`.
//!
//! `decode_syndrome` is ours: one request with all detectors of a decoding round, one response with everything known.
//!
//! | | offset | value |
//! |---|---|---|
//! | argument | 0 | `BIT_PACKED`, one bit per detector |
//! | result 0 | 0 | `BIT_PACKED`, one bit per observable: flip or not |
//! | result 1 | ceil(observables / 8) | `INT32` total corrections: matched edges or flipped bits, as the decoder counts |
//! | result 2 | + 4 | `INT32` converged: 1, or 0 when the decoder gave up; 3 when time was up, and the answer is the best so far |
//!
//! A service that was asked for it adds a result 3, a `FLOAT32`: the natural logarithm of the odds that the observables are right. Its
//! schema has that result, too.
//!
//! Results 1 and 2 have the bytes of a [`DecodeResponse`], which the older predecoder pipeline answers with alone.
//!
//! The calls of a decoding server are in [`decoding`](crate::decoding).

use core::mem::{align_of, offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::bits::BitView;
use crate::codec::{PayloadDecoder, PayloadEncoder};
use crate::error::{WireError, check_len};
use crate::payload::TypeDesc;
use crate::schema::HandlerSchema;

/// Outcome of a decode: 8 bytes, little-endian.
///
/// ```
/// use ringcall_wire::DecodeResponse;
/// let response = DecodeResponse { total_corrections: 3, converged: 1 };
/// assert_eq!(response.to_bytes(), [3, 0, 0, 0, 1, 0, 0, 0]);
/// assert_eq!(DecodeResponse::from_bytes(&response.to_bytes()), Ok(response));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DecodeResponse {
    /// Corrections made, summed over everything that was decoded.
    pub total_corrections: i32,
    /// 1 when every decode converged, 0 when one gave up, [`LATE`](Self::LATE) when time was up.
    pub converged: i32,
}

const _: () = {
    assert!(size_of::<DecodeResponse>() == DecodeResponse::BYTES && align_of::<DecodeResponse>() == 4);
    assert!(offset_of!(DecodeResponse, total_corrections) == 0 && offset_of!(DecodeResponse, converged) == 4);
};

impl DecodeResponse {
    /// Bytes on the wire.
    pub const BYTES: usize = 8;

    /// The value of `converged` where time was up before the decoder came to its end. The correction is the best so far; that
    /// of matching explains the syndrome.
    pub const LATE: i32 = 3;

    /// Whether time was up before the decoder came to its end.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.converged == Self::LATE
    }

    /// As on the wire.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.total_corrections.to_le_bytes();
        let [e, f, g, h] = self.converged.to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// From the wire, at any alignment.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TrailingBytes`] when there are not exactly 8 bytes.
    pub const fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        if let Err(error) = check_len(Self::BYTES, bytes.len()) {
            return Err(error);
        }
        let [a, b, c, d, e, f, g, h] = *bytes else {
            return Err(WireError::Truncated { needed: Self::BYTES, available: bytes.len() });
        };
        Ok(Self {
            total_corrections: i32::from_le_bytes([a, b, c, d]),
            converged: i32::from_le_bytes([e, f, g, h]),
        })
    }
}

/// Schema of `decode_syndrome` for a number of detectors and observables.
#[must_use]
pub const fn decode_syndrome_schema(detectors: u32, observables: u32) -> HandlerSchema {
    HandlerSchema::new()
        .arg(TypeDesc::bit_packed(detectors))
        .result(TypeDesc::bit_packed(observables))
        .result(TypeDesc::int32())
        .result(TypeDesc::int32())
}

/// Writes the result of a `decode_syndrome`: `observables` already packed, unused bits zero. Returns `result_len`.
///
/// ```
/// use ringcall_wire::DecodeResponse;
/// use ringcall_wire::qec::{decode_syndrome_schema, read_decode_result, write_decode_result};
///
/// let schema = decode_syndrome_schema(24, 1);
/// let outcome = DecodeResponse { total_corrections: 2, converged: 1 };
/// let mut payload = [0; 9];
/// assert_eq!(write_decode_result(&schema, &mut payload, &[1], outcome)?, 9);
/// let (observables, read) = read_decode_result(&schema, &payload)?;
/// assert_eq!((observables.get(0), read), (Some(true), outcome));
/// # Ok::<(), ringcall_wire::WireError>(())
/// ```
///
/// # Errors
/// As the pushes of [`PayloadEncoder`]: a schema of another shape, another number of bytes, set unused bits, too short a
/// buffer.
pub fn write_decode_result(
    schema: &HandlerSchema,
    out: &mut [u8],
    observables: &[u8],
    outcome: DecodeResponse,
) -> Result<usize, WireError> {
    let mut encoder = PayloadEncoder::results(schema, out)?;
    encoder.packed_bits(observables)?.i32(outcome.total_corrections)?.i32(outcome.converged)?.finish()
}

/// Reads the result of a `decode_syndrome`.
///
/// # Errors
/// As the reads of [`PayloadDecoder`]; [`WireError::ValueOutOfRange`] when `converged` is not 0, 1 or [`DecodeResponse::LATE`].
pub fn read_decode_result<'a>(
    schema: &'a HandlerSchema,
    payload: &'a [u8],
) -> Result<(BitView<'a>, DecodeResponse), WireError> {
    let mut decoder = PayloadDecoder::results(schema, payload)?;
    let observables = decoder.bits()?;
    let outcome = DecodeResponse { total_corrections: decoder.i32()?, converged: decoder.i32()? };
    decoder.finish()?;
    if !matches!(outcome.converged, 0 | 1 | DecodeResponse::LATE) {
        let max = DecodeResponse::LATE.cast_unsigned();
        return Err(WireError::ValueOutOfRange { index: 2, value: outcome.converged.cast_unsigned(), max });
    }
    Ok((observables, outcome))
}
