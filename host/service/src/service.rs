//! The pipeline, wired for one problem.

use crate::driver::{DriveError, Outcome, Pace, Progress, drive};
use crate::problem::Problem;
use crate::source::ShotSource;
use crate::stages::{DecodeStage, Density, Inference, InferenceError};
use crate::summary::Summary;
use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::wire::qec::read_decode_result;
use ringcall::{RingConfig, Wait};
use ringcall_pipeline::{
    Completion, CorePinning, Execution, Monitor, Pipeline, PipelineError, Running, StageConfig,
    WorkerResources,
};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The shape of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Workers, each with an engine and a decoder of its own.
    pub workers: u32,
    /// Slots of the ring.
    pub slots: u32,
    /// Where threads run.
    pub cores: CorePinning,
    /// How threads poll.
    pub wait: Wait,
    /// After how long a request is answered `TIMED_OUT`.
    pub request_timeout: Option<Duration>,
    /// How long the end of a run waits for what is under way.
    pub stop_deadline: Duration,
}

impl Default for ServiceConfig {
    /// One worker, 32 slots, nothing pinned, a second for a request, five for the end.
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

/// Why a service cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The model does not fit the problem.
    #[error(transparent)]
    Inference(#[from] InferenceError),
    /// A request does not fit any slot.
    #[error("a request of this problem needs slots of {0} bytes, more than a ring can have")]
    SlotTooLong(usize),
    /// The pipeline cannot be started.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The pipeline has no injector for us.
    #[error("the pipeline's injector is taken")]
    NoInjector,
}

/// A running decoding service.
pub struct Service {
    problem: Problem,
    pipeline: Pipeline<Running>,
    outcomes: mpsc::Receiver<Outcome>,
    densities: Vec<Arc<Density>>,
    deadline: Duration,
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
    /// A model that does not fit, slots that cannot be, or a pipeline that cannot start.
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
        let stage_config = StageConfig {
            workers: config.workers,
            ring,
            cores: config.cores,
            wait: config.wait,
            request_timeout: config.request_timeout,
            ..StageConfig::default()
        };
        let densities: Vec<Arc<Density>> = (0..config.workers).map(|_| Arc::default()).collect();
        let (report, outcomes) = mpsc::channel();
        let (infer_problem, inference) = (problem.clone(), inference.clone());
        let (decode_problem, stage_densities) = (problem.clone(), densities.clone());
        let schema = problem.schema();
        let pipeline = Pipeline::builder()
            .config(stage_config)
            .gpu_stage(move |_worker| {
                Ok(WorkerResources {
                    function: DECODE_SYNDROME.to_owned(),
                    schema: infer_problem.schema(),
                    execution: Execution::Inline(inference.stage(&infer_problem)?),
                    pre_launch: None,
                    post_launch: None,
                    output_bytes: Inference::output_bytes(&infer_problem),
                })
            })
            .cpu_stage(move |worker| {
                let density = Arc::clone(&stage_densities[worker as usize]);
                Ok(Box::new(DecodeStage::new(&decode_problem, density)?))
            })
            .on_completion(move |completion: &Completion<'_>| {
                let predicted = completion.result.and_then(|result| {
                    let (bits, _) = read_decode_result(&schema, result).ok()?;
                    Some(bits.ones().fold(0_u64, |word, index| word | 1 << (index % 64)))
                });
                // The driver is gone only when the run is over: nobody counts any more.
                let _ = report.send(Outcome {
                    request_id: completion.request_id,
                    predicted: predicted.filter(|_| completion.is_success()),
                    times: completion.times,
                });
            })
            .build()?
            .start()?;
        Ok(Self { problem: problem.clone(), pipeline, outcomes, densities, deadline: config.stop_deadline })
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
    /// The source's own error (a damaged file): the service was stopped all the same.
    pub fn drive(
        self,
        source: ShotSource,
        pace: Pace,
        progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Summary, DriveError> {
        let Self { problem, pipeline, outcomes, densities, deadline } = self;
        let injector = pipeline.injector().ok_or(DriveError::NoInjector)?;
        let run = drive(&problem, injector, &outcomes, source, pace, progress);
        // The driver's time line ends here; what is under way is answered while the pipeline stops.
        let stopped = pipeline.stop(deadline);
        let mut summary = run?;
        summary.finish(stopped.report, &outcomes);
        for density in &densities {
            summary.add_density(density, problem.detectors());
        }
        Ok(summary)
    }
}
