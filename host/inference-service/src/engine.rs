//! Requirements on a served engine: it names its tensors, gives their addresses, and adds itself to a graph.

use crate::ServiceError;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Graph, NodeId};
use ringcall_infer::TensorSpec;
use std::fmt::Debug;
use std::sync::Arc;

/// A network on a device whose runs can be parts of graphs. Instances of it run side by side.
///
/// An engine that only knows streams captures its work on a stream
/// ([`Stream::capture`](ringcall_cuda::driver::Stream::capture)) and adds the captured graph
/// ([`Graph::add_graph`](Graph::add_graph)).
pub trait Capturable: Debug + Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// The inputs, the primary one first.
    fn inputs(&self) -> &[TensorSpec];

    /// The outputs, the primary one first.
    fn outputs(&self) -> &[TensorSpec];

    /// The device.
    fn context(&self) -> &Arc<Context>;

    /// How many instances may run at the same time; `None` for as many as there are.
    fn most_instances(&self) -> Option<u32> {
        None
    }

    /// One more instance, with its own tensors.
    ///
    /// # Errors
    /// No memory, or the engine's own.
    fn instance(&self) -> Result<Box<dyn Captured>, ServiceError>;
}

/// One instance of a network: its tensors, and its nodes.
///
/// Tensors stay where they are as long as it lives, begin at multiples of 16 bytes, and have room up to the next multiple of
/// 16 bytes after their last.
pub trait Captured: Debug + Send + Sync {
    /// Input number `index`.
    fn input(&self, index: usize) -> Option<&DeviceBuffer>;

    /// Output number `index`.
    fn output(&self, index: usize) -> Option<&DeviceBuffer>;

    /// Adds one run to `graph`, after the nodes `after`; the nodes that end it. For graphs that are launched from a device:
    /// kernels without dynamic parallelism, copies of device and mapped memory, and graphs of them. Runs of one instance
    /// never overlap. What the nodes refer to lives as long as this.
    ///
    /// # Errors
    /// The driver refuses, or [`CudaError::Graph`] with the engine's reason.
    fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<Vec<NodeId>, CudaError>;

    /// A word of device memory that is not 0 once a run has failed: requests are then answered
    /// [`ENGINE_FAILED`](ringcall_wire::Status::ENGINE_FAILED).
    fn failed(&self) -> Option<&DeviceBuffer> {
        None
    }
}
