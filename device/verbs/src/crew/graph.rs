//! Requests that graphs answer: set aside, launched, collected. By the leader, but for the setting aside. And those of handlers
//! that may ask for a graph, while no launch is left for it.
//!
//! The send request is written when the answer is there, so that responses leave in the order of their answers: no graph
//! holds up what came behind it. Launches are made between two looks at the completions, one at a time.

use super::board::{GROUPS, Job};
use super::desk::{Desk, GROUP};
use super::lead::Lead;
use super::send::Done;
use super::{Crew, Machine};
use core::sync::atomic::Ordering;
use ringcall_dispatch::persistent::launch::{Launcher, Parcel, RELAUNCH_FROM, Unprepared};
use ringcall_dispatch::table::Table;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::Warp;
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind, io, saved};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;

/// Turns between two looks for graphs that ended without an answer.
const TURNS_A_SEARCH: u32 = 64;
/// Bit of a place's word: it was counted that the request had to wait.
const QUEUED: u64 = 1 << 31;
/// Words of a mailbox in front of the payload.
const MAILBOX_HEAD: usize = io::PAYLOAD / 8;

/// What graphs keep from one start to the next.
#[derive(Debug)]
pub struct Graphs {
    /// Requests that wait, and answers that are owed.
    pub desk: Desk,
    /// The words of [`saved`] of which launches, relaunches and finished children are used.
    pub saved: Words,
}

/// What the leader knows of graphs. The same on all lanes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tending {
    /// Requests that wait.
    waiting: u64,
    /// Answers that are owed.
    owed: u64,
    /// Launches of earlier executions.
    before: u64,
    /// The place that is tried next.
    next: u32,
    turns: u32,
}

impl Tending {
    /// Requests that are neither answered nor refused yet.
    pub(super) fn held(&self) -> u64 {
        self.waiting + self.owed
    }
}

impl<M: Machine> Crew<'_, M> {
    fn launcher(&self) -> Launcher<'_, M> {
        Launcher { machine: self.machine, table: self.table, launches: &self.board.launches }
    }

    /// Takes up what the last start, or the last execution, left. By the leader.
    pub(super) fn open_graphs(&self, warp: Warp<'_>) -> Tending {
        let Some(Graphs { desk, saved }) = self.graphs else { return Tending::default() };
        let (mut waiting, mut owed) = (0, 0);
        for place in warp.stride(desk.slots() as usize) {
            if desk.waiting(place as u32) != 0 {
                self.board.mark_group(place as u32 / GROUP);
                waiting += 1;
            }
        }
        for place in warp.stride(desk.execs() as usize) {
            owed += u64::from(desk.debt(place as u32) != 0);
        }
        let before = warp.shuffle_u64(saved.load(saved::LAUNCHES, Ordering::Relaxed), 0);
        let (waiting, owed) = (warp.sum_u64(waiting), warp.sum_u64(owed));
        Tending { waiting, owed, before, next: 0, turns: 0 }
    }

    /// Puts a request for a graph, or one that waits for a launch, aside; `false`: there is no place left. By the warp that fetched it.
    pub(super) fn set_aside(&self, warp: Warp<'_>, job: Job, arg_len: u32, input: Stage<'_>) -> bool {
        let Some(Graphs { desk, .. }) = self.graphs else { return false };
        let Some(place) = desk.set_aside(warp, job.slot, HEADER_BYTES as u32 + arg_len, input) else {
            return false;
        };
        if warp.lane() == 0 {
            self.board.set_aside(place / GROUP);
            self.board.count(Counter::Received);
        }
        // The stage is free again; and the leader, where this is it, sees all of the request.
        warp.sync();
        true
    }

    /// The graph that a handler may ask for, and the desk.
    fn follow_up_of(&self, entry: &DeviceEntry) -> Option<(&Desk, &DeviceEntry)> {
        let graph = self.table.entry(entry.follow_up)?;
        (graph.kind == HandlerKind::Graph as u32).then_some((&self.graphs?.desk, graph))
    }

    /// Takes the launch of a graph that a handler may ask for, before it is called: its request can wait on the desk until it has
    /// run, and not afterwards. `false`: there is none left now. (An executable is not taken: a handler that asks while all of
    /// them run is told so by its status, since those that do not ask would wait for them, too.)
    pub(super) fn reserve(&self, warp: Warp<'_>, entry: &DeviceEntry) -> bool {
        self.follow_up_of(entry).is_none() || self.board.launches.take(warp)
    }

    /// Gives back what [`reserve`](Self::reserve) took, behind a handler that did not ask.
    pub(super) fn release(&self, warp: Warp<'_>, entry: &DeviceEntry) {
        if self.follow_up_of(entry).is_some() {
            self.board.launches.give_back(warp);
        }
    }

    /// Launches the graph that a handler asked for, for which [`reserve`](Self::reserve) was asked. It gets the handler's request
    /// and owes no answer. By any warp.
    pub(super) fn follow_up(
        &self,
        warp: Warp<'_>,
        slot: u32,
        entry: &DeviceEntry,
        input: Stage<'_>,
    ) -> Status {
        let Some((desk, graph)) = self.follow_up_of(entry) else { return Status::LAUNCH_FAILED };
        let header = RequestHeader::from_words(core::array::from_fn(|word| input.word(word)));
        let parcel = Parcel { header: &header, slot, capacity: self.capacity() };
        let launcher = self.launcher();
        let payload = |word| input.word(HEADER_WORDS + word);
        match launcher.prepare_reserved(warp, graph, parcel, payload, |mailbox| desk.is_clear(mailbox)) {
            Ok(prepared) if launcher.fire(warp, &prepared) => Status::OK,
            Ok(_) => Status::LAUNCH_FAILED,
            Err(Unprepared::Later) => Status::BACKPRESSURE,
            Err(Unprepared::NoRoute) => Status::NO_WORKER,
        }
    }

    /// A round has set some requests aside.
    #[inline(always)]
    pub(super) fn took(&self, lead: &mut Lead, aside: u64) {
        lead.graphs.waiting += aside;
    }

    /// Between two looks: sends an answer that is there, launches a request that waits, or calls its handler.
    #[inline(always)]
    pub(super) fn tend(&self, warp: Warp<'_>, lead: &mut Lead, input: Stage<'_>, output: Stage<'_>) {
        if lead.graphs.held() == 0 {
            return;
        }
        let Some(graphs) = self.graphs else { return };
        if lead.free == 0 {
            self.look_for_room(warp, lead);
        }
        if lead.free == 0 || lead.dead.is_some() {
            return;
        }
        lead.graphs.turns = lead.graphs.turns.wrapping_add(1);
        let mut sent = 0;
        let mut own = [0; 2];
        if lead.graphs.owed > 0 {
            (sent, own) = self.collect(warp, lead, &graphs.desk, output);
        }
        if lead.graphs.waiting > 0 && sent < lead.free {
            let answer = self.launch_next(warp, lead, &graphs.desk, input, output);
            if let Some((slot, header, status, len)) = answer {
                let job = Job { slot, bytes: 0, index: lead.posted + u64::from(sent) };
                own = self.tell(warp, job, &header, status, len, output);
                sent += 1;
            }
            self.show_launches(warp, lead);
        }
        if sent > 0 {
            let copy = (sent == 1 && self.bell.copies(warp.lanes())).then_some(own);
            let done = Done { completions: 0, receives: 0, sent: sent.into() };
            self.commit(warp, lead, done, copy);
            self.publish(warp);
            self.reclaim_soon(warp, lead);
        }
    }

    /// Writes the send requests of the answers that are there; how many, and this lane's part of the last.
    fn collect(&self, warp: Warp<'_>, lead: &mut Lead, desk: &Desk, output: Stage<'_>) -> (u32, [u64; 2]) {
        let searches = lead.graphs.turns.is_multiple_of(TURNS_A_SEARCH);
        let (mut sent, mut own) = (0, [0; 2]);
        let mut base = 0;
        while base < desk.execs() {
            let mine = base + warp.lane();
            let mut ready = warp.ballot(desk.is_answered(mine));
            let mut forsaken = 0;
            if searches {
                let head = |at| self.machine.mailbox(at, MAILBOX_HEAD);
                let debt = desk.debt(mine);
                let over = debt != 0 && head(debt).is_none_or(|mailbox| desk.is_forsaken(mine, &mailbox));
                forsaken = warp.ballot(over) & !ready;
                ready |= forsaken;
            }
            if ready != 0 {
                barrier::observe_from_peer();
            }
            while ready != 0 && sent < lead.free {
                let lane = ready.trailing_zeros();
                ready &= ready - 1;
                let place = base + lane;
                let index = lead.posted + u64::from(sent);
                // An answer that nobody is owed is a graph's that writes where it was not told to.
                lead.graphs.owed -= u64::from(desk.debt(place) != 0);
                match self.pass_on(warp, desk, place, index, forsaken >> lane & 1 == 1, output) {
                    Some(part) => (sent, own) = (sent + 1, part),
                    None if warp.lane() == 0 => self.board.count(Counter::Dropped),
                    None => (),
                }
                // All lanes have read it.
                warp.sync();
                if warp.lane() == 0 {
                    desk.settle(place);
                }
                warp.sync();
            }
            base += warp.lanes();
        }
        (sent, own)
    }

    /// Writes the response that a graph's answer is; `None` for an answer that nobody is owed.
    fn pass_on(
        &self,
        warp: Warp<'_>,
        desk: &Desk,
        place: u32,
        index: u64,
        forsaken: bool,
        output: Stage<'_>,
    ) -> Option<[u64; 2]> {
        let debt = desk.debt(place);
        if debt == 0 {
            return None;
        }
        let mailbox = self.machine.mailbox(debt, MAILBOX_HEAD)?;
        let word = |at| mailbox.load(at, Ordering::Relaxed);
        // The crew's own words: nobody else writes a mailbox's head, and it is not launched again before it is settled.
        let request = RequestHeader::from_words(core::array::from_fn(|at| word(io::HEADER + at)));
        let slot = word(io::SLOT) as u32;
        let (mut status, mut len) = (Status::LAUNCH_FAILED, 0);
        if !forsaken {
            let answer = desk.answer_header(place);
            if answer.has_magic() {
                (status, len) = (answer.status(), answer.result_len);
            }
            if len > self.capacity() {
                (status, len) = (Status::RESULT_TOO_LONG, self.capacity());
            }
            desk.fetch_answer(warp, place, HEADER_BYTES as u32 + len, output);
        }
        Some(self.tell(warp, Job { slot, bytes: 0, index }, &request, status, len, output))
    }

    /// Writes the response to a request that was set aside, and counts it; the body lies in `output`.
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
            self.board.count(Counter::for_rejection(status));
        }
        let reply = ResponseHeader::reply(request, status.0, len).to_words();
        warp.sync();
        let written = self.respond(warp, job, reply, len, output);
        self.board.tally(warp, written.tally);
        // The stage is read.
        warp.sync();
        written.own
    }

    /// Tries the next request that waits; what to answer, if no graph will: it cannot be launched at all, or its handler was
    /// called, whose result of that length lies in `output`.
    fn launch_next(
        &self,
        warp: Warp<'_>,
        lead: &mut Lead,
        desk: &Desk,
        input: Stage<'_>,
        output: Stage<'_>,
    ) -> Option<(u32, RequestHeader, Status, u32)> {
        let place = self.next_waiting(warp, lead, desk)?;
        lead.graphs.next = place + 1;
        let word = desk.waiting(place);
        let slot = Job::of(word & !QUEUED, 0).slot;
        let header = desk.request_header(place);
        let launcher = self.launcher();
        let later = |lead: &mut Lead| {
            if word & QUEUED == 0 {
                if warp.lane() == 0 {
                    desk.note(place, word | QUEUED);
                }
                self.count_tended(warp, lead, Counter::Queued);
            }
            warp.sync();
        };
        let answer = match self.table.lookup(FunctionId(header.function_id)) {
            // It was there when the request was checked; another table is another dispatcher's.
            None => Some((Status::UNKNOWN_FUNCTION, 0)),
            Some(entry) if entry.kind != HandlerKind::Graph as u32 => {
                if !self.reserve(warp, entry) {
                    later(lead);
                    return None;
                }
                desk.fetch_request(warp, place, HEADER_BYTES as u32 + header.arg_len, input);
                warp.sync();
                self.count_tended(warp, lead, Counter::Dispatched);
                Some(self.call(warp, 0, slot, entry, header.arg_len, input, output))
            }
            Some(entry) => {
                let parcel = Parcel { header: &header, slot, capacity: self.capacity() };
                let payload = |word| desk.request_word(place, HEADER_WORDS + word);
                let clear = |mailbox: &Words| desk.is_clear(mailbox);
                let answer = |mailbox: &Words| desk.answer_place(mailbox);
                match launcher.prepare(warp, entry, parcel, payload, clear, answer) {
                    Ok(prepared) => {
                        let owing = prepared.mailbox.load(io::ANSWER, Ordering::Relaxed) as u32;
                        if warp.lane() == 0 {
                            // Before the launch: the child may be done before this warp is.
                            desk.owe(owing, prepared.address);
                        }
                        if launcher.fire(warp, &prepared) {
                            lead.graphs.owed += 1;
                            self.count_tended(warp, lead, Counter::Dispatched);
                            None
                        } else {
                            if warp.lane() == 0 {
                                desk.settle(owing);
                            }
                            Some((Status::LAUNCH_FAILED, 0))
                        }
                    }
                    Err(Unprepared::Later) => {
                        later(lead);
                        return None;
                    }
                    Err(Unprepared::NoRoute) => Some((Status::NO_WORKER, 0)),
                }
            }
        };
        lead.graphs.waiting -= 1;
        // All lanes have read it.
        warp.sync();
        if warp.lane() == 0 {
            desk.note(place, 0);
        }
        warp.sync();
        answer.map(|(status, len)| (slot, header, status, len))
    }

    /// Counts what became of a request that waits. The host is to be shown it though no answer may follow for long.
    fn count_tended(&self, warp: Warp<'_>, lead: &mut Lead, counter: Counter) {
        if warp.lane() == 0 {
            self.board.count(counter);
        }
        lead.unshown = true;
    }

    /// The next place, around the desk, in which a request waits.
    fn next_waiting(&self, warp: Warp<'_>, lead: &mut Lead, desk: &Desk) -> Option<u32> {
        let mut from = lead.graphs.next % desk.slots().max(1);
        // Once around, and the group where it began once more, from its start.
        for _ in 0..=GROUPS {
            let group = self.board.next_group(from / GROUP)?;
            // All lanes have read the groups.
            warp.sync();
            let first = group * GROUP;
            let behind = if from > first && from < first + GROUP { from - first } else { 0 };
            let mut seen = 0_u32;
            let mut base = 0;
            while base < GROUP {
                let at = base + warp.lane();
                let waits = at < GROUP && desk.waiting(first + at) != 0;
                seen |= warp.ballot(waits) << base;
                base += warp.lanes();
            }
            let ahead = seen >> behind << behind;
            if ahead != 0 {
                return Some(first + ahead.trailing_zeros());
            }
            if seen == 0 && warp.lane() == 0 {
                self.board.clear_group(group);
            }
            warp.sync();
            from = (first + GROUP) % (GROUPS * GROUP);
        }
        None
    }

    /// Whether this is the moment for a fresh budget of launches: half of it is used, no child runs, no answer is owed.
    #[inline(always)]
    pub(super) fn should_relaunch(&self, warp: Warp<'_>, lead: &Lead) -> bool {
        let used = self.board.launches.used();
        if used < RELAUNCH_FROM || lead.graphs.owed != 0 {
            return false;
        }
        let Some(Graphs { saved, .. }) = self.graphs else { return false };
        let finished = warp.shuffle_u64(saved.load(saved::FINISHED, Ordering::Relaxed), 0);
        lead.graphs.before.wrapping_add(used) <= finished
    }

    /// Shows to the host how many graphs were launched, and why the last launch that failed did.
    pub(super) fn show_launches(&self, warp: Warp<'_>, lead: &Lead) {
        if warp.lane() == 0 {
            let (launches, error) = (&self.board.launches, self.board.launches.error());
            let so_far = lead.graphs.before.wrapping_add(launches.used());
            self.control.store(control::LAUNCHES, so_far, Ordering::Relaxed);
            if error != 0 {
                self.control.store(control::LAUNCH_ERROR, error, Ordering::Relaxed);
            }
        }
    }

    /// What outlives this start: counts of launches. By the leader, last of all but the state.
    pub(super) fn close_graphs(&self, warp: Warp<'_>, lead: &Lead) {
        let Some(Graphs { saved, .. }) = self.graphs else { return };
        self.show_launches(warp, lead);
        if warp.lane() == 0 {
            let so_far = lead.graphs.before.wrapping_add(self.board.launches.used());
            saved.store(saved::LAUNCHES, so_far, Ordering::Relaxed);
            self.control.store(control::HELD, lead.graphs.held(), Ordering::Relaxed);
        }
    }

    /// Launches the kernel again, for when this execution has ended; `false`: it could not, and the host is told why. By the
    /// leader, when everything is left as the next execution takes it up.
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
