//! Matching synthesis: the cycles in which corrections differ, and the odds of the classes that they lead to.
//!
//! Two corrections of one syndrome differ in cycles. Each cycle may be taken from either correction, so a few corrections stand for many.
//! Cycles that no error links are independent of each other: what a cluster of linked cycles adds to the likelihood of each class is
//! found for the cluster alone (C. Jones, arXiv:2408.12135).

use std::collections::HashSet;

use super::cover::Cover;
use super::errors::ErrorTable;
use crate::graph::MatchingGraph;
use crate::integers::IntegerState;

/// The most cycles of a cluster whose every subset is looked at.
const ALL_SUBSETS: usize = 6;

/// The most observables that are decided together: more, and the likeliest correction decides.
const JOINT: usize = 6;

/// The most cycles of a cluster that are looked at.
const MOST_CYCLES: usize = 48;

/// No entry.
const NONE: u32 = u32::MAX;

/// A cycle: where its edges lie.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    begin: u32,
    end: u32,
    /// Whether it flips an observable.
    flips: bool,
}

/// The ends of an edge, and whether it flips an observable, in one place.
#[derive(Debug, Clone, Copy)]
struct Ends {
    u: u32,
    /// `NONE` is the boundary.
    v: u32,
    /// Whether it flips any.
    observables: bool,
}

impl Ends {
    fn nodes(self) -> impl Iterator<Item = usize> {
        [self.u, self.v].into_iter().filter(|&node| node != NONE).map(|node| node as usize)
    }
}

/// What comparing corrections showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Weighed {
    /// The edges of the largest cluster; 0 where the corrections are one.
    pub(super) largest: usize,
    /// The natural logarithm of the odds that the answer is right.
    pub(super) confidence: f64,
}

/// Compares corrections. It keeps room for one graph.
#[derive(Debug, Clone)]
pub(super) struct Clusters {
    cover: Cover,
    ends: Vec<Ends>,
    /// Per edge, whether the correction that others are compared with crosses it.
    crossed: Vec<bool>,
    /// Per edge, whether it is in the region at hand.
    region_has: Vec<bool>,
    region: Vec<u32>,
    /// Per edge and per node, a cycle that has it.
    edge_owner: Vec<u32>,
    node_owner: Vec<u32>,
    difference: Vec<u32>,
    /// Per edge of the difference, another edge of its cycle, or itself.
    joined: Vec<u32>,
    cycles: Vec<Cycle>,
    /// One number for each cycle, by which it is known again.
    digests: HashSet<u64, IntegerState>,
    edges: Vec<u32>,
    /// Per cycle, another one of its cluster, or itself.
    linked: Vec<u32>,
    /// Nodes of a forest, each after its root.
    grouped: Vec<(u32, u32)>,
    /// The cycles of the cluster at hand.
    members: Vec<u32>,
    /// Per edge, whether the subset at hand takes it an odd number of times.
    toggled: Vec<bool>,
    set: Vec<u32>,
    seen: Vec<u64>,
    /// Words of observables: of the cycle or the subset at hand, of any cycle.
    flips: Vec<u64>,
    any: Vec<u64>,
    /// The observables that a cycle flips: pattern `i` flips those whose bit in `i` is set.
    involved: Vec<u32>,
    /// Of the subsets of the cluster at hand: words of observables, and weights.
    subset_flips: Vec<u64>,
    subset_weights: Vec<f64>,
    /// Per pattern, the probability that the answer has it: of the clusters so far, and of the cluster at hand.
    joint: Vec<f64>,
    cluster: Vec<f64>,
    /// The probability that the likeliest subset of every cluster is of the right class.
    likeliest: f64,
    /// The probability that any cluster is of another class than its likeliest subset.
    unlikely: f64,
    /// The subset that costs the least.
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

    /// Weighs a correction against others of the same syndrome, each a sorted list of edges. The observables of the likeliest class are
    /// left in `observables`, which are those of the correction, and the correction becomes the likeliest one found.
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

    /// Flips what the likeliest pattern flips; returns the probabilities that this is right, and wrong.
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
            // Summed by themselves: one less the probability would be nothing but rounding where the answer is sure.
            let others = self.joint.iter().enumerate().filter(|&(pattern, _)| pattern != best);
            // From 0: the sum of no numbers is -0, whose quotient has no logarithm.
            return (right, others.fold(0.0, |sum, (_, probability)| sum + probability));
        }
        self.best.iter().for_each(|&edge| graph.edges()[edge as usize].flip(observables));
        (self.likeliest, self.unlikely)
    }

    /// Adds the cycles in which two corrections differ, each cycle once.
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

    /// Joins cycles that share an edge, a node or an error to clusters.
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

    /// Enters the odds of the cluster of these cycles, and its likeliest subset; returns how many edges its cycles have.
    fn cluster(&mut self, graph: &MatchingGraph, errors: &ErrorTable, cycles: &[(u32, u32)]) -> usize {
        self.members.clear();
        let (mut size, mut flips) = (0, false);
        for &(_, at) in cycles {
            self.members.push(at);
            let cycle = self.cycles[at as usize];
            size += (cycle.end - cycle.begin) as usize;
            flips |= cycle.flips;
        }
        // No subset of it is of another class.
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
        // Costs become weights, the least of which is 1: none overflows.
        self.subset_weights.iter_mut().for_each(|cost| *cost = (least - *cost).exp());
        self.add_to_joint(likeliest);
        self.region.iter().for_each(|&edge| self.region_has[edge as usize] = false);
        size
    }

    /// Enters the probabilities of the cluster's patterns, of whose subsets `likeliest` costs the least.
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
            // Both of this cluster and of those before, which are independent of it.
            for (before, probability) in self.joint.iter().enumerate() {
                self.cluster[before ^ pattern] += probability * weight / all;
            }
        }
        std::mem::swap(&mut self.joint, &mut self.cluster);
    }

    /// Lists the edges of the cluster's cycles, and those of the correction that hang together with them. Those of the cycles are left
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

    /// Enters one subset of the cluster's cycles, and returns its cost; `None` where it is the same as an earlier one.
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

    /// The cost of the edges crossed in the region, toggled edges the other way round.
    fn cost(&mut self, errors: &ErrorTable) -> f64 {
        let Self { cover, set, region, crossed, toggled, .. } = self;
        set.clear();
        set.extend(region.iter().copied().filter(|&edge| crossed[edge as usize] != toggled[edge as usize]));
        cover.cost(errors, set)
    }
}

/// Subsets of so many cycles: all of few; else none, all, and subsets of one cycle, of two, and of all but one.
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

/// Every node of a forest with its root, in the order of roots, in the room of `list`.
fn group(forest: &mut [u32], mut list: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    list.clear();
    list.extend((0..forest.len() as u32).map(|at| (find(forest, at), at)));
    list.sort_unstable();
    list
}

/// Puts two nodes below one root: the smaller.
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
