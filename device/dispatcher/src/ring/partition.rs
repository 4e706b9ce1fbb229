//! Which slots a block polls, and which of them a lane.

use ringcall_gpu::team::Warp;

/// The slots that one block polls: `first .. first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// First slot.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Partition {
    /// The partition of block `index` of `blocks`, in whole sectors of 4 flags: reads of host memory
    /// queue for each sector, and only there.
    #[must_use]
    pub const fn of(slots: u32, index: u32, blocks: u32) -> Self {
        let blocks = if blocks == 0 { 1 } else { blocks };
        let each = slots.div_ceil(blocks).next_multiple_of(4);
        let first = each.saturating_mul(index);
        let first = if first < slots { first } else { slots };
        let count = if slots - first < each { slots - first } else { each };
        Self { first, count }
    }

    /// The first slot of lane `warp.lane()` in a window, as a slot of the ring: each lane has two, one after the other.
    #[inline(always)]
    pub(super) fn first_of(self, warp: Warp<'_>, window: u32) -> u32 {
        self.first + (window * warp.lanes() + warp.lane()) * 2
    }

    /// The slot of the ring that bit `bit` of a window stands for.
    #[inline(always)]
    pub(super) fn slot_at(self, warp: Warp<'_>, window: u32, bit: u32) -> u32 {
        self.first + window * warp.lanes() * 2 + bit
    }
}
