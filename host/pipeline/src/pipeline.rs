//! Life cycle of the pipeline: build, start, stop, restart.

use crate::config::StageConfig;
use crate::consumer::{CompletionHandler, IdExtender};
use crate::error::{BoxError, PipelineError};
use crate::injector::Injector;
use crate::monitor::{Monitor, requests_of};
use crate::report::{Dump, StopReport};
use crate::stage::{Completion, CpuStage, Execution, WorkerResources};
use crate::state::{Phase, State};
use crate::stats::Stats;
use crate::threads::{ConsumerState, Stop, ThreadSet};
use crate::worker::{Output, Worker};
use ringcall::completion_log::CompletionLog;
use ringcall::dispatcher::Running as DispatcherRunning;
use ringcall::pin::PinReport;
use ringcall::ring::RingBases;
use ringcall::worker::{Start, WorkerSpec};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring};
use std::sync::Arc;
use std::time::Duration;

type GpuFactory = Box<dyn FnMut(u32) -> Result<WorkerResources, BoxError> + Send>;
type CpuFactory = Box<dyn FnMut(u32) -> Result<Box<dyn CpuStage>, BoxError> + Send>;

/// Builds a [`Pipeline`].
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

    /// Serves a ring whose producer and consumer are outside this pipeline, such as a transport's. It has no injector then.
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

    /// Called by the consumer thread once for each completed request, with any status.
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
        let consumer_state = (handler, IdExtender::new(config.external_ids));
        let parts = Parts { config, gpu, cpu, consumer_state };
        Ok(Pipeline { state: Arc::new(State::new(ring, None)), inner: Idle { parts } })
    }
}

/// Everything that a restart keeps.
struct Parts {
    config: StageConfig,
    gpu: GpuFactory,
    cpu: Option<CpuFactory>,
    consumer_state: ConsumerState,
}

/// State of a pipeline that is not running.
pub struct Idle {
    parts: Parts,
}

/// State of a running pipeline.
pub struct Running {
    config: StageConfig,
    gpu: GpuFactory,
    cpu: Option<CpuFactory>,
    /// If dropped without a stop, it answers the requests in flight `SHUTTING_DOWN`.
    dispatcher: HostDispatcher<DispatcherRunning>,
    threads: ThreadSet,
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
    /// A builder with the default shape.
    pub fn builder() -> PipelineBuilder {
        PipelineBuilder {
            config: StageConfig::default(),
            external: None,
            gpu: None,
            cpu: None,
            handler: Box::new(|_| ()),
        }
    }

    /// Calls the factories for each worker and starts all threads.
    ///
    /// # Errors
    /// A factory's error, a table that cannot be, or no thread. Threads started before the failure are stopped.
    pub fn start(self) -> Result<Pipeline<Running>, PipelineError> {
        let Self { state, inner: Idle { parts } } = self;
        let Parts { config, mut gpu, mut cpu, consumer_state } = parts;
        let threads = config.workers as usize + 3; // dispatcher, consumer, producer
        let wait = config.wait.resolve(threads);

        let log = state.ring.is_external().then(|| CompletionLog::new(state.ring.geometry()));
        let (table, specs, outputs) = wire_workers(&state, &config, &mut gpu)?;
        let options =
            HostOptions { wait, core: config.cores.dispatcher, request_timeout: config.request_timeout };
        let mut builder = HostDispatcher::builder(&state.ring, table).options(options);
        for spec in specs {
            builder = builder.worker(spec);
        }
        if let Some(log) = &log {
            builder = builder.completion_log(log.clone());
        }
        let dispatcher = builder.build()?;

        let geometry = *state.ring.geometry();
        // An error from here on stops the threads that were started before it.
        let mut threads = ThreadSet::new(&state, wait);
        for (port, (output, connect, output_bytes)) in dispatcher.ports().into_iter().zip(outputs) {
            let worker = port.worker();
            if let Some(connect) = connect {
                connect(port.signal());
            }
            let cpu = cpu.as_mut().map(|factory| factory(worker)).transpose();
            let cpu = cpu.map_err(PipelineError::of_factory("CPU", worker))?;
            let state = Arc::clone(&state);
            threads.worker(&config.cores, move |stop| {
                let worker = Worker {
                    port,
                    output,
                    cpu,
                    state,
                    stop,
                    wait,
                    payload: vec![0; geometry.request_capacity() as usize],
                    inferred: vec![0; output_bytes],
                    response: vec![0; geometry.result_capacity() as usize],
                };
                worker.run();
            })?;
        }
        threads.consumer(&config.cores, log, consumer_state)?;
        let dispatcher = dispatcher.start()?;
        threads.pins.push(dispatcher.pin().clone());
        state.set_phase(Phase::Running);
        Ok(Pipeline { state, inner: Running { config, gpu, cpu, dispatcher, threads } })
    }
}

type Connect = Option<Box<dyn FnOnce(ringcall::worker::ReadySignal) + Send>>;
type Wiring = (FunctionTable, Vec<WorkerSpec>, Vec<(Output, Connect, usize)>);

/// Calls the inference factory for each worker and registers the workers' functions in a table.
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
        let (start, output, connect, output_bytes): (_, _, Connect, _) = match execution {
            Execution::Inline(stage) => (Start::Mailbox, Output::Inline(stage), None, output_bytes),
            Execution::Launched { launcher, connect, output } => {
                let bytes = output_bytes.min(output.len());
                (Start::Launch(launcher), Output::Mapped(output), Some(connect), bytes)
            }
        };
        specs.push(WorkerSpec { function: FunctionId::of(&function), start, pre_launch, post_launch });
        outputs.push((output, connect, output_bytes));
    }
    Ok((table.build(&state.ring)?, specs, outputs))
}

/// A stopped pipeline.
#[must_use]
pub struct Stopped {
    /// What the stop did.
    pub report: StopReport,
    /// The pipeline, ready to start again. `None` if the dispatcher or the completion handler did not return.
    pub pipeline: Option<Pipeline<Idle>>,
}

impl Pipeline<Running> {
    /// The injector. One exists at a time.
    ///
    /// Returns `None` while another exists, and on an external ring, which has its own producer.
    #[must_use]
    pub fn injector(&self) -> Option<Injector> {
        if self.state.ring.is_external() {
            return None;
        }
        Injector::new(Arc::clone(&self.state), self.inner.threads.wait, 1)
    }

    /// Exact counts at this moment. Lock-free.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.monitor().stats()
    }

    /// A handle that reads the counts from another thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(&self.state, Some(self.inner.dispatcher.watch()))
    }

    /// The core that each thread runs on.
    #[must_use]
    pub fn pins(&self) -> &[PinReport] {
        &self.inner.threads.pins
    }

    /// Refuses new requests, waits for those in flight, and stops all threads. At the deadline it answers the remaining
    /// requests `SHUTTING_DOWN`. It returns at most about a second after the deadline, even if a stage never returns.
    pub fn stop(self, deadline: Duration) -> Stopped {
        let stop = Stop::begin(deadline);
        let Self { state, inner: Running { config, gpu, cpu, dispatcher, mut threads } } = self;
        threads.refuse(stop);
        let watch = dispatcher.watch();
        // Read them now: the dispatcher's stop answers the requests that it gives up, and the consumer completes those
        // before it returns.
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
        let stuck_workers = threads.stop_workers(stop);
        threads.stop_consumer();
        let back = threads.join_consumer(stop);

        state.counters.absorb(&watch.counters());
        let report = StopReport {
            drained: stopped.report.drained,
            dropped: stopped.report.dropped,
            unfinished,
            stuck_workers,
            stuck_dispatcher: stopped.report.stuck,
            stuck_consumer: back.is_err(),
            stats: state.counters.snapshot(state.ring.is_external(), None),
            took: stop.begin.elapsed(),
        };
        let pipeline = match (stopped.dispatcher, back) {
            (Some(_), Ok(consumer_state)) => {
                Some(Pipeline { state, inner: Idle { parts: Parts { config, gpu, cpu, consumer_state } } })
            }
            _ => None,
        };
        Stopped { report, pipeline }
    }
}
