//! One poll at the next completions, in two parts: begun, and finished when its loads are there.

use super::state::{PendingPoll, Poll, PollerState};
use super::{Machine, QueuePairDispatcher};
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::layout::cqe;
use ringcall_wire::unified::control;

/// Polls between two polls at the stop word, where nothing comes.
pub(super) const POLLS_PER_STOP_CHECK: u32 = 16;

/// One poll at the next completions, a lane each; now and then at the stop word too, in the same burst.
#[inline(always)]
pub(super) fn poll<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &PollerState,
) -> Poll {
    finish(warp, poller, begin(dispatcher, warp, poller))
}

/// Begins a poll. On a device, work between this and [`finish`] is done while the
/// loads are under way.
#[inline(always)]
pub(super) fn begin<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &PollerState,
) -> PendingPoll {
    let lane = warp.lane();
    let stops = poller.idle.is_multiple_of(POLLS_PER_STOP_CHECK);
    let ours = lane < poller.width;
    let first =
        ours.then_some((&dispatcher.windows.rx_completions, poller.entry(lane) + cqe::OWNER_WORD - 1));
    let second = (stops && lane == 0).then_some((dispatcher.control, control::STOP));
    let [[_, owner], [stop, _]] = Words::load_two(first, second);
    let index = ours.then_some(poller.consumed + u64::from(lane));
    PendingPoll { owner, stop, stops, index }
}

/// What a poll found.
#[inline(always)]
pub(super) fn finish(warp: Warp<'_>, poller: &PollerState, begun: PendingPoll) -> Poll {
    let PendingPoll { owner, stop, stops, index } = begun;
    let entries = poller.sizes.completions.into();
    let there = index.is_some_and(|index| cqe::is_ours(owner, index, entries));
    let ready = warp.ballot(there).trailing_ones();
    let stop = if stops { warp.shuffle(stop as u32, 0).into() } else { control::STOP_NO };
    Poll { ready, owner, stop }
}
