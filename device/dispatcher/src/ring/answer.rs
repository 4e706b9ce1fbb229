//! Ends of a claimed request: an answer, a refusal, or a return to the ring, each with its counters.

use super::slot_copy::{InStagingBuffer, SlotCopy};
use super::{BlockDispatcher, Machine, WarpContext, slot_state};
use ringcall_gpu::team::Warp;
use ringcall_protocol::ring::RingMemory;
use ringcall_protocol::slot::Request;
use ringcall_wire::counter::Counter;
use ringcall_wire::status::Status;

/// Answers a request for which nothing is run, or drops it.
#[inline(always)]
pub(super) fn refuse<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    alone: bool,
    request: Request,
    copy: &SlotCopy<'_>,
    status: Status,
) {
    let warp = context.warp;
    let slot = request.slot().get();
    count(block, context, Counter::Received);
    if block.options.drop_bad_requests && status.is_bad_request() {
        count(block, context, Counter::of_status(status));
        request.drop_unanswered(copy);
        // As if it had come alone: no answer waits for its response flag.
        complete(block, warp, slot, true);
    } else {
        answer(block, context, request, copy, status, 0);
        complete(block, warp, slot, alone);
    }
}

/// Answers, and counts the answer under its status before anybody can see it.
#[inline(always)]
pub(super) fn answer<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    request: Request,
    copy: &SlotCopy<'_>,
    status: Status,
    len: u32,
) {
    let (counted, _) = status.clamped(len, block.ring.geometry().result_capacity());
    count(block, context, Counter::of_status(counted));
    let _ = request.answer(copy, status, InStagingBuffer(len as usize));
}

/// Counts one, in this warp's own bank.
#[inline(always)]
pub(super) fn count<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>, counter: Counter) {
    let WarpContext { warp, me, .. } = context;
    if warp.lane() == 0
        && let Some(bank) = block.block_state.bank(me)
    {
        bank.count(counter);
    }
}

/// This warp is done with the slot.
#[inline(always)]
pub(super) fn complete<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, slot: u32, alone: bool) {
    warp.sync();
    if warp.lane() == 0 {
        slot_state::responded(block, slot, alone);
    }
}

/// Back-pressure: the request stays in the ring and is polled again in a few turns.
pub(super) fn hold_back<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    request: Request,
) {
    let warp = context.warp;
    let slot = request.slot().get();
    count(block, context, Counter::Queued);
    request.leave();
    warp.sync();
    if warp.lane() == 0 {
        slot_state::defer(block, slot);
    }
}
