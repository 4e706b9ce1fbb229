//! Return types of handlers.

use crate::{Status, TypeDesc, count};

/// A value that is written into a response.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not a payload type",
    note = "results are `u8`, `i32`, `i64`, `f32`, `f64`, `[u8; N]`, `[i32; N]`, `[f32; N]`, `[f64; N]` and `BitString<N>`; a tuple of up to 4 of these; or a `Result` of that with `Status` as its error"
)]
pub trait ResultValue: Sized {
    /// Type and size.
    const DESC: TypeDesc;

    /// Writes it to `out`, which has the bytes that [`Self::DESC`] says.
    fn encode(self, out: &mut [u8]);

    /// Reads it, on the calling side; `None` for bytes that are no such value.
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! scalars {
    ($($scalar:ident: $desc:ident;)*) => {$(
        impl ResultValue for $scalar {
            const DESC: TypeDesc = TypeDesc::$desc();

            #[inline(always)]
            fn encode(self, out: &mut [u8]) {
                if let Some(bytes) = out.first_chunk_mut() {
                    *bytes = self.to_le_bytes();
                }
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_le_bytes)
            }
        }
    )*};
}

macro_rules! arrays {
    ($($element:ident: $desc:ident;)*) => {$(
        impl<const N: usize> ResultValue for [$element; N] {
            const DESC: TypeDesc = TypeDesc::$desc(count(N));

            #[inline(always)]
            fn encode(self, out: &mut [u8]) {
                let (elements, _) = out.as_chunks_mut();
                elements.iter_mut().zip(self).for_each(|(element, value)| *element = value.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                let (elements, rest) = bytes.as_chunks();
                let mut values = [<$element>::default(); N];
                values.iter_mut().zip(elements).for_each(|(value, bytes)| *value = $element::from_le_bytes(*bytes));
                (rest.is_empty() && elements.len() == N).then_some(values)
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

arrays! {
    u8: array_uint8;
    i32: array_int32;
    f32: array_float32;
    f64: array_float64;
}

/// All results of a handler that returns them: none, one, or a tuple of up to 4.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not results of a handler",
    note = "results are `u8`, `i32`, `i64`, `f32`, `f64`, `[u8; N]`, `[i32; N]`, `[f32; N]`, `[f64; N]` and `BitString<N>`; a tuple of up to 4 of these; or a `Result` of that with `Status` as its error"
)]
pub trait Results: Sized {
    /// Types and sizes, in order.
    const DESCS: &'static [TypeDesc];

    /// Writes them one after the other.
    ///
    /// # Errors
    /// [`Status::RESULT_TOO_LONG`] when `out` has no room.
    fn encode(self, out: &mut [u8]) -> Result<(), Status>;

    /// Reads them, on the calling side; `None` for bytes that are no such values.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// Reads one value of a result, and moves on to the next.
fn pull<T: ResultValue>(bytes: &mut &[u8]) -> Option<T> {
    let (value, rest) = bytes.split_at_checked(T::DESC.size_bytes as usize)?;
    *bytes = rest;
    T::read(value)
}

/// Writes one value and returns the room after it.
#[inline(always)]
fn push<T: ResultValue>(value: T, out: &mut [u8]) -> Result<&mut [u8], Status> {
    let (bytes, rest) =
        out.split_at_mut_checked(T::DESC.size_bytes as usize).ok_or(Status::RESULT_TOO_LONG)?;
    value.encode(bytes);
    Ok(rest)
}

impl<T: ResultValue> Results for T {
    const DESCS: &'static [TypeDesc] = &[T::DESC];

    #[inline(always)]
    fn encode(self, out: &mut [u8]) -> Result<(), Status> {
        push(self, out).map(drop)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        <T as ResultValue>::read(bytes)
    }
}

macro_rules! tuples {
    ($(($($result:ident $index:tt),*);)*) => {$(
        impl<$($result: ResultValue),*> Results for ($($result,)*) {
            const DESCS: &'static [TypeDesc] = &[$($result::DESC),*];

            #[inline(always)]
            #[allow(unused_variables)]
            fn encode(self, out: &mut [u8]) -> Result<(), Status> {
                $(let out = push(self.$index, out)?;)*
                Ok(())
            }

            #[allow(unused_mut)]
            fn read(bytes: &[u8]) -> Option<Self> {
                let mut bytes = bytes;
                let values = ($(pull::<$result>(&mut bytes)?,)*);
                bytes.is_empty().then_some(values)
            }
        }
    )*};
}

tuples! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
}

/// What a thread handler without out-parameters returns: its results, or `Result` of them.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not results of a handler",
    note = "results are `u8`, `i32`, `i64`, `f32`, `f64`, `[u8; N]`, `[i32; N]`, `[f32; N]`, `[f64; N]` and `BitString<N>`; a tuple of up to 4 of these; or a `Result` of that with `Status` as its error"
)]
pub trait Returns: Sized {
    /// The results, on the calling side.
    type Values: Results;

    /// Types and sizes of the results, in order.
    const DESCS: &'static [TypeDesc];

    /// Writes the results one after the other.
    ///
    /// # Errors
    /// The handler's own status, or [`Status::RESULT_TOO_LONG`] when `out` has no room.
    fn encode(self, out: &mut [u8]) -> Result<(), Status>;

    /// Reads them, on the calling side; `None` for bytes that are no such values.
    fn read(bytes: &[u8]) -> Option<Self::Values> {
        <Self::Values as Results>::read(bytes)
    }
}

impl<T: Results> Returns for T {
    type Values = T;

    const DESCS: &'static [TypeDesc] = T::DESCS;

    #[inline(always)]
    fn encode(self, out: &mut [u8]) -> Result<(), Status> {
        Results::encode(self, out)
    }
}

impl<T: Results> Returns for Result<T, Status> {
    type Values = T;

    const DESCS: &'static [TypeDesc] = T::DESCS;

    #[inline(always)]
    fn encode(self, out: &mut [u8]) -> Result<(), Status> {
        Results::encode(self?, out)
    }
}

/// What a handler returns whose results are out-parameters.
#[diagnostic::on_unimplemented(
    message = "a handler with out-parameters, or of a warp or grid, returns `()` or `Result<(), Status>`",
    label = "results are returned or written through parameters, not both",
    note = "a warp's or a grid's results are written through `Output<'_, T>`"
)]
pub trait Outcome {
    /// As a `Result`.
    ///
    /// # Errors
    /// The handler's own status.
    fn outcome(self) -> Result<(), Status>;
}

impl Outcome for () {
    #[inline(always)]
    fn outcome(self) -> Result<(), Status> {
        Ok(())
    }
}

impl Outcome for Result<(), Status> {
    #[inline(always)]
    fn outcome(self) -> Result<(), Status> {
        self
    }
}

/// What an untyped handler returns: how many bytes of the result it wrote.
#[diagnostic::on_unimplemented(
    message = "an untyped handler returns `usize` or `Result<usize, Status>`",
    label = "not a number of bytes",
    note = "it is how many bytes of the result were written"
)]
pub trait Written {
    /// The number of bytes.
    ///
    /// # Errors
    /// The handler's own status; [`Status::RESULT_TOO_LONG`] for more than the `room` there is.
    fn written(self, room: usize) -> Result<usize, Status>;
}

impl Written for usize {
    #[inline(always)]
    fn written(self, room: usize) -> Result<usize, Status> {
        if self <= room { Ok(self) } else { Err(Status::RESULT_TOO_LONG) }
    }
}

impl Written for Result<usize, Status> {
    #[inline(always)]
    fn written(self, room: usize) -> Result<usize, Status> {
        self?.written(room)
    }
}
