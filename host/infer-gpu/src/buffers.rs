//! What a run works on, in device memory.

use crate::plan::{Params, Plan, SYNC_BYTES};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer};
use std::sync::Arc;

/// Activations, sums and counters of one engine. All zero to begin with: the borders stay so.
#[derive(Debug)]
pub(crate) struct Buffers {
    activations: [DeviceBuffer; 2],
    sums: DeviceBuffer,
    sync: DeviceBuffer,
    flipped: DeviceBuffer,
}

impl Buffers {
    /// With `flip_words` words for flips.
    pub(crate) fn new(context: &Arc<Context>, plan: &Plan, flip_words: usize) -> Result<Self, CudaError> {
        let zeroed = |bytes| DeviceBuffer::zeroed(context, bytes);
        Ok(Self {
            activations: [zeroed(plan.activation_bytes())?, zeroed(plan.activation_bytes())?],
            sums: zeroed(plan.sum_bytes())?,
            sync: zeroed(SYNC_BYTES)?,
            // Runs take turns.
            flipped: zeroed(2 * flip_words.max(1) * 4)?,
        })
    }

    /// Puts the addresses into the kernel's parameters.
    pub(crate) fn fill(&self, params: &mut Params) {
        params.activations = [self.activations[0].address().0, self.activations[1].address().0];
        params.sums = self.sums.address().0;
        params.sync = self.sync.address().0;
        params.flipped = self.flipped.address().0;
    }

    /// After a run that did not end well, which leaves its counters and flips anywhere.
    pub(crate) fn reset(&self) -> Result<(), CudaError> {
        self.sync.fill(0)?;
        self.flipped.fill(0)
    }
}
