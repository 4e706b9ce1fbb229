//! Device dispatchers of a ring: kernels that poll a ring in mapped memory and call functions linked at load time.
//!
//! ```no_run
//! use ringcall::{Client, RingConfig};
//! use ringcall_launch::ring::{DeviceDispatcher, Functions, KernelKind, MappedRing, Modules, DispatcherOptions};
//! use ringcall_cuda::driver::Driver;
//! use std::time::Duration;
//!
//! let context = Driver::load()?.device(0)?.context()?;
//! let ring = MappedRing::allocate(&context, RingConfig { slots: 64, slot_bytes: 64 })?;
//! // `handlers` as `ringcall_handler::handlers!` makes it, `ptx` as `ringcall_build` does.
//! # let (handlers, ptx) = ([] as [ringcall_handler::Handler; 0], "");
//! let functions = Functions::new().handlers(&handlers);
//! let modules = Modules::new().ptx("my handlers", ptx);
//! let dispatcher =
//!     DeviceDispatcher::wire(&ring, functions, modules, DispatcherOptions::new(KernelKind::regular()))?.start()?;
//!
//! let reply = Client::new(ring.ring()).call("rpc_increment", &[1, 2, 3], Duration::from_secs(1))?;
//! assert_eq!(reply.result, [2, 3, 4]);
//! let stopped = dispatcher.stop(Duration::from_millis(50));
//! assert_eq!(stopped.report.unanswered, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Life cycle
//! [`DeviceDispatcher<Wired>`] → [`start`](DeviceDispatcher::start) → [`DeviceDispatcher<Running>`] →
//! [`stop`](DeviceDispatcher::stop) (drains, bounded) → [`Stopped`], which gives the wired dispatcher back. Linking,
//! loading, occupancy and every allocation are done by [`wire`](DeviceDispatcher::wire), so that nothing is loaded or
//! freed while kernels of this context poll.
//!
//! # Counters of a running dispatcher [`counters`](DeviceDispatcher::counters) and [`busy`](DeviceDispatcher::busy) read mapped memory that the dispatcher's maintenance warp writes between its other work, about every 10 µs when idle and every 100 µs under load. They use no stream, so they never wait for a kernel.

mod active_launch;
mod baseline;
mod error;
mod functions;
mod graphs;
mod host_graph;
mod index;
mod launch;
mod launch_stats;
mod linked;
mod loaded_graph;
mod mailbox_graph;
mod manager;
mod mapped_ring;
mod modules;
mod resources;
mod ring_graphs;
mod stop;
mod unified;
mod unified_kernel;
mod watch;
pub mod worker_pool;

pub(crate) use active_launch::{ActiveLaunch, Halt, Kept};
pub use baseline::BaselineEcho;
pub use error::DeviceError;
pub use functions::Functions;
pub use graphs::{GraphFunction, GraphKernel, GraphNodes};
pub use host_graph::HostGraph;
pub(crate) use launch_stats::failure;
pub use launch_stats::{LaunchStats, Triggers};
pub(crate) use linked::unified_table;
pub use linked::{LinkedDispatcher, LinkedFunction, LinkedGraphs, LinkedRing};
pub(crate) use loaded_graph::LoadedGraph;
pub use manager::{Manager, NotStarted};
pub use mapped_ring::MappedRing;
pub(crate) use mapped_ring::{Addresses, DeviceRing};
pub use modules::Modules;
pub use resources::AHEAD_SHARED;
pub(crate) use resources::check_shape;
pub use ring_graphs::RingGraphs;
pub use ringcall_protocol::counters::Snapshot;
pub use stop::{StopReport, Stopped};
pub(crate) use unified::{LoadedTable, UnifiedLauncher, link_unified};
pub(crate) use unified_kernel::UnifiedKernel;
pub use watch::{Busy, Hung, Watch};

use launch::Launcher;
use resources::Resources;
use ringcall_cuda::driver::{Stream, StreamState};
use ringcall_dispatcher::ring::Layout;
use std::sync::Arc;

/// Kinds of dispatch kernels, and their sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// Blocks of `warps` warps that share the ring, for thread and warp handlers.
    Regular {
        /// Blocks; each polls a part of the ring.
        blocks: u32,
        /// Warps of a block, 1 to 32; all but one serve.
        warps: u32,
    },
    /// A cooperative grid, all of whose threads take part in grid handlers' calls; thread and warp handlers are served by
    /// the polling warp alone, one at a time.
    Cooperative {
        /// Blocks; all must be resident at once.
        blocks: u32,
        /// Threads of a block: a multiple of 32.
        threads: u32,
    },
    /// The same with one more block (or cluster, if there are clusters), which serves requests and takes no part in
    /// grid handlers' calls. While a handler runs, that block polls for the next request, fetches and checks it, and
    /// answers the previous request. For grid handlers with a fixed number of blocks, since the launched grid is
    /// larger.
    Ahead {
        /// Blocks of grid handlers, a multiple of a cluster's; with the serving block, all must be resident
        /// at once.
        blocks: u32,
        /// Threads of a block: a multiple of 32.
        threads: u32,
    },
    /// One block that can launch graphs, for thread and warp handlers and graphs.
    Graph {
        /// Warps, 1 to 32; all but one serve.
        warps: u32,
    },
}

impl KernelKind {
    /// One block of 8 warps: the shortest latency.
    #[must_use]
    pub const fn regular() -> Self {
        Self::Regular { blocks: 1, warps: 8 }
    }

    /// Eight blocks of 8 warps: many requests a second with any handlers.
    #[must_use]
    pub const fn broad() -> Self {
        Self::Regular { blocks: 8, warps: 8 }
    }

    /// Four blocks of one warp, each of which serves up to 32 requests at once: the most requests a second for short
    /// thread handlers. A slow handler delays the other requests of its block's part of the ring.
    #[must_use]
    pub const fn batched() -> Self {
        Self::Regular { blocks: 4, warps: 1 }
    }

    /// One block of 8 warps that can launch graphs.
    #[must_use]
    pub const fn graph() -> Self {
        Self::Graph { warps: 8 }
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(self) -> u32 {
        match self {
            Self::Regular { warps, .. } | Self::Graph { warps } => warps.saturating_mul(32),
            Self::Cooperative { threads, .. } | Self::Ahead { threads, .. } => threads,
        }
    }

    /// Blocks; for [`Ahead`](Self::Ahead) the blocks of grid handlers.
    #[must_use]
    pub const fn blocks(self) -> u32 {
        match self {
            Self::Regular { blocks, .. } | Self::Cooperative { blocks, .. } | Self::Ahead { blocks, .. } => {
                blocks
            }
            Self::Graph { .. } => 1,
        }
    }

    /// Whether the kernel is a cooperative grid, in which grid handlers run.
    const fn is_grid(self) -> bool {
        matches!(self, Self::Cooperative { .. } | Self::Ahead { .. })
    }

    /// Warps of a block that serve.
    const fn workers(self) -> u32 {
        match self {
            Self::Regular { warps, .. } | Self::Graph { warps } => Layout::workers(warps),
            Self::Ahead { threads, .. } => Layout::callers(threads / 32),
            Self::Cooperative { .. } => 1,
        }
    }

    const fn entry(self) -> &'static str {
        match self {
            Self::Regular { .. } => "ringcall_dispatch",
            Self::Cooperative { .. } => "ringcall_dispatch_grid",
            Self::Ahead { .. } => "ringcall_dispatch_ahead",
            Self::Graph { .. } => "ringcall_dispatch_graph",
        }
    }
}

/// Options of a device dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatcherOptions {
    /// Kernel and size.
    pub kernel: KernelKind,
    /// Other dispatchers serve this ring, too, and requests for functions that are not in the table are left to them.
    /// One dispatcher of a ring should not have this set: it answers malformed and unknown requests, and is given the
    /// others' functions ([`Functions::elsewhere`]). No two dispatchers serve the same function.
    pub shared_ring: bool,
    /// Graph launches set no in-flight mark, for peers that do not know the mark.
    pub skip_marks: bool,
    /// Bad requests ([`Status::is_bad_request`](ringcall::Status::is_bad_request)) are counted and removed from their
    /// slots without an answer, as by CUDA-Q Realtime.
    pub drop_bad_requests: bool,
    /// A warp calls thread handlers one at a time, in the order of the slots. By default a warp calls up to 32 of
    /// them at once, one in each lane, if more requests are ready than warps are free.
    pub serial_handlers: bool,
    /// How long an idle warp sleeps between two polls of its mailbox, ns.
    pub sleep_ns: u32,
    /// Bytes of shared memory that each block has for handlers, at the end of its dynamic shared memory. Handlers
    /// keep it while the kernel runs, also between calls.
    pub handler_shared: u32,
    /// Blocks of a cluster; 1 for none.
    pub cluster: u32,
}

impl DispatcherOptions {
    /// The number of launched blocks.
    const fn launched_blocks(&self) -> u32 {
        match self.kernel {
            KernelKind::Ahead { blocks, .. } => blocks.saturating_add(self.cluster),
            other => other.blocks(),
        }
    }
}

impl DispatcherOptions {
    /// The defaults for a kernel.
    #[must_use]
    pub const fn new(kernel: KernelKind) -> Self {
        Self {
            kernel,
            shared_ring: false,
            skip_marks: false,
            drop_bad_requests: false,
            serial_handlers: false,
            sleep_ns: 40,
            handler_shared: 0,
            cluster: 1,
        }
    }

    /// The same, with this many bytes of shared memory a block for handlers.
    #[must_use]
    pub const fn handler_shared(mut self, bytes: u32) -> Self {
        self.handler_shared = bytes;
        self
    }

    /// The same, in clusters of this many blocks.
    #[must_use]
    pub const fn cluster(mut self, blocks: u32) -> Self {
        self.cluster = blocks;
        self
    }

    /// The same, on a ring that other dispatchers serve, too.
    #[must_use]
    pub const fn shared_ring(mut self) -> Self {
        self.shared_ring = true;
        self
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

/// A dispatcher on the device, before or after its kernel runs.
///
/// If a running dispatcher is dropped without a [`stop`](DeviceDispatcher::stop), the drop tells its kernel to end
/// and waits at most a tenth of a second. If the kernel still runs then, everything that it uses is kept until the
/// process ends.
#[derive(Debug)]
#[must_use]
pub struct DeviceDispatcher<State = Wired> {
    resources: Arc<Resources>,
    launcher: Arc<Launcher>,
    stream: Arc<Stream>,
    state: State,
}

impl DeviceDispatcher<Wired> {
    /// Links, loads and allocates everything that a dispatcher of `ring` needs.
    ///
    /// # Errors
    /// A table that cannot be built (two names with one id, a schema that cannot fit a slot), modules that do not link, a
    /// kernel that does not fit the device, no memory.
    #[allow(clippy::needless_pass_by_value)] // builders end here
    pub fn wire(
        ring: &MappedRing,
        functions: Functions,
        modules: Modules,
        options: DispatcherOptions,
    ) -> Result<Self, DeviceError> {
        Self::wire_to(DeviceRing::from(ring), &functions, &modules, options)
    }

    /// The same for a ring in any memory that the device reaches.
    pub(crate) fn wire_to(
        ring: DeviceRing,
        functions: &Functions,
        modules: &Modules,
        options: DispatcherOptions,
    ) -> Result<Self, DeviceError> {
        let stream = Arc::new(Stream::new(&ring.context)?);
        let made = resources::wire(ring, functions, modules, options, &stream)?;
        Ok(Self::of(made, stream))
    }

    fn of((resources, launcher): (Resources, Launcher), stream: Arc<Stream>) -> Self {
        Self { resources: Arc::new(resources), launcher: Arc::new(launcher), stream, state: Wired(()) }
    }

    /// The ring that it serves.
    pub(crate) fn ring(&self) -> &DeviceRing {
        self.resources.ring()
    }

    /// Launches the kernel and waits until it polls.
    ///
    /// # Errors
    /// The launch fails, or the kernel does not begin within a second because another persistent kernel occupies the
    /// whole device. A late kernel ends as soon as it begins, and everything that it uses is kept until the process
    /// ends.
    pub fn start(self) -> Result<DeviceDispatcher<Running>, DeviceError> {
        let Self { resources, launcher, stream, state: Wired(()) } = self;
        resources.reset()?;
        let hold = resources.context().hold_frees();
        launcher.launch(&stream)?;
        // From here on a drop treats the dispatcher as a running one.
        let launched = ActiveLaunch::new(&resources, &launcher, &stream, hold);
        resources.await_running(&stream)?;
        Ok(DeviceDispatcher { resources, launcher, stream, state: Running { launched } })
    }
}

impl DeviceDispatcher<Running> {
    /// Whether the kernel has ended by itself, well or not. Never blocks.
    pub(crate) fn has_ended(&self) -> bool {
        self.resources.ended() || matches!(self.stream.query(), StreamState::Failed(_))
    }
}

impl<State> DeviceDispatcher<State> {
    /// A snapshot of all counters. Does not block and uses no stream.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.watch().counters()
    }

    /// A snapshot of the work of every warp. Does not block and uses no stream.
    #[must_use]
    pub fn busy(&self) -> Vec<Busy> {
        self.watch().busy()
    }

    /// A handle with which any thread can watch the dispatcher.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(&self.resources)
    }

    /// What the kernel takes of the device.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.launcher.footprint()
    }
}

/// Resources that a kernel uses on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Blocks of this kernel that fit one multiprocessor at once.
    pub blocks_per_multiprocessor: u32,
}
