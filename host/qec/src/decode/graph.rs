//! Matching graphs: detectors as nodes, errors as weighted edges.

use std::collections::HashMap;

use ringcall_matching::{IntegerState, merge_independent};

use super::DecodeError;
use crate::dem::{DetectorErrorModel, cancel_pairs};

/// The treatment of several errors that flip the same detectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ParallelEdges {
    /// One edge for an odd number of them: `p = p1 (1 - p2) + p2 (1 - p1)`, with the observables of the first. This is how
    /// PyMatching loads a detector error model.
    #[default]
    Independent,
    /// The edge of the smallest weight alone, with its observables; the first of equals. This is PyMatching's
    /// `smallest-weight`, the usual choice for the check matrix of a code.
    SmallestWeight,
}

/// An edge between two detectors, or between one and the boundary.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphEdge {
    /// The detector, or the smaller of the two.
    pub node: u32,
    /// The larger detector, or `None` for the boundary.
    pub other: Option<u32>,
    /// `ln((1 - p) / p)` of the probability `p` of the error: negative for `p > 1/2`, and finite.
    pub weight: f64,
    /// The observables that the error flips, sorted and unique.
    pub observables: Vec<u32>,
}

/// A matching graph without parallel edges.
///
/// ```
/// use ringcall_qec::decode::{DecodingGraph, ParallelEdges};
/// // The distance-3 repetition code: three data qubits, two checks.
/// let rows = [vec![0, 1], vec![1, 2]];
/// let graph = DecodingGraph::from_check_matrix(&rows, 3, None, ParallelEdges::SmallestWeight)?;
/// assert_eq!(graph.edges().len(), 3);
/// assert_eq!((graph.edges()[1].node, graph.edges()[1].other), (0, Some(1)));
/// # Ok::<(), ringcall_qec::decode::DecodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DecodingGraph {
    num_detectors: u32,
    num_observables: u32,
    parallel: ParallelEdges,
    edges: Vec<GraphEdge>,
    index: HashMap<(u32, Option<u32>), usize, IntegerState>,
    observable_conflicts: usize,
    /// Errors of a model, with the edges of their parts.
    errors: Vec<CorrelatedError>,
}

/// An error that crosses several edges.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CorrelatedError {
    pub(super) mechanism: usize,
    pub(super) probability: f64,
    pub(super) edges: Vec<u32>,
}

impl DecodingGraph {
    /// A graph without edges.
    pub fn new(num_detectors: u32, num_observables: u32, parallel: ParallelEdges) -> Self {
        Self {
            num_detectors,
            num_observables,
            parallel,
            edges: Vec::new(),
            index: HashMap::default(),
            observable_conflicts: 0,
            errors: Vec::new(),
        }
    }

    /// The graph of a detector error model: one edge per part of each mechanism.
    ///
    /// Mechanisms of probability 0 are dropped, and so are parts that flip no detector: no syndrome shows them.
    ///
    /// # Errors
    /// [`DecodeError::Model`] for a model that contradicts itself, [`DecodeError::Hyperedge`] for a part with more
    /// than two detectors, [`DecodeError::Certain`] for a probability of 1.
    pub fn from_dem(model: &DetectorErrorModel, parallel: ParallelEdges) -> Result<Self, DecodeError> {
        model.validate()?;
        let mut graph = Self::new(model.num_detectors, model.num_observables, parallel);
        for (mechanism, error) in model.mechanisms.iter().enumerate() {
            let p = error.probability;
            if p == 0.0 {
                continue;
            }
            if p == 1.0 {
                return Err(DecodeError::Certain { mechanism });
            }
            let weight = ((1.0 - p) / p).ln();
            let mut edges = Vec::new();
            for edge in error.edges() {
                match *edge.detectors {
                    [] => {}
                    [node] => edges.push(graph.merge_edge(node, None, weight, edge.observables)?),
                    [node, other] => {
                        edges.push(graph.merge_edge(node, Some(other), weight, edge.observables)?);
                    }
                    _ => return Err(DecodeError::Hyperedge { mechanism, count: edge.detectors.len() }),
                }
            }
            graph.errors.push(CorrelatedError { mechanism, probability: p, edges });
        }
        Ok(graph)
    }

    /// The graph of a check matrix, given as the columns (data qubits) of each row (check): a column in two rows is
    /// an edge between them, a column in one row is an edge to the boundary, a column in none is left out.
    /// `weights` are those of the columns; without them each weighs 1. The graph has no observables.
    ///
    /// # Errors
    /// [`DecodeError::CheckMatrix`] for a column out of range or twice in a row, [`DecodeError::HeavyColumn`] for
    /// one in more than two rows, [`DecodeError::Length`] or [`DecodeError::Weight`] for bad weights.
    pub fn from_check_matrix(
        rows: &[impl AsRef<[u32]>],
        columns: u32,
        weights: Option<&[f64]>,
        parallel: ParallelEdges,
    ) -> Result<Self, DecodeError> {
        if let Some(found) = weights.map(<[f64]>::len).filter(|&found| found != columns as usize) {
            return Err(DecodeError::Length {
                what: "weights of columns",
                expected: columns as usize,
                found,
            });
        }
        let Ok(checks) = u32::try_from(rows.len()) else {
            let expected = u32::MAX as usize;
            return Err(DecodeError::Length {
                what: "rows of the check matrix",
                expected,
                found: rows.len(),
            });
        };
        let mut checks_of = vec![Vec::new(); columns as usize];
        for (check, row) in (0..checks).zip(rows) {
            for &column in row.as_ref() {
                let fail = |problem| Err(DecodeError::CheckMatrix { row: check as usize, column, problem });
                match checks_of.get_mut(column as usize) {
                    None => return fail("does not have"),
                    Some(checks) if checks.last() == Some(&check) => return fail("names twice"),
                    Some(checks) => checks.push(check),
                }
            }
        }
        let mut graph = Self::new(checks, 0, parallel);
        for (column, checks) in (0..columns).zip(&checks_of) {
            let weight = weights.map_or(1.0, |weights| weights[column as usize]);
            match **checks {
                [] => {}
                [node] => graph.add_edge(node, None, weight, &[])?,
                [node, other] => graph.add_edge(node, Some(other), weight, &[])?,
                _ => return Err(DecodeError::HeavyColumn { column, count: checks.len() }),
            }
        }
        Ok(graph)
    }

    /// Adds an edge from `node` to `other`, or to the boundary, or merges it with the existing edge.
    ///
    /// # Errors
    /// [`DecodeError::Detector`], [`DecodeError::Observable`], [`DecodeError::SelfLoop`] or [`DecodeError::Weight`]; the graph is
    /// then unchanged.
    pub fn add_edge(
        &mut self,
        node: u32,
        other: Option<u32>,
        weight: f64,
        observables: &[u32],
    ) -> Result<(), DecodeError> {
        self.merge_edge(node, other, weight, observables).map(|_| ())
    }

    /// As [`add_edge`](Self::add_edge). Returns the index of the edge.
    fn merge_edge(
        &mut self,
        node: u32,
        other: Option<u32>,
        weight: f64,
        observables: &[u32],
    ) -> Result<u32, DecodeError> {
        if let Some(detector) = [Some(node), other].into_iter().flatten().find(|&d| d >= self.num_detectors) {
            return Err(DecodeError::Detector { detector, count: self.num_detectors });
        }
        if let Some(&observable) = observables.iter().find(|&&index| index >= self.num_observables) {
            return Err(DecodeError::Observable { observable, count: self.num_observables });
        }
        if other == Some(node) {
            return Err(DecodeError::SelfLoop { node });
        }
        if !weight.is_finite() {
            return Err(DecodeError::Weight { node, weight });
        }
        let mut observables = observables.to_vec();
        cancel_pairs(&mut observables);
        let (node, other) = match other {
            Some(other) if other < node => (other, Some(node)),
            _ => (node, other),
        };
        let new = GraphEdge { node, other, weight, observables };
        let next = self.edges.len();
        let at = *self.index.entry((node, other)).or_insert(next);
        let Some(old) = self.edges.get_mut(at) else {
            self.edges.push(new);
            return Ok(at as u32);
        };
        self.observable_conflicts += usize::from(old.observables != new.observables);
        match self.parallel {
            ParallelEdges::Independent => old.weight = merge_independent(old.weight, weight),
            ParallelEdges::SmallestWeight if weight < old.weight => *old = new,
            ParallelEdges::SmallestWeight => {}
        }
        Ok(at as u32)
    }

    /// The errors of the graph's model.
    pub(super) fn errors(&self) -> &[CorrelatedError] {
        &self.errors
    }

    /// The number of detectors, those without edges included.
    pub fn num_detectors(&self) -> u32 {
        self.num_detectors
    }

    /// The number of observables.
    pub fn num_observables(&self) -> u32 {
        self.num_observables
    }

    /// The edges, in the order in which their detectors were first joined.
    pub fn edges(&self) -> &[GraphEdge] {
        &self.edges
    }

    /// The index of the edge between two detectors, or between a detector and the boundary.
    pub fn edge_between(&self, node: u32, other: Option<u32>) -> Option<u32> {
        let ends = match other {
            Some(other) => (node.min(other), Some(node.max(other))),
            None => (node, None),
        };
        self.index.get(&ends).map(|&at| at as u32)
    }

    /// How often parallel edges with different observables were merged. Each such pair is an error of weight two that no decoder
    /// can detect; a good model of a code of distance three or more has none.
    pub fn observable_conflicts(&self) -> usize {
        self.observable_conflicts
    }

    /// For each detector its connected part of the graph, and for each part whether it has an edge to the boundary. A detector
    /// without edges is a part of its own.
    pub fn components(&self) -> (Vec<u32>, Vec<bool>) {
        let mut parents: Vec<u32> = (0..self.num_detectors).collect();
        for edge in &self.edges {
            if let Some(other) = edge.other {
                let (a, b) = (root(&mut parents, edge.node), root(&mut parents, other));
                parents[a.max(b) as usize] = a.min(b);
            }
        }
        let mut parts = vec![0; parents.len()];
        let mut count = 0;
        for node in 0..self.num_detectors {
            // A root is the smallest node of its part, so its part is numbered before the part's other nodes.
            let root = root(&mut parents, node);
            parts[node as usize] = if root == node { count } else { parts[root as usize] };
            count += u32::from(root == node);
        }
        let mut boundary = vec![false; count as usize];
        for edge in self.edges.iter().filter(|edge| edge.other.is_none()) {
            boundary[parts[edge.node as usize] as usize] = true;
        }
        (parts, boundary)
    }
}

/// The smallest node of `node`'s part, with path compression.
fn root(parents: &mut [u32], mut node: u32) -> u32 {
    while parents[node as usize] != node {
        let grandparent = parents[parents[node as usize] as usize];
        parents[node as usize] = grandparent;
        node = grandparent;
    }
    node
}
