//! The fused predecoder network as an engine.

use crate::{Capturable, Captured, ServiceError};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Graph, NodeId};
use ringcall_infer::TensorSpec;
use ringcall_infer_gpu::{GpuError, GpuModel, GpuRun, Network};
use std::sync::Arc;

/// A [`GpuModel`] beside a device dispatcher: input `volume`, `f16[1, 4, layers, d, d]`; output `logits`, `f32` of the same
/// shape. A run fills the device, so there is one instance.
#[derive(Debug)]
pub struct PredecoderEngine {
    model: GpuModel,
    tensors: [Vec<TensorSpec>; 2],
}

/// Multiprocessors that a device dispatcher keeps: one block.
const DISPATCHER: u32 = 1;

impl PredecoderEngine {
    /// Puts `network` on the device of `context`, for `layers` layers of `d` by `d` cells.
    ///
    /// # Errors
    /// As for [`GpuModel::beside`].
    pub fn new(
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        d: u32,
        layers: u32,
    ) -> Result<Self, ServiceError> {
        let model = GpuModel::beside(name, network, context, d, layers, DISPATCHER)
            .map_err(|why| said(name, &why))?;
        let run = model.run_between_tensors().map_err(|why| said(name, &why))?;
        let tensors = [run.inputs().to_vec(), run.outputs().to_vec()];
        Ok(Self { model, tensors })
    }
}

fn said(engine: &str, why: &GpuError) -> ServiceError {
    ServiceError::Engine { engine: engine.to_owned(), reason: why.to_string() }
}

impl Capturable for PredecoderEngine {
    fn name(&self) -> &str {
        ringcall_infer::Model::name(&self.model)
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.tensors[0]
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors[1]
    }

    fn context(&self) -> &Arc<Context> {
        self.model.context()
    }

    fn most_instances(&self) -> Option<u32> {
        Some(1)
    }

    fn instance(&self) -> Result<Box<dyn Captured>, ServiceError> {
        let run = self.model.run_between_tensors().map_err(|why| said(self.name(), &why))?;
        Ok(Box::new(run))
    }
}

impl Captured for GpuRun {
    fn input(&self, index: usize) -> Option<&DeviceBuffer> {
        (index == 0).then(|| self.volume())
    }

    fn output(&self, index: usize) -> Option<&DeviceBuffer> {
        (index == 0).then(|| self.logits())
    }

    fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<Vec<NodeId>, CudaError> {
        Ok(vec![GpuRun::add_to(self, graph, after)?])
    }

    fn failed(&self) -> Option<&DeviceBuffer> {
        Some(GpuRun::failed(self))
    }
}
