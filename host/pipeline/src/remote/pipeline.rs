//! Life cycle of a pipeline with a remote dispatcher: build, start, stop, restart.

use super::in_flight::UNDER_WAY;
use super::watchdog::{Failure, Watchdog};
use super::worker::Worker;
use super::{InFlightTable, RemoteDispatcher, RemoteStage};
use crate::config::{ExternalIds, StageConfig};
use crate::consumer::{CompletionHandler, IdExtender};
use crate::error::{BoxError, PipelineError};
use crate::injector::Injector;
use crate::monitor::{Monitor, requests_of};
use crate::report::{Dump, StopReport};
use crate::stage::Completion;
use crate::state::{Phase, State};
use crate::threads::{ConsumerState, Stop, ThreadSet, spawn};
use ringcall::pin::PinReport;
use ringcall::thread::{GRACE_PERIOD, StopFlag, Supervised, Unfinished};
use ringcall::{Ring, RingConfig, Status};
use ringcall_protocol::scan::GROUP;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

type Factory = Box<dyn FnMut(u32) -> Result<Box<dyn RemoteStage>, BoxError> + Send>;

/// Builds a [`RemotePipeline`].
#[must_use]
pub struct RemotePipelineBuilder {
    config: StageConfig,
    dispatcher: Box<dyn RemoteDispatcher>,
    stage: Option<Factory>,
    handler: CompletionHandler,
    answer_bytes: u32,
}

impl RemotePipelineBuilder {
    /// The shape; [`StageConfig::default`] otherwise. The ring is the dispatcher's own, and [`StageConfig::ring`] and the
    /// dispatcher's core are not used.
    pub fn config(mut self, config: StageConfig) -> Self {
        self.config = config;
        self
    }

    /// The CPU stage: called once per worker at each start.
    pub fn stage(
        mut self,
        factory: impl FnMut(u32) -> Result<Box<dyn RemoteStage>, BoxError> + Send + 'static,
    ) -> Self {
        self.stage = Some(Box::new(factory));
        self
    }

    /// The most bytes of a CPU stage's result; 64 otherwise.
    pub fn result_bytes(mut self, bytes: u32) -> Self {
        self.answer_bytes = bytes;
        self
    }

    /// Called by the consumer thread once for each completed request, with any status.
    pub fn on_completion(mut self, handler: impl FnMut(&Completion<'_>) + Send + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Allocates the ring that responses are harvested from.
    ///
    /// # Errors
    /// No CPU stage, no workers, no memory, or a ring that does not divide into the dispatcher's parts.
    pub fn build(self) -> Result<RemotePipeline, PipelineError> {
        let Self { config, dispatcher, stage, handler, answer_bytes } = self;
        let stage = stage.ok_or(PipelineError::NoCpuStage)?;
        if config.workers == 0 {
            return Err(PipelineError::NoWorkers);
        }
        let requests = dispatcher.ring().clone();
        let (slots, parts) = (requests.geometry().slots(), dispatcher.parts());
        if parts == 0 || !slots.is_multiple_of(parts) {
            return Err(PipelineError::Parts { slots, parts });
        }
        let header = ringcall::wire::header::HEADER_BYTES as u32;
        let slot_bytes = answer_bytes.saturating_add(header).checked_next_multiple_of(64).unwrap_or(u32::MAX);
        let answers = Ring::allocate(RingConfig { slots: requests.geometry().slots(), slot_bytes })?;
        let state = Arc::new(State::new(answers, Some(InFlightTable::new(requests))));
        let consumer_state = (handler, IdExtender::new(ExternalIds::default()));
        Ok(RemotePipeline {
            state,
            inner: Idle { parts: Parts { config, dispatcher, stage, consumer_state } },
        })
    }
}

/// Everything that a restart keeps.
struct Parts {
    config: StageConfig,
    dispatcher: Box<dyn RemoteDispatcher>,
    stage: Factory,
    consumer_state: ConsumerState,
}

/// State of a pipeline that is not running.
pub struct Idle {
    parts: Parts,
}

/// State of a running pipeline.
pub struct Running {
    config: StageConfig,
    dispatcher: Box<dyn RemoteDispatcher>,
    stage: Factory,
    watchdog: Supervised<()>,
    failure: Failure,
    threads: ThreadSet,
}

/// A pipeline with a remote dispatcher. See [the module](super).
#[must_use]
pub struct RemotePipeline<S = Idle> {
    state: Arc<State>,
    inner: S,
}

impl<S> std::fmt::Debug for RemotePipeline<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemotePipeline").field("state", &self.state).finish_non_exhaustive()
    }
}

impl RemotePipeline<Idle> {
    /// A builder around a dispatcher.
    pub fn builder(dispatcher: impl RemoteDispatcher + 'static) -> RemotePipelineBuilder {
        RemotePipelineBuilder {
            config: StageConfig::default(),
            dispatcher: Box::new(dispatcher),
            stage: None,
            handler: Box::new(|_| ()),
            answer_bytes: 64,
        }
    }

    /// Calls the factory for each worker, starts all threads, then starts the dispatcher.
    ///
    /// # Errors
    /// A factory's or the dispatcher's own error, or no thread. Threads started before the failure are stopped.
    pub fn start(self) -> Result<RemotePipeline<Running>, PipelineError> {
        let Self { state, inner: Idle { parts } } = self;
        let Parts { config, mut dispatcher, mut stage, consumer_state } = parts;
        let wait = config.wait.resolve(config.workers as usize + 2); // consumer, producer
        let requests = *state.requests().geometry();
        let answers = *state.ring.geometry();
        let groups = requests.slots().div_ceil(GROUP);
        let failure = Failure::default();
        // An error from here on stops the threads that were started before it.
        let mut threads = ThreadSet::new(&state, wait);
        let started = (|| {
            for worker in 0..config.workers {
                let stage = stage(worker).map_err(PipelineError::of_factory("CPU", worker))?;
                let state = Arc::clone(&state);
                let first = (u64::from(worker) * u64::from(groups) / u64::from(config.workers)) as u32;
                threads.worker(&config.cores, move |stop| {
                    let worker = Worker {
                        state,
                        stage,
                        stop,
                        wait,
                        first,
                        payload: vec![0; requests.request_capacity() as usize],
                        output: vec![0; requests.result_capacity() as usize],
                        response: vec![0; answers.result_capacity() as usize],
                    };
                    worker.run();
                })?;
            }
            threads.consumer(&config.cores, None, consumer_state)?;
            dispatcher.start().map_err(PipelineError::Remote)?;
            let stop = StopFlag::default();
            let watchdog = Watchdog {
                state: Arc::clone(&state),
                health: dispatcher.health(),
                timeout: config.request_timeout,
                stop: stop.clone(),
                stop_consumer: threads.stop_consumer.clone(),
                failure: Arc::clone(&failure),
            };
            let watchdog = spawn("watchdog", None, move || watchdog.run())?;
            threads.consumer_stopped_by(stop);
            Ok(watchdog)
        })();
        match started {
            Ok(watchdog) => {
                state.set_phase(Phase::Running);
                let inner = Running { config, dispatcher, stage, watchdog, failure, threads };
                Ok(RemotePipeline { state, inner })
            }
            Err(error) => {
                drop(threads);
                let _ = dispatcher.stop(GRACE_PERIOD);
                Err(error)
            }
        }
    }
}

/// A stopped pipeline.
#[must_use]
pub struct RemoteStopped {
    /// What the stop did; its dispatcher is [stuck](StopReport::stuck_dispatcher) if it did not end.
    pub report: StopReport,
    /// Why the dispatcher was lost or failed to stop.
    pub failure: Option<String>,
    /// Malformed responses of the dispatcher, and responses with another request's id, over the pipeline's life.
    pub garbage: u64,
    /// The pipeline, ready to start again. `None` if the dispatcher or the completion handler did not return, or if the
    /// dispatcher failed.
    pub pipeline: Option<RemotePipeline<Idle>>,
}

impl RemoteStopped {
    /// A stage answered every submitted request, every thread ended, and the dispatcher did not fail.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.failure.is_none()
    }
}

impl RemotePipeline<Running> {
    /// The injector. One exists at a time.
    #[must_use]
    pub fn injector(&self) -> Option<Injector> {
        Injector::new(Arc::clone(&self.state), self.inner.threads.wait, self.inner.dispatcher.parts())
    }

    /// A handle that reads counters and slots from another thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(&self.state, None)
    }

    /// The core that each thread runs on.
    #[must_use]
    pub fn pins(&self) -> &[PinReport] {
        &self.inner.threads.pins
    }

    /// Refuses new requests, waits for those in flight, ends the dispatcher, and stops all threads. At the deadline it answers
    /// the remaining requests `SHUTTING_DOWN`. It returns at most about two seconds after the deadline, provided that
    /// [`RemoteDispatcher::stop`] observes its deadline.
    pub fn stop(self, deadline: Duration) -> RemoteStopped {
        let stop = Stop::begin(deadline);
        let Self { state, inner } = self;
        let Running { config, mut dispatcher, stage, mut watchdog, failure, mut threads } = inner;
        threads.refuse(stop);
        let before = state.counters.snapshot(false, None).completed;
        let dropped_before = dropped(&state);
        let wait = |until: Instant, under_way: &dyn Fn(&InFlightTable) -> bool| {
            while state.remote.as_ref().is_some_and(under_way) && Instant::now() < until {
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        wait(stop.begin + deadline, &|in_flight| in_flight.count(UNDER_WAY) > 0);
        let unfinished =
            state.remote.as_ref().filter(|in_flight| in_flight.count(UNDER_WAY) > 0).map(|in_flight| {
                let slots = in_flight.dump();
                let mut requests = requests_of(&state);
                requests.retain(|request| slots.slots.iter().any(|slot| slot.slot == request.slot));
                Dump { requests, slots }
            });
        let ended = dispatcher.stop(stop.left().max(GRACE_PERIOD));
        // The workers still take the responses that the dispatcher sent while it ended.
        wait(Instant::now() + GRACE_PERIOD, &InFlightTable::workers_have_work);
        let stuck_workers = threads.stop_workers(stop);
        // The watchdog answers the remaining requests, then tells the consumer to end.
        threads.stop_consumer();
        let watchdog_ended = watchdog.wait(GRACE_PERIOD) != Err(Unfinished::Running);
        if !watchdog_ended && let Some(in_flight) = &state.remote {
            // The dispatcher's health function holds the watchdog up: answer the remaining requests from here.
            in_flight.expire(UNDER_WAY, u64::MAX, Status::SHUTTING_DOWN, state.ring.shared());
        }
        let back = threads.join_consumer(stop);
        if ended.ended
            && let Some(in_flight) = &state.remote
        {
            in_flight.clear();
        }
        let stats = state.counters.snapshot(false, Some((0, &|| counters(&state))));
        let dropped = dropped(&state) - dropped_before;
        let report = StopReport {
            drained: (stats.completed - before).saturating_sub(dropped),
            dropped,
            unfinished,
            stuck_workers,
            stuck_dispatcher: !ended.ended,
            stuck_consumer: back.is_err(),
            stats,
            took: stop.begin.elapsed(),
        };
        let lost = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = lost.or(ended.failure);
        let garbage = state.remote.as_ref().map_or(0, |d| d.counts().garbage.load(Ordering::Relaxed));
        let pipeline = match back {
            Ok(consumer_state) if ended.ended && failure.is_none() && watchdog_ended => {
                let parts = Parts { config, dispatcher, stage, consumer_state };
                Some(RemotePipeline { state, inner: Idle { parts } })
            }
            _ => None,
        };
        RemoteStopped { report, failure, garbage, pipeline }
    }
}

fn counters(state: &State) -> ringcall::dispatcher::Snapshot {
    state.remote.as_ref().map(InFlightTable::counters).unwrap_or_default()
}

fn dropped(state: &State) -> u64 {
    state.remote.as_ref().map_or(0, |in_flight| in_flight.counts().dropped.load(Ordering::Relaxed))
}
