//! The decoding service with its predecoder on a GPU.
//!
//! ```text
//! host dispatcher:    injector ─► ring ─► dispatcher ─► worker: captured graph ─► matching ─► consumer
//! device dispatcher:  injector ─► mapped ring ─► kernel that stays: network ─► worker: matching ─► consumer
//! ```
//! Either way a request is the bit-packed detectors as they came, and what leaves the device are the bit-packed detectors
//! that the network's decisions leave and the logical frame: matching is skipped where none are left. A graph is launched by
//! the worker whose request it is, and the device runs one after the other; the kernel that stays serves one request after the
//! other without a launch, and any worker that is free takes its answer.
//!
//! | what | where |
//! |---|---|
//! | a network bound to an experiment, on a device | [`GpuPredecoder`] |
//! | its graphs, for [`Service::start`](ringcall_service::Service::start) | [`GpuPredecoder::inference`] |
//! | the device's dispatcher, for [`Service::start_remote`](ringcall_service::Service::start_remote) | [`GpuPredecoder::dispatcher`] |
//! | the table between detectors and the network's cells | [`wiring`] |

#![forbid(unsafe_code)]

mod dispatcher;
mod predecoder;

pub use dispatcher::GpuDispatcher;
pub use predecoder::{GpuPredecoder, GpuPredecoderError, wiring};
