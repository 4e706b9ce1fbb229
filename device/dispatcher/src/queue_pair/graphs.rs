//! Graph launches and graph answers of a queue pair.
//!
//! Any warp defers a request to the pending table. The poller launches the graph of a deferred request, and sends the graph's
//! answer. A request whose handler may launch a follow-up graph is deferred, too, while no launch is left for the graph.
//!
//! The poller writes a send request only when an answer is there. So responses leave in the order of their answers, and a
//! slow graph delays no later request. The poller makes one launch between two polls of the completions.

use super::block_state::{GROUPS, Job};
use super::pending::{GROUP, PendingTable};
use super::state::{Done, PollerState, Tending};
use super::{Graphs, Machine, QueuePairDispatcher, follow_up, publish, reclaim, send, serve};
use crate::ring::WarpContext;
use crate::ring::launcher::{GraphRequest, RELAUNCH_FROM, Unprepared};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_protocol::table::Table;
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{HandlerKind, io, saved};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;

/// Turns between two polls for graphs that ended without an answer.
const TURNS_A_SEARCH: u32 = 64;
/// Bit of an entry's word: it was counted that the request had to wait.
const QUEUED: u64 = 1 << 31;
/// Words of a mailbox in front of the payload.
const MAILBOX_HEAD: usize = io::PAYLOAD / 8;

/// Continues with the requests and answers that the last execution left in the pending table. By the poller.
pub(super) fn open<M: Machine>(dispatcher: &QueuePairDispatcher<'_, M>, warp: Warp<'_>) -> Tending {
    let Some(Graphs { pending, saved }) = dispatcher.graphs else { return Tending::default() };
    let (mut waiting, mut outstanding) = (0, 0);
    for index in warp.stride(pending.slots() as usize) {
        if pending.waiting(index as u32) != 0 {
            dispatcher.block_state.mark_group(index as u32 / GROUP);
            waiting += 1;
        }
    }
    for index in warp.stride(pending.execs() as usize) {
        outstanding += u64::from(pending.outstanding(index as u32) != 0);
    }
    let before = warp.shuffle_u64(saved.load(saved::LAUNCHES, Ordering::Relaxed), 0);
    let (waiting, outstanding) = (warp.sum_u64(waiting), warp.sum_u64(outstanding));
    Tending { waiting, outstanding, before, next: 0, turns: 0 }
}

/// Sends an answer that is there, then launches the graph of one deferred request or calls its handler. The poller calls this
/// between two polls.
#[inline(always)]
pub(super) fn tend<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    context: WarpContext<'_>,
    poller: &mut PollerState,
) {
    let WarpContext { warp, output, .. } = context;
    if poller.graphs.held() == 0 {
        return;
    }
    let Some(graphs) = dispatcher.graphs else { return };
    if poller.free == 0 {
        reclaim::for_room(dispatcher, warp, poller);
    }
    if poller.free == 0 || poller.dead.is_some() {
        return;
    }
    poller.graphs.turns = poller.graphs.turns.wrapping_add(1);
    let mut sent = 0;
    let mut own = [0; 2];
    if poller.graphs.outstanding > 0 {
        (sent, own) = collect(dispatcher, warp, poller, &graphs.pending, output);
    }
    if poller.graphs.waiting > 0 && sent < poller.free {
        let answer = launch_next(dispatcher, context, poller, &graphs.pending);
        if let Some((slot, header, status, len)) = answer {
            let job = Job { slot, bytes: 0, index: poller.posted + u64::from(sent) };
            own = send_answer(dispatcher, warp, job, &header, status, len, output);
            sent += 1;
        }
        publish::launches(dispatcher, warp, poller);
    }
    if sent > 0 {
        let copy = (sent == 1 && dispatcher.bell.copies(warp.lanes())).then_some(own);
        let done = Done { completions: 0, receives: 0, sent: sent.into() };
        send::commit(dispatcher, warp, poller, done, copy);
        publish::counters(dispatcher, warp);
        reclaim::soon(dispatcher, warp, poller);
    }
}

/// Writes a send request for each answer that is there. Returns the number of answers, and this lane's part of the last send
/// request.
fn collect<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    pending: &PendingTable,
    output: StagingBuffer<'_>,
) -> (u32, [u64; 2]) {
    let searches = poller.graphs.turns.is_multiple_of(TURNS_A_SEARCH);
    let (mut sent, mut own) = (0, [0; 2]);
    let mut base = 0;
    while base < pending.execs() {
        let mine = base + warp.lane();
        let mut ready = warp.ballot(pending.is_answered(mine));
        let mut abandoned = 0;
        if searches {
            let head = |at| dispatcher.machine.mailbox(at, MAILBOX_HEAD);
            let outstanding = pending.outstanding(mine);
            let over = outstanding != 0
                && head(outstanding).is_none_or(|mailbox| pending.is_abandoned(mine, &mailbox));
            abandoned = warp.ballot(over) & !ready;
            ready |= abandoned;
        }
        if ready != 0 {
            barrier::observe_from_peer();
        }
        while ready != 0 && sent < poller.free {
            let lane = ready.trailing_zeros();
            ready &= ready - 1;
            let exec = base + lane;
            let index = poller.posted + u64::from(sent);
            // An answer to no outstanding request comes from a graph that writes to an address it was not
            // given.
            poller.graphs.outstanding -= u64::from(pending.outstanding(exec) != 0);
            match pass_on(dispatcher, warp, pending, exec, index, abandoned >> lane & 1 == 1, output) {
                Some(part) => (sent, own) = (sent + 1, part),
                None if warp.lane() == 0 => dispatcher.block_state.count(Counter::Dropped),
                None => (),
            }
            // All lanes have read it.
            warp.sync();
            if warp.lane() == 0 {
                pending.complete(exec);
            }
            warp.sync();
        }
        base += warp.lanes();
    }
    (sent, own)
}

/// Writes the response that a graph's answer is; `None` for an answer to no outstanding request.
fn pass_on<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    pending: &PendingTable,
    exec: u32,
    index: u64,
    abandoned: bool,
    output: StagingBuffer<'_>,
) -> Option<[u64; 2]> {
    let outstanding = pending.outstanding(exec);
    if outstanding == 0 {
        return None;
    }
    let mailbox = dispatcher.machine.mailbox(outstanding, MAILBOX_HEAD)?;
    let word = |at| mailbox.load(at, Ordering::Relaxed);
    // The dispatcher's own words: no other agent writes a mailbox's head, and its graph is not launched
    // again before the answer is complete.
    let request = RequestHeader::from_words(core::array::from_fn(|at| word(io::HEADER + at)));
    let slot = word(io::SLOT) as u32;
    let (mut status, mut len) = (Status::LAUNCH_FAILED, 0);
    if !abandoned {
        let answer = pending.answer_header(exec);
        if answer.has_magic() {
            (status, len) = (answer.status(), answer.result_len);
        }
        (status, len) = status.clamped(len, dispatcher.capacity());
        pending.fetch_answer(warp, exec, HEADER_BYTES as u32 + len, output);
    }
    Some(send_answer(dispatcher, warp, Job { slot, bytes: 0, index }, &request, status, len, output))
}

/// Writes the response to a request that was deferred, and counts it; the body lies in `output`.
fn send_answer<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    job: Job,
    request: &RequestHeader,
    status: Status,
    len: u32,
    output: StagingBuffer<'_>,
) -> [u64; 2] {
    if warp.lane() == 0 {
        dispatcher.block_state.count(Counter::of_status(status));
    }
    let reply = ResponseHeader::reply(request, status.0, len).to_words();
    warp.sync();
    let written = send::respond(dispatcher, warp, job, reply, len, output);
    dispatcher.block_state.count_bits(warp, written.counted);
    // The staging buffer is read.
    warp.sync();
    written.own
}

/// Tries the next request that waits; what to answer, if no graph will: it cannot be launched at all, or its handler was
/// called, whose result of that length lies in `output`.
fn launch_next<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    context: WarpContext<'_>,
    poller: &mut PollerState,
    pending: &PendingTable,
) -> Option<(u32, RequestHeader, Status, u32)> {
    let WarpContext { warp, input, .. } = context;
    let waiting = next_waiting(dispatcher, warp, poller, pending)?;
    poller.graphs.next = waiting + 1;
    let word = pending.waiting(waiting);
    let slot = Job::of(word & !QUEUED, 0).slot;
    let header = pending.request_header(waiting);
    let launcher = follow_up::launcher(dispatcher);
    let later = |poller: &mut PollerState| {
        if word & QUEUED == 0 {
            if warp.lane() == 0 {
                pending.note(waiting, word | QUEUED);
            }
            count_tended(dispatcher, warp, poller, Counter::Queued);
        }
        warp.sync();
    };
    let answer = match dispatcher.table.lookup(FunctionId(header.function_id)) {
        // It was there when the request was checked; another table is another dispatcher's.
        None => Some((Status::UNKNOWN_FUNCTION, 0)),
        Some(entry) if entry.kind != HandlerKind::Graph as u32 => {
            if !follow_up::reserve(dispatcher, warp, entry) {
                later(poller);
                return None;
            }
            pending.fetch_request(warp, waiting, HEADER_BYTES as u32 + header.arg_len, input);
            warp.sync();
            count_tended(dispatcher, warp, poller, Counter::Dispatched);
            Some(serve::call(dispatcher, context, slot, entry, header.arg_len))
        }
        Some(entry) => {
            let graph_request = GraphRequest { header: &header, slot, capacity: dispatcher.capacity() };
            let payload = |word| pending.request_word(waiting, HEADER_WORDS + word);
            let clear = |mailbox: &Words| pending.is_clear(mailbox);
            let answer = |mailbox: &Words| pending.answer_addresses(mailbox);
            match launcher.prepare(warp, entry, graph_request, payload, clear, answer) {
                Ok(prepared) => {
                    let executable = prepared.mailbox.load(io::ANSWER, Ordering::Relaxed) as u32;
                    if warp.lane() == 0 {
                        // Before the launch: the child may be done before this warp is.
                        pending.set_outstanding(executable, prepared.address);
                    }
                    if launcher.fire(warp, &prepared) {
                        poller.graphs.outstanding += 1;
                        count_tended(dispatcher, warp, poller, Counter::Dispatched);
                        None
                    } else {
                        if warp.lane() == 0 {
                            pending.complete(executable);
                        }
                        Some((Status::LAUNCH_FAILED, 0))
                    }
                }
                Err(Unprepared::Later) => {
                    later(poller);
                    return None;
                }
                Err(Unprepared::NoRoute) => Some((Status::NO_WORKER, 0)),
            }
        }
    };
    poller.graphs.waiting -= 1;
    // All lanes have read it.
    warp.sync();
    if warp.lane() == 0 {
        pending.note(waiting, 0);
    }
    warp.sync();
    answer.map(|(status, len)| (slot, header, status, len))
}

/// Counts what became of a request that waits. The host is to be shown it though no answer may follow for long.
fn count_tended<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    counter: Counter,
) {
    if warp.lane() == 0 {
        dispatcher.block_state.count(counter);
    }
    poller.unshown = true;
}

/// The next entry, around the pending table, in which a request waits.
fn next_waiting<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    pending: &PendingTable,
) -> Option<u32> {
    let mut from = poller.graphs.next % pending.slots().max(1);
    // Once around, and the group where it began once more, from its start.
    for _ in 0..=GROUPS {
        let group = dispatcher.block_state.next_group(from / GROUP)?;
        // All lanes have read the groups.
        warp.sync();
        let first = group * GROUP;
        let skipped = if from > first && from < first + GROUP { from - first } else { 0 };
        let mut seen = 0_u32;
        let mut base = 0;
        while base < GROUP {
            let at = base + warp.lane();
            let waits = at < GROUP && pending.waiting(first + at) != 0;
            seen |= warp.ballot(waits) << base;
            base += warp.lanes();
        }
        let ahead = seen >> skipped << skipped;
        if ahead != 0 {
            return Some(first + ahead.trailing_zeros());
        }
        if seen == 0 && warp.lane() == 0 {
            dispatcher.block_state.clear_group(group);
        }
        warp.sync();
        from = (first + GROUP) % (GROUPS * GROUP);
    }
    None
}

/// Whether this is the moment for a fresh budget of launches: half of it is used, no child runs, no answer is outstanding.
#[inline(always)]
pub(super) fn should_relaunch<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &PollerState,
) -> bool {
    let used = dispatcher.block_state.launches.used();
    if used < RELAUNCH_FROM || poller.graphs.outstanding != 0 {
        return false;
    }
    let Some(Graphs { saved, .. }) = dispatcher.graphs else { return false };
    let finished = warp.shuffle_u64(saved.load(saved::FINISHED, Ordering::Relaxed), 0);
    poller.graphs.before.wrapping_add(used) <= finished
}

/// What outlives this start: counts of launches. By the poller, last of all but the state.
pub(super) fn close<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &PollerState,
) {
    let Some(Graphs { saved, .. }) = dispatcher.graphs else { return };
    publish::launches(dispatcher, warp, poller);
    if warp.lane() == 0 {
        let so_far = poller.graphs.before.wrapping_add(dispatcher.block_state.launches.used());
        saved.store(saved::LAUNCHES, so_far, Ordering::Relaxed);
        dispatcher.control.store(control::HELD, poller.graphs.held(), Ordering::Relaxed);
    }
}

/// Launches the kernel again, for when this execution has ended; `false`: it could not, and the control block says why. By the
/// poller, when everything is left as the next execution takes it up.
pub(super) fn relaunch<M: Machine>(dispatcher: &QueuePairDispatcher<'_, M>, warp: Warp<'_>) -> bool {
    let Some(Graphs { saved, .. }) = dispatcher.graphs else { return false };
    if warp.lane() == 0 {
        let again = saved.load(saved::RELAUNCHES, Ordering::Relaxed) + 1;
        saved.store(saved::RELAUNCHES, again, Ordering::Relaxed);
        dispatcher.control.store(control::RELAUNCHES, again, Ordering::Relaxed);
    }
    // What the other lanes left is before the launch, which is the next execution's beginning.
    warp.sync();
    let mut failed = false;
    if warp.lane() == 0
        && let Err(code) = dispatcher.machine.relaunch()
    {
        failed = true;
        dispatcher.control.store(control::RELAUNCH_ERROR, u64::from(code as u32), Ordering::Relaxed);
    }
    !warp.any(failed)
}
