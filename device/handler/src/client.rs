//! The calling side of a handler: typed arguments into a payload, a result into typed values.

use crate::{
    Argument, BitString, Bits, BitsMut, F32, F64, FunctionId, I32, Output, OutValue, Readout4, ResultValue,
    Status, TypedOutput,
};
use ringcall_wire::call::RoundTrip;
use zerocopy::{FromBytes, IntoBytes};

/// Why a typed call has no results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientError<E> {
    /// The carrier's: no room, no answer in time.
    Carrier(E),
    /// The answer has this status: the handler's own where it is positive, the protocol's where it is negative.
    Status(Status),
    /// The answer has another length, or bits that no such value has: another handler answers by this name.
    Result {
        /// Its bytes.
        found: usize,
        /// The bytes of the handler's results.
        expected: usize,
    },
}

impl<E: core::fmt::Display> core::fmt::Display for ClientError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Carrier(error) => error.fmt(f),
            Self::Status(status) => write!(f, "the answer has {status}"),
            Self::Result { found, expected } => {
                write!(f, "the answer has {found} bytes that are no results of this handler, which have {expected}")
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for ClientError<E> {}

/// An argument that a caller writes: every type of [`Argument`].
pub trait ClientArgument<'a>: Argument<'a> {
    /// Writes it into its bytes, of which there are as many as [`Argument::DESC`] says.
    fn write(&self, out: &mut [u8]);
}

macro_rules! scalar_arguments {
    ($($scalar:ident)*) => {$(
        impl ClientArgument<'_> for $scalar {
            fn write(&self, out: &mut [u8]) {
                put(out, &self.to_le_bytes());
            }
        }
    )*};
}

macro_rules! array_arguments {
    ($($element:ident)*) => {$(
        impl<'a, const N: usize> ClientArgument<'a> for &'a [$element; N] {
            fn write(&self, out: &mut [u8]) {
                put(out, self.as_bytes());
            }
        }
    )*};
}

scalar_arguments! { u8 i32 i64 f32 f64 }
array_arguments! { u8 I32 F32 F64 }

impl<'a, const N: usize> ClientArgument<'a> for Bits<'a, N> {
    fn write(&self, out: &mut [u8]) {
        put(out, self.as_bytes());
    }
}

impl<'a, const N: usize> ClientArgument<'a> for Readout4<'a, N> {
    fn write(&self, out: &mut [u8]) {
        for (byte, pair) in out.iter_mut().enumerate() {
            let nibble = |index: usize| self.get(index).unwrap_or(0);
            *pair = nibble(2 * byte) | nibble(2 * byte + 1) << 4;
        }
    }
}

fn put(out: &mut [u8], bytes: &[u8]) {
    out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
}

/// What a caller gets of a result that a handler writes through a parameter.
pub trait ClientResult {
    /// The value, on its own.
    type Value;

    /// Reads it; `None` for bytes that are no such value.
    fn read(bytes: &[u8]) -> Option<Self::Value>;
}

impl<T: OutValue + FromBytes> ClientResult for &mut T {
    type Value = T;

    fn read(bytes: &[u8]) -> Option<T> {
        T::read_from_bytes(bytes).ok()
    }
}

impl<const N: usize> ClientResult for BitsMut<'_, N> {
    type Value = BitString<N>;

    fn read(bytes: &[u8]) -> Option<BitString<N>> {
        BitString::read(bytes)
    }
}

impl<T: TypedOutput + ResultValue> ClientResult for Output<'_, T> {
    type Value = T;

    fn read(bytes: &[u8]) -> Option<T> {
        T::read(bytes)
    }
}

/// What generated code does: sends a payload of a handler, and checks that the answer has the bytes of its results.
///
/// # Errors
/// As a typed call, its values apart.
#[doc(hidden)]
pub fn round_trip<C: RoundTrip>(
    client: &mut C,
    function: FunctionId,
    payload: &[u8],
    result: &mut [u8],
) -> Result<(), ClientError<C::Error>> {
    let expected = result.len();
    let (status, found) = client.round_trip(function, payload, result).map_err(ClientError::Carrier)?;
    match status {
        Status::OK if found == expected => Ok(()),
        Status::OK => Err(ClientError::Result { found, expected }),
        status => Err(ClientError::Status(status)),
    }
}

/// The next bytes of a payload, for an argument.
#[doc(hidden)]
pub fn next_mut<'a>(payload: &mut &'a mut [u8], bytes: u32) -> &'a mut [u8] {
    let all = core::mem::take(payload);
    let (first, rest) = all.split_at_mut_checked(bytes as usize).unwrap_or_default();
    *payload = rest;
    first
}

/// The next bytes of a result, for a value.
#[doc(hidden)]
pub fn next<'a>(result: &mut &'a [u8], bytes: u32) -> &'a [u8] {
    let (first, rest) = result.split_at_checked(bytes as usize).unwrap_or_default();
    *result = rest;
    first
}
