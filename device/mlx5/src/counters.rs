//! Live counters of an endpoint, readable while it runs by every agent that maps them.

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;

ringcall_wire::named! {
    /// What is counted. Those of the receive side and those of the send side share none; names begin with `rx_` or `tx_`.
    #[repr(usize)]
    pub enum Event {
        RxCompletions = 0, "rx_completions", "entries read from the receive side's completion queue";
        RxRequests = 1, "rx_requests", "messages handed on";
        RxReposted = 2, "rx_reposted", "receive requests posted again";
        RxBadSlot = 3, "rx_bad_slot", "messages dropped: the immediate names no slot";
        RxTooLong = 4, "rx_too_long", "messages dropped: longer than a slot";
        RxUnaccepted = 5, "rx_unaccepted", "messages dropped: of a kind that is not accepted here";
        RxStray = 6, "rx_stray", "completions of no meaning on the receive side";
        RxErrors = 7, "rx_errors", "receive requests that failed";
        RxFlushed = 8, "rx_flushed", "receive requests flushed: the queue pair is in the error state";
        RxLost = 9, "rx_lost", "messages that are missing in the sequence of immediates";
        RxReordered = 10, "rx_reordered", "messages that are older than one before, or the same";
        RxUnanswered = 11, "rx_unanswered", "messages given back without a response";
        TxPosted = 12, "tx_posted", "send requests posted";
        TxInline = 13, "tx_inline", "send requests that carry their bytes";
        TxSignalled = 14, "tx_signalled", "send requests that ask for a completion";
        TxCompletions = 15, "tx_completions", "entries read from the send side's completion queue";
        TxErrors = 16, "tx_errors", "send requests that failed";
        TxFlushed = 17, "tx_flushed", "send requests flushed: the queue pair is in the error state";
        TxStray = 18, "tx_stray", "completions of no meaning on the send side";
        TxFull = 19, "tx_full", "times that a response had to wait for room";
        TxTooLong = 20, "tx_too_long", "responses refused: longer than a slot";
    }
}

impl Event {
    /// How many events there are.
    pub const COUNT: usize = Self::ALL.len();
}

/// Counters of one endpoint: counted privately, and each count stored at once where others see it.
#[derive(Debug)]
pub struct Counters {
    counts: [u64; Event::COUNT],
    live: Words,
}

impl Counters {
    /// Counters shown in `live`, a word an event; what the window is too short for is not shown.
    #[must_use]
    pub fn new(live: Words) -> Self {
        Self { counts: [0; Event::COUNT], live }
    }

    /// Counts one.
    #[inline(always)]
    pub fn count(&mut self, event: Event) {
        self.add(event, 1);
    }

    /// Begins with the counts that the last start left: `count` gives each.
    pub fn resume(&mut self, count: impl Fn(Event) -> u64) {
        for &event in Event::ALL {
            if let Some(own) = self.counts.get_mut(event as usize) {
                *own = count(event);
            }
        }
    }

    /// Counts `n`. The count shown is stored, never read: the word is written by this endpoint alone.
    #[inline(always)]
    pub fn add(&mut self, event: Event, n: u64) {
        if n == 0 {
            return;
        }
        let Some(count) = self.counts.get_mut(event as usize) else { return };
        *count = count.wrapping_add(n);
        if let Some(word) = self.live.get(event as usize) {
            word.store(*count, Ordering::Relaxed);
        }
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self, event: Event) -> u64 {
        self.counts.get(event as usize).copied().unwrap_or(0)
    }
}
