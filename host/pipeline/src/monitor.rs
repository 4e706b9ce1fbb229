//! Counts and slots of a running pipeline, from any thread.

use crate::report::{Dump, StuckRequest};
use crate::state::State;
use crate::stats::Stats;
use ringcall::dispatcher::{SlotDump, Watch};
use ringcall_dispatch::SlotIndex;
use std::sync::Arc;

/// Reads a running pipeline's counts and slots from any thread.
#[derive(Debug, Clone)]
pub struct Monitor {
    state: Arc<State>,
    /// None where the dispatcher is elsewhere.
    watch: Option<Watch>,
    /// The run this monitor was made in.
    run: u64,
}

impl Monitor {
    pub(crate) fn new(state: &Arc<State>, watch: Option<Watch>) -> Self {
        Self { state: Arc::clone(state), watch, run: state.tally.run() }
    }

    /// Exact counts, now. After the run this monitor was made in, what the dispatchers of later runs count shows once
    /// those are over.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = &self.state;
        let counters = || match (&self.watch, &state.remote) {
            (Some(watch), _) => watch.counters(),
            (None, Some(desks)) => desks.counters(),
            (None, None) => ringcall::dispatcher::Snapshot::default(),
        };
        state.tally.snapshot(state.ring.is_external(), Some((self.run, &counters)))
    }

    /// Every request that is not over, every slot that is not idle, every worker.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let slots = match (&self.watch, &self.state.remote) {
            (Some(watch), _) => watch.dump(),
            (None, Some(desks)) => desks.dump(),
            (None, None) => SlotDump::default(),
        };
        Dump { requests: requests_of(&self.state), slots }
    }
}

/// The injector's requests that are not over.
pub(crate) fn requests_of(state: &State) -> Vec<StuckRequest> {
    let now = ringcall_gpu::clock::now_ns();
    let booked = |slot: SlotIndex| {
        let booked = state.book().look(slot)?;
        let age_us = now.saturating_sub(booked.submitted_ns) / 1000;
        Some(StuckRequest { slot: slot.get(), request_id: booked.request_id, age_us })
    };
    state.ring.geometry().iter().filter_map(booked).collect()
}
