//! Serving one slot.

use super::slot_copy::{BurstLoad, SlotCopy};
use super::slot_state::Job;
use super::{
    BlockDispatcher, Call, Machine, Returned, WarpContext, answer, graphs, maintenance, slot_state, together,
};
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, clock};
use ringcall_protocol::ring::RingMemory;
use ringcall_protocol::slot::{Request, Seen};
use ringcall_protocol::table::Table;
use ringcall_protocol::validate;
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::{DispatchMode, Status};

/// Fetches, checks, runs and answers the request in `slot`, then lets the slot be handed out again.
#[inline(always)]
pub(super) fn serve<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>, job: Job) {
    let WarpContext { warp, input, output, .. } = context;
    let Job { slot, valid_flag, alone, burst } = job;
    let Some(index) = block.ring.geometry().slot(slot) else { return };
    let mut copy =
        SlotCopy::new(warp, block.ring, index, burst, input, output, alone, block.poller_maintains);
    if block.options.is_shared() {
        // On a shared ring another dispatcher may have answered the request that was seen, and the
        // producer may be writing the next request into the slot. If the flag is set now, this one is
        // complete: the request is for this dispatcher, so no other dispatcher takes it.
        if is_others(block, &copy) || together(warp, || block.ring.rx(index)) == flag::FREE {
            leave(block, warp, slot);
            return;
        }
        barrier::observe_from_peer();
        let burst = BurstLoad::with_flag(warp, block.ring, index);
        copy = SlotCopy::new(warp, block.ring, index, burst, input, output, alone, block.poller_maintains);
        // The function is what it was, but a header of which half was the last one's may have looked whole.
        if block.options.shared_ring && !is_whole(block, &header(&copy)) {
            leave(block, warp, slot);
            return;
        }
    }
    // The poller compared the flag with the slot's address; any other value stands for one that was wrong.
    let value = if valid_flag { block.ring.geometry().request_address(index) } else { flag::GRAPH_TRIGGER };
    let Some(request) = Seen::new(index, value).claim(&copy) else {
        // The previous response was not taken yet: the request stays where it is, and is polled again.
        leave(block, warp, slot);
        return;
    };
    let checked = request.check(&copy).and_then(|()| {
        let entry = validate::function(&block.table, request.header(), |mode| {
            mode == DispatchMode::DeviceCall || (M::GRAPHS && mode == DispatchMode::GraphLaunch)
        })?;
        match HandlerKind::from_raw(entry.kind) {
            None | Some(HandlerKind::OtherDispatcher) => Err(Status::WRONG_MODE),
            Some(kind) => Ok((entry, kind)),
        }
    });
    match checked {
        Ok((entry, kind)) => {
            copy.fetch_rest(request.header().arg_len);
            run_entry(block, context, alone, request, &copy, entry, kind);
        }
        Err(status) => answer::refuse(block, context, alone, request, &copy, status),
    }
}

/// Whether a copied request is another dispatcher's to answer. Of all dispatchers of a ring just one says no.
#[inline(always)]
fn is_others<M: Machine>(block: &BlockDispatcher<'_, M>, copy: &SlotCopy<'_>) -> bool {
    let header = header(copy);
    match block.table.lookup(FunctionId(header.function_id)) {
        Some(entry) if is_whole(block, &header) => entry.kind == HandlerKind::OtherDispatcher as u32,
        // Malformed, or for an unknown function: the dispatcher of the ring that is not in shared mode
        // answers.
        _ => block.options.shared_ring,
    }
}

#[inline(always)]
fn header(copy: &SlotCopy<'_>) -> RequestHeader {
    RequestHeader::from_words(core::array::from_fn(|i| copy.word(i)))
}

#[inline(always)]
fn is_whole<M: Machine>(block: &BlockDispatcher<'_, M>, header: &RequestHeader) -> bool {
    validate::header(header, block.ring.geometry().request_capacity()).is_ok()
}

/// Leaves a request in the ring: it is polled again in a few turns.
#[inline(always)]
fn leave<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, slot: u32) {
    warp.sync();
    if warp.lane() == 0 {
        slot_state::defer(block, slot);
    }
}

/// Runs the function that was found.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // what a served request consists of
fn run_entry<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    alone: bool,
    request: Request,
    copy: &SlotCopy<'_>,
    entry: &DeviceEntry,
    kind: HandlerKind,
) {
    let WarpContext { warp, me, input, output } = context;
    let slot = request.slot().get();
    if warp.lane() == 0 && kind != HandlerKind::Grid {
        begin(block, me, entry.id, slot);
    }
    if M::GRAPHS && kind == HandlerKind::Graph {
        graphs::serve(block, context, alone, request, copy, entry);
        return;
    }
    let follow_up = graphs::follow_up_of(block, entry);
    if let Some(graph) = follow_up
        && !graphs::reserve(block, warp, graph)
    {
        answer::hold_back(block, context, request);
        return;
    }
    let call = Call {
        address: entry.address,
        input,
        output,
        arg_len: request.header().arg_len,
        capacity: block.ring.geometry().result_capacity(),
    };
    let returned = call_handler(block, warp, kind, &call, || begin(block, me, entry.id, slot));
    let status = after_call(block, warp, follow_up, &request, copy, returned);
    answer::count(block, context, Counter::Received);
    answer::count(block, context, Counter::Dispatched);
    answer::answer(block, context, request, copy, status, returned.len);
    answer::complete(block, warp, slot, alone);
}

/// Calls a handler of any kind that is called. Lane 0 does `begin` in the course of a grid's call, and of no other: the
/// releasing store that calls the grid would wait until what that writes to the host's memory has crossed the bus.
#[inline(always)]
pub(super) fn call_handler<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    kind: HandlerKind,
    call: &Call<'_>,
    begin: impl FnOnce(),
) -> Returned {
    let mut returned = Returned::default();
    if kind == HandlerKind::Grid {
        let wrong = Returned { status: Status::WRONG_MODE.0, len: 0 };
        returned = block.machine.call_grid(warp, call, begin).unwrap_or(wrong);
    } else if kind == HandlerKind::Warp {
        returned = block.machine.call_warp(warp, call);
    } else if warp.lane() == 0 {
        returned = block.machine.call_thread(call);
    }
    // The other lanes write the response: they need its length, and lane 0's stores before them.
    warp.sync();
    Returned { status: warp.shuffle(returned.status as u32, 0) as i32, len: warp.shuffle(returned.len, 0) }
}

/// Notes what this warp is about to call, for the watchdog. Where the poller does the maintenance itself
/// no other warp would report it. A grid's handler is noted by [`call_handler`].
#[inline(always)]
pub(super) fn begin<M: Machine>(block: &BlockDispatcher<'_, M>, me: u32, function: u32, slot: u32) {
    let now = clock::ticks();
    block.block_state.begin(me, function, now);
    if block.poller_maintains {
        maintenance::publish_busy(block, me, function, slot, now);
    }
}

/// The status that a handler's return means: it may have asked for its follow-up graph, a launch of which is reserved.
#[inline(always)]
fn after_call<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    follow_up: Option<&DeviceEntry>,
    request: &Request,
    copy: &SlotCopy<'_>,
    returned: Returned,
) -> Status {
    let asks = i64::from(returned.status) == flag::GRAPH_TRIGGER as i64;
    match follow_up {
        Some(graph) if asks => graphs::launch_follow_up(block, warp, graph, request, copy),
        None if asks => Status::LAUNCH_FAILED,
        Some(graph) => {
            graphs::release(block, warp, graph);
            Status(returned.status)
        }
        None => Status(returned.status),
    }
}

/// Bytes of a staging buffer that holds a whole slot, in whole 16-byte pairs.
#[must_use]
pub const fn staging_bytes(slot_bytes: u32) -> u32 {
    let least = HEADER_BYTES as u32;
    let bytes = if slot_bytes < least { least } else { slot_bytes };
    bytes.next_multiple_of(16)
}
