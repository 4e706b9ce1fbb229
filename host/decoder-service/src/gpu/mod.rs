//! The decoding service with its predecoder, or its decoder, on a GPU.
//!
//! ```text
//! host dispatcher:    injector ─► ring ─► dispatcher ─► worker: captured graph ─► matching ─► consumer
//! ready flags:        injector ─► ring ─► dispatcher: captured graph, which raises a flag ─► worker: matching ─► consumer
//! device dispatcher:  injector ─► mapped ring ─► kernel that stays: network ─► worker: matching ─► consumer
//! hand-off:           anybody  ─► mapped ring ─► graph launched from the device: network ─► queue ─► worker: matching ─► ring
//! ```
//! In each way a request is the bit-packed detectors as they came, and the device returns the bit-packed detectors that the
//! network's decisions leave, and the logical frame. Matching is skipped if no detectors are left. With the host dispatcher, each
//! worker launches the graph for its request, and the device runs one graph after another. With ready flags, the dispatcher
//! launches the graph on the worker's stream, and the worker polls the flag. With the device dispatcher, a persistent kernel
//! serves one request after another without a launch, and any free worker takes its answer. Hand-off is a
//! [service](ringcall_inference_service::AiPredecoderService) whose graphs put residuals for matching into queues; its workers
//! answer in the ring, to the peer that asked.
//!
//! | contents | item |
//! |---|---|
//! | a network bound to an experiment, on a device | [`GpuPredecoder`] |
//! | its graphs, for [`Service::start`](crate::Service::start) | [`GpuPredecoder::inference`] |
//! | graphs that raise ready flags, for the same | [`GpuPredecoder::launched`] |
//! | the device's dispatcher, for [`Service::start_remote`](crate::Service::start_remote) | [`GpuPredecoder::dispatcher`] |
//! | Relay-BP, the whole decode, on a device | [`GpuRelay`] |
//! | an engine for services, from a network bound to an experiment | [`GpuPredecoder::engine`] |
//! | matching as the stage of such a service's workers | [`MatchingStage`] |
//! | the table between detectors and the network's cells | [`wiring`] |

mod dispatcher;
mod error;
mod handoff;
mod lanes;
mod predecoder;
mod relay;

pub use dispatcher::GpuDispatcher;
pub use error::GpuPredecoderError;
pub use handoff::{HandoffError, MatchingStage};
pub use lanes::{Copies, GpuLanes};
pub use predecoder::{GpuPredecoder, wiring};
pub use relay::{GpuRelay, GpuRelayError};
