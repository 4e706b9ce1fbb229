//! Benchmarks of the device dispatcher. Without a GPU they are skipped, with a message that says why.

mod baseline;
mod call;
mod copies;
mod graph;
mod host_graph;
mod queue_pair;
mod ring;

pub(super) use baseline::run as baseline;
pub(super) use call::{cooperative, device_call};
pub(super) use copies::{Way, run as copies};
pub(super) use graph::{burst, launches};
pub(super) use host_graph::run as host_graph;
pub(super) use queue_pair::{Kernels, run as queue_pair};
pub(super) use ring::round_trips;

use anyhow::Result;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use std::sync::{Arc, OnceLock};

/// The first device's context, created once.
pub(super) fn context() -> Result<Arc<Context>, CudaError> {
    static CONTEXT: OnceLock<Result<Arc<Context>, CudaError>> = OnceLock::new();
    CONTEXT.get_or_init(|| Driver::load()?.device(0)?.context()).clone()
}

/// The device's name, if there is one.
pub(super) fn name() -> Option<String> {
    context().ok()?.device().name().ok()
}

/// A request without an answer after this time counts as lost.
const TIMEOUT_NS: u64 = 5_000_000_000;
