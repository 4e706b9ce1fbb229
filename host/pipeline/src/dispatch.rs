//! The part of a pipeline that differs by where requests are dispatched: in this process or on a device.

use crate::config::StageConfig;
use crate::error::PipelineError;
use crate::report::Dump;
use crate::state::State;
use crate::threads::{ConsumerState, Stop, ThreadSet};
use ringcall::dispatcher::Watch;
use std::sync::Arc;

/// Starts and stops what lies between a request in the ring and its answer: dispatcher and workers.
pub(crate) trait Dispatch: Send {
    /// The number of equal parts of the ring that are served independently.
    fn parts(&self) -> u32 {
        1
    }

    /// The number of threads of this process that poll the ring, besides workers, consumer and producer.
    fn polling_threads(&self) -> usize {
        0
    }

    /// Starts workers, consumer and dispatcher. After an error, nothing runs once `threads` is dropped.
    fn start(
        &mut self,
        state: &Arc<State>,
        config: &StageConfig,
        threads: &mut ThreadSet,
        consumer: ConsumerState,
    ) -> Result<(), PipelineError>;

    /// A handle to the counters of a host dispatcher that runs.
    fn watch(&self) -> Option<Watch>;

    /// Answers the requests in flight, stops dispatcher and workers, and tells the consumer to end.
    fn stop(&mut self, state: &Arc<State>, threads: &mut ThreadSet, stop: Stop) -> Drained;
}

/// What [`Dispatch::stop`] did. For most fields, see [`StoppedPipeline`](crate::StoppedPipeline) and [`PipelineStopReport`](crate::PipelineStopReport).
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub(crate) drained: u64,
    pub(crate) dropped: u64,
    pub(crate) unfinished: Option<Dump>,
    pub(crate) stuck_workers: Vec<u32>,
    pub(crate) stuck_dispatcher: bool,
    pub(crate) failure: Option<String>,
    pub(crate) garbage: u64,
    /// Everything ended, and may be started again.
    pub(crate) can_restart: bool,
}
