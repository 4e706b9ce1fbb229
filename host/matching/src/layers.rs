//! Finding what repeats in a graph of rounds, and cutting windows out of it.

use crate::builder::{GraphBuilder, MergeStrategy};
use crate::error::{RoundsError, SlidingError};
use crate::graph::MatchingGraph;
use crate::rounds::MAX_ROUNDS;
use crate::weights::discretise;

/// An edge from a detector of one layer to the same or a later layer.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    /// Position in its layer.
    from: u32,
    /// How many layers later the other end is, and its position there; `None` is the boundary.
    to: Option<(u32, u32)>,
    weight: f64,
    observables: Vec<u32>,
}

/// The detectors of one round, in increasing order, and the edges that begin there.
#[derive(Debug, Clone, PartialEq)]
struct Layer {
    detectors: u32,
    steps: Vec<Step>,
}

impl Layer {
    fn same(&self, other: &Self) -> bool {
        // Sums of probabilities differ in their last digits between rounds that are physically the same.
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + a.abs());
        self.detectors == other.detectors
            && self.steps.len() == other.steps.len()
            && self.steps.iter().zip(&other.steps).all(|(a, b)| {
                (a.from, a.to) == (b.from, b.to)
                    && a.observables == b.observables
                    && close(a.weight, b.weight)
            })
    }
}

/// A graph that can be made as long as is wished: a head, a layer that repeats, a tail.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    head: Vec<Layer>,
    bulk: Layer,
    tail: Vec<Layer>,
    observables: usize,
    /// How many rounds apart the ends of an edge are, at most.
    reach: usize,
    /// The grid of weights of the graph: that of every window.
    scale: f64,
}

/// What the edges are that lead on from the last layer of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Edges to the boundary.
    Boundary,
    /// Left out: what is behind the end is a frontier.
    Frontier,
}

impl Layers {
    pub(crate) fn new(graph: &MatchingGraph, rounds: &[u32]) -> Result<Self, SlidingError> {
        let n = graph.num_detectors();
        if rounds.len() != n {
            return Err(RoundsError::Length { found: rounds.len(), expected: n }.into());
        }
        let count = rounds.iter().max().map_or(0, |&last| last as usize + 1);
        if count > MAX_ROUNDS {
            return Err(RoundsError::TooMany { rounds: count, detectors: n }.into());
        }
        if graph.edges().iter().any(|edge| edge.weight < 0.0) {
            return Err(SlidingError::Negative);
        }
        let mut layers = vec![Layer { detectors: 0, steps: Vec::new() }; count];
        let position: Vec<u32> = rounds
            .iter()
            .map(|&round| {
                let layer = &mut layers[round as usize];
                layer.detectors += 1;
                layer.detectors - 1
            })
            .collect();
        let mut reach = 0u32;
        for edge in graph.edges() {
            let key = |node: u32| (rounds[node as usize], position[node as usize]);
            let (from, to) = match edge.v.map(key) {
                None => (key(edge.u), None),
                Some(v) => {
                    let (a, b) = (key(edge.u).min(v), key(edge.u).max(v));
                    reach = reach.max(b.0 - a.0);
                    (a, Some((b.0 - a.0, b.1)))
                }
            };
            let (weight, observables) = (edge.weight, edge.observables.clone());
            layers[from.0 as usize].steps.push(Step { from: from.1, to, weight, observables });
        }
        for layer in &mut layers {
            layer.steps.sort_by_key(|step| (step.from, step.to));
        }
        // The longest run of equal layers whose edges end in layers of the same size.
        let sized = |at: usize| {
            let detectors = layers[at].detectors;
            detectors > 0
                && (0..=reach as usize).all(|k| layers.get(at + k).is_some_and(|l| l.detectors == detectors))
        };
        let (mut best, mut start) = (0..0, 0);
        for at in 0..count {
            if !sized(at) {
                start = at + 1;
            } else if at > start && !layers[at].same(&layers[start]) {
                start = at;
            }
            if at + 1 > start && at + 1 - start > best.len() {
                best = start..at + 1;
            }
        }
        if best.len() < 2 {
            return Err(SlidingError::NotPeriodic);
        }
        let tail = layers.split_off(best.end);
        let bulk = layers[best.start].clone();
        layers.truncate(best.start);
        Ok(Self {
            head: layers,
            bulk,
            tail,
            observables: graph.num_observables(),
            reach: reach as usize,
            scale: graph.scale(),
        })
    }

    pub(crate) fn reach(&self) -> usize {
        self.reach
    }

    /// The most detectors of a round.
    pub(crate) fn most_detectors(&self) -> usize {
        let all = self.head.iter().chain([&self.bulk]).chain(&self.tail);
        all.map(|layer| layer.detectors as usize).max().unwrap_or(0)
    }

    pub(crate) fn head(&self) -> usize {
        self.head.len()
    }

    pub(crate) fn tail(&self) -> usize {
        self.tail.len()
    }

    /// How many detectors round `t` of an endless run has.
    pub(crate) fn detectors(&self, t: usize) -> u32 {
        self.head.get(t).unwrap_or(&self.bulk).detectors
    }

    /// Refuses the last rounds of a run of which `given` rounds came before, if they are not those of the tail or the run is shorter
    /// than `least` rounds.
    pub(crate) fn check_tail(&self, tail: &[&[u32]], given: usize, least: usize) -> Result<(), SlidingError> {
        let expected = self.tail.len();
        if tail.len() != expected {
            return Err(SlidingError::Tail { found: tail.len(), expected });
        }
        let rounds = given + expected;
        if rounds < least {
            return Err(SlidingError::TooShort { rounds, least });
        }
        tail.iter()
            .zip(&self.tail)
            .enumerate()
            .try_for_each(|(t, (defects, layer))| check(defects, layer.detectors, given + t))
    }

    /// The least weight, on the grid, that an edge has for each round that it leads on; `None` where none does.
    pub(crate) fn step(&self) -> Option<i64> {
        let steps = self.head.iter().chain([&self.bulk]).chain(&self.tail).flat_map(|layer| &layer.steps);
        let leads_on = steps.filter_map(|step| step.to.filter(|to| to.0 > 0).map(|to| (step.weight, to.0)));
        leads_on.map(|(weight, rounds)| discretise(weight, self.scale) / i64::from(rounds)).min()
    }

    /// The graph of `length` layers from layer `start` of an endless run. What comes from before is left out.
    pub(crate) fn window(&self, start: usize, length: usize, end: End) -> Result<Window, SlidingError> {
        let layers = (start..start + length).map(|t| self.head.get(t).unwrap_or(&self.bulk));
        Window::new(&layers.collect::<Vec<_>>(), self, end)
    }

    /// The graph of `length` repeating layers and the tail.
    pub(crate) fn last_window(&self, length: usize) -> Result<Window, SlidingError> {
        let layers = std::iter::repeat_n(&self.bulk, length).chain(&self.tail);
        Window::new(&layers.collect::<Vec<_>>(), self, End::Boundary)
    }
}

/// A piece of the run, as its own graph.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) graph: MatchingGraph,
    /// Where each layer's detectors begin; one more at the end.
    pub(crate) bases: Vec<u32>,
    /// The layer of each detector.
    pub(crate) layer_of: Vec<u32>,
}

impl Window {
    fn new(layers: &[&Layer], run: &Layers, end: End) -> Result<Self, SlidingError> {
        let mut bases = vec![0];
        let mut layer_of = Vec::new();
        for (l, layer) in layers.iter().enumerate() {
            layer_of.extend(std::iter::repeat_n(l as u32, layer.detectors as usize));
            bases.push(layer_of.len() as u32);
        }
        let mut builder = GraphBuilder::new();
        builder.ensure_detectors(layer_of.len()).ensure_observables(run.observables).scale(run.scale);
        for (l, layer) in layers.iter().enumerate() {
            for step in &layer.steps {
                let leads_past = step.to.is_some_and(|(later, _)| l + later as usize >= layers.len());
                if leads_past && end == End::Frontier {
                    continue;
                }
                let inside = step.to.filter(|&(later, _)| l + (later as usize) < layers.len());
                let to = inside.map(|(later, position)| bases[l + later as usize] + position);
                builder.merge_edge(
                    bases[l] + step.from,
                    to,
                    step.weight,
                    &step.observables,
                    None,
                    MergeStrategy::SmallestWeight,
                )?;
            }
        }
        Ok(Self { graph: builder.build()?, bases, layer_of })
    }
}

/// Refuses defects that are not strictly increasing positions among the detectors of a round.
pub(crate) fn check(defects: &[u32], detectors: u32, round: usize) -> Result<(), SlidingError> {
    let sorted = defects.is_sorted_by(|a, b| a < b);
    match defects.last() {
        Some(&last) if !sorted || last >= detectors => Err(SlidingError::Defect { round, detectors }),
        _ => Ok(()),
    }
}
