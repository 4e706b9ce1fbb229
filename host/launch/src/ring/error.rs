//! Errors of building and starting a device dispatcher.

use ringcall::ring::RingError;
use ringcall_cuda::CudaError;
use ringcall_protocol::ring::GeometryError;
use std::time::Duration;

/// Why a device dispatcher cannot be made or started. One line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// An error of CUDA.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// An error of the ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A ring that the kernels cannot poll.
    #[error("a device dispatcher polls rings of up to {max} slots, this one has {slots}", max = ringcall_wire::launch::MAX_SLOTS)]
    TooManySlots {
        /// Its slots.
        slots: u32,
    },
    /// Two names hash to one id, or one name was entered twice.
    #[error("functions `{first}` and `{second}` have the same id {id:#010x}: rename one")]
    Collision {
        /// The earlier name.
        first: String,
        /// The later name.
        second: String,
        /// Their id.
        id: u32,
    },
    /// Two graphs under one name have the same routing key.
    #[error("two graphs of function `{name}` have the routing key {key}")]
    SameRoute {
        /// The function.
        name: String,
        /// The key.
        key: u64,
    },
    /// A schema is malformed, or does not fit a slot.
    #[error("function `{name}`: {why}")]
    Schema {
        /// The function.
        name: String,
        /// The defect.
        why: String,
    },
    /// A function of a kind that the chosen kernel does not run.
    #[error("function `{name}` is {kind}, which the kernel `{kernel}` does not run")]
    WrongKernel {
        /// The function.
        name: String,
        /// Its kind.
        kind: &'static str,
        /// The kernel.
        kernel: &'static str,
    },
    /// A follow-up graph that is not in the table.
    #[error("function `{name}` is to trigger `{graph}`, which is no graph of this table")]
    NoFollowUp {
        /// The function.
        name: String,
        /// The graph.
        graph: String,
    },
    /// An impossible size.
    #[error("{0}")]
    Shape(String),
    /// The kernel needs more resources than a multiprocessor has.
    #[error(
        "kernel `{kernel}` does not fit: {threads} threads of {registers} registers and {shared} bytes of shared memory a \
         block; use fewer warps or threads"
    )]
    DoesNotFit {
        /// The kernel.
        kernel: &'static str,
        /// Threads of a block.
        threads: u32,
        /// Registers of a thread.
        registers: u32,
        /// Bytes of shared memory.
        shared: u32,
    },
    /// More cooperative blocks than the device can run at once.
    #[error("{blocks} cooperative blocks do not run at once: this device takes {most} of this size")]
    NotResident {
        /// Blocks asked for.
        blocks: u32,
        /// Blocks that fit.
        most: u32,
    },
    /// The kernel was launched and did not begin to poll.
    #[error("the kernel did not begin within {0:?}: is another persistent kernel using the whole device?")]
    DidNotBegin(Duration),
    /// The kernel found its launch inconsistent and ended.
    #[error(
        "the kernel refused to begin: its shared memory is smaller than its tables need (a bug: please report it)"
    )]
    Refused,
    /// A kernel was told to end, but the kernel or a graph that it launched still runs.
    #[error("the kernel, or a graph that it launched, did not end within {0:?}")]
    NotEnded(Duration),
    /// The dispatcher, which launches graphs, could not launch itself again, and ended.
    #[error(
        "the dispatcher could not launch itself again (CUDA error {0}) and ended: nothing polls any more"
    )]
    NotRelaunched(u32),
    /// The kernel ended by itself with a failure.
    #[error(
        "the kernel ended as failed: a transport that is linked in returned a code that its interface does not have, or the \
         kernel found its queues changed when it launched itself again"
    )]
    EndedFailed,
    /// Another dispatcher uses these queues or this transport.
    #[error("{0}: a second one would not know where the first is in the queues")]
    Claimed(&'static str),
    /// The device is older than the committed PTX allows.
    #[error("there are dispatch kernels for compute capability 8.0 and later, the device has {}.{}", .0.0, .0.1)]
    NoKernels((u32, u32)),
}

impl From<GeometryError> for DeviceError {
    fn from(error: GeometryError) -> Self {
        Self::Ring(error.into())
    }
}
