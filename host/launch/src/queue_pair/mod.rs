//! The unified dispatcher: a kernel that serves the queue pair of a NIC by itself, without a ring and without the
//! host.
//!
//! The life cycle is the same as that of the [device dispatcher](crate::ring): wired, running, stopped with a report,
//! and wired again. The queues come from any provider ([`QueuePair`]); [`MappedQueues`] are in pinned host memory,
//! for an emulated NIC (`ringcall-sim`).
//!
//! ```no_run
//! use ringcall_launch::ring::{Functions, Modules};
//! use ringcall_launch::queue_pair::{MappedQueues, Shape, UnifiedDispatcher, UnifiedOptions};
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

mod adapter;
mod claim;
mod hooks;
mod linked;
mod queues;
mod stop;
mod wire;

pub use adapter::{AdapterError, AdapterPair, AdapterShape, QueueMemory};
pub(crate) use claim::Claimed;
pub use hooks::{HookTransport, QueueContext};
pub use queues::{MappedQueues, QueuePair, Shape};
pub use stop::{Stuck, UnifiedReport, UnifiedStopped};
use wire::Parts;
pub(crate) use wire::queue_params;

use crate::ring::{
    ActiveLaunch, DeviceError, Functions, Halt, Kept, KernelKind, LaunchStats, LoadedGraph, Modules,
    UnifiedKernel, UnifiedLauncher, check_shape,
};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, DeviceBuffer, MappedRegion, Module, Stream, StreamState};
use ringcall_dispatcher::queue_pair::layout;
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::shared_layout::Needs;
use ringcall_gpu::shared::Words;
use ringcall_mlx5::Event;
use ringcall_mlx5::endpoint::Config;
use ringcall_protocol::Geometry;
use ringcall_protocol::counters::Snapshot;
use ringcall_wire::Counter;
use ringcall_wire::unified::control;
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a kernel may take from its launch to its first poll.
const BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// Options of a unified dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnifiedOptions {
    /// Kernel and size. `Regular`: one block of 1 to 32 warps, one of which polls; all of them serve requests that
    /// come together. `Graph`: the same, and graphs. `Cooperative`: one warp serves, and all threads of the grid take
    /// part in the calls of grid handlers.
    pub kernel: KernelKind,
    /// Lengths of requests.
    pub extent: Extent,
}

impl Default for UnifiedOptions {
    fn default() -> Self {
        Self { kernel: KernelKind::regular(), extent: Extent::Received }
    }
}

/// Memory that a kernel uses while it runs, and the part of it that the host reads.
#[derive(Debug)]
struct Resources {
    context: Arc<Context>,
    control: Words,
    names: Vec<(u32, String)>,
    warps: u32,
    channel: Option<DeviceBuffer>,
    // Kept alive for the kernel.
    _transport: Arc<dyn Any + Send + Sync>,
    _control: MappedRegion,
    _tables: [DeviceBuffer; 2],
    _memory: [Option<DeviceBuffer>; 3],
    _graphs: Vec<LoadedGraph>,
    /// `None`: the program's own.
    _module: Option<Module>,
}

impl Halt for Resources {
    fn halt(&self) {
        self.stop(control::STOP_NOW);
    }
}

impl Resources {
    fn read(&self, word: usize) -> u64 {
        self.control.load(word, Ordering::Acquire)
    }

    fn stop(&self, how: u64) {
        self.control.store(control::STOP, how, Ordering::Release);
    }

    fn counters(&self) -> Snapshot {
        Snapshot::from_counts(std::array::from_fn::<_, { Counter::COUNT }, _>(|index| {
            self.read(control::COUNTERS + index)
        }))
    }
}

/// Waits until a kernel on queues polls, as its control block says.
pub(crate) fn await_running(words: &Words, stream: &Stream) -> Result<(), DeviceError> {
    let begin = Instant::now();
    loop {
        match words.load(control::STATE, Ordering::Acquire) {
            control::STATE_NEW => (),
            control::STATE_FAILED => {
                return Err(DeviceError::Shape(
                    "the kernel refused the queues: entries are powers of two below 65536, completions hold what \
                     requests complete with, no more receive requests are posted than fit"
                        .to_owned(),
                ));
            }
            _ => return Ok(()),
        }
        if let StreamState::Failed(error) = stream.query() {
            return Err(error.into());
        }
        if begin.elapsed() > BEGINS_WITHIN {
            return Err(DeviceError::DidNotBegin(BEGINS_WITHIN));
        }
        std::thread::yield_now();
    }
}

/// Not running.
#[derive(Debug)]
pub struct Wired(());

/// Running.
#[derive(Debug)]
pub struct Running {
    launched: ActiveLaunch<Kept<Resources>>,
}

/// A dispatcher on the queues of a NIC, before or after its kernel runs.
///
/// If a running dispatcher is dropped without a [`stop`](UnifiedDispatcher::stop), the drop tells its kernel to end
/// and waits at most a tenth of a second. If the kernel still runs then, everything that the kernel uses is kept
/// until the process ends.
#[derive(Debug)]
#[must_use]
pub struct UnifiedDispatcher<State = Wired> {
    resources: Arc<Resources>,
    launcher: Arc<UnifiedLauncher>,
    stream: Arc<Stream>,
    state: State,
}

/// Refuses slots that a kernel cannot copy pair by pair.
fn check_strides(config: &Config) -> Result<(), DeviceError> {
    for stride in [config.rx_stride, config.tx_stride] {
        if !stride.is_multiple_of(16) {
            return Err(DeviceError::Shape(format!(
                "slots of a unified dispatcher are multiples of 16 bytes, not {stride}"
            )));
        }
    }
    Ok(())
}

impl UnifiedDispatcher<Wired> {
    /// Links, loads and allocates everything that a dispatcher of these queues needs.
    ///
    /// # Errors
    /// A queue pair that was wired before. A table that cannot be built, a function of a kind that the kernel does not run, a shape that no kernel has, strides
    /// that are no multiples of 16, modules that do not link, a kernel that does not fit the device, no memory.
    #[allow(clippy::needless_pass_by_value)] // builders end here
    pub fn wire(
        pair: &QueuePair,
        functions: Functions,
        modules: Modules,
        chosen: UnifiedOptions,
    ) -> Result<Self, DeviceError> {
        let claimed = pair.claim()?;
        let (context, config) = (&pair.context, &pair.config);
        let kind = chosen.kernel;
        check_shape(kind, config.slots)?;
        if let KernelKind::Regular { blocks: blocks @ 2.., .. } = kind {
            return Err(DeviceError::Shape(format!(
                "a unified dispatcher is one block, since one warp takes the completions of a queue pair, not {blocks}: make \
                 a queue pair and a dispatcher for each"
            )));
        }
        let warps = match kind {
            KernelKind::Regular { warps, .. } | KernelKind::Graph { warps } => warps,
            KernelKind::Cooperative { .. } => 1,
            KernelKind::Ahead { .. } => {
                let why = "a unified dispatcher serves in the first block of its grid, not in one of its own";
                return Err(DeviceError::Shape(why.to_owned()));
            }
        };
        check_strides(config)?;
        let geometry = Geometry::new(config.slots, config.rx_stride, config.tx_stride, 0, 0, 0)?;
        let parts = Parts {
            context,
            geometry,
            kind,
            kernel: UnifiedKernel::of(kind),
            warps,
            threads: kind.threads(),
            transport: Arc::new(pair.clone()),
            layout: |cells, entries, staging_bytes, shared_staging| {
                let workers = warps;
                layout::of(Needs { slots: 0, cells, entries, workers, staging_bytes, shared_staging }).bytes
            },
        };
        let wired = parts.wire(queue_params(pair, chosen.extent), &functions, &modules)?;
        claimed.for_ever();
        Ok(wired)
    }

    /// Launches the kernel and waits until it polls. The first start posts the receive requests.
    ///
    /// # Errors
    /// The queue pair is dead, the launch fails, or the kernel refuses the queues or does not begin within a second. A
    /// late kernel ends as soon as it begins, and everything that it uses is kept until the process ends.
    pub fn start(self) -> Result<UnifiedDispatcher<Running>, DeviceError> {
        let Self { resources, launcher, stream, state: Wired(()) } = self;
        if resources.read(control::DEAD) != 0 {
            return Err(DeviceError::Shape(
                "the queue pair is in the error state: make a new one, and a dispatcher for it".to_owned(),
            ));
        }
        // Before the first start the memory is zero; on a device whose multiprocessors other kernels occupy, a fill
        // would wait for these kernels.
        if resources.read(control::STATE) != control::STATE_NEW
            && let Some(channel) = &resources.channel
        {
            channel.fill(0)?;
        }
        resources.control.store(control::STATE, control::STATE_NEW, Ordering::Relaxed);
        resources.stop(control::STOP_NO);
        let hold = resources.context.hold_frees();
        launcher.launch(&stream)?;
        // From here on a drop treats the dispatcher as a running one.
        let launched = ActiveLaunch::new(&resources, &launcher, &stream, hold);
        await_running(&resources.control, &stream)?;
        Ok(UnifiedDispatcher { resources, launcher, stream, state: Running { launched } })
    }
}

/// Reads a unified dispatcher's counters from any thread, also after the dispatcher has ended.
#[derive(Debug, Clone)]
pub struct UnifiedWatch {
    resources: Arc<Resources>,
}

impl UnifiedWatch {
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
}

impl UnifiedDispatcher<Running> {
    /// Whether the kernel has ended by itself, well or not: a [`stop`](Self::stop) says how. Never blocks.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.resources.read(control::STATE), control::STATE_ENDED | control::STATE_FAILED)
            || matches!(self.stream.query(), StreamState::Failed(_))
    }
}

impl<State> UnifiedDispatcher<State> {
    /// A handle with which any thread can watch the dispatcher.
    #[must_use]
    pub fn watch(&self) -> UnifiedWatch {
        UnifiedWatch { resources: Arc::clone(&self.resources) }
    }

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

    /// Launches that the kernel has made so far.
    #[must_use]
    pub fn launches(&self) -> LaunchStats {
        LaunchStats::of(|word| self.resources.read(word))
    }

    /// Resources that the kernel uses: registers of a thread, bytes of shared memory.
    #[must_use]
    pub fn footprint(&self) -> crate::ring::Footprint {
        self.launcher.footprint()
    }
}

const _: () = assert!(Event::COUNT <= control::MOST_EVENTS);
