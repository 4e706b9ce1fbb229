//! Reports of a stop, and dumps of busy slots and workers.

use crate::stats::Stats;
use ringcall::dispatcher::SlotDump;
use std::time::Duration;

/// A request of the injector that is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StuckRequest {
    /// The slot it is in.
    pub slot: u32,
    /// Its id.
    pub request_id: u64,
    /// For how long, µs.
    pub age_us: u64,
}

/// Every request in flight, every slot that is not idle, every worker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dump {
    /// The injector's requests in flight; none on an external ring.
    pub requests: Vec<StuckRequest>,
    /// Flags, phases and workers.
    pub slots: SlotDump,
}

impl std::fmt::Display for Dump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} requests not over", self.requests.len())?;
        for r in &self.requests {
            writeln!(f, "  request {}  slot {}  age {} us", r.request_id, r.slot, r.age_us)?;
        }
        self.slots.fmt(f)
    }
}

/// Report of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineStopReport {
    /// Requests that were answered while the pipeline drained.
    pub drained: u64,
    /// Requests answered `SHUTTING_DOWN` because the deadline had passed.
    pub dropped: u64,
    /// Requests, slots and workers that were busy when the deadline passed; `None` if none were.
    pub unfinished: Option<Dump>,
    /// Workers whose stage did not return. Their threads are abandoned; a restart starts new ones.
    pub stuck_workers: Vec<u32>,
    /// The dispatcher never returned: it is stuck in a launcher or a hook.
    pub stuck_dispatcher: bool,
    /// The completion handler never returned.
    pub stuck_consumer: bool,
    /// The counts, final for this run.
    pub stats: Stats,
    /// How long the stop took.
    pub took: Duration,
}

impl PipelineStopReport {
    /// A stage answered every submitted request, and every thread ended.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.dropped == 0
            && self.unfinished.is_none()
            && self.stuck_workers.is_empty()
            && !self.stuck_dispatcher
            && !self.stuck_consumer
            && self.stats.submitted == self.stats.completed
    }
}
