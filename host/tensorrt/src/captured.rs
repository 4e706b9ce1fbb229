//! A run as part of a caller's graph, from device memory to device memory.

use crate::TensorRtError;
use crate::model::TensorRtModel;
use crate::replay::Bound;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{DeviceBuffer, Graph, NodeId, Stream};
use ringcall_infer::{Model, TensorSpec};

/// One run between device tensors, to be put into a graph: of a service, say. RepeatedGraph by the host or, where TensorRT's kernels
/// allow it, by the device.
///
/// Tensors have the model's names, types and shapes. Each has its own memory, which begins at a multiple of 256 bytes
/// and does not move. The plan is the model's, which all its runs share; each has its own execution context, so
/// different ones may overlap. A run never overlaps with itself.
#[derive(Debug)]
pub struct TensorRtRun {
    // In this order: the captured graph, then the memory that it reaches.
    graph: Graph,
    bound: Bound,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl TensorRtModel {
    /// A run with a context and its own tensors. It runs once, on zeros: TensorRT loads code then, which a
    /// capture must not meet, and nor must a kernel that runs all the time.
    ///
    /// # Errors
    /// The driver or TensorRT refuses.
    pub fn run_between_tensors(&self) -> Result<TensorRtRun, TensorRtError> {
        let stream = Stream::new(self.context())?;
        let mut bound = self.bound_apart()?;
        bound.warm_up(&stream)?;
        let graph = stream.capture(|| bound.enqueue(&stream))?;
        Ok(TensorRtRun { graph, bound, inputs: self.inputs().to_vec(), outputs: self.outputs().to_vec() })
    }
}

impl TensorRtRun {
    /// The inputs, in the model's order.
    #[must_use]
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    /// The outputs, in the model's order.
    #[must_use]
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    /// Input number `index`.
    #[must_use]
    pub fn input(&self, index: usize) -> Option<&DeviceBuffer> {
        self.bound.memory()[..self.inputs.len()].get(index)
    }

    /// Output number `index`.
    #[must_use]
    pub fn output(&self, index: usize) -> Option<&DeviceBuffer> {
        self.bound.memory()[self.inputs.len()..].get(index)
    }

    /// Adds the run to a graph as one node, after the nodes `after`; it must outlive the graph and every
    /// executable made of it.
    ///
    /// # Errors
    /// A node of another graph, or the driver refuses.
    pub fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<NodeId, CudaError> {
        graph.add_graph(&self.graph, after)
    }
}
