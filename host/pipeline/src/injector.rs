//! The injector: writes requests into a pipeline's ring in the controller's place.

use crate::state::State;
use ringcall::{FunctionId, Wait};
use ringcall_gpu::clock;
use ringcall_protocol::RingMemory;
use ringcall_protocol::request_ids::Submitted;
use ringcall_protocol::ring::SlotIndex;
use ringcall_protocol::slot::TooLong;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a request was not submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Every slot is taken.
    #[error("every slot of the ring is taken")]
    Full,
    /// The pipeline is not running.
    #[error("the pipeline is not running")]
    Stopped,
    /// The remote dispatcher has failed; [`StoppedPipeline::failure`](crate::StoppedPipeline::failure) says why.
    #[error("the dispatcher answers no more")]
    Lost,
    /// The payload does not fit a slot.
    #[error("{0}")]
    TooLong(TooLong),
}

/// A clock for the PTP time stamps of requests: nanoseconds since the epoch of its time scale, which for PTP is TAI's.
pub type PtpClock = Box<dyn FnMut() -> u64 + Send>;

/// Writes requests into a pipeline's ring. One exists at a time; `Send`, used by one thread.
///
/// Allocates nothing. [`try_submit`](Self::try_submit) returns at once; [`submit`](Self::submit) waits for a slot,
/// until the pipeline stops.
pub struct Injector {
    state: Arc<State>,
    turns: Turns,
    next: u32,
    wait: Wait,
    clock: Option<PtpClock>,
    _not_sync: PhantomData<Cell<()>>,
}

/// The order in which slots are used: around the ring, or, if the ring's parts are served independently, a slot of
/// each part in turn.
#[derive(Debug, Clone, Copy)]
struct Turns {
    slots: u32,
    parts: u32,
}

impl Turns {
    /// The slot of turn `turn`, of as many turns as there are slots.
    fn slot(self, turn: u32) -> u32 {
        turn % self.parts * (self.slots / self.parts) + turn / self.parts
    }

    fn after(self, turn: u32) -> u32 {
        if turn + 1 < self.slots { turn + 1 } else { 0 }
    }
}

impl Injector {
    /// An order for a ring whose `parts` equal parts are served independently.
    pub(crate) fn new(state: Arc<State>, wait: Wait, parts: u32) -> Option<Self> {
        let turns = Turns { slots: state.ring.geometry().slots(), parts: parts.max(1) };
        state.take_producer().then(|| Self {
            state,
            turns,
            next: 0,
            wait,
            clock: None,
            _not_sync: PhantomData,
        })
    }

    /// Sets the clock of PTP time stamps: each request is stamped when it is written, and the answer echoes the stamp
    /// ([`CompletedRequest::ptp_timestamp`](crate::CompletedRequest::ptp_timestamp)). Without a clock stamps are 0.
    #[must_use]
    pub fn with_ptp_clock(self, clock: impl FnMut() -> u64 + Send + 'static) -> Self {
        let mut injector = self;
        injector.clock = Some(Box::new(clock));
        injector
    }

    /// Submits a request if a slot is free. A slot that stays taken for long does not hold up the others.
    ///
    /// # Errors
    /// [`SubmitError::Full`] counts as a stall; the request was not submitted.
    #[inline]
    pub fn try_submit(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        request_id: u64,
    ) -> Result<SlotIndex, SubmitError> {
        let result = self.attempt(function, payload, request_id);
        if result == Err(SubmitError::Full) {
            self.stalled();
        }
        result
    }

    /// Tries again a submission that was already counted as stalled.
    ///
    /// # Errors
    /// As [`try_submit`](Self::try_submit); a full ring is not counted again.
    #[inline]
    pub fn retry(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        request_id: u64,
    ) -> Result<SlotIndex, SubmitError> {
        self.attempt(function, payload, request_id)
    }

    /// Submits a request, waiting for a slot while there is none; the wait counts as one stall.
    ///
    /// # Errors
    /// The pipeline stopped, or the payload does not fit.
    pub fn submit(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        request_id: u64,
    ) -> Result<SlotIndex, SubmitError> {
        let mut result = self.try_submit(function, payload, request_id);
        let mut waiter = self.wait.waiter();
        while result == Err(SubmitError::Full) {
            waiter.idle();
            result = self.retry(function, payload, request_id);
        }
        result
    }

    /// How often a submission found every slot taken, over the pipeline's life.
    #[must_use]
    pub fn backpressure_stalls(&self) -> u64 {
        self.state.counters.stalls.load(Ordering::Relaxed)
    }

    fn stalled(&self) {
        self.state.counters.stalls.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn attempt(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        request_id: u64,
    ) -> Result<SlotIndex, SubmitError> {
        // The caller's clock may panic, so it runs before the submission begins.
        let stamp = self.clock.as_mut().map_or(0, |clock| clock());
        if !self.state.begin_submission() {
            return Err(if self.state.is_lost() { SubmitError::Lost } else { SubmitError::Stopped });
        }
        let result = self.write(function, payload, request_id, stamp);
        self.state.end_submission();
        result
    }

    #[inline]
    fn write(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        request_id: u64,
        stamp: u64,
    ) -> Result<SlotIndex, SubmitError> {
        let ring = self.state.requests().shared();
        let geometry = ring.geometry();
        let capacity = geometry.request_capacity();
        if payload.len() > capacity as usize {
            return Err(SubmitError::TooLong(TooLong { len: payload.len(), capacity }));
        }
        let mut turn = self.next;
        let (slot, vacant) = loop {
            let free = geometry
                .slot(self.turns.slot(turn))
                .and_then(|slot| self.state.reserve(slot).map(|vacant| (slot, vacant)));
            turn = self.turns.after(turn);
            if let Some(free) = free {
                break free;
            }
            if turn == self.next {
                return Err(SubmitError::Full);
            }
        };
        // Count and record the request before its flag is set, so that a thread that sees the flag sees both.
        self.state.counters.submitted.fetch_add(1, Ordering::Relaxed);
        self.state.request_ids().insert(slot, Submitted { request_id, submitted_ns: clock::now_ns() });
        self.state.announce(slot);
        // The header's id is the low half; the full one is in the request ids.
        vacant.submit(ring, function.0, request_id as u32, stamp, payload).map_err(SubmitError::TooLong)?;
        self.next = turn;
        Ok(slot)
    }
}

impl std::fmt::Debug for Injector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injector")
            .field("turns", &self.turns)
            .field("next", &self.next)
            .field("stamps", &self.clock.is_some())
            .finish_non_exhaustive()
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        self.state.return_producer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_turn_and_parts_take_turns() {
        for (slots, parts) in [(1, 1), (5, 1), (8, 2), (12, 4), (64, 16), (8, 8)] {
            let turns = Turns { slots, parts };
            let mut order = vec![0];
            while let next = turns.after(order[order.len() - 1])
                && next != 0
            {
                order.push(next);
            }
            let order: Vec<_> = order.into_iter().map(|turn| turns.slot(turn)).collect();
            let each = slots / parts;
            assert!(
                order.iter().enumerate().all(|(turn, slot)| slot / each == turn as u32 % parts),
                "{order:?}"
            );
            let mut sorted = order;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..slots));
        }
    }
}
