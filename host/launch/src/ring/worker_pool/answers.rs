//! Response flags and slots of a ring whose requests graphs answer by themselves.
//!
//! An in-flight mark does not say which dispatcher set it. A pool therefore writes its own token where the response
//! begins: as long as the token is there, the graph has not answered.

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::header::RESPONSE_MAGIC;

/// First bytes of a token: four bytes with which no response begins.
const TOKEN: u32 = flag::IN_FLIGHT as u32;
const _: () = assert!(TOKEN != RESPONSE_MAGIC);

/// Response flags and slots.
#[derive(Debug, Clone)]
pub struct Answers {
    flags: Words,
    /// The slots, and the number of words from one slot to the next.
    slots: Option<(Words, usize)>,
    marks: bool,
    pub(super) shared: bool,
}

impl Answers {
    /// A flag for each slot, and the slots with the number of words from one to the next. `None` if responses are
    /// written into their requests' slots, in which no token can be left. `marks`: slots in flight have the in-flight
    /// mark.
    #[must_use]
    pub fn new(flags: Words, slots: Option<(Words, usize)>, marks: bool) -> Self {
        Self { flags, slots, marks, shared: false }
    }

    /// The token of launch number `launch` of a pool.
    pub(super) const fn token(launch: u32) -> u64 {
        (launch as u64) << 32 | TOKEN as u64
    }

    pub(super) fn has(&self, slot: u32) -> bool {
        (slot as usize) < self.flags.len()
    }

    fn state(&self, slot: u32) -> TxState {
        // Acquire: pairs with the release of the graph's answer.
        TxState::decode(self.flags.load(slot as usize, Ordering::Acquire))
    }

    /// Whether no request is in flight and no answer waits to be taken.
    pub(super) fn is_free(&self, slot: u32) -> bool {
        self.state(slot) == TxState::Empty
    }

    /// Relaxed: the launch of the graph orders this store before the graph's stores.
    pub(super) fn prepare(&self, slot: u32, token: u64) {
        if let Some((slots, stride)) = &self.slots {
            slots.store(slot as usize * stride, token, Ordering::Relaxed);
        }
    }

    /// Whether the flag of a launched slot says that the slot is answered. Without marks the flag does not show an
    /// answer that was taken. On a shared ring another dispatcher's mark hides an answer until the graph has ended.
    #[inline]
    pub(super) fn is_answered(&self, slot: u32) -> bool {
        match self.state(slot) {
            TxState::Ready(_) | TxState::Error(_) => true,
            TxState::Empty => self.marks,
            TxState::InFlight => false,
        }
    }

    /// Whether the ended graph that was launched with `token` left its slot unanswered. `silent`: if nothing
    /// distinguishes an answer from none, assume that there was none.
    ///
    /// A graph that writes its response and never its flag is detected if the mark cannot be another agent's.
    pub(super) fn is_outstanding(&self, slot: u32, token: u64, silent: bool) -> bool {
        let untouched = self
            .slots
            .as_ref()
            .map_or(silent, |(slots, stride)| slots.load(slot as usize * stride, Ordering::Relaxed) == token);
        match self.state(slot) {
            TxState::InFlight => !self.shared || untouched,
            TxState::Empty => !self.marks && untouched,
            TxState::Ready(_) | TxState::Error(_) => false,
        }
    }
}
