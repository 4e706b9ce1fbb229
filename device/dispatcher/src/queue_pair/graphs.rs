//! Requests that graphs answer: deferred, launched, collected. By the poller, but for the deferring. And those of handlers
//! that may ask for a graph, while no launch is left for it.
//!
//! The send request is written when the answer is there, so that responses leave in the order of their answers: no graph
//! holds up what came after it. Launches are made between two looks at the completions, one at a time.

use super::block_state::{GROUPS, Job};
use super::pending::{GROUP, PendingTable};
use super::state::{Done, PollerState, Tending};
use super::{Machine, QueuePairDispatcher};
use crate::ring::WarpContext;
use crate::ring::launcher::{GraphRequest, Launcher, RELAUNCH_FROM, Unprepared};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::Warp;
use ringcall_protocol::table::Table;
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind, io, saved};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;

/// Turns between two looks for graphs that ended without an answer.
const TURNS_A_SEARCH: u32 = 64;
/// Bit of an entry's word: it was counted that the request had to wait.
const QUEUED: u64 = 1 << 31;
/// Words of a mailbox in front of the payload.
const MAILBOX_HEAD: usize = io::PAYLOAD / 8;

/// What graphs keep from one start to the next.
#[derive(Debug)]
pub struct Graphs {
    /// Requests that wait, and answers that are outstanding.
    pub pending: PendingTable,
    /// The words of [`saved`] of which launches, relaunches and finished children are used.
    pub saved: Words,
}

impl<M: Machine> QueuePairDispatcher<'_, M> {
    fn launcher(&self) -> Launcher<'_, M> {
        Launcher { machine: self.machine, table: self.table, launches: &self.block_state.launches }
    }

    /// Takes up what the last start, or the last execution, left. By the poller.
    pub(super) fn open_graphs(&self, warp: Warp<'_>) -> Tending {
        let Some(Graphs { pending, saved }) = self.graphs else { return Tending::default() };
        let (mut waiting, mut outstanding) = (0, 0);
        for index in warp.stride(pending.slots() as usize) {
            if pending.waiting(index as u32) != 0 {
                self.block_state.mark_group(index as u32 / GROUP);
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

    /// Puts a request for a graph, or one that waits for a launch, aside; `false`: there is no entry left. By the warp that
    /// fetched it.
    pub(super) fn defer(&self, warp: Warp<'_>, job: Job, arg_len: u32, input: Stage<'_>) -> bool {
        let Some(Graphs { pending, .. }) = self.graphs else { return false };
        let Some(entry) = pending.defer(warp, job.slot, HEADER_BYTES as u32 + arg_len, input) else {
            return false;
        };
        if warp.lane() == 0 {
            self.block_state.defer(entry / GROUP);
            self.block_state.count(Counter::Received);
        }
        // The stage is free again; and the poller, where this is it, sees all of the request.
        warp.sync();
        true
    }

    /// The graph that a handler may ask for, and the pending table.
    fn follow_up_of(&self, entry: &DeviceEntry) -> Option<(&PendingTable, &DeviceEntry)> {
        let graph = self.table.entry(entry.follow_up)?;
        (graph.kind == HandlerKind::Graph as u32).then_some((&self.graphs?.pending, graph))
    }

    /// Takes the launch of a graph that a handler may ask for, before it is called: its request can wait on
    /// the pending table until it has run, and not afterwards. `false`: there is none left now. (An
    /// executable is not taken: the status tells a handler that asks while all executables run, since those
    /// that do not ask would wait for them, too.)
    pub(super) fn reserve(&self, warp: Warp<'_>, entry: &DeviceEntry) -> bool {
        self.follow_up_of(entry).is_none() || self.block_state.launches.take(warp)
    }

    /// Gives back what [`reserve`](Self::reserve) took, after a handler that did not ask.
    pub(super) fn release(&self, warp: Warp<'_>, entry: &DeviceEntry) {
        if self.follow_up_of(entry).is_some() {
            self.block_state.launches.give_back(warp);
        }
    }

    /// Launches the graph that a handler asked for, for which [`reserve`](Self::reserve) was asked. It gets the handler's request
    /// and sends no answer. By any warp.
    pub(super) fn follow_up(
        &self,
        warp: Warp<'_>,
        slot: u32,
        entry: &DeviceEntry,
        input: Stage<'_>,
    ) -> Status {
        let Some((pending, graph)) = self.follow_up_of(entry) else { return Status::LAUNCH_FAILED };
        let header = RequestHeader::from_words(core::array::from_fn(|word| input.word(word)));
        let graph_request = GraphRequest { header: &header, slot, capacity: self.capacity() };
        let launcher = self.launcher();
        let payload = |word| input.word(HEADER_WORDS + word);
        match launcher
            .prepare_reserved(warp, graph, graph_request, payload, |mailbox| pending.is_clear(mailbox))
        {
            Ok(prepared) if launcher.fire(warp, &prepared) => Status::OK,
            Ok(_) => Status::LAUNCH_FAILED,
            Err(Unprepared::Later) => Status::BACKPRESSURE,
            Err(Unprepared::NoRoute) => Status::NO_WORKER,
        }
    }

    /// A round has set some requests aside.
    #[inline(always)]
    pub(super) fn took(&self, poller: &mut PollerState, aside: u64) {
        poller.graphs.waiting += aside;
    }

    /// Between two looks: sends an answer that is there, launches a request that waits, or calls its handler.
    #[inline(always)]
    pub(super) fn tend(&self, context: WarpContext<'_>, poller: &mut PollerState) {
        let WarpContext { warp, output, .. } = context;
        if poller.graphs.held() == 0 {
            return;
        }
        let Some(graphs) = self.graphs else { return };
        if poller.free == 0 {
            self.reclaim_for_room(warp, poller);
        }
        if poller.free == 0 || poller.dead.is_some() {
            return;
        }
        poller.graphs.turns = poller.graphs.turns.wrapping_add(1);
        let mut sent = 0;
        let mut own = [0; 2];
        if poller.graphs.outstanding > 0 {
            (sent, own) = self.collect(warp, poller, &graphs.pending, output);
        }
        if poller.graphs.waiting > 0 && sent < poller.free {
            let answer = self.launch_next(context, poller, &graphs.pending);
            if let Some((slot, header, status, len)) = answer {
                let job = Job { slot, bytes: 0, index: poller.posted + u64::from(sent) };
                own = self.tell(warp, job, &header, status, len, output);
                sent += 1;
            }
            self.show_launches(warp, poller);
        }
        if sent > 0 {
            let copy = (sent == 1 && self.bell.copies(warp.lanes())).then_some(own);
            let done = Done { completions: 0, receives: 0, sent: sent.into() };
            self.commit(warp, poller, done, copy);
            self.publish(warp);
            self.reclaim_soon(warp, poller);
        }
    }

    /// Writes the send requests of the answers that are there; how many, and this lane's part of the last.
    fn collect(
        &self,
        warp: Warp<'_>,
        poller: &mut PollerState,
        pending: &PendingTable,
        output: Stage<'_>,
    ) -> (u32, [u64; 2]) {
        let searches = poller.graphs.turns.is_multiple_of(TURNS_A_SEARCH);
        let (mut sent, mut own) = (0, [0; 2]);
        let mut base = 0;
        while base < pending.execs() {
            let mine = base + warp.lane();
            let mut ready = warp.ballot(pending.is_answered(mine));
            let mut abandoned = 0;
            if searches {
                let head = |at| self.machine.mailbox(at, MAILBOX_HEAD);
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
                match self.pass_on(warp, pending, exec, index, abandoned >> lane & 1 == 1, output) {
                    Some(part) => (sent, own) = (sent + 1, part),
                    None if warp.lane() == 0 => self.block_state.count(Counter::Dropped),
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
    fn pass_on(
        &self,
        warp: Warp<'_>,
        pending: &PendingTable,
        exec: u32,
        index: u64,
        abandoned: bool,
        output: Stage<'_>,
    ) -> Option<[u64; 2]> {
        let outstanding = pending.outstanding(exec);
        if outstanding == 0 {
            return None;
        }
        let mailbox = self.machine.mailbox(outstanding, MAILBOX_HEAD)?;
        let word = |at| mailbox.load(at, Ordering::Relaxed);
        // The dispatcher's own words: no other agent writes a mailbox's head, and its graph is not launched
        // again before the answer is settled.
        let request = RequestHeader::from_words(core::array::from_fn(|at| word(io::HEADER + at)));
        let slot = word(io::SLOT) as u32;
        let (mut status, mut len) = (Status::LAUNCH_FAILED, 0);
        if !abandoned {
            let answer = pending.answer_header(exec);
            if answer.has_magic() {
                (status, len) = (answer.status(), answer.result_len);
            }
            (status, len) = status.clamped(len, self.capacity());
            pending.fetch_answer(warp, exec, HEADER_BYTES as u32 + len, output);
        }
        Some(self.tell(warp, Job { slot, bytes: 0, index }, &request, status, len, output))
    }

    /// Writes the response to a request that was deferred, and counts it; the body lies in `output`.
    fn tell(
        &self,
        warp: Warp<'_>,
        job: Job,
        request: &RequestHeader,
        status: Status,
        len: u32,
        output: Stage<'_>,
    ) -> [u64; 2] {
        if warp.lane() == 0 {
            self.block_state.count(Counter::of_status(status));
        }
        let reply = ResponseHeader::reply(request, status.0, len).to_words();
        warp.sync();
        let written = self.respond(warp, job, reply, len, output);
        self.block_state.count_bits(warp, written.counted);
        // The stage is read.
        warp.sync();
        written.own
    }

    /// Tries the next request that waits; what to answer, if no graph will: it cannot be launched at all, or its handler was
    /// called, whose result of that length lies in `output`.
    fn launch_next(
        &self,
        context: WarpContext<'_>,
        poller: &mut PollerState,
        pending: &PendingTable,
    ) -> Option<(u32, RequestHeader, Status, u32)> {
        let WarpContext { warp, input, .. } = context;
        let waiting = self.next_waiting(warp, poller, pending)?;
        poller.graphs.next = waiting + 1;
        let word = pending.waiting(waiting);
        let slot = Job::of(word & !QUEUED, 0).slot;
        let header = pending.request_header(waiting);
        let launcher = self.launcher();
        let later = |poller: &mut PollerState| {
            if word & QUEUED == 0 {
                if warp.lane() == 0 {
                    pending.note(waiting, word | QUEUED);
                }
                self.count_tended(warp, poller, Counter::Queued);
            }
            warp.sync();
        };
        let answer = match self.table.lookup(FunctionId(header.function_id)) {
            // It was there when the request was checked; another table is another dispatcher's.
            None => Some((Status::UNKNOWN_FUNCTION, 0)),
            Some(entry) if entry.kind != HandlerKind::Graph as u32 => {
                if !self.reserve(warp, entry) {
                    later(poller);
                    return None;
                }
                pending.fetch_request(warp, waiting, HEADER_BYTES as u32 + header.arg_len, input);
                warp.sync();
                self.count_tended(warp, poller, Counter::Dispatched);
                Some(self.call(context, slot, entry, header.arg_len))
            }
            Some(entry) => {
                let graph_request = GraphRequest { header: &header, slot, capacity: self.capacity() };
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
                            self.count_tended(warp, poller, Counter::Dispatched);
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
    fn count_tended(&self, warp: Warp<'_>, poller: &mut PollerState, counter: Counter) {
        if warp.lane() == 0 {
            self.block_state.count(counter);
        }
        poller.unshown = true;
    }

    /// The next entry, around the pending table, in which a request waits.
    fn next_waiting(&self, warp: Warp<'_>, poller: &mut PollerState, pending: &PendingTable) -> Option<u32> {
        let mut from = poller.graphs.next % pending.slots().max(1);
        // Once around, and the group where it began once more, from its start.
        for _ in 0..=GROUPS {
            let group = self.block_state.next_group(from / GROUP)?;
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
                self.block_state.clear_group(group);
            }
            warp.sync();
            from = (first + GROUP) % (GROUPS * GROUP);
        }
        None
    }

    /// Whether this is the moment for a fresh budget of launches: half of it is used, no child runs, no answer is outstanding.
    #[inline(always)]
    pub(super) fn should_relaunch(&self, warp: Warp<'_>, poller: &PollerState) -> bool {
        let used = self.block_state.launches.used();
        if used < RELAUNCH_FROM || poller.graphs.outstanding != 0 {
            return false;
        }
        let Some(Graphs { saved, .. }) = self.graphs else { return false };
        let finished = warp.shuffle_u64(saved.load(saved::FINISHED, Ordering::Relaxed), 0);
        poller.graphs.before.wrapping_add(used) <= finished
    }

    /// Shows to the host how many graphs were launched, and why the last launch that failed did.
    pub(super) fn show_launches(&self, warp: Warp<'_>, poller: &PollerState) {
        if warp.lane() == 0 {
            let (launches, error) = (&self.block_state.launches, self.block_state.launches.error());
            let so_far = poller.graphs.before.wrapping_add(launches.used());
            self.control.store(control::LAUNCHES, so_far, Ordering::Relaxed);
            if error != 0 {
                self.control.store(control::LAUNCH_ERROR, error, Ordering::Relaxed);
            }
        }
    }

    /// What outlives this start: counts of launches. By the poller, last of all but the state.
    pub(super) fn close_graphs(&self, warp: Warp<'_>, poller: &PollerState) {
        let Some(Graphs { saved, .. }) = self.graphs else { return };
        self.show_launches(warp, poller);
        if warp.lane() == 0 {
            let so_far = poller.graphs.before.wrapping_add(self.block_state.launches.used());
            saved.store(saved::LAUNCHES, so_far, Ordering::Relaxed);
            self.control.store(control::HELD, poller.graphs.held(), Ordering::Relaxed);
        }
    }

    /// Launches the kernel again, for when this execution has ended; `false`: it could not, and the host is told why. By the
    /// poller, when everything is left as the next execution takes it up.
    pub(super) fn relaunch(&self, warp: Warp<'_>) -> bool {
        let Some(Graphs { saved, .. }) = self.graphs else { return false };
        if warp.lane() == 0 {
            let again = saved.load(saved::RELAUNCHES, Ordering::Relaxed) + 1;
            saved.store(saved::RELAUNCHES, again, Ordering::Relaxed);
            self.control.store(control::RELAUNCHES, again, Ordering::Relaxed);
        }
        // What the other lanes left is before the launch, which is the next execution's beginning.
        warp.sync();
        let mut failed = false;
        if warp.lane() == 0
            && let Err(code) = self.machine.relaunch()
        {
            failed = true;
            self.control.store(control::RELAUNCH_ERROR, u64::from(code as u32), Ordering::Relaxed);
        }
        !warp.any(failed)
    }
}
