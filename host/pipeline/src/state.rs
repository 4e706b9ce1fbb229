//! What the threads of one pipeline share, across restarts.

use crate::stats::Tally;
use crate::times::TimeTable;
use ringcall::Ring;
use ringcall_dispatch::book::{Page, SlotBook};
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
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ring: Ring,
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
    pub(crate) fn new(ring: Ring) -> Self {
        let slots = ring.geometry().slots();
        Self {
            pages: (0..slots).map(|_| Page::default()).collect(),
            times: TimeTable::new(slots),
            tally: Tally::default(),
            phase: CachePadded(DeviceU64::new(Phase::Stopped as u64)),
            submitting: CachePadded(DeviceU64::new(0)),
            producer_taken: DeviceU64::new(0),
            ring,
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

    pub(crate) fn take_producer(&self) -> bool {
        self.producer_taken.swap(1, Ordering::AcqRel) == 0
    }

    pub(crate) fn return_producer(&self) {
        self.producer_taken.store(0, Ordering::Release);
    }
}
