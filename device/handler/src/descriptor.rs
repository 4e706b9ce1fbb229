//! Descriptors: what a table needs to know of a handler.

#[cfg(not(target_arch = "nvptx64"))]
use crate::Status;
use crate::{FunctionId, HandlerSchema};

/// Who runs a handler together. A handler is never [`HandlerKind::Graph`].
pub use ringcall_wire::launch::HandlerKind;

/// The threads that play a handler's team on a CPU. One thread runs a thread handler, even if more are asked
/// for.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeTeam {
    /// The calling thread alone.
    Inline,
    /// A warp of 1 to 32 lanes; for a grid handler one block of as many threads.
    Lanes(u32),
    /// A grid, of at most 1024 threads a block and 4096 in all; for a warp handler its first warp.
    Blocks {
        /// How many blocks.
        blocks: u32,
        /// How many threads each has.
        threads: u32,
    },
}

/// A handler on a CPU: team, payload, room for the result; how many bytes of it were written, or the status to answer
/// with.
#[cfg(not(target_arch = "nvptx64"))]
pub type Native = fn(NativeTeam, &[u8], &mut [u8]) -> Result<usize, Status>;

/// A handler as tables know it. `#[handler]` makes one for each function, as the constant `HANDLER` of a type of the
/// function's name.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// The name on the wire.
    pub name: &'static str,
    /// Who runs it together.
    pub kind: HandlerKind,
    /// Its arguments and results.
    pub schema: HandlerSchema,
    /// The device function's symbol in the compiled module.
    pub symbol: &'static str,
    /// The function on a CPU. See [`Handler::call`].
    #[cfg(not(target_arch = "nvptx64"))]
    pub native: Native,
    /// The names of its arguments, then those of its out-parameters, as the function has them; empty where they have none.
    #[cfg(not(target_arch = "nvptx64"))]
    pub parameters: &'static [&'static str],
}

impl Handler {
    /// The id that requests ask for: the hash of the name.
    #[must_use]
    pub const fn id(&self) -> FunctionId {
        FunctionId::of(self.name)
    }

    /// Whether no two of `handlers` have the same id.
    #[must_use]
    pub const fn distinct(handlers: &[Self]) -> bool {
        let mut left = handlers;
        while let Some((first, rest)) = left.split_first() {
            let mut others = rest;
            while let Some((other, after)) = others.split_first() {
                if first.id().0 == other.id().0 {
                    return false;
                }
                others = after;
            }
            left = rest;
        }
        true
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Handler {
    /// Runs the handler on the calling thread, a warp's or a grid's with a team of one, as a dispatcher would:
    /// `request` is the payload, `result` the room for the answer. Returns how many bytes of it were written.
    ///
    /// # Errors
    /// The status to answer with: [`Status::SCHEMA_MISMATCH`] for a payload of another length than the
    /// schema's, [`Status::BAD_PAYLOAD`] for unused bits that are set, [`Status::RESULT_TOO_LONG`] for too
    /// little room, and every status that the handler itself answers.
    pub fn call(&self, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        (self.native)(NativeTeam::Inline, request, result)
    }

    /// As [`Self::call`], by `lanes` (1 to 32) threads that play the lanes of a warp; for a grid handler one block of as
    /// many threads. A race or a lane that misses a barrier shows itself here as it would on a device.
    ///
    /// # Errors
    /// As [`Self::call`]; what lane 0 answers.
    ///
    /// # Panics
    /// When a lane panics, or returns while others wait for it; when `lanes` is not 1 to 32.
    pub fn call_with_lanes(&self, lanes: u32, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        (self.native)(NativeTeam::Lanes(lanes), request, result)
    }

    /// As [`Self::call_with_lanes`], by `blocks` times `threads` threads that play a grid; for a warp handler its first
    /// warp.
    ///
    /// # Errors
    /// As [`Self::call`]; what the thread of rank 0 answers.
    ///
    /// # Panics
    /// As [`Self::call_with_lanes`]; when there are more than 1024 threads a block or 4096 in all.
    pub fn call_with_blocks(
        &self,
        blocks: u32,
        threads: u32,
        request: &[u8],
        result: &mut [u8],
    ) -> Result<usize, Status> {
        (self.native)(NativeTeam::Blocks { blocks, threads }, request, result)
    }
}

/// The descriptors of some handlers, as a constant array: `handlers![decode, other::reset]`.
///
/// ```
/// #[ringcall_handler::handler]
/// fn zero() -> u8 {
///     0
/// }
/// const TABLE: [ringcall_handler::Handler; 1] = ringcall_handler::handlers![zero];
/// assert_eq!(TABLE[0].id(), ringcall_handler::FunctionId::of("zero"));
/// ```
///
/// Two whose names hash to one id are refused when it is compiled:
///
/// ```compile_fail
/// #[ringcall_handler::handler(name = "zero")]
/// fn first() -> u8 {
///     0
/// }
/// let table = ringcall_handler::handlers![first, first];
/// ```
#[macro_export]
macro_rules! handlers {
    ($($handler:ty),* $(,)?) => {
        {
            // An item, which is checked whether or not the array is used.
            const _: () = ::core::assert!(
                $crate::Handler::distinct(&[$(<$handler>::HANDLER),*]),
                "two handlers share the id: rename one",
            );
            [$(<$handler>::HANDLER),*]
        }
    };
}
