//! Turning matched pairs into observables, weights and edges.

use crate::bits::cancel_pairs;
use crate::blossom::flood::{Flood, is_labelled};
use crate::blossom::{BOUNDARY, Blossom, SEARCHED, Tables};
use crate::correlated::SecondPass;
use crate::graph::MatchingGraph;
use crate::metric::search::Search;
use crate::pair_path::PairPath;
use crate::paths::walk;
use crate::solution::{CertificateError, MatchedPair, Solution};

/// A solution, and where the paths of its pairs are recorded.
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

    /// Memory for answers on graphs of up to `n` nodes and `edges` edges.
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

    /// Proves the solution to be of minimum weight, from the regions that it was read from, or others of equal weight.
    pub(crate) fn verify(&self, tables: Tables<'_>, blossom: &Blossom) -> Result<(), CertificateError> {
        if !self.solved {
            return Err(CertificateError::NothingSolved);
        }
        blossom.verify(tables, self.solution.grid_weight - tables.graph.used().weight)
    }

    /// As [`verify`](Self::verify); for the second pass if there was one.
    pub(crate) fn verify_pass(
        &self,
        tables: Tables<'_>,
        blossom: &Blossom,
        second: Option<&SecondPass>,
    ) -> Result<(), CertificateError> {
        match second.filter(|second| self.solved && second.applied()) {
            Some(second) => {
                let lowered = second.changed_graph(tables.graph);
                self.verify(Tables { graph: &lowered, ..tables }, blossom)
            }
            None => self.verify(tables, blossom),
        }
    }

    /// Starts from the effect of all negative edges; `fill` adds the pairs.
    pub(crate) fn compose(&mut self, tables: Tables<'_>, fill: impl FnOnce(&mut ReadOut<'_>)) {
        self.compose_on(tables, None, fill);
    }

    fn compose_on(&mut self, tables: Tables<'_>, flood: Option<&Flood>, fill: impl FnOnce(&mut ReadOut<'_>)) {
        let Tables { graph, .. } = tables;
        let Self { solution, places, search, .. } = self;
        solution.grid_weight = graph.used().weight;
        solution.observables.copy_from_slice(&graph.used().observables);
        fill(&mut ReadOut { tables, flood, solution, places, search });
        self.solution.weight = self.solution.grid_weight as f64 / 2.0 / graph.scale();
        self.solved = true;
    }

    /// Reads the solution from a state at rest. With a second pass, runs the pass on the state and reads its solution.
    pub(crate) fn read(
        &mut self,
        tables: Tables<'_>,
        blossom: &mut Blossom,
        second: Option<&mut SecondPass>,
    ) {
        let flood = second.and_then(|second| second.run(tables, blossom, &mut self.search));
        self.compose_on(tables, flood, |out| out.regions(blossom));
    }

    /// As [`read`](Self::read) with a second pass, until `expired`. Returns false then, and the solution is the first pass's.
    pub(crate) fn read_until(
        &mut self,
        tables: Tables<'_>,
        blossom: &mut Blossom,
        second: &mut SecondPass,
        expired: &mut impl FnMut() -> bool,
    ) -> bool {
        // A second pass overwrites the first pass's state.
        self.compose(tables, |out| out.regions(blossom));
        if expired() {
            second.skip();
            return false;
        }
        if !second.run_until(tables, blossom, &mut self.search, expired) {
            return false;
        }
        if let Some(flood) = second.changed() {
            self.clear();
            self.compose_on(tables, Some(flood), |out| out.regions(blossom));
        }
        true
    }

    /// Solves with other weights, as [`SecondPass::run_with`], and reads the solution.
    pub(crate) fn solve_with(
        &mut self,
        tables: Tables<'_>,
        blossom: &mut Blossom,
        second: &mut SecondPass,
        nodes: &[u32],
        weights: impl Iterator<Item = (u32, u32)>,
    ) {
        let flood = second.run_with(tables, blossom, &mut self.search, nodes, weights);
        self.compose_on(tables, flood, |out| out.regions(blossom));
    }

    /// Flips the observables of the solution's `wanted` pairs in `observables`, and returns their grid weight: that of the second
    /// pass if there was one.
    pub(crate) fn part(
        &mut self,
        tables: Tables<'_>,
        second: Option<&SecondPass>,
        wanted: impl Fn(MatchedPair) -> bool,
        observables: &mut [u64],
    ) -> i64 {
        let Self { solution, places, search, .. } = self;
        let flood = second.map(SecondPass::flood);
        let mut weight = 0;
        for (&pair, &place) in solution.pairs.iter().zip(places.iter()).filter(|(pair, _)| wanted(**pair)) {
            walk(tables, search, flood, pair, place, |edge| {
                tables.graph.edges()[edge as usize].flip(observables);
                weight +=
                    flood.map_or_else(|| tables.graph.grid_weight(edge as usize), |flood| flood.weight(edge));
            });
        }
        weight
    }

    /// The edges of the solution, sorted; empty without a solution. Paths are those of the second pass if there was one.
    pub(crate) fn correction(&mut self, tables: Tables<'_>, second: Option<&SecondPass>) -> &[u32] {
        let Self { solution, places, search, correction, .. } = self;
        correction.clear();
        if self.solved {
            for (&pair, &place) in solution.pairs.iter().zip(places.iter()) {
                let flood = second.map(SecondPass::flood);
                walk(tables, search, flood, pair, place, |edge| correction.push(edge));
            }
            correction.extend_from_slice(&tables.graph.used().edges);
            correction.sort_unstable();
            cancel_pairs(correction);
        }
        &self.correction
    }
}

/// Collects a solution pair by pair.
pub(crate) struct ReadOut<'a> {
    tables: Tables<'a>,
    /// The paths of pairs that a second pass found.
    flood: Option<&'a Flood>,
    solution: &'a mut Solution,
    places: &'a mut Vec<PairPath>,
    search: &'a mut Search,
}

impl ReadOut<'_> {
    /// Adds every pair of matched regions outside silent parts.
    pub(crate) fn regions(&mut self, blossom: &mut Blossom) {
        self.regions_of(blossom, |_| true);
    }

    /// Adds the pairs of the `wanted` outermost regions outside silent parts.
    pub(crate) fn regions_of(&mut self, blossom: &mut Blossom, wanted: impl Fn(u32) -> bool) {
        let speaks = |blossom: &Blossom, i: u32| !blossom.is_silent(i) && wanted(blossom.outermost(i));
        blossom.matching_of(speaks, |blossom, link| {
            let a = blossom.node(link.from);
            let place = blossom.place(link, self.flood);
            if link.to == BOUNDARY {
                let mask = (!is_labelled(place.position)).then(|| self.tables.metric.nodes[a as usize].mask);
                let dist = blossom.to_boundary(link.from);
                return self.add(MatchedPair { a, b: None }, dist, place, mask);
            }
            self.pair(a, blossom.node(link.to), blossom.dist(link.pair), place);
        });
    }

    #[inline]
    pub(crate) fn boundary(&mut self, a: u32) {
        let info = &self.tables.metric.nodes[a as usize];
        let pair = MatchedPair { a, b: None };
        self.add(pair, info.boundary, PairPath { owner: a, position: 0 }, Some(info.mask));
    }

    #[inline]
    pub(crate) fn pair(&mut self, a: u32, b: u32, dist: i64, place: PairPath) {
        let listed = place.position != SEARCHED && !is_labelled(place.position);
        let mask = listed.then(|| self.tables.metric.near.mask(place.position));
        self.add(MatchedPair { a, b: Some(b) }, dist, place, mask);
    }

    #[inline]
    fn add(&mut self, pair: MatchedPair, dist: i64, place: PairPath, mask: Option<u32>) {
        let Self { tables, flood, solution, places, search } = self;
        solution.pairs.push(pair);
        solution.grid_weight += dist;
        places.push(place);
        match (&tables.metric.masks, mask) {
            (Some(masks), Some(mask)) => masks.xor_into(mask, &mut solution.observables),
            _ => walk(*tables, search, *flood, pair, place, |edge| {
                tables.graph.edges()[edge as usize].flip(&mut solution.observables);
            }),
        }
    }
}
