//! The idle mask of a worker pool: a bit per worker, 1 = idle, in as many words as the pool needs.
//!
//! One dispatcher (or several) claims, workers release. The claim's acquire pairs with the release's release
//! order, so the dispatcher that claims a worker sees everything that worker did with its buffers. Memory of
//! this side alone.

use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;

/// Workers in one word.
pub const WORD: u32 = 64;

/// A view of the mask's words.
#[derive(Debug, Clone, Copy)]
pub struct IdleMask<'a> {
    words: &'a [DeviceU64],
}

impl<'a> IdleMask<'a> {
    /// Words that a pool of `workers` needs.
    #[must_use]
    pub const fn words_for(workers: u32) -> usize {
        workers.div_ceil(WORD) as usize
    }

    /// The mask in `words`.
    #[must_use]
    pub const fn new(words: &'a [DeviceU64]) -> Self {
        Self { words }
    }

    /// Claims the lowest idle worker among `members` (a mask of the same shape), if there is one.
    #[inline]
    #[must_use]
    pub fn claim(&self, members: &[u64]) -> Option<u32> {
        for (index, (word, &members)) in self.words.iter().zip(members).enumerate() {
            let mut candidates = word.load(Ordering::Relaxed) & members;
            while candidates != 0 {
                let bit = candidates & candidates.wrapping_neg();
                // Acquire pairs with `release`: the worker's buffers are ours to fill.
                let before = word.fetch_and(!bit, Ordering::Acquire);
                if before & bit != 0 {
                    return Some(index as u32 * WORD + bit.trailing_zeros());
                }
                candidates &= !bit; // another agent was faster
            }
        }
        None
    }

    /// Gives a worker back to the pool. Called once for each claim, by the agent that did the claimed work.
    #[inline]
    pub fn release(&self, worker: u32) {
        if let Some(word) = self.words.get((worker / WORD) as usize) {
            let before = word.fetch_or(1 << (worker % WORD), Ordering::Release);
            debug_assert_eq!(before >> (worker % WORD) & 1, 0, "worker {worker} released twice");
        }
    }

    /// Whether a worker is idle. A snapshot.
    #[must_use]
    pub fn is_idle(&self, worker: u32) -> bool {
        self.words
            .get((worker / WORD) as usize)
            .is_some_and(|word| word.load(Ordering::Relaxed) >> (worker % WORD) & 1 == 1)
    }

    /// How many workers are idle. A snapshot.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }
}
