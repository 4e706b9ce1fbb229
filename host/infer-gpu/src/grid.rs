//! The network as a handler of the cooperative dispatcher: no launch in a request's way, weights on the way into shared
//! memory before it comes.

use crate::buffers::Buffers;
use crate::launch::LIMIT_CYCLES;
use crate::model::{GpuError, Loaded};
use crate::plan::{Params, Plan};
use crate::{Network, Shape, Wiring};
use ringcall_cuda::dispatcher::{Functions, KernelKind, Modules, Options};
use ringcall_cuda::driver::{Context, DeviceBuffer};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::payload::TypeDesc;
use ringcall_wire::schema::HandlerSchema;
use std::any::Any;
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

/// The network as a grid handler. [Modules](Self::modules) keep the device memory that it works on.
///
/// Requests are a [`Wiring`]'s bits, answers what the network's decisions leave of them, and the frame. The frame's byte is
/// 0 or 1; any other value says that a block of the kernel gave up, and that the answer is worth nothing.
/// [`Status::SCHEMA_MISMATCH`](ringcall_wire::Status::SCHEMA_MISMATCH) for another length.
///
/// ```no_run
/// use ringcall_cuda::dispatcher::{DeviceDispatcher, Functions, MappedRing, Modules};
/// use ringcall_cuda::driver::Driver;
/// use ringcall_infer_gpu::{GridHandler, Network, Wiring};
/// use ringcall::RingConfig;
///
/// let network = Network::from_onnx(&std::fs::read("predecoder_3x128.onnx")?)?;
/// let context = Driver::load()?.device(0)?.context()?;
/// // Every cell of the first channel is a bit, flipped by the decision on its own data qubit.
/// let (input, places) = (vec![1.0; 4 * 13 * 13 * 13], Vec::from_iter(0..13 * 13 * 13));
/// let wiring = Wiring::new(13, 13, &input, &places, |bit| [bit as u32], &[], 0.5)?;
/// let handler = GridHandler::new(&network, &context, &wiring)?;
/// let ring = MappedRing::allocate(&context, RingConfig { slots: 4, slot_bytes: handler.slot_bytes() })?;
/// let functions = handler.function(Functions::new(), "predecode");
/// let dispatcher =
///     DeviceDispatcher::wire(&ring, functions, handler.modules(Modules::new()), handler.options())?.start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GridHandler {
    plan: Plan,
    params: Params,
    /// What `params` points to.
    memory: Arc<Memory>,
    request_bytes: usize,
    answer_bytes: usize,
    bits: u32,
}

/// Weights and tables, what a run works on, and the word that says which wait ran out.
#[derive(Debug)]
struct Memory {
    _tables: [Arc<DeviceBuffer>; 3],
    _buffers: Buffers,
    failed: DeviceBuffer,
}

impl GridHandler {
    /// Puts `network` on the device of `context`, for the volume and the bits of `wiring`.
    ///
    /// # Errors
    /// As for [`GpuModel::new`](crate::GpuModel::new).
    pub fn new(network: &Network, context: &Arc<Context>, wiring: &Wiring) -> Result<Self, GpuError> {
        let volume = [wiring.d, wiring.layers];
        Self::of(&Loaded::new(network, context, volume, DISPATCHER_SHARED, Some(wiring))?, context, wiring)
    }

    /// The same so many times, each on an equal part of the device's multiprocessors, for a dispatcher of its own: together they
    /// answer more requests, each of them later.
    ///
    /// # Errors
    /// As for [`new`](Self::new), of a part.
    pub fn several(
        network: &Network,
        context: &Arc<Context>,
        wiring: &Wiring,
        count: u32,
    ) -> Result<Vec<Self>, GpuError> {
        let volume = [wiring.d, wiring.layers];
        let all = context.device().multiprocessors()?;
        let taken = all - all.checked_div(count).unwrap_or(0);
        let loaded = Loaded::beside(network, context, volume, DISPATCHER_SHARED, Some(wiring), taken)?;
        (0..count).map(|_| Self::of(&loaded, context, wiring)).collect()
    }

    fn of(loaded: &Loaded, context: &Arc<Context>, wiring: &Wiring) -> Result<Self, GpuError> {
        let buffers = loaded.buffers(context)?;
        let failed = DeviceBuffer::zeroed(context, 4)?;
        let mut params = Params { failed: failed.address().0, limit: LIMIT_CYCLES, ..loaded.params };
        buffers.fill(&mut params);
        let (request_bytes, answer_bytes) = (wiring.request_bytes(), wiring.answer_bytes());
        let memory = Arc::new(Memory { _tables: loaded.tables(), _buffers: buffers, failed });
        Ok(Self { plan: loaded.plan, params, memory, request_bytes, answer_bytes, bits: wiring.bits() })
    }

    /// How the work is spread over the device.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.plan.shape
    }

    /// Bytes of a request.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Bytes of an answer.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Bytes of a slot that has room for a request, and for an answer.
    #[must_use]
    pub fn slot_bytes(&self) -> u32 {
        (self.answer_bytes().max(self.request_bytes()) + ringcall_wire::header::HEADER_BYTES)
            .next_multiple_of(64) as u32
    }

    /// Adds the handler's code, what it has to know, and the memory that it works on.
    #[must_use]
    pub fn modules(&self, modules: Modules) -> Modules {
        let plan = &self.plan;
        modules
            .ptx("the predecoder's kernel", plan.shape.ptx)
            .variable(PARAMETERS, self.params.as_bytes())
            .keep(Arc::clone(&self.memory) as Arc<dyn Any + Send + Sync>)
            .max_registers(registers(plan.shape.threads()))
    }

    /// Adds the handler under a name.
    #[must_use]
    pub fn function(&self, functions: Functions, name: &str) -> Functions {
        let schema = HandlerSchema::new().arg(TypeDesc::bit_packed(self.bits));
        functions.symbol(name, SYMBOL, HandlerKind::Grid, schema)
    }

    /// A dispatcher that the handler runs in.
    #[must_use]
    pub fn options(&self) -> Options {
        let plan = &self.plan;
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
        self.memory.failed.read_into(0, &mut word)?;
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
