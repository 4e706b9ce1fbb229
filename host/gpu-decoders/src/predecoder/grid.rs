//! The network as a handler of the cooperative dispatcher: no launch in a request's way, weights on the way into shared
//! memory before it comes.

use crate::grid::{ALIGNMENT, registers, slot_bytes};
use crate::predecoder::buffers::Buffers;
use crate::predecoder::kernels::LIMIT_CYCLES;
use crate::predecoder::loaded::{GpuError, Loaded};
use crate::predecoder::plan::{Offer, Params, Plan, SHAPES};
use crate::predecoder::{Network, Shape, Share, Wiring};
use ringcall_cuda::driver::{Context, DeviceBuffer};
use ringcall_launch::ring::{AHEAD_SHARED, DispatcherOptions, Functions, KernelKind, Modules};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::payload::TypeDesc;
use ringcall_wire::schema::HandlerSchema;
use std::any::Any;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Kernel symbols: the grid handler, its participant loop, and their parameter block.
const SYMBOL: &str = "ringcall_predecoder_grid";
const PARTICIPANT: &str = "ringcall_predecoder_follow";
const PARAMETERS: &str = "ringcall_predecoder_params";
/// Shared memory left to a dispatcher that serves in one of the handler's own blocks.
const DISPATCHER_SHARED: u32 = 24 << 10;

/// The network as a grid handler. [Modules](Self::modules) keep the device memory that it works on.
///
/// Requests are a [`Wiring`]'s bits, answers what the network's decisions leave of them, and the frame. The frame's byte is
/// 0 or 1; any other value says that a block of the kernel gave up, and that the answer is worth nothing.
/// [`Status::SCHEMA_MISMATCH`](ringcall_wire::Status::SCHEMA_MISMATCH) for another length.
///
/// ```no_run
/// use ringcall_launch::ring::{DeviceDispatcher, Functions, MappedRing, Modules};
/// use ringcall_cuda::driver::Driver;
/// use ringcall_gpu_decoders::predecoder::{GridHandler, Network, Wiring};
/// use ringcall::RingConfig;
///
/// let network = Network::from_onnx(&std::fs::read("predecoder_3x128_int8.onnx")?)?;
/// let context = Driver::load()?.device(0)?.context()?;
/// // Every cell of the first channel is a bit, flipped by the decision on its own data qubit.
/// let (input, elements) = (vec![1.0; 4 * 13 * 13 * 13], Vec::from_iter(0..13 * 13 * 13));
/// let wiring = Wiring::new(13, 13, &input, &elements, |bit| [bit as u32], &[], 0.5)?;
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
    /// Whether there is room for one more cluster, to serve.
    ahead: bool,
}

/// Weights and tables, the buffers of a run, and the word that says which wait ran out.
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
    /// As for [`GpuModel::new`](crate::predecoder::GpuModel::new).
    pub fn new(network: &Network, context: &Arc<Context>, wiring: &Wiring) -> Result<Self, GpuError> {
        Self::of(&Self::loaded(network, context, wiring, Share::WHOLE)?, context, wiring)
    }

    /// Where there is room for a cluster that serves, blocks of the others have their shared memory nearly for themselves.
    fn loaded(
        network: &Network,
        context: &Arc<Context>,
        wiring: &Wiring,
        share: Share,
    ) -> Result<Loaded, GpuError> {
        let volume = [wiring.d, wiring.layers];
        Loaded::planned(network, context, volume, Some(wiring), share, |offer, [d, layers]| {
            let with = |reserved| {
                let shared = offer.shared.saturating_sub(reserved);
                Plan::choose(SHAPES, d, layers, Offer { shared, ..offer })
            };
            with(AHEAD_SHARED).filter(Plan::leaves_a_cluster).or_else(|| with(DISPATCHER_SHARED))
        })
    }

    /// The same so many times, each on an equal part of the device's multiprocessors, for its own dispatcher:
    /// together they answer more requests, each of them later.
    ///
    /// # Errors
    /// As for [`new`](Self::new), of a part.
    pub fn several(
        network: &Network,
        context: &Arc<Context>,
        wiring: &Wiring,
        count: u32,
    ) -> Result<Vec<Self>, GpuError> {
        let loaded = Self::loaded(network, context, wiring, Share::WHOLE.one_of(count))?;
        (0..count).map(|_| Self::of(&loaded, context, wiring)).collect()
    }

    fn of(loaded: &Loaded, context: &Arc<Context>, wiring: &Wiring) -> Result<Self, GpuError> {
        let buffers = loaded.buffers(context)?;
        let failed = DeviceBuffer::zeroed(context, 4)?;
        let mut params = Params { failed: failed.address().0, limit: LIMIT_CYCLES, ..loaded.params };
        buffers.fill(&mut params);
        let (request_bytes, answer_bytes) = (wiring.request_bytes(), wiring.answer_bytes());
        let memory = Arc::new(Memory { _tables: loaded.tables(), _buffers: buffers, failed });
        Ok(Self {
            plan: loaded.plan,
            params,
            memory,
            request_bytes,
            answer_bytes,
            bits: wiring.bits(),
            ahead: loaded.plan.leaves_a_cluster(),
        })
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
        slot_bytes(self.request_bytes(), self.answer_bytes())
    }

    /// Adds the handler's code, its parameters, and its memory.
    #[must_use]
    pub fn modules(&self, modules: Modules) -> Modules {
        let plan = &self.plan;
        modules
            .ptx("the predecoder's kernel", &plan.shape.ptx())
            .variable(PARAMETERS, self.params.as_bytes())
            .keep(Arc::clone(&self.memory) as Arc<dyn Any + Send + Sync>)
            .max_registers(registers(plan.shape.threads()))
    }

    /// Adds the handler under a name.
    #[must_use]
    pub fn function(&self, functions: Functions, name: &str) -> Functions {
        let schema = HandlerSchema::new().arg(TypeDesc::bit_packed(self.bits));
        functions.symbol(name, SYMBOL, HandlerKind::Grid, schema).participant(name, PARTICIPANT)
    }

    /// A dispatcher that the handler runs in: with its own block, where there is room for one.
    #[must_use]
    pub fn options(&self) -> DispatcherOptions {
        let plan = &self.plan;
        let (blocks, threads) = (plan.blocks(), plan.shape.threads());
        let ahead = KernelKind::Ahead { blocks, threads };
        DispatcherOptions::new(if self.ahead { ahead } else { KernelKind::Cooperative { blocks, threads } })
            .handler_shared(plan.shared + ALIGNMENT)
            .cluster(plan.shape.cluster())
    }

    /// Which wait of the kernel ran out, if one did: from then on every request is answered
    /// [`ENGINE_FAILED`](ringcall_wire::Status::ENGINE_FAILED), or with a frame's byte that is neither 0 nor 1. Not while the dispatcher runs: it copies through the driver.
    ///
    /// # Errors
    /// The context is dead.
    pub fn failed(&self) -> Result<Option<u32>, GpuError> {
        let mut word = [0; 4];
        self.memory.failed.read_into(0, &mut word)?;
        Ok(Some(u32::from_le_bytes(word)).filter(|&which| which != 0))
    }
}
