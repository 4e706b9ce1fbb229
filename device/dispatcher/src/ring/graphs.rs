//! Requests that a graph answers: one executable and one mailbox for each launch under way.
//!
//! Launch and answer are two agents: this module fills a mailbox and launches; the graph's own kernels read it, write the
//! response and free the mailbox ([`child`](super::graph_end)).

use super::launcher::{GraphRequest, Launcher, Unprepared};
use super::staged::StagedSlot;
use super::{Block, Machine, WarpContext};
use ringcall_gpu::team::Warp;
use ringcall_protocol::ring::RingMemory;
use ringcall_protocol::slot::Request;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::HEADER_WORDS;
use ringcall_wire::launch::{DeviceEntry, HandlerKind, LAUNCHES_PER_EXECUTION};
use ringcall_wire::status::Status;

impl<M: Machine> Block<'_, M> {
    /// Launches the graph of `entry` for the request, which the graph then answers.
    ///
    /// The order is: mailbox, in-flight mark, launch, request flag. The mark comes before the launch, since the child may
    /// answer at once; the request flag is given back last, so that at no moment both flags are 0.
    pub(super) fn serve_graph(
        &self,
        context: WarpContext<'_>,
        alone: bool,
        request: Request,
        staged: &StagedSlot<'_>,
        entry: &DeviceEntry,
    ) {
        let warp = context.warp;
        if entry.is_foreign() {
            self.serve_foreign(context, alone, request, staged, entry);
            return;
        }
        let slot = request.slot();
        let graph_request = self.graph_request(&request);
        let payload = |word| staged.word(HEADER_WORDS + word);
        let response = |_: &_| self.ring.response_addresses(slot.get());
        let prepared = match self.launcher().prepare(warp, entry, graph_request, payload, |_| true, response)
        {
            Ok(prepared) => prepared,
            Err(Unprepared::Later) => return self.hold_back(context, request),
            Err(Unprepared::NoRoute) => {
                return self.refuse(context, alone, request, staged, Status::NO_WORKER);
            }
        };
        if !self.options.skip_marks {
            request.mark(staged);
        }
        if !self.launcher().fire(warp, &prepared) {
            return self.refuse(context, alone, request, staged, Status::LAUNCH_FAILED);
        }
        self.count(context, Counter::Received);
        self.count(context, Counter::Dispatched);
        request.hand_over(staged);
        warp.sync();
        if warp.lane() == 0 {
            self.handed_over(slot.get());
        }
    }

    /// Back-pressure: the request stays in the ring and is looked at again in a few turns.
    pub(super) fn hold_back(&self, context: WarpContext<'_>, request: Request) {
        let warp = context.warp;
        let slot = request.slot().get();
        self.count(context, Counter::Queued);
        request.leave();
        warp.sync();
        if warp.lane() == 0 {
            self.defer(slot);
        }
    }

    /// The graph that a handler may ask for.
    #[inline(always)]
    pub(super) fn follow_up_of(&self, entry: &DeviceEntry) -> Option<&DeviceEntry> {
        if !M::GRAPHS {
            return None;
        }
        self.table.entry(entry.follow_up).filter(|graph| graph.kind == HandlerKind::Graph as u32)
    }

    /// Takes what the launch of a follow-up graph needs of this execution, before the handler is called: a request can wait in
    /// the ring until its handler has run, and not afterwards. `false`: not now.
    ///
    /// An executable is not taken. It would be kept from the handlers that ask while one runs that does not, and each of these
    /// would wait until some graph has ended: a handler that asks while all of them run is told so by its status.
    pub(super) fn reserve(&self, warp: Warp<'_>, graph: &DeviceEntry) -> bool {
        let launches = &self.block_state.launches;
        if !launches.take(warp) {
            return false;
        }
        let taken = !graph.is_foreign() || launches.take_trigger(warp);
        if !taken {
            launches.give_back(warp);
        }
        taken
    }

    /// Gives back what [`reserve`](Self::reserve) took, after a handler that did not ask.
    pub(super) fn release(&self, warp: Warp<'_>, graph: &DeviceEntry) {
        if graph.is_foreign() {
            self.block_state.launches.give_trigger_back(warp);
        }
        self.block_state.launches.give_back(warp);
    }

    /// Launches a handler's follow-up graph, for which [`reserve`](Self::reserve) was asked. It gets the handler's request and
    /// sends no response. The status that the handler's request is answered with.
    pub(super) fn launch_follow_up(
        &self,
        warp: Warp<'_>,
        graph: &DeviceEntry,
        request: &Request,
        staged: &StagedSlot<'_>,
    ) -> Status {
        if graph.is_foreign() {
            return self.trigger_foreign(warp, graph);
        }
        let graph_request = self.graph_request(request);
        let payload = |word| staged.word(HEADER_WORDS + word);
        match self.launcher().prepare_reserved(warp, graph, graph_request, payload, |_| true) {
            Ok(prepared) if self.launcher().fire(warp, &prepared) => Status::OK,
            Ok(_) => Status::LAUNCH_FAILED,
            Err(Unprepared::Later) => Status::BACKPRESSURE,
            Err(Unprepared::NoRoute) => Status::NO_WORKER,
        }
    }

    /// Whether a request may wait in the ring for the work now in progress: for graphs that have not ended, a
    /// relaunch, or a handler that may ask for the trigger graph. By one lane.
    pub(super) fn waits_for_launches(&self) -> bool {
        let launches = &self.block_state.launches;
        launches.used() >= LAUNCHES_PER_EXECUTION
            || launches.has_trigger_taken()
            || self.children_running() != 0
    }

    pub(super) fn launcher(&self) -> Launcher<'_, M> {
        Launcher { machine: self.machine, table: self.table, launches: &self.block_state.launches }
    }

    fn graph_request<'r>(&self, request: &'r Request) -> GraphRequest<'r> {
        let capacity = self.ring.geometry().result_capacity();
        GraphRequest { header: request.header(), slot: request.slot().get(), capacity }
    }
}
