//! The send queue: requests written, rung and, lazily, reclaimed.

use crate::cq::{CompletionQueue, PolledCompletion, Side};
use crate::doorbell::{Doorbell, DoorbellRecord};
use crate::layout;
use crate::layout::cqe::Syndrome;
use crate::layout::wqe::{self, BuildError, Completion, Operation, Payload, Wqe};
use crate::{QueueError, entries};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;

/// Why a request was not posted. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// Every entry of the queue may still be read by the NIC.
    Full,
    /// The request itself.
    Build(BuildError),
    /// The queue pair is in the error state.
    Dead(Syndrome),
}

/// What [`SendQueue::reclaim`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reclaimed {
    /// Completions that were read.
    pub completions: u32,
    /// Requests that failed, other than by being flushed.
    pub failed: u32,
    /// Requests that were flushed.
    pub flushed: u32,
    /// Completions of no meaning, or for a request that is not under way.
    pub stray: u32,
}

/// How the NIC learns of the producer's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordMode {
    /// The doorbell record, then the doorbell.
    #[default]
    Written,
    /// The doorbell alone, where the NIC keeps the index itself.
    NotWritten,
}

/// A send queue, by the one agent that posts to it.
///
/// Every quarter of the queue one request is signalled, so that a full queue always has a completion to come, and a request
/// costs a quarter of a completion at most.
#[derive(Debug)]
pub struct SendQueue {
    window: Words,
    entries: u64,
    qpn: u32,
    mode: RecordMode,
    /// Every how many requests one is signalled.
    interval: u64,
    completions: CompletionQueue,
    /// Requests posted since the start. Never wraps.
    producer: u64,
    /// Requests that the NIC is done with.
    done: u64,
    /// One more than the index of a request signalled out of turn.
    extra: u64,
    dead: Option<Syndrome>,
}

impl SendQueue {
    /// A queue over `window` (8 words a request, a power of two of requests) whose completions go to `completions`.
    ///
    /// # Errors
    /// A window of another length, a queue pair's number beyond 24 bits, a completion queue with fewer entries.
    pub fn new(
        window: Words,
        completions: CompletionQueue,
        qpn: u32,
        mode: RecordMode,
    ) -> Result<Self, QueueError> {
        let entries = entries(&window, wqe::WORDS)?;
        if qpn >= 1 << 24 {
            return Err(QueueError::QueuePair(qpn));
        }
        if completions.entries() < entries {
            let completions = completions.entries();
            return Err(QueueError::Completions { requests: entries, completions });
        }
        let interval = u64::from(Self::interval_of(entries));
        let entries = entries.into();
        Ok(Self {
            window,
            entries,
            qpn,
            mode,
            interval,
            completions,
            producer: 0,
            done: 0,
            extra: 0,
            dead: None,
        })
    }

    /// The same queue, to which `posted` requests were posted before, the NIC being done with the first `done` of them and `completions`
    /// having been read.
    #[must_use]
    pub fn resumed(mut self, posted: u64, done: u64, completions: u64) -> Self {
        (self.producer, self.done) = (posted, done.min(posted));
        self.completions = self.completions.resumed(completions);
        self
    }

    /// How many requests the queue holds.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries as u32
    }

    /// Requests that the NIC is known to be done with.
    #[must_use]
    #[inline(always)]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Entries read from the completion queue.
    #[must_use]
    pub fn completions_read(&self) -> u64 {
        self.completions.consumed()
    }

    /// Counts requests that others wrote into the next entries, each as [`SendQueue::completion_of`] says. There is
    /// room.
    #[inline(always)]
    pub fn advance(&mut self, requests: u64) {
        self.producer += requests;
    }

    /// Whether the request with this number is signalled, in a queue that signals one of `interval`.
    #[must_use]
    #[inline(always)]
    pub fn completion_of(index: u64, interval: u32) -> Completion {
        let due = (index + 1) & u64::from(interval - 1) == 0;
        if due { Completion::Always } else { Completion::OnError }
    }

    /// Every how many requests one is signalled, in a queue of so many.
    #[must_use]
    #[inline(always)]
    pub const fn interval_of(entries: u32) -> u32 {
        let quarter = entries / 4;
        if quarter == 0 { 1 } else { quarter }
    }

    /// Every how many requests one is signalled.
    #[must_use]
    pub fn interval(&self) -> u32 {
        self.interval as u32
    }

    /// Requests posted since the start.
    #[must_use]
    pub fn posted(&self) -> u64 {
        self.producer
    }

    /// Requests that the NIC may still read, as far as is known.
    #[must_use]
    #[inline(always)]
    pub fn under_way(&self) -> u64 {
        self.producer - self.done
    }

    /// Whether a request can be posted without reclaiming.
    #[must_use]
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.under_way() < self.entries
    }

    /// Index of the queue's entry that the next request takes, and of the send slot that goes with it.
    #[must_use]
    #[inline(always)]
    pub fn next_entry(&self) -> u32 {
        (self.producer & (self.entries - 1)) as u32
    }

    /// Why the queue pair is in the error state, if it is.
    #[must_use]
    #[inline(always)]
    pub fn dead(&self) -> Option<Syndrome> {
        self.dead
    }

    /// Writes a request and rings: request, fence, BlueFlame copy, record, fence, doorbell.
    ///
    /// What `payload` names in memory must not change until [`under_way`](Self::under_way) says that the request is done.
    ///
    /// # Errors
    /// No room (see [`reclaim`](Self::reclaim)), a request that cannot be built, the error state.
    #[inline(always)]
    pub fn post<D: Doorbell>(
        &mut self,
        operation: Operation,
        payload: Payload<'_>,
        record: &mut DoorbellRecord,
        doorbell: &mut D,
    ) -> Result<Completion, PostError> {
        let completion = Self::completion_of(self.producer, self.interval as u32);
        self.post_as(completion, operation, payload, record, doorbell)
    }

    /// Posts an empty signalled request if the last one was not signalled: everything before it is then known to be done
    /// when its completion is. `false`: there was nothing to ask for.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    #[inline(always)]
    pub fn post_marker<D: Doorbell>(
        &mut self,
        record: &mut DoorbellRecord,
        doorbell: &mut D,
    ) -> Result<bool, PostError> {
        let signalled = match self.producer.checked_sub(1) {
            Some(last) => self.is_signalled(last),
            None => true,
        };
        if signalled || self.under_way() == 0 {
            return Ok(false);
        }
        let nothing = Payload::Inline(&[]);
        self.post_as(Completion::Always, Operation::Nop, nothing, record, doorbell)?;
        self.extra = self.producer;
        Ok(true)
    }

    #[inline(always)]
    fn post_as<D: Doorbell>(
        &mut self,
        completion: Completion,
        operation: Operation,
        payload: Payload<'_>,
        record: &mut DoorbellRecord,
        doorbell: &mut D,
    ) -> Result<Completion, PostError> {
        if let Some(syndrome) = self.dead {
            return Err(PostError::Dead(syndrome));
        }
        if !self.has_room() {
            return Err(PostError::Full);
        }
        let request = Wqe::build(self.producer as u16, self.qpn, completion, operation, payload)
            .map_err(PostError::Build)?;
        let at = self.next_entry() as usize * wqe::WORDS;
        for (index, &word) in request.words.iter().enumerate().take(request.len_words()) {
            self.window.store(at + index, word, Ordering::Relaxed);
        }
        self.producer += 1;
        // The request, and the bytes it names, before the record and every other store that makes the NIC
        // read it.
        barrier::publish_to_peer();
        doorbell.copy(&request.words);
        if self.mode == RecordMode::Written {
            record.store_send(self.producer as u16);
            // The record before the doorbell: the NIC reads the record when it is rung.
            barrier::publish_to_peer();
        }
        doorbell.ring(layout::doorbell(self.qpn, self.producer as u16));
        Ok(completion)
    }

    #[inline(always)]
    fn is_due(&self, index: u64) -> bool {
        Self::completion_of(index, self.interval as u32) == Completion::Always
    }

    #[inline(always)]
    fn is_signalled(&self, index: u64) -> bool {
        self.is_due(index) || index + 1 == self.extra
    }

    /// Reads the completions that are there, at most as many as the queue has entries.
    #[inline(always)]
    pub fn reclaim(&mut self) -> Reclaimed {
        let mut found = Reclaimed::default();
        for _ in 0..self.entries {
            let Some(polled) = self.completions.poll() else { break };
            found.completions += 1;
            match polled {
                // Only a signalled request completes without an error.
                PolledCompletion::SendDone { wqe_counter } => match self.index_of(wqe_counter) {
                    Some(index) if self.is_signalled(index) => self.done = index + 1,
                    _ => found.stray += 1,
                },
                PolledCompletion::Failed { side: Side::Send, syndrome, wqe_counter, .. } => {
                    match self.index_of(wqe_counter) {
                        Some(index) => self.done = index + 1,
                        None => found.stray += 1,
                    }
                    if syndrome == Syndrome::FLUSHED {
                        found.flushed += 1;
                        self.dead = Some(syndrome);
                    } else {
                        found.failed += 1;
                    }
                }
                _ => found.stray += 1,
            }
        }
        found
    }

    /// The request under way with these low 16 bits; there is at most one, since the queue is shorter than 2¹⁶.
    #[inline(always)]
    fn index_of(&self, counter: u16) -> Option<u64> {
        let ahead = u64::from(counter.wrapping_sub(self.done as u16));
        (ahead < self.under_way()).then_some(self.done + ahead)
    }
}
