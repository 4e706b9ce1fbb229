//! State that the threads of a pipeline share, across restarts.

use crate::remote::InFlightTable;
use crate::stats::Counters;
use crate::times::TimeTable;
use ringcall::Ring;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_protocol::SlotIndex;
use ringcall_protocol::request_ids::{RequestIdCell, RequestIds};
use ringcall_protocol::slot::Vacant;
use std::sync::atomic::Ordering;

/// Life cycle of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Phase {
    /// Submissions are refused.
    Stopped = 0,
    Running = 1,
    /// Submissions are refused: the remote dispatcher has failed.
    Lost = 2,
}

#[derive(Debug)]
pub(crate) struct State {
    /// The ring that responses are harvested from. Requests are written here, too, unless the dispatcher is remote.
    pub(crate) ring: Ring,
    /// Requests in flight at a remote dispatcher, and its ring.
    pub(crate) remote: Option<InFlightTable>,
    cells: Box<[RequestIdCell]>,
    pub(crate) times: TimeTable,
    pub(crate) counters: Counters,
    phase: CachePadded<DeviceU64>,
    /// 1 while a submission is under way.
    submitting: CachePadded<DeviceU64>,
    /// 1 while an injector exists.
    producer_taken: DeviceU64,
}

impl State {
    pub(crate) fn new(ring: Ring, remote: Option<InFlightTable>) -> Self {
        let slots = ring.geometry().slots();
        Self {
            cells: (0..slots).map(|_| RequestIdCell::default()).collect(),
            times: TimeTable::new(slots),
            counters: Counters::default(),
            phase: CachePadded(DeviceU64::new(Phase::Stopped as u64)),
            submitting: CachePadded(DeviceU64::new(0)),
            producer_taken: DeviceU64::new(0),
            ring,
            remote,
        }
    }

    /// The ring that requests are written into.
    #[inline]
    pub(crate) fn requests(&self) -> &Ring {
        self.remote.as_ref().map_or(&self.ring, InFlightTable::ring)
    }

    /// Claims the slot if it is free. The caller writes the request, calls [`announce`](Self::announce) and sets the flag.
    #[inline]
    pub(crate) fn reserve(&self, slot: SlotIndex) -> Option<Vacant> {
        match &self.remote {
            None => Vacant::probe(self.ring.shared(), slot),
            Some(in_flight) => in_flight.reserve(slot, self.ring.shared()),
        }
    }

    /// Records that the request of a reserved slot has an id and is about to be published.
    #[inline]
    pub(crate) fn announce(&self, slot: SlotIndex) {
        if let Some(in_flight) = &self.remote {
            in_flight.announce(slot);
        }
    }

    pub(crate) fn request_ids(&self) -> RequestIds<'_> {
        RequestIds::new(&self.cells)
    }

    /// Begins a submission. Returns false, and begins nothing, if the pipeline is not running.
    ///
    /// A submission sets `submitting`, then reads the phase. A stop sets the phase, then reads `submitting`. Both access
    /// `submitting` by a read-modify-write, so the second of the two sees everything before the first: either the
    /// submission sees the stop, or the stop sees the submission and lets it finish before the ring is drained
    /// (`tests/loom_stop_handshake.rs` of ringcall-protocol).
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
        // A read-modify-write reads the latest value, where a load may read an older one. It changes nothing.
        self.submitting.fetch_or(0, Ordering::SeqCst) != 0
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u64, Ordering::SeqCst);
    }

    /// From running to lost. Any other phase stays as it is.
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
