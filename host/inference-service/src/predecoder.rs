//! The fused predecoder network as an engine.

use crate::{Capturable, Captured, ServiceError};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Graph, NodeId};
use ringcall_gpu_decoders::predecoder::{GpuError, GpuModel, GpuRun, Network, Share, Wiring};
use ringcall_infer::TensorSpec;
use std::sync::Arc;

/// A [`GpuModel`] beside a device dispatcher.
///
/// | made by | input | output |
/// |---|---|---|
/// | [`new`](Self::new), [`several`](Self::several) | `volume`, `f16[1, 4, layers, d, d]` | `logits`, `f32` of the same shape |
/// | [`wired`](Self::wired) | `bits`, a request's as [`Wiring`] has them | `left`: what decisions leave of them, and the frame |
///
/// Instances share the weights; each has tensors, activations and its own counters. Blocks of a run wait for
/// each other, so the blocks of all instances have to be on the device at once: each is planned for an equal
/// part of the multiprocessors, next to one block of a dispatcher, and there are no more of them than parts.
/// Several answer more requests, each of them later. All services of one engine that run at the same time
/// share that number.
#[derive(Debug)]
pub struct PredecoderEngine {
    model: GpuModel,
    tensors: [Vec<TensorSpec>; 2],
    instances: u32,
}

/// Multiprocessors that a device dispatcher keeps: one block.
const DISPATCHER: u32 = 1;

fn share(instances: u32) -> Share {
    Share::beside(DISPATCHER).one_of(instances)
}

impl PredecoderEngine {
    /// Puts `network` on the device of `context`, for `layers` layers of `d` by `d` cells, and for one instance, which has the
    /// whole device.
    ///
    /// # Errors
    /// As for [`GpuModel::new`].
    pub fn new(
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        d: u32,
        layers: u32,
    ) -> Result<Self, ServiceError> {
        Self::several(name, network, context, [d, layers], 1)
    }

    /// The same for so many instances at once, and a volume of `[d, layers]`.
    ///
    /// # Errors
    /// As for [`GpuModel::new`], of a part of the device.
    pub fn several(
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        [d, layers]: [u32; 2],
        instances: u32,
    ) -> Result<Self, ServiceError> {
        Self::around(name, GpuModel::on(share(instances), name, network, context, d, layers), instances)
    }

    /// The same between bits: what crosses the bus is a request's detectors and what decisions leave of them, bit-packed, and
    /// the threshold is the wiring's.
    ///
    /// # Errors
    /// As for [`several`](Self::several).
    pub fn wired(
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        wiring: &Wiring,
        instances: u32,
    ) -> Result<Self, ServiceError> {
        Self::around(name, GpuModel::wired_on(share(instances), name, network, context, wiring), instances)
    }

    fn around(name: &str, model: Result<GpuModel, GpuError>, instances: u32) -> Result<Self, ServiceError> {
        let model = model.map_err(|why| said(name, &why))?;
        let run = model.run_between_tensors().map_err(|why| said(name, &why))?;
        let tensors = [run.inputs().to_vec(), run.outputs().to_vec()];
        Ok(Self { model, tensors, instances })
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
        Some(self.instances)
    }

    fn instance(&self) -> Result<Box<dyn Captured>, ServiceError> {
        let run = self.model.run_between_tensors().map_err(|why| said(self.name(), &why))?;
        Ok(Box::new(run))
    }
}

impl Captured for GpuRun {
    fn input(&self, index: usize) -> Option<&DeviceBuffer> {
        (index == 0).then(|| GpuRun::input(self))
    }

    fn output(&self, index: usize) -> Option<&DeviceBuffer> {
        (index == 0).then(|| GpuRun::output(self))
    }

    fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<Vec<NodeId>, CudaError> {
        Ok(vec![GpuRun::add_to(self, graph, after)?])
    }

    fn failed(&self) -> Option<&DeviceBuffer> {
        Some(GpuRun::failed(self))
    }
}
