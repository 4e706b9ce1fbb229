//! Matching the easy majority of defects before the clock starts.
//!
//! Let `v` be the defect nearest to `u`, at distance `D`, and `u` the nearest to `v`, and neither nearer than `D / 2` to the
//! boundary. Until time `D / 2` no region can touch theirs: any other defect is at least `D` away, and its reach is at most the
//! time. So at `D / 2` they meet and freeze, and every other region arrives later. They can start out matched. The same holds for
//! a defect no nearer to any other than twice its distance to the boundary, or to the frontier.
//!
//! Where other regions are at rest already ([`super::resume`]), a radius counts as grown if it overlaps no region. An old region
//! that reaches into those of `u` reaches further than `D / 2`, since no defect is nearer to `u` than `D`; so it has seen `u`
//! within twice its reach, and the pair is known.

use super::region::{FROZEN, Link};
use super::{BOUNDARY, Blossom, FRONTIER, Tables};
use crate::graph::NONE;
use crate::metric::FAR;
use crate::metric::near::LANES;

impl Blossom {
    /// Scans the first chunk of every defect from `first` on, which have just been added, and matches those for which the chunk
    /// suffices. Defects before `first` are at rest, and have scanned for these.
    #[inline]
    pub(super) fn settle(&mut self, tables: Tables<'_>, first: u32) {
        let near = &tables.metric.near;
        for i in first..self.defects.len() as u32 {
            self.read_chunk(tables, i);
            let d = &self.defects[i as usize];
            // The distance to the nearest defect, or a lower bound.
            let nearest = d.horizon;
            if d.boundary <= nearest / 2 && d.boundary < FAR {
                let reach = d.boundary;
                let to = if d.open { FRONTIER } else { BOUNDARY };
                if self.is_free(i, reach, first) {
                    self.settle_at(i, reach, Link { to, ..Link::boundary(i) });
                }
                continue;
            }
            if d.lanes == 0 {
                continue;
            }
            let lane = d.lanes.trailing_zeros() as usize % LANES;
            let chunk = d.chunk;
            let j = self.slots[d.node.wrapping_add(near.chunks[chunk as usize].offsets[lane]) as usize];
            if (j > i) | (j < first) | (self.regions[j as usize].rate == FROZEN) {
                continue;
            }
            let other = &self.defects[j as usize];
            let nearest_lane = other.lanes.trailing_zeros() as usize % LANES;
            let offset = near.chunks[other.chunk as usize].offsets[nearest_lane];
            // What the other would reach first may not have been free.
            let mutual =
                other.lanes != 0 && other.node.wrapping_add(offset) == d.node && other.boundary > nearest / 2;
            if mutual && self.is_free(i, nearest / 2, first) && self.is_free(j, nearest / 2, first) {
                let pair = self.positions.len() as u32;
                self.link(i, j, nearest, u64::from(chunk) * LANES as u64 + lane as u64);
                self.settle_at(i, nearest / 2, Link { from: i, to: j, pair });
                self.settle_at(j, nearest / 2, Link { from: j, to: i, pair });
            }
        }
    }

    /// Whether defect `i` could reach this far without overlapping the defects before `first`.
    #[inline]
    fn is_free(&self, i: u32, reach: i64, first: u32) -> bool {
        let mut h = if first == 0 { NONE } else { self.defects[i as usize].head };
        while h != NONE {
            let half = self.halves[h as usize];
            if half.other < first && self.covered(half.other) + reach > half.dist {
                return false;
            }
            h = half.next;
        }
        true
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
