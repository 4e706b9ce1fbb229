//! Request and response headers: 24 bytes each, little-endian, at the start of a slot.
//!
//! | offset | request | response |
//! |---|---|---|
//! | 0 | magic `u32` = [`REQUEST_MAGIC`] | magic `u32` = [`RESPONSE_MAGIC`] |
//! | 4 | function_id `u32` | status `i32` |
//! | 8 | arg_len `u32`, payload bytes | result_len `u32`, payload bytes |
//! | 12 | request_id `u32` | request_id `u32`, echoed |
//! | 16 | ptp_timestamp `u64`, ns by convention, 0 if unused | ptp_timestamp `u64`, echoed |
//!
//! A header is three 64-bit words, so that a GPU moves it with three aligned loads ([`RequestHeader::from_words`]).
//! C and C++ declare these structs packed; the fields fall on their natural offsets either way, so the native
//! alignment used here changes no byte. Bytes from a network may lie anywhere: [`RequestHeader::from_bytes`] copies.
//!
//! An older form of the protocol had 12-byte headers without `request_id` and `ptp_timestamp`. It cannot be told from
//! the present form by its magic and is not spoken here.

use core::mem::{align_of, offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::WireError;
use crate::status::Status;

/// Bytes of a request or response header.
pub const HEADER_BYTES: usize = 24;
/// 64-bit words of a request or response header.
pub const HEADER_WORDS: usize = 3;
/// First word of a request: the bytes `52 51 55 43`, "RQUC"; read as a number, "CUQR".
pub const REQUEST_MAGIC: u32 = 0x4355_5152;
/// First word of a response: the bytes `53 51 55 43`, "SQUC"; read as a number, "CUQS".
pub const RESPONSE_MAGIC: u32 = 0x4355_5153;

/// Header of a request, before its payload.
///
/// ```
/// use ringcall_wire::{FunctionId, RequestHeader, ResponseHeader, Status};
///
/// let request = RequestHeader::new(FunctionId::of("rpc_increment").0, 8, 7, 1_000);
/// assert_eq!(RequestHeader::from_bytes(&request.to_bytes()), Ok(request));
/// let response = ResponseHeader::reply(&request, Status::OK.0, 4);
/// assert_eq!((response.request_id, response.ptp_timestamp), (7, 1_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RequestHeader {
    /// [`REQUEST_MAGIC`] in a valid request.
    pub magic: u32,
    /// Which handler: the [`FunctionId`](crate::FunctionId) of its name.
    pub function_id: u32,
    /// Payload bytes after this header.
    pub arg_len: u32,
    /// Caller's number, echoed unread.
    pub request_id: u32,
    /// Caller's send time, echoed unread; nanoseconds of PTP time by convention, 0 if unused.
    pub ptp_timestamp: u64,
}

/// Header of a response, before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ResponseHeader {
    /// [`RESPONSE_MAGIC`] in a valid response.
    pub magic: u32,
    /// Raw [`Status`]: 0 success, positive from the handler, negative from the protocol.
    pub status: i32,
    /// Payload bytes after this header.
    pub result_len: u32,
    /// The request's number.
    pub request_id: u32,
    /// The request's send time.
    pub ptp_timestamp: u64,
}

const _: () = {
    assert!(size_of::<RequestHeader>() == HEADER_BYTES && size_of::<ResponseHeader>() == HEADER_BYTES);
    assert!(align_of::<RequestHeader>() == 8 && align_of::<ResponseHeader>() == 8);
    assert!(HEADER_WORDS * 8 == HEADER_BYTES);
    assert!(offset_of!(RequestHeader, magic) == 0 && offset_of!(ResponseHeader, magic) == 0);
    assert!(offset_of!(RequestHeader, function_id) == 4 && offset_of!(ResponseHeader, status) == 4);
    assert!(offset_of!(RequestHeader, arg_len) == 8 && offset_of!(ResponseHeader, result_len) == 8);
    assert!(offset_of!(RequestHeader, request_id) == 12 && offset_of!(ResponseHeader, request_id) == 12);
    assert!(
        offset_of!(RequestHeader, ptp_timestamp) == 16 && offset_of!(ResponseHeader, ptp_timestamp) == 16
    );
    // Words and bytes are little-endian by definition; the zerocopy view of the structs is the host's order.
    assert!(cfg!(target_endian = "little"), "Ringcall runs on little-endian machines only");
};

const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn low(word: u64) -> u32 {
    word as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn words_to_bytes(words: [u64; HEADER_WORDS]) -> [u8; HEADER_BYTES] {
    let [a, b, c] = words;
    let [a0, a1, a2, a3, a4, a5, a6, a7] = a.to_le_bytes();
    let [b0, b1, b2, b3, b4, b5, b6, b7] = b.to_le_bytes();
    let [c0, c1, c2, c3, c4, c5, c6, c7] = c.to_le_bytes();
    [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, c4, c5, c6, c7]
}

const fn bytes_to_words(bytes: &[u8]) -> Result<[u64; HEADER_WORDS], WireError> {
    let short = WireError::Truncated { needed: HEADER_BYTES, available: bytes.len() };
    let Some((a, rest)) = bytes.split_first_chunk::<8>() else { return Err(short) };
    let Some((b, rest)) = rest.split_first_chunk::<8>() else { return Err(short) };
    let Some(c) = rest.first_chunk::<8>() else { return Err(short) };
    Ok([u64::from_le_bytes(*a), u64::from_le_bytes(*b), u64::from_le_bytes(*c)])
}

impl RequestHeader {
    /// A request header with the right magic.
    #[must_use]
    pub const fn new(function_id: u32, arg_len: u32, request_id: u32, ptp_timestamp: u64) -> Self {
        Self { magic: REQUEST_MAGIC, function_id, arg_len, request_id, ptp_timestamp }
    }

    /// Whether the magic is [`REQUEST_MAGIC`]. Parsing does not ask, so that a refusal can echo the other fields.
    #[must_use]
    pub const fn has_magic(&self) -> bool {
        self.magic == REQUEST_MAGIC
    }

    /// The header, or [`WireError::BadMagic`].
    pub const fn check_magic(self) -> Result<Self, WireError> {
        if self.has_magic() {
            Ok(self)
        } else {
            Err(WireError::BadMagic { expected: REQUEST_MAGIC, found: self.magic })
        }
    }

    /// As three words: `magic | function_id << 32`, `arg_len | request_id << 32`, `ptp_timestamp`.
    #[must_use]
    pub const fn to_words(self) -> [u64; HEADER_WORDS] {
        [join(self.magic, self.function_id), join(self.arg_len, self.request_id), self.ptp_timestamp]
    }

    /// From the three words of [`Self::to_words`]. Checks nothing.
    #[must_use]
    pub const fn from_words([a, b, c]: [u64; HEADER_WORDS]) -> Self {
        Self { magic: low(a), function_id: high(a), arg_len: low(b), request_id: high(b), ptp_timestamp: c }
    }

    /// As the 24 bytes on the wire.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; HEADER_BYTES] {
        words_to_bytes(self.to_words())
    }

    /// From the first 24 bytes, at any alignment. Does not look at the magic.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when there are fewer than 24.
    pub const fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        match bytes_to_words(bytes) {
            Ok(words) => Ok(Self::from_words(words)),
            Err(error) => Err(error),
        }
    }
}

impl ResponseHeader {
    /// The answer to `request`: echoes its number and time.
    #[must_use]
    pub const fn reply(request: &RequestHeader, status: i32, result_len: u32) -> Self {
        Self {
            magic: RESPONSE_MAGIC,
            status,
            result_len,
            request_id: request.request_id,
            ptp_timestamp: request.ptp_timestamp,
        }
    }

    /// The status as a [`Status`].
    #[must_use]
    pub const fn status(&self) -> Status {
        Status(self.status)
    }

    /// Whether the magic is [`RESPONSE_MAGIC`].
    #[must_use]
    pub const fn has_magic(&self) -> bool {
        self.magic == RESPONSE_MAGIC
    }

    /// The header, or [`WireError::BadMagic`].
    pub const fn check_magic(self) -> Result<Self, WireError> {
        if self.has_magic() {
            Ok(self)
        } else {
            Err(WireError::BadMagic { expected: RESPONSE_MAGIC, found: self.magic })
        }
    }

    /// As three words: `magic | status << 32`, `result_len | request_id << 32`, `ptp_timestamp`.
    #[must_use]
    pub const fn to_words(self) -> [u64; HEADER_WORDS] {
        [
            join(self.magic, self.status.cast_unsigned()),
            join(self.result_len, self.request_id),
            self.ptp_timestamp,
        ]
    }

    /// From the three words of [`Self::to_words`]. Checks nothing.
    #[must_use]
    pub const fn from_words([a, b, c]: [u64; HEADER_WORDS]) -> Self {
        Self {
            magic: low(a),
            status: high(a).cast_signed(),
            result_len: low(b),
            request_id: high(b),
            ptp_timestamp: c,
        }
    }

    /// As the 24 bytes on the wire.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; HEADER_BYTES] {
        words_to_bytes(self.to_words())
    }

    /// From the first 24 bytes, at any alignment. Does not look at the magic.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when there are fewer than 24.
    pub const fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        match bytes_to_words(bytes) {
            Ok(words) => Ok(Self::from_words(words)),
            Err(error) => Err(error),
        }
    }
}
