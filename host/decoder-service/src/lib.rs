//! The decoding service: the real-time pipeline with a model, an inference engine and a matcher, and a driver that submits
//! syndromes at a pace and checks every answer.
//!
//! ```text
//! ShotSource ─► injector ─► ring ─► dispatcher ─► InferStage ─► LastStage ─► response ─► Driver: right or wrong?
//! ```
//! A request is the bit-packed detectors of one shot. A response is that of `decode_syndrome` in [`ringcall::wire::qec`]:
//! predicted observables, corrections, convergence. A problem may have [other forms](WireForm): raw measurements as requests,
//! corrections and convergence alone as responses.
//!
//! [`SideDecoder`] decodes requests with side information on their shots: weights of edges, soft read-out, leakage.
//!
//! [`decoding_server`] serves CUDA-Q QEC's calls, with sessions, from its configuration files.
//!
//! [`study`] counts logical errors over a grid of distances and noises, without the pipeline and its clock.
//!
//! ```
//! use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
//! use ringcall_qec::code::Basis;
//! use ringcall_decoder_service::{Inference, Pace, Problem, Service, ServiceConfig, ShotSource};
//! use std::time::Duration;
//!
//! let noise = CircuitNoise::uniform(0.003);
//! let experiment = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise };
//! let problem = Problem::new(experiment.detector_error_model()?)?;
//! let source = ShotSource::sampled(&problem, 1)?;
//! let service = Service::start(&problem, &Inference::None, ServiceConfig { workers: 1, ..ServiceConfig::default() })?;
//! let pace = Pace { requests: Some(500), duration: None, interval: Duration::ZERO };
//! let summary = service.drive(source, pace, &mut |_| true)?;
//! assert_eq!((summary.stats.submitted, summary.stats.succeeded, summary.lost()), (500, 500, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod confidence;
mod deadline;
pub mod decoding_server;
mod driver;
mod form;
#[cfg(feature = "gpu")]
pub mod gpu;
mod predecoder;
mod problem;
mod residual;
mod service;
mod side_information;
mod source;
mod stages;
pub mod study;
mod summary;
mod trace;

pub use confidence::{ConfidenceBin, Confidences};
pub use deadline::Cancellation;
pub use driver::{DriveError, Pace};
pub use form::{Answer, Observables, RequestBuffer, WireForm};
pub use predecoder::{Predecoder, PredecoderError};
pub use problem::{Problem, ProblemError};
pub use residual::{ResidualDecoder, converged, is_late, pack_elements};
pub use service::{Service, ServiceConfig, ServiceError};
pub use side_information::{SideDecoder, SideInformation};
pub use source::{ShotSource, SourceError};
pub use stages::{Inference, InferenceError, LaunchedInference};
pub use summary::{Breakdown, Progress, REMOTE_STAGES, STAGES, SlowRequest, Stages, Summary, TimelinePoint};
