//! Scan order of the host dispatcher: any request that is found, or the earliest.

use ringcall_protocol::ordered_scan::OrderedScan;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::slot::Seen;
use ringcall_protocol::{RingMemory, SlotIndex};

/// Scan cursor of a dispatcher's thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scanner {
    AnyOrder(Scan),
    InOrder(OrderedScan),
}

impl Scanner {
    pub(super) const fn any_order(slots: u32) -> Self {
        Self::AnyOrder(Scan::new(slots))
    }

    pub(super) const fn in_order(slots: u32) -> Self {
        Self::InOrder(OrderedScan::new(slots))
    }

    /// Scans for one turn. Returns the sum of the results of `visit`, which returns 0 for a request that stays in its
    /// slot.
    #[inline(always)]
    pub(super) fn turn<M: RingMemory>(&mut self, memory: &M, mut visit: impl FnMut(Seen) -> u32) -> u32 {
        match self {
            Self::AnyOrder(scan) => {
                let mut done = 0;
                scan.turn(memory, |seen| done += visit(seen));
                done
            }
            Self::InOrder(scan) => scan.turn(memory, |seen| visit(seen) > 0),
        }
    }

    /// Polls every slot. Returns the sum of the results of `visit`.
    pub(super) fn full<M: RingMemory>(&mut self, memory: &M, mut visit: impl FnMut(Seen) -> u32) -> u32 {
        let mut done = 0;
        match self {
            Self::AnyOrder(scan) => {
                scan.full(memory, |seen| done += visit(seen));
            }
            Self::InOrder(scan) => {
                scan.full(memory, |seen| {
                    let here = visit(seen);
                    done += here;
                    here > 0
                });
            }
        }
        done
    }

    pub(super) const fn ends_round(&self) -> bool {
        match self {
            Self::AnyOrder(scan) => scan.ends_round(),
            Self::InOrder(scan) => scan.ends_round(),
        }
    }

    /// Polls this slot next, if the order is free.
    pub(super) const fn aim(&mut self, slot: SlotIndex) {
        if let Self::AnyOrder(scan) = self {
            scan.aim(slot);
        }
    }
}
