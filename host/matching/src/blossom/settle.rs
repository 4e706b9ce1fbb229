//! The easy majority, matched before the clock starts.
//!
//! Say that the defect nearest to `u` is `v`, at distance `D`, and the other way round, and that neither is
//! nearer than `D / 2` to the boundary. Until time `D / 2` no region can touch theirs (any other defect is at
//! least `D` away, and its reach is at most the time), so at `D / 2` they meet and are frozen. Every later
//! arrival comes after that time. So they can start out as they will then be. The same holds for a defect no
//! nearer to any other than twice its distance to the boundary.

use super::region::{FROZEN, Link};
use super::{Blossom, Tables};
use crate::graph::NONE;
use crate::metric::FAR;
use crate::metric::near::LANES;

impl Blossom {
    /// Scans the first chunk of every defect, and matches those for which that is enough.
    pub(super) fn settle(&mut self, tables: Tables<'_>) {
        let near = &tables.metric.near;
        for i in 0..self.defects.len() as u32 {
            self.advance(tables, i);
            let d = &self.defects[i as usize];
            // The distance of the nearest defect, or a bound on it.
            let nearest = d.horizon;
            if d.boundary <= nearest / 2 && d.boundary < FAR {
                let reach = d.boundary;
                self.settle_at(i, reach, Link::boundary(i));
                continue;
            }
            if d.lanes == 0 {
                continue;
            }
            let lane = d.lanes.trailing_zeros() as usize;
            let chunk = d.chunk;
            let j = self.slots[d.node.wrapping_add(near.chunks[chunk as usize].offsets[lane]) as usize];
            if j > i || self.regions[j as usize].rate == FROZEN {
                continue;
            }
            let other = &self.defects[j as usize];
            let first = other.lanes.trailing_zeros() as usize % LANES;
            let first = near.chunks[other.chunk as usize].offsets[first];
            if other.lanes != 0 && other.node.wrapping_add(first) == d.node {
                let pair = self.positions.len() as u32;
                self.link(i, j, nearest, u64::from(chunk) * LANES as u64 + lane as u64);
                self.settle_at(i, nearest / 2, Link { from: i, to: j, pair });
                self.settle_at(j, nearest / 2, Link { from: j, to: i, pair });
            }
        }
    }

    fn settle_at(&mut self, i: u32, reach: i64, mate: Link) {
        let r = &mut self.regions[i as usize];
        r.rate = FROZEN;
        r.origin = reach;
        r.mate = mate;
        r.tree = NONE;
        self.trees[i as usize] = NONE;
        self.unmatched -= 1;
    }
}
