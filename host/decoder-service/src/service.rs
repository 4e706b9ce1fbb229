//! The service: a pipeline wired for one problem.

use crate::driver::{DriveError, Pace, drive};
use crate::form::Answer;
use crate::problem::Problem;
use crate::source::ShotSource;
use crate::stages::{Density, Inference, InferenceError, LastStage};
use crate::summary::{Outcome, Predicted, Progress, Summary};
use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::{Ring, RingConfig, Wait};
use ringcall_pipeline::remote::RemoteDispatcher;
use ringcall_pipeline::{
    CompletedRequest, CorePinning, Monitor, Pipeline, PipelineError, PtpClock, RunningPipeline, StageConfig,
    StoppedPipeline, SubmitError, WorkerResources,
};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// The configuration of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Workers, each with an engine and its own decoder.
    pub workers: u32,
    /// Slots of the ring.
    pub slots: u32,
    /// Where threads run.
    pub cores: CorePinning,
    /// How threads poll.
    pub wait: Wait,
    /// The time after which a request is answered `TIMED_OUT`.
    pub request_timeout: Option<Duration>,
    /// How long the end of a run waits for requests in flight.
    pub stop_deadline: Duration,
}

impl Default for ServiceConfig {
    /// One worker, 32 slots, nothing pinned, one second for a request, five for the end.
    fn default() -> Self {
        Self {
            workers: 1,
            slots: 32,
            cores: CorePinning::default(),
            wait: Wait::Auto,
            request_timeout: Some(Duration::from_secs(1)),
            stop_deadline: Duration::from_secs(5),
        }
    }
}

impl ServiceConfig {
    fn stages(&self, ring: RingConfig) -> StageConfig {
        StageConfig {
            workers: self.workers,
            ring,
            cores: self.cores,
            wait: self.wait,
            request_timeout: self.request_timeout,
            ..StageConfig::default()
        }
    }

    fn densities(&self) -> Vec<Arc<Density>> {
        (0..self.workers).map(|_| Arc::default()).collect()
    }
}

/// The clock that answers' time stamps are compared with, once there is one.
type AnswerClock = Arc<Mutex<Option<PtpClock>>>;

/// Reports each completed request to the driver.
fn reporter(
    problem: &Problem,
    clock: AnswerClock,
) -> (impl FnMut(&CompletedRequest<'_>) + Send + use<>, mpsc::Receiver<Outcome>) {
    let (report, outcomes) = mpsc::channel();
    let form = problem.form().clone();
    let handler = move |completion: &CompletedRequest<'_>| {
        let stamp = completion.ptp_timestamp;
        let read = || Some(clock.lock().ok()?.as_mut()?());
        let now = if stamp == 0 { None } else { read() };
        let predicted = completion.result.and_then(|result| {
            let Answer { observables, outcome, confidence } = form.read_result(result)?;
            let (converged, late) = (outcome.converged != 0, outcome.is_late());
            Some(Predicted { observables, converged, late, confidence })
        });
        // The driver is gone only when the run has ended: nothing is counted any more.
        let _ = report.send(Outcome {
            request_id: completion.request_id,
            predicted: predicted.filter(|_| completion.is_success()),
            times: completion.times,
            stamped: stamp != 0,
            round_trip: now.and_then(|now| now.checked_sub(stamp)).filter(|&time| time > 0),
        });
    };
    (handler, outcomes)
}

/// Why a service cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The model does not fit the problem.
    #[error(transparent)]
    Inference(#[from] InferenceError),
    /// A request fits no slot.
    #[error("a request of this problem needs slots of {0} bytes, more than a ring can have")]
    SlotTooLong(usize),
    /// A remote dispatcher's ring is too small.
    #[error("the dispatcher's slots take {found} bytes of {what}, where this problem has {expected}")]
    Ring {
        /// `requests` or `answers`.
        what: &'static str,
        /// Bytes of a slot.
        found: u32,
        /// Bytes needed.
        expected: usize,
    },
    /// The pipeline cannot be started.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The pipeline's injector is taken.
    #[error("the pipeline's injector is taken")]
    NoInjector,
}

/// Checks that requests and answers fit a ring's slots.
fn expect_room(ring: &Ring, request_bytes: usize, answer_bytes: usize) -> Result<(), ServiceError> {
    let geometry = ring.geometry();
    for (what, found, expected) in [
        ("requests", geometry.request_capacity(), request_bytes),
        ("answers", geometry.result_capacity(), answer_bytes),
    ] {
        if (found as usize) < expected {
            return Err(ServiceError::Ring { what, found, expected });
        }
    }
    Ok(())
}

/// A running decoding service.
pub struct Service {
    problem: Problem,
    pipeline: Pipeline<RunningPipeline>,
    remote: bool,
    outcomes: mpsc::Receiver<Outcome>,
    densities: Vec<Arc<Density>>,
    deadline: Duration,
    clock: Option<PtpClock>,
    answer_clock: AnswerClock,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("problem", &self.problem).finish_non_exhaustive()
    }
}

impl Service {
    /// Makes engines and decoders, and starts all threads.
    ///
    /// # Errors
    /// A model that does not fit, an impossible number of slots, or a pipeline that cannot start.
    pub fn start(
        problem: &Problem,
        inference: &Inference,
        config: ServiceConfig,
    ) -> Result<Self, ServiceError> {
        inference.check(problem)?;
        let slot_bytes = problem.slot_bytes();
        let ring = RingConfig {
            slots: config.slots,
            slot_bytes: u32::try_from(slot_bytes).map_err(|_| ServiceError::SlotTooLong(slot_bytes))?,
        };
        let stage_config = config.stages(ring);
        let densities = config.densities();
        let answer_clock = AnswerClock::default();
        let (handler, outcomes) = reporter(problem, Arc::clone(&answer_clock));
        let (infer_problem, inference) = (problem.clone(), inference.clone());
        let output_bytes = inference.output_bytes(problem);
        let decoded = matches!(inference, Inference::Decoder(_));
        let (decode_problem, stage_densities) = (problem.clone(), densities.clone());
        let mapped = match &inference {
            Inference::Launched(lanes) => lanes.ring(),
            _ => None,
        };
        let mut builder = Pipeline::builder().config(stage_config);
        if let Some(ring) = mapped {
            expect_room(&ring, problem.request_bytes(), problem.result_bytes())?;
            builder = builder.ring(ring);
        }
        let pipeline = builder
            .gpu_stage(move |worker| {
                let (pre_launch, execution) = inference.execution(&infer_problem, worker)?;
                Ok(WorkerResources {
                    function: DECODE_SYNDROME.to_owned(),
                    id: None,
                    schema: infer_problem.schema(),
                    execution,
                    pre_launch,
                    post_launch: None,
                    output_bytes,
                })
            })
            .cpu_stage(move |worker| {
                let density = Arc::clone(&stage_densities[worker as usize]);
                Ok(Box::new(LastStage::new(&decode_problem, decoded, density)?))
            })
            .on_completion(handler)
            .build()?
            .start()?;
        let (problem, deadline) = (problem.clone(), config.stop_deadline);
        Ok(Self {
            problem,
            pipeline,
            remote: false,
            outcomes,
            densities,
            deadline,
            clock: None,
            answer_clock,
        })
    }

    /// Starts a service around a remote dispatcher that runs inference: it answers `decode_syndrome` requests with
    /// [`Problem::inferred_bytes`] bytes. Makes decoders, and starts all threads and the dispatcher.
    ///
    /// The dispatcher brings its own slots and core: [`ServiceConfig::slots`] and the dispatcher's core have no effect.
    ///
    /// # Errors
    /// A ring whose slots are too small, or a pipeline that cannot start.
    pub fn start_remote(
        problem: &Problem,
        dispatcher: impl RemoteDispatcher + 'static,
        config: ServiceConfig,
    ) -> Result<Self, ServiceError> {
        Self::remote(problem, dispatcher, config, false)
    }

    /// Starts a service around a remote dispatcher that decodes: its answers to `decode_syndrome` requests begin with a result of
    /// that function, [`Problem::result_bytes`] long. Workers check answers, and decode nothing.
    ///
    /// # Errors
    /// As [`start_remote`](Self::start_remote).
    pub fn start_remote_decoder(
        problem: &Problem,
        dispatcher: impl RemoteDispatcher + 'static,
        config: ServiceConfig,
    ) -> Result<Self, ServiceError> {
        Self::remote(problem, dispatcher, config, true)
    }

    fn remote(
        problem: &Problem,
        dispatcher: impl RemoteDispatcher + 'static,
        config: ServiceConfig,
        decoded: bool,
    ) -> Result<Self, ServiceError> {
        let answer_bytes = if decoded { problem.result_bytes() } else { problem.inferred_bytes() };
        expect_room(dispatcher.ring(), problem.request_bytes(), answer_bytes)?;
        let densities = config.densities();
        let answer_clock = AnswerClock::default();
        let (handler, outcomes) = reporter(problem, Arc::clone(&answer_clock));
        let (decode_problem, stage_densities) = (problem.clone(), densities.clone());
        let pipeline = Pipeline::remote(dispatcher)
            .config(config.stages(RingConfig::default()))
            .result_bytes(u32::try_from(problem.result_bytes()).unwrap_or(u32::MAX))
            .stage(move |worker| {
                let density = Arc::clone(&stage_densities[worker as usize]);
                Ok(Box::new(LastStage::new(&decode_problem, decoded, density)?))
            })
            .on_completion(handler)
            .build()?
            .start()?;
        let (problem, deadline) = (problem.clone(), config.stop_deadline);
        Ok(Self { problem, pipeline, remote: true, outcomes, densities, deadline, clock: None, answer_clock })
    }

    /// Sets the clock of the requests' PTP time stamps, in nanoseconds: [`Summary::unstamped`] counts answers that do not echo
    /// one, and [`Summary::round_trip`] has the times from stamps to their echoes, by the same clock.
    #[must_use]
    pub fn with_ptp_clock(self, clock: impl FnMut() -> u64 + Clone + Send + 'static) -> Self {
        *self.answer_clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(clock.clone()));
        Self { clock: Some(Box::new(clock)), ..self }
    }

    /// Where each thread runs.
    #[must_use]
    pub fn pins(&self) -> &[ringcall::pin::PinReport] {
        self.pipeline.pins()
    }

    /// Reads counts and slots from another thread.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.pipeline.monitor()
    }

    /// Feeds shots at a pace, checks every answer, stops, and sums up.
    ///
    /// `progress` is called about ten times a second; the run ends early when it returns false.
    ///
    /// # Errors
    /// The source's own error (a damaged file), or a remote dispatcher that no longer answers: the service was stopped all the
    /// same.
    pub fn drive(
        self,
        source: ShotSource,
        pace: Pace,
        progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Summary, DriveError> {
        let Self { problem, pipeline, remote, outcomes, densities, deadline, clock, answer_clock: _ } = self;
        let stamps = clock.is_some();
        let injector = pipeline.injector().ok_or(DriveError::NoInjector)?;
        let injector = match clock {
            Some(clock) => injector.with_ptp_clock(clock),
            None => injector,
        };
        let run = drive(&problem, injector, &outcomes, source, pace, remote, progress);
        // The driver's time line ends here; requests in flight are answered while the pipeline stops.
        let StoppedPipeline { report, failure, .. } = pipeline.stop(deadline);
        let mut summary = match run {
            Err(DriveError::Submit(SubmitError::Lost)) => {
                return Err(DriveError::Lost(failure.unwrap_or_else(|| "no reason is known".to_owned())));
            }
            run => run?,
        };
        summary.finish(report, &outcomes, problem.observables());
        summary.failure = failure;
        if !stamps {
            summary.unstamped = 0;
        }
        for density in &densities {
            summary.add_density(density, problem.detectors());
        }
        Ok(summary)
    }
}
