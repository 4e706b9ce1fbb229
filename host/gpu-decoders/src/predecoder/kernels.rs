//! The kernels that run a network: one that has all layers, or one for each layer.

use crate::predecoder::layers::Layered;
use crate::predecoder::loaded::{GpuError, Loaded};
use crate::predecoder::plan::{Offer, Plan, SHAPES};
use crate::predecoder::{Network, Share, Wiring};
use ringcall_cuda::driver::{Context, Linker, Module};
use std::sync::Arc;

/// Entry of the module that has all layers.
pub(crate) const NETWORK: &str = "ringcall_predecoder";
/// The limit of a wait in the kernel, in clock cycles: a good half of a second.
pub(crate) const LIMIT_CYCLES: u64 = 1_000_000_000;

/// The first shape that fits.
fn fits(offer: Offer, [d, layers]: [u32; 2]) -> Option<Plan> {
    Plan::choose(SHAPES, d, layers, offer)
}

/// What runs a network.
#[derive(Debug)]
pub(crate) enum Kernels {
    /// One kernel that has all layers.
    Fused(Module, Loaded),
    /// A kernel for each layer.
    Layers(Layered),
}

impl Kernels {
    /// The one kernel where it takes the network, or else the kernels for each layer.
    pub(crate) fn load(
        share: Share,
        network: &Network,
        context: &Arc<Context>,
        volume: [u32; 2],
        wiring: Option<&Wiring>,
    ) -> Result<Self, GpuError> {
        if network.fused().is_err() {
            return Ok(Self::Layers(Layered::new(network, context, volume, wiring)?));
        }
        let loaded = Loaded::planned(network, context, volume, wiring, share, fits)?;
        let image = Linker::new(context.device().capability())
            .ptx("the predecoder's kernel", &loaded.plan.shape.ptx())?
            .link(context)?;
        Ok(Self::Fused(Module::load(context, &image)?, loaded))
    }
}
