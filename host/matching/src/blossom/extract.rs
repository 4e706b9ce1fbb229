//! Extracting the matching from the regions.

use super::flood::{Flood, is_labelled};
use super::region::Link;
use super::{BOUNDARY, Blossom};
use crate::graph::NONE;
use crate::pair_path::PairPath;

impl Blossom {
    /// Calls `out` with every matched pair of defects once, blossoms unfolded.
    pub(crate) fn matching(&mut self, out: impl FnMut(&Self, Link)) {
        self.matching_of(|_, _| true, out);
    }

    /// Calls `out` with every matched pair of the defects that are `wanted`. All defects of an outermost region and of its partner are
    /// wanted, or none.
    pub(crate) fn matching_of(
        &mut self,
        wanted: impl Fn(&Self, u32) -> bool,
        mut out: impl FnMut(&Self, Link),
    ) {
        let mut stack = std::mem::take(&mut self.stack);
        for i in 0..self.defects.len() as u32 {
            if !wanted(self, i) {
                continue;
            }
            let top = self.top(i);
            let link = self.regions[top as usize].mate;
            // A decode that was cut off may leave regions without a mate.
            if link.is_none() {
                continue;
            }
            if top == i {
                // Most regions are single defects. Of two single defects, the one with the lower number reports the pair; of a
                // single defect and a blossom, the single defect does.
                if link.to == BOUNDARY {
                    out(self, link);
                } else {
                    let other = self.top(link.to);
                    if other > i {
                        out(self, link);
                        if other >= self.nodes {
                            stack.push(Link { from: other, to: link.to, pair: NONE });
                        }
                    }
                }
            } else if self.regions[top as usize].head == i {
                let other = if link.to == BOUNDARY { NONE } else { self.top(link.to) };
                if other == NONE || other > top {
                    out(self, link);
                    stack.push(Link { from: top, to: link.from, pair: NONE });
                    if other != NONE {
                        stack.push(Link { from: other, to: link.to, pair: NONE });
                    }
                }
            }
            // Entries: a region (`from`) and the defect in it (`to`) that is matched outside.
            while let Some(Link { from: blossom, to: exit, .. }) = stack.pop() {
                let out_child = self.child_with(blossom, exit);
                if out_child >= self.nodes {
                    stack.push(Link { from: out_child, to: exit, pair: NONE });
                }
                let mut r = self.regions[out_child as usize].ring_next;
                while r != out_child {
                    let link = self.regions[r as usize].ring;
                    let other = self.regions[r as usize].ring_next;
                    out(self, link);
                    for (region, exit) in [(r, link.from), (other, link.to)] {
                        if region >= self.nodes {
                            stack.push(Link { from: region, to: exit, pair: NONE });
                        }
                    }
                    r = self.regions[other as usize].ring_next;
                }
            }
        }
        self.stack = stack;
    }

    /// Whether a defect lies in a part of the graph that flips no observable, and is not part of a solution.
    #[inline]
    pub(crate) fn is_silent(&self, defect: u32) -> bool {
        self.defects[defect as usize].silent
    }

    /// The node that a defect sits on.
    #[inline]
    pub(crate) fn node(&self, defect: u32) -> u32 {
        self.defects[defect as usize].node
    }

    /// Grid distance between the defects of a pair.
    #[inline]
    pub(crate) fn dist(&self, pair: u32) -> i64 {
        self.halves[pair as usize * 2].dist
    }

    /// Grid distance of a defect to the boundary.
    #[inline]
    pub(crate) fn to_boundary(&self, defect: u32) -> i64 {
        self.defects[defect as usize].boundary
    }

    /// Where the path of a matched link is recorded. The owner is the node whose near list holds the path or, for a path through
    /// labels of `flood`, the edge that joins the two labels.
    #[inline]
    pub(crate) fn place(&self, link: Link, flood: Option<&Flood>) -> PairPath {
        if link.to == BOUNDARY {
            let position = flood.and_then(|flood| flood.exit(link.from)).unwrap_or(0);
            return PairPath { owner: self.node(link.from), position };
        }
        let (pair, position) = (link.pair, self.positions[link.pair as usize]);
        let owner = match flood.filter(|_| is_labelled(position)) {
            Some(flood) => flood.bridge(pair),
            // The first half belongs to the defect that found the pair; the second one names it.
            None => self.node(self.halves[pair as usize * 2 + 1].other),
        };
        PairPath { owner, position }
    }
}
