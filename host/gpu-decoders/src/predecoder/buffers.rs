//! Device buffers of a run.

use crate::predecoder::plan::{Params, Plan, SYNC_BYTES};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer};
use std::sync::Arc;

/// A byte of a sum that is not there yet: no number.
const ABSENT: u8 = 0xFF;

/// Activations, sums and counters of one engine.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Zero to begin with: the borders stay so.
    activations: [DeviceBuffer; 2],
    sums: DeviceBuffer,
    sync: DeviceBuffer,
}

impl Buffers {
    pub(crate) fn new(context: &Arc<Context>, plan: &Plan) -> Result<Self, CudaError> {
        let zeroed = |bytes| DeviceBuffer::zeroed(context, bytes);
        let buffers = Self {
            activations: [zeroed(plan.activation_bytes())?, zeroed(plan.activation_bytes())?],
            sums: zeroed(plan.sum_bytes())?,
            sync: zeroed(SYNC_BYTES)?,
        };
        buffers.reset()?;
        Ok(buffers)
    }

    /// Puts the addresses into the kernel's parameters.
    pub(crate) fn fill(&self, params: &mut Params) {
        params.activations = [self.activations[0].address().0, self.activations[1].address().0];
        params.sums = self.sums.address().0;
        params.sync = self.sync.address().0;
    }

    /// As before the first run, and after one that did not end well, which leaves counters and sums anywhere.
    pub(crate) fn reset(&self) -> Result<(), CudaError> {
        self.sync.fill(0)?;
        self.sums.fill(ABSENT)
    }
}
