//! The calling side of a handler: typed arguments into a payload, a result into typed values.

use crate::{FunctionId, Status};
use ringcall_wire::call::RoundTrip;

/// Why a typed call has no results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientError<E> {
    /// The carrier's: no room, no answer in time.
    Carrier(E),
    /// The answer has this status: the handler's own where it is positive, the protocol's where it is negative.
    Refused(Status),
    /// The answer has another length, or bits that no such value has: another handler answers by this name.
    Malformed {
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
            Self::Refused(status) => write!(f, "the answer has {status}"),
            Self::Malformed { found, expected } => {
                write!(
                    f,
                    "the answer has {found} bytes that are no results of this handler, which have {expected}"
                )
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for ClientError<E> {}

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
        Status::OK => Err(ClientError::Malformed { found, expected }),
        status => Err(ClientError::Refused(status)),
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
