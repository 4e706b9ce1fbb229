//! Shattering blossoms that have shrunk to nothing.

use super::region::{FROZEN, GROWING, Link, SHRINKING};
use super::{Blossom, Tables};
use crate::graph::NONE;

impl Blossom {
    /// Handles a collapse that was queued for now. The blossom may have stopped shrinking since.
    pub(super) fn collapse(&mut self, tables: Tables<'_>, id: u32) {
        let r = &self.regions[id as usize];
        if r.rate != SHRINKING {
            return;
        }
        // It may also have stopped for a while.
        if r.origin > self.time {
            let time = r.origin;
            return self.queue.push(id, time);
        }
        self.shatter(tables, id);
    }

    /// The child of `blossom` that holds a defect.
    pub(super) fn child_with(&self, blossom: u32, defect: u32) -> u32 {
        let mut r = defect;
        while self.regions[r as usize].parent != blossom {
            r = self.regions[r as usize].parent;
        }
        r
    }

    fn shatter(&mut self, tables: Tables<'_>, blossom: u32) {
        let whole = self.regions[blossom as usize];
        let tree = whole.tree;
        self.leave_tree(blossom);
        let above = self.child_with(blossom, whole.up.from);
        let below = self.child_with(blossom, whole.mate.from);
        self.release_children(whole.child);
        self.free.push(blossom);
        // No longer shrinking: a queued collapse that is still to come must find it so.
        self.regions[blossom as usize].rate = FROZEN;

        let mut steps = 0;
        let mut r = above;
        while r != below {
            steps += 1;
            r = self.regions[r as usize].ring_next;
        }
        // Two paths lead around the cycle between the children that hold the links to the tree. The path with an even number of
        // steps stays in the tree; the regions on the other path are matched among themselves.
        let (first, last) = if steps % 2 == 0 {
            self.thread(tree, above, below, whole.up, whole.mate, true);
            (below, above)
        } else {
            self.thread(tree, below, above, whole.up, whole.mate, false);
            (above, below)
        };
        r = self.regions[first as usize].ring_next;
        while r != last {
            let link = self.regions[r as usize].ring;
            let other = self.regions[r as usize].ring_next;
            self.regions[r as usize].mate = link;
            self.regions[other as usize].mate = link.reversed();
            self.wake.push(r);
            self.wake.push(other);
            r = self.regions[other as usize].ring_next;
        }
        self.wake_all(tables);
    }

    /// Makes every child of a blossom (of radius zero) a frozen outermost region again.
    fn release_children(&mut self, first: u32) {
        let mut id = first;
        loop {
            let r = &mut self.regions[id as usize];
            debug_assert_eq!(r.rate, FROZEN);
            r.parent = NONE;
            let (mut i, tail, radius) = (r.head, r.tail, r.origin);
            let after = r.ring_next;
            loop {
                let d = &mut self.defects[i as usize];
                d.top = id;
                d.base -= radius;
                if i == tail {
                    d.next = NONE;
                    break;
                }
                i = d.next;
            }
            id = after;
            if id == first {
                return;
            }
        }
    }

    /// Puts the children from `first` to `last` along the cycle into the tree: inner, outer, inner, ... inner. `down` says
    /// whether the path leads away from the root.
    fn thread(&mut self, tree: u32, first: u32, last: u32, up: Link, mate: Link, down: bool) {
        let mut r = first;
        // The link by which the tree arrives at `r` (seen from `r`).
        let mut arrival = if down { up } else { mate };
        loop {
            let onward = if r == last { if down { mate } else { up } } else { self.regions[r as usize].ring };
            let region = &mut self.regions[r as usize];
            (region.up, region.mate) = if down { (arrival, onward) } else { (onward, arrival) };
            self.join_tree(tree, r);
            self.shrink(r);
            if r == last {
                return;
            }
            let outer = self.regions[r as usize].ring_next;
            let next_link = self.regions[outer as usize].ring;
            self.regions[outer as usize].mate = if down { onward.reversed() } else { next_link };
            self.join_tree(tree, outer);
            self.regions[outer as usize].set_rate(GROWING, self.time);
            self.wake.push(outer);
            arrival = next_link.reversed();
            r = self.regions[outer as usize].ring_next;
        }
    }
}
