//! Results that many threads write.

use crate::{BitString, OutBytes, Status, TypeDesc, count};
use core::marker::PhantomData;
use ringcall_wire::bits::packed_len;

/// A result of type `T` that all threads of a team write, each its own elements.
///
/// There is no `&mut` to it, since there are many writers: each [`set`](Self::set) is a relaxed store. Two threads that
/// set one element leave one of the values, or a mixture of their bytes.
///
/// | `T` | elements |
/// |---|---|
/// | `u8`, `i32`, `i64`, `f32`, `f64` | one, at index 0 |
/// | `[u8; N]`, `[i32; N]`, `[f32; N]`, `[f64; N]` | N |
/// | [`BitString<N>`](BitString) | `ceil(N / 8)` bytes of 8 bits each |
/// | `[u8]`, in an untyped handler | as many bytes as the response has room for |
///
/// Elements that the handler does not set keep the response slot's old contents.
pub struct Output<'a, T: ?Sized> {
    bytes: OutBytes<'a>,
    of: PhantomData<fn(&T)>,
}

/// What an [`Output`] may be made of.
#[diagnostic::on_unimplemented(
    message = "there is no `Output` of `{Self}`",
    label = "not a payload type",
    note = "outputs are of `u8`, `i32`, `i64`, `f32`, `f64`, `[u8; N]`, `[i32; N]`, `[f32; N]`, `[f64; N]` and `BitString<N>`; and of `[u8]` in an untyped handler"
)]
pub trait OutputValue {
    /// The bytes set at once.
    type Element: Copy;
    /// Bytes of one element.
    const ELEMENT_BYTES: usize;

    /// Sets element `index`; false past the end, where nothing is written.
    fn store(bytes: OutBytes<'_>, index: usize, element: Self::Element) -> bool;
}

/// An [`OutputValue`] of known size.
#[diagnostic::on_unimplemented(
    message = "there is no `Output` of `{Self}`",
    label = "not a payload type",
    note = "outputs are of `u8`, `i32`, `i64`, `f32`, `f64`, `[u8; N]`, `[i32; N]`, `[f32; N]`, `[f64; N]` and `BitString<N>`; and of `[u8]` in an untyped handler"
)]
pub trait TypedOutput: OutputValue + crate::ResultValue {
    /// Type and size.
    const DESC: TypeDesc;
}

/// A type of parameter through which a team writes one result: an [`Output`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an out-parameter of a warp or grid handler",
    label = "not an `Output`"
)]
pub trait OutputParam<'a>: Sized {
    /// Type and size.
    const DESC: TypeDesc;

    /// Over its bytes, of which there are as many as [`Self::DESC`] says.
    ///
    /// # Errors
    /// [`Status::RESULT_TOO_LONG`] for fewer.
    fn over(bytes: OutBytes<'a>) -> Result<Self, Status>;

    /// What the calling side gets of it.
    type Value;

    /// Reads it, on the calling side; `None` for bytes that are no such value.
    fn read(bytes: &[u8]) -> Option<Self::Value>;
}

impl<'a, T: OutputValue + ?Sized> Output<'a, T> {
    /// Over the whole of `bytes`.
    ///
    /// ```
    /// use ringcall_handler::{OutBytes, Output};
    /// let mut bytes = [0; 8];
    /// let output = Output::<[i32; 2]>::over(OutBytes::new(&mut bytes));
    /// assert!(output.set(1, -2) && !output.set(2, 0));
    /// assert_eq!((output.len(), bytes), (2, [0, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF]));
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn over(bytes: OutBytes<'a>) -> Self {
        Self { bytes, of: PhantomData }
    }

    /// How many elements.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len() / T::ELEMENT_BYTES
    }

    /// Whether there are none.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets element `index`. False past the end, where nothing is written.
    #[inline(always)]
    pub fn set(&self, index: usize, element: T::Element) -> bool {
        T::store(self.bytes, index, element)
    }
}

impl Output<'_, [u8]> {
    /// Sets `bytes.len()` bytes from byte `offset` on. False where they do not all lie inside, and nothing is written. On a
    /// device 4 or 8 aligned bytes are one store.
    #[inline(always)]
    pub fn set_bytes<const N: usize>(&self, offset: usize, bytes: [u8; N]) -> bool {
        self.bytes.store(offset, bytes)
    }
}

impl<'a, T: TypedOutput> OutputParam<'a> for Output<'a, T> {
    const DESC: TypeDesc = <T as TypedOutput>::DESC;

    #[inline(always)]
    fn over(bytes: OutBytes<'a>) -> Result<Self, Status> {
        if bytes.len() < <T as TypedOutput>::DESC.size_bytes as usize {
            return Err(Status::RESULT_TOO_LONG);
        }
        Ok(Self::over(bytes))
    }

    type Value = T;

    fn read(bytes: &[u8]) -> Option<T> {
        T::read(bytes)
    }
}

impl<T: ?Sized> Clone for Output<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Output<'_, T> {}

impl<T: ?Sized> core::fmt::Debug for Output<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Output").field("bytes", &self.bytes.len()).finish()
    }
}

macro_rules! scalars {
    ($($scalar:ident: $desc:ident;)*) => {$(
        impl OutputValue for $scalar {
            type Element = Self;
            const ELEMENT_BYTES: usize = size_of::<Self>();

            #[inline(always)]
            fn store(bytes: OutBytes<'_>, index: usize, element: Self) -> bool {
                index == 0 && bytes.store(0, element.to_le_bytes())
            }
        }

        impl TypedOutput for $scalar {
            const DESC: TypeDesc = TypeDesc::$desc();
        }
    )*};
}

macro_rules! arrays {
    ($($element:ident: $desc:ident;)*) => {$(
        impl<const N: usize> OutputValue for [$element; N] {
            type Element = $element;
            const ELEMENT_BYTES: usize = size_of::<$element>();

            #[inline(always)]
            fn store(bytes: OutBytes<'_>, index: usize, element: $element) -> bool {
                index < N && bytes.store(index * Self::ELEMENT_BYTES, element.to_le_bytes())
            }
        }

        impl<const N: usize> TypedOutput for [$element; N] {
            const DESC: TypeDesc = TypeDesc::$desc(count(N));
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

impl<const N: usize> OutputValue for BitString<N> {
    type Element = u8;
    const ELEMENT_BYTES: usize = 1;

    /// Bits past the end of the string are left out, so that the unused ones stay zero.
    #[inline(always)]
    fn store(bytes: OutBytes<'_>, index: usize, element: u8) -> bool {
        let used = if index == N / 8 { !(u8::MAX << (N % 8)) } else { u8::MAX };
        index < packed_len(N) && bytes.store(index, [element & used])
    }
}

impl<const N: usize> TypedOutput for BitString<N> {
    const DESC: TypeDesc = TypeDesc::bit_packed(count(N));
}

impl OutputValue for [u8] {
    type Element = u8;
    const ELEMENT_BYTES: usize = 1;

    #[inline(always)]
    fn store(bytes: OutBytes<'_>, index: usize, element: u8) -> bool {
        bytes.store(index, [element])
    }
}
