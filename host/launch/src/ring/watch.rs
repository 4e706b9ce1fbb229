//! Watching a running device dispatcher: counters, busy warps, hung handlers.

use super::LaunchStats;
use super::resources::Resources;
use ringcall_protocol::counters::Snapshot;
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::launch::{MAX_WARPS, control};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The work of one warp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// Block of the grid.
    pub block: usize,
    /// Warp of the block.
    pub warp: usize,
    /// The slot that it serves.
    pub slot: u32,
    /// Its function's id; 0 before it is known.
    pub function: FunctionId,
    /// Its function's name, if the table has it.
    pub name: Option<String>,
    /// How long the warp has served it, on the device's clock, as of the dispatcher's last report (10 to 100 µs ago).
    pub since: Duration,
}

/// A handler that does not return.
pub type Hung = Busy;

/// Reads a device dispatcher's counters and the work of its warps, from any thread, also after the dispatcher has
/// ended.
#[derive(Debug, Clone)]
pub struct Watch {
    resources: Arc<Resources>,
}

impl Watch {
    pub(super) fn new(resources: &Arc<Resources>) -> Self {
        Self { resources: Arc::clone(resources) }
    }

    /// All counters as of 10 to 100 µs ago, read from mapped memory.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let mut sums = [0; Counter::COUNT];
        for block in 0..self.resources.blocks() {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum += self.resources.read(block, control::COUNTERS + index);
            }
        }
        Snapshot::from_counts(sums)
    }

    /// Launches that the kernel has made by itself so far.
    #[must_use]
    pub fn launches(&self) -> LaunchStats {
        LaunchStats::of(|word| self.resources.read(0, word))
    }

    /// The work of every busy warp.
    #[must_use]
    pub fn busy(&self) -> Vec<Busy> {
        let mut all = Vec::new();
        for block in 0..self.resources.blocks() {
            let now = self.resources.read(block, control::NOW);
            for warp in 0..MAX_WARPS {
                let at = control::BUSY + warp * control::BUSY_WORDS;
                let record = self.resources.read(block, at);
                if record == 0 {
                    continue;
                }
                let id = (record >> 32) as u32;
                all.push(Busy {
                    block,
                    warp,
                    slot: (record as u32).wrapping_sub(1),
                    function: FunctionId(id),
                    name: self.resources.name_of(id).map(str::to_owned),
                    since: self.resources.ticks(now.saturating_sub(self.resources.read(block, at + 1))),
                });
            }
        }
        all
    }

    /// Handlers that have been running for longer than `limit`.
    ///
    /// Reads twice if the dispatcher's own clock does not advance, because its poller runs the handler and does the
    /// maintenance as well (one warp, or a cooperative grid). Such a handler counts as hung if it was busy in both
    /// reads, `limit` apart.
    #[must_use]
    pub fn hung(&self, limit: Duration) -> Vec<Hung> {
        let first = self.busy();
        let beat = self.beat();
        let begin = Instant::now();
        while begin.elapsed() < limit && self.beat() == beat {
            std::thread::yield_now();
        }
        let still = self.beat() == beat;
        self.busy()
            .into_iter()
            .filter_map(|mut now| {
                let before = first.iter().find(|b| {
                    (b.block, b.warp, b.slot, b.function) == (now.block, now.warp, now.slot, now.function)
                })?;
                if still {
                    now.since = before.since + begin.elapsed();
                }
                (now.since >= limit).then_some(now)
            })
            .collect()
    }

    fn beat(&self) -> u64 {
        (0..self.resources.blocks()).map(|block| self.resources.read(block, control::HEARTBEAT)).sum()
    }

    /// Whether the dispatcher's maintenance continues. Returns false after the dispatcher has ended, or if a handler
    /// on its poller never returns. Waits up to `timeout`.
    #[must_use]
    pub fn is_alive(&self, timeout: Duration) -> bool {
        let beat = self.beat();
        let begin = Instant::now();
        while begin.elapsed() < timeout {
            if self.beat() != beat {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}
