//! Correlated matching: a second pass on weights that the first one's solution has lowered.
//!
//! An error with several parts (a Y error of a surface code has one among the X checks and one among the Z checks) makes
//! its edges likely to be crossed together. Matching cannot know that; but once it has crossed an edge, the others that
//! share errors with it deserve a smaller weight, and matching again on those weights is more accurate (Fowler,
//! arXiv:1310.0863). The procedure is PyMatching 2.4's, found by experiment and from its documentation:
//!
//! - every error that both edges are part of counts towards the probability that both are crossed, combined as
//!   "an odd number of them", and every error that an edge is part of counts towards its own;
//! - the weight of `b` given `a` is that of the probability `min(1/2, p(a and b) / p(a))`, rounded on the same grid;
//! - for each edge that the first solution crosses (an odd number of times), in no particular order, the weights of the
//!   others become the least of what they are and what is implied. The second solution is the answer; its weight
//!   is that of the lowered edges.

pub(crate) mod joint;
pub(crate) mod rules;

use crate::blossom::{Blossom, Link, Tables};
use crate::graph::MatchingGraph;
use crate::metric::Metric;
use crate::pair_path::PairPath;
use crate::solution::{CertificateError, MatchedPair, Solution};

/// The state of second passes on one graph.
#[derive(Debug, Clone)]
pub(crate) struct SecondPass {
    blossom: Blossom,
    /// The edges that the first pass crossed.
    crossed: Vec<u32>,
    applied: bool,
}

impl SecondPass {
    pub(crate) fn new(graph: &MatchingGraph, metric: &Metric) -> Self {
        Self {
            blossom: Blossom::flooding(Tables { graph, metric }),
            crossed: Vec::with_capacity(graph.num_edges()),
            applied: false,
        }
    }

    /// Whether the last solution is of a second pass: where no weight changes, the first one's is the answer.
    pub(crate) fn applied(&self) -> bool {
        self.applied
    }

    /// Given the edges that the first solution crosses, replaces it by a second one.
    pub(crate) fn run(
        &mut self,
        tables: Tables<'_>,
        crossed: &[u32],
        defects: &[u32],
        solution: &mut Solution,
        places: &mut Vec<PairPath>,
    ) {
        self.crossed.clear();
        self.crossed.extend_from_slice(crossed);
        let Tables { graph, .. } = tables;
        self.lower(graph);
        self.applied = self.blossom.is_lowered();
        if !self.applied {
            return;
        }
        self.blossom.solve(tables, defects);
        let used = graph.used();
        solution.clear();
        solution.observables.copy_from_slice(&used.observables);
        places.clear();
        let (mut weight, observables, pairs) = (used.weight, &mut solution.observables, &mut solution.pairs);
        self.blossom.matching(|blossom, link: Link| {
            let a = blossom.node(link.from);
            let (owner, position) = blossom.way(link);
            let (b, dist) = blossom.far_end(link);
            blossom
                .walk_way(tables, (owner, position), |edge| graph.edges()[edge as usize].flip(observables));
            weight += dist;
            pairs.push(MatchedPair { a, b });
            places.push(PairPath { owner, position });
        });
        solution.grid_weight = weight;
        solution.weight = weight as f64 / 2.0 / graph.scale();
        self.blossom.restore();
    }

    /// Calls `edge` with every edge on the way of a matched pair.
    pub(crate) fn walk(&self, tables: Tables<'_>, place: PairPath, edge: impl FnMut(u32)) {
        self.blossom.walk_way(tables, (place.owner, place.position), edge);
    }

    /// Proves the last solution, of this weight, to be of minimum weight on the lowered weights.
    pub(crate) fn verify(&mut self, tables: Tables<'_>, weight: i64) -> Result<(), CertificateError> {
        self.lower(tables.graph);
        let lowered = self.blossom.lowered_graph(tables.graph);
        self.blossom.restore();
        self.blossom.verify(Tables { graph: &lowered, ..tables }, weight - tables.graph.used().weight)
    }

    fn lower(&mut self, graph: &MatchingGraph) {
        for &edge in &self.crossed {
            for rule in graph.rules().of(edge) {
                self.blossom.lower(rule.edge, rule.weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorPart, GraphBuilder};
    use proptest::prelude::*;

    type Row = (Vec<(u32, u32, u32)>, Option<(u32, u32)>);

    fn rows(graph: &MatchingGraph) -> Vec<Row> {
        let row = |u| {
            let all = graph.neighbours(u).iter().map(|nb| (nb.node, nb.weight, nb.edge)).collect();
            (all, graph.own_boundary(u))
        };
        (0..graph.num_detectors() as u32).map(row).collect()
    }

    proptest! {
        /// Weights are the least of those asked for, in both rows of an edge, and afterwards what they were.
        #[test]
        fn weights_are_lowered_and_put_back(
            edges in prop::collection::vec((0u32..6, 0u32..7, 0.001..0.4f64), 2..20),
            crossed in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut b = GraphBuilder::new();
            let lists: Vec<Vec<u32>> = edges
                .iter()
                .map(|&(u, v, _)| if v < 6 && u != v { vec![u, v] } else { vec![u] })
                .collect();
            for (pair, list) in lists.windows(2).zip(&edges) {
                let part = |detectors| ErrorPart { detectors, observables: &[] };
                b.error(list.2, &[part(&pair[0]), part(&pair[1])]).unwrap();
            }
            let graph = b.build().unwrap();
            let metric = Metric::new(&graph, 0);
            let mut pass = SecondPass::new(&graph, &metric);
            let mut least: Vec<i64> = (0..graph.num_edges()).map(|e| graph.grid_weight(e)).collect();
            for index in crossed {
                let edge = index.index(graph.num_edges()) as u32;
                pass.crossed.push(edge);
                for rule in graph.rules().of(edge) {
                    let at = &mut least[rule.edge as usize];
                    *at = (*at).min(rule.weight.into());
                }
            }
            pass.lower(&graph);
            for (neighbours, own) in rows(&pass.blossom.lowered_graph(&graph)) {
                for (weight, edge) in neighbours.into_iter().map(|nb| (nb.1, nb.2)).chain(own) {
                    prop_assert_eq!(i64::from(weight), least[edge as usize]);
                }
            }
            pass.blossom.restore();
            prop_assert!(!pass.blossom.is_lowered());
            prop_assert_eq!(rows(&pass.blossom.lowered_graph(&graph)), rows(&graph));
        }
    }
}
