//! The decoding service with its predecoder, or its decoder, on a GPU.
//!
//! ```text
//! host dispatcher:    injector ─► ring ─► dispatcher ─► worker: captured graph ─► matching ─► consumer
//! ready flags:        injector ─► ring ─► dispatcher: captured graph, which raises a flag ─► worker: matching ─► consumer
//! device dispatcher:  injector ─► mapped ring ─► kernel that stays: network ─► worker: matching ─► consumer
//! hand-off:           anybody  ─► mapped ring ─► graph launched from the device: network ─► queue ─► worker: matching ─► ring
//! ```
//! In each way a request is the bit-packed detectors as they came, and what leaves the device are the
//! bit-packed detectors that the network's decisions leave and the logical frame: matching is skipped where
//! none are left. A graph is launched by the worker whose request it is, and the device runs one after the
//! other; with ready flags by the dispatcher, on the worker's stream, and the worker polls the flag; the kernel that stays serves one request after the other without a launch, and any worker that is
//! free takes its answer. Hand-off is a [service](ringcall_inference_service::AiPredecoderService) whose
//! graphs leave residuals for matching in queues; its workers answer in the ring, to the peer that asked.
//!
//! | what | where |
//! |---|---|
//! | a network bound to an experiment, on a device | [`GpuPredecoder`] |
//! | its graphs, for [`Service::start`](crate::Service::start) | [`GpuPredecoder::inference`] |
//! | graphs that raise ready flags, for the same | [`GpuPredecoder::launched`] |
//! | the device's dispatcher, for [`Service::start_remote`](crate::Service::start_remote) | [`GpuPredecoder::dispatcher`] |
//! | Relay-BP, the whole decode, on a device | [`GpuRelay`] |
//! | an engine for services, for a network bound to an experiment | [`GpuPredecoder::engine`] |
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
