//! `--dispatcher device`: a ring in mapped memory, or the queues of an emulated adapter, served by persistent kernels.

use super::counters::{self, ReadCounters, ServiceCounters};
use super::hsb;
use super::served::{Outcome, Served};
use crate::decoder::on_gpu;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use ringcall::RingConfig;
use ringcall_cuda::driver::{Context as DeviceContext, Driver};
use ringcall_decoder_service::Problem;
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_dispatcher::relay::CREDITS_PER_SLOT;
use ringcall_gpu_decoders::relay_bp::{Bounds, CancelFlag, GridHandler};
use ringcall_launch::queue_pair::{
    MappedQueues, QueuePair, Running as UnifiedRunning, Shape, UnifiedDispatcher, UnifiedOptions,
    UnifiedWatch,
};
use ringcall_launch::relay::{RelayDispatcher, RelayOptions, RelayWatch, Running as RelayRunning};
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules, Running,
};
use ringcall_mlx5::endpoint::{Config, ResponsePath};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{Event, WaitEnd};
use ringcall_protocol::counters::Snapshot;
use ringcall_roce::PortOptions;
use ringcall_roce::introduced::Introduction;
use ringcall_sim::socket_nic::{self, Adapter, AdapterQueues, LoopStats, SocketNicOptions};
use ringcall_transport::{TransportAddress, roce};
use ringcall_wire::function::names;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The kernels that serve an adapter's queues, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KernelsArg {
    /// One, from a completion to the doorbell
    Unified,
    /// Three: one fills a ring from the queues, a dispatcher serves it, one sends its answers
    Three,
}

pub(super) fn context() -> Result<Arc<DeviceContext>> {
    Driver::load()
        .and_then(|driver| driver.device(0)?.context())
        .context("--dispatcher device needs a GPU (`ringcall doctor` says what is missing)")
}

/// A ring that a device maps.
///
/// # Errors
/// There is no driver, no device, or no device that can map host memory.
pub(super) fn ring(config: RingConfig) -> Result<MappedRing> {
    MappedRing::allocate(&context()?, config).context("a ring that the GPU maps")
}

/// `rpc_increment` from the committed PTX, since decoders run on the host.
pub(super) fn served(context: &Arc<DeviceContext>) -> Result<(Functions, Modules)> {
    let handlers: Vec<_> = ringcall_kernels::samples::handlers::all()
        .into_iter()
        .filter(|handler| handler.name == names::RPC_INCREMENT)
        .collect();
    if handlers.is_empty() {
        bail!("the device handlers have no {}", names::RPC_INCREMENT);
    }
    let modules = Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, context)?;
    Ok((Functions::new().handlers(&handlers), modules))
}

pub(super) fn start(ring: &MappedRing) -> Result<DeviceDispatcher<Running>> {
    let (functions, modules) = served(ring.context())?;
    let options = DispatcherOptions::new(KernelKind::regular());
    Ok(DeviceDispatcher::wire(ring, functions, modules, options)?.start()?)
}

/// Relay-BP of a problem on a GPU, before it serves a ring.
pub(super) struct OnGpu {
    context: Arc<DeviceContext>,
    handler: GridHandler,
}

impl OnGpu {
    /// Puts the decoder on the device. Answers are results of `decode_syndrome`, as the CPU's are.
    ///
    /// # Errors
    /// The errors of [`on_gpu`]. The device cannot run the kernel.
    pub(super) fn open(problem: &Problem) -> Result<Self> {
        let relay = on_gpu(problem, Bounds { deadline: problem.deadline(), results_only: true })?;
        let handler = relay.handler().context("--engine relay")?;
        Ok(Self { context: Arc::clone(relay.context()), handler })
    }

    pub(super) fn slot_bytes(&self) -> u32 {
        self.handler.slot_bytes()
    }

    pub(super) fn ring(&self, config: RingConfig) -> Result<MappedRing> {
        MappedRing::allocate(&self.context, config).context("a ring that the GPU maps")
    }

    /// Starts the kernel. Returns also the flag that ends its decodes.
    pub(super) fn start(self, ring: &MappedRing) -> Result<(DeviceDispatcher<Running>, CancelFlag)> {
        let Self { handler, .. } = self;
        let functions = handler.function(Functions::new(), names::DECODE_SYNDROME);
        let modules = handler.modules(Modules::new());
        let dispatcher = DeviceDispatcher::wire(ring, functions, modules, handler.options());
        let dispatcher = dispatcher.and_then(DeviceDispatcher::start).context("--engine relay")?;
        Ok((dispatcher, handler.cancel_flag().clone()))
    }
}

/// Kernels that serve the queues of an adapter.
pub(super) enum Kernels {
    Unified(UnifiedDispatcher<UnifiedRunning>),
    Three(RelayDispatcher<RelayRunning>),
}

impl Kernels {
    pub(super) fn start(
        kernels: KernelsArg,
        pair: &QueuePair,
        functions: Functions,
        modules: Modules,
    ) -> Result<Self> {
        Ok(match kernels {
            KernelsArg::Unified => {
                let options = UnifiedOptions::default();
                Self::Unified(UnifiedDispatcher::wire(pair, functions, modules, options)?.start()?)
            }
            KernelsArg::Three => {
                let options = RelayOptions::default();
                Self::Three(RelayDispatcher::wire(pair, None, functions, modules, options)?.start()?)
            }
        })
    }

    pub(super) fn stats(&self) -> Arc<dyn LoopStats> {
        match self {
            Self::Unified(running) => Arc::new(KernelStats::Unified(running.watch())),
            Self::Three(running) => Arc::new(KernelStats::Three(running.watch())),
        }
    }

    /// Stops the kernels and returns their reports; `None` if they do not end.
    pub(super) fn stop(self, deadline: Duration) -> Option<WaitEnd> {
        let (stuck, dead) = match self {
            Self::Unified(running) => {
                let stopped = running.stop(deadline);
                (stopped.dispatcher.is_none(), stopped.report.dead)
            }
            Self::Three(running) => {
                let stopped = running.stop(deadline);
                (stopped.dispatcher.is_none(), stopped.report.dead)
            }
        };
        match (stuck, dead) {
            (true, _) => None,
            (false, Some(_)) => Some(WaitEnd::Dead),
            (false, None) => Some(WaitEnd::Stopped),
        }
    }
}

#[derive(Debug)]
enum KernelStats {
    Unified(UnifiedWatch),
    Three(RelayWatch),
}

impl LoopStats for KernelStats {
    fn event(&self, event: Event) -> u64 {
        match self {
            Self::Unified(watch) => watch.event(event),
            Self::Three(watch) => watch.event(event),
        }
    }

    fn counters(&self) -> Snapshot {
        match self {
            Self::Unified(watch) => watch.counters(),
            Self::Three(watch) => watch.counters(),
        }
    }
}

/// An emulated adapter on a socket, whose queues kernels serve.
pub(super) struct AdapterService {
    adapter: Adapter,
    kernels: Kernels,
}

/// The least time that a stop leaves to the kernels.
pub(super) const LEAST_STOP: Duration = Duration::from_millis(50);

/// Queues in memory that a device maps, kernels that serve them, and an adapter on a socket. With `by_context` the
/// queues come from the structs that the adapter hands out, as those of HSB or DOCA do.
pub(super) fn adapter(
    kernels: KernelsArg,
    port: PortOptions,
    peers: usize,
    by_context: bool,
    introductions: Option<Receiver<Introduction>>,
) -> Result<AdapterService> {
    let context = context()?;
    let slots = port.pages;
    let record = match kernels {
        KernelsArg::Unified => RecordMode::Written,
        // Two kernels work on the queue pair, but its doorbell record has one writer.
        KernelsArg::Three => RecordMode::NotWritten,
    };
    let entries = slots.next_power_of_two();
    // A peer may write a page as soon as it has the answer, before the page's request is posted again.
    let receives = entries * CREDITS_PER_SLOT;
    let config = Config {
        qpn: port.qp,
        slots,
        rx_stride: port.page_bytes,
        tx_stride: port.page_bytes,
        tx_lkey: TX_KEY,
        tx_base: 0,
        depth: receives,
        buffers: Buffers::Credits,
        sequence: false,
        reply: ResponsePath::Send,
        record,
    };
    let shape = Shape {
        config,
        receive: receives,
        send: entries,
        completions: receives,
        consumer_records: false,
        copying: Copying::FirstWordLast,
    };
    let queues = MappedQueues::allocate(&context, shape).context("queues that the GPU maps")?;
    let (functions, modules) = served(&context)?;
    let pair = if by_context { hsb::pair(&context, &queues, record)? } else { queues.pair().clone() };
    let kernels = Kernels::start(kernels, &pair, functions, modules)?;
    let memory = AdapterQueues { config, windows: queues.windows(), uar: queues.uar() };
    let options = SocketNicOptions { port, peers, ..SocketNicOptions::default() };
    let adapter = Adapter::start(options, &memory, introductions, kernels.stats())?;
    Ok(AdapterService { adapter, kernels })
}

/// The key by which the adapter reads answers.
const TX_KEY: u32 = 0x7478;

impl Served for AdapterService {
    fn endpoint(&self) -> TransportAddress {
        // The peer's protocol is RoCE.
        let mut details = self.adapter.options().port.details();
        details.push(("device", socket_nic::NAME.to_owned()));
        TransportAddress { transport: roce::NAME, address: SocketAddr::V4(self.adapter.address()), details }
    }

    fn counters(&self) -> ReadCounters {
        let watch = self.adapter.watch();
        Arc::new(move || {
            let counters = counters::dispatcher(&watch.counters());
            let counters = counters::queue_pair(watch.named()).chain(counters).collect();
            ServiceCounters { counters, ..ServiceCounters::default() }
        })
    }

    fn stop(self: Box<Self>, deadline: Duration) -> Outcome {
        let Self { adapter, kernels } = *self;
        let report = adapter.stop(deadline, |rest| kernels.stop(rest.max(LEAST_STOP)));
        Outcome::of_nic(&report)
    }
}
