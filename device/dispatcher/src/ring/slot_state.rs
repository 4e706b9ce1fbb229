//! Slot states of a partition: free, busy, responded, published, or deferred.

use super::slot_copy::BurstLoad;
use super::{BlockDispatcher, Machine};
use core::sync::atomic::Ordering;
use ringcall_gpu::team::Warp;

/// State of a slot that a warp serves.
pub(super) const BUSY: u64 = u64::MAX;
/// State of a slot whose response flag is set and whose request flag is not cleared yet.
pub(super) const PUBLISHED: u64 = u64::MAX - 1;
/// State of a slot whose response is written and whose response flag is not set yet.
pub(super) const RESPONDED: u64 = u64::MAX - 2;
/// Turns for which a slot is deferred whose request belongs to another dispatcher. Then the slot is polled again: its next
/// request may be this dispatcher's.
pub(super) const DEFERRED_TURNS: u64 = 8;

/// A request to serve.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    /// Its slot.
    pub(super) slot: u32,
    /// Whether the flag was the slot's address.
    pub(super) valid_flag: bool,
    /// Whether it was the only request of its poll. Then its warp publishes the answer itself, which is fastest. The maintenance
    /// warp publishes the answers to several requests together.
    pub(super) alone: bool,
    /// The part of the request that was fetched already.
    pub(super) burst: BurstLoad,
}

/// Sets a slot's state. Relaxed: `hand_out` orders it before the next poller's poll.
#[inline(always)]
pub(super) fn set_state<M: Machine>(block: &BlockDispatcher<'_, M>, slot: u32, value: u64) {
    if let Some(word) = block.serving.get((slot - block.partition.first) as usize) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Sets a slot's state when its warp has finished with the slot. Release: the warp's accesses to the slot come before.
#[inline(always)]
pub(super) fn change_state<M: Machine>(block: &BlockDispatcher<'_, M>, slot: u32, value: u64) {
    if let Some(word) = block.serving.get((slot - block.partition.first) as usize) {
        word.store(value, Ordering::Release);
    }
}

/// Sets the state of a slot whose warp has written the response. By one lane.
///
/// A fence towards the host takes half a microsecond, and the fences of one multiprocessor queue one after another. So the
/// maintenance warp makes one fence before it sets many response flags, and one before it clears many request flags.
#[inline(always)]
pub(super) fn responded<M: Machine>(block: &BlockDispatcher<'_, M>, slot: u32, alone: bool) {
    let state = match (block.poller_maintains, alone) {
        (true, _) => 0,
        (false, true) => PUBLISHED,
        (false, false) => RESPONDED,
    };
    change_state(block, slot, state);
}

/// The slot is answered, and its request flag to be cleared later, by whom ever. By one lane.
#[inline(always)]
pub(super) fn retire_later<M: Machine>(block: &BlockDispatcher<'_, M>, slot: u32) {
    change_state(block, slot, PUBLISHED);
}

/// Another agent answers the slot: only its request flag is still to be cleared. By one lane.
#[inline(always)]
pub(super) fn handed_over<M: Machine>(block: &BlockDispatcher<'_, M>, slot: u32) {
    responded(block, slot, true);
}

/// Leaves a slot to the dispatcher that serves its function, or until later. By one lane.
#[inline(always)]
pub(super) fn defer<M: Machine>(block: &BlockDispatcher<'_, M>, slot: u32) {
    change_state(block, slot, DEFERRED_TURNS);
}

#[inline(always)]
pub(super) fn states<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, window: u32) -> [u64; 2] {
    let first = (block.partition.first_of(warp, window) - block.partition.first) as usize;
    // Acquire: pairs with the release in `change_state`.
    core::array::from_fn(|i| block.serving.get(first + i).map_or(BUSY, |word| word.load(Ordering::Acquire)))
}
