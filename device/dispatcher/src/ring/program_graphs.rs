//! Graphs of a program's own. They know of no mailbox: their kernels find the request through one context for all of them
//! ([`ringcall_wire::launch::context`]), whose address was captured into them, and set the response flag themselves.
//!
//! # The context
//! It belongs to one launch at a time: from before the launch until the response flag has left the in-flight mark. The
//! answer is the graph's last use of the context. Other requests for such graphs stay in the ring meanwhile.
//!
//! # The end
//! Nothing reports that such a graph has *ended*, and its executable cannot be launched before the end. One
//! thing proves it: an execution that was launched as a tail begins when all children of the one before have
//! ended. So the dispatcher relaunches itself, by giving up its budget of launches,
//!
//! - when a graph has not answered for long ([`saved::LIMIT`]), or when all else has ended: if it still has not when the next
//!   execution begins, it never will, and is answered `LAUNCH_FAILED`;
//! - when a launch fails and others were made before, which may still run though they have answered: the request stays
//!   in the ring and is the next execution's first launch. If that fails, too, it is answered `LAUNCH_FAILED`;
//! - after every trigger graph, so that a client that has seen the answer to the triggering call finds the
//!   graph's work done. Handlers that may ask for it run one at a time: it has one executable, and is
//!   launched once an execution.
//!
//! Words that more than one warp may write ([`saved::HOLDER`] and what it protects) belong to the warp that
//! has moved the holder to [`saved::TAKEN`]. Tables have either graphs with mailboxes or graphs of a program:
//! the counters that the first add to are this module's in the second.

use super::staged::StagedSlot;
use super::triggers::{self, Figures};
use super::{Block, Machine, WarpContext, together};
use core::sync::atomic::Ordering;
use ringcall_gpu::clock;
use ringcall_gpu::team::Warp;
use ringcall_protocol::ring::{RingMemory, SlotIndex};
use ringcall_protocol::slot::{InFlight, Request};
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_WORDS, RequestHeader};
use ringcall_wire::launch::{DeviceEntry, context, control, saved};
use ringcall_wire::status::Status;

/// The holder's word while the context is free.
const NOBODY: u64 = 0;

impl<M: Machine> Block<'_, M> {
    /// Launches the program's graph of `entry` for the request, which the graph then answers. The order is: context, in-flight
    /// mark, launch, request flag, as for any graph.
    pub(super) fn serve_foreign(
        &self,
        context: WarpContext<'_>,
        alone: bool,
        request: Request,
        staged: &StagedSlot<'_>,
        entry: &DeviceEntry,
    ) {
        let warp = context.warp;
        let index = request.slot();
        let slot = index.get();
        let launcher = self.launcher();
        let Some(entry) = launcher.route(entry, request.header(), |word| staged.word(HEADER_WORDS + word))
        else {
            return self.refuse(context, alone, request, staged, Status::NO_WORKER);
        };
        let Some(words) =
            self.machine.mailbox(self.saved.load(saved::CONTEXT, Ordering::Relaxed), context::WORDS)
        else {
            // The host gives every table with such graphs a context.
            return self.refuse(context, alone, request, staged, Status::LAUNCH_FAILED);
        };
        if !self.block_state.launches.take(warp) {
            return self.hold_back(context, request);
        }
        if together(warp, || u64::from(self.take_context(slot))) == 0 {
            self.block_state.launches.give_back(warp);
            return self.hold_back(context, request);
        }
        if warp.lane() == 0 {
            let answer = self.ring.response_addresses(slot).unwrap_or_default();
            for (word, value) in [
                (context::RX_SLOT, self.ring.geometry().request_address(index)),
                (context::TX_SLOT, answer.slot),
                (context::TX_FLAG, answer.flag),
                (context::TX_VALUE, answer.value),
                (context::TX_STRIDE, u64::from(self.ring.geometry().tx_stride())),
            ] {
                words.store(word, value, Ordering::Relaxed);
            }
            for (word, value) in request.header().to_words().into_iter().enumerate() {
                self.saved.store(saved::HEADER + word, value, Ordering::Relaxed);
            }
            self.saved.store(saved::SINCE, clock::ticks(), Ordering::Relaxed);
        }
        // Always: an answer is known by the mark's end.
        request.mark(staged);
        if launcher.fire_foreign(warp, entry.address).is_ok() {
            if warp.lane() == 0 {
                // After the mark, so that a warp that sees this holder sees its mark, or a later state of the
                // slot.
                self.give_context_to(slot);
            }
            self.count(context, Counter::Received);
            self.count(context, Counter::Dispatched);
            request.hand_over(staged);
            warp.sync();
            if warp.lane() == 0 {
                self.handed_over(slot);
            }
            return;
        }
        // A graph that has answered may still run, and keep its executable: only a fresh execution knows that none does.
        let launches = &self.block_state.launches;
        let fresh = together(warp, || u64::from(launches.uncounted() == 0 && !launches.is_spent())) != 0;
        if warp.lane() == 0 {
            let next = if fresh { 0 } else { u64::from(slot) + 1 };
            self.saved.store(saved::NEXT, next, Ordering::Relaxed);
            if !fresh {
                // The request flag still stands, so the slot does not look vacant.
                self.ring.clear_tx(index);
                launches.spend();
            }
            self.free_context();
        }
        if fresh {
            self.refuse(context, alone, request, staged, Status::LAUNCH_FAILED);
        } else {
            self.hold_back(context, request);
        }
    }

    /// Launches the graph that a handler asked for, the only one that runs of those that may. It is told nothing and sends no
    /// answer; no further request is served before it has ended. The status of the handler's request.
    pub(super) fn trigger_foreign(&self, warp: Warp<'_>, graph: &DeviceEntry) -> Status {
        let launched = self.launcher().fire_foreign(warp, graph.address);
        if warp.lane() == 0 {
            self.tell_trigger(launched.err().unwrap_or(0));
        }
        if launched.is_err() {
            self.block_state.launches.give_trigger_back(warp);
            return Status::LAUNCH_FAILED;
        }
        if warp.lane() == 0 {
            self.block_state.launches.spend();
        }
        warp.sync();
        Status::OK
    }

    /// Tells the host of a launch of the trigger graph and of its CUDA code: at once, since the graph may
    /// never end. By one lane of the warp that has taken the context.
    fn tell_trigger(&self, code: u32) {
        let count = self.saved.load(saved::TRIGGERS, Ordering::Relaxed).wrapping_add(1);
        self.saved.store(saved::TRIGGERS, count, Ordering::Relaxed);
        triggers::tell(
            self.control,
            Figures { launches: count, code: u64::from(code), at_ns: clock::now_ns() },
        );
    }

    /// Takes the context for the request in `slot`, if it is free and this one's turn. By one lane.
    fn take_context(&self, slot: u32) -> bool {
        let Some(holder) = self.saved.get(saved::HOLDER) else { return false };
        if !holder.claim(NOBODY, saved::TAKEN) {
            self.settle_context();
            if !holder.claim(NOBODY, saved::TAKEN) {
                return false;
            }
        }
        let next = self.saved.load(saved::NEXT, Ordering::Relaxed);
        if next != 0 && next != u64::from(slot) + 1 && self.waits(next as u32 - 1) {
            self.free_context();
            return false;
        }
        self.saved.store(saved::NEXT, 0, Ordering::Relaxed);
        true
    }

    /// Whether a request is in the slot. One that was held back is, unless its producer broke the protocol.
    fn waits(&self, slot: u32) -> bool {
        self.ring.geometry().slot(slot).is_some_and(|slot| self.ring.rx(slot) != flag::FREE)
    }

    /// Lets go of the context. By the lane that has taken it.
    fn free_context(&self) {
        self.saved.store(saved::HOLDER, NOBODY, Ordering::Release);
    }

    /// Gives the context to the graph that was launched for `slot`. By the lane that has taken it. The turn keeps a warp that
    /// looks for long from taking this launch for an earlier one of the same slot.
    fn give_context_to(&self, slot: u32) {
        let turn = (self.saved.load(saved::TURN, Ordering::Relaxed) + 1) & 0x7FFF_FFFF;
        self.saved.store(saved::TURN, turn, Ordering::Relaxed);
        self.saved.store(saved::HOLDER, turn << 32 | u64::from(slot + 1), Ordering::Release);
    }

    /// The slot whose graph has the context, and the holder's word.
    fn holder(&self) -> Option<(SlotIndex, u64)> {
        // Acquire: pairs with `give_context_to`.
        let word = self.saved.load(saved::HOLDER, Ordering::Acquire);
        if word == NOBODY || word == saved::TAKEN {
            return None;
        }
        Some((self.ring.geometry().slot((word as u32).wrapping_sub(1))?, word))
    }

    /// Frees the context if its graph has answered. By one lane of any warp.
    fn settle_context(&self) {
        let Some((slot, word)) = self.holder() else { return };
        if self.ring.tx(slot) != flag::IN_FLIGHT
            && self.saved.get(saved::HOLDER).is_some_and(|holder| holder.claim(word, saved::TAKEN))
        {
            self.count_child(Counter::Completed);
            self.free_context();
        }
    }

    /// Counts for a child that does not count itself. By the lane that has taken the context.
    fn count_child(&self, counter: Counter) {
        let word = saved::CHILDREN + counter.index();
        let count = self.saved.load(word, Ordering::Relaxed);
        self.saved.store(word, count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Gives up the budget when a graph has not answered for long. By one lane, now and then.
    pub(super) fn look_after_context(&self) {
        self.settle_context();
        let limit = self.saved.load(saved::LIMIT, Ordering::Relaxed);
        if limit == 0 || self.holder().is_none() {
            return;
        }
        let since = self.saved.load(saved::SINCE, Ordering::Relaxed);
        if clock::ticks().wrapping_sub(since) > limit {
            self.block_state.launches.spend();
        }
    }

    /// Whether the graph that has the context is waited for by looking at its answer, and not by a relaunch. By one lane.
    pub(super) fn waits_for_context(&self) -> bool {
        self.settle_context();
        self.holder().is_some() && !self.block_state.launches.is_spent()
    }

    /// Whether a graph has not answered that an end at once does not leave behind. By one lane.
    pub(super) fn owes_an_answer(&self) -> bool {
        self.settle_context();
        let at_once = self.block_state.stop.load(Ordering::Relaxed) == control::STOP_NOW;
        self.holder().is_some() && !at_once
    }

    /// Before an execution's first look at the ring, when all children of the one before have ended: a graph that has not
    /// answered never will. By one lane.
    pub(super) fn close_context(&self) {
        if let Some((slot, _)) = self.holder() {
            if self.ring.tx(slot) == flag::IN_FLIGHT {
                let word = |i| self.saved.load(saved::HEADER + i, Ordering::Relaxed);
                let header = RequestHeader::from_words(core::array::from_fn(word));
                self.count_child(Counter::LaunchFailed);
                let _ = InFlight::resume(slot, header).answer(self.ring, Status::LAUNCH_FAILED, &[]);
            } else {
                self.count_child(Counter::Completed);
            }
        }
        self.free_context();
    }
}
