//! Requests that a graph answers: one executable and one mailbox for each launch under way.
//!
//! Launch and answer are two agents: this module fills a mailbox and launches; the graph's own kernels read it, write the
//! response and free the mailbox ([`child`](super::child)).

use super::staged::Staged;
use super::{Block, Machine};
use crate::ring::RingMemory;
use crate::slot::Request;
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_WORDS, RequestHeader};
use ringcall_wire::launch::{DeviceEntry, LAUNCHES_PER_EXECUTION, io};
use ringcall_wire::status::Status;

/// Times that a launch is tried again.
const LAUNCH_TRIES: u32 = 200;

/// A mailbox that this warp claimed and filled.
struct Prepared {
    mailbox: Words,
    exec: u64,
}

/// Why a graph cannot be launched now.
enum Unprepared {
    /// The budget of this execution is used up, or every executable runs: it can be later.
    Later,
    /// No graph has the request's routing key.
    NoRoute,
}

impl<M: Machine> Block<'_, M> {
    /// Launches the graph of `entry` for the request, which the graph then answers.
    ///
    /// The order is: mailbox, in-flight mark, launch, request flag. The mark comes before the launch, since the child may
    /// answer at once; the request flag is given back last, so that at no moment both flags are 0.
    pub(super) fn serve_graph(
        &self,
        warp: Warp<'_>,
        me: u32,
        alone: bool,
        request: Request,
        staged: &Staged<'_>,
        entry: &DeviceEntry,
    ) {
        let slot = request.slot();
        let prepared = match self.prepare(warp, entry, request.header(), staged, true, slot.get()) {
            Ok(prepared) => prepared,
            Err(Unprepared::Later) => {
                // Back-pressure: the request stays in the ring and is looked at again in a few turns.
                self.count(warp, me, Counter::Queued);
                request.leave();
                warp.sync();
                if warp.lane() == 0 {
                    self.leave_alone(slot.get());
                }
                return;
            }
            Err(Unprepared::NoRoute) => {
                self.count(warp, me, Counter::Received);
                self.answer(warp, me, request, staged, Status::NO_WORKER, 0);
                self.settle(warp, slot.get(), alone);
                return;
            }
        };
        if !self.options.skip_marks {
            request.mark(staged);
        }
        self.count(warp, me, Counter::Received);
        match self.fire(warp, &prepared) {
            Ok(()) => {
                self.count(warp, me, Counter::Dispatched);
                request.hand_over(staged);
                warp.sync();
                if warp.lane() == 0 {
                    self.handed_over(slot.get());
                }
            }
            Err(()) => {
                self.answer(warp, me, request, staged, Status::LAUNCH_FAILED, 0);
                self.settle(warp, slot.get(), alone);
            }
        }
    }

    /// Launches a handler's follow-up graph. It gets the handler's request and owes no answer.
    pub(super) fn launch_follow_up(
        &self,
        warp: Warp<'_>,
        graph: &DeviceEntry,
        request: &Request,
        staged: &Staged<'_>,
    ) -> Result<(), Status> {
        match self.prepare(warp, graph, request.header(), staged, false, request.slot().get()) {
            Ok(prepared) => self.fire(warp, &prepared).map_err(|()| Status::LAUNCH_FAILED),
            Err(Unprepared::Later) => Err(Status::BACKPRESSURE),
            Err(Unprepared::NoRoute) => Err(Status::NO_WORKER),
        }
    }

    /// Claims a launch of the budget and an idle executable, and fills its mailbox.
    fn prepare(
        &self,
        warp: Warp<'_>,
        entry: &DeviceEntry,
        header: &RequestHeader,
        staged: &Staged<'_>,
        answers: bool,
        slot: u32,
    ) -> Result<Prepared, Unprepared> {
        let routed = entry.next_route != DeviceEntry::NONE || entry.routing_key != 0;
        let entry = if routed {
            // The routing key of a request is its first eight bytes: where the decoding calls have the decoder's id.
            let key = if header.arg_len >= 8 { staged.payload_word(0) } else { 0 };
            self.table.route(entry, key).ok_or(Unprepared::NoRoute)?
        } else {
            entry
        };
        if !self.take_launch(warp) {
            return Err(Unprepared::Later);
        }
        let Some(mailbox) = self.claim_mailbox(warp, entry) else {
            self.give_launch_back(warp);
            return Err(Unprepared::Later);
        };
        let store = |word, value| mailbox.store(word, value, Ordering::Relaxed);
        if warp.lane() == 0 {
            for (i, word) in header.to_words().into_iter().enumerate() {
                store(io::HEADER + i, word);
            }
            let place = if answers { self.ring.response_place(slot) } else { None };
            let place = place.unwrap_or_default();
            store(io::TX_SLOT, place.slot);
            store(io::TX_FLAG, place.flag);
            store(io::TX_VALUE, place.value);
            store(io::TX_CAPACITY, u64::from(self.ring.geometry().result_capacity()));
            store(io::ARG_LEN, u64::from(header.arg_len));
            store(io::SLOT, u64::from(slot));
        }
        for word in warp.stride(header.arg_len.div_ceil(8) as usize) {
            store(io::PAYLOAD / 8 + word, staged.word(HEADER_WORDS + word));
        }
        let exec = mailbox.load(io::EXEC, Ordering::Relaxed);
        warp.sync();
        Ok(Prepared { mailbox, exec })
    }

    /// Launches. What the warp wrote before is visible to the child.
    fn fire(&self, warp: Warp<'_>, prepared: &Prepared) -> Result<(), ()> {
        warp.sync();
        let mut failed = false;
        if warp.lane() == 0
            && let Err(code) = self.launch_patiently(prepared.exec)
        {
            failed = true;
            self.board.launch_error.store(u64::from(code as u32), Ordering::Relaxed);
            prepared.mailbox.store(io::STATE, io::IDLE, Ordering::Release);
        }
        if warp.any(failed) {
            // Nothing was launched, so no child will say that it has finished.
            self.give_launch_back(warp);
            return Err(());
        }
        Ok(())
    }

    /// Launches, again and again for a while: a child frees its mailbox a moment before its graph has ended, and until then
    /// the same executable cannot be launched.
    fn launch_patiently(&self, exec: u64) -> Result<(), i32> {
        let mut tries = 0;
        loop {
            match self.machine.launch(exec) {
                Err(_) if tries < LAUNCH_TRIES => tries += 1,
                result => return result,
            }
            self.machine.nap();
        }
    }

    /// Takes one launch of this execution's budget, if there is one left.
    fn take_launch(&self, warp: Warp<'_>) -> bool {
        let mut taken = false;
        if warp.lane() == 0 {
            taken = self.board.launches.fetch_add(1, Ordering::Relaxed) < LAUNCHES_PER_EXECUTION;
            if !taken {
                self.board.launches.fetch_add(u64::MAX, Ordering::Relaxed);
            }
        }
        warp.any(taken)
    }

    fn give_launch_back(&self, warp: Warp<'_>) {
        if warp.lane() == 0 {
            self.board.launches.fetch_add(u64::MAX, Ordering::Relaxed);
        }
        warp.sync();
    }

    /// Whether the graph of a mailbox that was just claimed may be launched: where it has a gate, that is 0. If not, the
    /// mailbox is given back. Only the graph itself closes its gate, so an open one stays open until the launch.
    fn is_open(&self, mailbox: &Words) -> bool {
        let gate = mailbox.load(io::GATE, Ordering::Relaxed);
        // Acquire: pairs with the release of whoever opened it.
        let open = gate == 0
            || self.machine.mailbox(gate, 1).is_some_and(|word| word.load(0, Ordering::Acquire) == 0);
        if !open {
            mailbox.store(io::STATE, io::IDLE, Ordering::Release);
        }
        open
    }

    /// Claims one of the graph's mailboxes that is idle and whose gate is open, the one that has been so longest first.
    fn claim_mailbox(&self, warp: Warp<'_>, entry: &DeviceEntry) -> Option<Words> {
        let words = entry.io_stride as usize / 8;
        let at = |index: u32| {
            let address = entry.address + u64::from(index) * u64::from(entry.io_stride);
            self.machine.mailbox(address, words)
        };
        let mut start = 0;
        if warp.lane() == 0 {
            start = self.board.turn.fetch_add(1, Ordering::Relaxed) as u32 % entry.execs.max(1);
        }
        let start = warp.shuffle(start, 0);
        let mut base = 0;
        while base < entry.execs {
            let place = base + warp.lane();
            let index = (start + place) % entry.execs.max(1);
            let idle = place < entry.execs
                && at(index).is_some_and(|box_| box_.load(io::STATE, Ordering::Relaxed) == io::IDLE);
            let mut candidates = warp.ballot(idle);
            while candidates != 0 {
                let lane = candidates.trailing_zeros();
                candidates &= candidates - 1;
                let index = (start + base + lane) % entry.execs.max(1);
                let mailbox = at(index)?;
                // Acquire in `claim`: pairs with the child's release, after which it reads the mailbox no more.
                let mine = warp.lane() == 0
                    && mailbox.get(io::STATE).is_some_and(|state| state.claim(io::IDLE, io::LAUNCHED))
                    && self.is_open(&mailbox);
                if warp.any(mine) {
                    return Some(mailbox);
                }
            }
            base += warp.lanes();
        }
        None
    }
}
