//! Exact counts.

use ringcall::Status;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_gpu::{barrier, hint};
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
    consumer: CachePadded<[DeviceU64; 3]>,
    /// Anybody.
    pub(crate) panics: CachePadded<DeviceU64>,
    /// Dispatcher counters of runs that are over: received, dispatched, late.
    past: [DeviceU64; 3],
    /// Twice the number of runs that are over; odd while the counters of one are being added to `past`.
    runs: DeviceU64,
}

/// A run whose dispatcher may still count: its number, and what reads its counters.
pub(crate) type Live<'a> = (u64, &'a dyn Fn() -> ringcall::dispatcher::Snapshot);

/// What a completion counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Success = 0,
    Refused = 1,
    TimedOut = 2,
}

impl Tally {
    pub(crate) fn completed(&self, status: Status, error: Option<u16>) {
        let kind = match status {
            Status::OK if error.is_none() => Kind::Success,
            Status::TIMED_OUT | Status::SHUTTING_DOWN | Status::ABANDONED => Kind::TimedOut,
            _ => Kind::Refused,
        };
        // Release: whoever sees the completion counted sees its request counted.
        self.consumer[kind as usize].fetch_add(1, Ordering::Release);
    }

    /// The number of the run that is under way, or of the next one.
    pub(crate) fn run(&self) -> u64 {
        self.runs.load(Ordering::Acquire)
    }

    /// A run is over: its counts move to the past.
    pub(crate) fn absorb(&self, counters: &ringcall::dispatcher::Snapshot) {
        self.runs.fetch_add(1, Ordering::AcqRel);
        for (word, n) in self.past.iter().zip(dispatcher_counts(counters)) {
            word.fetch_add(n, Ordering::AcqRel);
        }
        self.runs.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn snapshot(&self, external: bool, live: Option<Live<'_>>) -> Stats {
        loop {
            let run = self.run();
            let stats = self.read(external, live.filter(|&(of, _)| of == run));
            // Nothing moved to the past meanwhile: nothing was read twice or not at all.
            barrier::observe_from_peer();
            if run.is_multiple_of(2) && self.run() == run {
                return stats;
            }
            hint::spin();
        }
    }

    fn read(&self, external: bool, live: Option<Live<'_>>) -> Stats {
        // Completions first: what is read later may only have gone up, so no more are completed than submitted.
        let [succeeded, refused, timed_out] =
            std::array::from_fn(|i| self.consumer[i].load(Ordering::Acquire));
        let live = live.map(|(_, counters)| dispatcher_counts(&counters())).unwrap_or_default();
        let [received, dispatched, late_results] =
            std::array::from_fn(|i| self.past[i].load(Ordering::Acquire) + live[i]);
        Stats {
            submitted: if external { received } else { self.submitted.load(Ordering::Relaxed) },
            completed: succeeded + refused + timed_out,
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
