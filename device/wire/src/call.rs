//! A call as its caller sees it: bytes to a function, a status and bytes back, over anything that carries them.

use crate::function::FunctionId;
use crate::status::Status;

/// What carries calls: a ring of this process, a transport, a test.
///
/// ```
/// use ringcall_wire::{FunctionId, Status, call::RoundTrip};
///
/// /// Answers at once, with the request.
/// struct Echo;
///
/// impl RoundTrip for Echo {
///     type Error = core::convert::Infallible;
///
///     fn round_trip(
///         &mut self,
///         _: FunctionId,
///         payload: &[u8],
///         result: &mut [u8],
///     ) -> Result<(Status, usize), Self::Error> {
///         let len = payload.len().min(result.len());
///         result[..len].copy_from_slice(&payload[..len]);
///         Ok((Status::OK, payload.len()))
///     }
/// }
///
/// let mut result = [0; 2];
/// assert_eq!(Echo.round_trip(FunctionId::of("echo"), &[1, 2], &mut result), Ok((Status::OK, 2)));
/// ```
pub trait RoundTrip {
    /// Why there is no answer.
    type Error;

    /// Sends `payload` to `function` and waits for the answer, for as long as the carrier allows: its status, and how many bytes the
    /// result has, of which as many as fit are in `result`.
    ///
    /// # Errors
    /// The carrier's own: no room, no answer in time.
    fn round_trip(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        result: &mut [u8],
    ) -> Result<(Status, usize), Self::Error>;
}
