//! A pipeline without threads: its caller lets dispatcher, workers and consumer act, in any order.

use crate::config::StageConfig;
use crate::consumer::Consumer;
use crate::error::PipelineError;
use crate::host::{HostDispatch, Wired};
use crate::injector::Injector;
use crate::monitor::Monitor;
use crate::pipeline::PipelineBuilder;
use crate::state::{Phase, State};
use crate::stats::Stats;
use crate::worker::{Turn, Worker};
use ringcall::dispatcher::{DispatchStep, Stepped};
use ringcall::thread::StopFlag;
use ringcall::{HostDispatcher, Wait};
use std::sync::Arc;
use std::time::Duration;

/// A [`Pipeline`](crate::Pipeline) that acts one turn at a time on the caller's thread, for simulations and for
/// programs whose threads do other work between turns. A stage that returns
/// [`NotReady`](crate::StageOutcome::NotReady) is called again at its worker's next turn.
///
/// ```
/// use ringcall::wire::schema::HandlerSchema;
/// use ringcall_pipeline::{Pipeline, RequestView, StageConfig, WorkerResources};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let (done, completions) = mpsc::channel();
/// let mut pipeline = Pipeline::builder()
///     .config(StageConfig { workers: 1, ..StageConfig::default() })
///     .gpu_stage(|_| {
///         Ok(WorkerResources::inline("length", HandlerSchema::new(), 8, |request: RequestView<'_>, output: &mut [u8]| {
///             output[0] = request.payload.len() as u8;
///             Ok(1)
///         }))
///     })
///     .on_completion(move |completion| drop(done.send(completion.result.map(<[u8]>::to_vec))))
///     .build_stepper()?;
/// let mut injector = pipeline.injector().expect("the first");
/// injector.try_submit(ringcall::FunctionId::of("length"), &[7; 5], 1)?;
/// pipeline.step_dispatcher();
/// pipeline.step_worker(0);
/// pipeline.step_dispatcher();
/// assert_eq!(pipeline.step_consumer(), 1);
/// assert_eq!(completions.recv()?, Some(vec![5]));
/// assert_eq!(pipeline.stop(Duration::ZERO), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stepper {
    state: Arc<State>,
    config: StageConfig,
    dispatch: HostDispatch,
    /// `None` while it is stopped.
    dispatcher: Option<HostDispatcher<Stepped>>,
    workers: Vec<Worker>,
    consumer: Consumer,
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper").field("state", &self.state).finish_non_exhaustive()
    }
}

impl PipelineBuilder {
    /// Builds and starts a pipeline that the caller's thread turns. The configuration's cores and wait strategy are
    /// ignored.
    ///
    /// # Errors
    /// As for [`build`](Self::build) and [`start`](crate::Pipeline::start).
    pub fn build_stepper(self) -> Result<Stepper, PipelineError> {
        let (state, config, dispatch, (handler, ids)) = self.parts()?;
        let result = vec![0; state.ring.geometry().result_capacity() as usize];
        let state = Arc::new(state);
        let consumer = Consumer {
            state: Arc::clone(&state),
            handler,
            stop: StopFlag::default(),
            wait: Wait::Spin,
            log: None,
            ids,
            result,
        };
        let mut stepper =
            Stepper { state, config, dispatch, dispatcher: None, workers: Vec::new(), consumer };
        stepper.start()?;
        Ok(stepper)
    }
}

impl Stepper {
    /// Calls the factories for each worker, and begins. Does nothing while it runs.
    ///
    /// # Errors
    /// As for [`start`](crate::Pipeline::start).
    pub fn start(&mut self) -> Result<(), PipelineError> {
        if self.dispatcher.is_some() {
            return Ok(());
        }
        let Self { state, config, dispatch, .. } = self;
        let Wired { dispatcher, workers, log } = dispatch.wire(state, config, Wait::Spin)?;
        (self.workers, self.consumer.log) = (workers, log);
        self.dispatcher = Some(dispatcher.into_stepper());
        self.state.set_phase(Phase::Running);
        Ok(())
    }

    /// The injector. See [`Pipeline::injector`](crate::Pipeline::injector).
    #[must_use]
    pub fn injector(&self) -> Option<Injector> {
        if self.state.ring.is_external() {
            return None;
        }
        Injector::new(Arc::clone(&self.state), Wait::Spin, 1)
    }

    /// One turn of the dispatcher: polls the ring and the queues.
    pub fn step_dispatcher(&mut self) -> DispatchStep {
        self.dispatcher.as_mut().map_or(DispatchStep::Ended, HostDispatcher::step)
    }

    /// One turn of a worker: polls its mailbox and calls its stages. Returns whether it had work. Workers beyond the
    /// configured number, and workers of a stopped pipeline, have none.
    pub fn step_worker(&mut self, worker: u32) -> bool {
        self.workers.get_mut(worker as usize).is_some_and(|worker| worker.turn(Turn::Once))
    }

    /// One turn of the consumer: polls all responses. Returns how many it completed.
    pub fn step_consumer(&mut self) -> u32 {
        self.consumer.turn()
    }

    /// Exact counts at this moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Monitor::new(&self.state, self.dispatcher.as_ref().map(HostDispatcher::watch)).stats()
    }

    /// Refuses new requests, answers the requests in flight `SHUTTING_DOWN` at the deadline, and completes all of
    /// them. No worker acts any more, so a caller that wants answers first steps until no request is [in
    /// flight](Stats::in_flight). Returns how many requests were given up.
    pub fn stop(&mut self, deadline: Duration) -> u64 {
        self.state.set_phase(Phase::Stopped);
        let Some(dispatcher) = self.dispatcher.take() else { return 0 };
        let watch = dispatcher.watch();
        let stopped = dispatcher.finish(deadline);
        self.workers.clear();
        while self.consumer.turn() > 0 {}
        self.state.counters.absorb(&watch.counters());
        stopped.report.dropped
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}
