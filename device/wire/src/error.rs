//! What can be wrong with bytes, descriptors and schemas: [`WireError`].
//!
//! Every variant carries the numbers a reader needs to find the fault, and nothing that allocates. Formatting is in
//! the [`Display`](core::fmt::Display) impl alone, so code that only compares variants links no formatter.

use core::fmt;

/// A fault in the wire format, found on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// Fewer bytes than the format needs.
    Truncated {
        /// Bytes needed from the start of the buffer.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// More bytes than the schema describes.
    TrailingBytes {
        /// Bytes the schema describes.
        expected: usize,
        /// Bytes there are.
        available: usize,
    },
    /// A header that starts with another magic.
    BadMagic {
        /// The magic asked for.
        expected: u32,
        /// The magic found.
        found: u32,
    },
    /// A raw number that is no member of the enumeration.
    UnknownValue {
        /// Which enumeration.
        of: &'static str,
        /// The number.
        value: u32,
    },
    /// A descriptor whose type, element count and size do not agree.
    BadDescriptor {
        /// Raw type id.
        type_id: u8,
        /// Element count of the descriptor.
        num_elements: u32,
        /// Size in bytes of the descriptor.
        size_bytes: u32,
    },
    /// A schema with more arguments than [`MAX_ARGS`](crate::schema::MAX_ARGS).
    TooManyArgs(u8),
    /// A schema with more results than [`MAX_RESULTS`](crate::schema::MAX_RESULTS).
    TooManyResults(u8),
    /// Sizes that do not add up within 32 bits.
    SizeOverflow,
    /// A message that does not fit the slot, header included.
    SlotTooSmall {
        /// Bytes needed, header included.
        needed: u64,
        /// Bytes of the slot.
        slot: u64,
    },
    /// A value of another type than the schema has at this index.
    TypeMismatch {
        /// Index in the schema, from 0.
        index: usize,
        /// Raw type id of the schema.
        expected: u8,
        /// Raw type id that was pushed or asked for.
        found: u8,
    },
    /// An array, bit string or readout of another length than the schema has at this index.
    CountMismatch {
        /// Elements expected.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// One value more than the schema has.
    PastEnd {
        /// Values in the schema.
        fields: usize,
    },
    /// The message was finished before every value of the schema was written or read.
    Unfinished {
        /// Values done.
        done: usize,
        /// Values in the schema.
        fields: usize,
    },
    /// The schema has two 4-bit values to a byte at this index, and whole bytes were pushed or asked for.
    PackedNibbles {
        /// Index in the schema, from 0.
        index: usize,
    },
    /// Bits or nibbles after the last element that are not zero.
    NonZeroPadding {
        /// Offset of the byte within the bit string or readout.
        byte: usize,
    },
    /// A bit, nibble or code outside its range.
    ValueOutOfRange {
        /// Element, from 0.
        index: usize,
        /// The value.
        value: u32,
        /// Largest value allowed.
        max: u32,
    },
    /// A function table entry without a handler.
    NullHandler {
        /// Raw id of its function.
        function_id: u32,
    },
    /// A floating-point confidence that is not a finite number.
    NotFinite {
        /// Element, from 0.
        index: usize,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, available } => {
                write!(f, "truncated: {needed} bytes needed, {available} there")
            }
            Self::TrailingBytes { expected, available } => {
                write!(f, "over-long: the schema describes {expected} bytes, {available} there")
            }
            Self::BadMagic { expected, found } => {
                write!(f, "bad magic {found:#010x}, expected {expected:#010x}")
            }
            Self::UnknownValue { of, value } => write!(f, "{value:#x} is no {of}"),
            Self::BadDescriptor { type_id, num_elements, size_bytes } => write!(
                f,
                "type {type_id:#04x} with {num_elements} element(s) cannot be {size_bytes} bytes long; \
                 build descriptors with the constructors of TypeDesc"
            ),
            Self::TooManyArgs(n) => {
                write!(f, "{n} arguments, at most {} are possible", crate::limits::MAX_ARGS)
            }
            Self::TooManyResults(n) => {
                write!(f, "{n} results, at most {} are possible", crate::limits::MAX_RESULTS)
            }
            Self::SizeOverflow => f.write_str("the sizes of the schema do not add up within 32 bits"),
            Self::SlotTooSmall { needed, slot } => write!(
                f,
                "the message needs {needed} bytes with its header, the slot has {slot}; use larger slots"
            ),
            Self::TypeMismatch { index, expected, found } => {
                write!(f, "value {index} is of type {expected:#04x} in the schema, not {found:#04x}")
            }
            Self::CountMismatch { expected, found } => {
                write!(f, "{found} element(s) given, {expected} expected")
            }
            Self::PastEnd { fields } => write!(f, "the schema has {fields} value(s), one more was asked for"),
            Self::Unfinished { done, fields } => {
                write!(f, "finished after {done} of {fields} value(s)")
            }
            Self::PackedNibbles { index } => {
                write!(f, "value {index} is packed 4-bit readout; use the readout4 calls for it")
            }
            Self::NonZeroPadding { byte } => {
                write!(f, "unused bits of byte {byte} are set; unused bits must be zero")
            }
            Self::ValueOutOfRange { index, value, max } => {
                write!(f, "element {index} is {value}, at most {max} is possible")
            }
            Self::NullHandler { function_id } => {
                write!(f, "the table entry of function {function_id:#010x} has no handler")
            }
            Self::NotFinite { index } => write!(f, "element {index} is not a finite number"),
        }
    }
}

impl core::error::Error for WireError {}

/// Exactly `needed` bytes, not one less or more.
pub(crate) const fn check_len(needed: usize, available: usize) -> Result<(), WireError> {
    if available < needed {
        Err(WireError::Truncated { needed, available })
    } else if available > needed {
        Err(WireError::TrailingBytes { expected: needed, available })
    } else {
        Ok(())
    }
}
