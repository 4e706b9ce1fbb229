//! Which request a turn takes next: any that is there, or the earliest.

use ringcall_protocol::ordered_scan::OrderedScan;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::slot::Seen;
use ringcall_protocol::{RingMemory, SlotIndex};

/// The cursor of a dispatcher's thread.
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

    /// One turn; the sum of what `visit` returns, which is 0 for a request that stays where it is.
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

    /// A look at every slot; the sum of what `visit` returns.
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

    /// Looks there next, where the order is free.
    pub(super) const fn aim(&mut self, slot: SlotIndex) {
        if let Self::AnyOrder(scan) = self {
            scan.aim(slot);
        }
    }
}
