//! Collection of workers whose graphs have ended.
//!
//! The outcome of each slot is decided under the lock. The callback runs without the lock, so that it may call the
//! engine; a worker is idle only after the callback.

use super::{Engine, LINE};
use crate::handles::lock;
use crate::status::Fault;
use ringcall_launch::ring::worker_pool::{Answer, CompletionProbe, Seen, WorkerStream};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::flag;
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a drain waits.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How a worker's graph ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) slot: u32,
    pub(crate) failed: bool,
}

/// Writes a response with a failed launch's status, for a sender that finds no other response.
pub(super) fn write_failure(ring: &SharedRing, slot: SlotIndex) {
    let request = RequestHeader::from_words(ring.request_header(slot));
    let answer = ResponseHeader::reply(&request, Status::LAUNCH_FAILED.0, 0);
    ring.write_response(slot, answer.to_words(), &[]);
}

/// Workers that ended, a bit for each.
#[derive(Debug, Clone, Copy, Default)]
struct Gone {
    all: u64,
    failed: u64,
    /// Workers whose slots belong to other workers by now.
    stale: u64,
}

impl Engine {
    /// Releases the workers whose graphs have ended. Calls `ended` for each before its release, unless its slot holds
    /// another request by now.
    pub(crate) fn sweep(&self, mut ended: impl FnMut(Ended)) {
        if self.is_idle() {
            return;
        }
        let Gone { all, failed, stale } = self.collect();
        for worker in (0..self.workers.len()).filter(|worker| all >> worker & 1 == 1) {
            if stale >> worker & 1 == 0 {
                let slot = self.tags[worker].load(Ordering::Relaxed) as u32;
                ended(Ended { slot, failed: failed >> worker & 1 == 1 });
            }
            lock(&self.pool).release(worker);
        }
    }

    /// Collects the workers that have ended, so that no other caller finds them, and marks the slots of failed
    /// launches.
    fn collect(&self) -> Gone {
        let mut pool = lock(&self.pool);
        let ask = pool.due();
        let mut gone = Gone::default();
        for worker in pool.workers() {
            let Some(Seen { slot, answer, end: Some(_) }) = pool.poll(worker, ask, self) else { continue };
            let bit = 1 << worker;
            gone.all |= bit;
            match answer {
                Some(Answer::Given) => (),
                Some(Answer::Never(code)) => {
                    gone.failed |= bit;
                    self.tx_flags.store(slot as usize, flag::error(code), Ordering::Release);
                }
                None => gone.stale |= bit,
            }
            pool.leave(worker);
        }
        gone
    }

    /// Waits for every worker, within bounds. While a loop drives the engine, that finds the ends.
    ///
    /// # Errors
    /// A graph still runs.
    pub(crate) fn drain(&self) -> Result<(), Fault> {
        let begin = Instant::now();
        while !self.is_idle() && begin.elapsed() < TIMEOUT {
            if let Ok(_call) = self.lease.call() {
                self.sweep(|_| ());
            }
            std::thread::yield_now();
        }
        self.ended()
    }

    /// # Errors
    /// A graph still runs.
    pub(crate) fn ended(&self) -> Result<(), Fault> {
        if self.is_idle() {
            return Ok(());
        }
        Err(Fault::internal(
            "a graph still runs: it may write to its slot, so the ring must stay until it has ended",
        ))
    }
}

impl CompletionProbe for Engine {
    fn has_ended(&self, worker: usize, number: u64, answered: bool) -> bool {
        if self.answer_ends {
            // A slot is another worker's only after this one had answered.
            return answered;
        }
        // Acquire: pairs with the stream's write after the graph.
        self.ends.load(worker * LINE, Ordering::Acquire) == number
    }

    fn state(&self, worker: usize) -> WorkerStream {
        self.workers[worker].stream.state()
    }
}
