//! What the host is shown: counts, launches, a heartbeat, which warps are at work.

use super::state::PollerState;
use super::{Machine, QueuePairDispatcher};
use core::sync::atomic::Ordering;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{clock, hint};
use ringcall_mlx5::counters::Event;
use ringcall_wire::counter::Counter;
use ringcall_wire::unified::control;

/// Polls between two signs of life, where nothing comes.
const POLLS_PER_HEARTBEAT: u32 = 1024;

/// How long counts wait to be shown to the host while requests come one after the other, in ticks: some 10 us.
const SHOW_TICKS: u64 = 20_000;

/// Nothing came.
#[inline(always)]
pub(super) fn rest<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
) {
    if poller.unshown {
        counters(dispatcher, warp);
        poller.unshown = false;
    }
    poller.width = 1;
    poller.idle = poller.idle.wrapping_add(1);
    if poller.idle.is_multiple_of(POLLS_PER_HEARTBEAT) && warp.lane() == 0 {
        poller.beat = poller.beat.wrapping_add(1);
        dispatcher.control.store(control::HEARTBEAT, poller.beat, Ordering::Relaxed);
    }
    if poller.idle % POLLS_PER_HEARTBEAT == 1 {
        // No handler runs.
        for index in warp.stride(dispatcher.warps as usize) {
            let at = control::BUSY + index * control::BUSY_WORDS;
            dispatcher.control.store(at, 0, Ordering::Relaxed);
        }
    }
    hint::spin();
}

/// Shows the counts to the host, if they have waited for long; else when nothing comes: not in the next request's way.
#[inline(always)]
pub(super) fn counters_soon<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
) {
    let now = clock::ticks();
    poller.unshown = true;
    // One lane's clock for all.
    if warp.any(warp.lane() == 0 && now.wrapping_sub(poller.shown) >= SHOW_TICKS) {
        counters(dispatcher, warp);
        (poller.unshown, poller.shown) = (false, now);
    }
}

/// Shows the counts to the host.
#[inline(always)]
pub(super) fn counters<M: Machine>(dispatcher: &QueuePairDispatcher<'_, M>, warp: Warp<'_>) {
    for pair in warp.stride(Counter::COUNT.div_ceil(2)) {
        dispatcher
            .control
            .store_pair(control::COUNTERS + 2 * pair, dispatcher.block_state.counter_pair(pair));
    }
    for pair in warp.stride(Event::COUNT.div_ceil(2)) {
        dispatcher.control.store_pair(control::EVENTS + 2 * pair, dispatcher.block_state.event_pair(pair));
    }
}

/// Shows to the host how many graphs were launched, and why the last launch that failed did.
pub(super) fn launches<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &PollerState,
) {
    if warp.lane() == 0 {
        let (launches, error) = (&dispatcher.block_state.launches, dispatcher.block_state.launches.error());
        let so_far = poller.graphs.before.wrapping_add(launches.used());
        dispatcher.control.store(control::LAUNCHES, so_far, Ordering::Relaxed);
        if error != 0 {
            dispatcher.control.store(control::LAUNCH_ERROR, error, Ordering::Relaxed);
        }
    }
}
