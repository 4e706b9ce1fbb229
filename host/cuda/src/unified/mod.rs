//! The unified dispatcher: a kernel that works the queues of a NIC itself, with no ring and no host in between.
//!
//! The life cycle is that of the [device dispatcher](crate::dispatcher): wired, running, stopped with a report, and
//! wired again. The queues come from any provider ([`QueuePair`]); [`MappedQueues`] are in pinned host memory, for an
//! emulated NIC (`ringcall-nic`).
//!
//! ```no_run
//! use ringcall_cuda::dispatcher::{Functions, Modules};
//! use ringcall_cuda::unified::{MappedQueues, Shape, UnifiedDispatcher, UnifiedOptions};
//! # use ringcall_cuda::driver::Context;
//! # fn serve(context: &std::sync::Arc<Context>, shape: Shape) -> Result<(), Box<dyn std::error::Error>> {
//! # let (handlers, ptx) = ([] as [ringcall_handler::Handler; 0], "");
//! let queues = MappedQueues::allocate(context, shape)?;
//! // A NIC is given `queues.windows()` and `queues.uar()`.
//! let functions = Functions::new().handlers(&handlers);
//! let modules = Modules::new().ptx("my handlers", ptx);
//! let options = UnifiedOptions::default();
//! let dispatcher = UnifiedDispatcher::wire(queues.pair(), functions, modules, options)?.start()?;
//! let stopped = dispatcher.stop(std::time::Duration::from_millis(50));
//! assert!(stopped.report.is_clean());
//! # Ok(())
//! # }
//! ```

mod hooks;
mod queues;
mod stop;

pub use hooks::{HookTransport, QueueContext};
pub use queues::{MappedQueues, QueuePair, Shape};
pub use stop::{Stuck, UnifiedReport, UnifiedStopped};

use crate::dispatcher::{DeviceError, Functions, KernelKind, Modules, UnifiedKernel, UnifiedLauncher};
use crate::driver::{Context, DeviceBuffer, FreeHold, MappedRegion, Module, Stream, StreamState};
use core::sync::atomic::Ordering;
use ringcall_dispatch::Geometry;
use ringcall_dispatch::counters::Snapshot;
use ringcall_dispatch::persistent::stage_bytes;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::WARP_LANES;
use ringcall_verbs::Event;
use ringcall_verbs::crew::{Copying, layout};
use ringcall_verbs::endpoint::Reply;
use ringcall_verbs::rq::Buffers;
use ringcall_verbs::sq::RecordMode;
use ringcall_verbs::unified::Extent;
use ringcall_wire::Counter;
use ringcall_wire::unified::{UnifiedParams, control, options};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// How long a kernel may take from its launch to its first poll.
const BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// Choices of a unified dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnifiedOptions {
    /// Warps of its block, 1 to 32: one leads, and all serve what comes together.
    pub warps: u32,
    /// How long requests are.
    pub extent: Extent,
}

impl Default for UnifiedOptions {
    fn default() -> Self {
        Self { warps: 8, extent: Extent::Received }
    }
}

/// What a kernel uses while it runs, and what the host reads of it.
#[derive(Debug)]
struct Resources {
    context: Arc<Context>,
    control: Words,
    names: Vec<(u32, String)>,
    warps: u32,
    // Kept alive for the kernel.
    _transport: Arc<dyn Any + Send + Sync>,
    _control: MappedRegion,
    _tables: [DeviceBuffer; 2],
    _scratch: Option<DeviceBuffer>,
    _module: Module,
}

impl Resources {
    fn read(&self, word: usize) -> u64 {
        self.control.load(word, Ordering::Acquire)
    }

    fn stop(&self, how: u64) {
        self.control.store(control::STOP, how, Ordering::Release);
    }

    fn counters(&self) -> Snapshot {
        Snapshot::from_counts(std::array::from_fn::<_, { Counter::COUNT }, _>(|place| {
            self.read(control::COUNTERS + place)
        }))
    }
}

/// Not running.
#[derive(Debug)]
pub struct Wired(());

/// Running.
#[derive(Debug)]
pub struct Running {
    _hold: FreeHold,
    guard: stop::HaltOnDrop,
}

/// A dispatcher on the queues of a NIC, before or after its kernel runs.
#[derive(Debug)]
#[must_use]
pub struct UnifiedDispatcher<State = Wired> {
    resources: Arc<Resources>,
    launcher: Arc<UnifiedLauncher>,
    stream: Arc<Stream>,
    state: State,
}

fn option_bits(pair: &QueuePair, extent: Extent) -> u32 {
    let when = |condition, bit| if condition { bit } else { 0 };
    let config = &pair.config;
    when(config.record == RecordMode::NotWritten, options::NO_RECORD)
        | when(pair.copying == Copying::Whole, options::BLUE_FLAME)
        | when(pair.copying == Copying::Staged, options::BLUE_FLAME_STAGED)
        | when(matches!(config.buffers, Buffers::Slots { .. }), options::RECEIVE_SENDS)
        | when(config.sequence, options::SEQUENCE)
        | when(matches!(config.reply, Reply::WriteImm { .. }), options::REPLY_WRITE)
        | when(extent == Extent::Slot, options::WHOLE_SLOTS)
}

/// What a kernel, or a transport, is told of a queue pair.
fn queue_params(pair: &QueuePair, extent: Extent) -> UnifiedParams {
    let config = &pair.config;
    let (rx_lkey, rx_base) = match config.buffers {
        Buffers::Slots { lkey, base, .. } => (lkey, base),
        Buffers::Credits => (0, 0),
    };
    let (remote, remote_stride) = match config.reply {
        Reply::WriteImm { base, stride } => (Some(base), stride),
        Reply::Send => (None, 0),
    };
    UnifiedParams {
        rx_base,
        tx_base: config.tx_base,
        remote_base: remote.map_or(0, |remote| remote.address),
        qpn: config.qpn,
        depth: config.depth,
        slots: config.slots,
        rx_stride: config.rx_stride,
        tx_stride: config.tx_stride,
        rx_lkey,
        tx_lkey: config.tx_lkey,
        remote_rkey: remote.map_or(0, |remote| remote.rkey),
        remote_stride,
        options: option_bits(pair, extent),
        ..pair.addresses
    }
}

/// What the kinds of unified dispatchers differ in.
struct Parts<'a, L> {
    context: &'a Arc<Context>,
    geometry: Geometry,
    kernel: UnifiedKernel,
    warps: u32,
    threads: u32,
    transport: Arc<dyn Any + Send + Sync>,
    /// Bytes of shared memory: for so many cells and entries, a stage of so many bytes, with the stages in it or not.
    layout: L,
}

impl<L: Fn(u32, u32, u32, bool) -> u32> Parts<'_, L> {
    /// Links, loads, and allocates; `params` has all that is the transport's.
    fn wire(
        self,
        params: UnifiedParams,
        functions: &Functions,
        modules: &Modules,
    ) -> Result<UnifiedDispatcher<Wired>, DeviceError> {
        let Self { context, geometry, kernel, warps, threads, transport, layout } = self;
        let kind = KernelKind::Regular { blocks: 1, warps };
        let stream = Arc::new(Stream::new(context)?);
        let (table, module) =
            crate::dispatcher::link_unified(context, functions, modules, &geometry, kind, kernel)?;
        let (rx_stride, tx_stride) = (geometry.rx_stride(), geometry.tx_stride());
        let stage = stage_bytes(rx_stride.max(tx_stride));
        let (cells, entries) = (table.cells.len() as u32, table.entries.len() as u32);
        let most = context.device().max_shared_per_block()?;
        let in_shared = layout(cells, entries, stage, true) <= most;
        let shared = layout(cells, entries, stage, in_shared);
        let scratch = if in_shared {
            None
        } else {
            Some(DeviceBuffer::zeroed(context, warps as usize * 2 * stage as usize)?)
        };
        let region = MappedRegion::zeroed(context, control::WORDS * 8)?;
        let upload = |bytes: &[u8]| -> Result<DeviceBuffer, DeviceError> {
            let buffer = DeviceBuffer::zeroed(context, bytes.len().max(16))?;
            buffer.write_from(0, bytes)?;
            Ok(buffer)
        };
        let tables = [upload(table.entries.as_bytes())?, upload(table.cells.as_bytes())?];
        let (multiplier, shift) = table.index.parts();
        let params = UnifiedParams {
            entries: tables[0].address().0,
            cells: tables[1].address().0,
            control: region.device_address(0)?.0,
            scratch: scratch.as_ref().map_or(0, |buffer| buffer.address().0),
            rx_stride,
            tx_stride,
            entry_count: entries,
            cell_count: cells,
            multiplier,
            shift,
            stage_bytes: stage,
            ..params
        };
        let launcher = UnifiedLauncher::new(context, &module, kernel.entry(), threads, shared, &params)?;
        let resources = Resources {
            context: Arc::clone(context),
            control: region.words(0, control::WORDS)?,
            names: table.names,
            warps,
            _transport: transport,
            _control: region,
            _tables: tables,
            _scratch: scratch,
            _module: module,
        };
        let (resources, launcher) = (Arc::new(resources), Arc::new(launcher));
        Ok(UnifiedDispatcher { resources, launcher, stream, state: Wired(()) })
    }
}

impl UnifiedDispatcher<Wired> {
    /// Links, loads and allocates all that a dispatcher of these queues needs.
    ///
    /// # Errors
    /// A table that cannot be built, a function that is neither a thread nor a warp handler, strides that are no multiples
    /// of 16, modules that do not link, a kernel that does not fit the device, no memory.
    #[allow(clippy::needless_pass_by_value)] // builders end here
    pub fn wire(
        pair: &QueuePair,
        functions: Functions,
        modules: Modules,
        chosen: UnifiedOptions,
    ) -> Result<Self, DeviceError> {
        let (context, config) = (&pair.context, &pair.config);
        if !(1..=32).contains(&chosen.warps) {
            return Err(DeviceError::Shape(format!(
                "a unified dispatcher has 1 to 32 warps, not {}",
                chosen.warps
            )));
        }
        for stride in [config.rx_stride, config.tx_stride] {
            if !stride.is_multiple_of(16) {
                return Err(DeviceError::Shape(format!(
                    "slots of a unified dispatcher are multiples of 16 bytes, not {stride}"
                )));
            }
        }
        let geometry = Geometry::new(config.slots, config.rx_stride, config.tx_stride, 0, 0, 0)?;
        let parts = Parts {
            context,
            geometry,
            kernel: UnifiedKernel::Queues,
            warps: chosen.warps,
            threads: chosen.warps * WARP_LANES,
            transport: Arc::new(pair.clone()),
            layout: |cells, entries, stage, in_shared| {
                layout::of(cells, entries, chosen.warps, stage, in_shared).bytes
            },
        };
        parts.wire(queue_params(pair, chosen.extent), &functions, &modules)
    }

    /// Launches the kernel, and waits until it polls. The first start posts the receive requests.
    ///
    /// # Errors
    /// The queue pair is dead, the launch fails, or the kernel refuses the queues or does not begin within a second.
    pub fn start(self) -> Result<UnifiedDispatcher<Running>, DeviceError> {
        let Self { resources, launcher, stream, state: Wired(()) } = self;
        if resources.read(control::DEAD) != 0 {
            return Err(DeviceError::Shape(
                "the queue pair is in the error state: make a new one, and a dispatcher for it".to_owned(),
            ));
        }
        resources.control.store(control::STATE, control::STATE_NEW, Ordering::Relaxed);
        resources.stop(control::STOP_NO);
        let hold = resources.context.hold_frees();
        launcher.launch(&stream)?;
        let begin = Instant::now();
        loop {
            match resources.read(control::STATE) {
                control::STATE_NEW => (),
                control::STATE_FAILED => {
                    return Err(DeviceError::Shape(
                        "the kernel refused the queues: entries are powers of two below 65536, completions hold what \
                         requests complete with, no more receive requests are posted than fit"
                            .to_owned(),
                    ));
                }
                _ => break,
            }
            if let StreamState::Failed(error) = stream.query() {
                return Err(error.into());
            }
            if begin.elapsed() > BEGINS_WITHIN {
                resources.stop(control::STOP_NOW);
                return Err(DeviceError::DidNotBegin(BEGINS_WITHIN));
            }
            std::thread::yield_now();
        }
        let guard = stop::HaltOnDrop::new(&resources);
        Ok(UnifiedDispatcher { resources, launcher, stream, state: Running { _hold: hold, guard } })
    }
}

impl<State> UnifiedDispatcher<State> {
    /// All counters of requests, as of the last round. Never blocks, never touches a stream.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.resources.counters()
    }

    /// How often something happened on the queues, as of the last round.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        self.resources.read(control::EVENTS + event as usize)
    }

    /// What the kernel takes of the device: registers of a thread, bytes of shared memory.
    #[must_use]
    pub fn footprint(&self) -> crate::dispatcher::Footprint {
        self.launcher.footprint()
    }
}

const _: () = assert!(Event::COUNT <= control::MOST_EVENTS);
