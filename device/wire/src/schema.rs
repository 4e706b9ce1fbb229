//! Schemas: what a handler's arguments and results are, in 148 bytes.
//!
//! | offset | field |
//! |---|---|
//! | 0 | num_args `u8`, at most [`MAX_ARGS`] |
//! | 1 | num_results `u8`, at most [`MAX_RESULTS`] |
//! | 2 | reserved `u16`, zero |
//! | 4 | args, 8 descriptors of 12 bytes |
//! | 100 | results, 4 descriptors of 12 bytes |
//!
//! A payload is the values in this order without gaps, so most of them are unaligned. A schema without arguments and
//! without results is *untyped*: the handler takes bytes of any length. One with results but no arguments takes an
//! empty payload only. One whose only argument is [`TypeDesc::any_bytes`] takes bytes of any length, too, and so does
//! a response whose only result is that.

use core::mem::{align_of, offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use crate::limits::{MAX_ARGS, MAX_RESULTS};

use crate::error::{WireError, check_len};
use crate::header::HEADER_BYTES;
use crate::payload::TypeDesc;

/// Descriptors of a handler's arguments and results.
///
/// ```
/// use ringcall_wire::{HandlerSchema, TypeDesc};
///
/// const SCHEMA: HandlerSchema =
///     HandlerSchema::new().arg(TypeDesc::bit_packed(10)).arg(TypeDesc::float32()).result(TypeDesc::uint8());
/// const _: () = assert!(SCHEMA.validate().is_ok());
/// assert_eq!(SCHEMA.args_bytes(), Ok(6));
/// let offsets = SCHEMA.arg_fields().map(|field| field.offset);
/// assert!(offsets.eq([0, 2]));
/// assert!(SCHEMA.fits_slot(30).is_ok() && SCHEMA.fits_slot(29).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HandlerSchema {
    /// Arguments used, from the first.
    pub num_args: u8,
    /// Results used, from the first.
    pub num_results: u8,
    /// Written as zero, not looked at.
    pub reserved: u16,
    /// Argument descriptors; those past `num_args` are not looked at.
    pub args: [TypeDesc; MAX_ARGS],
    /// Result descriptors; those past `num_results` are not looked at.
    pub results: [TypeDesc; MAX_RESULTS],
}

const _: () = {
    assert!(size_of::<HandlerSchema>() == 148 && align_of::<HandlerSchema>() == 4);
    assert!(offset_of!(HandlerSchema, num_args) == 0 && offset_of!(HandlerSchema, num_results) == 1);
    assert!(offset_of!(HandlerSchema, reserved) == 2 && offset_of!(HandlerSchema, args) == 4);
    assert!(offset_of!(HandlerSchema, results) == 100);
};

impl Default for HandlerSchema {
    fn default() -> Self {
        Self::new()
    }
}

/// The first `count` of `all`, or all of them when an invalid schema claims more.
const fn used(all: &[TypeDesc], count: u8) -> &[TypeDesc] {
    match all.split_at_checked(count as usize) {
        Some((used, _)) => used,
        None => all,
    }
}

/// Whether `descs` is [`TypeDesc::any_bytes`] alone.
pub(crate) const fn is_any_length(descs: &[TypeDesc]) -> bool {
    match descs {
        [only] => only.same_as(&TypeDesc::any_bytes()),
        _ => false,
    }
}

const fn checked_sum(descs: &[TypeDesc]) -> Result<u32, WireError> {
    let mut sum = 0_u32;
    let mut left = descs;
    while let Some((desc, rest)) = left.split_first() {
        sum = match sum.checked_add(desc.size_bytes) {
            Some(sum) => sum,
            None => return Err(WireError::SizeOverflow),
        };
        left = rest;
    }
    Ok(sum)
}

const fn validate_all(descs: &[TypeDesc]) -> Result<(), WireError> {
    let mut left = descs;
    while let Some((desc, rest)) = left.split_first() {
        if let Err(error) = desc.validate() {
            return Err(error);
        }
        left = rest;
    }
    Ok(())
}

impl HandlerSchema {
    /// The untyped schema; add to it with [`Self::arg`] and [`Self::result`].
    #[must_use]
    pub const fn new() -> Self {
        Self {
            num_args: 0,
            num_results: 0,
            reserved: 0,
            args: [TypeDesc::UNUSED; MAX_ARGS],
            results: [TypeDesc::UNUSED; MAX_RESULTS],
        }
    }

    /// With one more argument. One past [`MAX_ARGS`] is counted but not kept, so that [`Self::validate`] refuses.
    #[must_use]
    pub const fn arg(mut self, desc: TypeDesc) -> Self {
        if let Some((_, [field, ..])) = self.args.split_at_mut_checked(self.num_args as usize) {
            *field = desc;
        }
        self.num_args = self.num_args.saturating_add(1);
        self
    }

    /// With one more result. One past [`MAX_RESULTS`] is counted but not kept, so that [`Self::validate`] refuses.
    #[must_use]
    pub const fn result(mut self, desc: TypeDesc) -> Self {
        if let Some((_, [field, ..])) = self.results.split_at_mut_checked(self.num_results as usize) {
            *field = desc;
        }
        self.num_results = self.num_results.saturating_add(1);
        self
    }

    /// Whether any payload is accepted: no arguments and no results described.
    #[must_use]
    pub const fn is_untyped(&self) -> bool {
        self.num_args == 0 && self.num_results == 0
    }

    /// The argument descriptors in use.
    #[must_use]
    pub const fn args(&self) -> &[TypeDesc] {
        used(&self.args, self.num_args)
    }

    /// The result descriptors in use.
    #[must_use]
    pub const fn results(&self) -> &[TypeDesc] {
        used(&self.results, self.num_results)
    }

    /// Payload bytes of a request. 0 for a schema that takes any length: see [`Self::arg_len`].
    ///
    /// # Errors
    /// [`WireError::TooManyArgs`], or [`WireError::SizeOverflow`] past `u32::MAX`.
    pub const fn args_bytes(&self) -> Result<u32, WireError> {
        if self.num_args as usize > MAX_ARGS {
            return Err(WireError::TooManyArgs(self.num_args));
        }
        checked_sum(self.args())
    }

    /// Payload bytes of a response. 0 for a schema that allows any length: see [`Self::result_len`].
    ///
    /// # Errors
    /// [`WireError::TooManyResults`], or [`WireError::SizeOverflow`] past `u32::MAX`.
    pub const fn results_bytes(&self) -> Result<u32, WireError> {
        if self.num_results as usize > MAX_RESULTS {
            return Err(WireError::TooManyResults(self.num_results));
        }
        checked_sum(self.results())
    }

    /// The `arg_len` that every request must have; `None` where any length is taken.
    ///
    /// ```
    /// use ringcall_wire::{HandlerSchema, TypeDesc};
    ///
    /// assert_eq!(HandlerSchema::new().arg(TypeDesc::array_uint8(16)).arg_len(), Ok(Some(16)));
    /// assert_eq!(HandlerSchema::new().arg(TypeDesc::any_bytes()).arg_len(), Ok(None));
    /// assert_eq!(HandlerSchema::new().arg_len(), Ok(None));
    /// ```
    ///
    /// # Errors
    /// As [`Self::args_bytes`].
    pub const fn arg_len(&self) -> Result<Option<u32>, WireError> {
        match self.args_bytes() {
            Ok(_) if self.is_untyped() || is_any_length(self.args()) => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(error),
        }
    }

    /// The `result_len` that every response has; `None` where any length is allowed.
    ///
    /// # Errors
    /// As [`Self::results_bytes`].
    pub const fn result_len(&self) -> Result<Option<u32>, WireError> {
        match self.results_bytes() {
            Ok(_) if self.is_untyped() || is_any_length(self.results()) => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(error),
        }
    }

    /// Checks counts, descriptors and sums.
    ///
    /// # Errors
    /// What [`Self::args_bytes`], [`Self::results_bytes`] and [`TypeDesc::validate`] refuse.
    pub const fn validate(&self) -> Result<(), WireError> {
        if let Err(error) = self.args_bytes() {
            return Err(error);
        }
        if let Err(error) = self.results_bytes() {
            return Err(error);
        }
        if let Err(error) = validate_all(self.args()) {
            return Err(error);
        }
        validate_all(self.results())
    }

    /// Checks that request and response fit a slot of `slot_bytes`, headers included.
    ///
    /// # Errors
    /// [`WireError::SlotTooSmall`], or what [`Self::args_bytes`] and [`Self::results_bytes`] refuse. A slot without room
    /// for a header fits nothing, not even an untyped schema.
    pub const fn fits_slot(&self, slot_bytes: usize) -> Result<(), WireError> {
        let args = match self.args_bytes() {
            Ok(bytes) => bytes,
            Err(error) => return Err(error),
        };
        let results = match self.results_bytes() {
            Ok(bytes) => bytes,
            Err(error) => return Err(error),
        };
        let payload = if args > results { args } else { results };
        let needed = HEADER_BYTES as u64 + payload as u64;
        let slot = slot_bytes as u64;
        if needed <= slot { Ok(()) } else { Err(WireError::SlotTooSmall { needed, slot }) }
    }

    /// Checks the `arg_len` of a request against [`Self::arg_len`].
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TrailingBytes`], or what [`Self::args_bytes`] refuses.
    pub const fn check_arg_len(&self, arg_len: u32) -> Result<(), WireError> {
        match self.arg_len() {
            Ok(Some(needed)) => check_len(needed as usize, arg_len as usize),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The arguments with their offsets in the payload.
    #[must_use]
    pub const fn arg_fields(&self) -> Fields<'_> {
        Fields { left: self.args(), index: 0, offset: 0 }
    }

    /// The results with their offsets in the payload.
    #[must_use]
    pub const fn result_fields(&self) -> Fields<'_> {
        Fields { left: self.results(), index: 0, offset: 0 }
    }
}

/// One argument or result and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Index in the schema, from 0.
    pub index: usize,
    /// First byte within the payload, header not counted.
    pub offset: u32,
    /// What it is.
    pub desc: TypeDesc,
}

/// The arguments or results of a schema in order; ends early where the offsets of an invalid schema overflow.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    left: &'a [TypeDesc],
    index: usize,
    offset: u32,
}

impl Iterator for Fields<'_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        let (&desc, rest) = self.left.split_first()?;
        let field = Field { index: self.index, offset: self.offset, desc };
        match self.offset.checked_add(desc.size_bytes) {
            Some(offset) => {
                self.left = rest;
                self.index += 1;
                self.offset = offset;
                Some(field)
            }
            None => {
                self.left = &[];
                None
            }
        }
    }
}

impl core::iter::FusedIterator for Fields<'_> {}
