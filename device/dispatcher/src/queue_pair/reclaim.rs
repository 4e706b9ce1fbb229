//! Reclaiming of send queue entries: when the poller reads the completions of the send side.

use super::poll::POLLS_PER_STOP_CHECK;
use super::state::PollerState;
use super::{Machine, QueuePairDispatcher};
use core::sync::atomic::Ordering;
use ringcall_gpu::hint;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::counters::Event;
use ringcall_wire::unified::control;

/// Polls for the last send completions after the end was ordered at once.
const LAST_POLLS: u32 = 4096;

/// How many send requests there is room for, at least one; 0 when it is time to end instead.
#[inline(always)]
pub(super) fn room<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    wanted: u32,
) -> u32 {
    if poller.free >= wanted {
        return poller.free;
    }
    let mut room = 0;
    if warp.lane() == 0 {
        room = make_room(dispatcher, poller, wanted);
    }
    poller.learn(warp, room);
    if poller.dead.is_some() { 0 } else { poller.free }
}

/// By lane 0.
#[inline(always)]
pub(super) fn make_room<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    poller: &mut PollerState,
    wanted: u32,
) -> u32 {
    let entries = poller.send.entries();
    let free = |poller: &PollerState| entries - poller.send.under_way() as u32;
    if free(poller) < wanted {
        completions(dispatcher, poller);
    }
    if free(poller) > 0 {
        return free(poller);
    }
    dispatcher.block_state.add(Event::TxFull, 1);
    let mut polls = 0_u32;
    loop {
        completions(dispatcher, poller);
        if free(poller) > 0 || poller.send.dead().is_some() {
            return free(poller);
        }
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(POLLS_PER_STOP_CHECK)
            && dispatcher.control.load(control::STOP, Ordering::Relaxed) == control::STOP_NOW
        {
            return 0;
        }
        hint::spin();
    }
}

/// Reads the send side's completions. By lane 0.
#[inline(always)]
pub(super) fn completions<M: Machine>(dispatcher: &QueuePairDispatcher<'_, M>, poller: &mut PollerState) {
    let found = poller.send.reclaim();
    for (event, n) in [
        (Event::TxCompletions, found.completions),
        (Event::TxErrors, found.failed),
        (Event::TxFlushed, found.flushed),
        (Event::TxStray, found.stray),
    ] {
        dispatcher.block_state.add(event, n.into());
    }
}

/// Reads the send completions when half of the send queue is under way, before a send request waits for an entry: a completion
/// is then on its way.
#[inline(always)]
pub(super) fn soon<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
) {
    let mut room = 0;
    if warp.lane() == 0 {
        if 2 * poller.send.under_way() > u64::from(poller.sizes.send) {
            completions(dispatcher, poller);
        }
        room = poller.sizes.send - poller.send.under_way() as u32;
    }
    poller.learn(warp, room);
}

/// Reads completions once, and learns how much room there is.
pub(super) fn for_room<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
) {
    let mut room = 0;
    if warp.lane() == 0 {
        completions(dispatcher, poller);
        room = poller.sizes.send - poller.send.under_way() as u32;
    }
    poller.learn(warp, room);
}

/// Waits until the NIC is done with every response. By lane 0.
#[inline(always)]
pub(super) fn drain<M: Machine>(dispatcher: &QueuePairDispatcher<'_, M>, poller: &mut PollerState) {
    let mut marked = false;
    let mut left = LAST_POLLS;
    while left > 0 {
        completions(dispatcher, poller);
        if poller.send.under_way() == 0 || poller.send.dead().is_some() {
            return;
        }
        if !marked && poller.send.has_room() {
            let mut bell = dispatcher.bell;
            marked = true;
            // The last responses may not be signalled: an empty request that is asks for them.
            if let Ok(posted) = poller.send.post_marker(&mut poller.record, &mut bell) {
                dispatcher.block_state.add(Event::TxPosted, posted.into());
                dispatcher.block_state.add(Event::TxSignalled, posted.into());
            }
        }
        if dispatcher.control.load(control::STOP, Ordering::Relaxed) == control::STOP_NOW {
            left -= 1;
        }
        hint::spin();
    }
}
