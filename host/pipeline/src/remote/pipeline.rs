//! Built, started, stopped, started again.

use super::desks::UNDER_WAY;
use super::warden::{Failure, Warden};
use super::worker::Worker;
use super::{Desks, RemoteDispatcher, RemoteStage};
use crate::config::{ExternalIds, StageConfig};
use crate::consumer::{CompletionHandler, IdExtender};
use crate::crew::{Crew, GRACE, Kept, Stop, join_until, spawn};
use crate::error::{BoxError, PipelineError};
use crate::injector::Injector;
use crate::monitor::{Monitor, requests_of};
use crate::report::{Dump, StopReport};
use crate::stage::Completion;
use crate::state::{Phase, State};
use ringcall::pin::PinReport;
use ringcall::{Ring, RingConfig, Status};
use ringcall_dispatch::scan::GROUP;
use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Factory = Box<dyn FnMut(u32) -> Result<Box<dyn RemoteStage>, BoxError> + Send>;

/// A pipeline being put together.
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

    /// Called by the consumer thread once for each request that is over, whatever its status.
    pub fn on_completion(mut self, handler: impl FnMut(&Completion<'_>) + Send + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Allocates what answers are harvested from.
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
        let state = Arc::new(State::new(answers, Some(Desks::new(requests))));
        let kept = (handler, IdExtender::new(ExternalIds::default()));
        Ok(RemotePipeline { state, inner: Idle { parts: Parts { config, dispatcher, stage, kept } } })
    }
}

/// What survives from one run to the next.
struct Parts {
    config: StageConfig,
    dispatcher: Box<dyn RemoteDispatcher>,
    stage: Factory,
    kept: Kept,
}

/// Not running.
pub struct Idle {
    parts: Parts,
}

/// Running.
pub struct Running {
    config: StageConfig,
    dispatcher: Box<dyn RemoteDispatcher>,
    stage: Factory,
    warden: JoinHandle<()>,
    failure: Failure,
    crew: Crew,
}

/// The pipeline whose dispatcher is elsewhere. See [the module](super).
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
    /// A pipeline to put together, around a dispatcher.
    pub fn builder(dispatcher: impl RemoteDispatcher + 'static) -> RemotePipelineBuilder {
        RemotePipelineBuilder {
            config: StageConfig::default(),
            dispatcher: Box::new(dispatcher),
            stage: None,
            handler: Box::new(|_| ()),
            answer_bytes: 64,
        }
    }

    /// Makes every worker's stage, starts all threads, and the dispatcher last.
    ///
    /// # Errors
    /// A factory's or the dispatcher's own error, or no thread. Threads started before the failure are stopped.
    pub fn start(self) -> Result<RemotePipeline<Running>, PipelineError> {
        let Self { state, inner: Idle { parts } } = self;
        let Parts { config, mut dispatcher, mut stage, kept } = parts;
        let wait = config.wait.resolve(config.workers as usize + 2); // consumer, producer
        let requests = *state.requests().geometry();
        let answers = *state.ring.geometry();
        let groups = requests.slots().div_ceil(GROUP);
        let failure = Failure::default();
        // Whatever fails from here on stops the threads that run already.
        let mut crew = Crew::new(&state, wait);
        let started = (|| {
            for worker in 0..config.workers {
                let stage = stage(worker).map_err(PipelineError::of_factory("CPU", worker))?;
                let state = Arc::clone(&state);
                let first = (u64::from(worker) * u64::from(groups) / u64::from(config.workers)) as u32;
                crew.worker(&config.cores, move |quit| {
                    let worker = Worker {
                        state,
                        stage,
                        quit,
                        wait,
                        first,
                        payload: vec![0; requests.request_capacity() as usize],
                        output: vec![0; requests.result_capacity() as usize],
                        response: vec![0; answers.result_capacity() as usize],
                    };
                    worker.run();
                })?;
            }
            crew.consumer(&config.cores, None, kept)?;
            dispatcher.start().map_err(PipelineError::Remote)?;
            let quit = Arc::new(DeviceU64::new(0));
            let warden = Warden {
                state: Arc::clone(&state),
                health: dispatcher.health(),
                timeout: config.request_timeout,
                quit: Arc::clone(&quit),
                consumer_quit: Arc::clone(&crew.consumer_quit),
                failure: Arc::clone(&failure),
            };
            let (warden, _) = spawn("warden".to_owned(), None, move || warden.run())?;
            crew.is_sent_home_by(quit);
            Ok(warden)
        })();
        match started {
            Ok(warden) => {
                state.set_phase(Phase::Running);
                let inner = Running { config, dispatcher, stage, warden, failure, crew };
                Ok(RemotePipeline { state, inner })
            }
            Err(error) => {
                drop(crew);
                let _ = dispatcher.stop(GRACE);
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
    /// What was wrong with the dispatcher, if it was lost or did not end well.
    pub failure: Option<String>,
    /// Answers of the dispatcher's that were none, or to another request; over the pipeline's life.
    pub garbage: u64,
    /// The pipeline, ready to be started again; `None` if its dispatcher or its completion handler never came back, or
    /// the dispatcher failed.
    pub pipeline: Option<RemotePipeline<Idle>>,
}

impl RemoteStopped {
    /// Everything that was submitted was answered by a stage, every thread came back, and the dispatcher ended well.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.failure.is_none()
    }
}

impl RemotePipeline<Running> {
    /// The injector. One exists at a time.
    #[must_use]
    pub fn injector(&self) -> Option<Injector> {
        Injector::new(Arc::clone(&self.state), self.inner.crew.wait, self.inner.dispatcher.parts())
    }

    /// Something that reads counts and slots from another thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(&self.state, None)
    }

    /// Where each thread runs.
    #[must_use]
    pub fn pins(&self) -> &[PinReport] {
        &self.inner.crew.pins
    }

    /// Refuses new requests, waits until those under way are over, ends the dispatcher, and stops all threads; at the deadline
    /// answers what is left `SHUTTING_DOWN`. Returns about two seconds after the deadline at the latest, as far as the
    /// dispatcher keeps to its own.
    pub fn stop(self, deadline: Duration) -> RemoteStopped {
        let stop = Stop::begin(deadline);
        let Self { state, inner } = self;
        let Running { config, mut dispatcher, stage, warden, failure, mut crew } = inner;
        crew.refuse(stop);
        let before = state.tally.snapshot(false, None).completed;
        let dropped_before = dropped(&state);
        let wait = |until: Instant, under_way: &dyn Fn(&Desks) -> bool| {
            while state.remote.as_ref().is_some_and(under_way) && Instant::now() < until {
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        wait(stop.begin + deadline, &|desks| desks.count(UNDER_WAY) > 0);
        let unfinished = state.remote.as_ref().filter(|desks| desks.count(UNDER_WAY) > 0).map(|desks| {
            let slots = desks.dump();
            let mut requests = requests_of(&state);
            requests.retain(|request| slots.slots.iter().any(|slot| slot.slot == request.slot));
            Dump { requests, slots }
        });
        let ended = dispatcher.stop(stop.left().max(GRACE));
        // What the dispatcher answered as it ended is still taken by the workers.
        wait(Instant::now() + GRACE, &Desks::workers_have_work);
        let stuck_workers = crew.dismiss_workers(stop);
        // The warden answers what is left, and sends the consumer home behind it.
        crew.dismiss_consumer();
        warden.thread().unpark();
        let warden_back = join_until(vec![warden], Instant::now() + GRACE).is_empty();
        if !warden_back && let Some(desks) = &state.remote {
            // It is held up by the dispatcher's own health: what is left is answered from here.
            desks.expire(UNDER_WAY, u64::MAX, Status::SHUTTING_DOWN, state.ring.shared());
        }
        let back = crew.await_consumer(stop);
        if ended.ended
            && let Some(desks) = &state.remote
        {
            desks.clear();
        }
        let stats = state.tally.snapshot(false, Some((0, &|| counters(&state))));
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
            Ok(kept) if ended.ended && failure.is_none() && warden_back => {
                let parts = Parts { config, dispatcher, stage, kept };
                Some(RemotePipeline { state, inner: Idle { parts } })
            }
            _ => None,
        };
        RemoteStopped { report, failure, garbage, pipeline }
    }
}

fn counters(state: &State) -> ringcall::dispatcher::Snapshot {
    state.remote.as_ref().map(Desks::counters).unwrap_or_default()
}

fn dropped(state: &State) -> u64 {
    state.remote.as_ref().map_or(0, |desks| desks.counts().dropped.load(Ordering::Relaxed))
}
