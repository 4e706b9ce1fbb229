//! The receive queue: its requests never change, so receiving again means publishing a counter.

use crate::doorbell::DoorbellRecord;
use crate::layout::{RECEIVE_WQE_WORDS, Segment};
use crate::{QueueError, entries};
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;

/// What a receive request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffers {
    /// Nothing: writes with immediate bring their own address, and use up a credit alone.
    Credits,
    /// Sends too: request `k` takes its bytes to slot `k`.
    Slots {
        /// Key of the region that the slots lie in.
        lkey: u32,
        /// Address of slot 0, in the region's terms.
        base: u64,
        /// Bytes of a slot.
        stride: u32,
    },
}

/// A receive queue, by the one agent that posts to it.
#[derive(Debug)]
pub struct ReceiveQueue {
    entries: u32,
    depth: u32,
    /// Requests posted since the start. Never wraps.
    producer: u64,
}

impl ReceiveQueue {
    /// Fills the queue in `window` (2 words a request, a power of two of requests) and posts `depth` of them.
    ///
    /// # Errors
    /// A window of another length, or a depth beyond it.
    pub fn new(
        window: &Words,
        depth: u32,
        buffers: Buffers,
        record: &mut DoorbellRecord,
    ) -> Result<Self, QueueError> {
        let entries = entries(window, RECEIVE_WQE_WORDS)?;
        if depth == 0 || depth > entries {
            return Err(QueueError::Depth { depth, entries });
        }
        Self::fill(window, entries, buffers);
        let queue = Self { entries, depth, producer: depth.into() };
        record.publish_receive(queue.producer as u16);
        Ok(queue)
    }

    /// Writes every entry of the queue, and posts none.
    pub fn fill(window: &Words, entries: u32, buffers: Buffers) {
        for index in 0..entries {
            let segment = match buffers {
                Buffers::Credits => Segment::CREDIT,
                Buffers::Slots { lkey, base, stride } => Segment {
                    bytes: stride,
                    lkey,
                    address: base.wrapping_add(u64::from(index) * u64::from(stride)),
                },
            };
            let at = index as usize * RECEIVE_WQE_WORDS;
            for (word, value) in segment.to_words().into_iter().enumerate() {
                window.store(at + word, value, Ordering::Relaxed);
            }
        }
    }

    /// How many requests the queue holds.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// How many requests are posted at any time.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Requests posted since the start.
    #[must_use]
    pub fn posted(&self) -> u64 {
        self.producer
    }

    /// One more, for one that was used up: the credit is back at full depth.
    #[inline(always)]
    pub fn repost(&mut self, record: &mut DoorbellRecord) {
        self.producer += 1;
        // The low 16 bits; the wrap is intended.
        record.publish_receive(self.producer as u16);
    }
}
