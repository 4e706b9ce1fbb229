//! Alternating trees: growth, and flips of the matching along their paths.

use super::region::{FROZEN, GROWING, Link, SHRINKING};
use super::{BOUNDARY, Blossom, FRONTIER, Tables};
use crate::graph::NONE;

impl Blossom {
    #[inline]
    pub(super) fn top(&self, defect: u32) -> u32 {
        self.defects[defect as usize].top
    }

    /// Handles a growing region that has reached the boundary, or the frontier, at defect `i`.
    pub(super) fn reach_boundary(&mut self, tables: Tables<'_>, i: u32) {
        let outer = self.top(i);
        let tree = self.regions[outer as usize].tree;
        let to = if self.defects[i as usize].open { FRONTIER } else { BOUNDARY };
        self.flip(outer, Link { to, ..Link::boundary(i) });
        self.dissolve(tree);
        self.unmatched -= 1;
        self.wake_all(tables);
    }

    /// Handles two regions that meet at the pair of half-edge `half` of defect `i`; at least one of them grows.
    pub(super) fn meet(&mut self, tables: Tables<'_>, i: u32, half: u32) {
        let mut link = Link { from: i, to: self.halves[half as usize].other, pair: half / 2 };
        if self.regions[self.top(i) as usize].rate != GROWING {
            link = link.reversed();
        }
        let (a, b) = (self.top(link.from), self.top(link.to));
        let (ra, rb) = (&self.regions[a as usize], &self.regions[b as usize]);
        if rb.rate == GROWING {
            if ra.tree == rb.tree {
                return self.form_blossom(tables, link);
            }
            let (ta, tb) = (ra.tree, rb.tree);
            self.flip(a, link);
            self.flip(b, link.reversed());
            self.dissolve(ta);
            self.dissolve(tb);
            self.unmatched -= 2;
            return self.wake_all(tables);
        }
        debug_assert_eq!(rb.rate, FROZEN);
        let tree = ra.tree;
        let mate = rb.mate;
        if mate.leads_out() {
            self.regions[b as usize].mate = link.reversed();
            self.flip(a, link);
            self.dissolve(tree);
            self.unmatched -= 1;
            return self.wake_all(tables);
        }
        let c = self.top(mate.to);
        self.regions[b as usize].up = link.reversed();
        self.join_tree(tree, b);
        self.join_tree(tree, c);
        self.shrink(b);
        self.regions[c as usize].set_rate(GROWING, self.time);
        self.attend_region(tables, c);
    }

    /// Makes a region shrink, and queues it for its collapse if it is a blossom.
    pub(super) fn shrink(&mut self, region: u32) {
        let r = &mut self.regions[region as usize];
        r.set_rate(SHRINKING, self.time);
        if region >= self.nodes {
            let time = r.origin;
            self.queue.push(region, time);
        }
    }

    pub(super) fn join_tree(&mut self, tree: u32, region: u32) {
        let head = self.trees[tree as usize];
        let r = &mut self.regions[region as usize];
        (r.tree, r.tree_next, r.tree_prev) = (tree, head, NONE);
        if head != NONE {
            self.regions[head as usize].tree_prev = region;
        }
        self.trees[tree as usize] = region;
    }

    pub(super) fn leave_tree(&mut self, region: u32) {
        let r = &mut self.regions[region as usize];
        let (tree, next, prev) = (r.tree, r.tree_next, r.tree_prev);
        r.tree = NONE;
        if next != NONE {
            self.regions[next as usize].tree_prev = prev;
        }
        if prev != NONE {
            self.regions[prev as usize].tree_next = next;
        } else {
            self.trees[tree as usize] = next;
        }
    }

    /// Matches an outer region through `link`, and re-matches the regions on its path to the root.
    fn flip(&mut self, mut outer: u32, mut link: Link) {
        loop {
            let old = std::mem::replace(&mut self.regions[outer as usize].mate, link);
            if old.is_none() {
                return;
            }
            let inner = self.top(old.to);
            let up = self.regions[inner as usize].up;
            self.regions[inner as usize].mate = up;
            outer = self.top(up.to);
            link = up.reversed();
        }
    }

    /// Freezes all regions of a tree. Shrinking regions are left in the wake list, for
    /// [`wake_all`](Self::wake_all): only their rate went up.
    fn dissolve(&mut self, tree: u32) {
        let mut id = self.trees[tree as usize];
        while id != NONE {
            let r = &mut self.regions[id as usize];
            if r.rate == SHRINKING {
                self.wake.push(id);
            }
            r.set_rate(FROZEN, self.time);
            r.tree = NONE;
            id = r.tree_next;
        }
        self.trees[tree as usize] = NONE;
    }

    /// Attends to the regions in the wake list, once all rates are final.
    pub(super) fn wake_all(&mut self, tables: Tables<'_>) {
        while let Some(region) = self.wake.pop() {
            self.attend_region(tables, region);
        }
    }
}
