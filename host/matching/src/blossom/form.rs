//! Forming blossoms from odd cycles.

use super::region::{FROZEN, GROWING, Link, Region, SHRINKING};
use super::{Blossom, Tables};
use crate::graph::NONE;

impl Blossom {
    /// The outer region two steps above an outer one, or `None` at the root.
    fn above(&self, outer: u32) -> Option<u32> {
        let mate = self.regions[outer as usize].mate;
        (!mate.is_none()).then(|| self.top(self.regions[self.top(mate.to) as usize].up.to))
    }

    /// The lowest common ancestor of two outer regions of one tree.
    fn common_ancestor(&mut self, a: u32, b: u32) -> u32 {
        self.mark += 1;
        let (mut here, mut there) = (Some(a), Some(b));
        // In turns, so that the work is bounded by the size of the cycle and not by the depth of the tree.
        loop {
            if let Some(r) = here {
                if self.regions[r as usize].mark == self.mark {
                    return r;
                }
                self.regions[r as usize].mark = self.mark;
                here = self.above(r);
            }
            std::mem::swap(&mut here, &mut there);
        }
    }

    pub(super) fn new_blossom(&mut self) -> u32 {
        // A freed blossom is not queued: its collapse was taken out of the queue to free it.
        self.free.pop().unwrap_or_else(|| {
            let id = self.nodes + self.used_blossoms;
            self.used_blossoms += 1;
            self.queue.forget(id);
            id
        })
    }

    /// Merges the cycle that `link` closes between two growing regions of one tree into one region.
    pub(super) fn form_blossom(&mut self, tables: Tables<'_>, link: Link) {
        let (a, b) = (self.top(link.from), self.top(link.to));
        let ancestor = self.common_ancestor(a, b);
        let tree = self.regions[ancestor as usize].tree;
        let mate = self.regions[ancestor as usize].mate;
        // Around the cycle: from `a` up to the ancestor, down to `b`, and across the new link.
        let mut r = a;
        while r != ancestor {
            let mate = self.regions[r as usize].mate;
            let inner = self.top(mate.to);
            let up = self.regions[inner as usize].up;
            let outer = self.top(up.to);
            self.set_ring(r, inner, mate);
            self.set_ring(inner, outer, up);
            r = outer;
        }
        r = b;
        while r != ancestor {
            let mate = self.regions[r as usize].mate;
            let inner = self.top(mate.to);
            let up = self.regions[inner as usize].up;
            let outer = self.top(up.to);
            self.set_ring(inner, r, mate.reversed());
            self.set_ring(outer, inner, up.reversed());
            r = outer;
        }
        self.set_ring(b, a, link.reversed());
        let blossom = self.new_blossom();
        let (mut head, mut tail) = (NONE, NONE);
        debug_assert!(self.wake.is_empty());
        r = a;
        loop {
            let (first, last) = self.absorb(r, blossom);
            if head == NONE {
                head = first;
            } else {
                self.defects[tail as usize].next = first;
            }
            tail = last;
            r = self.regions[r as usize].ring_next;
            if r == a {
                break;
            }
        }
        self.regions[blossom as usize] =
            Region { origin: -self.time, rate: GROWING, mate, head, tail, child: a, ..Region::default() };
        self.join_tree(tree, blossom);
        while let Some(i) = self.wake.pop() {
            self.queue_defect(tables, i);
        }
    }

    fn set_ring(&mut self, region: u32, next: u32, link: Link) {
        let r = &mut self.regions[region as usize];
        r.ring_next = next;
        r.ring = link;
    }

    /// Takes a region out of its tree and into a blossom of radius zero. Returns the ends of its list of defects. Defects that
    /// were shrinking go to the wake list: they grow from now on.
    fn absorb(&mut self, region: u32, blossom: u32) -> (u32, u32) {
        self.leave_tree(region);
        let r = &mut self.regions[region as usize];
        let radius = r.radius(self.time);
        let woken = r.rate == SHRINKING;
        r.set_rate(FROZEN, self.time);
        r.parent = blossom;
        let (head, tail) = (r.head, r.tail);
        let mut i = head;
        loop {
            let d = &mut self.defects[i as usize];
            d.top = blossom;
            d.base += radius;
            if woken {
                self.wake.push(i);
            }
            if i == tail {
                return (head, tail);
            }
            i = d.next;
        }
    }
}
