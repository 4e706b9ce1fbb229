//! Bit strings: bit `i` is bit `i % 8` (from the least significant) of byte `i / 8`.
//!
//! `n` bits take `ceil(n / 8)` bytes, and the unused bits of the last byte are zero. Readers insist on that: a set
//! unused bit means that the two sides disagree about `n`, which would otherwise stay unseen.
//!
//! ```
//! use ringcall_wire::bits::{BitView, pack_bits};
//!
//! let mut packed = [0; 2];
//! pack_bits(&[0, 1, 0, 0, 0, 0, 0, 0, 1, 1], &mut packed)?;
//! assert_eq!(packed, [0b10, 0b11]);
//! let view = BitView::new(&packed, 10)?;
//! assert!(view.ones().eq([1, 8, 9]));
//! assert!(BitView::new(&packed, 9).is_err(), "bit 9 would be padding");
//! # Ok::<(), ringcall_wire::WireError>(())
//! ```

use crate::error::{WireError, check_len};

/// Bytes that `bits` bits take.
#[must_use]
pub const fn packed_len(bits: usize) -> usize {
    bits.div_ceil(8)
}

/// Packs `bits`, each 0 or 1, into the first [`packed_len`] bytes of `out` and returns how many those are. Unused bits
/// are written as zero; bytes after them are left alone.
///
/// # Errors
/// [`WireError::Truncated`] when `out` is too short, [`WireError::ValueOutOfRange`] for an element above 1. `out` is
/// then partly written.
pub fn pack_bits(bits: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
    let len = packed_len(bits.len());
    let available = out.len();
    let out = out.get_mut(..len).ok_or(WireError::Truncated { needed: len, available })?;
    for (byte_index, (chunk, byte)) in bits.chunks(8).zip(out).enumerate() {
        let mut packed = 0;
        for (shift, &bit) in chunk.iter().enumerate() {
            if bit > 1 {
                return Err(WireError::ValueOutOfRange {
                    index: byte_index * 8 + shift,
                    value: bit.into(),
                    max: 1,
                });
            }
            packed |= bit << shift;
        }
        *byte = packed;
    }
    Ok(len)
}

/// Unpacks `out.len()` bits into bytes of 0 or 1.
///
/// # Errors
/// As [`BitView::new`] for `out.len()` bits: `packed` must have exactly the right length and zero padding.
pub fn unpack_bits(packed: &[u8], out: &mut [u8]) -> Result<(), WireError> {
    let view = BitView::new(packed, out.len())?;
    for (chunk, &byte) in out.chunks_mut(8).zip(view.bytes) {
        for (shift, bit) in chunk.iter_mut().enumerate() {
            *bit = byte >> shift & 1;
        }
    }
    Ok(())
}

/// Checks that every bit of `packed` from bit `bits` on is zero.
///
/// # Errors
/// [`WireError::NonZeroPadding`] with the first offending byte.
pub fn check_padding(packed: &[u8], bits: usize) -> Result<(), WireError> {
    let first = bits / 8;
    for (offset, &byte) in packed.get(first..).unwrap_or_default().iter().enumerate() {
        let unused = if offset == 0 { byte >> (bits % 8) } else { byte };
        if unused != 0 {
            return Err(WireError::NonZeroPadding { byte: first + offset });
        }
    }
    Ok(())
}

/// A checked bit string within a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitView<'a> {
    bytes: &'a [u8],
    bits: usize,
}

impl<'a> BitView<'a> {
    /// `bytes` as `bits` bits.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TrailingBytes`] when `bytes` are not exactly [`packed_len`] long,
    /// [`WireError::NonZeroPadding`] when an unused bit is set.
    pub fn new(bytes: &'a [u8], bits: usize) -> Result<Self, WireError> {
        check_len(packed_len(bits), bytes.len())?;
        check_padding(bytes, bits)?;
        Ok(Self { bytes, bits })
    }

    /// How many bits.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bits
    }

    /// Whether there are no bits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// The packed bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bit `index`; `None` past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<bool> {
        if index >= self.bits {
            return None;
        }
        self.bytes.get(index / 8).map(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// How many bits are set.
    #[must_use]
    pub fn count_ones(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    /// Indices of the set bits, ascending.
    #[must_use]
    pub const fn ones(&self) -> SetBits<'a> {
        SetBits::new(self.bytes)
    }

    /// The string as 64-bit words, bit `i` of the string in bit `i % 64` of word `i / 64`.
    #[must_use]
    pub const fn words(&self) -> BitWords<'a> {
        BitWords { rest: self.bytes }
    }
}

/// 64-bit words of a packed bit string; the last one is filled up with zeros.
#[derive(Clone, Debug)]
pub struct BitWords<'a> {
    rest: &'a [u8],
}

impl Iterator for BitWords<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if let Some((word, rest)) = self.rest.split_first_chunk::<8>() {
            self.rest = rest;
            return Some(u64::from_le_bytes(*word));
        }
        if self.rest.is_empty() {
            return None;
        }
        let word = self.rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        self.rest = &[];
        Some(word)
    }
}

impl core::iter::FusedIterator for BitWords<'_> {}

/// Indices of the set bits of a packed bit string, ascending: one step per set bit and one per 64 bits, so that a
/// sparse syndrome costs what it contains.
#[derive(Clone, Debug)]
pub struct SetBits<'a> {
    words: BitWords<'a>,
    word: u64,
    /// Index of the bit after the last of `word`.
    end: usize,
}

impl<'a> SetBits<'a> {
    /// Over all bits of `packed`, padding included; [`BitView::ones`] is the checked way.
    #[must_use]
    pub const fn new(packed: &'a [u8]) -> Self {
        Self { words: BitWords { rest: packed }, word: 0, end: 0 }
    }
}

impl Iterator for SetBits<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.word = self.words.next()?;
            self.end += 64;
        }
        let index = self.end - 64 + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(index)
    }
}

impl core::iter::FusedIterator for SetBits<'_> {}
