//! Measurements of more than one bit: soft readout and leakage.
//!
//! | [`Readout`] | descriptor | values |
//! |---|---|---|
//! | `Soft4` | `ARRAY_UINT8`, ceil(n / 2) bytes | confidence 0-15; element 0 in the low nibble of byte 0, element 1 in the high one |
//! | `Soft8` | `ARRAY_UINT8`, n bytes | confidence 0-255 |
//! | `SoftF32` | `ARRAY_FLOAT32`, 4 n bytes | finite confidence |
//! | `Leakage8` | `ARRAY_UINT8`, n bytes | [`Level`] |
//! | `Leakage32` | `ARRAY_INT32`, 4 n bytes | [`Level`] |
//!
//! The protocol leaves the meaning of a confidence to the application. Hard readout is a bit string ([`crate::bits`]).
//!
//! ```
//! use ringcall_wire::readout::{NibbleView, pack_nibbles};
//!
//! let mut packed = [0; 2];
//! pack_nibbles(&[3, 15, 7], &mut packed)?;
//! assert_eq!(packed, [0xF3, 0x07]);
//! assert!(NibbleView::new(&packed, 3)?.iter().eq([3, 15, 7]));
//! # Ok::<(), ringcall_wire::WireError>(())
//! ```

use crate::error::{WireError, check_len};
use crate::payload::TypeDesc;

/// How a measurement record is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readout {
    /// 4-bit confidences, two to a byte.
    Soft4,
    /// 8-bit confidences.
    Soft8,
    /// Floating-point confidences.
    SoftF32,
    /// One [`Level`] per byte.
    Leakage8,
    /// One [`Level`] per `i32`.
    Leakage32,
}

impl Readout {
    /// Descriptor of `n` measurements.
    #[must_use]
    pub const fn desc(self, n: u32) -> TypeDesc {
        match self {
            Self::Soft4 => TypeDesc::readout4(n),
            Self::Soft8 | Self::Leakage8 => TypeDesc::readout8(n),
            Self::SoftF32 => TypeDesc::array_float32(n),
            Self::Leakage32 => TypeDesc::array_int32(n),
        }
    }
}

/// Outcome of a leakage-resolving measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Ground state: measured 0.
    Ground = 0,
    /// Excited state: measured 1.
    Excited = 1,
    /// Outside the qubit: an erasure for the decoder.
    Leaked = 2,
}

impl Level {
    /// Largest code.
    pub const MAX: u8 = 2;

    /// From the code on the wire.
    ///
    /// # Errors
    /// [`WireError::UnknownValue`] for a code above [`Self::MAX`].
    pub const fn from_raw(code: u8) -> Result<Self, WireError> {
        match code {
            0 => Ok(Self::Ground),
            1 => Ok(Self::Excited),
            2 => Ok(Self::Leaked),
            _ => Err(WireError::UnknownValue { of: "readout level", value: code as u32 }),
        }
    }

    /// The code on the wire.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self as u8
    }
}

/// Checks that every code is at most `max` ([`Level::MAX`], or more for machines that resolve higher levels).
///
/// # Errors
/// [`WireError::ValueOutOfRange`] with the first offender.
pub fn check_codes_u8(codes: &[u8], max: u8) -> Result<(), WireError> {
    match codes.iter().position(|&code| code > max) {
        None => Ok(()),
        Some(index) => Err(WireError::ValueOutOfRange {
            index,
            value: codes.get(index).copied().unwrap_or_default().into(),
            max: max.into(),
        }),
    }
}

/// Checks that every code is in `0..=max`. A negative code is reported as the `u32` of the same bits.
///
/// # Errors
/// [`WireError::ValueOutOfRange`] with the first offender.
pub fn check_codes_i32(codes: impl IntoIterator<Item = i32>, max: u8) -> Result<(), WireError> {
    for (index, code) in codes.into_iter().enumerate() {
        let value = code.cast_unsigned();
        if value > u32::from(max) {
            return Err(WireError::ValueOutOfRange { index, value, max: max.into() });
        }
    }
    Ok(())
}

/// Checks that every confidence is a finite number.
///
/// # Errors
/// [`WireError::NotFinite`] with the first offender.
pub fn check_finite(values: impl IntoIterator<Item = f32>) -> Result<(), WireError> {
    match values.into_iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(WireError::NotFinite { index }),
    }
}

/// Bytes that `n` 4-bit values take.
#[must_use]
pub const fn nibbles_len(n: usize) -> usize {
    n.div_ceil(2)
}

/// Packs 4-bit values, low nibble first, into the first [`nibbles_len`] bytes of `out` and returns how many those are.
/// The last high nibble of an odd count is zero.
///
/// # Errors
/// [`WireError::Truncated`] when `out` is too short, [`WireError::ValueOutOfRange`] for a value above 15. `out` is then
/// partly written.
pub fn pack_nibbles(values: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
    let len = nibbles_len(values.len());
    let available = out.len();
    let out = out.get_mut(..len).ok_or(WireError::Truncated { needed: len, available })?;
    check_codes_u8(values, 15)?;
    for (pair, byte) in values.chunks(2).zip(out) {
        *byte = match *pair {
            [low, high] => low | high << 4,
            [low] => low,
            _ => 0,
        };
    }
    Ok(len)
}

/// Unpacks `out.len()` 4-bit values.
///
/// # Errors
/// As [`NibbleView::new`] for `out.len()` values.
pub fn unpack_nibbles(packed: &[u8], out: &mut [u8]) -> Result<(), WireError> {
    let view = NibbleView::new(packed, out.len())?;
    for (target, value) in out.iter_mut().zip(view.iter()) {
        *target = value;
    }
    Ok(())
}

/// Checked 4-bit values within a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NibbleView<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> NibbleView<'a> {
    /// `bytes` as `len` values.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TrailingBytes`] when `bytes` are not exactly [`nibbles_len`] long,
    /// [`WireError::NonZeroPadding`] when `len` is odd and the last high nibble is not zero.
    pub fn new(bytes: &'a [u8], len: usize) -> Result<Self, WireError> {
        check_len(nibbles_len(len), bytes.len())?;
        match bytes.split_last() {
            Some((&last, rest)) if len % 2 == 1 && last > 15 => {
                Err(WireError::NonZeroPadding { byte: rest.len() })
            }
            _ => Ok(Self { bytes, len }),
        }
    }

    /// How many values.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The packed bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Value `index`; `None` past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u8> {
        if index >= self.len {
            return None;
        }
        self.bytes.get(index / 2).map(|byte| byte >> (index % 2 * 4) & 15)
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.bytes.iter().flat_map(|&byte| [byte & 15, byte >> 4]).take(self.len)
    }
}
