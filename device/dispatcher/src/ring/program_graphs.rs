//! Graphs of a program's own. They know of no mailbox: their kernels find the request through one context for all of them
//! ([`ringcall_wire::launch::context`]), whose address was captured into them, and set the response flag themselves.
//!
//! # The context
//! It belongs to one launch at a time: from before the launch until the response flag has left the in-flight mark. The
//! answer is the graph's last use of the context. Other requests for such graphs stay in the ring meanwhile.
//!
//! # The end
//! Nothing reports that such a graph has *ended*, and its executable cannot be launched before the end. One
//! thing proves it: an execution that was launched as a tail begins when all children of the one before have
//! ended. So the dispatcher relaunches itself, by giving up its budget of launches,
//!
//! - when a graph has not answered for long ([`saved::LIMIT`]), or when all else has ended: if it still has not when the next
//!   execution begins, it never will, and is answered `LAUNCH_FAILED`;
//! - when a launch fails and others were made before, which may still run though they have answered: the request stays
//!   in the ring and is the next execution's first launch. If that fails, too, it is answered `LAUNCH_FAILED`;
//! - after every trigger graph, so that a client that has seen the answer to the triggering call finds the
//!   graph's work done. Handlers that may ask for it run one at a time: it has one executable, and is
//!   launched once an execution.
//!
//! Words that more than one warp may write ([`saved::HOLDER`] and what it protects) belong to the warp that
//! has moved the holder to [`saved::TAKEN`]. Tables have either graphs with mailboxes or graphs of a program:
//! the counters that the first add to are this module's in the second.

use super::launcher::Launcher;
use super::program_context::ProgramContext;
use super::slot_copy::SlotCopy;
use super::triggers::TriggerRecord;
use super::{BlockDispatcher, Machine, WarpContext, answer, slot_state, together, triggers};
use core::sync::atomic::Ordering;
use ringcall_gpu::clock;
use ringcall_gpu::team::Warp;
use ringcall_protocol::ring::RingMemory;
use ringcall_protocol::slot::Request;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::HEADER_WORDS;
use ringcall_wire::launch::{DeviceEntry, context, saved};
use ringcall_wire::status::Status;

/// Launches the program's graph of `entry` for the request, which the graph then answers. The order is: context, in-flight
/// mark, launch, request flag, as for any graph.
pub(super) fn serve<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    alone: bool,
    request: Request,
    copy: &SlotCopy<'_>,
    entry: &DeviceEntry,
) {
    let warp = context.warp;
    let index = request.slot();
    let slot = index.get();
    let launcher = Launcher::of(block);
    let Some(entry) = launcher.route(entry, request.header(), |word| copy.word(HEADER_WORDS + word)) else {
        return answer::refuse(block, context, alone, request, copy, Status::NO_WORKER);
    };
    let Some(words) =
        block.machine.mailbox(block.saved.load(saved::CONTEXT, Ordering::Relaxed), context::WORDS)
    else {
        // The host gives every table with such graphs a context.
        return answer::refuse(block, context, alone, request, copy, Status::LAUNCH_FAILED);
    };
    if !block.block_state.launches.take(warp) {
        return answer::hold_back(block, context, request);
    }
    if together(warp, || u64::from(ProgramContext(block).take(slot))) == 0 {
        block.block_state.launches.release(warp);
        return answer::hold_back(block, context, request);
    }
    if warp.lane() == 0 {
        let answer = block.ring.response_addresses(slot).unwrap_or_default();
        for (word, value) in [
            (context::RX_SLOT, block.ring.geometry().request_address(index)),
            (context::TX_SLOT, answer.slot),
            (context::TX_FLAG, answer.flag),
            (context::TX_VALUE, answer.value),
            (context::TX_STRIDE, u64::from(block.ring.geometry().tx_stride())),
        ] {
            words.store(word, value, Ordering::Relaxed);
        }
        for (word, value) in request.header().to_words().into_iter().enumerate() {
            block.saved.store(saved::HEADER + word, value, Ordering::Relaxed);
        }
        block.saved.store(saved::SINCE, clock::ticks(), Ordering::Relaxed);
    }
    // Always: an answer is known by the mark's end.
    request.mark(copy);
    if launcher.fire_foreign(warp, entry.address).is_ok() {
        if warp.lane() == 0 {
            // After the mark, so that a warp that sees this holder sees its mark, or a later state of the
            // slot.
            ProgramContext(block).give_to(slot);
        }
        answer::count(block, context, Counter::Received);
        answer::count(block, context, Counter::Dispatched);
        request.hand_over(copy);
        warp.sync();
        if warp.lane() == 0 {
            slot_state::handed_over(block, slot);
        }
        return;
    }
    // A graph that has answered may still run, and keep its executable: only a fresh execution knows that none does.
    let launches = &block.block_state.launches;
    let fresh = together(warp, || u64::from(launches.uncounted() == 0 && !launches.is_spent())) != 0;
    if warp.lane() == 0 {
        let next = if fresh { 0 } else { u64::from(slot) + 1 };
        block.saved.store(saved::NEXT, next, Ordering::Relaxed);
        if !fresh {
            // The request flag still stands, so the slot does not look vacant.
            block.ring.clear_tx(index);
            launches.spend();
        }
        ProgramContext(block).free();
    }
    if fresh {
        answer::refuse(block, context, alone, request, copy, Status::LAUNCH_FAILED);
    } else {
        answer::hold_back(block, context, request);
    }
}

/// Launches the graph that a handler asked for, while no other trigger graph runs. The graph gets no input and sends no
/// answer; no further request is served before the graph has ended. Returns the status of the handler's request.
pub(super) fn trigger<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    graph: &DeviceEntry,
) -> Status {
    // On its way while the graph is launched.
    let before = block.saved.load(saved::TRIGGERS, Ordering::Relaxed);
    let launched = Launcher::of(block).fire_foreign(warp, graph.address);
    if warp.lane() == 0 {
        publish_trigger(block, before, launched.err().unwrap_or(0));
    }
    if launched.is_err() {
        block.block_state.launches.release_trigger(warp);
        return Status::LAUNCH_FAILED;
    }
    if warp.lane() == 0 {
        block.block_state.launches.spend();
    }
    warp.sync();
    Status::OK
}

/// Publishes a launch of the trigger graph and its CUDA code to the host: at once, since the graph may
/// never end. By one lane of the warp that has taken the context.
fn publish_trigger<M: Machine>(block: &BlockDispatcher<'_, M>, before: u64, code: u32) {
    let count = before.wrapping_add(1);
    block.saved.store(saved::TRIGGERS, count, Ordering::Relaxed);
    triggers::publish(
        block.control,
        TriggerRecord { launches: count, code: u64::from(code), at_ns: clock::now_ns() },
    );
}
