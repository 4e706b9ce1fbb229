//! First-in first-out queues of slots, linked through one array that all queues of a ring share.
//!
//! A slot waits in at most one queue, so `slots` links serve any number of queues, and no queue is ever full. Used by
//! one dispatcher alone: no atomics.

use crate::ring::{Geometry, SlotIndex};

const END: u32 = u32::MAX;

/// The links between waiting slots, one a slot.
#[derive(Debug)]
pub struct Links<'a> {
    next: &'a mut [u32],
}

impl<'a> Links<'a> {
    /// Links in `storage`, one word a slot.
    #[must_use]
    pub fn new(storage: &'a mut [u32]) -> Self {
        Self { next: storage }
    }
}

/// One queue.
#[derive(Debug, Clone, Copy)]
pub struct SlotFifo {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for SlotFifo {
    fn default() -> Self {
        Self::new()
    }
}

impl SlotFifo {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { head: END, tail: END, len: 0 }
    }

    /// How many slots wait.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// True when none waits.
    #[must_use]
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a slot that waits in no queue.
    pub fn push(&mut self, links: &mut Links<'_>, slot: SlotIndex) {
        let Some(link) = links.next.get_mut(slot.as_usize()) else { return };
        *link = END;
        match links.next.get_mut(self.tail as usize) {
            Some(tail) if self.len > 0 => *tail = slot.get(),
            _ => self.head = slot.get(),
        }
        self.tail = slot.get();
        self.len += 1;
    }

    /// Takes a slot out of the middle (its time is up). Walks the queue: for the rare path.
    pub fn remove(&mut self, links: &mut Links<'_>, slot: SlotIndex) -> bool {
        let (mut before, mut at) = (END, self.head);
        for _ in 0..self.len {
            let next = links.next.get(at as usize).copied().unwrap_or(END);
            if at == slot.get() {
                match links.next.get_mut(before as usize) {
                    Some(link) if before != END => *link = next,
                    _ => self.head = next,
                }
                if self.tail == at {
                    self.tail = before;
                }
                self.len -= 1;
                return true;
            }
            (before, at) = (at, next);
        }
        false
    }

    /// The slot that has waited longest.
    pub fn pop(&mut self, links: &mut Links<'_>, geometry: &Geometry) -> Option<SlotIndex> {
        if self.len == 0 {
            return None;
        }
        let slot = geometry.slot(self.head)?;
        self.head = links.next.get(slot.as_usize()).copied().unwrap_or(END);
        self.len -= 1;
        Some(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Three queues over one ring against three plain queues.
        #[test]
        fn like_plain_queues(steps in proptest::collection::vec((0..3_usize, 0..3_u8, 0..16_u32), 0..400)) {
            let geometry = Geometry::new(16, 64, 64, 0, 0, 0).expect("shape");
            let mut storage = [0; 16];
            let mut links = Links::new(&mut storage);
            let mut ours = [SlotFifo::new(); 3];
            let mut plain: [VecDeque<u32>; 3] = Default::default();
            for (queue, step, slot) in steps {
                if step == 2 {
                    let removed = ours[queue].remove(&mut links, geometry.slot(slot).expect("in range"));
                    prop_assert_eq!(removed, plain[queue].contains(&slot));
                    plain[queue].retain(|&waiting| waiting != slot);
                } else if step == 1 {
                    if plain.iter().all(|q| !q.contains(&slot)) {
                        ours[queue].push(&mut links, geometry.slot(slot).expect("in range"));
                        plain[queue].push_back(slot);
                    }
                } else {
                    let popped = ours[queue].pop(&mut links, &geometry).map(SlotIndex::get);
                    prop_assert_eq!(popped, plain[queue].pop_front());
                }
                prop_assert_eq!(ours[queue].len() as usize, plain[queue].len());
            }
        }
    }
}
