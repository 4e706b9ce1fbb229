//! A handle that reads a running pipeline's counters and slots from any thread.

use crate::report::{Dump, StuckRequest};
use crate::state::State;
use crate::stats::Stats;
use ringcall::dispatcher::{SlotDump, Watch};
use ringcall_protocol::SlotIndex;
use std::sync::Arc;

/// Reads a running pipeline's counts and slots from any thread.
#[derive(Debug, Clone)]
pub struct Monitor {
    state: Arc<State>,
    /// `None` if the dispatcher is remote.
    watch: Option<Watch>,
    /// The run this monitor was made in.
    run: u64,
}

impl Monitor {
    pub(crate) fn new(state: &Arc<State>, watch: Option<Watch>) -> Self {
        Self { state: Arc::clone(state), watch, run: state.counters.run() }
    }

    /// Exact counts at this moment. A monitor of an earlier run sees the dispatcher counts of a later run once that run
    /// has ended.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = &self.state;
        let counters = || match (&self.watch, &state.remote) {
            (Some(watch), _) => watch.counters(),
            (None, Some(in_flight)) => in_flight.counters(),
            (None, None) => ringcall::dispatcher::Snapshot::default(),
        };
        state.counters.snapshot(state.ring.is_external(), Some((self.run, &counters)))
    }

    /// Every request in flight, every slot that is not idle, every worker.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let slots = match (&self.watch, &self.state.remote) {
            (Some(watch), _) => watch.dump(),
            (None, Some(in_flight)) => in_flight.dump(),
            (None, None) => SlotDump::default(),
        };
        Dump { requests: requests_of(&self.state), slots }
    }
}

/// The injector's requests in flight.
pub(crate) fn requests_of(state: &State) -> Vec<StuckRequest> {
    let now = ringcall_gpu::clock::now_ns();
    let entry = |slot: SlotIndex| {
        let entry = state.request_ids().get(slot)?;
        let age_us = now.saturating_sub(entry.submitted_ns) / 1000;
        Some(StuckRequest { slot: slot.get(), request_id: entry.request_id, age_us })
    };
    state.ring.geometry().iter().filter_map(entry).collect()
}
