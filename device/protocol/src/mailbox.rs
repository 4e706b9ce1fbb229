//! Hand-off of one job to one worker: the dispatcher fills, the worker empties.
//!
//! The idle mask makes sure that only one job is there at a time, so no queue is needed: the fields are plain words
//! published by one flag. Also the worker's origin tag: it names the slot that the worker's result belongs to until the
//! worker is given the next job.

use crate::ledger::Ticket;
use crate::ring::Geometry;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_wire::header::RequestHeader;

/// One worker's mailbox. Keep each on separate cache lines.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// 1 = a job is there.
    full: DeviceU64,
    slot: DeviceU64,
    generation: DeviceU64,
    header: [DeviceU64; 3],
    accepted_ns: DeviceU64,
    posted_ns: DeviceU64,
}

/// One job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Whose answer it is.
    pub ticket: Ticket,
    /// When the dispatcher took the request from the ring (clock of the caller, ns).
    pub accepted_ns: u64,
    /// When the dispatcher handed it over (clock of the caller, ns).
    pub posted_ns: u64,
}

impl Mailbox {
    /// Puts a job in. The caller has claimed the worker in the idle mask, so the box is empty.
    #[inline]
    pub fn post(&self, job: &Job) {
        debug_assert_eq!(self.full.load(Ordering::Relaxed), 0, "a busy worker was given a job");
        self.slot.store(u64::from(job.ticket.slot.get()), Ordering::Relaxed);
        self.generation.store(job.ticket.generation, Ordering::Relaxed);
        for (word, value) in self.header.iter().zip(job.ticket.header.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.accepted_ns.store(job.accepted_ns, Ordering::Relaxed);
        self.posted_ns.store(job.posted_ns, Ordering::Relaxed);
        // Release: pairs with `take`.
        self.full.store(1, Ordering::Release);
    }

    /// Takes the job out, if there is one.
    #[inline]
    pub fn take(&self, geometry: &Geometry) -> Option<Job> {
        // Acquire: pairs with `post`.
        if self.full.load(Ordering::Acquire) == 0 {
            return None;
        }
        let job = self.tag(geometry);
        self.full.store(0, Ordering::Relaxed); // the next `post` is ordered by the idle mask
        job
    }

    /// The job that this worker was last given: its origin tag.
    #[inline]
    pub fn tag(&self, geometry: &Geometry) -> Option<Job> {
        let slot = geometry.slot(u32::try_from(self.slot.load(Ordering::Relaxed)).ok()?)?;
        let words = core::array::from_fn(|i| self.header[i].load(Ordering::Relaxed));
        Some(Job {
            ticket: Ticket {
                slot,
                generation: self.generation.load(Ordering::Relaxed),
                header: RequestHeader::from_words(words),
            },
            accepted_ns: self.accepted_ns.load(Ordering::Relaxed),
            posted_ns: self.posted_ns.load(Ordering::Relaxed),
        })
    }
}
