//! Services of networks on a GPU, for any engine that can be captured into a graph.
//!
//! ```text
//!   ring ─► device dispatcher ─► input kernel ─► network ─► output kernel ─► response slot           AiDecoderService
//!                                                               └─► queue ─► worker ─► response slot AiPredecoderService
//! ```
//! [`AiDecoderService`] is autonomous: the graph answers its request by itself. [`AiPredecoderService`] hands what the network
//! made to the CPU, through a queue of so many records for each instance ([`ringcall_protocol::handoff`]), and [`Workers`]
//! finish the request there: matching, say. Both are functions of a
//! [device dispatcher](ringcall_launch::ring::DeviceDispatcher), which launches their graphs from the device, or of a
//! [host dispatcher](ringcall::HostDispatcher), whose workers launch them ([`HostWorker`]).
//!
//! # Tensors
//! By name ([`Pick`]): a request fills the first input and an answer is the first output, unless others are
//! chosen. A tensor that is not chosen is *auxiliary*: it has its memory, and the host may
//! [fill](Service::write_input) it. A request is as long as its inputs, no more and no less; of several, each
//! begins at a multiple of 16 bytes, and so do outputs.
//!
//! # Back-pressure
//! Twice. While the record that an instance would fill next is not free the dispatcher does not launch it: the request stays
//! in the ring and others go on. A graph that was launched all the same waits a bounded time, then answers
//! [`BACKPRESSURE`](ringcall_wire::Status::BACKPRESSURE). Every refusal has an answer and a [count](QueueStats).
//!
//! | module | what |
//! |---|---|
//! | [`engine`] | what an engine must be able to do |
//! | [`bindings`] | tensors by name |
//! | [`service`] | both services |
//! | [`queue`] | a queue as the CPU sees it |
//! | [`workers`] | threads that poll queues and answer |
//! | [`file`](mod@file) | models by their path: ONNX Runtime, TensorRT, the built-in engine |
//! | [`host`] | both services on the CPU |
//! | [`host_worker`] | a graph as a worker of a host dispatcher |
//! | [`passthrough`] | an engine that copies |
//! | `predecoder` (a feature) | the fused predecoder network as an engine, between floats or bits, in one instance or several |
//! | `tensorrt` (a feature) | models of TensorRT as engines |

#![forbid(unsafe_code)]

pub mod bindings;
pub mod counts;
pub mod engine;
pub mod error;
pub mod file;
pub mod host;
pub mod host_worker;
mod nodes;
pub mod options;
pub mod passthrough;
#[cfg(feature = "predecoder")]
mod predecoder;
pub mod queue;
pub mod service;
#[cfg(feature = "tensorrt")]
mod tensorrt;
pub mod workers;

pub use bindings::{Binding, Bindings, Pick};
pub use counts::{QueueStats, WorkerStats};
pub use engine::{Capturable, Captured};
pub use error::ServiceError;
pub use file::{FileOptions, Runner};
pub use host::{
    HostDecoderService, HostPredecoderService, HostServiceOptions, HostStats, HostStopReport,
    RunningPredecoder,
};
pub use host_worker::HostWorker;
pub use options::{ServiceOptions, Transfer};
pub use passthrough::PassThrough;
#[cfg(feature = "predecoder")]
pub use predecoder::PredecoderEngine;
pub use queue::Queue;
pub use service::{AiDecoderService, AiPredecoderService, Service};
pub use workers::{Job, Stage, StopReport, WorkerOptions, Workers};
