//! The host's end of a queue: poll, read, release.

use super::Shape;
use crate::ring::Geometry;
use crate::slot::InFlight;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_wire::handoff::{queue, record, state};
use ringcall_wire::header::RequestHeader;

/// The claim word of a free record: a state is being made good. No [`state::claimed`] is this.
const MENDING: u64 = 3;

/// What the pollers of one queue agree on, in memory of the host's own.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerState<'a> {
    /// The next job to be polled: 0 to begin with.
    pub next: &'a DeviceU64,
    /// One word a record: 0, or the claim on it. All 0 to begin with.
    pub claims: &'a [DeviceU64],
}

/// The host's end. Any number of threads poll and release at the same time, each with a separate view.
#[derive(Debug, Clone, Copy)]
pub struct HostEnd<'a> {
    queue: &'a Words,
    shape: Shape,
    consumer: ConsumerState<'a>,
}

/// A job that was taken by this poller alone. It must be released, or its record is never free again.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claimed job must be released"]
pub struct Claim {
    index: u32,
    sequence: u64,
    slot: u64,
    header: RequestHeader,
    output_bytes: u32,
    answers: bool,
}

/// What a poll of a queue finds.
#[derive(Debug, PartialEq, Eq)]
pub enum PolledJob {
    /// Nothing to do.
    Empty,
    /// A job.
    Job(Claim),
    /// A job whose state was overwritten after it was handed over: its owner is recorded beside it, but what
    /// else was overwritten is unknown. It is claimed, and wants an answer that says so. (A job that comes at
    /// the very moment in which another poller makes its record good may be taken for one.)
    Damaged(Claim),
    /// A state outside of the protocol, in a record without a job. It was made free.
    Garbage {
        /// The record.
        index: u32,
        /// What was found.
        found: u64,
    },
}

/// A release of what was not claimed: a record that is not there, was never claimed, or was released before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotClaimed {
    /// The record.
    pub index: u32,
    /// The job.
    pub sequence: u64,
}

impl core::fmt::Display for NotClaimed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "record {} is not claimed for job {}: it cannot be released", self.index, self.sequence)
    }
}

impl core::error::Error for NotClaimed {}

impl Claim {
    /// The record.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The job's number, from 0 in each queue.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The request's header, as the dispatcher checked it.
    #[must_use]
    pub fn header(&self) -> &RequestHeader {
        &self.header
    }

    /// The request's slot. An allegation: [`in_flight`](Self::in_flight) checks it.
    #[must_use]
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Bytes of output: no more than the queue's shape says.
    #[must_use]
    pub fn output_bytes(&self) -> u32 {
        self.output_bytes
    }

    /// Whether an answer is owed and was not yet taken.
    #[must_use]
    pub fn has_answer_outstanding(&self) -> bool {
        self.answers
    }

    /// The right to answer, once. `None` where no answer is owed, it was taken before, or the slot is none of this ring.
    #[must_use]
    pub fn in_flight(&mut self, geometry: &Geometry) -> Option<InFlight> {
        let slot = geometry.slot(u32::try_from(self.slot).ok()?)?;
        core::mem::take(&mut self.answers).then(|| InFlight::resume(slot, self.header))
    }
}

impl<'a> HostEnd<'a> {
    /// The end of the queue in `queue`, at least [`Shape::bytes`] long, with a consumer of `depth` claims; `None` where either
    /// is smaller.
    #[must_use]
    pub fn new(queue: &'a Words, shape: Shape, consumer: ConsumerState<'a>) -> Option<Self> {
        let fits = queue.len() * 8 >= shape.bytes() && consumer.claims.len() == shape.depth() as usize;
        fits.then_some(Self { queue, shape, consumer })
    }

    /// Takes the next job, if there is one. Two polls never have the same job.
    #[must_use]
    pub fn poll(&self) -> PolledJob {
        let at = self.consumer.next.load(Ordering::Acquire);
        let index = self.shape.index(at);
        let word = self.shape.record(index) + record::STATE;
        // Acquire: pairs with `DeviceEnd::publish`.
        let found = self.queue.load(word, Ordering::Acquire);
        if found == state::ready(at) {
            return self.claim(at, index).map_or(PolledJob::Empty, PolledJob::Job);
        }
        if found == state::FREE {
            return PolledJob::Empty;
        }
        // The lap before: its taker has not yet recorded it, or works on it.
        let lap = u64::from(self.shape.depth());
        let before = at.checked_sub(lap);
        if before.is_some_and(|before| found == state::ready(before) || found == state::claimed(before)) {
            return PolledJob::Empty;
        }
        if self.consumer.next.load(Ordering::Acquire) != at {
            return PolledJob::Empty; // others were faster, and this is of a job to come
        }
        self.make_good(at, index, found)
    }

    /// Takes job `at`, if no other poller was faster.
    fn claim(&self, at: u64, index: u32) -> Option<Claim> {
        // The state was seen with acquire; this decides only which poller continues.
        self.consumer
            .next
            .compare_exchange(at, at.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        let claimed = state::claimed(at);
        if let Some(claim) = self.consumer.claims.get(index as usize) {
            // Takes it from a mender too, who then leaves it.
            claim.swap(claimed, Ordering::AcqRel);
        }
        let first = self.shape.record(index);
        // Release: another poller that sees this also sees that the head has moved on, and takes it for no garbage. The
        // device only wants to know whether the record is free.
        self.queue.store(first + record::STATE, claimed, Ordering::Release);
        let load = |word| self.queue.load(first + word, Ordering::Relaxed);
        let alleged = u32::try_from(load(record::OUTPUT_BYTES)).unwrap_or(u32::MAX);
        Some(Claim {
            index,
            sequence: at,
            slot: load(record::SLOT),
            header: RequestHeader::from_words(core::array::from_fn(|i| load(record::HEADER + i))),
            output_bytes: alleged.min(self.shape.output_bytes()),
            answers: load(record::ANSWERS) == 1,
        })
    }

    /// A state outside of the protocol, in the record of job `at`.
    fn make_good(&self, at: u64, index: u32, found: u64) -> PolledJob {
        let count = |word| self.queue.load(word, Ordering::Acquire);
        let ahead = count(queue::PUBLISHED).wrapping_sub(at);
        let handed_over = ahead >= 1
            && ahead <= u64::from(self.shape.depth())
            && self.queue.load(self.shape.record(index) + record::SEQUENCE, Ordering::Relaxed) == at;
        if handed_over {
            let word = self.shape.record(index) + record::STATE;
            if self.queue.load(word, Ordering::Acquire) != found {
                return PolledJob::Empty; // made good meanwhile
            }
            return self.claim(at, index).map_or(PolledJob::Empty, PolledJob::Damaged);
        }
        // One mender at a time, and none while a worker has the record: its release makes the state good.
        let Some(claim) = self.consumer.claims.get(index as usize) else { return PolledJob::Empty };
        if claim.compare_exchange(0, MENDING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return PolledJob::Empty;
        }
        let word = self.shape.record(index) + record::STATE;
        let still = self.queue.load(word, Ordering::Acquire) == found;
        // A record that was granted is about to be published, which sets its state.
        if still && count(queue::GRANTED) != at.wrapping_add(1) {
            self.queue.store(word, state::FREE, Ordering::Release);
        }
        // A job may have come and been claimed by now: that stands.
        let _ = claim.compare_exchange(MENDING, 0, Ordering::AcqRel, Ordering::Relaxed);
        if !still {
            return PolledJob::Empty;
        }
        PolledJob::Garbage { index, found }
    }

    /// Gives the record of job `sequence` back: its output was read. In any order, from any thread, once.
    ///
    /// # Errors
    /// [`NotClaimed`]; nothing was changed.
    pub fn release(&self, index: u32, sequence: u64) -> Result<(), NotClaimed> {
        let wrong = NotClaimed { index, sequence };
        let claim = self.consumer.claims.get(index as usize).ok_or(wrong)?;
        claim
            .compare_exchange(state::claimed(sequence), 0, Ordering::AcqRel, Ordering::Relaxed)
            .map_err(|_| wrong)?;
        // Release: the output was read before. Pairs with the acquire in `DeviceEnd::grant`.
        self.queue.store(self.shape.record(index) + record::STATE, state::FREE, Ordering::Release);
        Ok(())
    }

    /// Whether a record waits to be polled. A snapshot.
    #[must_use]
    pub fn has_job(&self) -> bool {
        let at = self.consumer.next.load(Ordering::Relaxed);
        let word = self.shape.record(self.shape.index(at)) + record::STATE;
        self.queue.load(word, Ordering::Relaxed) == state::ready(at)
    }

    /// Whether the device could publish another job: the record at its tail is free. A snapshot, and for a sequence of
    /// launches by this side's hand the credit of the next one.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let tail = self.queue.load(queue::PUBLISHED, Ordering::Relaxed);
        let word = self.shape.record(self.shape.index(tail)) + record::STATE;
        // Acquire, for the caller's sake; the device looks again.
        self.queue.load(word, Ordering::Acquire) == state::FREE
    }

    /// Jobs that are claimed and not yet released. A snapshot.
    #[must_use]
    pub fn claimed(&self) -> u32 {
        let taken = self.consumer.claims.iter().filter(|claim| claim.load(Ordering::Relaxed) != 0);
        taken.count() as u32
    }
}
