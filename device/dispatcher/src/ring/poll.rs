//! Polling primitives of a ring: flag loads, warp votes and masks.

use super::slot_state::PUBLISHED;
use super::{BlockDispatcher, Machine, WarpContext, slot_state};
use ringcall_gpu::barrier;
use ringcall_gpu::team::Warp;

/// Turns between rounds of maintenance where no warp does only that.
pub(super) const TURNS_A_ROUND: u64 = 64;

/// This lane's slot states and flags of a window, the slot states read first.
pub(super) type WindowWords = [[u64; 2]; 2];

/// This lane's request flags of a window; 0 for slots outside the partition. Such slots are not read: another block polls
/// them, and reads of one sector queue one after another.
#[inline(always)]
pub(super) fn flags<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    window: u32,
    wanted: bool,
) -> [u64; 2] {
    let first = block.partition.first_of(warp, window);
    if wanted && first < block.partition.first + block.partition.count {
        block.ring.rx_pair(first)
    } else {
        [0; 2]
    }
}

/// Clears the request flags of those slots of the first window that were answered when their slot states were read.
///
/// A producer that waits for an answer does not need the cleared flag. So the next poll does not wait for the fence; the
/// fence is made while the poll is under way. No handler runs while an answered slot still has its request flag.
#[inline(always)]
pub(super) fn clear_seen<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, states: [u64; 2]) {
    if !warp.any(states.contains(&PUBLISHED)) {
        return;
    }
    // Response flags before request flags are seen cleared.
    barrier::publish_to_peer();
    for (slot, state) in (block.partition.first_of(warp, 0)..).zip(states) {
        if state == PUBLISHED {
            block.ring.clear_rx_relaxed(slot);
            slot_state::change_state(block, slot, 0);
        }
    }
}

/// The idle warps, without the poller itself.
#[inline(always)]
pub(super) fn free_warps<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>) -> u32 {
    let WarpContext { warp, me, .. } = context;
    let mut free = 0;
    let mut base = 0;
    while base < block.workers {
        let index = base + warp.lane();
        let is_free = index < block.workers && index != me && block.block_state.is_free(index);
        free |= warp.ballot(is_free) << base;
        base += warp.lanes();
    }
    free
}
