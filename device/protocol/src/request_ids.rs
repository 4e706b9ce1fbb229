//! Request ids by slot: the full 64-bit id of the request in each slot, and whether the slot holds a request of this producer.
//!
//! The header carries 32 bits of an id, and callers of an injector count in 64. The producer inserts the id before it sets the
//! request flag; the consumer removes it before it frees the slot. **Before**: a producer that sees the slot free inserts the
//! next id at once, and a late removal would erase that id and leave a request without a waiter.
//! [`RequestIds::take`] and [`Response::release`](crate::Response::release) in the other order are the race of the
//! reference's design notes (§7.2); `tests/loom_consumer_race.rs` shows that the wrong order loses a request.

use crate::ring::SlotIndex;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;

/// The id of the request in one slot.
#[derive(Debug, Default)]
pub struct RequestIdCell {
    /// 1: the slot holds a request of this producer.
    active: DeviceU64,
    request_id: DeviceU64,
    submitted_ns: DeviceU64,
}

/// A request that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// The caller's id, all 64 bits.
    pub request_id: u64,
    /// When it was submitted (clock of the caller, ns).
    pub submitted_ns: u64,
}

/// The request ids of a ring: one [`RequestIdCell`] a slot, in storage that the caller owns.
#[derive(Debug, Clone, Copy)]
pub struct RequestIds<'a> {
    cells: &'a [RequestIdCell],
}

impl<'a> RequestIds<'a> {
    /// The request ids in `cells`, one a slot.
    #[must_use]
    pub const fn new(cells: &'a [RequestIdCell]) -> Self {
        Self { cells }
    }

    /// Producer: before the request flag is set, whose release publishes the entry.
    #[inline]
    pub fn insert(&self, slot: SlotIndex, entry: Submitted) {
        if let Some(cell) = self.cells.get(slot.as_usize()) {
            cell.request_id.store(entry.request_id, Ordering::Relaxed);
            cell.submitted_ns.store(entry.submitted_ns, Ordering::Relaxed);
            cell.active.store(1, Ordering::Release);
        }
    }

    /// Consumer: after the response was observed, before the slot is released.
    #[inline]
    pub fn take(&self, slot: SlotIndex) -> Option<Submitted> {
        let entry = self.get(slot)?;
        self.cells.get(slot.as_usize())?.active.store(0, Ordering::Relaxed);
        Some(entry)
    }

    /// The entry of `slot`. A snapshot.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: SlotIndex) -> Option<Submitted> {
        let cell = self.cells.get(slot.as_usize())?;
        (cell.active.load(Ordering::Acquire) == 1).then(|| Submitted {
            request_id: cell.request_id.load(Ordering::Relaxed),
            submitted_ns: cell.submitted_ns.load(Ordering::Relaxed),
        })
    }
}
