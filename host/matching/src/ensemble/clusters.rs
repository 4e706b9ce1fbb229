//! Matching synthesis: the cycles in which corrections differ, and the odds of the resulting classes.
//!
//! Two corrections of one syndrome differ in cycles. Each cycle may be taken from either correction, so a few corrections stand
//! for many. Cycles that no error links are independent, so the contribution of a cluster of linked cycles to each class's
//! likelihood is found from the cluster alone (C. Jones, arXiv:2408.12135).

use std::collections::HashSet;

use super::cover::Cover;
use super::errors::ErrorTable;
use crate::graph::MatchingGraph;
use crate::integers::IntegerState;

/// The most cycles of a cluster for which every subset is tried.
const ALL_SUBSETS: usize = 6;

/// The most observables that are decided together; with more, the likeliest correction decides.
const JOINT: usize = 6;

/// The most cycles of a cluster that are considered.
const MOST_CYCLES: usize = 48;

/// Marks no entry.
const NONE: u32 = u32::MAX;

/// A cycle: a range of edges.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    begin: u32,
    end: u32,
    /// Whether the cycle flips an observable.
    flips: bool,
}

/// The ends of an edge, and whether the edge flips an observable, side by side in memory.
#[derive(Debug, Clone, Copy)]
struct Ends {
    u: u32,
    /// `NONE` is the boundary.
    v: u32,
    /// Whether the edge flips any observable.
    observables: bool,
}

impl Ends {
    fn nodes(self) -> impl Iterator<Item = usize> {
        [self.u, self.v].into_iter().filter(|&node| node != NONE).map(|node| node as usize)
    }
}

/// The result of comparing corrections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Weighed {
    /// The number of edges of the largest cluster; 0 if the corrections are equal.
    pub(super) largest: usize,
    /// The natural logarithm of the odds that the answer is right.
    pub(super) confidence: f64,
}

/// Compares corrections, in working memory for one graph.
#[derive(Debug, Clone)]
pub(super) struct Clusters {
    cover: Cover,
    ends: Vec<Ends>,
    /// Per edge, whether the correction that others are compared with crosses it.
    crossed: Vec<bool>,
    /// Per edge, whether the current region contains it.
    region_has: Vec<bool>,
    region: Vec<u32>,
    /// Per edge and per node, a cycle that contains it.
    edge_owner: Vec<u32>,
    node_owner: Vec<u32>,
    difference: Vec<u32>,
    /// Per edge of the difference, another edge of its cycle, or the edge itself.
    joined: Vec<u32>,
    cycles: Vec<Cycle>,
    /// A hash of each cycle, to recognise it.
    digests: HashSet<u64, IntegerState>,
    edges: Vec<u32>,
    /// Per cycle, another cycle of its cluster, or the cycle itself.
    linked: Vec<u32>,
    /// Nodes of a forest, grouped by root.
    grouped: Vec<(u32, u32)>,
    /// The cycles of the current cluster.
    members: Vec<u32>,
    /// Per edge, whether the current subset contains it an odd number of times.
    toggled: Vec<bool>,
    set: Vec<u32>,
    seen: Vec<u64>,
    /// Words of observables: of the current cycle or subset, and of any cycle.
    flips: Vec<u64>,
    any: Vec<u64>,
    /// The observables that a cycle flips: pattern `i` flips those whose bit in `i` is set.
    involved: Vec<u32>,
    /// Subsets of the current cluster: words of observables, and weights.
    subset_flips: Vec<u64>,
    subset_weights: Vec<f64>,
    /// Per pattern, the probability that the answer has it: over the clusters so far, and for the current cluster.
    joint: Vec<f64>,
    cluster: Vec<f64>,
    /// The probability that the likeliest subset of every cluster is of the right class.
    likeliest: f64,
    /// The probability that any cluster is of another class than its likeliest subset.
    unlikely: f64,
    /// The subset of least cost.
    best: Vec<u32>,
}

impl Clusters {
    pub(super) fn new(graph: &MatchingGraph) -> Self {
        let (edges, nodes) = (graph.num_edges(), graph.num_detectors());
        Self {
            cover: Cover::new(edges),
            ends: graph
                .edges()
                .iter()
                .map(|edge| Ends {
                    u: edge.u,
                    v: edge.v.unwrap_or(NONE),
                    observables: !edge.observables.is_empty(),
                })
                .collect(),
            crossed: vec![false; edges],
            region_has: vec![false; edges],
            region: Vec::new(),
            edge_owner: vec![NONE; edges],
            node_owner: vec![NONE; nodes],
            difference: Vec::new(),
            joined: Vec::new(),
            cycles: Vec::new(),
            digests: HashSet::default(),
            edges: Vec::new(),
            linked: Vec::new(),
            grouped: Vec::new(),
            members: Vec::new(),
            toggled: vec![false; edges],
            set: Vec::new(),
            seen: Vec::new(),
            flips: vec![0; graph.observable_words()],
            any: vec![0; graph.observable_words()],
            involved: Vec::new(),
            subset_flips: Vec::new(),
            subset_weights: Vec::new(),
            joint: Vec::with_capacity(1 << JOINT),
            cluster: Vec::with_capacity(1 << JOINT),
            likeliest: 1.0,
            unlikely: 0.0,
            best: Vec::new(),
        }
    }

    /// Weighs a correction against others of the same syndrome, each a sorted list of edges. `observables` are those of the
    /// correction, and become those of the likeliest class; the correction becomes the likeliest one found.
    pub(super) fn weigh(
        &mut self,
        graph: &MatchingGraph,
        errors: &ErrorTable,
        correction: &mut Vec<u32>,
        others: &[Vec<u32>],
        observables: &mut [u64],
    ) -> Weighed {
        self.cycles.clear();
        self.digests.clear();
        self.edges.clear();
        self.any.fill(0);
        for other in others {
            self.find_cycles(graph, correction, other);
        }
        self.link(errors);
        self.involved.clear();
        crate::set_bits(&self.any, &mut self.involved);
        self.joint.clear();
        self.joint.resize(if self.involved.len() <= JOINT { 1 << self.involved.len() } else { 0 }, 0.0);
        if let Some(nothing) = self.joint.first_mut() {
            *nothing = 1.0;
        }
        (self.likeliest, self.unlikely) = (1.0, 0.0);
        correction.iter().for_each(|&edge| self.crossed[edge as usize] = true);
        let mut largest = 0;
        let clusters = group(&mut self.linked, std::mem::take(&mut self.grouped));
        for cluster in clusters.chunk_by(|a, b| a.0 == b.0) {
            largest = largest.max(self.cluster(graph, errors, cluster));
        }
        self.grouped = clusters;
        correction.iter().for_each(|&edge| self.crossed[edge as usize] = false);
        let (right, wrong) = self.decide(graph, observables);
        correction.append(&mut self.best);
        correction.sort_unstable();
        crate::bits::cancel_pairs(correction);
        Weighed { largest, confidence: (right / wrong).ln() }
    }

    /// Flips the observables of the likeliest pattern. Returns the probabilities that this is right, and wrong.
    fn decide(&mut self, graph: &MatchingGraph, observables: &mut [u64]) -> (f64, f64) {
        let mut best = 0;
        for (pattern, probability) in self.joint.iter().enumerate() {
            if *probability > self.joint[best] {
                best = pattern;
            }
        }
        for (at, &observable) in self.involved.iter().enumerate() {
            if best >> at & 1 == 1 {
                observables[observable as usize / 64] ^= 1 << (observable % 64);
            }
        }
        if let Some(&right) = self.joint.get(best) {
            // Summed on their own: one minus the probability would be rounding error where the answer is sure.
            let others = self.joint.iter().enumerate().filter(|&(pattern, _)| pattern != best);
            // From 0: an empty sum is -0, whose quotient has no logarithm.
            return (right, others.fold(0.0, |sum, (_, probability)| sum + probability));
        }
        self.best.iter().for_each(|&edge| graph.edges()[edge as usize].flip(observables));
        (self.likeliest, self.unlikely)
    }

    /// Adds each cycle in which two corrections differ, once.
    fn find_cycles(&mut self, graph: &MatchingGraph, a: &[u32], b: &[u32]) {
        let Self { difference, joined, node_owner, ends, .. } = self;
        difference.clear();
        difference.extend_from_slice(a);
        difference.extend_from_slice(b);
        difference.sort_unstable();
        crate::bits::cancel_pairs(difference);
        joined.clear();
        joined.extend(0..difference.len() as u32);
        for (at, &edge) in (0..).zip(difference.iter()) {
            for node in ends[edge as usize].nodes() {
                let owner = std::mem::replace(&mut node_owner[node], at);
                if owner != NONE {
                    join(joined, owner, at);
                }
            }
        }
        for &edge in difference.iter() {
            ends[edge as usize].nodes().for_each(|node| node_owner[node] = NONE);
        }
        let cycles = group(&mut self.joined, std::mem::take(&mut self.grouped));
        for cycle in cycles.chunk_by(|a, b| a.0 == b.0) {
            self.add_cycle(graph, cycle);
        }
        self.grouped = cycles;
    }

    /// Adds the cycle of these edges of the difference.
    fn add_cycle(&mut self, graph: &MatchingGraph, places: &[(u32, u32)]) {
        let begin = self.edges.len();
        let (mut digest, mut touched) = (0u64, false);
        for &(_, at) in places {
            let edge = self.difference[at as usize];
            digest = mixed(digest ^ u64::from(edge));
            self.edges.push(edge);
            if self.ends[edge as usize].observables {
                if !touched {
                    self.flips.fill(0);
                }
                touched = true;
                graph.edges()[edge as usize].flip(&mut self.flips);
            }
        }
        if !self.digests.insert(digest) {
            self.edges.truncate(begin);
            return;
        }
        let flips = touched && self.flips.iter().any(|&word| word != 0);
        if flips {
            self.any.iter_mut().zip(&self.flips).for_each(|(any, word)| *any |= word);
        }
        self.cycles.push(Cycle { begin: begin as u32, end: self.edges.len() as u32, flips });
    }

    /// Joins cycles that share an edge, a node or an error into clusters.
    fn link(&mut self, errors: &ErrorTable) {
        let Self { cycles, edges, linked, edge_owner, node_owner, ends, .. } = self;
        linked.clear();
        linked.extend(0..cycles.len() as u32);
        for at in 0..cycles.len() as u32 {
            let Cycle { begin, end, .. } = cycles[at as usize];
            for &edge in &edges[begin as usize..end as usize] {
                let owners =
                    ends[edge as usize].nodes().map(|node| std::mem::replace(&mut node_owner[node], at));
                for owner in owners.chain([std::mem::replace(&mut edge_owner[edge as usize], at)]) {
                    if owner != NONE {
                        join(linked, owner, at);
                    }
                }
            }
        }
        for at in 0..cycles.len() as u32 {
            let Cycle { begin, end, .. } = cycles[at as usize];
            for &edge in &edges[begin as usize..end as usize] {
                for part in errors.of(edge).iter().flat_map(|&error| errors.parts(error)) {
                    let owner = edge_owner[*part as usize];
                    if owner != NONE {
                        join(linked, owner, at);
                    }
                }
            }
        }
        for &edge in edges.iter() {
            edge_owner[edge as usize] = NONE;
            ends[edge as usize].nodes().for_each(|node| node_owner[node] = NONE);
        }
    }

    /// Enters the odds of the cluster of these cycles, and its likeliest subset. Returns the number of edges of its cycles.
    fn cluster(&mut self, graph: &MatchingGraph, errors: &ErrorTable, cycles: &[(u32, u32)]) -> usize {
        self.members.clear();
        let (mut size, mut flips) = (0, false);
        for &(_, at) in cycles {
            self.members.push(at);
            let cycle = self.cycles[at as usize];
            size += (cycle.end - cycle.begin) as usize;
            flips |= cycle.flips;
        }
        // All subsets of the cluster are of one class.
        if !flips {
            return size;
        }
        self.members.truncate(MOST_CYCLES);
        self.find_region(errors);
        self.region.iter().for_each(|&edge| self.toggled[edge as usize] = false);
        self.subset_flips.clear();
        self.subset_weights.clear();
        self.seen.clear();
        let base = self.cost(errors);
        let (mut least, mut best, mut likeliest) = (base, 0, 0);
        let count = self.members.len();
        for subset in subsets(count) {
            let Some(cost) = self.enter(graph, errors, subset, base) else { continue };
            if cost < least - 1e-9 {
                (least, best, likeliest) = (cost, subset, self.subset_weights.len() - 1);
            }
        }
        for (at, &member) in self.members.iter().enumerate() {
            if best >> at & 1 == 1 {
                let Cycle { begin, end, .. } = self.cycles[member as usize];
                self.best.extend_from_slice(&self.edges[begin as usize..end as usize]);
            }
        }
        // Costs become weights of at most 1, so no weight overflows.
        self.subset_weights.iter_mut().for_each(|cost| *cost = (least - *cost).exp());
        self.add_to_joint(likeliest);
        self.region.iter().for_each(|&edge| self.region_has[edge as usize] = false);
        size
    }

    /// Enters the probabilities of the cluster's patterns. `likeliest` is the cluster's subset of least cost.
    fn add_to_joint(&mut self, likeliest: usize) {
        let words = self.flips.len();
        let flips = |subset: usize| &self.subset_flips[subset * words..(subset + 1) * words];
        let all: f64 = self.subset_weights.iter().sum();
        let weights = || self.subset_weights.iter().enumerate();
        let same: f64 = weights()
            .filter(|(subset, _)| flips(*subset) == flips(likeliest))
            .map(|(_, weight)| weight)
            .sum();
        let other: f64 = weights()
            .filter(|(subset, _)| flips(*subset) != flips(likeliest))
            .map(|(_, weight)| weight)
            .sum();
        self.unlikely = self.unlikely * (same / all) + other / all;
        self.likeliest *= same / all;
        self.cluster.clear();
        self.cluster.resize(self.joint.len(), 0.0);
        if self.joint.is_empty() {
            return;
        }
        for (subset, weight) in weights() {
            let set = |&observable: &u32| flips(subset)[observable as usize / 64] >> (observable % 64) & 1;
            let pattern = (0..)
                .zip(&self.involved)
                .map(|(at, observable)| (set(observable) as usize) << at)
                .sum::<usize>();
            // The product with the clusters before, which are independent of this one.
            for (before, probability) in self.joint.iter().enumerate() {
                self.cluster[before ^ pattern] += probability * weight / all;
            }
        }
        std::mem::swap(&mut self.joint, &mut self.cluster);
    }

    /// Lists the edges of the cluster's cycles, and the correction's edges that errors link to them. The cycles' edges stay
    /// marked as toggled.
    fn find_region(&mut self, errors: &ErrorTable) {
        let Self { region, region_has, toggled, crossed, members, cycles, edges, .. } = self;
        region.clear();
        for &member in members.iter() {
            let Cycle { begin, end, .. } = cycles[member as usize];
            for &edge in &edges[begin as usize..end as usize] {
                if !std::mem::replace(&mut region_has[edge as usize], true) {
                    region.push(edge);
                    toggled[edge as usize] = true;
                }
            }
        }
        let mut next = 0;
        while let Some(&edge) = region.get(next) {
            next += 1;
            for &error in errors.of(edge) {
                let parts = errors.parts(error);
                if parts.iter().all(|&part| crossed[part as usize] || toggled[part as usize]) {
                    for &part in parts {
                        if !std::mem::replace(&mut region_has[part as usize], true) {
                            region.push(part);
                        }
                    }
                }
            }
        }
    }

    /// Enters one subset of the cluster's cycles. Returns its cost, or `None` if the subset equals an earlier one.
    fn enter(&mut self, graph: &MatchingGraph, errors: &ErrorTable, subset: u64, base: f64) -> Option<f64> {
        let (mut digest, mut cost) = (0u64, None);
        self.flips.fill(0);
        for at in 0..self.members.len() {
            if subset >> at & 1 == 1 {
                let Cycle { begin, end, .. } = self.cycles[self.members[at] as usize];
                for &edge in &self.edges[begin as usize..end as usize] {
                    self.toggled[edge as usize] ^= true;
                    graph.edges()[edge as usize].flip(&mut self.flips);
                }
            }
        }
        for &edge in &self.region {
            if self.toggled[edge as usize] {
                digest = mixed(digest ^ u64::from(edge));
            }
        }
        if !self.seen.contains(&digest) {
            self.seen.push(digest);
            let found = if subset == 0 { base } else { self.cost(errors) };
            cost = Some(found);
            self.subset_weights.push(found);
            self.subset_flips.extend_from_slice(&self.flips);
        }
        self.region.iter().for_each(|&edge| self.toggled[edge as usize] = false);
        cost
    }

    /// The cost of the edges crossed in the region, with the toggled edges inverted.
    fn cost(&mut self, errors: &ErrorTable) -> f64 {
        let Self { cover, set, region, crossed, toggled, .. } = self;
        set.clear();
        set.extend(region.iter().copied().filter(|&edge| crossed[edge as usize] != toggled[edge as usize]));
        cover.cost(errors, set)
    }
}

/// Subsets of `count` cycles: all of them for few cycles; else none, all, subsets of one and of two cycles, and all but one.
fn subsets(count: usize) -> impl Iterator<Item = u64> {
    let all = (1u64 << count) - 1;
    let few = 0..=if count <= ALL_SUBSETS { all } else { 0 };
    let more = if count <= ALL_SUBSETS { 0 } else { count };
    let ones = (0..more).flat_map(move |a| [1 << a, all ^ (1 << a)]);
    let twos = (0..more).flat_map(move |a| (0..a).map(move |b| 1 << a | 1 << b));
    few.chain((more > 0).then_some(all)).chain(ones).chain(twos)
}

/// The root of `at` in a forest of parents.
fn find(forest: &mut [u32], mut at: u32) -> u32 {
    while forest[at as usize] != at {
        forest[at as usize] = forest[forest[at as usize] as usize];
        at = forest[at as usize];
    }
    at
}

/// Every node of a forest with its root, sorted by root, in the memory of `list`.
fn group(forest: &mut [u32], mut list: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    list.clear();
    list.extend((0..forest.len() as u32).map(|at| (find(forest, at), at)));
    list.sort_unstable();
    list
}

/// Joins two nodes under one root, the smaller.
fn join(forest: &mut [u32], a: u32, b: u32) {
    let (a, b) = (find(forest, a), find(forest, b));
    forest[a.max(b) as usize] = a.min(b);
}

/// Every bit of the result depends on every bit of `value` (the finaliser of `SplitMix64`).
pub(super) fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
