//! Life cycle of the pipeline: build, start, stop, restart.

use crate::config::StageConfig;
use crate::consumer::{CompletionHandler, IdExtender};
use crate::dispatch::Dispatch;
use crate::error::{BoxError, PipelineError};
use crate::host::{CpuFactory, GpuFactory, HostDispatch, Parts};
use crate::injector::Injector;
use crate::monitor::Monitor;
use crate::report::PipelineStopReport;
use crate::stage::{CompletedRequest, CpuStage, WorkerResources};
use crate::state::{Phase, State};
use crate::stats::Stats;
use crate::threads::{ConsumerState, Stop, ThreadSet};
use ringcall::Ring;
use ringcall::pin::PinReport;
use ringcall::ring::RingBases;
use std::sync::Arc;
use std::time::Duration;

/// Builds a [`Pipeline`] whose dispatcher and workers are threads of this process.
#[must_use]
pub struct PipelineBuilder {
    config: StageConfig,
    ring: Option<Ring>,
    gpu: Option<GpuFactory>,
    cpu: Option<CpuFactory>,
    handler: CompletionHandler,
}

impl PipelineBuilder {
    /// Sets the shape; without this call, [`StageConfig::default`].
    pub fn config(mut self, config: StageConfig) -> Self {
        self.config = config;
        self
    }

    /// Serves this ring instead of allocating one. A ring of [`Ring::external`] has a producer and a consumer outside this
    /// pipeline, such as a transport's, and so no injector.
    pub fn ring(mut self, ring: Ring) -> Self {
        self.ring = Some(ring);
        self
    }

    /// Sets the factory of inference stages, called once per worker at each start.
    pub fn gpu_stage(
        mut self,
        factory: impl FnMut(u32) -> Result<WorkerResources, BoxError> + Send + 'static,
    ) -> Self {
        self.gpu = Some(Box::new(factory));
        self
    }

    /// Sets the factory of CPU stages, called once per worker at each start. Without a CPU stage the inference output is the
    /// answer.
    pub fn cpu_stage(
        mut self,
        factory: impl FnMut(u32) -> Result<Box<dyn CpuStage>, BoxError> + Send + 'static,
    ) -> Self {
        self.cpu = Some(Box::new(factory));
        self
    }

    /// Sets the completion handler. The consumer thread calls it once for each completed request, whatever the status.
    pub fn on_completion(mut self, handler: impl FnMut(&CompletedRequest<'_>) + Send + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Allocates the ring, unless one was given.
    ///
    /// # Errors
    /// No inference stage, no workers, or no ring.
    pub fn build(self) -> Result<Pipeline<IdlePipeline>, PipelineError> {
        let (state, config, dispatch, consumer_state) = self.parts()?;
        Ok(Pipeline::new(state, IdlePipeline { config, dispatch: Box::new(dispatch), consumer_state }))
    }

    pub(crate) fn parts(self) -> Result<Parts, PipelineError> {
        let Self { config, ring, gpu, cpu, handler } = self;
        let gpu = gpu.ok_or(PipelineError::NoGpuStage)?;
        if config.workers == 0 {
            return Err(PipelineError::NoWorkers);
        }
        let ring = match ring {
            Some(ring) => ring,
            None => Ring::allocate(config.ring)?,
        };
        let consumer_state = (handler, IdExtender::new(config.external_ids));
        Ok((State::new(ring, None), config, HostDispatch { gpu, cpu, running: None }, consumer_state))
    }
}

/// State of a pipeline that is not running.
pub struct IdlePipeline {
    pub(crate) config: StageConfig,
    pub(crate) dispatch: Box<dyn Dispatch>,
    pub(crate) consumer_state: ConsumerState,
}

/// State of a running pipeline.
pub struct RunningPipeline {
    config: StageConfig,
    dispatch: Box<dyn Dispatch>,
    threads: ThreadSet,
}

/// The real-time pipeline, idle or running. See the [crate's documentation](crate).
#[must_use]
pub struct Pipeline<S = IdlePipeline> {
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
        self.ring().bases()
    }

    /// The ring that requests are written into.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        self.state.requests()
    }
}

impl Pipeline<IdlePipeline> {
    pub(crate) fn new(state: State, inner: IdlePipeline) -> Self {
        Self { state: Arc::new(state), inner }
    }

    /// A builder with the default shape.
    pub fn builder() -> PipelineBuilder {
        PipelineBuilder {
            config: StageConfig::default(),
            ring: None,
            gpu: None,
            cpu: None,
            handler: Box::new(|_| ()),
        }
    }

    /// Calls the factories for each worker and starts all threads.
    ///
    /// # Errors
    /// A factory's error, functions that do not make a table, no thread, or a remote dispatcher's own error. Threads started
    /// before the failure are stopped.
    pub fn start(self) -> Result<Pipeline<RunningPipeline>, PipelineError> {
        let Self { state, inner: IdlePipeline { config, mut dispatch, consumer_state } } = self;
        let pollers = config.workers as usize + 2 + dispatch.polling_threads(); // consumer, producer
        // An error from here on stops the threads that were started before it.
        let mut threads = ThreadSet::new(&state, config.wait.resolve(pollers));
        dispatch.start(&state, &config, &mut threads, consumer_state)?;
        state.set_phase(Phase::Running);
        Ok(Pipeline { state, inner: RunningPipeline { config, dispatch, threads } })
    }
}

/// A stopped pipeline.
#[must_use]
pub struct StoppedPipeline {
    /// The report of the stop.
    pub report: PipelineStopReport,
    /// Why a remote dispatcher was lost or failed to stop.
    pub failure: Option<String>,
    /// Malformed responses of a remote dispatcher, and responses with another request's id, over the pipeline's life.
    pub garbage: u64,
    /// The pipeline, ready to start again. `None` if the dispatcher or the completion handler did not return, or if a remote
    /// dispatcher failed.
    pub pipeline: Option<Pipeline<IdlePipeline>>,
}

impl StoppedPipeline {
    /// A stage answered every submitted request, every thread ended, and the dispatcher did not fail.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.failure.is_none()
    }
}

impl Pipeline<RunningPipeline> {
    /// The injector. One exists at a time.
    ///
    /// Returns `None` while another exists, and on an external ring, which has its own producer.
    #[must_use]
    pub fn injector(&self) -> Option<Injector> {
        if self.state.ring.is_external() {
            return None;
        }
        Injector::new(Arc::clone(&self.state), self.inner.threads.wait, self.inner.dispatch.parts())
    }

    /// Exact counts at this moment. Lock-free.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.monitor().stats()
    }

    /// A handle that reads the counts from another thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(&self.state, self.inner.dispatch.watch())
    }

    /// The core that each thread runs on.
    #[must_use]
    pub fn pins(&self) -> &[PinReport] {
        &self.inner.threads.pins
    }

    /// Refuses new requests, waits for those in flight, and stops the dispatcher and all threads. At the deadline it answers the
    /// remaining requests `SHUTTING_DOWN`. It returns at most about a second after the deadline, even if a stage never returns;
    /// two seconds with a remote dispatcher, provided that its [`stop`](crate::remote::RemoteDispatcher::stop) observes the deadline.
    pub fn stop(self, deadline: Duration) -> StoppedPipeline {
        let stop = Stop::begin(deadline);
        let monitor = self.monitor();
        let Self { state, inner: RunningPipeline { config, mut dispatch, mut threads } } = self;
        threads.refuse(stop);
        let drained = dispatch.stop(&state, &mut threads, stop);
        let consumer = threads.join_consumer(stop);
        let report = PipelineStopReport {
            drained: drained.drained,
            dropped: drained.dropped,
            unfinished: drained.unfinished,
            stuck_workers: drained.stuck_workers,
            stuck_dispatcher: drained.stuck_dispatcher,
            stuck_consumer: consumer.is_err(),
            stats: monitor.stats(),
            took: stop.begin.elapsed(),
        };
        let pipeline = consumer.ok().filter(|_| drained.can_restart).map(|consumer_state| Pipeline {
            state,
            inner: IdlePipeline { config, dispatch, consumer_state },
        });
        StoppedPipeline { report, failure: drained.failure, garbage: drained.garbage, pipeline }
    }
}
