//! Solving the known part of a syndrome, and resuming when more is known.
//!
//! Where part of the syndrome is not known yet, the *frontier* of a node is its distance to the nearest node of that part. A
//! region stops there as it would at the boundary, and is matched with the frontier. Then the radii are feasible for every
//! unknown part: a defect that appears there starts with radius zero, and no reach is longer than its distance. So no solution
//! has to be undone: when more is known, the frontiers move away, the regions that were matched with them grow on, and all others
//! stay as they are until a region meets them. (Wu, Zhong and Liyanage, arXiv:2305.08307, fuse the solutions of parts of a graph
//! in this way.)
//!
//! Frontiers are distances on the grid, hence even, and so is the reach at which a region waits at one. Regions that start or
//! grow on together do so at even reaches, which keeps their meeting times whole.

use super::region::{FROZEN, GROWING, Link};
use super::{Blossom, FRONTIER, Tables};
use crate::graph::NONE;
use crate::metric::FAR;
use std::ops::Range;

impl Blossom {
    /// Begins without defects.
    pub(crate) fn begin(&mut self, tables: Tables<'_>) {
        self.start(tables, &[]);
    }

    /// Adds the defects at `nodes`, moves the frontiers, and matches all defects. Returns false if some region can never be
    /// matched. `before` and `after` give the distance from a node to the nearest node with an unknown syndrome, before and after
    /// the defects are added. The distance is [`FAR`] for all nodes whose defects come before `unsettled`: these defects see
    /// nothing new.
    pub(crate) fn resume(
        &mut self,
        tables: Tables<'_>,
        nodes: &[u32],
        unsettled: usize,
        before: impl Fn(u32) -> i64,
        after: impl Fn(u32) -> i64,
    ) -> bool {
        let first = self.defects.len() as u32;
        // All defects are in place before any of them scans.
        for &node in nodes {
            self.add(node, &tables.metric.nodes[node as usize]);
            self.bound(tables, self.defects.len() as u32 - 1, after(node));
        }
        let unsettled = unsettled as u32;
        for i in unsettled..first {
            let node = self.node(i);
            if self.defects[i as usize].open {
                self.bound(tables, i, after(node));
            }
            let unknown = before(node);
            if unknown < FAR {
                self.look_again(tables, i, unknown);
            }
        }
        self.settle(tables, first);
        self.go_on(tables, unsettled..first)
    }

    /// Ends the growth of defect `i` at the boundary, or at the frontier if that is nearer.
    pub(super) fn bound(&mut self, tables: Tables<'_>, i: u32, frontier: i64) {
        let d = &mut self.defects[i as usize];
        let boundary = tables.metric.nodes[d.node as usize].boundary;
        d.open = frontier < boundary;
        d.boundary = boundary.min(frontier);
    }

    /// Lets those regions of the defects `waiting` that wait at a frontier grow on, together with the defects after them, which
    /// have just been added.
    fn go_on(&mut self, tables: Tables<'_>, waiting: Range<u32>) -> bool {
        debug_assert!(self.wake.is_empty());
        let first = waiting.end;
        for i in waiting {
            let top = self.top(i);
            let mate = self.regions[top as usize].mate;
            if mate.to != FRONTIER || mate.from != i {
                continue;
            }
            debug_assert_eq!(self.regions[top as usize].rate, FROZEN);
            let time = self.time;
            let r = &mut self.regions[top as usize];
            r.mate = Link::NONE;
            r.set_rate(GROWING, time);
            self.trees[i as usize] = NONE;
            self.join_tree(i, top);
            self.unmatched += 1;
            self.wake.push(top);
        }
        self.wake_all(tables);
        for i in first..self.defects.len() as u32 {
            if self.regions[i as usize].rate != FROZEN {
                self.attend(tables, i);
            }
        }
        self.run(tables)
    }
}
