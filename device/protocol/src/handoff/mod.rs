//! The queue from a graph's inference to the CPU that continues the job: a queue of so many records, one for
//! each instance.
//!
//! A record has a job's output and whose answer it is. The device fills records in a circle, the host takes them in the same
//! order and gives them back in any:
//!
//! ```text
//!             device: grant … publish          host: poll               host: release
//!   free  ───────────────────────────► ready ───────────────► claimed ─────────────────► free
//! ```
//! Each step has one writer, and the word is only loaded and stored, since it lies between two sides of a bus. Who of
//! several pollers takes a job is decided in memory of the host's own ([`ConsumerState`]), as is whether a release is allowed. Ready
//! and claimed words carry the job's number, so a poller that slept for a lap cannot take a record twice, and all `depth`
//! records are of use: whether a queue is full or empty is in the record, not in a distance between two indices.
//!
//! The tail is the device's and never leaves its memory; the head is the host's. When the record at the tail is not free
//! the queue is full, also where others after it were given back: records are filled in a circle.
//!
//! # Back-pressure
//! The word of the record at the tail is the graph's gate ([`GATE`](ringcall_wire::launch::io::GATE)): while it is not free
//! a device dispatcher leaves the request in the ring. A graph that is launched all the same waits a bounded time
//! ([`DeviceEnd::grant`]) and refuses the request, with an answer and a count.
//!
//! # Garbage
//! A state that no step of the protocol writes is reported ([`PolledJob::Garbage`], [`PolledJob::Damaged`]) and made good as far as
//! the rest of the queue tells how; nothing that is found in a queue reaches past it.

mod device;
mod host;

pub use device::{DeviceEnd, Grant, Whose};
pub use host::{Claim, ConsumerState, HostEnd, NotClaimed, PolledJob};

use ringcall_wire::handoff::{MAX_DEPTH, queue, record};

/// The shape of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    depth: u32,
    output_bytes: u32,
}

impl Shape {
    /// Most bytes of one output.
    pub const MAX_OUTPUT_BYTES: u32 = 1 << 28;

    /// `depth` records of `output_bytes` bytes each; `None` where there would be no record, or too many or too large ones.
    ///
    /// ```
    /// use ringcall_protocol::handoff::Shape;
    /// let shape = Shape::new(16, 100).expect("a shape");
    /// assert_eq!(shape.bytes(), 128 + 16 * (128 + 128));
    /// assert!(Shape::new(0, 100).is_none());
    /// ```
    #[must_use]
    pub const fn new(depth: u32, output_bytes: u32) -> Option<Self> {
        if depth == 0 || depth > MAX_DEPTH || output_bytes > Self::MAX_OUTPUT_BYTES {
            return None;
        }
        Some(Self { depth, output_bytes })
    }

    /// Records.
    #[must_use]
    pub const fn depth(self) -> u32 {
        self.depth
    }

    /// Bytes of one output.
    #[must_use]
    pub const fn output_bytes(self) -> u32 {
        self.output_bytes
    }

    /// Words of one record.
    const fn record_words(self) -> usize {
        record::OUTPUT + (self.output_bytes as usize).next_multiple_of(record::ALIGN) / 8
    }

    /// Bytes of the queue.
    #[must_use]
    pub const fn bytes(self) -> usize {
        (queue::WORDS + self.depth as usize * self.record_words()) * 8
    }

    /// The record of job `sequence`.
    #[must_use]
    pub const fn index(self, sequence: u64) -> u32 {
        // There is no queue without records; without the check a kernel would carry a panic for it.
        match sequence.checked_rem(self.depth as u64) {
            Some(index) => index as u32,
            None => 0,
        }
    }

    /// First word of record `index`.
    #[must_use]
    pub const fn record(self, index: u32) -> usize {
        queue::WORDS + index as usize * self.record_words()
    }

    /// First byte of the output in record `index`.
    #[must_use]
    pub const fn output_at(self, index: u32) -> usize {
        (self.record(index) + record::OUTPUT) * 8
    }
}
