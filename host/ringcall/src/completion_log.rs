//! A log of completions for a reader that must not touch the response flags.
//!
//! On an external ring the transport takes the responses and frees the slots. A second reader, such as a pipeline's
//! consumer, learns of each response from a completion log: one event per slot, recorded before the response is published.
//! The dispatcher takes no new request from a slot whose event is unread, so no event is overwritten.

use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::{Geometry, SlotIndex};
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletionEvent {
    /// The 32-bit id of the request's header.
    pub request_id: u32,
    /// The status that was sent.
    pub status: Status,
    /// The code of the error mark, if one was set.
    pub error: Option<u16>,
}

#[derive(Debug, Default)]
struct Entry {
    /// 1 = unread.
    full: DeviceU64,
    /// request id | status << 32.
    packed: DeviceU64,
    /// error code + 1, or 0.
    error: DeviceU64,
}

/// The completion log of a ring. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CompletionLog {
    entries: Arc<[Entry]>,
}

impl CompletionLog {
    /// An empty log for a ring of this shape.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        Self { entries: (0..geometry.slots()).map(|_| Entry::default()).collect() }
    }

    #[inline]
    pub(crate) fn is_pending(&self, slot: SlotIndex) -> bool {
        // Acquire pairs with `take`: the entry may be written again.
        self.entries.get(slot.as_usize()).is_some_and(|entry| entry.full.load(Ordering::Acquire) == 1)
    }

    #[inline]
    pub(crate) fn record(&self, slot: SlotIndex, event: &CompletionEvent) {
        if let Some(entry) = self.entries.get(slot.as_usize()) {
            let status = u64::from(event.status.0.cast_unsigned());
            entry.packed.store(u64::from(event.request_id) | status << 32, Ordering::Relaxed);
            entry.error.store(event.error.map_or(0, |code| u64::from(code) + 1), Ordering::Relaxed);
            entry.full.store(1, Ordering::Release); // pairs with `take`
        }
    }

    /// Takes the event of `slot`, if there is one.
    #[inline]
    #[must_use]
    pub fn take(&self, slot: SlotIndex) -> Option<CompletionEvent> {
        let entry = self.entries.get(slot.as_usize())?;
        if entry.full.load(Ordering::Acquire) == 0 {
            return None;
        }
        let packed = entry.packed.load(Ordering::Relaxed);
        let error = entry.error.load(Ordering::Relaxed);
        entry.full.store(0, Ordering::Release); // pairs with `is_pending`
        Some(CompletionEvent {
            request_id: packed as u32,
            status: Status(((packed >> 32) as u32).cast_signed()),
            error: error.checked_sub(1).and_then(|code| u16::try_from(code).ok()),
        })
    }
}
