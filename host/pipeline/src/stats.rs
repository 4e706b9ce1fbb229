//! Exact counts.

use ringcall::Status;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use std::sync::atomic::Ordering;

/// A snapshot of a pipeline's counts, over its whole life (restarts included).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests put into the ring by the injector; on an external ring, requests taken by the dispatcher.
    pub submitted: u64,
    /// Requests that are over, whatever their status: each had its completion.
    pub completed: u64,
    /// Of those, answered with success.
    pub succeeded: u64,
    /// Of those, answered with a protocol status before any stage saw them, or by a stage's own failure.
    pub refused: u64,
    /// Of those, answered `TIMED_OUT`, `SHUTTING_DOWN` or `ABANDONED`: nobody finished them.
    pub timed_out: u64,
    /// Requests that the dispatcher handed to workers.
    pub dispatched: u64,
    /// How often a submission found every slot taken.
    pub backpressure_stalls: u64,
    /// Results that came after their request had been answered otherwise.
    pub late_results: u64,
    /// Panics caught in stages and completion handlers.
    pub panics: u64,
}

impl Stats {
    /// Requests that are under way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.submitted.saturating_sub(self.completed)
    }
}

/// The live words behind [`Stats`], each group written by one thread.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Injector.
    pub(crate) submitted: CachePadded<DeviceU64>,
    pub(crate) stalls: DeviceU64,
    /// Consumer.
    consumer: CachePadded<[DeviceU64; 4]>,
    /// Anybody.
    pub(crate) panics: CachePadded<DeviceU64>,
    /// Dispatcher counters of runs that are over: received, dispatched, late.
    past: [DeviceU64; 3],
}

/// What a completion counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Success = 1,
    Refused = 2,
    TimedOut = 3,
}

impl Tally {
    pub(crate) fn completed(&self, status: Status, error: Option<u16>) {
        let kind = match status {
            Status::OK if error.is_none() => Kind::Success,
            Status::TIMED_OUT | Status::SHUTTING_DOWN | Status::ABANDONED => Kind::TimedOut,
            _ => Kind::Refused,
        };
        self.consumer[kind as usize].fetch_add(1, Ordering::Relaxed);
        // Last, with release: whoever sees the total sees its parts.
        self.consumer[0].fetch_add(1, Ordering::Release);
    }

    pub(crate) fn total_completed(&self) -> u64 {
        self.consumer[0].load(Ordering::Acquire)
    }

    pub(crate) fn absorb(&self, counters: &ringcall::dispatcher::Snapshot) {
        for (word, n) in self.past.iter().zip(dispatcher_counts(counters)) {
            word.fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot(&self, external: bool, live: Option<&ringcall::dispatcher::Snapshot>) -> Stats {
        let completed = self.total_completed();
        let [_, succeeded, refused, timed_out] =
            std::array::from_fn(|i| self.consumer[i].load(Ordering::Relaxed));
        let live = live.map(dispatcher_counts).unwrap_or_default();
        let [received, dispatched, late_results] =
            std::array::from_fn(|i| self.past[i].load(Ordering::Relaxed) + live[i]);
        Stats {
            submitted: if external { received } else { self.submitted.load(Ordering::Relaxed) },
            completed,
            succeeded,
            refused,
            timed_out,
            dispatched,
            backpressure_stalls: self.stalls.load(Ordering::Relaxed),
            late_results,
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}

fn dispatcher_counts(counters: &ringcall::dispatcher::Snapshot) -> [u64; 3] {
    use ringcall::wire::counter::Counter;
    [counters.get(Counter::Received), counters.get(Counter::Dispatched), counters.get(Counter::LateResults)]
}
