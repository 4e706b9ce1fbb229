//! Errors as edges of a matching graph: which errors an edge stands for, and what it weighs.
//!
//! Probabilities are *folded* here: an error that is likelier than not counts as one that has happened, and is undone with the
//! probability that is left. So no weight is negative.

use crate::hypergraph::Hypergraph;
use crate::loss::odd;
use crate::rows::Rows;
use crate::split::{Ends, split};
use crate::{Config, Hyperedges};
use std::collections::HashMap;

/// What a part of a split costs beside its weight: more than twelve of the largest weights.
const PART: f64 = 1e4;
/// What a part costs that cannot happen by itself: more than twelve others.
const CLOSED_PART: f64 = 1e6;

/// An error that is an edge by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    error: u32,
    /// Errors of one class flip the same observables: which of them happened makes no difference.
    class: u32,
}

/// What an edge amounts to, on the probabilities of the moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weighed {
    /// That an odd number of its errors happened: at most 1/2. 0: none of them can happen.
    pub(crate) probability: f64,
    /// The error that answers name for it.
    pub(crate) error: u32,
}

impl Weighed {
    /// Its weight; infinite where the edge is closed.
    pub(crate) fn weight(&self) -> f64 {
        ((1.0 - self.probability) / self.probability).ln()
    }
}

/// The edges of a hypergraph's errors.
#[derive(Debug)]
pub(crate) struct Edges {
    ends: Vec<Ends>,
    /// Per edge: the errors that are this edge, class by class.
    own: Rows<Own>,
    /// Per edge: the errors of which it is a part.
    whole: Rows<u32>,
    /// Per error: the edges that it crosses. None where it flips no detector or was left out.
    crossed: Rows<u32>,
}

impl Edges {
    /// The edges, from errors with these folded probabilities.
    pub(crate) fn new(graph: &Hypergraph<'_>, folded: &[f64], config: &Config) -> Self {
        let mut index: HashMap<Ends, u32> = HashMap::new();
        let mut ends = Vec::new();
        let mut own: Vec<Vec<u32>> = Vec::new();
        let mut crossed = vec![Vec::new(); folded.len()];
        for (error, crossed) in crossed.iter_mut().enumerate() {
            let at = match *graph.members(error) {
                [u] => (u as u32, None),
                [u, v] => (u.min(v) as u32, Some(u.max(v) as u32)),
                _ => continue,
            };
            let edge = *index.entry(at).or_insert_with(|| {
                ends.push(at);
                own.push(Vec::new());
                ends.len() as u32 - 1
            });
            own[edge as usize].push(error as u32);
            crossed.push(edge);
        }
        let own = Rows::of(&own.iter().map(|errors| classes(graph, errors)).collect::<Vec<_>>());
        let mut edges =
            Self { whole: Rows::of(&vec![Vec::new(); ends.len()]), crossed: Rows::default(), ends, own };
        if config.hyperedges == Hyperedges::Split {
            edges.split(graph, folded, &index, &mut crossed);
        }
        edges.crossed = Rows::of(&crossed);
        edges
    }

    /// Splits the errors of more than two detectors.
    fn split(
        &mut self,
        graph: &Hypergraph<'_>,
        folded: &[f64],
        index: &HashMap<Ends, u32>,
        crossed: &mut [Vec<u32>],
    ) {
        let alone: Vec<Weighed> = (0..self.len()).map(|edge| self.weigh(edge, folded)).collect();
        // The fewest parts, and of as many the likeliest. Closed edges are the last resort: a request may open them.
        let cost: Vec<f64> = alone.iter().map(|edge| (PART + edge.weight()).min(CLOSED_PART)).collect();
        let mut whole = vec![Vec::new(); self.len()];
        let mut detectors = Vec::new();
        for (error, crossed) in crossed.iter_mut().enumerate() {
            if graph.members(error).len() <= 2 {
                continue;
            }
            detectors.clear();
            detectors.extend(graph.members(error).iter().map(|&detector| detector as u32));
            let fits = |parts: &[u32]| {
                let named = parts.iter().map(|&edge| graph.flips(alone[edge as usize].error as usize));
                match (graph.flips(error), together(named)) {
                    (Some(flips), Some(together)) => sorted(flips) == together,
                    _ => true,
                }
            };
            if let Some(parts) = split(&detectors, index, &cost, fits) {
                parts.iter().for_each(|&edge| whole[edge as usize].push(error as u32));
                *crossed = parts;
            }
        }
        self.whole = Rows::of(&whole);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn ends(&self, edge: usize) -> Ends {
        self.ends[edge]
    }

    /// The edges that an error crosses.
    pub(crate) fn crossed(&self, error: u32) -> &[u32] {
        self.crossed.row(error as usize)
    }

    /// What an edge amounts to, with these folded probabilities of errors.
    ///
    /// Of errors that flip different observables the likeliest kind counts: which of two kinds happened is what a decoder
    /// is to say.
    pub(crate) fn weigh(&self, edge: usize, folded: &[f64]) -> Weighed {
        let mut best = Weighed { probability: -1.0, error: u32::MAX };
        for class in self.own.row(edge).chunk_by(|a, b| a.class == b.class) {
            let of = |own: &Own| folded[own.error as usize];
            let probability = class.iter().fold(0.0, |p, own| odd(p, of(own)));
            if probability > best.probability {
                let likelier = |best: Own, own: &Own| if of(own) > of(&best) { *own } else { best };
                best = Weighed { probability, error: class.iter().fold(class[0], likelier).error };
            }
        }
        let whole = self.whole.row(edge).iter().map(|&error| folded[error as usize]);
        Weighed { probability: whole.fold(best.probability, odd), ..best }
    }
}

/// The errors of one edge, class by class, each class in the order of its first error. Effects that are not known are one class.
fn classes(graph: &Hypergraph<'_>, errors: &[u32]) -> Vec<Own> {
    let mut found: HashMap<Option<Vec<u64>>, u32> = HashMap::new();
    let mut own: Vec<Own> = Vec::with_capacity(errors.len());
    for &error in errors {
        let next = found.len() as u32;
        let class = *found.entry(graph.flips(error as usize).map(sorted)).or_insert(next);
        own.push(Own { error, class });
    }
    own.sort_by_key(|own| own.class);
    own
}

fn sorted(list: &[u64]) -> Vec<u64> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted
}

/// What is flipped an odd number of times, sorted; `None` where one list is not known.
fn together<'a>(lists: impl Iterator<Item = Option<&'a [u64]>>) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    for list in lists {
        all.extend_from_slice(list?);
    }
    all.sort_unstable();
    let odd = all.chunk_by(|a, b| a == b).filter(|run| run.len() % 2 == 1).map(|run| run[0]);
    Some(odd.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(
        members: &[&[u64]],
        p: &[f64],
        flips: Option<Vec<Option<&'static [u64]>>>,
        config: &Config,
    ) -> Edges {
        let mut offsets = vec![0];
        offsets.extend(members.iter().scan(0, |end, list| {
            *end += list.len() as u64;
            Some(*end)
        }));
        let flat: Vec<u64> = members.concat();
        let graph = Hypergraph::new(8, p, &offsets, &flat, flips).unwrap();
        Edges::new(&graph, p, config)
    }

    #[test]
    fn errors_of_one_effect_are_one_edge() {
        let members: [&[u64]; 4] = [&[1, 0], &[0, 1], &[0, 1], &[2]];
        let p = [0.1, 0.2, 0.3, 0.25];
        // Nothing is known: all of them together.
        let found = edges(&members, &p, None, &Config::default());
        assert_eq!((found.len(), found.ends(0), found.ends(1)), (2, (0, Some(1)), (2, None)));
        assert_eq!(found.weigh(0, &p), Weighed { probability: odd(odd(0.1, 0.2), 0.3), error: 2 });
        // Of two kinds, the likelier one: 0.1 and 0.2 together are less than 0.3.
        let flips = vec![Some(&[5, 9][..]), Some(&[9, 5][..]), Some(&[][..]), None];
        let found = edges(&members, &p, Some(flips), &Config::default());
        assert_eq!(found.weigh(0, &p), Weighed { probability: 0.3, error: 2 });
        assert_eq!(found.weigh(0, &[0.1, 0.2, 0.2, 0.0]), Weighed { probability: odd(0.1, 0.2), error: 1 });
        assert_eq!(found.weigh(1, &[0.0; 4]).weight(), f64::INFINITY);
        assert_eq!(found.crossed(3), [1]);
    }

    #[test]
    fn a_large_error_makes_its_parts_likelier() {
        let members: [&[u64]; 5] = [&[0, 1], &[2, 3], &[0, 1, 2, 3], &[4, 5, 6], &[]];
        let p = [0.1, 0.2, 0.05, 0.1, 0.1];
        let found = edges(&members, &p, None, &Config::default());
        assert_eq!(found.weigh(1, &p), Weighed { probability: odd(0.2, 0.05), error: 1 });
        assert_eq!(found.crossed(2).len(), 2);
        assert!(found.crossed(3).is_empty() && found.crossed(4).is_empty());
        let ignore = Config { hyperedges: Hyperedges::Ignore, ..Config::default() };
        assert_eq!(edges(&members, &p, None, &ignore).weigh(1, &p).probability, 0.2);
        // Parts whose observables do not add up to the error's are no explanation of it.
        let flips = |whole| {
            let known = vec![Some(&[0][..]), Some(&[0, 1][..]), Some(whole), None, None];
            edges(&members, &p, Some(known), &Config::default()).weigh(1, &p).probability
        };
        assert_eq!(flips(&[1]), odd(0.2, 0.05));
        assert_eq!(flips(&[0]), 0.2);
    }
}
