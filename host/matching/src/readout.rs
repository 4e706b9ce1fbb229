//! Turning matched pairs into observables, weights and edges.

use crate::bits::cancel_pairs;
use crate::blossom::{BOUNDARY, Blossom, Link, SEARCHED, Tables};
use crate::correlated::SecondPass;
use crate::graph::MatchingGraph;
use crate::metric::Metric;
use crate::metric::search::{Flow, Search};
use crate::pair_path::PairPath;
use crate::solution::{CertificateError, MatchedPair, Solution};

/// A solution, and where the paths of its pairs lie.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) solution: Solution,
    pub(crate) places: Vec<PairPath>,
    pub(crate) correction: Vec<u32>,
    search: Search,
    solved: bool,
}

impl Answer {
    pub(crate) fn new(graph: &MatchingGraph) -> Self {
        Self::with_room(graph.num_detectors(), graph.num_edges(), graph.observable_words())
    }

    /// Room for the answers on graphs of up to `n` nodes and so many edges.
    pub(crate) fn with_room(n: usize, edges: usize, observable_words: usize) -> Self {
        Self {
            solution: Solution {
                observables: vec![0; observable_words],
                pairs: Vec::with_capacity(n),
                ..Solution::default()
            },
            places: Vec::with_capacity(n),
            correction: Vec::with_capacity(edges),
            search: Search::new(n),
            solved: false,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.solution.clear();
        self.places.clear();
        self.solved = false;
    }

    pub(crate) fn is_solved(&self) -> bool {
        self.solved
    }

    /// Proves the solution to be of minimum weight, from the regions that it was read from, or others of as much weight.
    pub(crate) fn verify(&self, tables: Tables<'_>, blossom: &Blossom) -> Result<(), CertificateError> {
        if !self.solved {
            return Err(CertificateError::NothingSolved);
        }
        blossom.verify(tables, self.solution.grid_weight - tables.graph.used().weight)
    }

    /// The same; from the second pass where there was one.
    pub(crate) fn verify_pass(
        &self,
        tables: Tables<'_>,
        blossom: &Blossom,
        second: Option<&mut SecondPass>,
    ) -> Result<(), CertificateError> {
        match second.filter(|second| self.solved && second.applied()) {
            Some(second) => second.verify(tables, self.solution.grid_weight),
            None => self.verify(tables, blossom),
        }
    }

    /// Begins with what using every negative edge amounts to; `fill` adds the pairs.
    pub(crate) fn compose(&mut self, tables: Tables<'_>, fill: impl FnOnce(&mut ReadOut<'_>)) {
        let Tables { graph, metric } = tables;
        let Self { solution, places, search, .. } = self;
        solution.grid_weight = graph.used().weight;
        solution.observables.copy_from_slice(&graph.used().observables);
        fill(&mut ReadOut { graph, metric, solution, places, search });
        self.solution.weight = self.solution.grid_weight as f64 / 2.0 / graph.scale();
        self.solved = true;
    }

    /// Replaces the solution, which is of a first pass over these defects, by that of a second one.
    pub(crate) fn match_again(&mut self, tables: Tables<'_>, second: &mut SecondPass, defects: &[u32]) {
        self.correction(tables, None);
        let Self { solution, places, correction, .. } = self;
        second.run(tables, correction, defects, solution, places);
    }

    /// The edges of the solution, sorted; none without one. Its paths are those of the second pass where there was one.
    pub(crate) fn correction(&mut self, tables: Tables<'_>, second: Option<&SecondPass>) -> &[u32] {
        let Tables { graph, metric } = tables;
        let Self { solution, places, search, correction, .. } = self;
        correction.clear();
        if self.solved {
            for (&pair, &place) in solution.pairs.iter().zip(places.iter()) {
                match second {
                    Some(second) => second.walk(tables, place, |edge| correction.push(edge)),
                    None => walk(graph, metric, search, pair, place, |edge| correction.push(edge)),
                }
            }
            correction.extend_from_slice(&graph.used().edges);
            correction.sort_unstable();
            cancel_pairs(correction);
        }
        &self.correction
    }
}

/// Collects a solution pair by pair.
pub(crate) struct ReadOut<'a> {
    graph: &'a MatchingGraph,
    metric: &'a Metric,
    solution: &'a mut Solution,
    places: &'a mut Vec<PairPath>,
    search: &'a mut Search,
}

impl ReadOut<'_> {
    /// Adds every pair that the regions are matched in.
    pub(crate) fn regions(&mut self, blossom: &mut Blossom) {
        self.regions_of(blossom, |_| true);
    }

    /// Adds the pairs of those outermost regions that are `wanted`.
    pub(crate) fn regions_of(&mut self, blossom: &mut Blossom, wanted: impl Fn(u32) -> bool) {
        blossom.matching_of(wanted, |blossom, Link { from, to, pair }| {
            let a = blossom.node(from);
            if to == BOUNDARY {
                return self.boundary(a);
            }
            let (owner, position) = blossom.position(pair);
            self.pair(a, blossom.node(to), blossom.dist(pair), PairPath { owner, position });
        });
    }

    #[inline]
    pub(crate) fn boundary(&mut self, a: u32) {
        let info = &self.metric.nodes[a as usize];
        let pair = MatchedPair { a, b: None };
        self.add(pair, info.boundary, PairPath { owner: a, position: 0 }, Some(info.mask));
    }

    #[inline]
    pub(crate) fn pair(&mut self, a: u32, b: u32, dist: i64, place: PairPath) {
        let mask = (place.position != SEARCHED).then(|| self.metric.near.mask(place.position));
        self.add(MatchedPair { a, b: Some(b) }, dist, place, mask);
    }

    #[inline]
    fn add(&mut self, pair: MatchedPair, dist: i64, place: PairPath, mask: Option<u32>) {
        let Self { graph, metric, solution, places, search } = self;
        solution.pairs.push(pair);
        solution.grid_weight += dist;
        places.push(place);
        match (&metric.masks, mask) {
            (Some(masks), Some(mask)) => masks.xor_into(mask, &mut solution.observables),
            _ => walk(graph, metric, search, pair, place, |edge| {
                graph.edges()[edge as usize].flip(&mut solution.observables);
            }),
        }
    }
}

/// Calls `edge` with every edge on the path of a matched pair.
fn walk(
    graph: &MatchingGraph,
    metric: &Metric,
    search: &mut Search,
    pair: MatchedPair,
    place: PairPath,
    mut edge: impl FnMut(u32),
) {
    let Some(b) = pair.b else {
        return metric.way_out(pair.a).for_each(edge);
    };
    if place.position != SEARCHED {
        metric.near.path(place.owner, metric.nodes[place.owner as usize].rest, place.position).for_each(edge);
        return;
    }
    search.run(graph, pair.a, |v| if v.node == b { Flow::Stop } else { Flow::Expand });
    let mut at = b;
    while at != pair.a {
        let (before, step) = search.before(at);
        edge(step);
        at = before;
    }
}
