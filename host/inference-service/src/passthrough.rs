//! An engine that copies its inputs to its outputs, for measuring everything around a network.

use crate::{Capturable, Captured, ServiceError};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Graph, NodeId};
use ringcall_infer::TensorSpec;
use ringcall_wire::handoff::TENSOR_ALIGN;
use std::sync::Arc;

/// Output `NAME_out` is a copy of input `NAME`, by the device's copy engines.
#[derive(Debug)]
pub struct PassThrough {
    context: Arc<Context>,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl PassThrough {
    /// An engine with these inputs.
    #[must_use]
    pub fn new(context: &Arc<Context>, inputs: Vec<TensorSpec>) -> Self {
        let out = |spec: &TensorSpec| TensorSpec { name: format!("{}_out", spec.name), ..spec.clone() };
        let outputs = inputs.iter().map(out).collect();
        Self { context: Arc::clone(context), inputs, outputs }
    }
}

impl Capturable for PassThrough {
    fn name(&self) -> &str {
        "pass-through"
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn instance(&self) -> Result<Box<dyn Captured>, ServiceError> {
        let buffer = |spec: &TensorSpec| {
            DeviceBuffer::zeroed(&self.context, spec.size_bytes().next_multiple_of(TENSOR_ALIGN))
        };
        let inputs = self.inputs.iter().map(buffer).collect::<Result<_, _>>()?;
        let outputs = self.outputs.iter().map(buffer).collect::<Result<_, _>>()?;
        Ok(Box::new(Copies { inputs, outputs }))
    }
}

#[derive(Debug)]
struct Copies {
    inputs: Vec<DeviceBuffer>,
    outputs: Vec<DeviceBuffer>,
}

impl Captured for Copies {
    fn input(&self, index: usize) -> Option<&DeviceBuffer> {
        self.inputs.get(index)
    }

    fn output(&self, index: usize) -> Option<&DeviceBuffer> {
        self.outputs.get(index)
    }

    fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<Vec<NodeId>, CudaError> {
        let pairs = self.inputs.iter().zip(&self.outputs);
        pairs.map(|(from, to)| graph.add_copy(to.address(), from.address(), from.len(), after)).collect()
    }
}
