//! Word of answers, for a watcher that must not touch the response flags.
//!
//! On an external ring the responses belong to the transport, which takes them and frees the slots. Whoever else wants
//! to know of each answer reads a notice board: one place a slot, filled before the answer is published. The
//! dispatcher takes no new request from a slot whose notice was not read, so none is ever overwritten.

use ringcall_dispatch::{Geometry, SlotIndex};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The 32-bit id of the request's header.
    pub request_id: u32,
    /// The status that was sent.
    pub status: Status,
    /// The code of the error mark, if one was set.
    pub error: Option<u16>,
}

#[derive(Debug, Default)]
struct Place {
    /// 1 = unread.
    full: DeviceU64,
    /// request id | status << 32.
    what: DeviceU64,
    /// error code + 1, or 0.
    error: DeviceU64,
}

/// The notices of a ring. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NoticeBoard {
    places: Arc<[Place]>,
}

impl NoticeBoard {
    /// An empty board for a ring of this shape.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        Self { places: (0..geometry.slots()).map(|_| Place::default()).collect() }
    }

    #[inline]
    pub(crate) fn is_pending(&self, slot: SlotIndex) -> bool {
        // Acquire pairs with `take`: the place may be filled again.
        self.places.get(slot.as_usize()).is_some_and(|place| place.full.load(Ordering::Acquire) == 1)
    }

    #[inline]
    pub(crate) fn post(&self, slot: SlotIndex, notice: &Notice) {
        if let Some(place) = self.places.get(slot.as_usize()) {
            let status = u64::from(notice.status.0.cast_unsigned());
            place.what.store(u64::from(notice.request_id) | status << 32, Ordering::Relaxed);
            place.error.store(notice.error.map_or(0, |code| u64::from(code) + 1), Ordering::Relaxed);
            place.full.store(1, Ordering::Release); // pairs with `take`
        }
    }

    /// Takes the notice of `slot`, if there is one.
    #[inline]
    #[must_use]
    pub fn take(&self, slot: SlotIndex) -> Option<Notice> {
        let place = self.places.get(slot.as_usize())?;
        if place.full.load(Ordering::Acquire) == 0 {
            return None;
        }
        let what = place.what.load(Ordering::Relaxed);
        let error = place.error.load(Ordering::Relaxed);
        place.full.store(0, Ordering::Release); // pairs with `is_pending`
        Some(Notice {
            request_id: what as u32,
            status: Status(((what >> 32) as u32).cast_signed()),
            error: error.checked_sub(1).and_then(|code| u16::try_from(code).ok()),
        })
    }
}
