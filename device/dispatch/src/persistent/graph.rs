//! Requests that a graph answers: one executable and one mailbox for each launch under way.
//!
//! Launch and answer are two agents: this module fills a mailbox and launches; the graph's own kernels read it, write the
//! response and free the mailbox ([`child`](super::child)).

use super::launch::{Launcher, Parcel, Prepared, Unprepared};
use super::staged::Staged;
use super::{Block, Machine};
use crate::ring::RingMemory;
use crate::slot::Request;
use ringcall_gpu::team::Warp;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_WORDS, RequestHeader};
use ringcall_wire::launch::DeviceEntry;
use ringcall_wire::status::Status;

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
        if entry.is_foreign() {
            self.serve_foreign(warp, me, alone, request, staged, entry);
            return;
        }
        let slot = request.slot();
        let prepared = match self.prepare(warp, entry, request.header(), staged, true, slot.get()) {
            Ok(prepared) => prepared,
            Err(Unprepared::Later) => return self.hold_back(warp, me, request),
            Err(Unprepared::NoRoute) => {
                return self.refuse(warp, me, alone, request, staged, Status::NO_WORKER);
            }
        };
        if !self.options.skip_marks {
            request.mark(staged);
        }
        self.count(warp, me, Counter::Received);
        if self.launcher().fire(warp, &prepared) {
            self.count(warp, me, Counter::Dispatched);
            request.hand_over(staged);
            warp.sync();
            if warp.lane() == 0 {
                self.handed_over(slot.get());
            }
        } else {
            self.answer(warp, me, request, staged, Status::LAUNCH_FAILED, 0);
            self.settle(warp, slot.get(), alone);
        }
    }

    /// Back-pressure: the request stays in the ring and is looked at again in a few turns.
    pub(super) fn hold_back(&self, warp: Warp<'_>, me: u32, request: Request) {
        let slot = request.slot().get();
        self.count(warp, me, Counter::Queued);
        request.leave();
        warp.sync();
        if warp.lane() == 0 {
            self.leave_alone(slot);
        }
    }

    /// Answers a request that no graph is launched for.
    pub(super) fn refuse(
        &self,
        warp: Warp<'_>,
        me: u32,
        alone: bool,
        request: Request,
        staged: &Staged<'_>,
        status: Status,
    ) {
        let slot = request.slot().get();
        self.count(warp, me, Counter::Received);
        self.answer(warp, me, request, staged, status, 0);
        self.settle(warp, slot, alone);
    }

    /// Launches a handler's follow-up graph. It gets the handler's request and owes no answer.
    pub(super) fn launch_follow_up(
        &self,
        warp: Warp<'_>,
        graph: &DeviceEntry,
        request: &Request,
        staged: &Staged<'_>,
    ) -> Result<(), Status> {
        if graph.is_foreign() {
            return self.trigger_foreign(warp, graph);
        }
        match self.prepare(warp, graph, request.header(), staged, false, request.slot().get()) {
            Ok(prepared) if self.launcher().fire(warp, &prepared) => Ok(()),
            Ok(_) => Err(Status::LAUNCH_FAILED),
            Err(Unprepared::Later) => Err(Status::BACKPRESSURE),
            Err(Unprepared::NoRoute) => Err(Status::NO_WORKER),
        }
    }

    pub(super) fn launcher(&self) -> Launcher<'_, M> {
        Launcher { machine: self.machine, table: self.table, launches: &self.board.launches }
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
        let parcel = Parcel { header, slot, capacity: self.ring.geometry().result_capacity() };
        let payload = |word| staged.word(HEADER_WORDS + word);
        let place = |_: &_| if answers { self.ring.response_place(slot) } else { None };
        self.launcher().prepare(warp, entry, parcel, payload, |_| true, place)
    }
}
