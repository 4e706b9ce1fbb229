//! State of a queue pair's poller: its queues, the poll under way, and the results of a round.

use super::block_state::CounterBits;
use super::{MOST_JOBS, Sizes};
use ringcall_gpu::team::Warp;
use ringcall_mlx5::counters::Event;
use ringcall_mlx5::doorbell::DoorbellRecord;
use ringcall_mlx5::layout::cqe::{self, Syndrome};
use ringcall_mlx5::sequence::Sequence;
use ringcall_mlx5::sq::SendQueue;

/// What a request that came alone counts as, when it arrives.
pub(super) const ALONE: CounterBits = CounterBits::NONE
    .event(Event::RxCompletions, true)
    .event(Event::RxRequests, true)
    .event(Event::RxReposted, true);

/// The word of a completion entry that holds the immediate; the next word holds the byte count.
pub(super) const IMMEDIATE_WORD: usize = cqe::offset::IMMEDIATE / 8;

/// The poller's view of the queues. All lanes have the same values, except for the fields that say lane 0.
#[derive(Debug)]
pub(super) struct PollerState {
    pub(super) sizes: Sizes,
    /// Completions read.
    pub(super) consumed: u64,
    /// Receive requests posted.
    pub(super) receives: u64,
    /// Send requests posted.
    pub(super) posted: u64,
    /// The slot that the next request is expected in.
    pub(super) guess: u32,
    /// Completions polled in one turn.
    pub(super) width: u32,
    /// Turns without anything.
    pub(super) idle: u32,
    /// Send requests that there is room for, as last seen.
    pub(super) free: u32,
    /// Whether counters have changed since they were published.
    pub(super) unshown: bool,
    /// When the counters were published last, in ticks.
    pub(super) shown: u64,
    pub(super) sequence: Sequence,
    /// Whether the queue pair is in the error state.
    pub(super) dead: Option<Syndrome>,
    pub(super) beat: u64,
    /// Of use where graphs are launched.
    pub(super) graphs: Tending,
    /// Valid on lane 0 only.
    pub(super) send: SendQueue,
    /// Valid on lane 0 only.
    pub(super) record: DoorbellRecord,
}

/// A poll that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingPoll {
    /// This lane's owner word.
    pub(super) owner: u64,
    /// The number of this lane's completion.
    pub(super) index: Option<u64>,
    /// The stop word; valid on lane 0 only.
    pub(super) stop: u64,
    /// Whether the stop word was polled.
    pub(super) stops: bool,
}

/// What one poll found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Poll {
    /// Completions, in a row.
    pub(super) ready: u32,
    /// This lane's owner word.
    pub(super) owner: u64,
    /// The stop word, if it was polled and set; else 0.
    pub(super) stop: u64,
}

impl PollerState {
    /// Doubles the completions of the next poll if this poll found all of its completions, else halves them.
    #[inline(always)]
    pub(super) fn adapt(&mut self, ready: u32) {
        self.width = if ready == self.width { (2 * ready).min(MOST_JOBS) } else { self.width / 2 }.max(1);
    }

    /// First word of the completion entry `ahead` of the next.
    #[inline(always)]
    pub(super) fn entry(&self, ahead: u32) -> usize {
        let index = self.consumed + u64::from(ahead);
        (index & u64::from(self.sizes.completions - 1)) as usize * cqe::WORDS
    }

    /// Copies lane 0's view of the send side to all lanes.
    #[inline(always)]
    pub(super) fn learn(&mut self, warp: Warp<'_>, room: u32) {
        const DEAD: u32 = 1 << 31;
        let dead = if self.send.dead().is_some() { DEAD } else { 0 };
        let word = warp.shuffle(room | dead, 0);
        self.free = word & !DEAD;
        if word & DEAD != 0 {
            self.dead = Some(Syndrome::FLUSHED);
        }
    }
}

/// The poller's view of graphs. All lanes have the same values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tending {
    /// Requests that wait.
    pub(super) waiting: u64,
    /// Answers that are outstanding.
    pub(super) outstanding: u64,
    /// Launches of earlier executions.
    pub(super) before: u64,
    /// The entry of the pending table that is tried next.
    pub(super) next: u32,
    pub(super) turns: u32,
}

impl Tending {
    /// Requests that are neither answered nor refused yet.
    pub(super) fn held(&self) -> u64 {
        self.waiting + self.outstanding
    }
}

/// What a round did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    /// Completions read.
    pub(super) completions: u64,
    /// Receive requests that were used up.
    pub(super) receives: u64,
    /// Send requests written.
    pub(super) sent: u64,
}

impl Done {
    /// For a request that came alone.
    pub(super) const ALONE: Self = Self { completions: 1, receives: 1, sent: 1 };
}

/// A response that was written, and its send request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// The calling lane's part of the send request, for a copy.
    pub(super) own: [u64; 2],
    /// The counters to add to.
    pub(super) counted: CounterBits,
}
