//! What the threads of one pipeline share, across restarts.

use crate::remote::Desks;
use crate::stats::Tally;
use crate::times::TimeTable;
use ringcall::Ring;
use ringcall_dispatch::SlotIndex;
use ringcall_dispatch::book::{Page, SlotBook};
use ringcall_dispatch::slot::Vacant;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use std::sync::atomic::Ordering;

/// Where a pipeline is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Phase {
    /// Submissions are refused.
    Stopped = 0,
    Running = 1,
    /// Submissions are refused: a dispatcher elsewhere answers no more.
    Lost = 2,
}

#[derive(Debug)]
pub(crate) struct State {
    /// Where answers are harvested, and requests are written unless a dispatcher is elsewhere.
    pub(crate) ring: Ring,
    pub(crate) remote: Option<Desks>,
    pages: Box<[Page]>,
    pub(crate) times: TimeTable,
    pub(crate) tally: Tally,
    phase: CachePadded<DeviceU64>,
    /// 1 while a submission is under way.
    submitting: CachePadded<DeviceU64>,
    /// 1 while an injector exists.
    producer_taken: DeviceU64,
}

impl State {
    pub(crate) fn new(ring: Ring, remote: Option<Desks>) -> Self {
        let slots = ring.geometry().slots();
        Self {
            pages: (0..slots).map(|_| Page::default()).collect(),
            times: TimeTable::new(slots),
            tally: Tally::default(),
            phase: CachePadded(DeviceU64::new(Phase::Stopped as u64)),
            submitting: CachePadded(DeviceU64::new(0)),
            producer_taken: DeviceU64::new(0),
            ring,
            remote,
        }
    }

    /// Where requests are written.
    #[inline]
    pub(crate) fn requests(&self) -> &Ring {
        self.remote.as_ref().map_or(&self.ring, Desks::ring)
    }

    /// The slot, if it is free; then a request is written into it, [announced](Self::announce) before its flag is set.
    #[inline]
    pub(crate) fn reserve(&self, slot: SlotIndex) -> Option<Vacant> {
        match &self.remote {
            None => Vacant::probe(self.ring.shared(), slot),
            Some(desks) => desks.reserve(slot, self.ring.shared()),
        }
    }

    /// The request of a reserved slot is in the book.
    #[inline]
    pub(crate) fn announce(&self, slot: SlotIndex) {
        if let Some(desks) = &self.remote {
            desks.announce(slot);
        }
    }

    pub(crate) fn book(&self) -> SlotBook<'_> {
        SlotBook::new(&self.pages)
    }

    /// Begins a submission: false, and nothing begun, if the pipeline is not running.
    ///
    /// Announce, then look at the phase; a stop sets the phase, then looks for an announcement. Both touch the
    /// announcement with a read-modify-write, so that whichever comes second has seen all before the first: either the
    /// submission sees the stop, or the stop sees the submission and lets it finish before the ring is drained
    /// (`tests/loom_stop_handshake.rs` of ringcall-dispatch).
    #[inline]
    pub(crate) fn begin_submission(&self) -> bool {
        let _ = self.submitting.swap(1, Ordering::SeqCst);
        let running = self.phase.load(Ordering::SeqCst) == Phase::Running as u64;
        if !running {
            self.end_submission();
        }
        running
    }

    #[inline]
    pub(crate) fn end_submission(&self) {
        self.submitting.store(0, Ordering::Release);
    }

    pub(crate) fn is_submitting(&self) -> bool {
        // Adds nothing: a read-modify-write finds the latest value, where a load may find an older one.
        self.submitting.fetch_or(0, Ordering::SeqCst) != 0
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u64, Ordering::SeqCst);
    }

    /// From running to lost; whatever else stays.
    pub(crate) fn lose(&self) {
        let (from, to) = (Phase::Running as u64, Phase::Lost as u64);
        let _ = self.phase.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == Phase::Lost as u64
    }

    pub(crate) fn take_producer(&self) -> bool {
        self.producer_taken.swap(1, Ordering::AcqRel) == 0
    }

    pub(crate) fn return_producer(&self) {
        self.producer_taken.store(0, Ordering::Release);
    }
}
