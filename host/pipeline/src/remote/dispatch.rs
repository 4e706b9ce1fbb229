//! Dispatch by a remote dispatcher: workers that take its responses, and the watchdog.

use super::in_flight::UNDER_WAY;
use super::watchdog::{Failure, Watchdog};
use super::worker::Worker;
use super::{InFlightTable, RemoteDispatcher, RemoteStage};
use crate::config::{ExternalIds, StageConfig};
use crate::consumer::{CompletionHandler, IdExtender};
use crate::dispatch::{Dispatch, Drained};
use crate::error::{BoxError, PipelineError};
use crate::monitor::requests_of;
use crate::pipeline::{IdlePipeline, Pipeline};
use crate::report::Dump;
use crate::stage::CompletedRequest;
use crate::state::State;
use crate::threads::{ConsumerState, Stop, ThreadSet, spawn};
use ringcall::dispatcher::Watch;
use ringcall::thread::{GRACE_PERIOD, StopFlag, Supervised, Unfinished};
use ringcall::{Ring, RingConfig, Status};
use ringcall_protocol::scan::GROUP;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

type Factory = Box<dyn FnMut(u32) -> Result<Box<dyn RemoteStage>, BoxError> + Send>;

/// Builds a [`Pipeline`] with a remote dispatcher.
#[must_use]
pub struct RemotePipelineBuilder {
    config: StageConfig,
    dispatcher: Box<dyn RemoteDispatcher>,
    stage: Option<Factory>,
    handler: CompletionHandler,
    answer_bytes: u32,
}

impl Pipeline<IdlePipeline> {
    /// A builder of a pipeline around a remote dispatcher. See [`remote`](crate::remote).
    pub fn remote(dispatcher: impl RemoteDispatcher + 'static) -> RemotePipelineBuilder {
        RemotePipelineBuilder {
            config: StageConfig::default(),
            dispatcher: Box::new(dispatcher),
            stage: None,
            handler: Box::new(|_| ()),
            answer_bytes: 64,
        }
    }
}

impl RemotePipelineBuilder {
    /// Sets the shape; without this call, [`StageConfig::default`]. The dispatcher brings its own ring and core, so
    /// [`StageConfig::ring`] and the dispatcher's core have no effect.
    pub fn config(mut self, config: StageConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the factory of CPU stages, called once per worker at each start.
    pub fn stage(
        mut self,
        factory: impl FnMut(u32) -> Result<Box<dyn RemoteStage>, BoxError> + Send + 'static,
    ) -> Self {
        self.stage = Some(Box::new(factory));
        self
    }

    /// Sets the most bytes of a CPU stage's result; without this call, 64.
    pub fn result_bytes(mut self, bytes: u32) -> Self {
        self.answer_bytes = bytes;
        self
    }

    /// Sets the completion handler. The consumer thread calls it once for each completed request, whatever the status.
    pub fn on_completion(mut self, handler: impl FnMut(&CompletedRequest<'_>) + Send + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Allocates the ring that responses are harvested from.
    ///
    /// # Errors
    /// No CPU stage, no workers, no memory, or a ring that does not divide into the dispatcher's parts.
    pub fn build(self) -> Result<Pipeline, PipelineError> {
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
        let state = State::new(answers, Some(InFlightTable::new(requests)));
        let consumer_state = (handler, IdExtender::new(ExternalIds::default()));
        let dispatch =
            Box::new(RemoteDispatch { dispatcher, stage, watchdog: None, failure: Failure::default() });
        Ok(Pipeline::new(state, IdlePipeline { config, dispatch, consumer_state }))
    }
}

struct RemoteDispatch {
    dispatcher: Box<dyn RemoteDispatcher>,
    stage: Factory,
    /// The watchdog, while the pipeline runs.
    watchdog: Option<Supervised<()>>,
    failure: Failure,
}

impl Dispatch for RemoteDispatch {
    fn parts(&self) -> u32 {
        self.dispatcher.parts()
    }

    fn start(
        &mut self,
        state: &Arc<State>,
        config: &StageConfig,
        threads: &mut ThreadSet,
        consumer: ConsumerState,
    ) -> Result<(), PipelineError> {
        let start = || -> Result<(), PipelineError> {
            let wait = threads.wait;
            let requests = *state.requests().geometry();
            let answers = *state.ring.geometry();
            let groups = requests.slots().div_ceil(GROUP);
            for worker in 0..config.workers {
                let stage = (self.stage)(worker).map_err(PipelineError::of_factory("CPU", worker))?;
                let state = Arc::clone(state);
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
            threads.consumer(&config.cores, None, consumer)?;
            self.dispatcher.start().map_err(PipelineError::Remote)?;
            let stop = StopFlag::default();
            let watchdog = Watchdog {
                state: Arc::clone(state),
                health: self.dispatcher.health(),
                timeout: config.request_timeout,
                stop: stop.clone(),
                stop_consumer: threads.stop_consumer.clone(),
                failure: Arc::clone(&self.failure),
            };
            self.watchdog = Some(spawn("watchdog", None, move || watchdog.run())?);
            threads.consumer_stopped_by(stop);
            Ok(())
        };
        let started = start();
        if started.is_err() {
            let _ = self.dispatcher.stop(GRACE_PERIOD);
        }
        started
    }

    fn watch(&self) -> Option<Watch> {
        None
    }

    fn stop(&mut self, state: &Arc<State>, threads: &mut ThreadSet, stop: Stop) -> Drained {
        let Some(in_flight) = &state.remote else { return Drained::default() };
        let in_flight_before = u64::from(in_flight.count(UNDER_WAY));
        let dropped = || in_flight.counts().dropped.load(Ordering::Relaxed);
        let dropped_before = dropped();
        let wait = |until: Instant, under_way: &dyn Fn() -> bool| {
            while under_way() && Instant::now() < until {
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        wait(stop.begin + stop.deadline, &|| in_flight.count(UNDER_WAY) > 0);
        let unfinished = (in_flight.count(UNDER_WAY) > 0).then(|| {
            let slots = in_flight.dump();
            let mut requests = requests_of(state);
            requests.retain(|request| slots.slots.iter().any(|slot| slot.slot == request.slot));
            Dump { requests, slots }
        });
        let ended = self.dispatcher.stop(stop.left().max(GRACE_PERIOD));
        // The workers still take the responses that the dispatcher sent while it ended.
        wait(Instant::now() + GRACE_PERIOD, &|| in_flight.workers_have_work());
        let stuck_workers = threads.stop_workers(stop);
        // The watchdog answers the remaining requests, then tells the consumer to end.
        threads.stop_consumer();
        let watchdog = self.watchdog.take().map(|mut watchdog| watchdog.wait(GRACE_PERIOD));
        let watchdog_ended = watchdog != Some(Err(Unfinished::Running));
        if !watchdog_ended {
            // The dispatcher's health function holds the watchdog up: answer the remaining requests from here.
            in_flight.expire(UNDER_WAY, u64::MAX, Status::SHUTTING_DOWN, state.ring.shared());
        }
        if ended.ended {
            in_flight.clear();
        }
        let lost = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = lost.or(ended.failure);
        let dropped = dropped() - dropped_before;
        Drained {
            drained: in_flight_before.saturating_sub(dropped),
            dropped,
            unfinished,
            stuck_workers,
            stuck_dispatcher: !ended.ended,
            garbage: in_flight.counts().garbage.load(Ordering::Relaxed),
            can_restart: ended.ended && failure.is_none() && watchdog_ended,
            failure,
        }
    }
}
