//! A copy of the graph's weights that can be lowered and put back.

use crate::graph::{MatchingGraph, NONE, Neighbour};

/// Where an edge is in the rows.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its entries in the rows of its ends; for the boundary the node, and [`NONE`]; for a loop neither.
    slots: [u32; 2],
    weight: u32,
}

/// The rows of a graph, with weights of their own.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    neighbours: Vec<Neighbour>,
    boundary: Vec<Option<(u32, u32)>>,
    places: Vec<Place>,
    /// The edges whose weight is not the graph's.
    lowered: Vec<u32>,
}

impl Weights {
    pub(super) fn new(graph: &MatchingGraph) -> Self {
        let mut places = vec![Place { slots: [NONE; 2], weight: 0 }; graph.num_edges()];
        let mut neighbours = Vec::new();
        let mut boundary = Vec::new();
        for u in 0..graph.num_detectors() as u32 {
            for nb in graph.neighbours(u) {
                let place = &mut places[nb.edge as usize];
                place.slots[usize::from(place.slots[0] != NONE)] = neighbours.len() as u32;
                place.weight = nb.weight;
                neighbours.push(*nb);
            }
            let own = graph.own_boundary(u);
            if let Some((weight, edge)) = own {
                places[edge as usize] = Place { slots: [u, NONE], weight };
            }
            boundary.push(own);
        }
        Self { neighbours, boundary, lowered: Vec::with_capacity(places.len()), places }
    }

    /// The row of node `u`.
    #[inline]
    pub(super) fn row(&self, graph: &MatchingGraph, u: u32) -> &[Neighbour] {
        &self.neighbours[graph.row(u)]
    }

    /// The weight of the node's own boundary edge.
    #[inline]
    pub(super) fn own_boundary(&self, u: u32) -> Option<(u32, u32)> {
        self.boundary[u as usize]
    }

    /// Gives an edge this weight, if that is less than it has.
    pub(super) fn lower(&mut self, edge: u32, weight: u32) {
        let Place { slots, weight: original } = self.places[edge as usize];
        let now = match slots {
            [NONE, _] => return,
            [u, NONE] => self.boundary[u as usize].map_or(0, |own| own.0),
            [slot, _] => self.neighbours[slot as usize].weight,
        };
        if weight < now {
            if now == original {
                self.lowered.push(edge);
            }
            self.set(edge, weight);
        }
    }

    /// Whether any weight is not the graph's.
    pub(super) fn is_lowered(&self) -> bool {
        !self.lowered.is_empty()
    }

    /// Gives every edge the graph's weight again.
    pub(super) fn restore(&mut self) {
        while let Some(edge) = self.lowered.pop() {
            self.set(edge, self.places[edge as usize].weight);
        }
    }

    fn set(&mut self, edge: u32, weight: u32) {
        match self.places[edge as usize].slots {
            [NONE, _] => {}
            [u, NONE] => self.boundary[u as usize] = Some((weight, edge)),
            slots => {
                for slot in slots {
                    self.neighbours[slot as usize].weight = weight;
                }
            }
        }
    }

    /// The graph with these weights.
    pub(super) fn graph(&self, graph: &MatchingGraph) -> MatchingGraph {
        graph.with_rows(self.neighbours.clone(), self.boundary.clone())
    }
}
