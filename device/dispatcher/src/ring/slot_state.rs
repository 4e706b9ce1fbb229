//! What a block knows of each slot of its partition: free, being served, answered, or left alone for a while.

use super::slot_copy::BurstLoad;
use super::{Block, Machine};
use core::sync::atomic::Ordering;
use ringcall_gpu::team::Warp;

/// Mark of a slot that a warp serves.
pub(super) const BUSY: u64 = u64::MAX;
/// Mark of a slot whose answer is out and whose request flag is still to be cleared.
pub(super) const PUBLISHED: u64 = u64::MAX - 1;
/// Mark of a slot whose answer is written and whose response flag is still to be set.
pub(super) const RESPONDED: u64 = u64::MAX - 2;
/// Turns for which a slot is left alone whose request is another dispatcher's: then it is polled again, since the next
/// request in it may be ours.
pub(super) const DEFERRED_TURNS: u64 = 8;

/// A request to serve.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    /// Its slot.
    pub(super) slot: u32,
    /// Whether the flag was the slot's address.
    pub(super) valid_flag: bool,
    /// Whether it was the only one: then its warp publishes the answer itself, which is fastest. Answers to several are
    /// published together by the maintenance warp.
    pub(super) alone: bool,
    /// What was fetched of it already.
    pub(super) burst: BurstLoad,
}

/// Sets a slot's mark. Relaxed: `hand_out` orders it before the next poller's poll.
#[inline(always)]
pub(super) fn set_state<M: Machine>(block: &Block<'_, M>, slot: u32, value: u64) {
    if let Some(word) = block.serving.get((slot - block.partition.first) as usize) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Sets a slot's mark when its warp is done with it. Release: what it did with the slot was before.
#[inline(always)]
pub(super) fn change_state<M: Machine>(block: &Block<'_, M>, slot: u32, value: u64) {
    if let Some(word) = block.serving.get((slot - block.partition.first) as usize) {
        word.store(value, Ordering::Release);
    }
}

/// The slot is answered, as far as its warp does that. By one lane.
///
/// A fence towards the host takes half a microsecond, and the fences of one multiprocessor queue one after another, so
/// the maintenance warp makes one for many: to set response flags, and then to clear request flags.
#[inline(always)]
pub(super) fn responded<M: Machine>(block: &Block<'_, M>, slot: u32, alone: bool) {
    let state = match (block.poller_maintains, alone) {
        (true, _) => 0,
        (false, true) => PUBLISHED,
        (false, false) => RESPONDED,
    };
    change_state(block, slot, state);
}

/// The slot is answered, and its request flag to be cleared later, by whom ever. By one lane.
#[inline(always)]
pub(super) fn retire_later<M: Machine>(block: &Block<'_, M>, slot: u32) {
    change_state(block, slot, PUBLISHED);
}

/// Another agent answers the slot: only its request flag is still to be cleared. By one lane.
#[inline(always)]
pub(super) fn handed_over<M: Machine>(block: &Block<'_, M>, slot: u32) {
    responded(block, slot, true);
}

/// Leaves a slot to the dispatcher that serves its function, or until later. By one lane.
#[inline(always)]
pub(super) fn defer<M: Machine>(block: &Block<'_, M>, slot: u32) {
    change_state(block, slot, DEFERRED_TURNS);
}

#[inline(always)]
pub(super) fn states<M: Machine>(block: &Block<'_, M>, warp: Warp<'_>, window: u32) -> [u64; 2] {
    let first = (block.partition.first_of(warp, window) - block.partition.first) as usize;
    // Acquire: pairs with the release in `change_state`.
    core::array::from_fn(|i| block.serving.get(first + i).map_or(BUSY, |word| word.load(Ordering::Acquire)))
}
