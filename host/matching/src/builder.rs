//! Building a matching graph edge by edge.

use std::collections::HashMap;

use crate::bits::cancel_pairs;
use crate::correlated::joint::Joint;
use crate::error::{EdgeName, MatchingGraphError};
use crate::graph::{Edge, MAX_DETECTORS, MatchingGraph};
use crate::integers::IntegerState;
use crate::weights::{Grid, MAX_WEIGHT, merge_independent};

/// One past the largest observable index.
pub const MAX_OBSERVABLES: u32 = 1 << 24;

/// What to do with an edge between detectors that already share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeStrategy {
    /// Refuse it.
    #[default]
    Disallow,
    /// Treat the two as independent mechanisms: weight and probability become those of "exactly one of them fired". The
    /// observables of the first edge stay: parallel edges that differ in them mean a code of distance two.
    Independent,
    /// Keep the edge of smaller weight; at a tie the first.
    SmallestWeight,
    /// Keep the first edge.
    KeepOriginal,
    /// Keep the new edge.
    Replace,
}

/// One part of an error, as a decomposition suggests it (`^` in a detector error model).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorPart<'a> {
    /// The one or two detectors that the part flips.
    pub detectors: &'a [u32],
    /// The observables that the part flips.
    pub observables: &'a [u32],
}

/// Collects edges and turns them into a [`MatchingGraph`].
///
/// ```
/// use ringcall_matching::{GraphBuilder, MergeStrategy};
///
/// let mut b = GraphBuilder::new();
/// b.edge(0, 1, 2.0, &[0])?.boundary_edge(0, 1.5, &[])?.boundary_edge(1, 1.0, &[])?;
/// b.merge_edge(1, Some(0), 1.0, &[0], None, MergeStrategy::SmallestWeight)?;
/// let graph = b.build()?;
/// assert_eq!((graph.num_detectors(), graph.num_edges(), graph.num_observables()), (2, 3, 1));
/// # Ok::<(), ringcall_matching::MatchingGraphError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct GraphBuilder {
    edges: Vec<Edge>,
    index: HashMap<(u32, Option<u32>), usize, IntegerState>,
    detectors: usize,
    observables: usize,
    joint: Joint,
    grid: Grid,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ensures that detectors `0..n` exist, with or without edges.
    pub fn ensure_detectors(&mut self, n: usize) -> &mut Self {
        self.detectors = self.detectors.max(n);
        self
    }

    /// Ensures that observables `0..n` exist, flipped by an edge or not.
    pub fn ensure_observables(&mut self, n: usize) -> &mut Self {
        self.observables = self.observables.max(n);
        self
    }

    /// Makes the grid of weights fine, even for whole weights, and wide enough for a weight of this magnitude: for graphs that
    /// are decoded with weights of a shot ([`WeightedDecoder`](crate::WeightedDecoder)), which may be fractions and larger.
    ///
    /// ```
    /// use ringcall_matching::{GraphBuilder, MwpmDecoder, WeightedDecoder};
    ///
    /// let mut b = GraphBuilder::new();
    /// b.boundary_edge(0, 1.0, &[0])?.edge(0, 1, 1.0, &[])?.boundary_edge(1, 1.0, &[])?.room_for(10.0)?;
    /// let mut decoder = WeightedDecoder::new(&MwpmDecoder::new(b.build()?));
    /// assert!((decoder.decode(&[0], &[(0, 0.25)])?.weight() - 0.25).abs() < 1e-6);
    /// assert!(decoder.most_weight() > 300.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A magnitude that is not above 0, or is above [`MAX_WEIGHT`].
    pub fn room_for(&mut self, weight: f64) -> Result<&mut Self, MatchingGraphError> {
        if !(weight > 0.0 && weight <= MAX_WEIGHT) {
            return Err(MatchingGraphError::Room { weight, max: MAX_WEIGHT });
        }
        self.grid = Grid::RoomFor(weight);
        Ok(self)
    }

    /// Puts the weights on a given grid, whose largest weight comes from another graph.
    pub(crate) fn scale(&mut self, scale: f64) -> &mut Self {
        self.grid = Grid::Given(scale);
        self
    }

    /// Adds an edge between two detectors; a parallel edge is an error.
    ///
    /// `weight` is the cost of using the edge: finite, of magnitude at most [`MAX_WEIGHT`], negative where the
    /// mechanism is likelier than not. `observables` are the observables that it flips, each index once.
    pub fn edge(
        &mut self,
        u: u32,
        v: u32,
        weight: f64,
        observables: &[u32],
    ) -> Result<&mut Self, MatchingGraphError> {
        self.merge_edge(u, Some(v), weight, observables, None, MergeStrategy::Disallow)
    }

    /// Adds an edge between a detector and the boundary; a parallel edge is an error.
    pub fn boundary_edge(
        &mut self,
        u: u32,
        weight: f64,
        observables: &[u32],
    ) -> Result<&mut Self, MatchingGraphError> {
        self.merge_edge(u, None, weight, observables, None, MergeStrategy::Disallow)
    }

    /// Adds an edge, with a strategy for a parallel one. `v = None` is the boundary.
    ///
    /// An observable listed an even number of times is not flipped.
    pub fn merge_edge(
        &mut self,
        u: u32,
        v: Option<u32>,
        weight: f64,
        observables: &[u32],
        probability: Option<f64>,
        merge: MergeStrategy,
    ) -> Result<&mut Self, MatchingGraphError> {
        let name = EdgeName { u, v };
        check_indices([Some(u), v].into_iter().flatten(), observables)?;
        check_weight(name, weight)?;
        if let Some(p) = probability.filter(|p| !(0.0..=1.0).contains(p)) {
            return Err(MatchingGraphError::BadProbability { edge: name, probability: p });
        }
        let (u, v) = key(u, v);
        let edge = Edge { u, v, weight, probability, observables: odd_ones(observables) };
        match self.index.get(&(u, v)) {
            Some(&at) => self.merge_into(at, edge, merge)?,
            None => {
                self.index.insert((u, v), self.edges.len());
                self.note(&edge);
                self.edges.push(edge);
            }
        }
        Ok(self)
    }

    /// Adds an error mechanism that fires with this probability, independently of all others, and flips the detectors and
    /// observables of all its parts.
    ///
    /// Every part becomes an edge, merged with a parallel edge by [`MergeStrategy::Independent`]. Correlated matching
    /// ([`DecoderConfig::correlations`]) uses that the parts belong to one error: once one part is known to have happened, the
    /// others are likelier. An error of probability 0, or one without detectors, is left out. This is how PyMatching 2.4 loads a
    /// detector error model with `enable_correlations=True`.
    ///
    /// ```
    /// use ringcall_matching::{DecoderConfig, ErrorPart, GraphBuilder, MwpmDecoder};
    ///
    /// let part = |detectors, observables| ErrorPart { detectors, observables };
    /// let mut b = GraphBuilder::new();
    /// // error(0.01) D0 D1 ^ D2 L0: what flips D0 and D1 flips D2 as well.
    /// b.error(0.01, &[part(&[0, 1], &[]), part(&[2], &[0])])?;
    /// b.error(0.001, &[part(&[2, 3], &[])])?.error(0.02, &[part(&[3], &[])])?;
    /// b.error(0.001, &[part(&[0], &[])])?.error(0.001, &[part(&[1], &[])])?;
    /// let graph = b.build()?;
    /// assert_eq!(graph.num_correlations(), 2);
    ///
    /// let mut config = DecoderConfig::default();
    /// config.correlations = true;
    /// let mut decoder = MwpmDecoder::with_config(graph, &config);
    /// assert_eq!(decoder.decode(&[0, 1, 2])?.observables(), [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`DecoderConfig::correlations`]: crate::DecoderConfig::correlations
    ///
    /// # Errors
    /// A probability outside `0..=0.5`, a part that flips more than two detectors, a part without detectors in an error of
    /// several parts, or an index out of range. The builder is unchanged then.
    pub fn error(
        &mut self,
        probability: f64,
        parts: &[ErrorPart<'_>],
    ) -> Result<&mut Self, MatchingGraphError> {
        self.correlate(probability, &[])?;
        for (part, ErrorPart { detectors, observables }) in parts.iter().enumerate() {
            if detectors.len() > 2 || (detectors.is_empty() && parts.len() > 1) {
                return Err(MatchingGraphError::PartSize { part, detectors: detectors.len() });
            }
            check_indices(detectors.iter().copied(), observables)?;
        }
        if probability == 0.0 || parts.iter().all(|part| part.detectors.is_empty()) {
            return Ok(self);
        }
        let weight = ((1.0 - probability) / probability).ln();
        let mut edges = Vec::with_capacity(parts.len());
        for ErrorPart { detectors, observables } in parts {
            let (u, v) = (detectors[0], detectors.get(1).copied());
            self.merge_edge(u, v, weight, observables, Some(probability), MergeStrategy::Independent)?;
            edges.push(self.index[&key(u, v)] as u32);
        }
        self.correlate(probability, &edges)
    }

    /// Declares existing edges to be the parts of one error of this probability, as [`error`](Self::error) does for the edges
    /// that it adds. Edges are named by the order in which they were first added.
    ///
    /// # Errors
    /// A probability outside `0..=0.5`, or an edge that does not exist.
    pub fn correlate(&mut self, probability: f64, edges: &[u32]) -> Result<&mut Self, MatchingGraphError> {
        if !(0.0..=0.5).contains(&probability) {
            return Err(MatchingGraphError::ErrorProbability { probability });
        }
        if let Some(&edge) = edges.iter().find(|&&edge| edge as usize >= self.edges.len()) {
            return Err(MatchingGraphError::NoSuchEdge { edge, edges: self.edges.len() });
        }
        if probability > 0.0 {
            self.joint.add(probability, edges);
        }
        Ok(self)
    }

    fn merge_into(&mut self, at: usize, new: Edge, merge: MergeStrategy) -> Result<(), MatchingGraphError> {
        let old = &mut self.edges[at];
        match merge {
            MergeStrategy::Disallow => {
                return Err(MatchingGraphError::ParallelEdge { edge: EdgeName { u: new.u, v: new.v } });
            }
            MergeStrategy::KeepOriginal => {}
            MergeStrategy::SmallestWeight if new.weight >= old.weight => {}
            MergeStrategy::SmallestWeight | MergeStrategy::Replace => {
                self.note(&new);
                self.edges[at] = new;
            }
            MergeStrategy::Independent => {
                old.weight = merge_independent(old.weight, new.weight);
                old.probability = match (old.probability, new.probability) {
                    (Some(p), Some(q)) => Some(p * (1.0 - q) + q * (1.0 - p)),
                    _ => None,
                };
            }
        }
        Ok(())
    }

    fn note(&mut self, edge: &Edge) {
        let last = edge.v.unwrap_or(edge.u).max(edge.u) as usize;
        self.detectors = self.detectors.max(last + 1);
        let most = edge.observables.last().map_or(0, |&o| o as usize + 1);
        self.observables = self.observables.max(most);
    }

    /// Builds the graph, with weights on the integer grid.
    pub fn build(&self) -> Result<MatchingGraph, MatchingGraphError> {
        MatchingGraph::assemble(self.edges.clone(), self.detectors, self.observables, &self.joint, self.grid)
    }
}

/// The ends of an edge in order.
fn key(u: u32, v: Option<u32>) -> (u32, Option<u32>) {
    match v {
        Some(v) => (u.min(v), Some(u.max(v))),
        None => (u, None),
    }
}

fn check_indices(
    detectors: impl IntoIterator<Item = u32>,
    observables: &[u32],
) -> Result<(), MatchingGraphError> {
    if let Some(detector) = detectors.into_iter().find(|&d| d >= MAX_DETECTORS) {
        return Err(MatchingGraphError::DetectorOutOfRange { detector, limit: MAX_DETECTORS });
    }
    if let Some(&observable) = observables.iter().find(|&&o| o >= MAX_OBSERVABLES) {
        return Err(MatchingGraphError::ObservableOutOfRange { observable, limit: MAX_OBSERVABLES });
    }
    Ok(())
}

fn check_weight(edge: EdgeName, weight: f64) -> Result<(), MatchingGraphError> {
    if !weight.is_finite() {
        return Err(MatchingGraphError::WeightNotFinite { edge, weight });
    }
    if weight.abs() > MAX_WEIGHT {
        return Err(MatchingGraphError::WeightTooLarge { edge, weight, max: MAX_WEIGHT });
    }
    Ok(())
}

/// The indices that occur an odd number of times, sorted.
fn odd_ones(list: &[u32]) -> Vec<u32> {
    let mut odd = list.to_vec();
    odd.sort_unstable();
    cancel_pairs(&mut odd);
    odd
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(a: f64, b: f64, merge: MergeStrategy) -> Result<Edge, MatchingGraphError> {
        let mut g = GraphBuilder::new();
        g.merge_edge(0, Some(1), a, &[0], Some(0.1), merge)?;
        g.merge_edge(1, Some(0), b, &[1], Some(0.2), merge)?;
        Ok(g.build()?.edges()[0].clone())
    }

    #[test]
    fn strategies_do_what_pymatching_does() {
        // (first weight, second weight) -> weight, probability, observables; PyMatching 2.4.
        use MergeStrategy::*;
        let is = |e: &Edge, w: f64, p: f64, o: u32| {
            (e.weight - w).abs() < 1e-15 && (e.probability.unwrap() - p).abs() < 1e-15 && e.observables == [o]
        };
        assert!(is(&merged(1.0, 2.0, Independent).unwrap(), 0.7353256640555192, 0.26, 0));
        assert!(is(&merged(1.0, 2.0, SmallestWeight).unwrap(), 1.0, 0.1, 0));
        assert!(is(&merged(0.5, -0.25, SmallestWeight).unwrap(), -0.25, 0.2, 1));
        assert!(is(&merged(1.0, 1.0, SmallestWeight).unwrap(), 1.0, 0.1, 0));
        assert!(is(&merged(1.0, 2.0, KeepOriginal).unwrap(), 1.0, 0.1, 0));
        assert!(is(&merged(1.0, 2.0, Replace).unwrap(), 2.0, 0.2, 1));
        assert!(matches!(merged(1.0, 2.0, Disallow), Err(MatchingGraphError::ParallelEdge { .. })));
    }

    #[test]
    fn bad_numbers_are_named() {
        let mut g = GraphBuilder::new();
        for w in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(matches!(g.edge(0, 1, w, &[]), Err(MatchingGraphError::WeightNotFinite { .. })));
        }
        assert!(matches!(
            g.edge(0, 1, MAX_WEIGHT * 1.01, &[]),
            Err(MatchingGraphError::WeightTooLarge { .. })
        ));
        assert!(matches!(
            g.edge(MAX_DETECTORS, 1, 1.0, &[]),
            Err(MatchingGraphError::DetectorOutOfRange { .. })
        ));
        assert!(matches!(
            g.edge(0, 1, 1.0, &[MAX_OBSERVABLES]),
            Err(MatchingGraphError::ObservableOutOfRange { .. })
        ));
        assert!(matches!(
            g.merge_edge(0, None, 1.0, &[], Some(1.5), MergeStrategy::Replace),
            Err(MatchingGraphError::BadProbability { .. })
        ));
        assert_eq!(g.build().unwrap().num_edges(), 0);
    }

    #[test]
    fn an_observable_listed_twice_cancels() {
        assert_eq!(odd_ones(&[3, 1, 3, 2, 2, 2]), [1, 2]);
    }
}
