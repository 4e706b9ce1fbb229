//! A matching graph as engines take it: whole, positive weights, observables as bits.

use super::{DecodeError, MatchingGraph};

/// The largest weight before doubling. Engines hold times of collisions in 32 bits, so eight bits are left for
/// distances along paths; PyMatching keeps the same number.
const LARGEST: f64 = ((1u32 << 24) - 1) as f64;

/// The most observables that fit the mask.
const MAX_OBSERVABLES: u32 = u64::BITS;

/// In [`IntegerGraph::closed`]: the detector's part has an edge to the boundary.
pub(super) const OPEN: u32 = u32::MAX;

/// An edge with a whole weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntegerEdge {
    pub(super) node: u32,
    pub(super) other: Option<u32>,
    /// Even, so that two growing regions meet at a whole time.
    pub(super) weight: i32,
    pub(super) observables: u64,
}

/// A matching graph as engines take it.
///
/// Negative weights are gone: an edge of negative weight is taken into the solution beforehand, and what remains is
/// to decide, at the cost of its absolute weight, whether to take it out again. So a syndrome is decoded with the
/// detectors of [`flipped`](Self::flipped) flipped, and the answer gets the observables and the weight below.
#[derive(Debug)]
pub(super) struct IntegerGraph {
    pub(super) num_detectors: u32,
    pub(super) num_observables: u32,
    pub(super) edges: Vec<IntegerEdge>,
    /// Whole steps per unit of weight.
    pub(super) scale: f64,
    /// The weight that all edges share, if there is one and it is not 0.
    pub(super) uniform: Option<i64>,
    /// Per detector, the number of its part if that has no edge to the boundary, else [`OPEN`].
    pub(super) closed: Vec<u32>,
    /// The number of parts without an edge to the boundary.
    pub(super) num_closed: usize,
    /// The detectors at an odd number of edges of negative weight, ascending.
    pub(super) flipped: Vec<u32>,
    /// The observables of all edges of negative weight together.
    pub(super) flipped_observables: u64,
    /// The sum of negative weights.
    pub(super) negative_weight: i64,
}

impl IntegerGraph {
    pub(super) fn new(graph: &MatchingGraph) -> Result<Self, DecodeError> {
        let count = graph.num_observables();
        if count > MAX_OBSERVABLES {
            return Err(DecodeError::TooManyObservables { count, max: MAX_OBSERVABLES });
        }
        let scale = scale(graph)?;
        let (mut odd, mut flipped_observables, mut negative_weight) =
            (vec![false; graph.num_detectors() as usize], 0, 0);
        let mut edges = Vec::with_capacity(graph.edges().len());
        for edge in graph.edges() {
            let observables = edge.observables.iter().fold(0, |mask, &index| mask | 1 << index);
            // At most 2^24 in magnitude, by the choice of the scale.
            let weight = 2 * (edge.weight * scale).round() as i32;
            if weight < 0 {
                flipped_observables ^= observables;
                negative_weight += i64::from(weight);
                for node in [Some(edge.node), edge.other].into_iter().flatten() {
                    odd[node as usize] ^= true;
                }
            }
            edges.push(IntegerEdge { node: edge.node, other: edge.other, weight: weight.abs(), observables });
        }
        let uniform = graph
            .edges()
            .first()
            .filter(|first| {
                first.weight > 0.0 && graph.edges().iter().all(|edge| edge.weight == first.weight)
            })
            .map(|_| i64::from(edges[0].weight));
        let (closed, num_closed) = closed_parts(graph);
        Ok(Self {
            num_detectors: graph.num_detectors(),
            num_observables: count,
            edges,
            scale: scale * 2.0,
            uniform,
            closed,
            num_closed,
            flipped: (0..graph.num_detectors()).filter(|&node| odd[node as usize]).collect(),
            flipped_observables,
            negative_weight,
        })
    }
}

/// Steps per unit of weight, before doubling: 1 for whole weights, else as many as fit.
fn scale(graph: &MatchingGraph) -> Result<f64, DecodeError> {
    let magnitudes = || graph.edges().iter().map(|edge| edge.weight.abs());
    let largest = magnitudes().fold(0.0, f64::max);
    if largest <= LARGEST && magnitudes().all(|weight| weight.fract() == 0.0) {
        return Ok(1.0);
    }
    let scale = LARGEST / largest;
    // No weight of a probability exceeds 745, and steps of 745 / 2^24 are fine for any of them. Beyond that, weights
    // are somebody's own, and losing one is a wrong answer.
    let smallest = magnitudes().filter(|&weight| weight > 0.0).fold(f64::INFINITY, f64::min);
    if !scale.is_normal() || (largest > 1000.0 && smallest * scale < 0.5) {
        return Err(DecodeError::WeightRange { smallest, largest });
    }
    Ok(scale)
}

/// Per detector the number of its part without boundary, or [`OPEN`], and the number of such parts.
fn closed_parts(graph: &MatchingGraph) -> (Vec<u32>, usize) {
    let (mut parts, boundary) = graph.components();
    let mut count = 0;
    let numbers: Vec<u32> = boundary
        .iter()
        .map(|&open| {
            let number = if open { OPEN } else { count };
            count += u32::from(!open);
            number
        })
        .collect();
    for part in &mut parts {
        *part = numbers[*part as usize];
    }
    (parts, count as usize)
}
