//! Time stamps of the request in each slot: written by its worker, read by the consumer.

use crate::stage::StageTimes;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_protocol::SlotIndex;
use std::sync::atomic::Ordering;

#[derive(Debug, Default)]
struct Row {
    accepted: DeviceU64,
    started: DeviceU64,
    inferred: DeviceU64,
    processed: DeviceU64,
}

/// One row a slot. Relaxed: the response flag's release and acquire order them.
#[derive(Debug)]
pub(crate) struct TimeTable {
    rows: Box<[CachePadded<Row>]>,
}

impl TimeTable {
    pub(crate) fn new(slots: u32) -> Self {
        Self { rows: (0..slots).map(|_| CachePadded::default()).collect() }
    }

    pub(crate) fn write(&self, slot: SlotIndex, times: &StageTimes) {
        let row = &self.rows[slot.as_usize()];
        row.accepted.store(times.accepted, Ordering::Relaxed);
        row.started.store(times.started, Ordering::Relaxed);
        row.inferred.store(times.inferred, Ordering::Relaxed);
        row.processed.store(times.processed, Ordering::Relaxed);
    }

    /// Takes the row out: zero for a request that no worker ever had.
    pub(crate) fn take(&self, slot: SlotIndex) -> StageTimes {
        let row = &self.rows[slot.as_usize()];
        let times = StageTimes {
            submitted: 0,
            accepted: row.accepted.load(Ordering::Relaxed),
            started: row.started.load(Ordering::Relaxed),
            inferred: row.inferred.load(Ordering::Relaxed),
            processed: row.processed.load(Ordering::Relaxed),
            harvested: 0,
        };
        for stamp in [&row.accepted, &row.started, &row.inferred, &row.processed] {
            stamp.store(0, Ordering::Relaxed);
        }
        times
    }
}
