//! The pending table of a queue pair: requests that wait for an executable, and answers that graphs have outstanding.
//!
//! The table is in device memory. It outlives a relaunch of the kernel and a restart by the host, so every request that was
//! taken from the NIC is answered in the end.
//!
//! An *executable's entry* holds the executable's answer until the dispatcher has sent it. The mailbox and the answer become
//! free at different times; the executable is launched again when both are free.
//!
//! A *request's entry* holds a private copy of the request. The receive request is posted again at once, so the receive
//! credit never shrinks, and a graph that is held back delays no other request.
//!
//! # What orders what
//! | writer | reader | how |
//! |---|---|---|
//! | a graph: its answer | the poller | the answer's flag: release; relaxed, then an acquire fence |
//! | a graph: its flag, then its mailbox's state | the poller, of a graph that ended without an answer | state: release, acquire; then the flag |
//! | the poller: answer read, flag cleared, outstanding cleared | the next launch of the executable | the launch's own fence |
//! | a warp: a request deferred | the poller | the block's barrier |

use super::block_state::Job;
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::QueueError;
use ringcall_protocol::ring::ResponseAddresses;
use ringcall_wire::header::{HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;

/// Entries of requests that are polled together.
pub(super) const GROUP: u32 = 32;
/// Value of an answer's flag.
const ANSWERED: u64 = 1;

/// Where things lie on a pending table. The host allocates by it, the kernel finds by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    execs: u32,
    slots: u32,
    request_words: u32,
    answer_words: u32,
}

impl Plan {
    /// For so many executables and request slots, of these strides (bytes, multiples of 16).
    #[must_use]
    pub const fn new(execs: u32, slots: u32, rx_stride: u32, tx_stride: u32) -> Self {
        Self { execs, slots, request_words: slot_words(rx_stride), answer_words: slot_words(tx_stride) }
    }

    /// Executables.
    #[must_use]
    pub const fn execs(&self) -> u32 {
        self.execs
    }

    /// Word of an executable's flag: 1 when its answer is there. Set by the graph, cleared by the dispatcher.
    const fn flag(&self, exec: u32) -> usize {
        exec as usize
    }

    /// Word of what an executable has outstanding: the address of its mailbox, 0 for nothing. The dispatcher's.
    const fn outstanding(&self, exec: u32) -> usize {
        line(self.execs) + exec as usize
    }

    /// Word of a request's entry: 0 free, else what waits there.
    const fn waiting(&self, entry: u32) -> usize {
        2 * line(self.execs) + entry as usize
    }

    /// First word of a request that waits.
    const fn request(&self, entry: u32) -> usize {
        2 * line(self.execs) + line(self.slots) + entry as usize * self.request_words as usize
    }

    /// First word of an answer.
    const fn answer(&self, exec: u32) -> usize {
        self.request(self.slots) + exec as usize * self.answer_words as usize
    }

    /// All of it, in words.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.answer(self.execs)
    }
}

/// Words of a slot, at least those of a header.
const fn slot_words(stride: u32) -> u32 {
    let least = HEADER_WORDS as u32 * 8;
    let bytes = if stride < least { least } else { stride };
    bytes.next_multiple_of(16) / 8
}

/// On lines of their own, so that pairs are aligned.
const fn line(words: u32) -> usize {
    words.next_multiple_of(16) as usize
}

impl Default for Plan {
    /// For what launches nothing.
    fn default() -> Self {
        Self::new(0, 0, 0, 0)
    }
}

/// The pending table. The dispatcher's, but for the flags and answers, which graphs write.
#[derive(Debug, Clone)]
pub struct PendingTable {
    memory: Words,
    plan: Plan,
}

impl PendingTable {
    /// A pending table over zeroed device memory, or over one that an earlier start left.
    ///
    /// # Errors
    /// Fewer words than the plan has.
    pub fn new(memory: Words, plan: Plan) -> Result<Self, QueueError> {
        let (needed, have) = (plan.words(), memory.len());
        if have < needed { Err(QueueError::TooSmall { needed, have }) } else { Ok(Self { memory, plan }) }
    }

    /// Executables.
    #[must_use]
    #[inline(always)]
    pub fn execs(&self) -> u32 {
        self.plan.execs
    }

    /// Entries of requests.
    #[inline(always)]
    pub(super) fn slots(&self) -> u32 {
        self.plan.slots
    }

    /// Whether the answer of an executable is there. An acquire fence comes before it is read.
    #[must_use]
    #[inline(always)]
    pub fn is_answered(&self, exec: u32) -> bool {
        exec < self.plan.execs && self.memory.load(self.plan.flag(exec), Ordering::Relaxed) != 0
    }

    /// Whether the graph of this outstanding answer has ended without one: no answer will come.
    #[must_use]
    pub fn is_abandoned(&self, exec: u32, mailbox: &Words) -> bool {
        // Acquire: pairs with the release in `Child::finish`, before which the flag was set.
        mailbox.load(io::STATE, Ordering::Acquire) == io::IDLE && !self.is_answered(exec)
    }

    /// The address of the mailbox with which an executable has an answer outstanding; 0: none.
    #[must_use]
    #[inline(always)]
    pub fn outstanding(&self, exec: u32) -> u64 {
        if exec < self.plan.execs {
            self.memory.load(self.plan.outstanding(exec), Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Whether the executable of an idle mailbox can be launched: its last answer was taken.
    #[must_use]
    #[inline(always)]
    pub fn is_clear(&self, mailbox: &Words) -> bool {
        let exec = mailbox.load(io::ANSWER, Ordering::Relaxed) as u32;
        exec < self.plan.execs && self.outstanding(exec) == 0
    }

    /// Notes, before a launch, that the executable has an answer outstanding. By one lane.
    pub fn set_outstanding(&self, exec: u32, mailbox: u64) {
        if exec < self.plan.execs {
            self.memory.store(self.plan.outstanding(exec), mailbox, Ordering::Relaxed);
        }
    }

    /// The answer was read, or none will come: the entry is free. By one lane.
    pub fn complete(&self, exec: u32) {
        if exec < self.plan.execs {
            self.memory.store(self.plan.flag(exec), 0, Ordering::Relaxed);
            self.memory.store(self.plan.outstanding(exec), 0, Ordering::Relaxed);
        }
    }

    /// The addresses to which the graph of this mailbox writes its answer.
    #[must_use]
    pub fn answer_addresses(&self, mailbox: &Words) -> Option<ResponseAddresses> {
        let exec = mailbox.load(io::ANSWER, Ordering::Relaxed) as u32;
        let at = |word: usize| self.memory.address() + word as u64 * 8;
        (exec < self.plan.execs).then(|| ResponseAddresses {
            slot: at(self.plan.answer(exec)),
            flag: at(self.plan.flag(exec)),
            value: ANSWERED,
        })
    }

    /// The header of an answer, after the fence.
    #[must_use]
    pub fn answer_header(&self, exec: u32) -> ResponseHeader {
        let first = self.plan.answer(exec);
        let word = |at| self.memory.load(first + at, Ordering::Relaxed);
        ResponseHeader::from_words(core::array::from_fn(word))
    }

    /// Brings `bytes` of an answer, header included, to a staging buffer. By all lanes; what was copied is visible to all of them
    /// after their barrier.
    pub fn fetch_answer(&self, warp: Warp<'_>, exec: u32, bytes: u32, staging: StagingBuffer<'_>) {
        let first = self.plan.answer(exec);
        for pair in warp.stride(bytes.div_ceil(16) as usize) {
            staging.set_pair(pair, self.memory.load_pair(first + 2 * pair));
        }
    }

    /// Defers a request of `bytes` bytes, header included; its entry, or `None` when every entry is taken. By all
    /// lanes.
    pub(super) fn defer(
        &self,
        warp: Warp<'_>,
        slot: u32,
        bytes: u32,
        request: StagingBuffer<'_>,
    ) -> Option<u32> {
        let entry = self.claim(warp, slot, Job::word(slot, bytes))?;
        let first = self.plan.request(entry);
        for pair in warp.stride(bytes.div_ceil(16) as usize) {
            self.memory.store_pair(first + 2 * pair, request.pair(pair));
        }
        Some(entry)
    }

    /// Claims a free entry: the one with the slot's number if that is free, or the next free entry.
    fn claim(&self, warp: Warp<'_>, slot: u32, word: u64) -> Option<u32> {
        let slots = self.plan.slots;
        let at = |base: u32, lane: u32| (slot + base + lane) % slots.max(1);
        let mut base = 0;
        while base < slots {
            let mine = base + warp.lane();
            let free = mine < slots && self.waiting(at(base, warp.lane())) == 0;
            let mut candidates = warp.ballot(free);
            while candidates != 0 {
                let entry = at(base, candidates.trailing_zeros());
                candidates &= candidates - 1;
                // Other warps of this round want entries, too.
                let claimed = warp.lane() == 0
                    && self.memory.get(self.plan.waiting(entry)).is_some_and(|cell| cell.claim(0, word));
                if warp.any(claimed) {
                    return Some(entry);
                }
            }
            base += warp.lanes();
        }
        None
    }

    /// What waits in an entry; 0 for nothing.
    #[inline(always)]
    pub(super) fn waiting(&self, entry: u32) -> u64 {
        if entry < self.plan.slots {
            self.memory.load(self.plan.waiting(entry), Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Changes the note of an entry: 0 frees it. By the poller's lane 0, between rounds.
    pub(super) fn note(&self, entry: u32, word: u64) {
        if entry < self.plan.slots {
            self.memory.store(self.plan.waiting(entry), word, Ordering::Relaxed);
        }
    }

    /// Brings the first `bytes` of a request that waits, header included, to a staging buffer. By all lanes, as
    /// [`fetch_answer`].
    pub(super) fn fetch_request(&self, warp: Warp<'_>, entry: u32, bytes: u32, staging: StagingBuffer<'_>) {
        let first = self.plan.request(entry);
        for pair in warp.stride(bytes.div_ceil(16) as usize) {
            staging.set_pair(pair, self.memory.load_pair(first + 2 * pair));
        }
    }

    /// Word `word` of a request that waits, header included.
    #[inline(always)]
    pub(super) fn request_word(&self, entry: u32, word: usize) -> u64 {
        self.memory.load(self.plan.request(entry) + word, Ordering::Relaxed)
    }

    /// Its header.
    pub(super) fn request_header(&self, entry: u32) -> RequestHeader {
        RequestHeader::from_words(core::array::from_fn(|word| self.request_word(entry, word)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_do_not_overlap() {
        for (execs, slots, rx, tx) in
            [(1, 1, 16, 16), (3, 5, 64, 48), (16, 64, 576, 4096), (200, 4096, 32, 32)]
        {
            let plan = Plan::new(execs, slots, rx, tx);
            let mut words = vec![0_u8; plan.words()];
            let mut take = |first: usize, count: usize| {
                words[first..first + count].iter_mut().for_each(|word| *word += 1);
            };
            for exec in 0..execs {
                take(plan.flag(exec), 1);
                take(plan.outstanding(exec), 1);
                take(plan.answer(exec), (tx as usize / 8).max(HEADER_WORDS));
                assert!(plan.answer(exec).is_multiple_of(2));
            }
            for entry in 0..slots {
                take(plan.waiting(entry), 1);
                take(plan.request(entry), rx as usize / 8);
                assert!(plan.request(entry).is_multiple_of(2));
            }
            assert!(words.iter().all(|&uses| uses <= 1), "{plan:?}");
        }
    }
}
