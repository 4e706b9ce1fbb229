//! The engine of the crate `rmatching`.
//!
//! Its solver is driven here event by event rather than through its front, which takes a byte per detector, gives no
//! weight, and allocates for both.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rmatching::flooder::graph::MatchingGraph;
use rmatching::flooder::graph_flooder::GraphFlooder;
use rmatching::matcher::mwpm::Mwpm;
use rmatching::types::{NodeIdx, RegionIdx};

use super::integer::IntegerGraph;
use super::{DecodeError, Engine, Solution};

/// `rmatching`'s solver on one graph.
pub(super) struct Rmatching {
    graph: Arc<IntegerGraph>,
    solver: Mwpm,
    /// The outermost region of each defect, once growing has ended.
    tops: Vec<RegionIdx>,
    /// Per region, whether its matching was read; all false between decodes.
    read: Vec<bool>,
}

impl Rmatching {
    pub(super) fn new(graph: Arc<IntegerGraph>) -> Self {
        let detectors = graph.num_detectors as usize;
        // Each region but those of single defects unites at least three, so there are never two per detector.
        Self {
            solver: solver(&graph),
            tops: Vec::with_capacity(detectors),
            read: vec![false; 2 * detectors],
            graph,
        }
    }

    fn run(&mut self, defects: &[u32]) -> Solution {
        let Self { solver, tops, read, .. } = self;
        for &defect in defects {
            solver.create_detection_event(NodeIdx(defect));
        }
        loop {
            let event = solver.flooder.run_until_next_mwpm_notification();
            if event.is_no_event() {
                break;
            }
            solver.process_event(event);
        }
        // All are noted before any is read: reading a matching takes its regions apart.
        tops.clear();
        tops.extend(
            defects
                .iter()
                .filter_map(|&defect| solver.flooder.graph.nodes[defect as usize].region_that_arrived_top),
        );
        // Regions are few and reused, so this grows only if that is no longer true of the crate.
        read.resize(read.len().max(solver.flooder.region_arena.items().len()), false);
        let mut solution = Solution { observables: 0, weight: 0, pairs: 0 };
        let mut to_boundary = 0;
        for &top in &*tops {
            if read[top.0 as usize] {
                continue;
            }
            read[top.0 as usize] = true;
            match solver.flooder.region_arena.get(top.0).match_.as_ref().and_then(|found| found.region) {
                Some(partner) => read[partner.0 as usize] = true,
                None => to_boundary += 1,
            }
            let part = solver.shatter_blossom_and_extract_matches(top);
            solution.observables ^= part.obs_mask;
            solution.weight += part.weight;
        }
        for top in &*tops {
            read[top.0 as usize] = false;
        }
        solver.reset();
        solution.pairs = (defects.len() as u32 + to_boundary) / 2;
        solution
    }
}

impl Engine for Rmatching {
    fn solve(&mut self, defects: &[u32]) -> Result<Solution, DecodeError> {
        catch_unwind(AssertUnwindSafe(|| self.run(defects))).map_err(|panic| {
            // The solver was interrupted half way; only a new one is known to be sound.
            self.solver = solver(&self.graph);
            self.read.fill(false);
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let reason =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned();
            DecodeError::Engine { engine: "rmatching", reason }
        })
    }
}

fn solver(graph: &IntegerGraph) -> Mwpm {
    let mut nodes = MatchingGraph::new(graph.num_detectors as usize, graph.num_observables as usize);
    let mut indices = Vec::with_capacity(64);
    let mut insert = |nodes: &mut MatchingGraph, boundary: bool| {
        for edge in graph.edges.iter().filter(|edge| edge.other.is_none() == boundary) {
            indices.clear();
            indices.extend((0..64).filter(|bit| edge.observables >> bit & 1 == 1));
            match edge.other {
                Some(other) => nodes.add_edge(edge.node as usize, other as usize, edge.weight, &indices),
                None => nodes.add_boundary_edge(edge.node as usize, edge.weight, &indices),
            }
        }
    };
    // The boundary comes last in each list of neighbours, as the crate's own loader has it.
    insert(&mut nodes, false);
    insert(&mut nodes, true);
    nodes.finalize_derived_state();
    Mwpm::new(GraphFlooder::new(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{MatchingGraph, ParallelEdges};

    #[test]
    fn a_panic_inside_leaves_a_sound_solver() {
        let mut graph = MatchingGraph::new(3, 2, ParallelEdges::Independent);
        graph.add_edge(0, None, 2.0, &[0]).unwrap();
        graph.add_edge(0, Some(1), 1.0, &[1]).unwrap();
        graph.add_edge(1, Some(2), 1.0, &[]).unwrap();
        let mut engine = Rmatching::new(Arc::new(IntegerGraph::new(&graph).unwrap()));
        let right = Ok(Solution { observables: 0b11, weight: 8, pairs: 1 });
        assert_eq!(engine.solve(&[2]), right);
        // No decoder lets this through; here it stands for any panic half way, after two defects were placed.
        let error = engine.solve(&[0, 1, 7]).unwrap_err();
        assert!(matches!(&error, DecodeError::Engine { reason, .. } if reason.contains("index")), "{error}");
        assert_eq!(engine.solve(&[2]), right);
        assert_eq!(engine.solve(&[0, 2]), Ok(Solution { observables: 0b10, weight: 4, pairs: 1 }));
    }
}
