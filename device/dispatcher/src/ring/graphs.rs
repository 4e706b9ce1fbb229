//! Requests that a graph answers: one executable and one mailbox for each launch under way.
//!
//! Launch and answer are two agents: this module fills a mailbox and launches; the graph's own kernels read it, write the
//! response and free the mailbox ([`child`](super::graph_end)).

use super::launcher::{GraphRequest, Launcher, Unprepared};
use super::slot_copy::SlotCopy;
use super::{BlockDispatcher, Machine, WarpContext, answer, program_graphs, slot_state};
use ringcall_gpu::team::Warp;
use ringcall_protocol::ring::RingMemory;
use ringcall_protocol::slot::Request;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::HEADER_WORDS;
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::Status;

/// Launches the graph of `entry` for the request, which the graph then answers.
///
/// The order is: mailbox, in-flight mark, launch, request flag. The mark comes before the launch, since the child may
/// answer at once; the request flag is given back last, so that at no moment both flags are 0.
pub(super) fn serve<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    alone: bool,
    request: Request,
    copy: &SlotCopy<'_>,
    entry: &DeviceEntry,
) {
    let warp = context.warp;
    if entry.is_foreign() {
        program_graphs::serve(block, context, alone, request, copy, entry);
        return;
    }
    let slot = request.slot();
    let graph_request = graph_request(block, &request);
    let payload = |word| copy.word(HEADER_WORDS + word);
    let response = |_: &_| block.ring.response_addresses(slot.get());
    let prepared = match Launcher::of(block).prepare(warp, entry, graph_request, payload, |_| true, response)
    {
        Ok(prepared) => prepared,
        Err(Unprepared::Later) => return answer::hold_back(block, context, request),
        Err(Unprepared::NoRoute) => {
            return answer::refuse(block, context, alone, request, copy, Status::NO_WORKER);
        }
    };
    if !block.options.skip_marks {
        request.mark(copy);
    }
    if !Launcher::of(block).fire(warp, &prepared) {
        return answer::refuse(block, context, alone, request, copy, Status::LAUNCH_FAILED);
    }
    answer::count(block, context, Counter::Received);
    answer::count(block, context, Counter::Dispatched);
    request.hand_over(copy);
    warp.sync();
    if warp.lane() == 0 {
        slot_state::handed_over(block, slot.get());
    }
}

/// The graph that a handler may ask for.
#[inline(always)]
pub(super) fn follow_up_of<'b, M: Machine>(
    block: &'b BlockDispatcher<'_, M>,
    entry: &DeviceEntry,
) -> Option<&'b DeviceEntry> {
    if !M::GRAPHS {
        return None;
    }
    block.table.entry(entry.follow_up).filter(|graph| graph.kind == HandlerKind::Graph as u32)
}

/// Takes what the launch of a follow-up graph needs of this execution, before the handler is called: a request can wait in
/// the ring until its handler has run, and not afterwards. `false`: not now.
///
/// An executable is not taken. It would be kept from the handlers that ask while one runs that does not, and each of these
/// would wait until some graph has ended: a handler that asks while all of them run is told so by its status.
pub(super) fn reserve<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    graph: &DeviceEntry,
) -> bool {
    let launches = &block.block_state.launches;
    if !launches.take(warp) {
        return false;
    }
    let taken = !graph.is_foreign() || launches.take_trigger(warp);
    if !taken {
        launches.release(warp);
    }
    taken
}

/// Releases what [`reserve`] took, after a handler that did not ask.
pub(super) fn release<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, graph: &DeviceEntry) {
    if graph.is_foreign() {
        block.block_state.launches.release_trigger(warp);
    }
    block.block_state.launches.release(warp);
}

/// Launches a handler's follow-up graph, for which [`reserve`] was asked. It gets the handler's request and
/// sends no response. The status that the handler's request is answered with.
pub(super) fn launch_follow_up<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    graph: &DeviceEntry,
    request: &Request,
    copy: &SlotCopy<'_>,
) -> Status {
    if graph.is_foreign() {
        return program_graphs::trigger(block, warp, graph);
    }
    let graph_request = graph_request(block, request);
    let payload = |word| copy.word(HEADER_WORDS + word);
    match Launcher::of(block).prepare_reserved(warp, graph, graph_request, payload, |_| true) {
        Ok(prepared) if Launcher::of(block).fire(warp, &prepared) => Status::OK,
        Ok(_) => Status::LAUNCH_FAILED,
        Err(Unprepared::Later) => Status::BACKPRESSURE,
        Err(Unprepared::NoRoute) => Status::NO_WORKER,
    }
}

fn graph_request<'r, M: Machine>(block: &BlockDispatcher<'_, M>, request: &'r Request) -> GraphRequest<'r> {
    let capacity = block.ring.geometry().result_capacity();
    GraphRequest { header: request.header(), slot: request.slot().get(), capacity }
}
