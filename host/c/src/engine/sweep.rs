//! Workers whose graphs have ended.
//!
//! What became of their slots is settled under the lock. Whoever sweeps is told without it, so that he may call the engine, and
//! a worker is idle only after that.

use super::lane::LaneState;
use super::{Engine, LINE, UNANSWERED};
use crate::handles::lock;
use crate::status::{CUDA_UNKNOWN, Fault};
use ringcall_wire::flag::{self, TxState};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Sweeps that find nothing between two looks for failed streams.
pub(super) const LOOK: u32 = 1 << 14;
/// How long a drain waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a worker's graph ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) slot: u32,
    pub(crate) failed: bool,
}

/// Workers that ended, a bit for each.
#[derive(Debug, Clone, Copy, Default)]
struct Gone {
    all: u64,
    failed: u64,
    /// Their slots are other workers' by now.
    stale: u64,
}

impl Engine {
    /// Gives back the workers whose graphs have ended; `ended` is told of each before that, unless its slot has another
    /// request by now.
    pub(crate) fn sweep(&self, mut ended: impl FnMut(Ended)) {
        if self.is_idle() {
            return;
        }
        let Gone { all, failed, stale } = self.settle();
        for worker in (0..self.workers.len()).filter(|worker| all >> worker & 1 == 1) {
            if stale >> worker & 1 == 0 {
                let slot = self.tags[worker].load(Ordering::Relaxed) as u32;
                ended(Ended { slot, failed: failed >> worker & 1 == 1 });
            }
            let mut turns = lock(&self.turns);
            turns.held &= !(1 << worker);
            // Release: pairs with `launch`.
            self.idle.fetch_or(1 << worker, Ordering::Release);
        }
    }

    /// Finds the workers that have ended, and holds them, so that nobody else finds them; marks the slots of those that failed.
    fn settle(&self) -> Gone {
        let mut turns = lock(&self.turns);
        turns.idle_sweeps = turns.idle_sweeps.wrapping_add(1);
        let look = turns.idle_sweeps.is_multiple_of(LOOK);
        // Under the lock: who is being launched is held.
        let busy = !self.idle.load(Ordering::Acquire) & self.mask & !turns.held;
        let mut gone = Gone { stale: turns.stale, ..Gone::default() };
        for worker in (0..self.workers.len()).filter(|worker| busy >> worker & 1 == 1) {
            let bit = 1 << worker;
            let stale = turns.stale & bit != 0;
            let slot = self.tags[worker].load(Ordering::Relaxed) as u32;
            let done = if self.answer_ends {
                // A slot is another worker's only after this one had answered.
                stale || !self.is_unanswered(slot)
            } else {
                // Acquire: pairs with the stream's write behind the graph.
                self.ends.load(worker * LINE, Ordering::Acquire) == turns.launches[worker]
            };
            let failure = match (done, (look && !done).then(|| self.workers[worker].lane.state())) {
                (true, _) => None,
                (false, Some(LaneState::Failed(code))) => Some(code),
                // All has ended: the answer came between the two looks, or never will.
                (false, Some(LaneState::Done)) if self.answer_ends => None,
                (false, _) => continue,
            };
            gone.all |= bit;
            if !stale && (failure.is_some() || self.is_unanswered(slot)) {
                gone.failed |= bit;
                let code = failure.unwrap_or(CUDA_UNKNOWN as u16);
                self.tx_flags.store(slot as usize, flag::error(code), Ordering::Release);
            }
        }
        turns.held |= gone.all;
        gone
    }

    /// Whether a slot that was launched has no answer yet. One whose answer was taken is not told from an answered one.
    pub(super) fn is_unanswered(&self, slot: u32) -> bool {
        match TxState::decode(self.tx_flags.load(slot as usize, Ordering::Acquire)) {
            TxState::InFlight => true,
            TxState::Empty if self.skip_marks && !self.in_place => {
                self.responses.load(self.response_word(slot), Ordering::Relaxed) == UNANSWERED
            }
            TxState::Empty | TxState::Ready(_) | TxState::Error(_) => false,
        }
    }

    /// Waits for every worker, within bounds.
    ///
    /// # Errors
    /// A graph still runs.
    pub(crate) fn drain(&self) -> Result<(), Fault> {
        let begin = Instant::now();
        while !self.is_idle() && begin.elapsed() < PATIENCE {
            self.sweep(|_| ());
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
