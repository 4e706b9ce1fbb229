//! Cut-off: an answer from a state in which some regions are not matched yet, after the time limit.

use super::Blossom;
use super::region::Link;
use crate::graph::NONE;
use crate::metric::FAR;

impl Blossom {
    /// Matches every unmatched region with the boundary, from the region's defect that is nearest to it. Returns false if a
    /// region has no path to the boundary. Between two events all other regions are matched in pairs, also inside a tree.
    pub(crate) fn match_with_boundary(&mut self) -> bool {
        let mut all = true;
        for i in 0..self.defects.len() as u32 {
            let top = self.top(i);
            let region = &self.regions[top as usize];
            if region.head != i || !region.mate.is_none() {
                continue;
            }
            let (mut best, mut at) = (i, i);
            while at != NONE {
                if self.defects[at as usize].boundary < self.defects[best as usize].boundary {
                    best = at;
                }
                at = self.defects[at as usize].next;
            }
            if self.defects[best as usize].boundary < FAR {
                self.regions[top as usize].mate = Link::boundary(best);
            } else {
                all = false;
            }
        }
        self.unmatched = 0;
        all
    }
}
