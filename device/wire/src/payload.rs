//! Payload types and the 12-byte descriptors that a schema is made of.
//!
//! | id | type | `num_elements` | `size_bytes` |
//! |---|---|---|---|
//! | 0x10 | UINT8 | 1 | 1 |
//! | 0x11 | INT32 | 1 | 4 |
//! | 0x12 | INT64 | 1 | 8 |
//! | 0x13 | FLOAT32 | 1 | 4 |
//! | 0x14 | FLOAT64 | 1 | 8 |
//! | 0x20 | ARRAY_UINT8 | n | n, or ceil(n / 2) for 4-bit readout; both 0: see [`TypeDesc::any_bytes`] |
//! | 0x21 | ARRAY_INT32 | n | 4 n |
//! | 0x22 | ARRAY_FLOAT32 | n | 4 n |
//! | 0x23 | ARRAY_FLOAT64 | n | 8 n |
//! | 0x30 | BIT_PACKED | bits | ceil(bits / 8) |
//!
//! Integers are little-endian, floats IEEE 754, arrays without gaps, bits LSB-first. The protocol's own text uses a
//! `TYPE_UINT32` in two examples (a bit count after a bit string) without ever giving it a number. There is no such
//! number: the count is in the descriptor already, and a payload that carries it anyway uses [`TypeDesc::uint32`],
//! which is the descriptor of [`TypeDesc::int32`]. The headers for C have `CUDAQ_TYPE_UINT32` for it.

use core::mem::{align_of, offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::WireError;

/// What the bytes of one argument or result are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PayloadType {
    /// One `u8`.
    Uint8 = 0x10,
    /// One `i32`.
    Int32 = 0x11,
    /// One `i64`.
    Int64 = 0x12,
    /// One `f32`.
    Float32 = 0x13,
    /// One `f64`.
    Float64 = 0x14,
    /// Bytes; also 4-bit readout and anything of a vendor's own.
    ArrayUint8 = 0x20,
    /// `i32`s.
    ArrayInt32 = 0x21,
    /// `f32`s.
    ArrayFloat32 = 0x22,
    /// `f64`s.
    ArrayFloat64 = 0x23,
    /// Bits, LSB-first within each byte, unused bits zero.
    BitPacked = 0x30,
}

impl PayloadType {
    /// Every type, in the order of its id.
    pub const ALL: &[Self] = &[
        Self::Uint8,
        Self::Int32,
        Self::Int64,
        Self::Float32,
        Self::Float64,
        Self::ArrayUint8,
        Self::ArrayInt32,
        Self::ArrayFloat32,
        Self::ArrayFloat64,
        Self::BitPacked,
    ];

    /// From the raw id.
    ///
    /// # Errors
    /// [`WireError::UnknownValue`] for an id that is none of the ten.
    pub const fn from_raw(raw: u8) -> Result<Self, WireError> {
        Ok(match raw {
            0x10 => Self::Uint8,
            0x11 => Self::Int32,
            0x12 => Self::Int64,
            0x13 => Self::Float32,
            0x14 => Self::Float64,
            0x20 => Self::ArrayUint8,
            0x21 => Self::ArrayInt32,
            0x22 => Self::ArrayFloat32,
            0x23 => Self::ArrayFloat64,
            0x30 => Self::BitPacked,
            _ => return Err(WireError::UnknownValue { of: "payload type", value: raw as u32 }),
        })
    }

    /// The raw id.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self as u8
    }

    /// Whether exactly one value is meant.
    #[must_use]
    pub const fn is_scalar(self) -> bool {
        self.raw() < 0x20
    }

    /// Bytes of one element; `None` for bits.
    #[must_use]
    pub const fn element_bytes(self) -> Option<u32> {
        match self {
            Self::Uint8 | Self::ArrayUint8 => Some(1),
            Self::Int32 | Self::Float32 | Self::ArrayInt32 | Self::ArrayFloat32 => Some(4),
            Self::Int64 | Self::Float64 | Self::ArrayFloat64 => Some(8),
            Self::BitPacked => None,
        }
    }
}

/// Descriptor of one argument or result.
///
/// The constructors always agree with the table above. A count whose size passes 32 bits gives a descriptor that
/// [`Self::validate`] refuses.
///
/// ```
/// use ringcall_wire::TypeDesc;
/// const DETECTORS: TypeDesc = TypeDesc::bit_packed(10);
/// assert_eq!((DETECTORS.size_bytes, DETECTORS.num_elements), (2, 10));
/// assert!(DETECTORS.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TypeDesc {
    /// Raw [`PayloadType`].
    pub type_id: u8,
    /// Written as zero, not looked at.
    pub reserved: [u8; 3],
    /// Bytes in the payload.
    pub size_bytes: u32,
    /// 1 for scalars, elements for arrays, bits for bit strings.
    pub num_elements: u32,
}

const _: () = {
    assert!(size_of::<TypeDesc>() == 12 && align_of::<TypeDesc>() == 4);
    assert!(offset_of!(TypeDesc, type_id) == 0 && offset_of!(TypeDesc, reserved) == 1);
    assert!(offset_of!(TypeDesc, size_bytes) == 4 && offset_of!(TypeDesc, num_elements) == 8);
};

const fn half_up(n: u32) -> u32 {
    n / 2 + n % 2
}

const fn bytes_of_bits(bits: u32) -> u32 {
    bits.div_ceil(8)
}

impl TypeDesc {
    /// The all-zero descriptor of the fields that a schema does not use. Not valid as an argument or result.
    pub const UNUSED: Self = Self { type_id: 0, reserved: [0; 3], size_bytes: 0, num_elements: 0 };

    const fn sized(kind: PayloadType, num_elements: u32, size_bytes: u32) -> Self {
        Self { type_id: kind.raw(), reserved: [0; 3], size_bytes, num_elements }
    }

    /// `n` elements of `bytes` each. A product past 32 bits saturates: `u32::MAX` is no multiple of 4 or 8, so no
    /// count makes the descriptor valid.
    const fn array(kind: PayloadType, n: u32, bytes: u32) -> Self {
        Self::sized(kind, n, n.saturating_mul(bytes))
    }

    /// One `u8`.
    #[must_use]
    pub const fn uint8() -> Self {
        Self::sized(PayloadType::Uint8, 1, 1)
    }

    /// One `i32`.
    #[must_use]
    pub const fn int32() -> Self {
        Self::sized(PayloadType::Int32, 1, 4)
    }

    /// One `u32`: the protocol has no number of a type for it, and its four bytes travel as an `i32`'s.
    #[must_use]
    pub const fn uint32() -> Self {
        Self::int32()
    }

    /// One `i64`.
    #[must_use]
    pub const fn int64() -> Self {
        Self::sized(PayloadType::Int64, 1, 8)
    }

    /// One `f32`.
    #[must_use]
    pub const fn float32() -> Self {
        Self::sized(PayloadType::Float32, 1, 4)
    }

    /// One `f64`.
    #[must_use]
    pub const fn float64() -> Self {
        Self::sized(PayloadType::Float64, 1, 8)
    }

    /// `n` bytes.
    #[must_use]
    pub const fn array_uint8(n: u32) -> Self {
        Self::sized(PayloadType::ArrayUint8, n, n)
    }

    /// Bytes of any length: `ARRAY_UINT8` with 0 elements in 0 bytes.
    ///
    /// The descriptor means that only where it is a schema's one argument or one result. Among others it is an array of
    /// no bytes.
    #[must_use]
    pub const fn any_bytes() -> Self {
        Self::array_uint8(0)
    }

    /// `n` `i32`s.
    #[must_use]
    pub const fn array_int32(n: u32) -> Self {
        Self::array(PayloadType::ArrayInt32, n, 4)
    }

    /// `n` `f32`s.
    #[must_use]
    pub const fn array_float32(n: u32) -> Self {
        Self::array(PayloadType::ArrayFloat32, n, 4)
    }

    /// `n` `f64`s.
    #[must_use]
    pub const fn array_float64(n: u32) -> Self {
        Self::array(PayloadType::ArrayFloat64, n, 8)
    }

    /// A string of `bits` bits in `ceil(bits / 8)` bytes.
    #[must_use]
    pub const fn bit_packed(bits: u32) -> Self {
        Self::sized(PayloadType::BitPacked, bits, bytes_of_bits(bits))
    }

    /// `n` 4-bit confidences, two to a byte: `ARRAY_UINT8` with `ceil(n / 2)` bytes.
    ///
    /// The protocol gives this encoding no separate id; up to one element it cannot be told from
    /// [`Self::array_uint8`], so reading it is always the reader's explicit choice.
    #[must_use]
    pub const fn readout4(n: u32) -> Self {
        Self::sized(PayloadType::ArrayUint8, n, half_up(n))
    }

    /// `n` 8-bit confidences, the same as [`Self::array_uint8`].
    #[must_use]
    pub const fn readout8(n: u32) -> Self {
        Self::array_uint8(n)
    }

    /// The type.
    ///
    /// # Errors
    /// [`WireError::UnknownValue`] when the id is none of the ten.
    pub const fn payload_type(&self) -> Result<PayloadType, WireError> {
        PayloadType::from_raw(self.type_id)
    }

    /// Whether the bytes are more than one 4-bit confidence, two to a byte.
    #[must_use]
    pub const fn is_nibbles(&self) -> bool {
        self.type_id == PayloadType::ArrayUint8 as u8
            && self.size_bytes != self.num_elements
            && self.size_bytes == half_up(self.num_elements)
    }

    /// Checks that type, count and size agree as in the table of this module.
    ///
    /// # Errors
    /// [`WireError::UnknownValue`] for an undefined type, [`WireError::BadDescriptor`] when they do not agree,
    /// [`WireError::SizeOverflow`] when the elements take more than `u32::MAX` bytes.
    pub const fn validate(&self) -> Result<(), WireError> {
        let kind = match self.payload_type() {
            Ok(kind) => kind,
            Err(error) => return Err(error),
        };
        let n = self.num_elements;
        let size = match kind.element_bytes() {
            None => bytes_of_bits(n),
            Some(bytes) => match n.checked_mul(bytes) {
                Some(size) => size,
                None => return Err(WireError::SizeOverflow),
            },
        };
        let agrees = self.size_bytes == size || self.is_nibbles();
        if agrees && (n == 1 || !kind.is_scalar()) {
            Ok(())
        } else {
            Err(WireError::BadDescriptor {
                type_id: self.type_id,
                num_elements: n,
                size_bytes: self.size_bytes,
            })
        }
    }

    /// Whether both describe the same bytes; the reserved ones do not count.
    #[must_use]
    pub const fn same_as(&self, other: &Self) -> bool {
        self.type_id == other.type_id
            && self.size_bytes == other.size_bytes
            && self.num_elements == other.num_elements
    }
}
