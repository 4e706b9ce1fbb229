//! Which slots to poll next.
//!
//! Flags come eight to a cache line, so a line is the unit of polling: one transfer shows eight slots, and their
//! payloads are fetched together before the first is served. Each turn polls the *hot* line (where the last request
//! was; a producer that goes around the ring writes its next one there) and at one line of a *sweep* around the ring,
//! so that a request anywhere is found within `slots / 8` turns, however large the ring.

use crate::ring::{RingMemory, SlotIndex};
use crate::slot::Seen;
use ringcall_wire::flag;

/// Slots in one line of flags.
pub const GROUP: u32 = 8;

/// The cursor of one dispatcher over one ring. Cursors survive a restart of the dispatcher that owns them.
#[derive(Debug, Clone, Copy)]
pub struct Scan {
    groups: u32,
    hot: u32,
    sweep: u32,
}

impl Scan {
    /// A cursor at slot 0 of a ring of `slots` slots.
    #[must_use]
    pub const fn new(slots: u32) -> Self {
        Self { groups: slots.div_ceil(GROUP), hot: 0, sweep: 0 }
    }

    /// Looks at two lines and visits each slot whose request flag is set, each once; how many there were.
    #[inline(always)]
    pub fn turn<M: RingMemory>(&mut self, memory: &M, mut visit: impl FnMut(Seen)) -> u32 {
        // A visit moves the hot line.
        let first = self.hot;
        let mut seen = self.visit_group(memory, first, &mut visit);
        if self.groups > 1 {
            self.sweep = self.after(self.sweep);
            if self.sweep != first {
                let before = self.hot;
                let swept = self.visit_group(memory, self.sweep, &mut visit);
                if swept > 0 && self.hot == before {
                    self.hot = self.sweep;
                }
                seen += swept;
            }
        }
        seen
    }

    /// Whether the last turn ended a round: since the last such turn every line was polled. A dispatcher that finds nothing
    /// rests then, and not after each turn, or a request in a large ring waits for as many rests as the ring has lines.
    #[must_use]
    pub const fn ends_round(&self) -> bool {
        self.sweep == 0
    }

    /// Makes the next turn look where a request is known to be, however large the ring.
    pub const fn aim(&mut self, slot: SlotIndex) {
        self.hot = slot.get() / GROUP;
    }

    /// Looks at every line once: for draining.
    pub fn full<M: RingMemory>(&mut self, memory: &M, mut visit: impl FnMut(Seen)) -> u32 {
        (0..self.groups).map(|group| self.visit_group(memory, group, &mut visit)).sum()
    }

    const fn after(&self, group: u32) -> u32 {
        if group + 1 < self.groups { group + 1 } else { 0 }
    }

    #[inline(always)]
    fn visit_group<M: RingMemory>(&mut self, memory: &M, group: u32, visit: &mut impl FnMut(Seen)) -> u32 {
        let flags = memory.rx_group(group);
        if flags.iter().all(|&value| value == flag::FREE) {
            return 0;
        }
        // One fence for all eight: their payloads are visible from here on.
        memory.observe();
        let slot = |i: usize| memory.geometry().slot(group * GROUP + i as u32);
        let ready = |&(_, value): &(usize, u64)| value != flag::FREE;
        for (i, _) in flags.into_iter().enumerate().filter(ready) {
            if let Some(slot) = slot(i) {
                memory.prefetch(slot);
            }
        }
        let mut seen = 0;
        let mut last: Option<SlotIndex> = None;
        for (i, value) in flags.into_iter().enumerate().filter(ready) {
            if let Some(slot) = slot(i) {
                visit(Seen::new(slot, value));
                last = Some(slot);
                seen += 1;
            }
        }
        // The producer continues after the last slot: perhaps in the next line.
        if let Some(last) = last
            && group == self.hot
        {
            self.hot = memory.geometry().next(last).get() / GROUP;
        }
        seen
    }
}
