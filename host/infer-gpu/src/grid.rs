//! The network as a handler of the cooperative dispatcher: no launch in a request's way, weights on the way into shared
//! memory before it comes.

use crate::buffers::Buffers;
use crate::launch::LIMIT_CYCLES;
use crate::model::{GpuError, Loaded};
use crate::plan::Params;
use crate::{Network, Shape};
use ringcall_cuda::dispatcher::{Functions, KernelKind, Modules, Options};
use ringcall_cuda::driver::{Context, DeviceBuffer};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::schema::HandlerSchema;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The handler's symbol, and that of its parameters.
const SYMBOL: &str = "ringcall_predecoder_grid";
const PARAMETERS: &str = "ringcall_predecoder_params";
/// Shared memory left to the dispatcher.
const DISPATCHER_SHARED: u32 = 24 << 10;
/// A handler's memory begins at a multiple of it.
const ALIGNMENT: u32 = 128;
/// Registers that a multiprocessor has for each thread of a block: warps come in fours.
const fn registers(threads: u32) -> u32 {
    let most = 65_536 / threads.next_multiple_of(128) / 8 * 8;
    if most < 255 { most } else { 255 }
}

/// What the network's decisions depend on besides its weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decide<'a> {
    /// Two maps of `d * d` values: where checks of either kind are. The same in every layer.
    pub maps: &'a [f32],
    /// A logit above it is an error.
    pub threshold: f32,
}

/// The network as a grid handler. Keep it until the dispatcher that was made with it has ended.
///
/// A request is `2 * layers * d * d` bytes, 0 or 1: detectors of either kind. The answer is `layers * d * d` bytes, whose
/// bit `c` says that logit `c` is above the threshold. [`Status::SCHEMA_MISMATCH`](ringcall_wire::Status::SCHEMA_MISMATCH)
/// for another length.
///
/// ```no_run
/// use ringcall_cuda::dispatcher::{DeviceDispatcher, Functions, MappedRing, Modules};
/// use ringcall_cuda::driver::Driver;
/// use ringcall_infer_gpu::{Decide, GridHandler, Network};
/// use ringcall::RingConfig;
///
/// let network = Network::from_onnx(&std::fs::read("predecoder_3x128.onnx")?)?;
/// let context = Driver::load()?.device(0)?.context()?;
/// let maps = vec![1.0; 2 * 13 * 13];
/// let handler = GridHandler::new(&network, &context, 13, 13, Decide { maps: &maps, threshold: 0.5 })?;
/// let ring = MappedRing::allocate(&context, RingConfig { slots: 4, slot_bytes: handler.slot_bytes() })?;
/// let functions = handler.function(Functions::new(), "predecode");
/// let dispatcher =
///     DeviceDispatcher::wire(&ring, functions, handler.modules(Modules::new()), handler.options())?.start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GridHandler {
    loaded: Loaded,
    params: Params,
    _buffers: Buffers,
    failed: DeviceBuffer,
}

impl GridHandler {
    /// Puts `network` on the device of `context`, for `layers` layers of `d` by `d` cells.
    ///
    /// # Errors
    /// As for [`GpuModel::new`](crate::GpuModel::new); maps of another length.
    pub fn new(
        network: &Network,
        context: &Arc<Context>,
        d: u32,
        layers: u32,
        decide: Decide<'_>,
    ) -> Result<Self, GpuError> {
        let expected = 2 * d as usize * d as usize;
        if decide.maps.len() != expected {
            return Err(GpuError::Maps { found: decide.maps.len(), expected });
        }
        let loaded = Loaded::new(network, context, d, layers, DISPATCHER_SHARED, decide.maps)?;
        let plan = &loaded.plan;
        let buffers = Buffers::new(context, plan)?;
        let failed = DeviceBuffer::zeroed(context, 4)?;
        let mut params = Params {
            threshold: decide.threshold,
            failed: failed.address().0,
            limit: LIMIT_CYCLES,
            ..loaded.params
        };
        buffers.fill(&mut params);
        Ok(Self { loaded, params, _buffers: buffers, failed })
    }

    /// How the work is spread over the device.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.loaded.plan.shape
    }

    /// Bytes of a request.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        2 * self.loaded.plan.cells()
    }

    /// Bytes of an answer.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        self.loaded.plan.cells()
    }

    /// Bytes of a slot that has room for a request.
    #[must_use]
    pub fn slot_bytes(&self) -> u32 {
        (self.request_bytes() + ringcall_wire::header::HEADER_BYTES).next_multiple_of(64) as u32
    }

    /// Adds the handler's code, and what it has to know.
    #[must_use]
    pub fn modules(&self, modules: Modules) -> Modules {
        let plan = &self.loaded.plan;
        modules
            .ptx("the predecoder's kernel", plan.shape.ptx)
            .variable(PARAMETERS, self.params.as_bytes())
            .max_registers(registers(plan.shape.threads()))
    }

    /// Adds the handler under a name.
    #[must_use]
    pub fn function(&self, functions: Functions, name: &str) -> Functions {
        functions.symbol(name, SYMBOL, HandlerKind::Grid, HandlerSchema::new())
    }

    /// A dispatcher that the handler runs in.
    #[must_use]
    pub fn options(&self) -> Options {
        let plan = &self.loaded.plan;
        Options::new(KernelKind::Cooperative { blocks: plan.blocks(), threads: plan.shape.threads() })
            .handler_shared(plan.shared + ALIGNMENT)
            .cluster(plan.shape.cluster())
    }

    /// Which wait of the kernel ran out, if one did: from then on every request is answered
    /// [`ENGINE_FAILED`](ringcall_wire::Status::ENGINE_FAILED). Not while the dispatcher runs: it copies through the driver.
    ///
    /// # Errors
    /// The context is dead.
    pub fn failed(&self) -> Result<Option<u32>, GpuError> {
        let mut word = [0; 4];
        self.failed.read_into(0, &mut word)?;
        Ok(Some(u32::from_le_bytes(word)).filter(|&which| which != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_fill_a_multiprocessor_of_four_parts() {
        assert_eq!(registers(192), 255);
        assert_eq!(registers(320), 168);
        assert_eq!(registers(256), 255);
    }
}
