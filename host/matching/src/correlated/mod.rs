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

use std::ops::Range;

use crate::blossom::flood::Flood;
use crate::blossom::{BOUNDARY, Blossom, Link, Tables};
use crate::graph::MatchingGraph;
use crate::metric::search::Search;
use crate::paths::walk;
use crate::solution::MatchedPair;

/// The state of second passes on one graph.
#[derive(Debug, Clone)]
pub(crate) struct SecondPass {
    /// `None` only within a solve.
    flood: Option<Box<Flood>>,
    /// The edges of the paths of the first pass, pair by pair.
    paths: Vec<u32>,
    /// The pairs that are part of a solution, and where their paths lie.
    pairs: Vec<(Link, Range<u32>)>,
    /// Per edge, whether the first pass crosses it an odd number of times.
    odd: Vec<bool>,
}

impl SecondPass {
    pub(crate) fn new(graph: &MatchingGraph) -> Self {
        Self {
            flood: Some(Box::new(Flood::new(graph))),
            paths: Vec::with_capacity(graph.num_edges()),
            pairs: Vec::with_capacity(graph.num_detectors()),
            odd: vec![false; graph.num_edges()],
        }
    }

    /// Whether the last solution is of a second pass: where no weight changes, the first one's is the answer.
    pub(crate) fn applied(&self) -> bool {
        self.flood().is_changed()
    }

    /// The weights of the last decode, and where its paths are known.
    pub(crate) fn flood(&self) -> &Flood {
        self.flood.as_deref().expect("is put back after every solve")
    }

    /// The edges on the paths of the last first pass, pair by pair: an edge of two paths twice.
    pub(crate) fn first_edges(&self) -> &[u32] {
        &self.paths
    }

    /// The graph with the weights of the last decode.
    pub(crate) fn changed_graph(&self, graph: &MatchingGraph) -> MatchingGraph {
        self.flood().changed_graph(graph)
    }

    /// Brings the state of a first pass into that of a second one, and gives what that one knows; `None` if it is the same.
    pub(crate) fn run(
        &mut self,
        tables: Tables<'_>,
        blossom: &mut Blossom,
        search: &mut Search,
    ) -> Option<&Flood> {
        let done = self.run_until(tables, blossom, search, &mut || false);
        debug_assert!(done, "nothing has stopped it");
        self.changed()
    }

    /// The same, until `expired`: `false` if it came to no end, and then no weight is changed any more.
    pub(crate) fn run_until(
        &mut self,
        tables: Tables<'_>,
        blossom: &mut Blossom,
        search: &mut Search,
        expired: &mut impl FnMut() -> bool,
    ) -> bool {
        let Some(mut flood) = self.flood.take() else { return false };
        flood.restore();
        self.find_paths(tables, blossom, search);
        self.lower(tables.graph, &mut flood);
        let mut done = true;
        if flood.is_changed() {
            self.shorten(blossom, &flood);
            (flood, done) = blossom.solve_again_until(tables, flood, expired);
            if !done {
                flood.restore();
            }
        }
        self.flood = Some(flood);
        done
    }

    /// Forgets the weights of the last decode.
    pub(crate) fn skip(&mut self) {
        if let Some(flood) = &mut self.flood {
            flood.restore();
        }
    }

    /// Solves with other weights in one pass, for the defects at `nodes`; gives what that knows, `None` if no weight is another.
    /// Weights are on the grid; each edge is listed once.
    pub(crate) fn run_with(
        &mut self,
        tables: Tables<'_>,
        blossom: &mut Blossom,
        search: &mut Search,
        nodes: &[u32],
        weights: impl Iterator<Item = (u32, u32)>,
    ) -> Option<&Flood> {
        let mut flood = self.flood.take()?;
        flood.restore();
        let raised = weights.fold(false, |raised, (edge, weight)| flood.set(edge, weight) || raised);
        if raised {
            // What is heavier leaves no bound to start from.
            flood = blossom.solve_afresh(tables, flood, nodes);
        } else {
            blossom.solve(tables, nodes);
            if flood.is_changed() {
                self.find_paths(tables, blossom, search);
                self.paths.iter().for_each(|&edge| self.odd[edge as usize] = false);
                self.shorten(blossom, &flood);
                flood = blossom.solve_again(tables, flood);
            }
        }
        self.flood = Some(flood);
        self.changed()
    }

    /// What the last second pass knows, where it changed anything.
    pub(crate) fn changed(&self) -> Option<&Flood> {
        self.flood.as_deref().filter(|flood| flood.is_changed())
    }

    /// Lists the edges of the first pass, and counts how often it crosses each.
    fn find_paths(&mut self, tables: Tables<'_>, blossom: &mut Blossom, search: &mut Search) {
        let Self { paths, pairs, odd, .. } = self;
        paths.clear();
        pairs.clear();
        let mut cross = |edge: u32, paths: &mut Vec<u32>| {
            odd[edge as usize] ^= true;
            paths.push(edge);
        };
        blossom.matching(|blossom, link| {
            let a = blossom.node(link.from);
            let b = if link.to == BOUNDARY { None } else { Some(blossom.node(link.to)) };
            let place = blossom.place(link, None);
            let begin = paths.len() as u32;
            walk(tables, search, None, MatchedPair { a, b }, place, |edge| cross(edge, paths));
            if !blossom.is_silent(link.from) {
                pairs.push((link, begin..paths.len() as u32));
            }
        });
        for &edge in &tables.graph.used().edges {
            cross(edge, paths);
        }
    }

    /// Lowers weights as the edges of the first pass demand.
    fn lower(&mut self, graph: &MatchingGraph, flood: &mut Flood) {
        // The rules of an edge are seldom in a cache: asked for in a row, they are fetched side by side.
        std::hint::black_box(self.paths.iter().fold(0, |all, &edge| all ^ graph.rules().first(edge)));
        for &edge in &self.paths {
            if std::mem::take(&mut self.odd[edge as usize]) {
                for rule in graph.rules().of(edge) {
                    flood.lower(rule.edge, rule.weight);
                }
            }
        }
    }

    /// Tells the pairs whose paths have become lighter.
    fn shorten(&self, blossom: &mut Blossom, flood: &Flood) {
        for (link, path) in &self.pairs {
            let path = &self.paths[path.start as usize..path.end as usize];
            let length = path.iter().map(|&edge| flood.weight(edge)).sum();
            blossom.shorten(*link, length);
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
            let mut pass = SecondPass::new(&graph);
            let mut flood = Flood::new(&graph);
            let mut times = vec![0; graph.num_edges()];
            for index in crossed {
                let edge = index.index(graph.num_edges());
                times[edge] += 1;
                pass.odd[edge] ^= true;
                pass.paths.push(edge as u32);
            }
            let mut least: Vec<i64> = (0..graph.num_edges()).map(|e| graph.grid_weight(e)).collect();
            for edge in (0..).zip(&times).filter(|(_, times)| **times % 2 == 1).map(|(edge, _)| edge) {
                for rule in graph.rules().of(edge) {
                    let at = &mut least[rule.edge as usize];
                    *at = (*at).min(rule.weight.into());
                }
            }
            pass.lower(&graph, &mut flood);
            for (neighbours, own) in rows(&flood.changed_graph(&graph)) {
                for (weight, edge) in neighbours.into_iter().map(|nb| (nb.1, nb.2)).chain(own) {
                    prop_assert_eq!(i64::from(weight), least[edge as usize]);
                }
            }
            flood.restore();
            prop_assert!(!flood.is_changed());
            prop_assert_eq!(rows(&flood.changed_graph(&graph)), rows(&graph));
        }
    }
}
