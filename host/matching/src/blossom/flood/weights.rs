//! The graph's weights, with changes for one decode that can be undone.

use crate::graph::{MatchingGraph, NONE};

/// The fixed data of an edge.
#[derive(Debug, Clone, Copy)]
struct Fixed {
    /// Its grid weight in the graph.
    weight: u32,
    /// Its ends; for the boundary, the second is one past the last node.
    ends: [u32; 2],
}

/// Marks a weight that has been set. Weights have at most 30 bits.
const SET: u32 = 1 << 31;

/// The current weight of every edge.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// Per edge, with a mark if it has been set.
    now: Vec<u32>,
    fixed: Vec<Fixed>,
    /// The edges whose weight has been set.
    changed: Vec<u32>,
}

impl Weights {
    pub(super) fn new(graph: &MatchingGraph) -> Self {
        // A loop is in no row, and its weight does not matter.
        let mut fixed = vec![Fixed { weight: 0, ends: [NONE; 2] }; graph.num_edges()];
        for u in 0..graph.num_detectors() as u32 {
            for nb in graph.neighbours(u) {
                fixed[nb.edge as usize] = Fixed { weight: nb.weight, ends: [u, nb.node] };
            }
            if let Some((weight, edge)) = graph.own_boundary(u) {
                fixed[edge as usize] = Fixed { weight, ends: [u, graph.num_detectors() as u32] };
            }
        }
        let now = fixed.iter().map(|edge| edge.weight).collect();
        Self { now, changed: Vec::with_capacity(fixed.len()), fixed }
    }

    /// The weight of an edge.
    #[inline]
    pub(super) fn of(&self, edge: u32) -> u32 {
        self.now[edge as usize] & !SET
    }

    /// Lowers an edge's weight to this one, if it is less.
    #[inline]
    pub(super) fn lower(&mut self, edge: u32, weight: u32) {
        // A loop has weight zero here, so it is never lowered.
        let now = &mut self.now[edge as usize];
        if weight < *now & !SET {
            if *now & SET == 0 {
                self.changed.push(edge);
            }
            *now = weight | SET;
        }
    }

    /// Sets the weight of an edge that has none set. Returns whether it exceeds the graph's.
    pub(super) fn set(&mut self, edge: u32, weight: u32) -> bool {
        let Fixed { weight: usual, ends } = self.fixed[edge as usize];
        let now = &mut self.now[edge as usize];
        if *now & SET == 0 && ends[0] != NONE {
            self.changed.push(edge);
            *now = weight | SET;
        }
        weight > usual && ends[0] != NONE
    }

    /// The edges whose weight has been set.
    pub(super) fn changed(&self) -> &[u32] {
        &self.changed
    }

    /// The ends of an edge; one past the last node is the boundary.
    #[inline]
    pub(super) fn ends(&self, edge: u32) -> [u32; 2] {
        self.fixed[edge as usize].ends
    }

    /// Gives every edge the graph's weight again.
    pub(super) fn restore(&mut self) {
        while let Some(edge) = self.changed.pop() {
            self.now[edge as usize] = self.fixed[edge as usize].weight;
        }
    }

    /// The graph with these weights.
    pub(super) fn graph(&self, graph: &MatchingGraph) -> MatchingGraph {
        let mut neighbours = Vec::new();
        let mut boundary = Vec::new();
        for u in 0..graph.num_detectors() as u32 {
            for &nb in graph.neighbours(u) {
                neighbours.push(crate::graph::Neighbour { weight: self.of(nb.edge), ..nb });
            }
            boundary.push(graph.own_boundary(u).map(|(_, edge)| (self.of(edge), edge)));
        }
        graph.with_rows(neighbours, boundary)
    }
}
