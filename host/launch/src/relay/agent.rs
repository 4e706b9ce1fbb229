//! Receiver and sender: the two kernels around a ring's dispatcher.

use crate::queue_pair::{QueuePair, await_running, queue_params};
use crate::ring::{ActiveLaunch, Addresses, DeviceError, Halt, Kept, KernelKind, UnifiedLauncher};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, DeviceBuffer, Kernel, MappedRegion, Module, Stream, StreamState};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::ring::staging_bytes;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::WARP_LANES;
use ringcall_mlx5::Event;
use ringcall_wire::unified::{RelayParams, UnifiedParams, control};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Which of the two kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentKernel {
    /// From the queue pair into the ring.
    Receive,
    /// From the ring to the queue pair.
    Send,
}

impl AgentKernel {
    pub(super) const fn entry(self) -> &'static str {
        match self {
            Self::Receive => "ringcall_relay_receive",
            Self::Send => "ringcall_relay_send",
        }
    }
}

/// Memory that a kernel uses while it runs, and the part of it that the host reads.
#[derive(Debug)]
pub(super) struct Resources {
    context: Arc<Context>,
    control: Words,
    // Kept alive for the kernel.
    _control: MappedRegion,
    _stage: Option<DeviceBuffer>,
    /// `None`: the program's own.
    _module: Option<Module>,
    _owner: Arc<dyn Any + Send + Sync>,
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
}

/// A launched kernel and everything that it uses.
pub(super) type Launched = ActiveLaunch<Kept<Resources>>;

/// One of the two kernels.
#[derive(Debug)]
pub(super) struct Agent {
    resources: Arc<Resources>,
    launcher: Arc<UnifiedLauncher>,
    stream: Arc<Stream>,
}

/// A kernel's counters, in its control block.
#[derive(Debug, Clone)]
pub(super) struct Events(Words);

impl Events {
    pub(super) fn count(&self, event: Event) -> u64 {
        self.0.load(control::EVENTS + event as usize, Ordering::Acquire)
    }
}

/// Result of a wait for a kernel's end.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Waited {
    /// It has ended.
    Ended,
    /// It has failed.
    Failed(DeviceError),
    /// It still runs.
    Stuck,
}

impl Agent {
    /// Allocates the memory of `kernel`, which is loaded and moves requests or answers between `pair` and the ring at
    /// `ring`. The ring's request slots are those of `slots`.
    pub(super) fn new(
        kernel: AgentKernel,
        (loaded, module): (Kernel, Option<Module>),
        pair: &QueuePair,
        slots: &QueuePair,
        extent: Extent,
        ring: Addresses,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, DeviceError> {
        let context = &pair.context;
        let stream = Arc::new(Stream::new(context)?);
        let region = MappedRegion::zeroed(context, control::WORDS * 8)?;
        let staging = match kernel {
            AgentKernel::Receive => 0,
            AgentKernel::Send => staging_bytes(pair.config.tx_stride),
        };
        let in_shared = staging <= context.device().max_shared_per_block()?;
        let memory = if in_shared { None } else { Some(DeviceBuffer::zeroed(context, staging as usize)?) };
        let own = queue_params(pair, extent);
        let of_ring = queue_params(slots, extent);
        let params = RelayParams {
            queues: UnifiedParams {
                control: region.device_address(0)?.0,
                scratch: memory.as_ref().map_or(0, |buffer| buffer.address().0),
                staging_bytes: staging,
                slots: of_ring.slots,
                rx_data: of_ring.rx_data,
                rx_stride: of_ring.rx_stride,
                ..own
            },
            rx_flags: ring.rx_flags,
            tx_flags: ring.tx_flags,
            responses: ring.tx_data,
        };
        let kind = KernelKind::Regular { blocks: 1, warps: 1 };
        let shared = if in_shared { staging } else { 0 };
        let launcher = UnifiedLauncher::unified(
            context,
            loaded,
            kernel.entry(),
            kind,
            [WARP_LANES, shared],
            params.as_bytes(),
            &stream,
        )?;
        let resources = Resources {
            context: Arc::clone(context),
            control: region.words(0, control::WORDS)?,
            _control: region,
            _stage: memory,
            _module: module,
            _owner: owner,
        };
        Ok(Self { resources: Arc::new(resources), launcher: Arc::new(launcher), stream })
    }

    /// Refuses a queue pair in the error state.
    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        if self.read(control::DEAD) == 0 {
            return Ok(());
        }
        Err(DeviceError::Shape(
            "the queue pair is in the error state: make a new one, and a dispatcher for it".to_owned(),
        ))
    }

    /// Launches the kernel and waits until it polls.
    pub(super) fn launch(&self) -> Result<Launched, DeviceError> {
        let Self { resources, launcher, stream } = self;
        resources.control.store(control::STATE, control::STATE_NEW, Ordering::Relaxed);
        resources.stop(control::STOP_NO);
        let hold = resources.context.hold_frees();
        launcher.launch(stream)?;
        // From here on a drop treats the kernel as a running one.
        let launched = ActiveLaunch::new(resources, launcher, stream, hold);
        await_running(&resources.control, stream)?;
        Ok(launched)
    }

    pub(super) fn read(&self, word: usize) -> u64 {
        self.resources.read(word)
    }

    /// Whether the kernel has ended by itself, well or not. Never blocks.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.read(control::STATE), control::STATE_ENDED | control::STATE_FAILED)
            || matches!(self.stream.query(), StreamState::Failed(_))
    }

    pub(super) fn events(&self) -> Events {
        Events(self.resources.control.clone())
    }

    /// Tells the kernel to finish its work and end, after `hurry_after` to end at once, and waits for its end at most
    /// until `limit` after `begin`.
    pub(super) fn end(&self, begin: Instant, hurry_after: Duration, limit: Duration) -> Waited {
        self.resources.stop(control::STOP_DRAIN);
        let mut hurried = false;
        loop {
            if matches!(self.read(control::STATE), control::STATE_ENDED | control::STATE_FAILED) {
                // The kernel has written its last words, so the stream ends soon.
                return match self.stream.wait(LAST_TIMEOUT) {
                    Ok(()) => Waited::Ended,
                    Err(ringcall_cuda::CudaError::TimedOut(_)) => Waited::Stuck,
                    Err(error) => Waited::Failed(error.into()),
                };
            }
            if let StreamState::Failed(error) = self.stream.query() {
                return Waited::Failed(error.into());
            }
            let elapsed = begin.elapsed();
            if !hurried && elapsed > hurry_after {
                self.resources.stop(control::STOP_NOW);
                hurried = true;
            }
            if elapsed > limit {
                return Waited::Stuck;
            }
            std::thread::yield_now();
        }
    }
}

/// How long a stream may take from its kernel's last word to its end.
pub(super) const LAST_TIMEOUT: Duration = Duration::from_millis(10);
