//! Proof that a solution is optimal.
//!
//! The radii of the regions are a solution of the dual linear program. They are feasible if no two defects, and no defect and the
//! boundary, are nearer than the radii between them allow. Then no matching costs less than their sum, so a matching that costs
//! exactly that is of minimum weight. The proof computes distances afresh, by a plain search that shares nothing with the lists
//! that decoding reads.

use super::{Blossom, Tables};
use crate::graph::NONE;
use crate::metric::search::{Flow, Search};
use crate::solution::CertificateError;

impl Blossom {
    pub(crate) fn verify(&self, tables: Tables<'_>, weight: i64) -> Result<(), CertificateError> {
        let n = self.defects.len();
        let sum = self.dual_sum(tables)?;
        if sum != weight {
            return Err(CertificateError::Gap { weight, bound: sum });
        }
        let mut search = Search::new(tables.graph.num_detectors());
        let mut at = vec![NONE; tables.graph.num_detectors()];
        for i in 0..n {
            at[self.defects[i].node as usize] = i as u32;
        }
        for i in 0..n as u32 {
            let mut fault = None;
            let from = self.node(i);
            search.run(tables.graph, from, |v| {
                let mut check = |to: Option<u32>, reach: i64, dist: i64| {
                    if reach > dist && fault.is_none() {
                        fault = Some(CertificateError::Infeasible { from, to, reach, dist });
                    }
                };
                if let Some((edge, _)) = tables.graph.own_boundary(v.node) {
                    check(None, self.reach(i), v.dist + i64::from(edge));
                }
                let j = at[v.node as usize];
                if j != NONE && j != i {
                    check(Some(v.node), self.reach(i) + self.reach(j) - 2 * self.common(i, j), v.dist);
                }
                Flow::Expand
            });
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
        Ok(())
    }

    fn chain(&self, defect: u32) -> impl Iterator<Item = u32> + '_ {
        let up = |&r: &u32| Some(self.regions[r as usize].parent).filter(|&p| p != NONE);
        std::iter::successors(Some(defect), up)
    }

    fn radius(&self, region: u32) -> i64 {
        self.regions[region as usize].radius(self.time)
    }

    pub(crate) fn reach(&self, defect: u32) -> i64 {
        self.chain(defect).map(|r| self.radius(r)).sum()
    }

    fn common(&self, i: u32, j: u32) -> i64 {
        self.chain(i).filter(|r| self.chain(j).any(|s| s == *r)).map(|r| self.radius(r)).sum()
    }

    /// The sum of all radii that count for the bound.
    fn dual_sum(&self, tables: Tables<'_>) -> Result<i64, CertificateError> {
        let defects = (0..self.defects.len() as u32).filter(|&i| !tables.graph.is_silent(self.node(i)));
        let mut regions: Vec<u32> = defects.flat_map(|i| self.chain(i)).collect();
        regions.sort_unstable();
        regions.dedup();
        let mut sum = 0;
        for r in regions {
            let radius = self.radius(r);
            if radius < 0 {
                return Err(CertificateError::NegativeRadius { radius });
            }
            sum += radius;
        }
        Ok(sum)
    }
}
