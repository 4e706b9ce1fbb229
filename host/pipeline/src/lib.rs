//! A real-time pipeline over a ring: injector, inference stage, CPU stage, completion handler.
//!
//! ```text
//! injector ─► ring ─► dispatcher ─► worker: inference ─► CPU stage ─► response ─► consumer ─► completion handler
//! ```
//! | thread | does | allocates | blocks |
//! |---|---|---|---|
//! | the caller's, with the [`Injector`] | writes requests | no | only [`Injector::submit`], until a slot is free or the pipeline stops |
//! | dispatcher | checks, hands to idle workers, queues per function | no | no |
//! | workers | inference, CPU stage, answer | no | no |
//! | consumer | harvests out of order, calls the completion handler | no | no |
//!
//! The table describes the pipeline itself between start and stop. Stages and handlers may allocate and block.
//!
//! Every submitted request has exactly one completion. A stage's failure or panic is answered with its status. A deferred
//! response that is dropped is answered `ABANDONED`. A request that takes longer than [`StageConfig::request_timeout`] is
//! answered `TIMED_OUT`. At its deadline, [`Pipeline::stop`] answers the remaining requests `SHUTTING_DOWN`.
//!
//! ```
//! use ringcall::wire::schema::HandlerSchema;
//! use ringcall_pipeline::{Pipeline, RequestView, StageConfig, StageContext, StageOutcome, WorkerResources};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! let (done, completions) = mpsc::channel();
//! let pipeline = Pipeline::builder()
//!     .config(StageConfig { workers: 2, ..StageConfig::default() })
//!     .gpu_stage(|_worker| {
//!         // Inference: here, every byte doubled.
//!         Ok(WorkerResources::inline("double", HandlerSchema::new(), 64, |request: RequestView<'_>, output: &mut [u8]| {
//!             for (out, byte) in output.iter_mut().zip(request.payload) {
//!                 *out = byte * 2;
//!             }
//!             Ok(request.payload.len())
//!         }))
//!     })
//!     .cpu_stage(|_worker| {
//!         // The rest: the sum.
//!         Ok(Box::new(|context: &mut StageContext<'_>| {
//!             context.response[0] = context.output.iter().sum();
//!             StageOutcome::Done(1)
//!         }))
//!     })
//!     .on_completion(move |completion| {
//!         let _ = done.send((completion.request_id, completion.result.map(<[u8]>::to_vec)));
//!     })
//!     .build()?
//!     .start()?;
//!
//! let mut injector = pipeline.injector().expect("the first");
//! injector.submit(ringcall::FunctionId::of("double"), &[1, 2, 3], 1 << 40)?;
//! assert_eq!(completions.recv()?, (1 << 40, Some(vec![12])));
//!
//! let stopped = pipeline.stop(Duration::from_secs(1));
//! assert!(stopped.report.is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod benchmark;
mod config;
mod consumer;
mod dispatch;
mod engine_stage;
mod error;
mod host;
mod injector;
mod monitor;
mod pipeline;
pub mod remote;
mod report;
mod stage;
mod state;
mod stats;
mod stepper;
mod threads;
mod times;
mod worker;

pub use benchmark::{BenchmarkSummary, LatencyQuantiles, PARTS, PathPart, PipelineBenchmark};
pub use config::{CorePinning, ExternalIds, StageConfig};
pub use consumer::CompletionHandler;
pub use engine_stage::{EngineStage, ShapedStage, ShapesError};
pub use error::{BoxError, PipelineError};
pub use injector::{Injector, PtpClock, SubmitError};
pub use monitor::Monitor;
pub use pipeline::{IdlePipeline, Pipeline, PipelineBuilder, RunningPipeline, StoppedPipeline};
pub use report::{Dump, PipelineStopReport, StuckRequest};
pub use ringcall::worker::Deferral;
pub use stage::{
    CompletedRequest, CpuStage, Execution, InferenceStage, OutputCheck, Raised, RequestView, StageContext,
    StageError, StageOutcome, StageTimes, WorkerResources,
};
pub use stats::Stats;
pub use stepper::Stepper;
