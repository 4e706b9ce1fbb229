//! The device's end of a queue: grant, fill, publish.

use super::Shape;
use core::sync::atomic::Ordering;
use ringcall_gpu::hint;
use ringcall_gpu::shared::Words;
use ringcall_wire::handoff::{TENSOR_ALIGN, queue, record, state};
use ringcall_wire::header::RequestHeader;

/// The device's end. One agent at a time: the kernels of one graph, which run one after the other.
#[derive(Debug)]
pub struct DeviceEnd<'a> {
    queue: &'a Words,
    shape: Shape,
}

/// The record of one job, to be filled and published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    sequence: u64,
    index: u32,
}

impl Grant {
    /// The job's number.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.sequence
    }
}

/// Whose answer a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whose {
    /// The request's header.
    pub header: RequestHeader,
    /// Its slot in the ring.
    pub slot: u64,
    /// Whether an answer is owed.
    pub answers: bool,
}

impl<'a> DeviceEnd<'a> {
    /// The end of the queue in `queue`, at least [`Shape::bytes`] long.
    #[must_use]
    pub fn new(queue: &'a Words, shape: Shape) -> Self {
        Self { queue, shape }
    }

    /// Waits for the record of job `tail` to be free, at most so many polls. By one thread, before the inference.
    #[must_use]
    pub fn grant(&self, tail: u64, polls: u64) -> Option<Grant> {
        let grant = self.resume(tail);
        let word = self.shape.record(grant.index) + record::STATE;
        let mut left = polls;
        // Acquire: pairs with `HostEnd::release`, before which the last output was read.
        while self.queue.load(word, Ordering::Acquire) != state::FREE {
            left = left.saturating_sub(1);
            if left == 0 {
                self.count(queue::REFUSED);
                return None;
            }
            hint::spin();
        }
        self.queue.store(queue::GRANTED, tail.wrapping_add(1), Ordering::Relaxed);
        Some(grant)
    }

    /// The record that was granted to job `tail`, for the kernels after the kernel that asked.
    #[must_use]
    pub fn resume(&self, tail: u64) -> Grant {
        Grant { sequence: tail, index: self.shape.index(tail) }
    }

    /// Sets 16 bytes of the output, from byte `16 * pair`; nothing past the record. By any thread of the graph.
    pub fn set_output_pair(&self, grant: Grant, pair: usize, value: [u64; 2]) {
        if pair * TENSOR_ALIGN < self.shape.output_bytes as usize {
            self.queue.store_pair(self.shape.output_at(grant.index) / 8 + 2 * pair, value);
        }
    }

    /// Hands the job over. By one thread, after all that set its output are past a barrier. The next job is
    /// `sequence + 1`.
    pub fn publish(&self, grant: Grant, whose: &Whose) {
        let first = self.shape.record(grant.index);
        let store = |word, value| self.queue.store(first + word, value, Ordering::Relaxed);
        store(record::SEQUENCE, grant.sequence);
        store(record::SLOT, whose.slot);
        for (i, word) in whose.header.to_words().into_iter().enumerate() {
            store(record::HEADER + i, word);
        }
        store(record::ANSWERS, u64::from(whose.answers));
        store(record::OUTPUT_BYTES, u64::from(self.shape.output_bytes));
        self.queue.store(queue::PUBLISHED, grant.sequence.wrapping_add(1), Ordering::Relaxed);
        // Release: output and record before the state. Pairs with the acquire in `HostEnd::poll`.
        self.queue.store(first + record::STATE, state::ready(grant.sequence), Ordering::Release);
    }

    /// Counts one in the queue's head, whose only writer this is.
    pub fn count(&self, word: usize) {
        let before = self.queue.load(word, Ordering::Relaxed);
        self.queue.store(word, before.wrapping_add(1), Ordering::Relaxed);
    }
}
