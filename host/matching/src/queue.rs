//! A radix heap over a fixed set of ids.
//!
//! Event times only move forward, so an entry is filed by the highest bit in which its time differs from the last
//! time taken (Ahuja, Mehlhorn, Orlin and Tarjan, 1990). Buckets are doubly linked lists through one record per id:
//! an id is in the queue at most once, can be moved earlier in constant time, and nothing is ever allocated.

use crate::graph::NONE;

/// The time of an id that is not in the queue. Later than any event.
pub(crate) const NEVER: i64 = i64::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    time: i64,
    next: u32,
    prev: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct RadixQueue {
    entries: Vec<Entry>,
    heads: [u32; 64],
    occupied: u64,
    last: i64,
}

impl Default for RadixQueue {
    fn default() -> Self {
        Self::new(0)
    }
}

impl RadixQueue {
    pub(crate) fn new(ids: usize) -> Self {
        Self {
            entries: vec![Entry { time: NEVER, next: NONE, prev: NONE }; ids],
            heads: [NONE; 64],
            occupied: 0,
            last: 0,
        }
    }

    /// Goes back to time zero. Entries still queued are forgotten by the buckets but keep their times: the caller
    /// calls [`forget`](Self::forget) on every id before it uses it again.
    pub(crate) fn restart(&mut self) {
        self.heads = [NONE; 64];
        self.occupied = 0;
        self.last = 0;
    }

    /// Marks an id as not queued, without touching the buckets.
    #[inline]
    pub(crate) fn forget(&mut self, id: u32) {
        self.entries[id as usize].time = NEVER;
    }

    /// When `id` is due, or [`NEVER`].
    #[inline]
    pub(crate) fn time_of(&self, id: u32) -> i64 {
        self.entries[id as usize].time
    }

    #[inline]
    fn bucket(&self, time: i64) -> usize {
        (64 - ((time ^ self.last) as u64).leading_zeros()) as usize
    }

    #[inline]
    fn link(&mut self, id: u32, time: i64) {
        let b = self.bucket(time);
        let head = self.heads[b];
        self.entries[id as usize] = Entry { time, next: head, prev: NONE };
        if head != NONE {
            self.entries[head as usize].prev = id;
        }
        self.heads[b] = id;
        self.occupied |= 1 << b;
    }

    /// Makes `id` due at `time` at the latest: it is queued, moved earlier, or left alone.
    ///
    /// `time` is not before the last time taken, and below `2^62`.
    #[inline]
    pub(crate) fn push(&mut self, id: u32, time: i64) {
        debug_assert!(time >= self.last && time < 1 << 62);
        let old = self.entries[id as usize].time;
        if old <= time {
            return;
        }
        if old != NEVER {
            self.unlink(id);
        }
        self.link(id, time);
    }

    fn unlink(&mut self, id: u32) {
        let Entry { time, next, prev } = self.entries[id as usize];
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        if prev != NONE {
            self.entries[prev as usize].next = next;
        } else {
            let b = self.bucket(time);
            self.heads[b] = next;
            if next == NONE {
                self.occupied &= !(1 << b);
            }
        }
    }

    /// Takes an id that is due first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(i64, u32)> {
        if self.occupied & 1 == 0 {
            if self.occupied == 0 {
                return None;
            }
            let first = self.occupied.trailing_zeros() as usize;
            let id = self.heads[first];
            let Entry { time, next, .. } = self.entries[id as usize];
            if next == NONE {
                // Alone, as it often is: there is nothing to spread.
                self.heads[first] = NONE;
                self.occupied &= self.occupied - 1;
                self.last = time;
                self.entries[id as usize].time = NEVER;
                return Some((time, id));
            }
            self.refill();
        }
        let id = self.heads[0];
        let Entry { time, next, .. } = self.entries[id as usize];
        self.entries[id as usize].time = NEVER;
        self.heads[0] = next;
        if next == NONE {
            self.occupied &= !1;
        } else {
            self.entries[next as usize].prev = NONE;
        }
        Some((time, id))
    }

    /// Spreads the first bucket in use over lower ones, after which bucket 0 is not empty.
    fn refill(&mut self) {
        let b = self.occupied.trailing_zeros() as usize;
        let first = self.heads[b];
        self.heads[b] = NONE;
        self.occupied &= !(1 << b);
        let (mut id, mut min) = (first, NEVER);
        while id != NONE {
            let e = self.entries[id as usize];
            min = min.min(e.time);
            id = e.next;
        }
        self.last = min;
        id = first;
        while id != NONE {
            let Entry { time, next, .. } = self.entries[id as usize];
            self.link(id, time);
            id = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted map: pushes at or after the last time taken, in any mix with pops.
        #[test]
        fn behaves_as_a_priority_queue(ops in prop::collection::vec((0u32..40, 0i64..1 << 40, any::<bool>()), 1..300)) {
            let mut q = RadixQueue::new(40);
            let mut model = std::collections::BTreeMap::<u32, i64>::new();
            let mut now = 0;
            for (id, delay, pop) in ops {
                if pop {
                    match q.pop() {
                        None => prop_assert!(model.is_empty()),
                        Some((time, id)) => {
                            prop_assert_eq!(model.values().min(), Some(&time));
                            prop_assert_eq!(model.remove(&id), Some(time));
                            now = time;
                        }
                    }
                } else {
                    let time = now + (delay >> (delay % 41));
                    q.push(id, time);
                    let old = model.entry(id).or_insert(time);
                    *old = (*old).min(time);
                    prop_assert_eq!(q.time_of(id), *old);
                }
            }
        }
    }
}
