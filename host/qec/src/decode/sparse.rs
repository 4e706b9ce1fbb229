//! The engine of `ringcall-matching`: exact sparse blossom, nothing allocated per decode.

use ringcall_matching::{Decoder, GraphBuilder};

use super::integer::IntegerGraph;
use super::{DecodeError, Engine, Solution};

/// `ringcall-matching`'s decoder on one graph. Clones share the graph's tables.
#[derive(Clone)]
pub(super) struct SparseBlossom {
    decoder: Decoder,
}

impl SparseBlossom {
    pub(super) fn new(graph: &IntegerGraph) -> Result<Self, DecodeError> {
        let refused = |error: &dyn std::fmt::Display| DecodeError::Engine { reason: error.to_string() };
        let mut builder = GraphBuilder::new();
        builder.ensure_detectors(graph.num_detectors as usize);
        builder.ensure_observables(graph.num_observables as usize);
        let mut observables = Vec::with_capacity(64);
        for edge in &graph.edges {
            observables.clear();
            observables.extend((0..u64::BITS).filter(|bit| edge.observables >> bit & 1 == 1));
            // Whole weights stay as they are and are doubled inside, as ours were already.
            let weight = f64::from(edge.weight / 2);
            let added = match edge.other {
                Some(other) => builder.edge(edge.node, other, weight, &observables),
                None => builder.boundary_edge(edge.node, weight, &observables),
            };
            added.map_err(|error| refused(&error))?;
        }
        Ok(Self { decoder: Decoder::new(builder.build().map_err(|error| refused(&error))?) })
    }
}

impl Engine for SparseBlossom {
    fn solve(&mut self, defects: &[u32]) -> Result<Solution, DecodeError> {
        let solution = match self.decoder.decode(defects) {
            Ok(solution) => solution,
            Err(error) => return Err(DecodeError::Engine { reason: error.to_string() }),
        };
        Ok(Solution {
            observables: solution.observables().first().copied().unwrap_or(0),
            weight: solution.grid_weight(),
            pairs: solution.pairs().len() as u32,
        })
    }

    fn clone_box(&self) -> Box<dyn Engine> {
        Box::new(self.clone())
    }
}
