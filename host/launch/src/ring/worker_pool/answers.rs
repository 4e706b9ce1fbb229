//! The response side of a ring, whose slots graphs answer by themselves.
//!
//! An in-flight mark does not say whose it is. What a pool launched it therefore tells by its own word, which
//! it leaves where the response begins: as long as that stands, the graph has not answered.

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::header::RESPONSE_MAGIC;

/// How a token begins: four bytes that no response begins with.
const TOKEN: u32 = flag::IN_FLIGHT as u32;
const _: () = assert!(TOKEN != RESPONSE_MAGIC);

/// Response flags and slots.
#[derive(Debug, Clone)]
pub struct Answers {
    flags: Words,
    /// The slots, and words from one to the next.
    slots: Option<(Words, usize)>,
    marks: bool,
    pub(super) shared: bool,
}

impl Answers {
    /// A flag for each slot, and the slots with the words from one to the next: `None` where responses lie in their
    /// requests' slots, so that nothing can be left there. `marks`: slots under way carry the in-flight mark.
    #[must_use]
    pub fn new(flags: Words, slots: Option<(Words, usize)>, marks: bool) -> Self {
        Self { flags, slots, marks, shared: false }
    }

    /// What launch number `launch` of a pool leaves behind.
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

    /// Nothing is under way or to be taken.
    pub(super) fn is_free(&self, slot: u32) -> bool {
        self.state(slot) == TxState::Empty
    }

    /// Relaxed: what launches the graph orders it before the graph's stores.
    pub(super) fn prepare(&self, slot: u32, token: u64) {
        if let Some((slots, stride)) = &self.slots {
            slots.store(slot as usize * stride, token, Ordering::Relaxed);
        }
    }

    /// Whether the flag says that a slot which was launched is answered. Without marks it cannot say so of a taken answer;
    /// on a shared ring another's mark hides one, until the graph has ended.
    #[inline]
    pub(super) fn is_answered(&self, slot: u32) -> bool {
        match self.state(slot) {
            TxState::Ready(_) | TxState::Error(_) => true,
            TxState::Empty => self.marks,
            TxState::InFlight => false,
        }
    }

    /// Whether a slot was left unanswered by the graph that was launched for it with `token`, and has ended. `silent`: where
    /// nothing tells its answer from none, it is taken for silent.
    ///
    /// A graph that writes its response and never the flag is found out where the mark can be no other
    /// agent's.
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
