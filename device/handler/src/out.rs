//! Out-parameters of thread handlers.

use crate::{F32, F64, I32, I64, Status, TypeDesc, count};
use zerocopy::FromBytes;

/// A type of parameter through which a thread handler writes one result in place.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an out-parameter of a handler",
    label = "not a payload type",
    note = "out-parameters of a thread handler are `&mut` of `u8`, `I32`, `I64`, `F32`, `F64`, `[u8; N]`, `[I32; N]`, `[F32; N]` and `[F64; N]`, and `BitsMut<'_, N>`"
)]
pub trait OutParam<'a>: Sized {
    /// Type and size.
    const DESC: TypeDesc;

    /// Over its bytes, of which there are as many as [`Self::DESC`] says.
    ///
    /// # Errors
    /// [`Status::RESULT_TOO_LONG`] for another number.
    fn over(bytes: &'a mut [u8]) -> Result<Self, Status>;

    /// What the calling side gets of it.
    type Value;

    /// Reads it, on the calling side; `None` for bytes that are no such value.
    fn read(bytes: &[u8]) -> Option<Self::Value>;
}

/// What may stand behind the `&mut` of an out-parameter. It lies unaligned in the response: [`F32`] instead of `f32`.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` cannot be an out-parameter of a handler",
    label = "not a payload type",
    note = "out-parameters of a thread handler are `&mut` of `u8`, `I32`, `I64`, `F32`, `F64`, `[u8; N]`, `[I32; N]`, `[F32; N]` and `[F64; N]`, and `BitsMut<'_, N>`"
)]
pub trait OutValue: Sized {
    /// Type and size.
    const DESC: TypeDesc;

    /// The value at `bytes`; `None` when they have another length.
    fn over(bytes: &mut [u8]) -> Option<&mut Self>;

    /// The value of `bytes`, on its own; `None` when they have another length.
    fn read(bytes: &[u8]) -> Option<Self>;
}

impl<'a, T: OutValue> OutParam<'a> for &'a mut T {
    const DESC: TypeDesc = T::DESC;

    #[inline(always)]
    fn over(bytes: &'a mut [u8]) -> Result<Self, Status> {
        T::over(bytes).ok_or(Status::RESULT_TOO_LONG)
    }

    type Value = T;

    fn read(bytes: &[u8]) -> Option<T> {
        T::read(bytes)
    }
}

macro_rules! values {
    ($($value:ident: $desc:ident;)*) => {$(
        impl OutValue for $value {
            const DESC: TypeDesc = TypeDesc::$desc();

            #[inline(always)]
            fn over(bytes: &mut [u8]) -> Option<&mut Self> {
                Self::mut_from_bytes(bytes).ok()
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                Self::read_from_bytes(bytes).ok()
            }
        }
    )*};
}

macro_rules! arrays {
    ($($element:ident: $desc:ident;)*) => {$(
        impl<const N: usize> OutValue for [$element; N] {
            const DESC: TypeDesc = TypeDesc::$desc(count(N));

            #[inline(always)]
            fn over(bytes: &mut [u8]) -> Option<&mut Self> {
                Self::mut_from_bytes(bytes).ok()
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                Self::read_from_bytes(bytes).ok()
            }
        }
    )*};
}

values! {
    u8: uint8;
    I32: int32;
    I64: int64;
    F32: float32;
    F64: float64;
}

arrays! {
    u8: array_uint8;
    I32: array_int32;
    F32: array_float32;
    F64: array_float64;
}
