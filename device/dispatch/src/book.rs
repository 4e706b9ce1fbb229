//! The full 64-bit request id of each slot, and whether the slot has a request of ours at all.
//!
//! The header carries 32 bits; an injector's callers count in 64. The producer enters the id before it sets the
//! request flag, the consumer takes it out before it frees the slot: **before**, since a producer that sees the slot
//! free enters the next id at once, and a late removal would wipe that out and leave a request that nobody waits for.
//! [`SlotBook::take`] and [`Response::release`](crate::Response::release) in the other order are the race of the
//! reference's design notes (§7.2); `tests/loom_consumer_race.rs` shows that the wrong order loses a request.

use crate::ring::SlotIndex;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;

/// What one slot is waited for.
#[derive(Debug, Default)]
pub struct Page {
    /// 1 = a request of ours is in this slot.
    active: DeviceU64,
    request_id: DeviceU64,
    submitted_ns: DeviceU64,
}

/// An entry of the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booked {
    /// The caller's id, all 64 bits.
    pub request_id: u64,
    /// When it was submitted (clock of the caller, ns).
    pub submitted_ns: u64,
}

/// The book of a ring: one [`Page`] a slot, in storage of the caller's.
#[derive(Debug, Clone, Copy)]
pub struct SlotBook<'a> {
    pages: &'a [Page],
}

impl<'a> SlotBook<'a> {
    /// The book in `pages`, one a slot.
    #[must_use]
    pub const fn new(pages: &'a [Page]) -> Self {
        Self { pages }
    }

    /// Producer: before the request flag is set, whose release publishes the entry.
    #[inline]
    pub fn enter(&self, slot: SlotIndex, booked: Booked) {
        if let Some(page) = self.pages.get(slot.as_usize()) {
            page.request_id.store(booked.request_id, Ordering::Relaxed);
            page.submitted_ns.store(booked.submitted_ns, Ordering::Relaxed);
            page.active.store(1, Ordering::Release);
        }
    }

    /// Consumer: after the response was observed, before the slot is released.
    #[inline]
    pub fn take(&self, slot: SlotIndex) -> Option<Booked> {
        let booked = self.look(slot)?;
        self.pages.get(slot.as_usize())?.active.store(0, Ordering::Relaxed);
        Some(booked)
    }

    /// The entry of `slot`. A snapshot.
    #[inline]
    #[must_use]
    pub fn look(&self, slot: SlotIndex) -> Option<Booked> {
        let page = self.pages.get(slot.as_usize())?;
        (page.active.load(Ordering::Acquire) == 1).then(|| Booked {
            request_id: page.request_id.load(Ordering::Relaxed),
            submitted_ns: page.submitted_ns.load(Ordering::Relaxed),
        })
    }
}
