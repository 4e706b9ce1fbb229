//! Errors of decoding a graph on a GPU.

use ringcall_bp::kernel::KernelError;
use ringcall_cuda::CudaError;
use ringcall_infer::InferError;

/// Why a graph cannot be decoded on a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver refuses.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The graph or the configuration is not one that the kernel decodes.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel uses what older devices do not have.
    #[error(
        "the Relay-BP kernel is for compute capability 9.0 and later (H100, H200), the device has {}.{}", .0.0, .0.1
    )]
    OtherDevice((u32, u32)),
    /// The lanes of a race do not run at once.
    #[error(
        "{lanes} clusters of {blocks} blocks ({wanted}) do not run at once: this device takes {most}; race fewer lanes"
    )]
    Lanes {
        /// Clusters.
        lanes: u32,
        /// Blocks of a cluster.
        blocks: u32,
        /// What the clusters are.
        wanted: String,
        /// Clusters that run at once.
        most: u32,
    },
    /// The device's shared memory is too small for a shape that has room.
    #[error("a block needs {needed} bytes of shared memory for this graph, and the device has {most}")]
    SharedMemory {
        /// Bytes needed.
        needed: u32,
        /// Bytes that a block may have.
        most: u32,
    },
    /// Requests and answers cannot be described.
    #[error(transparent)]
    Spec(#[from] InferError),
}
