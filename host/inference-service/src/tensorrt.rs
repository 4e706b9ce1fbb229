//! Models of TensorRT as engines.
//!
//! A plan is read once and shared; an instance is an execution context with its own tensors, one run of which
//! is captured into the service's graph. Make the service before the dispatcher starts: TensorRT allocates
//! and loads code, which can wait for kernels that run.

use crate::{Capturable, Captured, ServiceError};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Graph, NodeId};
use ringcall_infer::{Model, TensorSpec};
use ringcall_tensorrt::{TensorRtError, TensorRtModel, TensorRtRun};
use std::sync::Arc;

impl Capturable for TensorRtModel {
    fn name(&self) -> &str {
        Model::name(self)
    }

    fn inputs(&self) -> &[TensorSpec] {
        Model::inputs(self)
    }

    fn outputs(&self) -> &[TensorSpec] {
        Model::outputs(self)
    }

    fn context(&self) -> &Arc<Context> {
        TensorRtModel::context(self)
    }

    fn instance(&self) -> Result<Box<dyn Captured>, ServiceError> {
        let run = self.run_between_tensors().map_err(|why| said(Model::name(self), why))?;
        Ok(Box::new(run))
    }
}

/// What the driver says stays the driver's word; the rest is the engine's.
fn said(engine: &str, why: TensorRtError) -> ServiceError {
    match why {
        TensorRtError::Cuda(why) => why.into(),
        TensorRtError::Model(why) => why.into(),
        why => ServiceError::Engine { engine: engine.to_owned(), reason: why.to_string() },
    }
}

impl Captured for TensorRtRun {
    fn input(&self, index: usize) -> Option<&DeviceBuffer> {
        TensorRtRun::input(self, index)
    }

    fn output(&self, index: usize) -> Option<&DeviceBuffer> {
        TensorRtRun::output(self, index)
    }

    fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<Vec<NodeId>, CudaError> {
        Ok(vec![TensorRtRun::add_to(self, graph, after)?])
    }
}

// Models of TensorRT are engines of services like any other.
const _: fn(&TensorRtModel) -> &dyn Capturable = |model| model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_whose_they_are() {
        let refused = TensorRtError::Refused { doing: "making a context".to_owned(), words: "no".to_owned() };
        let said = |why| said("network", why);
        assert_eq!(said(refused).to_string(), "engine `network`: making a context: no");
        assert!(matches!(said(CudaError::NoDevice.into()), ServiceError::Cuda(CudaError::NoDevice)));
    }
}
