//! Block state of a queue pair's dispatcher: the jobs of the round, and the counters of the block.

use super::MOST_JOBS;
use crate::ring::launcher::LaunchState;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::counters::Event;
use ringcall_wire::counter::Counter;

/// In place of a number of jobs: the end.
pub(super) const EXIT: u64 = u64::MAX;

/// One request to serve.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    /// Its slot, below the number of slots.
    pub(super) slot: u32,
    /// Bytes received, no more than a slot has.
    pub(super) bytes: u32,
    /// Number of the send request that answers it.
    pub(super) index: u64,
}

impl Job {
    /// Slot and bytes in one word, which is never 0.
    #[inline(always)]
    pub(super) const fn word(slot: u32, bytes: u32) -> u64 {
        1 << 63 | (bytes as u64) << 32 | slot as u64
    }

    #[inline(always)]
    pub(super) const fn of(word: u64, index: u64) -> Self {
        Self { slot: word as u32, bytes: (word >> 32) as u32 & (u32::MAX >> 1), index }
    }
}

/// What one request adds to the counts: one to each counter and event whose bit is set.
///
/// On a device the sum of 64 bits in shared memory is a loop, a tenth of a microsecond each; so what a
/// request adds is gathered, and added by all lanes at once, when no request waits for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CounterBits {
    counters: u32,
    events: u32,
}

const _: () = assert!(Counter::COUNT <= 32 && Event::COUNT <= 32, "a bit each");

impl CounterBits {
    /// Nothing.
    pub(super) const NONE: Self = Self { counters: 0, events: 0 };

    #[inline(always)]
    pub(super) const fn counter(self, counter: Counter) -> Self {
        Self { counters: self.counters | 1 << counter as u32, ..self }
    }

    /// The event, if it happened.
    #[inline(always)]
    pub(super) const fn event(self, event: Event, happened: bool) -> Self {
        Self { events: self.events | (happened as u32) << event as u32, ..self }
    }

    #[inline(always)]
    pub(super) const fn and(self, other: Self) -> Self {
        Self { counters: self.counters | other.counters, events: self.events | other.events }
    }
}

/// The shared words of one block. All zero is a block state on which nothing happened yet, so a kernel makes one by clearing
/// shared memory.
///
/// Jobs are the poller's to write and everybody's to read, in turns that the block's barrier keeps apart. Counts are added
/// to by any warp. The last words are used where graphs are launched.
#[derive(Debug, Default)]
#[repr(C)]
pub struct QueuePairBlockState {
    jobs: [BlockU64; MOST_JOBS as usize],
    count: BlockU64,
    first: BlockU64,
    counts: [BlockU64; Counter::COUNT],
    events: [BlockU64; Event::COUNT],
    /// Graph launches.
    pub(super) launches: LaunchState,
    /// Responses of this round, and requests that it deferred.
    sent: BlockU64,
    deferred: BlockU64,
    /// Groups of the pending table's entries in which requests may wait: a bit a group.
    groups: [BlockU64; 2],
}

/// Groups of entries that a block state tells apart: those of 4096 slots in groups of 32.
pub(super) const GROUPS: u32 = 128;

impl QueuePairBlockState {
    #[inline(always)]
    pub(super) fn jobs(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many jobs there are, and the number of the first one's answer.
    #[inline(always)]
    pub(super) fn set_jobs(&self, count: u64, first: u64) {
        self.count.store(count, Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn set_job(&self, index: u32, word: u64) {
        if let Some(job) = self.jobs.get(index as usize) {
            job.store(word, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn job(&self, index: u32) -> Job {
        let word = self.jobs.get(index as usize).map_or(0, |job| job.load(Ordering::Relaxed));
        Job::of(word, self.first.load(Ordering::Relaxed) + u64::from(index))
    }

    /// A round begins whose first answer has this number. By the poller's lane 0, where graphs are launched.
    #[inline(always)]
    pub(super) fn begin_round(&self, first: u64) {
        self.first.store(first, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
        self.deferred.store(0, Ordering::Relaxed);
    }

    /// The number of the next answer of this round: answers are sent in the order in which they ask for it. By one lane.
    #[inline(always)]
    pub(super) fn take_turn(&self) -> u64 {
        self.first.load(Ordering::Relaxed) + self.sent.fetch_add(1, Ordering::Relaxed)
    }

    /// Answers of this round, and requests that it deferred. After the barrier that ends it.
    #[inline(always)]
    pub(super) fn round(&self) -> [u64; 2] {
        [self.sent.load(Ordering::Relaxed), self.deferred.load(Ordering::Relaxed)]
    }

    /// A request was deferred, in an entry of this group. By one lane.
    #[inline(always)]
    pub(super) fn defer(&self, group: u32) {
        self.deferred.fetch_add(1, Ordering::Relaxed);
        self.mark_group(group);
    }

    /// Requests may wait in this group. By one lane.
    #[inline(always)]
    pub(super) fn mark_group(&self, group: u32) {
        if let Some(word) = self.groups.get(group as usize / 64) {
            word.fetch_or(1 << (group % 64), Ordering::Relaxed);
        }
    }

    /// None waits in this group. By the poller's lane 0, between rounds.
    #[inline(always)]
    pub(super) fn clear_group(&self, group: u32) {
        if let Some(word) = self.groups.get(group as usize / 64) {
            word.fetch_and(!(1 << (group % 64)), Ordering::Relaxed);
        }
    }

    /// The first group from `from` on, around the end, in which requests may wait.
    #[inline(always)]
    pub(super) fn next_group(&self, from: u32) -> Option<u32> {
        let words: [u64; 2] = core::array::from_fn(|at| self.groups[at].load(Ordering::Relaxed));
        let all = u128::from(words[1]) << 64 | u128::from(words[0]);
        let from = from % GROUPS;
        let ahead = all >> from << from;
        let found = if ahead != 0 { ahead } else { all };
        (found != 0).then(|| found.trailing_zeros())
    }

    /// Counts one.
    #[inline(always)]
    pub(super) fn count(&self, counter: Counter) {
        if let Some(word) = self.counts.get(counter as usize) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts events.
    #[inline(always)]
    pub(super) fn add(&self, event: Event, n: u64) {
        if n > 0
            && let Some(word) = self.events.get(event as usize)
        {
            word.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Adds what a request adds, by all lanes of a warp.
    #[inline(always)]
    pub(super) fn count_bits(&self, warp: Warp<'_>, counted: CounterBits) {
        self.each(warp, counted, |word| {
            word.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// The same by the poller between rounds, when no other warp counts. Seen by all lanes after it.
    #[inline(always)]
    pub(super) fn count_bits_alone(&self, warp: Warp<'_>, counted: CounterBits) {
        self.each(warp, counted, |word| word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
        warp.sync();
    }

    #[inline(always)]
    fn each(&self, warp: Warp<'_>, counted: CounterBits, add: impl Fn(&BlockU64)) {
        for (words, bits) in [(&self.counts[..], counted.counters), (&self.events[..], counted.events)] {
            for index in warp.stride(words.len()) {
                if let Some(word) = words.get(index)
                    && bits >> index & 1 == 1
                {
                    add(word);
                }
            }
        }
    }

    /// Counters `2 * pair` and the next.
    #[inline(always)]
    pub(super) fn counter_pair(&self, pair: usize) -> [u64; 2] {
        load_pair(&self.counts, pair)
    }

    /// Events `2 * pair` and the next.
    #[inline(always)]
    pub(super) fn event_pair(&self, pair: usize) -> [u64; 2] {
        load_pair(&self.events, pair)
    }

    /// Continues from earlier counts, one counter a lane: they cross the bus in one burst. Seen by all after
    /// their barrier.
    #[inline(always)]
    pub(super) fn resume(
        &self,
        warp: Warp<'_>,
        counts: impl Fn(usize) -> u64,
        events: impl Fn(usize) -> u64,
    ) {
        for index in warp.stride(Counter::COUNT) {
            if let Some(word) = self.counts.get(index) {
                word.store(counts(index), Ordering::Relaxed);
            }
        }
        for index in warp.stride(Event::COUNT) {
            if let Some(word) = self.events.get(index) {
                word.store(events(index), Ordering::Relaxed);
            }
        }
    }
}

#[inline(always)]
fn load_pair(words: &[BlockU64], pair: usize) -> [u64; 2] {
    [0, 1].map(|half| words.get(2 * pair + half).map_or(0, |word| word.load(Ordering::Relaxed)))
}
