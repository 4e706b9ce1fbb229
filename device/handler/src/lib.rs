//! Write Ringcall handlers: one function, typed by its schema, for a GPU's dispatcher and for a CPU.
//!
//! ```
//! use ringcall_handler as ringcall;
//! use ringcall::{Bits, F32, Status};
//!
//! /// The parity of the detectors that fired.
//! #[ringcall::handler]
//! pub fn mock_decode(syndrome: Bits<'_, 128>) -> u8 {
//!     syndrome.count_ones() as u8 & 1
//! }
//!
//! #[ringcall::handler(name = "advanced_decode")]
//! pub fn advanced(
//!     syndrome: Bits<'_, 128>,
//!     calibration: &[F32; 16],
//!     correction: &mut [u8; 16],
//! ) -> Result<(), Status> {
//!     if calibration.iter().any(|weight| !weight.get().is_finite()) {
//!         return Err(Status(1));
//!     }
//!     correction.copy_from_slice(syndrome.as_bytes());
//!     Ok(())
//! }
//!
//! // The functions are as they were. Beside each stands a type of the same name with its descriptor.
//! let handlers = ringcall::handlers![mock_decode, advanced];
//! assert_eq!(handlers.map(|h| (h.name, h.symbol)), [
//!     ("mock_decode", "ringcall_handler_mock_decode"),
//!     ("advanced_decode", "ringcall_handler_advanced_decode"),
//! ]);
//! // A descriptor runs its handler as a dispatcher does: bytes in, bytes out.
//! let mut result = [0; 1];
//! assert_eq!(mock_decode::HANDLER.call(&[0b111; 16], &mut result), Ok(1));
//! assert_eq!(mock_decode::HANDLER.call(&[0; 15], &mut result), Err(Status::SCHEMA_MISMATCH));
//! ```
//!
//! # Arguments
//! The parameters in their order are the arguments of the schema, at most 8, without gaps in the payload and therefore
//! unaligned: arrays of numbers are those of [`I32`], [`F32`] and [`F64`], whose `get()` reads one.
//!
//! | parameter | payload type |
//! |---|---|
//! | `u8`, `i32`, `i64`, `f32`, `f64` | the scalars |
//! | `&[u8; N]`, `&[I32; N]`, `&[F32; N]`, `&[F64; N]` | the arrays; 8-bit soft readout and leakage levels are `&[u8; N]` |
//! | [`Bits<'_, N>`](Bits) | `BIT_PACKED`, N bits |
//! | [`Readout4<'_, N>`](Readout4) | N 4-bit values, two to a byte |
//!
//! Before the function runs, the payload's length is checked ([`Status::SCHEMA_MISMATCH`]) and so are the unused bits of
//! bit strings ([`Status::BAD_PAYLOAD`]).
//!
//! # Results
//! At most 4, in one of two ways; either may be wrapped in `Result<_, Status>`, where an error is the response's status:
//! positive values are the handler's own. A response with an error has no results.
//!
//! - **Returned**: a scalar, `[u8; N]`, `[i32; N]`, `[f32; N]`, `[f64; N]`, a [`BitString<N>`](BitString), or a tuple of
//!   these.
//! - **Out-parameters** after the arguments, written in place: `&mut u8`, `&mut I32`, `&mut [u8; N]`, `&mut
//!   [F32; N]` and so on, and [`BitsMut<'_, N>`](BitsMut). A handler writes every element: bytes that it does
//!   not write keep their old contents in the response's slot before.
//!
//! # Bytes of any length
//! `(&[u8], &mut [u8]) -> usize`, or `-> Result<usize, Status>`, is an *untyped* handler: it takes any payload, and
//! returns how many bytes of the result it wrote.
//!
//! ```
//! #[ringcall_handler::handler]
//! pub fn rpc_increment(input: &[u8], output: &mut [u8]) -> usize {
//!     output.iter_mut().zip(input).map(|(out, byte)| *out = byte.wrapping_add(1)).count()
//! }
//! let mut result = [0; 8];
//! assert_eq!(rpc_increment::HANDLER.call(b"HAL", &mut result), Ok(3));
//! assert_eq!(&result[..3], b"IBM");
//! ```
//!
//! # Many threads for one request
//! `kind = "warp"` is run by the 32 lanes of a warp, `kind = "grid"` by all threads of a cooperative launch. The first
//! parameter is the team ([`Warp`], [`Grid`]), the results are [`Output`]s, which many threads write at once, and the
//! function returns `()` or `Result<(), Status>`. Every thread has to return the same; lane 0's counts.
//!
//! ```
//! use ringcall_handler::{Output, Warp, handler};
//!
//! #[handler(kind = "warp")]
//! pub fn increment(warp: Warp<'_>, input: &[u8; 512], output: Output<'_, [u8; 512]>) {
//!     for i in warp.stride(512) {
//!         output.set(i, input[i].wrapping_add(1));
//!     }
//! }
//!
//! let mut result = [0; 512];
//! // By the calling thread alone, or by 32 threads that play the lanes.
//! assert_eq!(increment::HANDLER.call(&[6; 512], &mut result), Ok(512));
//! assert_eq!(increment::HANDLER.call_with_lanes(32, &[7; 512], &mut result), Ok(512));
//! assert_eq!(result, [8; 512]);
//! ```
//!
//! # Calling a handler
//! `decode::call` sends a request to the handler by anything that [carries calls](RoundTrip), a client of a ring or of a transport, with
//! typed arguments in and typed results out. For programs in C the same is written as a header by [`c_header`].
//!
//! ```
//! use ringcall_handler::{ClientError, FunctionId, Handler, RoundTrip, Status, handler, handlers};
//!
//! #[handler]
//! fn divide(dividend: i32, divisor: i32) -> Result<(i32, i32), Status> {
//!     if divisor == 0 { Err(Status(1)) } else { Ok((dividend / divisor, dividend % divisor)) }
//! }
//!
//! /// In its place: `ringcall::Client::within`, or a `Caller` of `ringcall-transport`.
//! struct Here([Handler; 1]);
//!
//! impl RoundTrip for Here {
//!     type Error = core::convert::Infallible;
//!
//!     fn round_trip(
//!         &mut self,
//!         function: FunctionId,
//!         payload: &[u8],
//!         result: &mut [u8],
//!     ) -> Result<(Status, usize), Self::Error> {
//!         let Some(handler) = self.0.iter().find(|handler| handler.id() == function) else {
//!             return Ok((Status::UNKNOWN_FUNCTION, 0));
//!         };
//!         Ok(handler.call(payload, result).map_or_else(|status| (status, 0), |len| (Status::OK, len)))
//!     }
//! }
//!
//! let mut here = Here(handlers![divide]);
//! assert_eq!(divide::call(&mut here, 17, 5), Ok((3, 2)));
//! assert_eq!(divide::call(&mut here, 17, 0), Err(ClientError::Refused(Status(1))));
//! ```
//!
//! # What is generated
//! For `fn decode`: the type `decode` with the constant [`HANDLER`](Handler), so `decode::HANDLER` and, after
//! `use my_decoders::decode;`, both the function and the descriptor. (Types and functions do not share a namespace; a
//! module or another type of that name would collide.) On a device also the exported function
//! `ringcall_handler_<name>`, in C's calling convention, which a dispatcher links:
//!
//! ```c
//! int32_t handler(const void* input, void* output, uint32_t arg_len, uint32_t max_result_len, uint32_t* result_len);
//! ```
//!
//! The crate that the device code is built from is `no_std` and a `cdylib`; with the feature `panic-handler` (on by
//! default) it needs nothing else. A panic on a device ends the whole kernel, and with it every other request: index
//! within arrays of known length, or use `get`.

#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

// The attribute names this crate by its name, here too.
extern crate self as ringcall_handler;

mod argument;
mod bits;
#[cfg(not(target_arch = "nvptx64"))]
pub mod c_header;
#[cfg(not(target_arch = "nvptx64"))]
mod client;
mod descriptor;
mod out;
mod output;
#[cfg(all(target_arch = "nvptx64", feature = "panic-handler"))]
mod panic;
mod readout;
mod returns;

pub use argument::Argument;
pub use bits::{BitString, Bits, BitsMut};
#[cfg(not(target_arch = "nvptx64"))]
pub use client::ClientError;
pub use descriptor::{Handler, HandlerKind};
#[cfg(not(target_arch = "nvptx64"))]
pub use descriptor::{Native, NativeTeam};
pub use out::{OutParam, OutValue};
pub use output::{Output, OutputParam, OutputValue, TypedOutput};
pub use readout::Readout4;
pub use returns::{Outcome, ResultValue, Results, Returns, Written};
pub use ringcall_gpu::team::{Block, Grid, OutBytes, Warp};
pub use ringcall_handler_macros::handler;
#[cfg(not(target_arch = "nvptx64"))]
pub use ringcall_wire::call::RoundTrip;
pub use ringcall_wire::{FunctionId, HandlerSchema, Status, TypeDesc};
pub use zerocopy::little_endian::{F32, F64, I32, I64};

#[doc(hidden)]
#[path = "generated.rs"]
pub mod __private;

/// How many elements a descriptor says there are.
const fn count(n: usize) -> u32 {
    assert!(n <= u32::MAX as usize, "a payload type has at most 2^32 - 1 elements");
    n as u32
}
