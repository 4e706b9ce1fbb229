//! Deferred requests and follow-up graphs: how a warp that serves hands work to graphs.

use super::block_state::Job;
use super::pending::{GROUP, PendingTable};
use super::{Graphs, Machine, QueuePairDispatcher};
use crate::ring::launcher::{GraphRequest, Launcher, Unprepared};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::Status;

pub(super) fn launcher<'d, M: Machine>(dispatcher: &'d QueuePairDispatcher<'_, M>) -> Launcher<'d, M> {
    Launcher {
        machine: dispatcher.machine,
        table: dispatcher.table,
        launches: &dispatcher.block_state.launches,
    }
}

/// Defers a request for a graph, or a request that waits for a launch. Returns `false` if the pending table has no free
/// entry. By the warp that fetched the request.
pub(super) fn defer<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    job: Job,
    arg_len: u32,
    input: StagingBuffer<'_>,
) -> bool {
    let Some(Graphs { pending, .. }) = dispatcher.graphs else { return false };
    let Some(entry) = pending.defer(warp, job.slot, HEADER_BYTES as u32 + arg_len, input) else {
        return false;
    };
    if warp.lane() == 0 {
        dispatcher.block_state.defer(entry / GROUP);
        dispatcher.block_state.count(Counter::Received);
    }
    // From here on the staging buffer is free. If this warp polls, it sees the whole request.
    warp.sync();
    true
}

/// The graph that a handler may ask for, and the pending table.
pub(super) fn follow_up_of<'d, M: Machine>(
    dispatcher: &'d QueuePairDispatcher<'_, M>,
    entry: &DeviceEntry,
) -> Option<(&'d PendingTable, &'d DeviceEntry)> {
    let graph = dispatcher.table.entry(entry.follow_up)?;
    (graph.kind == HandlerKind::Graph as u32).then_some((&dispatcher.graphs?.pending, graph))
}

/// Takes a launch for the follow-up graph of a handler, before the handler is called: the request can wait in the pending
/// table until its handler has run, and not afterwards. Returns `false` if no launch is left now.
///
/// No executable is taken. A handler that does not ask for its graph would otherwise wait for an executable. If all
/// executables run when a handler asks, the status of its request says so.
pub(super) fn reserve<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    entry: &DeviceEntry,
) -> bool {
    follow_up_of(dispatcher, entry).is_none() || dispatcher.block_state.launches.take(warp)
}

/// Releases what [`reserve`] took, after a handler that did not ask.
pub(super) fn release<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    entry: &DeviceEntry,
) {
    if follow_up_of(dispatcher, entry).is_some() {
        dispatcher.block_state.launches.release(warp);
    }
}

/// Launches the graph that a handler asked for, for which [`reserve`] was asked. It gets the handler's request
/// and sends no answer. By any warp.
pub(super) fn launch_follow_up<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    slot: u32,
    entry: &DeviceEntry,
    input: StagingBuffer<'_>,
) -> Status {
    let Some((pending, graph)) = follow_up_of(dispatcher, entry) else { return Status::LAUNCH_FAILED };
    let header = RequestHeader::from_words(core::array::from_fn(|word| input.word(word)));
    let graph_request = GraphRequest { header: &header, slot, capacity: dispatcher.capacity() };
    let launcher = launcher(dispatcher);
    let payload = |word| input.word(HEADER_WORDS + word);
    match launcher.prepare_reserved(warp, graph, graph_request, payload, |mailbox| pending.is_clear(mailbox))
    {
        Ok(prepared) if launcher.fire(warp, &prepared) => Status::OK,
        Ok(_) => Status::LAUNCH_FAILED,
        Err(Unprepared::Later) => Status::BACKPRESSURE,
        Err(Unprepared::NoRoute) => Status::NO_WORKER,
    }
}
