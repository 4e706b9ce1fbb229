//! The pipeline itself: built, started, stopped, started again.

use crate::config::StageConfig;
use crate::consumer::{CompletionHandler, Consumer, IdExtender};
use crate::injector::Injector;
use crate::report::{Dump, StopReport, StuckRequest};
use crate::stage::{Completion, CpuStage, Execution, WorkerResources};
use crate::state::{Phase, State};
use crate::stats::Stats;
use crate::worker::{Output, Worker};
use ringcall::dispatcher::{DispatcherError, Running as DispatcherRunning, SlotDump, Watch};
use ringcall::notice::NoticeBoard;
use ringcall::pin::{PinReport, pin_current};
use ringcall::ring::{RingBases, RingError};
use ringcall::table::TableError;
use ringcall::worker::{Lane, WorkerSpec};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, Wait};
use ringcall_dispatch::SlotIndex;
use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An error of the user's own, from a factory.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
type GpuFactory = Box<dyn FnMut(u32) -> Result<WorkerResources, BoxError> + Send>;
type CpuFactory = Box<dyn FnMut(u32) -> Result<Box<dyn CpuStage>, BoxError> + Send>;

/// Why a pipeline cannot be built or started.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// No GPU-stage factory.
    #[error("no inference stage: call `gpu_stage` before `build`")]
    NoGpuStage,
    /// No CPU-stage factory, behind a dispatcher elsewhere.
    #[error("no CPU stage: call `stage` before `build`")]
    NoCpuStage,
    /// A dispatcher elsewhere does not start.
    #[error("the dispatcher does not start: {0}")]
    Remote(BoxError),
    /// No workers.
    #[error("a pipeline needs at least one worker")]
    NoWorkers,
    /// A dispatcher elsewhere that serves its ring in parts which it does not divide into.
    #[error("a ring of {slots} slots does not divide into {parts} parts")]
    Parts {
        /// Of the ring.
        slots: u32,
        /// As the dispatcher says.
        parts: u32,
    },
    /// The ring cannot be made.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A factory failed.
    #[error("the {stage} stage of worker {worker} could not be made: {source}")]
    Factory {
        /// Which factory.
        stage: &'static str,
        /// For which worker.
        worker: u32,
        /// What it said.
        source: BoxError,
    },
    /// Two workers give one function different schemas.
    #[error("worker {worker} gives `{function}` another schema than an earlier worker")]
    Schemas {
        /// The worker.
        worker: u32,
        /// The function.
        function: String,
    },
    /// The functions do not make a table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The dispatcher cannot be made.
    #[error(transparent)]
    Dispatcher(#[from] DispatcherError),
    /// The operating system refused a thread.
    #[error("no thread for {0}: {1}")]
    Thread(String, std::io::Error),
}

/// A pipeline being put together.
#[must_use]
pub struct PipelineBuilder {
    config: StageConfig,
    external: Option<Ring>,
    gpu: Option<GpuFactory>,
    cpu: Option<CpuFactory>,
    handler: CompletionHandler,
}

impl PipelineBuilder {
    /// The shape; [`StageConfig::default`] otherwise.
    pub fn config(mut self, config: StageConfig) -> Self {
        self.config = config;
        self
    }

    /// A ring whose producer and consumer are somebody else's. There is no injector then.
    pub fn external_ring(mut self, ring: Ring) -> Self {
        self.external = Some(ring);
        self
    }

    /// The inference stage: called once per worker at each start.
    pub fn gpu_stage(
        mut self,
        factory: impl FnMut(u32) -> Result<WorkerResources, BoxError> + Send + 'static,
    ) -> Self {
        self.gpu = Some(Box::new(factory));
        self
    }

    /// The CPU stage: called once per worker at each start. Without one the inference output is the answer.
    pub fn cpu_stage(
        mut self,
        factory: impl FnMut(u32) -> Result<Box<dyn CpuStage>, BoxError> + Send + 'static,
    ) -> Self {
        self.cpu = Some(Box::new(factory));
        self
    }

    /// Called by the consumer thread once for each request that is over, whatever its status.
    pub fn on_completion(mut self, handler: impl FnMut(&Completion<'_>) + Send + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Allocates the ring (or binds the external one).
    ///
    /// # Errors
    /// No inference stage, no workers, or no ring.
    pub fn build(self) -> Result<Pipeline<Idle>, PipelineError> {
        let Self { config, external, gpu, cpu, handler } = self;
        let gpu = gpu.ok_or(PipelineError::NoGpuStage)?;
        if config.workers == 0 {
            return Err(PipelineError::NoWorkers);
        }
        let ring = match external {
            Some(ring) => ring,
            None => Ring::allocate(config.ring)?,
        };
        let ids = IdExtender::new(config.external_ids);
        let parts = Parts { config, gpu, cpu, handler, ids };
        Ok(Pipeline { state: Arc::new(State::new(ring, None)), inner: Idle { parts } })
    }
}

/// What survives from one run to the next.
struct Parts {
    config: StageConfig,
    gpu: GpuFactory,
    cpu: Option<CpuFactory>,
    handler: CompletionHandler,
    ids: IdExtender,
}

/// Not running.
pub struct Idle {
    parts: Parts,
}

/// Running.
pub struct Running {
    config: StageConfig,
    gpu: GpuFactory,
    cpu: Option<CpuFactory>,
    dispatcher: HostDispatcher<DispatcherRunning>,
    workers: Vec<JoinHandle<()>>,
    worker_quit: Arc<DeviceU64>,
    consumer: mpsc::Receiver<(CompletionHandler, IdExtender)>,
    consumer_quit: Arc<DeviceU64>,
    pins: Vec<PinReport>,
    guard: QuitOnDrop,
}

/// A running pipeline that is dropped without a stop refuses submissions and lets its threads end, as soon as the stages
/// let them; its dispatcher answers what is under way `SHUTTING_DOWN`. After a stop this changes nothing.
pub(crate) struct QuitOnDrop {
    pub(crate) state: Arc<State>,
    pub(crate) flags: [Arc<DeviceU64>; 2],
}

impl Drop for QuitOnDrop {
    fn drop(&mut self) {
        self.state.set_phase(Phase::Stopped);
        for flag in &self.flags {
            flag.store(1, Ordering::Release);
        }
    }
}

/// The real-time pipeline, idle or running. See the [crate's documentation](crate).
#[must_use]
pub struct Pipeline<S = Idle> {
    state: Arc<State>,
    inner: S,
}

impl<S> std::fmt::Debug for Pipeline<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<S> Pipeline<S> {
    /// Base addresses of the ring's request data. Known before the first start.
    #[must_use]
    pub fn ring_bases(&self) -> RingBases {
        self.state.ring.bases()
    }

    /// The ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.state.ring
    }
}

impl Pipeline<Idle> {
    /// A pipeline to put together.
    pub fn builder() -> PipelineBuilder {
        PipelineBuilder {
            config: StageConfig::default(),
            external: None,
            gpu: None,
            cpu: None,
            handler: Box::new(|_| ()),
        }
    }

    /// Makes every worker's resources and starts all threads.
    ///
    /// # Errors
    /// A factory's error, a table that cannot be, or no thread. Threads started before the failure are stopped.
    pub fn start(self) -> Result<Pipeline<Running>, PipelineError> {
        let Self { state, inner: Idle { parts } } = self;
        let Parts { config, mut gpu, mut cpu, handler, ids } = parts;
        let threads = config.workers as usize + 3; // dispatcher, consumer, producer
        let wait = config.wait.resolve(threads);

        let board = state.ring.is_external().then(|| NoticeBoard::new(state.ring.geometry()));
        let (table, specs, outputs) = wire_workers(&state, &config, &mut gpu)?;
        let options =
            HostOptions { wait, core: config.cores.dispatcher, request_timeout: config.request_timeout };
        let mut builder = HostDispatcher::builder(&state.ring, table).options(options);
        for spec in specs {
            builder = builder.worker(spec);
        }
        if let Some(board) = &board {
            builder = builder.notices(board.clone());
        }
        let dispatcher = builder.build()?;

        let mut pins = Vec::new();
        let worker_quit = Arc::new(DeviceU64::new(0));
        let consumer_quit = Arc::new(DeviceU64::new(0));
        let mut workers = Vec::new();
        let geometry = *state.ring.geometry();
        // Whatever fails from here on stops the threads that run already.
        let started = (|| {
            for (port, (output, connect, output_bytes)) in dispatcher.ports().into_iter().zip(outputs) {
                let worker = port.worker();
                if let Some(connect) = connect {
                    connect(port.signal());
                }
                let cpu = match &mut cpu {
                    Some(factory) => Some(factory(worker).map_err(|source| PipelineError::Factory {
                        stage: "CPU",
                        worker,
                        source,
                    })?),
                    None => None,
                };
                let thread = Worker {
                    port,
                    output,
                    cpu,
                    state: Arc::clone(&state),
                    quit: Arc::clone(&worker_quit),
                    wait,
                    payload: vec![0; geometry.request_capacity() as usize],
                    inferred: vec![0; output_bytes],
                    response: vec![0; geometry.result_capacity() as usize],
                };
                let core = config.cores.worker_base.map(|base| base + worker as usize);
                let (handle, pin) = spawn(format!("worker {worker}"), core, move || thread.run())?;
                workers.push(handle);
                pins.push(pin);
            }
            let consumer = Consumer {
                state: Arc::clone(&state),
                handler,
                quit: Arc::clone(&consumer_quit),
                wait,
                board,
                ids,
                result: vec![0; geometry.result_capacity() as usize],
            };
            let (give_back, consumer_done) = mpsc::channel();
            let (_, pin) = spawn("consumer".to_owned(), config.cores.consumer, move || {
                let _ = give_back.send(consumer.run());
            })?;
            pins.push(pin);
            let dispatcher = dispatcher.start()?;
            pins.push(dispatcher.pin().clone());
            Ok((dispatcher, consumer_done))
        })();
        match started {
            Ok((dispatcher, consumer)) => {
                state.set_phase(Phase::Running);
                let flags = [Arc::clone(&worker_quit), Arc::clone(&consumer_quit)];
                let inner = Running {
                    guard: QuitOnDrop { state: Arc::clone(&state), flags },
                    config,
                    gpu,
                    cpu,
                    dispatcher,
                    workers,
                    worker_quit,
                    consumer,
                    consumer_quit,
                    pins,
                };
                Ok(Pipeline { state, inner })
            }
            Err(error) => {
                worker_quit.store(1, Ordering::Relaxed);
                consumer_quit.store(1, Ordering::Release);
                Err(error)
            }
        }
    }
}

type Connect = Option<Box<dyn FnOnce(ringcall::worker::ReadySignal) + Send>>;
type Wiring = (FunctionTable, Vec<WorkerSpec>, Vec<(Output, Connect, usize)>);

/// Asks the factory for each worker's resources and enters their functions into a table.
fn wire_workers(state: &State, config: &StageConfig, gpu: &mut GpuFactory) -> Result<Wiring, PipelineError> {
    let mut table = FunctionTable::builder();
    let mut known: Vec<(String, ringcall::wire::schema::HandlerSchema)> = Vec::new();
    let (mut specs, mut outputs) = (Vec::new(), Vec::new());
    for worker in 0..config.workers {
        let resources =
            gpu(worker).map_err(|source| PipelineError::Factory { stage: "GPU", worker, source })?;
        let WorkerResources { function, schema, execution, pre_launch, post_launch, output_bytes } =
            resources;
        match known.iter().find(|(name, _)| *name == function) {
            Some((_, earlier)) if *earlier != schema => {
                return Err(PipelineError::Schemas { worker, function });
            }
            Some(_) => (),
            None => {
                table = table.worker_call(&function, schema);
                known.push((function.clone(), schema));
            }
        }
        let (lane, output, connect, output_bytes): (_, _, Connect, _) = match execution {
            Execution::Inline(stage) => (Lane::Mailbox, Output::Inline(stage), None, output_bytes),
            Execution::Launched { launcher, connect, output } => {
                let bytes = output_bytes.min(output.len());
                (Lane::Launch(launcher), Output::Mapped(output), Some(connect), bytes)
            }
        };
        specs.push(WorkerSpec { function: FunctionId::of(&function), lane, pre_launch, post_launch });
        outputs.push((output, connect, output_bytes));
    }
    Ok((table.build(&state.ring)?, specs, outputs))
}

/// A named thread, pinned before it does anything.
pub(crate) fn spawn(
    name: String,
    core: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> Result<(JoinHandle<()>, PinReport), PipelineError> {
    let (pinned, pin) = mpsc::channel();
    let label = name.clone();
    let handle = std::thread::Builder::new()
        .name(format!("ringcall-{}", name.replace(' ', "-")))
        .spawn(move || {
            let _ = pinned.send(pin_current(&label, core));
            body();
        })
        .map_err(|e| PipelineError::Thread(name.clone(), e))?;
    let pin = pin.recv().map_err(|e| PipelineError::Thread(name, std::io::Error::other(e)))?;
    Ok((handle, pin))
}

/// A stopped pipeline.
#[must_use]
pub struct Stopped {
    /// What the stop did.
    pub report: StopReport,
    /// The pipeline, ready to be started again; `None` if its dispatcher or its completion handler never came back.
    pub pipeline: Option<Pipeline<Idle>>,
}

/// How long after the deadline a stop waits for threads that have only to look at a flag.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

impl Pipeline<Running> {
    /// The injector. One exists at a time.
    ///
    /// Returns `None` while another exists, and on an external ring, whose producer is somebody else.
    #[must_use]
    pub fn injector(&self) -> Option<Injector> {
        if self.state.ring.is_external() {
            return None;
        }
        Injector::new(Arc::clone(&self.state), self.wait(), 1)
    }

    /// Exact counts, now. Lock-free.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.monitor().stats()
    }

    /// Something that reads the counts from another thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        let run = self.state.tally.run();
        Monitor { state: Arc::clone(&self.state), watch: Some(self.inner.dispatcher.watch()), run }
    }

    /// Where each thread runs.
    #[must_use]
    pub fn pins(&self) -> &[PinReport] {
        &self.inner.pins
    }

    fn wait(&self) -> Wait {
        self.inner.config.wait.resolve(self.inner.config.workers as usize + 3)
    }

    /// Refuses new requests, waits until those under way are over, and stops all threads; at the deadline answers what
    /// is left `SHUTTING_DOWN`. Returns about a second after the deadline at the latest, whatever the stages do.
    pub fn stop(self, deadline: Duration) -> Stopped {
        let begin = Instant::now();
        let Self { state, inner } = self;
        let Running {
            config,
            gpu,
            cpu,
            dispatcher,
            workers,
            worker_quit,
            consumer,
            consumer_quit,
            guard: _guard,
            ..
        } = inner;
        state.set_phase(Phase::Stopped);
        // A submission that had seen the pipeline running is let through to its end: then nothing more comes.
        // Whatever the deadline: it has only stores to do.
        while state.is_submitting() && begin.elapsed() < deadline.max(GRACE) {
            std::thread::yield_now();
        }
        let watch = dispatcher.watch();
        // Now: what the deadline gives up is answered, and its completion taken, before the dispatcher's stop returns.
        let under_way = requests_of(&state);
        let left = deadline.saturating_sub(begin.elapsed());
        let stopped = dispatcher.stop(left);
        let unfinished = stopped.report.unfinished.clone().map(|slots| {
            let mut requests = under_way;
            requests.retain(|request| slots.slots.iter().any(|slot| slot.slot == request.slot));
            for request in &mut requests {
                request.age_us += u64::try_from(begin.elapsed().as_micros()).unwrap_or(0);
            }
            Dump { requests, slots }
        });

        // Everything is answered now. Workers have only to see the flag, unless a stage never returns.
        worker_quit.store(1, Ordering::Relaxed);
        let patience = Instant::now() + GRACE.max(deadline.saturating_sub(begin.elapsed()) / 2);
        let stuck_workers = join_until(workers, patience);
        consumer_quit.store(1, Ordering::Release);
        let back = consumer.recv_timeout(GRACE.max(deadline.saturating_sub(begin.elapsed())));

        state.tally.absorb(&watch.counters());
        let report = StopReport {
            drained: stopped.report.drained,
            dropped: stopped.report.dropped,
            unfinished,
            stuck_workers,
            stuck_dispatcher: stopped.report.stuck,
            stuck_consumer: back.is_err(),
            stats: state.tally.snapshot(state.ring.is_external(), None),
            took: begin.elapsed(),
        };
        let pipeline = match (stopped.dispatcher, back) {
            (Some(_), Ok((handler, ids))) => {
                let parts = Parts { config, gpu, cpu, handler, ids };
                Some(Pipeline { state, inner: Idle { parts } })
            }
            _ => None,
        };
        Stopped { report, pipeline }
    }
}

/// Joins threads that have only to look at a flag; the numbers of those that had not ended by then. These are left behind:
/// each holds its own handles, and can answer nothing.
pub(crate) fn join_until(threads: Vec<JoinHandle<()>>, patience: Instant) -> Vec<u32> {
    let stuck = |(number, handle): (usize, JoinHandle<()>)| {
        while !handle.is_finished() {
            if Instant::now() > patience {
                return Some(number as u32);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let _ = handle.join();
        None
    };
    threads.into_iter().enumerate().filter_map(stuck).collect()
}

/// The injector's requests that are not over.
pub(crate) fn requests_of(state: &State) -> Vec<StuckRequest> {
    let now = ringcall_gpu::clock::now_ns();
    let booked = |slot: SlotIndex| {
        let booked = state.book().look(slot)?;
        let age_us = now.saturating_sub(booked.submitted_ns) / 1000;
        Some(StuckRequest { slot: slot.get(), request_id: booked.request_id, age_us })
    };
    state.ring.geometry().iter().filter_map(booked).collect()
}

/// Reads a running pipeline's counts and slots from any thread.
#[derive(Debug, Clone)]
pub struct Monitor {
    pub(crate) state: Arc<State>,
    /// None where the dispatcher is elsewhere.
    pub(crate) watch: Option<Watch>,
    /// The run this monitor was made in.
    pub(crate) run: u64,
}

impl Monitor {
    /// Exact counts, now. After the run this monitor was made in, what the dispatchers of later runs count shows once
    /// those are over.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = &self.state;
        let counters = || match (&self.watch, &state.remote) {
            (Some(watch), _) => watch.counters(),
            (None, Some(desks)) => desks.counters(),
            (None, None) => ringcall::dispatcher::Snapshot::default(),
        };
        state.tally.snapshot(state.ring.is_external(), Some((self.run, &counters)))
    }

    /// Every request that is not over, every slot that is not idle, every worker.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let slots = match (&self.watch, &self.state.remote) {
            (Some(watch), _) => watch.dump(),
            (None, Some(desks)) => desks.dump(),
            (None, None) => SlotDump::default(),
        };
        Dump { requests: requests_of(&self.state), slots }
    }
}
