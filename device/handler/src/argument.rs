//! Argument types of handlers.

use crate::{F32, F64, I32, Status, TypeDesc, count};
use zerocopy::{FromBytes, IntoBytes};

/// A type of parameter that is read from a payload.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "not a payload type",
    note = "arguments are `u8`, `i32`, `i64`, `f32`, `f64`, `&[u8; N]`, `&[I32; N]`, `&[F32; N]`, `&[F64; N]`, `Bits<'_, N>` and `Readout4<'_, N>`",
    note = "elements of arrays lie unaligned in the payload: `F32` instead of `f32`, and so on"
)]
pub trait Argument<'a>: Sized {
    /// Type and size.
    const DESC: TypeDesc;

    /// Reads it from its bytes, of which there are as many as [`Self::DESC`] says.
    ///
    /// # Errors
    /// [`Status::BAD_PAYLOAD`] for bytes that are no such value.
    fn decode(bytes: &'a [u8]) -> Result<Self, Status>;

    /// Writes it, on the calling side, into its bytes, of which there are as many as [`Self::DESC`] says.
    fn write(&self, out: &mut [u8]);
}

/// Copies as many bytes as both have.
pub(crate) fn put(out: &mut [u8], bytes: &[u8]) {
    out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
}

macro_rules! scalars {
    ($($scalar:ident: $desc:ident;)*) => {$(
        impl Argument<'_> for $scalar {
            const DESC: TypeDesc = TypeDesc::$desc();

            #[inline(always)]
            fn decode(bytes: &[u8]) -> Result<Self, Status> {
                bytes.first_chunk().map(|bytes| Self::from_le_bytes(*bytes)).ok_or(Status::SCHEMA_MISMATCH)
            }

            fn write(&self, out: &mut [u8]) {
                put(out, &self.to_le_bytes());
            }
        }
    )*};
}

scalars! {
    u8: uint8;
    i32: int32;
    i64: int64;
    f32: float32;
    f64: float64;
}

macro_rules! arrays {
    ($($element:ident: $desc:ident;)*) => {$(
        impl<'a, const N: usize> Argument<'a> for &'a [$element; N] {
            const DESC: TypeDesc = TypeDesc::$desc(count(N));

            #[inline(always)]
            fn decode(bytes: &'a [u8]) -> Result<Self, Status> {
                <[$element; N]>::ref_from_bytes(bytes).map_err(|_| Status::SCHEMA_MISMATCH)
            }

            fn write(&self, out: &mut [u8]) {
                put(out, self.as_bytes());
            }
        }
    )*};
}

arrays! {
    u8: array_uint8;
    I32: array_int32;
    F32: array_float32;
    F64: array_float64;
}
