//! Exact counters of a pipeline, over restarts.

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
    /// Requests that have been completed, with any status. Each had exactly one completion.
    pub completed: u64,
    /// Completed requests that were answered with success.
    pub succeeded: u64,
    /// Completed requests that the dispatcher refused before a stage saw them, or that a stage failed.
    pub refused: u64,
    /// Completed requests that no stage finished: answered `TIMED_OUT`, `SHUTTING_DOWN` or `ABANDONED`.
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
    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.submitted.saturating_sub(self.completed)
    }
}

/// The live counters that [`Stats`] is read from. One thread writes each group.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Injector.
    pub(crate) submitted: CachePadded<DeviceU64>,
    pub(crate) stalls: DeviceU64,
    /// Consumer.
    consumer: CachePadded<[DeviceU64; 3]>,
    /// Any thread.
    pub(crate) panics: CachePadded<DeviceU64>,
    /// Dispatcher counters of finished runs: received, dispatched, late.
    past: [DeviceU64; 3],
    /// Twice the number of finished runs. Odd while a finished run's counters are being added to `past`.
    runs: DeviceU64,
}

/// The number of a run whose dispatcher may still count, and a function that reads its counters.
pub(crate) type Live<'a> = (u64, &'a dyn Fn() -> ringcall::dispatcher::Snapshot);

/// The counter that a completion goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Success = 0,
    Refused = 1,
    TimedOut = 2,
}

impl Counters {
    pub(crate) fn completed(&self, status: Status, error: Option<u16>) {
        let kind = match status {
            Status::OK if error.is_none() => Kind::Success,
            Status::TIMED_OUT | Status::SHUTTING_DOWN | Status::ABANDONED => Kind::TimedOut,
            _ => Kind::Refused,
        };
        // Release: a reader that sees this completion counted also sees its request counted.
        self.consumer[kind as usize].fetch_add(1, Ordering::Release);
    }

    /// The number of the current run, or of the next one if none runs.
    pub(crate) fn run(&self) -> u64 {
        self.runs.load(Ordering::Acquire)
    }

    /// Adds the counters of a run that has ended to `past`.
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
            // No run ended meanwhile, so no counter was read twice or missed.
            barrier::observe_from_peer();
            if run.is_multiple_of(2) && self.run() == run {
                return stats;
            }
            hint::spin();
        }
    }

    fn read(&self, external: bool, live: Option<Live<'_>>) -> Stats {
        // Completions first: counters read later can only have grown, so `completed` never exceeds `submitted`.
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
