//! Writing a completion queue.

use ringcall_gpu::shared::Words;
use ringcall_mlx5::layout::cqe::{self, Cqe};
use ringcall_mlx5::layout::first;
use std::sync::atomic::Ordering;

/// A completion queue, by its one producer.
#[derive(Debug)]
pub(crate) struct CompletionWriter {
    window: Words,
    entries: u64,
    record: Option<Words>,
    producer: u64,
}

impl CompletionWriter {
    /// `None` if the window is no power of two of entries.
    pub(crate) fn new(window: Words, record: Option<Words>) -> Option<Self> {
        let entries = window.len() / cqe::WORDS;
        let whole = entries * cqe::WORDS == window.len() && entries.is_power_of_two();
        whole.then_some(Self { window, entries: entries as u64, record, producer: 0 })
    }

    /// Entries that the consumer has not read, if it says so.
    fn unread(&self) -> Option<u64> {
        // Pairs with the release store in `CompletionQueue::poll`: the entry was read before it is written over.
        let consumed = first(self.record.as_ref()?.load(0, Ordering::Acquire));
        Some((self.producer as u32).wrapping_sub(consumed) as u64 & 0x00FF_FFFF)
    }

    /// Whether an entry more leaves room for `others`. A queue that does not say what was read never has that.
    pub(crate) fn has_room_beside(&self, others: u64) -> bool {
        self.unread().is_some_and(|unread| unread + others < self.entries)
    }

    /// Writes an entry and hands it over; false, and nothing written, if the consumer is known to be a whole queue behind.
    pub(crate) fn write(&mut self, entry: Cqe) -> bool {
        if self.unread().is_some_and(|unread| unread >= self.entries) {
            return false;
        }
        let entry = entry.with_owner(entry.opcode(), cqe::owner_of_lap(self.producer, self.entries));
        let at = (self.producer & (self.entries - 1)) as usize * cqe::WORDS;
        for (index, &word) in entry.0.iter().enumerate() {
            // The owner byte is in the last word. Pairs with the fence in `CompletionQueue::poll`.
            let order = if index == cqe::OWNER_WORD { Ordering::Release } else { Ordering::Relaxed };
            self.window.store(at + index, word, order);
        }
        self.producer += 1;
        true
    }
}
