//! The context of a program's own graphs, which one request at a time holds until its graph has answered.

use super::BlockDispatcher;
use core::sync::atomic::Ordering;
use ringcall_gpu::clock;
use ringcall_protocol::ring::{RingMemory, SlotIndex};
use ringcall_protocol::slot::InFlight;
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::{control, saved};
use ringcall_wire::status::Status;

/// The holder's word while the context is free.
const NO_HOLDER: u64 = 0;

/// The context, as every warp of a block has it.
pub(super) struct ProgramContext<'b, 'a, M>(pub(super) &'b BlockDispatcher<'a, M>);

impl<M> Copy for ProgramContext<'_, '_, M> {}
impl<M> Clone for ProgramContext<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> ProgramContext<'_, '_, M> {
    /// Takes the context for the request in `slot`, if it is free and this one's turn. By one lane.
    pub(super) fn take(self, slot: u32) -> bool {
        let Some(holder) = self.0.saved.get(saved::HOLDER) else { return false };
        if !holder.claim(NO_HOLDER, saved::TAKEN) {
            self.free_if_answered();
            if !holder.claim(NO_HOLDER, saved::TAKEN) {
                return false;
            }
        }
        let next = self.0.saved.load(saved::NEXT, Ordering::Relaxed);
        if next != 0 && next != u64::from(slot) + 1 && self.waits(next as u32 - 1) {
            self.free();
            return false;
        }
        self.0.saved.store(saved::NEXT, 0, Ordering::Relaxed);
        true
    }

    /// Whether a request is in the slot. One that was held back is, unless its producer broke the protocol.
    fn waits(self, slot: u32) -> bool {
        self.0.ring.geometry().slot(slot).is_some_and(|slot| self.0.ring.rx(slot) != flag::FREE)
    }

    /// Lets go of the context. By the lane that has taken it.
    pub(super) fn free(self) {
        self.0.saved.store(saved::HOLDER, NO_HOLDER, Ordering::Release);
    }

    /// Gives the context to the graph that was launched for `slot`. By the lane that has taken it. The turn keeps a warp that
    /// polls for long from taking this launch for an earlier one of the same slot.
    pub(super) fn give_to(self, slot: u32) {
        let turn = (self.0.saved.load(saved::TURN, Ordering::Relaxed) + 1) & 0x7FFF_FFFF;
        self.0.saved.store(saved::TURN, turn, Ordering::Relaxed);
        self.0.saved.store(saved::HOLDER, turn << 32 | u64::from(slot + 1), Ordering::Release);
    }

    /// The slot whose graph has the context, and the holder's word.
    fn holder(self) -> Option<(SlotIndex, u64)> {
        // Acquire: pairs with `give_to`.
        let word = self.0.saved.load(saved::HOLDER, Ordering::Acquire);
        if word == NO_HOLDER || word == saved::TAKEN {
            return None;
        }
        Some((self.0.ring.geometry().slot((word as u32).wrapping_sub(1))?, word))
    }

    /// Frees the context if its graph has answered. By one lane of any warp.
    fn free_if_answered(self) {
        let Some((slot, word)) = self.holder() else { return };
        if self.0.ring.tx(slot) != flag::IN_FLIGHT
            && self.0.saved.get(saved::HOLDER).is_some_and(|holder| holder.claim(word, saved::TAKEN))
        {
            self.count_child(Counter::Completed);
            self.free();
        }
    }

    /// Counts for a child that does not count itself. By the lane that has taken the context.
    fn count_child(self, counter: Counter) {
        let word = saved::CHILDREN + counter.index();
        let count = self.0.saved.load(word, Ordering::Relaxed);
        self.0.saved.store(word, count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Gives up the budget when a graph has not answered for long. By one lane, now and then.
    pub(super) fn enforce_limit(self) {
        self.free_if_answered();
        let limit = self.0.saved.load(saved::LIMIT, Ordering::Relaxed);
        if limit == 0 || self.holder().is_none() {
            return;
        }
        let since = self.0.saved.load(saved::SINCE, Ordering::Relaxed);
        if clock::ticks().wrapping_sub(since) > limit {
            self.0.block_state.launches.spend();
        }
    }

    /// Whether the graph that has the context is waited for by polling its answer, and not by a relaunch. By one lane.
    pub(super) fn is_waited_for(self) -> bool {
        self.free_if_answered();
        self.holder().is_some() && !self.0.block_state.launches.is_spent()
    }

    /// Whether a graph has not answered that an end at once does not leave behind. By one lane.
    pub(super) fn has_answer_outstanding(self) -> bool {
        self.free_if_answered();
        let at_once = self.0.block_state.stop.load(Ordering::Relaxed) == control::STOP_NOW;
        self.holder().is_some() && !at_once
    }

    /// Before an execution's first poll of the ring, when all children of the one before have ended: a graph that has not
    /// answered never will. By one lane.
    pub(super) fn close(self) {
        if self.0.saved.load(saved::HOLDER, Ordering::Acquire) == NO_HOLDER {
            return;
        }
        if let Some((slot, _)) = self.holder() {
            if self.0.ring.tx(slot) == flag::IN_FLIGHT {
                let word = |i| self.0.saved.load(saved::HEADER + i, Ordering::Relaxed);
                let header = RequestHeader::from_words(core::array::from_fn(word));
                self.count_child(Counter::LaunchFailed);
                let _ = InFlight::resume(slot, header).answer(self.0.ring, Status::LAUNCH_FAILED, &[]);
            } else {
                self.count_child(Counter::Completed);
            }
        }
        self.free();
    }
}
