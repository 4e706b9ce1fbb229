//! Serving one slot.

use super::slot_state::Job;
use super::staged::{BurstLoad, InStage, StagedSlot};
use super::{Block, Call, Machine, Returned, WarpContext, together};
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

impl<M: Machine> Block<'_, M> {
    /// Fetches, checks, runs and answers the request in `slot`, then lets the slot be handed out again.
    #[inline(always)]
    pub(super) fn serve(&self, context: WarpContext<'_>, job: Job) {
        let WarpContext { warp, input, output, .. } = context;
        let Job { slot, valid_flag, alone, burst } = job;
        let Some(index) = self.ring.geometry().slot(slot) else { return };
        let mut staged =
            StagedSlot::new(warp, self.ring, index, burst, input, output, alone, self.poller_maintains);
        if self.options.is_shared() {
            // On a shared ring another dispatcher may have answered the request that was seen, and the
            // producer may be writing the next request into the slot. If the flag is set now, this one is
            // complete: the request is for this dispatcher, so no other dispatcher takes it.
            if self.is_others(&staged) || together(warp, || self.ring.rx(index)) == flag::FREE {
                self.leave(warp, slot);
                return;
            }
            barrier::observe_from_peer();
            let burst = BurstLoad::with_flag(warp, self.ring, index);
            staged =
                StagedSlot::new(warp, self.ring, index, burst, input, output, alone, self.poller_maintains);
            // The function is what it was, but a header of which half was the last one's may have looked whole.
            if self.options.shared_ring && !self.is_whole(&Self::header(&staged)) {
                self.leave(warp, slot);
                return;
            }
        }
        // The poller compared the flag with the slot's address; any other value stands for one that was wrong.
        let value =
            if valid_flag { self.ring.geometry().request_address(index) } else { flag::GRAPH_TRIGGER };
        let Some(request) = Seen::new(index, value).claim(&staged) else {
            // The previous response was not taken yet: the request stays where it is, and is looked at again.
            self.leave(warp, slot);
            return;
        };
        let checked = request.check(&staged).and_then(|()| {
            let entry = validate::function(&self.table, request.header(), |mode| {
                mode == DispatchMode::DeviceCall || (M::GRAPHS && mode == DispatchMode::GraphLaunch)
            })?;
            match HandlerKind::from_raw(entry.kind) {
                None | Some(HandlerKind::Elsewhere) => Err(Status::WRONG_MODE),
                Some(kind) => Ok((entry, kind)),
            }
        });
        match checked {
            Ok((entry, kind)) => {
                staged.fetch_rest(request.header().arg_len);
                self.run_entry(context, alone, request, &staged, entry, kind);
            }
            Err(status) => self.refuse(context, alone, request, &staged, status),
        }
    }

    /// Whether a staged request is another dispatcher's to answer. Of all dispatchers of a ring just one says no.
    #[inline(always)]
    fn is_others(&self, staged: &StagedSlot<'_>) -> bool {
        let header = Self::header(staged);
        match self.table.lookup(FunctionId(header.function_id)) {
            Some(entry) if self.is_whole(&header) => entry.kind == HandlerKind::Elsewhere as u32,
            // Malformed, or for an unknown function: the dispatcher of the ring that is not in shared mode
            // answers.
            _ => self.options.shared_ring,
        }
    }

    #[inline(always)]
    fn header(staged: &StagedSlot<'_>) -> RequestHeader {
        RequestHeader::from_words(core::array::from_fn(|i| staged.word(i)))
    }

    #[inline(always)]
    fn is_whole(&self, header: &RequestHeader) -> bool {
        validate::header(header, self.ring.geometry().request_capacity()).is_ok()
    }

    /// Leaves a request in the ring: it is looked at again in a few turns.
    #[inline(always)]
    fn leave(&self, warp: Warp<'_>, slot: u32) {
        warp.sync();
        if warp.lane() == 0 {
            self.defer(slot);
        }
    }

    /// Runs the function that was found.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // what a served request consists of
    fn run_entry(
        &self,
        context: WarpContext<'_>,
        alone: bool,
        request: Request,
        staged: &StagedSlot<'_>,
        entry: &DeviceEntry,
        kind: HandlerKind,
    ) {
        let WarpContext { warp, me, input, output } = context;
        let slot = request.slot().get();
        if warp.lane() == 0 && kind != HandlerKind::Grid {
            self.begin(me, entry.id, slot);
        }
        if M::GRAPHS && kind == HandlerKind::Graph {
            self.serve_graph(context, alone, request, staged, entry);
            return;
        }
        let follow_up = self.follow_up_of(entry);
        if let Some(graph) = follow_up
            && !self.reserve(warp, graph)
        {
            self.hold_back(context, request);
            return;
        }
        let call = Call {
            address: entry.address,
            input,
            output,
            arg_len: request.header().arg_len,
            capacity: self.ring.geometry().result_capacity(),
        };
        let returned = self.call_handler(warp, kind, &call, || self.begin(me, entry.id, slot));
        let status = self.after_call(warp, follow_up, &request, staged, returned);
        self.count(context, Counter::Received);
        self.count(context, Counter::Dispatched);
        self.answer(context, request, staged, status, returned.len);
        self.settle(warp, slot, alone);
    }

    /// Calls a handler of any kind that is called. Lane 0 does `begin` in the course of a grid's call, and of no other: the
    /// releasing store that calls the grid would wait until what that writes to the host's memory has crossed the bus.
    #[inline(always)]
    pub(super) fn call_handler(
        &self,
        warp: Warp<'_>,
        kind: HandlerKind,
        call: &Call<'_>,
        begin: impl FnOnce(),
    ) -> Returned {
        let mut returned = Returned::default();
        if kind == HandlerKind::Grid {
            let wrong = Returned { status: Status::WRONG_MODE.0, len: 0 };
            returned = self.machine.call_grid(warp, call, begin).unwrap_or(wrong);
        } else if kind == HandlerKind::Warp {
            returned = self.machine.call_warp(warp, call);
        } else if warp.lane() == 0 {
            returned = self.machine.call_thread(call);
        }
        // The other lanes write the response: they need its length, and lane 0's stores before them.
        warp.sync();
        Returned {
            status: warp.shuffle(returned.status as u32, 0) as i32,
            len: warp.shuffle(returned.len, 0),
        }
    }

    /// Notes what this warp is about to call, for the watchdog. Where the poller does the maintenance itself
    /// no other warp would report it. A grid's handler is noted by [`call_handler`](Self::call_handler).
    #[inline(always)]
    pub(super) fn begin(&self, me: u32, function: u32, slot: u32) {
        let now = clock::ticks();
        self.block_state.begin(me, function, now);
        if self.poller_maintains {
            self.tell_busy(me, function, slot, now);
        }
    }

    /// The status that a handler's return means: it may have asked for its follow-up graph, a launch of which is reserved.
    #[inline(always)]
    fn after_call(
        &self,
        warp: Warp<'_>,
        follow_up: Option<&DeviceEntry>,
        request: &Request,
        staged: &StagedSlot<'_>,
        returned: Returned,
    ) -> Status {
        let asks = i64::from(returned.status) == flag::GRAPH_TRIGGER as i64;
        match follow_up {
            Some(graph) if asks => self.launch_follow_up(warp, graph, request, staged),
            None if asks => Status::LAUNCH_FAILED,
            Some(graph) => {
                self.release(warp, graph);
                Status(returned.status)
            }
            None => Status(returned.status),
        }
    }

    /// Answers a request for which nothing is run, or drops it.
    #[inline(always)]
    pub(super) fn refuse(
        &self,
        context: WarpContext<'_>,
        alone: bool,
        request: Request,
        staged: &StagedSlot<'_>,
        status: Status,
    ) {
        let warp = context.warp;
        let slot = request.slot().get();
        self.count(context, Counter::Received);
        if self.options.drop_bad_requests && status.is_bad_request() {
            self.count(context, Counter::of_status(status));
            request.drop_unanswered(staged);
            // As if it had come alone: no answer waits for its response flag.
            self.settle(warp, slot, true);
        } else {
            self.answer(context, request, staged, status, 0);
            self.settle(warp, slot, alone);
        }
    }

    /// Answers, and counts the answer under its status before anybody can see it.
    #[inline(always)]
    pub(super) fn answer(
        &self,
        context: WarpContext<'_>,
        request: Request,
        staged: &StagedSlot<'_>,
        status: Status,
        len: u32,
    ) {
        let (counted, _) = status.clamped(len, self.ring.geometry().result_capacity());
        self.count(context, Counter::of_status(counted));
        let _ = request.answer(staged, status, InStage(len as usize));
    }

    /// Counts one, in this warp's own bank.
    #[inline(always)]
    pub(super) fn count(&self, context: WarpContext<'_>, counter: Counter) {
        let WarpContext { warp, me, .. } = context;
        if warp.lane() == 0
            && let Some(bank) = self.block_state.bank(me)
        {
            bank.count(counter);
        }
    }

    /// This warp is done with the slot.
    #[inline(always)]
    pub(super) fn settle(&self, warp: Warp<'_>, slot: u32, alone: bool) {
        warp.sync();
        if warp.lane() == 0 {
            self.responded(slot, alone);
        }
    }
}

/// Bytes of a stage that holds a whole slot, in whole 16-byte pairs.
#[must_use]
pub const fn stage_bytes(slot_bytes: u32) -> u32 {
    let least = HEADER_BYTES as u32;
    let bytes = if slot_bytes < least { least } else { slot_bytes };
    bytes.next_multiple_of(16)
}
