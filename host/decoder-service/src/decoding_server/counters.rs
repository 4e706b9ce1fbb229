//! Counts of a decoder's volumes and runs, which any thread reads while its session is in use.

use super::engine::Decoded;
use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering;

/// The volumes and runs that a decoder decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecodeStats {
    /// All.
    pub decodes: u64,
    /// Those whose corrections are a best guess, because belief propagation found nothing that explains their syndrome.
    pub unconverged: u64,
    /// Those cut off, by a deadline or a stop. Their corrections are the best found so far.
    pub late: u64,
}

/// Counters with one writer, the session that is locked.
#[derive(Debug, Default)]
pub(super) struct Counters {
    decodes: DeviceU64,
    unconverged: DeviceU64,
    late: DeviceU64,
}

impl Counters {
    /// One more volume or run, which ended like this.
    pub(super) fn count(&self, outcome: Decoded) {
        // One writer needs no read-modify-write.
        let increment =
            |counter: &DeviceU64| counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        increment(&self.decodes);
        match outcome {
            Decoded::Explained => {}
            Decoded::Unconverged => increment(&self.unconverged),
            Decoded::Late => increment(&self.late),
        }
    }

    pub(super) fn read(&self) -> DecodeStats {
        let [decodes, unconverged, late] =
            [&self.decodes, &self.unconverged, &self.late].map(|counter| counter.load(Ordering::Relaxed));
        DecodeStats { decodes, unconverged, late }
    }
}
