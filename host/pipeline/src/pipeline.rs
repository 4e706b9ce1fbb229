//! The pipeline itself: built, started, stopped, started again.

use crate::config::StageConfig;
use crate::consumer::{CompletionHandler, IdExtender};
use crate::crew::{Crew, Kept, Stop};
use crate::error::{BoxError, PipelineError};
use crate::injector::Injector;
use crate::monitor::{Monitor, requests_of};
use crate::report::{Dump, StopReport};
use crate::stage::{Completion, CpuStage, Execution, WorkerResources};
use crate::state::{Phase, State};
use crate::stats::Stats;
use crate::worker::{Output, Worker};
use ringcall::dispatcher::Running as DispatcherRunning;
use ringcall::notice::NoticeBoard;
use ringcall::pin::PinReport;
use ringcall::ring::RingBases;
use ringcall::worker::{Lane, WorkerSpec};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring};
use std::sync::Arc;
use std::time::Duration;

type GpuFactory = Box<dyn FnMut(u32) -> Result<WorkerResources, BoxError> + Send>;
type CpuFactory = Box<dyn FnMut(u32) -> Result<Box<dyn CpuStage>, BoxError> + Send>;

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
        let kept = (handler, IdExtender::new(config.external_ids));
        let parts = Parts { config, gpu, cpu, kept };
        Ok(Pipeline { state: Arc::new(State::new(ring, None)), inner: Idle { parts } })
    }
}

/// What survives from one run to the next.
struct Parts {
    config: StageConfig,
    gpu: GpuFactory,
    cpu: Option<CpuFactory>,
    kept: Kept,
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
    /// Dropped without a stop it answers what is under way `SHUTTING_DOWN`.
    dispatcher: HostDispatcher<DispatcherRunning>,
    crew: Crew,
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
        let Parts { config, mut gpu, mut cpu, kept } = parts;
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

        let geometry = *state.ring.geometry();
        // Whatever fails from here on stops the threads that run already.
        let mut crew = Crew::new(&state, wait);
        for (port, (output, connect, output_bytes)) in dispatcher.ports().into_iter().zip(outputs) {
            let worker = port.worker();
            if let Some(connect) = connect {
                connect(port.signal());
            }
            let cpu = cpu.as_mut().map(|factory| factory(worker)).transpose();
            let cpu = cpu.map_err(PipelineError::of_factory("CPU", worker))?;
            let state = Arc::clone(&state);
            crew.worker(&config.cores, move |quit| {
                let worker = Worker {
                    port,
                    output,
                    cpu,
                    state,
                    quit,
                    wait,
                    payload: vec![0; geometry.request_capacity() as usize],
                    inferred: vec![0; output_bytes],
                    response: vec![0; geometry.result_capacity() as usize],
                };
                worker.run();
            })?;
        }
        crew.consumer(&config.cores, board, kept)?;
        let dispatcher = dispatcher.start()?;
        crew.pins.push(dispatcher.pin().clone());
        state.set_phase(Phase::Running);
        Ok(Pipeline { state, inner: Running { config, gpu, cpu, dispatcher, crew } })
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
        let resources = gpu(worker).map_err(PipelineError::of_factory("GPU", worker))?;
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

/// A stopped pipeline.
#[must_use]
pub struct Stopped {
    /// What the stop did.
    pub report: StopReport,
    /// The pipeline, ready to be started again; `None` if its dispatcher or its completion handler never came back.
    pub pipeline: Option<Pipeline<Idle>>,
}

impl Pipeline<Running> {
    /// The injector. One exists at a time.
    ///
    /// Returns `None` while another exists, and on an external ring, whose producer is somebody else.
    #[must_use]
    pub fn injector(&self) -> Option<Injector> {
        if self.state.ring.is_external() {
            return None;
        }
        Injector::new(Arc::clone(&self.state), self.inner.crew.wait, 1)
    }

    /// Exact counts, now. Lock-free.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.monitor().stats()
    }

    /// Something that reads the counts from another thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(&self.state, Some(self.inner.dispatcher.watch()))
    }

    /// Where each thread runs.
    #[must_use]
    pub fn pins(&self) -> &[PinReport] {
        &self.inner.crew.pins
    }

    /// Refuses new requests, waits until those under way are over, and stops all threads; at the deadline answers what
    /// is left `SHUTTING_DOWN`. Returns about a second after the deadline at the latest, whatever the stages do.
    pub fn stop(self, deadline: Duration) -> Stopped {
        let stop = Stop::begin(deadline);
        let Self { state, inner: Running { config, gpu, cpu, dispatcher, mut crew } } = self;
        crew.refuse(stop);
        let watch = dispatcher.watch();
        // Now: what the deadline gives up is answered, and its completion taken, before the dispatcher's stop returns.
        let under_way = requests_of(&state);
        let stopped = dispatcher.stop(stop.left());
        let unfinished = stopped.report.unfinished.clone().map(|slots| {
            let mut requests = under_way;
            requests.retain(|request| slots.slots.iter().any(|slot| slot.slot == request.slot));
            for request in &mut requests {
                request.age_us += u64::try_from(stop.begin.elapsed().as_micros()).unwrap_or(0);
            }
            Dump { requests, slots }
        });

        // Everything is answered now.
        let stuck_workers = crew.dismiss_workers(stop);
        crew.dismiss_consumer();
        let back = crew.await_consumer(stop);

        state.tally.absorb(&watch.counters());
        let report = StopReport {
            drained: stopped.report.drained,
            dropped: stopped.report.dropped,
            unfinished,
            stuck_workers,
            stuck_dispatcher: stopped.report.stuck,
            stuck_consumer: back.is_err(),
            stats: state.tally.snapshot(state.ring.is_external(), None),
            took: stop.begin.elapsed(),
        };
        let pipeline = match (stopped.dispatcher, back) {
            (Some(_), Ok(kept)) => {
                Some(Pipeline { state, inner: Idle { parts: Parts { config, gpu, cpu, kept } } })
            }
            _ => None,
        };
        Stopped { report, pipeline }
    }
}
