//! The send request: up to 64 bytes in segments of 16.
//!
//! | operation | segments | size in 16-byte units |
//! |---|---|---|
//! | send, data in memory | control, data | 2 |
//! | send, inline | control, inline | 2 (to 12 bytes), 3 (to 28), 4 (to 44) |
//! | write (with immediate), data in memory | control, remote, data | 3 |
//! | write (with immediate), inline | control, remote, inline | 3 (to 12 bytes), 4 (to 28) |

use super::{Segment, first, pair, second};

/// Bytes of a queue's entry for one request.
pub const BYTES: usize = 64;
/// 64-bit words of a queue's entry for one request.
pub const WORDS: usize = BYTES / 8;
/// Bytes of a segment, the unit of a request's size.
pub const SEGMENT_BYTES: usize = 16;

/// Offsets in the control segment.
pub mod control {
    /// Operation modifier in bits 31 to 24, index modulo 2¹⁶ in bits 23 to 8, opcode in bits 7 to 0; `be32`.
    pub const INDEX_OPCODE: usize = 0;
    /// Queue pair in bits 31 to 8, size in segments in bits 7 to 0; `be32`.
    pub const QPN_SIZE: usize = 4;
    /// Fence in bits 7 to 5, completion mode in bits 3 to 2, solicited in bit 1; `u8`.
    pub const FLAGS: usize = 11;
    /// The immediate; `be32`.
    pub const IMMEDIATE: usize = 12;
}

/// Opcodes of send requests.
pub mod opcode {
    /// Does nothing.
    pub const NOP: u8 = 0x00;
    /// Writes to the peer's memory.
    pub const WRITE: u8 = 0x08;
    /// Writes to the peer's memory, uses up one of its receive requests and tells it a number.
    pub const WRITE_IMM: u8 = 0x09;
    /// Sends a message.
    pub const SEND: u8 = 0x0A;
    /// Sends a message with a number.
    pub const SEND_IMM: u8 = 0x0B;
}

/// Set in the header of an inline segment; the length in the low bits.
pub const INLINE: u32 = 0x8000_0000;
/// The most bytes that fit inline into a send.
pub const INLINE_SEND: usize = BYTES - SEGMENT_BYTES - 4;
/// The most bytes that fit inline into a write.
pub const INLINE_WRITE: usize = BYTES - 2 * SEGMENT_BYTES - 4;

/// When a request is reported in the completion queue (field CE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Completion {
    /// Only when it fails.
    OnError = 0,
    /// Always.
    Always = 2,
}

/// An address in the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Address, in the terms of the peer's region.
    pub address: u64,
    /// Key of the peer's region.
    pub rkey: u32,
}

impl Remote {
    /// The remote address segment.
    #[must_use]
    #[inline(always)]
    pub const fn to_words(self) -> [u64; 2] {
        [self.address.to_be(), pair(self.rkey, 0)]
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Nothing: to get a completion.
    Nop,
    /// A message.
    Send,
    /// A message with an immediate.
    SendImm(u32),
    /// Bytes into the peer's memory, unseen.
    Write(Remote),
    /// Bytes into the peer's memory, and an immediate.
    WriteImm(Remote, u32),
}

impl Operation {
    /// Its opcode.
    #[must_use]
    #[inline(always)]
    pub const fn opcode(self) -> u8 {
        match self {
            Self::Nop => opcode::NOP,
            Self::Send => opcode::SEND,
            Self::SendImm(_) => opcode::SEND_IMM,
            Self::Write(_) => opcode::WRITE,
            Self::WriteImm(..) => opcode::WRITE_IMM,
        }
    }

    /// The address in the peer's memory that it names.
    #[must_use]
    #[inline(always)]
    pub const fn remote(self) -> Option<Remote> {
        match self {
            Self::Nop | Self::Send | Self::SendImm(_) => None,
            Self::Write(remote) | Self::WriteImm(remote, _) => Some(remote),
        }
    }

    /// Its immediate; 0 where it has none.
    #[must_use]
    #[inline(always)]
    pub const fn immediate(self) -> u32 {
        match self {
            Self::Nop | Self::Send | Self::Write(_) => 0,
            Self::SendImm(immediate) | Self::WriteImm(_, immediate) => immediate,
        }
    }

    /// The most bytes that it takes inline.
    #[must_use]
    #[inline(always)]
    pub const fn inline_capacity(self) -> usize {
        match self {
            Self::Nop => 0,
            Self::Send | Self::SendImm(_) => INLINE_SEND,
            Self::Write(_) | Self::WriteImm(..) => INLINE_WRITE,
        }
    }
}

/// Where a request's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// In the request itself.
    Inline(&'a [u8]),
    /// In registered memory.
    Memory(Segment),
}

/// What cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// More bytes than fit inline.
    TooLong,
    /// No bytes in memory, which a NIC reads as 2³¹, or 2³¹ and more, which it reads as inline.
    Length,
}

/// The control segment.
#[must_use]
#[inline(always)]
pub const fn control_words(
    index: u16,
    qpn: u32,
    completion: Completion,
    operation: Operation,
    size: u32,
) -> [u64; 2] {
    [
        pair((index as u32) << 8 | operation.opcode() as u32, qpn << 8 | size),
        pair((completion as u32) << 2, operation.immediate()),
    ]
}

/// The first word of an inline segment of `len` bytes, whose first four stand in the low half of `bytes`.
#[must_use]
#[inline(always)]
pub const fn inline_head(len: u32, bytes: u64) -> u64 {
    (INLINE | len).to_be() as u64 | bytes << 32
}

/// A send request in private memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wqe {
    /// As the queue holds it; what lies after its size is 0.
    pub words: [u64; WORDS],
    /// Segments.
    pub size: u32,
}

impl Wqe {
    /// The request with this index, for queue pair `qpn` (24 bits).
    ///
    /// An inline payload of no bytes has no segment at all.
    ///
    /// # Errors
    /// A payload that the operation cannot carry.
    #[inline]
    pub fn build(
        index: u16,
        qpn: u32,
        completion: Completion,
        operation: Operation,
        payload: Payload<'_>,
    ) -> Result<Self, BuildError> {
        let mut words = [0; WORDS];
        let remote = operation.remote();
        if let Some(remote) = remote {
            [words[2], words[3]] = remote.to_words();
        }
        let has_remote = remote.is_some();
        let size = match payload {
            Payload::Inline(bytes) => {
                if bytes.len() > operation.inline_capacity() {
                    return Err(BuildError::TooLong);
                }
                let segments = if has_remote {
                    put_inline(&mut words[4..], bytes)
                } else {
                    put_inline(&mut words[2..], bytes)
                };
                1 + u32::from(has_remote) + segments
            }
            Payload::Memory(segment) => {
                if segment.bytes == 0 || segment.bytes & INLINE != 0 || matches!(operation, Operation::Nop) {
                    return Err(BuildError::Length);
                }
                let [head, address] = segment.to_words();
                if has_remote {
                    (words[4], words[5]) = (head, address);
                    3
                } else {
                    (words[2], words[3]) = (head, address);
                    2
                }
            }
        };
        [words[0], words[1]] = control_words(index, qpn, completion, operation, size);
        Ok(Self { words, size })
    }

    /// Words up to the end of the last segment.
    #[must_use]
    #[inline(always)]
    pub const fn len_words(&self) -> usize {
        self.size as usize * (SEGMENT_BYTES / 8)
    }
}

/// Writes an inline segment and returns how many units it takes. The bytes were checked to fit.
#[inline(always)]
fn put_inline(words: &mut [u64], bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return 0;
    }
    let four = |chunk: &[u8]| chunk.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    let (head, rest) = bytes.split_at_checked(4).unwrap_or((bytes, &[]));
    let mut words = words.iter_mut();
    if let Some(word) = words.next() {
        // No longer than a request: a u32.
        *word = inline_head(bytes.len() as u32, four(head));
    }
    for (word, chunk) in words.zip(rest.chunks(8)) {
        *word = four(chunk);
    }
    (4 + bytes.len()).div_ceil(SEGMENT_BYTES) as u32
}

/// What a NIC finds wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseError {
    /// An opcode that is not spoken here.
    Opcode(u8),
    /// A size that differs from the sum of its segments.
    Size(u8),
    /// A completion mode that is not spoken here.
    Completion(u8),
    /// An inline length that its size does not hold, or a data segment of no bytes.
    Length(u32),
}

/// A request's control segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Index modulo 2¹⁶.
    pub index: u16,
    /// Opcode.
    pub opcode: u8,
    /// Queue pair.
    pub qpn: u32,
    /// Size in segments.
    pub size: u8,
    /// Fence, completion mode, solicited.
    pub flags: u8,
    /// Immediate.
    pub immediate: u32,
}

impl Control {
    /// The control segment of a request.
    #[must_use]
    pub const fn of(words: &[u64; WORDS]) -> Self {
        let (head, names) = (first(words[0]), second(words[0]));
        Self {
            index: (head >> 8) as u16,
            opcode: head as u8,
            qpn: names >> 8,
            size: names as u8,
            flags: first(words[1]) as u8,
            immediate: second(words[1]),
        }
    }

    /// Field CE: 0 only on error, 1 only on the first error, 2 always, 3 always with an event.
    #[must_use]
    pub const fn completion(&self) -> u8 {
        self.flags >> 2 & 3
    }
}

/// Where a parsed request's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// There are none.
    Nothing,
    /// In the request, this many from this byte on.
    Inline {
        /// Offset in the request.
        at: usize,
        /// Bytes.
        len: usize,
    },
    /// In memory.
    Memory(Segment),
}

/// A request as a NIC reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// The control segment.
    pub control: Control,
    /// What it asks for.
    pub operation: Operation,
    /// Where the bytes are.
    pub data: Data,
}

impl Parsed {
    /// Reads a request.
    ///
    /// # Errors
    /// What no builder of this module writes.
    pub fn read(words: &[u64; WORDS]) -> Result<Self, ParseError> {
        let control = Control::of(words);
        let remote = Remote { address: u64::from_be(words[2]), rkey: first(words[3]) };
        let operation = match control.opcode {
            opcode::NOP => Operation::Nop,
            opcode::SEND => Operation::Send,
            opcode::SEND_IMM => Operation::SendImm(control.immediate),
            opcode::WRITE => Operation::Write(remote),
            opcode::WRITE_IMM => Operation::WriteImm(remote, control.immediate),
            other => return Err(ParseError::Opcode(other)),
        };
        if !matches!(control.completion(), 0 | 2) {
            return Err(ParseError::Completion(control.completion()));
        }
        let has_remote = matches!(operation, Operation::Write(_) | Operation::WriteImm(..));
        let head_segments = 1 + u8::from(has_remote);
        let size = control.size;
        if size < head_segments || usize::from(size) * SEGMENT_BYTES > BYTES {
            return Err(ParseError::Size(size));
        }
        if size == head_segments {
            return Ok(Self { control, operation, data: Data::Nothing });
        }
        if matches!(operation, Operation::Nop) {
            return Err(ParseError::Size(size));
        }
        let segment = if has_remote { [words[4], words[5]] } else { [words[2], words[3]] };
        let at = usize::from(head_segments) * SEGMENT_BYTES;
        let head = first(segment[0]);
        let data = if head & INLINE != 0 {
            let len = (head & !INLINE) as usize;
            let units = len.saturating_add(4).div_ceil(SEGMENT_BYTES);
            if len == 0 || units != usize::from(size - head_segments) {
                return Err(ParseError::Length(head & !INLINE));
            }
            Data::Inline { at: at + 4, len }
        } else {
            if size != head_segments + 1 {
                return Err(ParseError::Size(size));
            }
            let segment = Segment::from_words(segment);
            if segment.bytes == 0 {
                return Err(ParseError::Length(0));
            }
            Data::Memory(segment)
        };
        Ok(Self { control, operation, data })
    }
}

/// The bytes of a request as they stand in memory.
#[must_use]
pub fn bytes(words: &[u64; WORDS]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    out
}
