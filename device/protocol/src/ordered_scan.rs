//! Order of arrival: requests of one producer that goes around the ring, visited as it wrote them.
//!
//! [`Scan`](crate::scan::Scan) visits a line of flags that is hot before one that is not, so requests that were written close
//! together may be served in another order. Where the order matters (a round of measurements, then the question for the result) this
//! cursor is for it. It has one condition: the producer takes slots in ring order, and has fewer requests under way than there are
//! slots.

use crate::ring::{RingMemory, SlotIndex};
use crate::scan::GROUP;
use crate::slot::Seen;
use ringcall_wire::flag;

/// The cursor of the only dispatcher of a ring, in order of arrival.
#[derive(Debug, Clone, Copy)]
pub struct OrderedScan {
    slots: u32,
    /// The slot after the last that was served.
    next: u32,
    /// The line of flags that was polled last, beside the one of `next`.
    sweep: u32,
}

impl OrderedScan {
    /// A cursor at slot 0 of a ring of `slots` slots.
    #[must_use]
    pub const fn new(slots: u32) -> Self {
        Self { slots, next: 0, sweep: 0 }
    }

    /// Visits requests in their order until none is found, or `visit` says that it left one where it is; how many were taken.
    /// Finds a request at the cursor at once, any other within `slots / 8` turns.
    #[inline(always)]
    pub fn turn<M: RingMemory>(&mut self, memory: &M, visit: impl FnMut(Seen) -> bool) -> u32 {
        self.visit_all(memory, Self::first, visit)
    }

    /// Visits every request that there is, in order, wherever it is: for draining.
    pub fn full<M: RingMemory>(&mut self, memory: &M, visit: impl FnMut(Seen) -> bool) -> u32 {
        self.visit_all(memory, |scan, memory| scan.earliest(memory), visit)
    }

    /// Visits the requests that `find` names, one after the other, until it names none or one is left where it is.
    #[inline(always)]
    fn visit_all<M: RingMemory>(
        &mut self,
        memory: &M,
        find: impl Fn(&mut Self, &M) -> Option<Seen>,
        mut visit: impl FnMut(Seen) -> bool,
    ) -> u32 {
        let mut taken = 0;
        while taken < self.slots {
            let Some(seen) = find(self, memory) else { break };
            let slot = seen.slot();
            if !visit(seen) {
                break;
            }
            self.next = memory.geometry().next(slot).get();
            taken += 1;
        }
        taken
    }

    /// Whether the last turn ended a round of polls of every line of flags.
    #[must_use]
    pub const fn ends_round(&self) -> bool {
        self.sweep == 0
    }

    /// The request at the cursor; else, where the cursor's line or the next line of the sweep has any, the earliest of all.
    #[inline(always)]
    fn first<M: RingMemory>(&mut self, memory: &M) -> Option<Seen> {
        let line = memory.rx_group(self.next / GROUP);
        let slot = memory.geometry().slot(self.next)?;
        let value = line.get((self.next % GROUP) as usize).copied().unwrap_or(flag::FREE);
        if value != flag::FREE {
            memory.observe();
            return Some(Seen::new(slot, value));
        }
        let mut any = line.iter().any(|&value| value != flag::FREE);
        if !any && self.slots > GROUP {
            let lines = self.slots.div_ceil(GROUP);
            self.sweep = if self.sweep + 1 < lines { self.sweep + 1 } else { 0 };
            any = memory.rx_group(self.sweep).iter().any(|&value| value != flag::FREE);
        }
        if any { self.earliest(memory) } else { None }
    }

    /// The first request after the cursor, around the ring.
    #[inline(never)]
    fn earliest<M: RingMemory>(&self, memory: &M) -> Option<Seen> {
        self.search(memory)?;
        // The search may pass a slot just before a request is written there, and then find the request that was written next. After
        // this fence every flag is visible that was set before the one found, so the second search meets the earliest.
        memory.observe();
        let (slot, value) = self.search(memory)?;
        memory.observe();
        Some(Seen::new(slot, value))
    }

    fn search<M: RingMemory>(&self, memory: &M) -> Option<(SlotIndex, u64)> {
        let lines = self.slots.div_ceil(GROUP);
        let first = self.next / GROUP;
        // The cursor's line comes twice: its slots from the cursor on, and at the end those before.
        for step in 0..=lines {
            let group = (first + step) % lines;
            let line = memory.rx_group(group);
            for (i, &value) in line.iter().enumerate() {
                let index = group * GROUP + i as u32;
                let is_turn = match step {
                    0 => index >= self.next,
                    _ if step == lines => index < self.next,
                    _ => true,
                };
                if is_turn && value != flag::FREE {
                    return Some((memory.geometry().slot(index)?, value));
                }
            }
        }
        None
    }
}
