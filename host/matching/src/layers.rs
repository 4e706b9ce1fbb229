//! Finding the repeating rounds of a graph, and cutting windows out of them.

use std::collections::HashMap;

use crate::builder::{GraphBuilder, MergeStrategy};
use crate::correlated::rules::Rule;
use crate::error::{RoundsError, SlidingError};
use crate::graph::MatchingGraph;
use crate::integers::IntegerState;
use crate::rounds::MAX_ROUNDS;
use crate::weights::discretise;

/// An edge from a detector of one layer to the same or a later layer.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    /// Position in the step's layer.
    from: u32,
    /// The layer of the other end, relative to the step's, and its position there; `None` is the boundary.
    to: Option<(u32, u32)>,
    weight: f64,
    observables: Vec<u32>,
    /// How crossing the step affects other edges; empty unless correlations were asked for.
    rules: Vec<StepRule>,
}

/// Another edge that becomes lighter when a step is crossed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StepRule {
    /// The layer in which the edge begins, relative to the step's; other fields as in [`Step`].
    later: i32,
    from: u32,
    to: Option<(u32, u32)>,
    /// The edge's weight then, on the grid.
    weight: u32,
}

/// The detectors of one round, in increasing order, and the edges that begin there.
#[derive(Debug, Clone, PartialEq)]
struct Layer {
    detectors: u32,
    steps: Vec<Step>,
}

impl Layer {
    fn same(&self, other: &Self) -> bool {
        // Sums of probabilities differ in their last digits between rounds that are physically equal.
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

/// A graph of any length: a head, a repeating layer, a tail.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    head: Vec<Layer>,
    bulk: Layer,
    tail: Vec<Layer>,
    observables: usize,
    /// The most rounds between the ends of an edge.
    reach: usize,
    /// The grid of weights of the graph, which every window uses.
    scale: f64,
}

/// What becomes of edges that lead out of a window's last layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// They lead to the boundary.
    Boundary,
    /// They are left out: later layers are a frontier.
    Frontier,
}

impl Layers {
    /// The layers of a short run, whose detector `i` belongs to round `rounds[i]`; if `correlated`, with the graph's correlations in the
    /// windows.
    pub(crate) fn of(graph: &MatchingGraph, rounds: &[u32], correlated: bool) -> Result<Self, SlidingError> {
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
        let mut places = Vec::with_capacity(graph.num_edges());
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
            places.push((from, to));
            let (weight, observables) = (edge.weight, edge.observables.clone());
            let step = Step { from: from.1, to, weight, observables, rules: Vec::new() };
            layers[from.0 as usize].steps.push(step);
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
        if correlated {
            add_rules(graph, &places, &mut layers);
        }
        // Rules in the middle of the run lead only to layers that repeat.
        let middle = best.start + best.len() / 2;
        let rules: Vec<_> = layers[middle].steps.iter().map(|step| step.rules.clone()).collect();
        for (step, rules) in layers[best.start].steps.iter_mut().zip(rules) {
            step.rules = rules;
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

    /// The number of detectors of round `t` of an endless run.
    pub(crate) fn detectors(&self, t: usize) -> u32 {
        self.head.get(t).unwrap_or(&self.bulk).detectors
    }

    /// Checks the last rounds of a run that had `given` rounds before: there must be as many as in the tail, and the run must
    /// have at least `least` rounds.
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

    /// The least grid weight of an edge per round that the edge spans; `None` if no edge spans rounds.
    pub(crate) fn step(&self) -> Option<i64> {
        let steps = self.head.iter().chain([&self.bulk]).chain(&self.tail).flat_map(|layer| &layer.steps);
        let leads_on = steps.filter_map(|step| step.to.filter(|to| to.0 > 0).map(|to| (step.weight, to.0)));
        leads_on.map(|(weight, rounds)| discretise(weight, self.scale) / i64::from(rounds)).min()
    }

    /// The graph of `length` layers from layer `start` of an endless run, without edges from earlier layers.
    pub(crate) fn window(&self, start: usize, length: usize, end: End) -> Result<Window, SlidingError> {
        let layers = (start..start + length).map(|t| self.head.get(t).unwrap_or(&self.bulk));
        Window::new(&layers.collect::<Vec<_>>(), self, None, end)
    }

    /// The graph of `length` repeating layers, and of the tail if it is the `last` window, in which edges that lead in or out lead to the
    /// boundary.
    pub(crate) fn cut_window(&self, length: usize, last: bool) -> Result<Window, SlidingError> {
        let tail = if last { &self.tail[..] } else { &[] };
        let layers = std::iter::repeat_n(&self.bulk, length).chain(tail);
        Window::new(&layers.collect::<Vec<_>>(), self, Some(&self.bulk), End::Boundary)
    }

    /// The graph of the head, `length` repeating layers and the tail.
    pub(crate) fn whole(&self, length: usize) -> Result<Window, SlidingError> {
        let layers = self.head.iter().chain(std::iter::repeat_n(&self.bulk, length)).chain(&self.tail);
        Window::new(&layers.collect::<Vec<_>>(), self, None, End::Boundary)
    }

    /// The graph of `length` repeating layers and the tail.
    pub(crate) fn last_window(&self, length: usize) -> Result<Window, SlidingError> {
        let layers = std::iter::repeat_n(&self.bulk, length).chain(&self.tail);
        Window::new(&layers.collect::<Vec<_>>(), self, None, End::Boundary)
    }
}

/// An edge: the layer and the position of its earlier end, and its other end as in [`Step`].
type Place = ((u32, u32), Option<(u32, u32)>);

/// Gives the sorted steps of all layers the rules of the graph's edges, whose places are `places`.
fn add_rules(graph: &MatchingGraph, places: &[Place], layers: &mut [Layer]) {
    for (edge, &((layer, from), to)) in (0..).zip(places) {
        let steps = &mut layers[layer as usize].steps;
        let Ok(at) = steps.binary_search_by_key(&(from, to), |step| (step.from, step.to)) else { continue };
        let rule = |rule: &Rule| {
            let ((other, from), to) = places[rule.edge as usize];
            StepRule { later: other as i32 - layer as i32, from, to, weight: rule.weight }
        };
        steps[at].rules = graph.rules().of(edge).iter().map(rule).collect();
    }
}

/// A section of the run, as a graph of its own.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) graph: MatchingGraph,
    /// Where each layer's detectors begin, with one more entry at the end.
    pub(crate) bases: Vec<u32>,
    /// The layer of each detector.
    pub(crate) layer_of: Vec<u32>,
}

impl Window {
    /// Edges from layers before it, which are all like `before`, lead to the boundary; without one there are none.
    fn new(layers: &[&Layer], run: &Layers, before: Option<&Layer>, end: End) -> Result<Self, SlidingError> {
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
        for step in before.iter().flat_map(|layer| &layer.steps) {
            let Some((later, position)) = step.to else { continue };
            for l in (0..later as usize).filter(|&l| l < layers.len()) {
                let (weight, observables) = (step.weight, &step.observables);
                builder.merge_edge(
                    bases[l] + position,
                    None,
                    weight,
                    observables,
                    None,
                    MergeStrategy::SmallestWeight,
                )?;
            }
        }
        let mut graph = builder.build()?;
        if layers.iter().any(|layer| layer.steps.iter().any(|step| !step.rules.is_empty())) {
            let rules = rules(layers, &bases, &graph);
            graph = graph.with_rules(rules);
        }
        Ok(Self { graph, bases, layer_of })
    }
}

/// The rules between edges that lie wholly within a window.
fn rules(layers: &[&Layer], bases: &[u32], graph: &MatchingGraph) -> Vec<(u32, Rule)> {
    let ends = |u: u32, v: Option<u32>| (v.map_or(u, |v| u.min(v)), v.map(|v| u.max(v)));
    let edges: HashMap<_, u32, IntegerState> =
        graph.edges().iter().zip(0..).map(|(edge, index)| (ends(edge.u, edge.v), index)).collect();
    let edge_at = |l: usize, from: u32, to: Option<(u32, u32)>| {
        let other = |(later, position): (u32, u32)| Some(bases.get(l + later as usize)? + position);
        let v = match to {
            None => None,
            Some(to) if l + (to.0 as usize) < layers.len() => Some(other(to)?),
            Some(_) => return None,
        };
        edges.get(&ends(bases[l] + from, v)).copied()
    };
    let mut out = Vec::new();
    for (l, layer) in layers.iter().enumerate() {
        for step in &layer.steps {
            let Some(given) = edge_at(l, step.from, step.to) else { continue };
            for &StepRule { later, from, to, weight } in &step.rules {
                let other = l.checked_add_signed(later as isize).filter(|&other| other < layers.len());
                if let Some(edge) = other.and_then(|other| edge_at(other, from, to)) {
                    out.push((given, Rule { edge, weight }));
                }
            }
        }
    }
    out.sort_unstable_by_key(|&(given, rule)| (given, rule.edge));
    out
}

/// Checks that defects are strictly increasing positions among the detectors of a round.
pub(crate) fn check(defects: &[u32], detectors: u32, round: usize) -> Result<(), SlidingError> {
    let sorted = defects.is_sorted_by(|a, b| a < b);
    match defects.last() {
        Some(&last) if !sorted || last >= detectors => Err(SlidingError::Defect { round, detectors }),
        _ => Ok(()),
    }
}
