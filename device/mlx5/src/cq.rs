//! The completion queue's consumer.

use crate::layout::cqe::{self, Cqe, Syndrome, opcode};
use crate::layout::pair;
use crate::{QueueError, entries};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;

/// Bits of the consumer index in a completion queue's doorbell record.
pub const RECORD_MASK: u64 = 0x00FF_FFFF;

/// Which kind of message arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A write with immediate.
    WriteImm,
    /// A send.
    Send,
    /// A send with immediate.
    SendImm,
    /// A send that invalidates a key.
    SendInvalidate,
}

/// Which side of the queue pair an error belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A send request failed.
    Send,
    /// A receive request failed, and was used up.
    Receive,
}

/// One completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolledCompletion {
    /// A message arrived and used up a receive request.
    Received {
        /// Its kind.
        arrival: Arrival,
        /// The immediate; meaningless for a plain send.
        immediate: u32,
        /// Bytes of the message that was completed.
        bytes: u32,
        /// Index of the receive request.
        wqe_counter: u16,
    },
    /// A send request, and all before it, is done.
    SendDone {
        /// Its index.
        wqe_counter: u16,
    },
    /// A request failed.
    Failed {
        /// Which queue's.
        side: Side,
        /// Why.
        syndrome: Syndrome,
        /// The vendor's own code.
        vendor: u8,
        /// Its index.
        wqe_counter: u16,
    },
    /// An entry of no meaning here.
    Stray {
        /// Its opcode.
        opcode: u8,
    },
}

impl PolledCompletion {
    /// What an entry means.
    #[must_use]
    #[inline(always)]
    pub const fn of(entry: &Cqe) -> Self {
        let wqe_counter = entry.wqe_counter();
        let arrival = match entry.opcode() {
            opcode::WRITE_IMM => Arrival::WriteImm,
            opcode::SEND => Arrival::Send,
            opcode::SEND_IMM => Arrival::SendImm,
            opcode::SEND_INVALIDATE => Arrival::SendInvalidate,
            opcode::REQUEST => return Self::SendDone { wqe_counter },
            code @ (opcode::REQUEST_ERROR | opcode::RESPONSE_ERROR) => {
                let side = if code == opcode::REQUEST_ERROR { Side::Send } else { Side::Receive };
                let (syndrome, vendor) = (entry.syndrome(), entry.vendor_syndrome());
                return Self::Failed { side, syndrome, vendor, wqe_counter };
            }
            opcode => return Self::Stray { opcode },
        };
        Self::Received { arrival, immediate: entry.immediate(), bytes: entry.byte_count(), wqe_counter }
    }
}

/// A completion queue, by its one consumer.
#[derive(Debug)]
pub struct CompletionQueue {
    window: Words,
    entries: u64,
    /// Where the consumer index is told to the NIC, if it wants to know.
    record: Option<Words>,
    /// Entries consumed since the start. Never wraps.
    consumer: u64,
}

impl CompletionQueue {
    /// A queue over `window` (8 words an entry; a power of two of entries), which [`prepare`](Self::prepare) has filled.
    ///
    /// `record` is one word: the queue's doorbell record. A queue that was made with overrun ignored needs none; then only
    /// the credit of its work queue keeps the NIC from writing over an entry that was not read.
    ///
    /// # Errors
    /// A window of another length, an empty record.
    pub fn new(window: Words, record: Option<Words>) -> Result<Self, QueueError> {
        let entries = entries(&window, cqe::WORDS)?.into();
        if record.as_ref().is_some_and(Words::is_empty) {
            return Err(QueueError::TooSmall { needed: 1, have: 0 });
        }
        Ok(Self { window, entries, record, consumer: 0 })
    }

    /// The same queue, of which `consumed` entries were read before.
    #[must_use]
    pub fn resumed(mut self, consumed: u64) -> Self {
        self.consumer = consumed;
        self
    }

    /// Marks every entry as never written: before the NIC is given the queue.
    pub fn prepare(window: &Words) {
        let entries = window.len() / cqe::WORDS;
        for index in 0..entries {
            for (at, &word) in Cqe::NEVER_WRITTEN.0.iter().enumerate() {
                window.store(index * cqe::WORDS + at, word, Ordering::Relaxed);
            }
        }
        barrier::publish_to_peer();
    }

    /// How many entries.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries as u32
    }

    /// Entries consumed since the start.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.consumer
    }

    /// The next completion, if it is there.
    ///
    /// The owner word is polled relaxed; after a hit one acquire fence makes visible what the NIC wrote before it: the rest
    /// of the entry, and the message in memory. (Pairs with the NIC's order of writes; with the emulated NIC's release store
    /// of the owner word.) The fields are then read again, after the fence.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<PolledCompletion> {
        let at = (self.consumer & (self.entries - 1)) as usize * cqe::WORDS;
        let word = self.window.load(at + cqe::OWNER_WORD, Ordering::Relaxed);
        if !cqe::is_ours(word, self.consumer, self.entries) {
            return None;
        }
        barrier::observe_from_peer();
        let mut entry = Cqe::default();
        // The first half holds nothing that is looked at.
        for (index, word) in entry.0.iter_mut().enumerate().skip(cqe::offset::IMMEDIATE / 8) {
            *word = self.window.load(at + index, Ordering::Relaxed);
        }
        let polled = PolledCompletion::of(&entry);
        self.consumer += 1;
        if let Some(record) = &self.record {
            // The NIC may write the entry over once it sees this: our reads of it come first.
            record.store(0, pair((self.consumer & RECORD_MASK) as u32, 0), Ordering::Release);
        }
        Some(polled)
    }
}
