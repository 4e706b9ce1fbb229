//! Counters, launches, heartbeat and busy warps that a queue pair's dispatcher publishes to the host.

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

/// The time, in ticks, after which counters are published although requests come one after the other: some 10 us.
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

/// Publishes the counters if the last time was long ago. Otherwise the next idle turn publishes them, so that they delay no
/// request.
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

/// Publishes the counters to the host.
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

/// Publishes the number of graph launches, and the CUDA code of the last launch that failed.
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
