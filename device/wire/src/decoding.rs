//! Payloads and statuses of a decoding server's three calls: `enqueue_syndromes`, `get_corrections`, `reset_decoder`.
//!
//! Each decoder of a server has a *session*, which collects measurements until there are as many as one decode takes. Payloads are
//! little-endian and packed, bits as in [`bits`](crate::bits).
//!
//! | call | offset | argument | result |
//! |---|---|---|---|
//! | `enqueue_syndromes` | 0, 8, 16, 24, 32 | i64 decoder id, i64 counter, i64 mapping id (0), i64 number of bits, the bits | none |
//! | `get_corrections` | 0, 8, 16 | i64 decoder id, i64 number of corrections, u8: clear them afterwards | a bit per correction |
//! | `reset_decoder` | 0 | i64 decoder id | none |
//!
//! A payload may be longer than its call needs, since CUDA-Q pads some to whole words; what follows is not read. Source: the public
//! header of CUDA-Q QEC's decoding server, August 2026.
//!
//! ```
//! use ringcall_wire::decoding::{EnqueueSyndromes, GetCorrections};
//!
//! let mut payload = [0; 40];
//! let request = EnqueueSyndromes { decoder_id: 3, counter: 0, num_syndromes: 10, bits: &[0b1, 0b10] };
//! let len = request.write(&mut payload).expect("it fits");
//! assert_eq!((len, EnqueueSyndromes::read(&payload[..len])), (34, Ok(request)));
//!
//! let request = GetCorrections { decoder_id: 3, return_size: 1, reset: true };
//! assert_eq!(GetCorrections::read(&request.to_bytes()), Ok(request));
//! ```

use crate::bits::packed_len;
use crate::status::Status;

/// Payload bytes of `enqueue_syndromes` in front of the measurements.
pub const ENQUEUE_SYNDROMES_BYTES: usize = 32;
/// Payload bytes of `get_corrections`.
pub const GET_CORRECTIONS_BYTES: usize = 17;
/// Payload bytes of `reset_decoder`.
pub const RESET_DECODER_BYTES: usize = 8;
/// The most measurements of one `enqueue_syndromes`.
pub const MAX_SYNDROME_BITS: usize = 1 << 20;

/// How a decoding server answers: the positive statuses of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DecodingStatus {
    /// Done; of `enqueue_syndromes`: the measurements were taken.
    Ok = 0,
    /// The server has no decoder of this id.
    InvalidDecoder = 1,
    /// A payload that is too short, or a number in it that is out of range.
    BadRequest = 2,
    /// The session has failed and waits for `reset_decoder`, or the result does not fit the slot.
    InternalError = 3,
    /// The decode is not complete: more measurements are expected.
    NotReady = 4,
    /// Another call on the same decoder is under way.
    Busy = 5,
    /// Measurements were lost, because they came while another call on the same decoder was under way.
    SyndromesDropped = 6,
}

impl DecodingStatus {
    /// Every status, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::InvalidDecoder,
        Self::BadRequest,
        Self::InternalError,
        Self::NotReady,
        Self::Busy,
        Self::SyndromesDropped,
    ];

    /// The status of a code; `None` for a protocol's status and for codes that no call has.
    #[must_use]
    pub const fn of(status: Status) -> Option<Self> {
        Some(match status.0 {
            0 => Self::Ok,
            1 => Self::InvalidDecoder,
            2 => Self::BadRequest,
            3 => Self::InternalError,
            4 => Self::NotReady,
            5 => Self::Busy,
            6 => Self::SyndromesDropped,
            _ => return None,
        })
    }

    /// The code in a response's header.
    #[must_use]
    pub const fn status(self) -> Status {
        Status(self as i32)
    }

    /// Its name in the header of CUDA-Q QEC.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::InvalidDecoder => "INVALID_DECODER",
            Self::BadRequest => "BAD_REQUEST",
            Self::InternalError => "INTERNAL_ERROR",
            Self::NotReady => "NOT_READY",
            Self::Busy => "BUSY",
            Self::SyndromesDropped => "SYNDROMES_DROPPED",
        }
    }
}

impl core::fmt::Display for DecodingStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({})", *self as i32, self.name())
    }
}

/// The arguments of `enqueue_syndromes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnqueueSyndromes<'a> {
    /// Which decoder.
    pub decoder_id: i64,
    /// A number of the caller's, which a server does not judge.
    pub counter: i64,
    /// How many measurements there are.
    pub num_syndromes: u32,
    /// The measurements, at least as many as `num_syndromes`; bits past them are not read.
    pub bits: &'a [u8],
}

/// The arguments of `get_corrections`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetCorrections {
    /// Which decoder.
    pub decoder_id: i64,
    /// How many corrections are expected: as many as the decoder has observables.
    pub return_size: i64,
    /// Whether the corrections are cleared when they have been copied.
    pub reset: bool,
}

/// Why a payload is malformed. The answer is [`BadRequest`](DecodingStatus::BadRequest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is shorter than its call, or than the number of measurements that it gives.
    Short,
    /// It has no measurements, or more than [`MAX_SYNDROME_BITS`].
    Count(i64),
    /// A mapping other than 0, the identity.
    Mapping(i64),
}

/// The eight bytes at `offset`.
const fn word(payload: &[u8], offset: usize) -> Option<i64> {
    let Some((_, rest)) = payload.split_at_checked(offset) else { return None };
    match rest.first_chunk::<8>() {
        Some(bytes) => Some(i64::from_le_bytes(*bytes)),
        None => None,
    }
}

/// Which decoder a payload of any of the three calls is for; `None` where it is shorter than that.
#[must_use]
pub const fn decoder_id(payload: &[u8]) -> Option<i64> {
    word(payload, 0)
}

/// The payload of `reset_decoder`.
#[must_use]
pub const fn reset_decoder(decoder_id: i64) -> [u8; RESET_DECODER_BYTES] {
    decoder_id.to_le_bytes()
}

impl<'a> EnqueueSyndromes<'a> {
    /// Payload bytes of a request with so many measurements.
    #[must_use]
    pub const fn bytes(num_syndromes: usize) -> usize {
        ENQUEUE_SYNDROMES_BYTES + packed_len(num_syndromes)
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`Malformed`]: what its variants say.
    pub fn read(payload: &'a [u8]) -> Result<Self, Malformed> {
        let (Some(decoder_id), Some(counter), Some(mapping), Some(count), Some((_, bits))) = (
            word(payload, 0),
            word(payload, 8),
            word(payload, 16),
            word(payload, 24),
            payload.split_at_checked(ENQUEUE_SYNDROMES_BYTES),
        ) else {
            return Err(Malformed::Short);
        };
        if count <= 0 || count > MAX_SYNDROME_BITS as i64 {
            return Err(Malformed::Count(count));
        }
        let num_syndromes = count as u32;
        let bits = bits.get(..packed_len(num_syndromes as usize)).ok_or(Malformed::Short)?;
        if mapping != 0 {
            return Err(Malformed::Mapping(mapping));
        }
        Ok(Self { decoder_id, counter, num_syndromes, bits })
    }

    /// Writes the payload; how many bytes it has. `None` where `out` or `bits` is too short, or the number of measurements
    /// is 0 or above [`MAX_SYNDROME_BITS`].
    #[must_use]
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let count = self.num_syndromes as usize;
        if count == 0 || count > MAX_SYNDROME_BITS {
            return None;
        }
        let bits = self.bits.get(..packed_len(count))?;
        let len = Self::bytes(count);
        let (fixed, rest) = out.get_mut(..len)?.split_at_mut_checked(ENQUEUE_SYNDROMES_BYTES)?;
        let words = [self.decoder_id, self.counter, 0, i64::from(self.num_syndromes)];
        for (bytes, word) in fixed.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        rest.copy_from_slice(bits);
        Some(len)
    }
}

impl GetCorrections {
    /// Reads a payload.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let (Some(decoder_id), Some(return_size), Some(reset)) =
            (word(payload, 0), word(payload, 8), payload.get(16))
        else {
            return Err(Malformed::Short);
        };
        Ok(Self { decoder_id, return_size, reset: *reset != 0 })
    }

    /// The payload.
    #[must_use]
    pub fn to_bytes(self) -> [u8; GET_CORRECTIONS_BYTES] {
        let mut bytes = [0; GET_CORRECTIONS_BYTES];
        let words = [self.decoder_id, self.return_size, i64::from(self.reset)];
        for (out, word) in bytes.chunks_mut(8).zip(words) {
            out.iter_mut().zip(word.to_le_bytes()).for_each(|(out, byte)| *out = byte);
        }
        bytes
    }
}
