//! Checks our weights against `fusion-blossom`, a second exact decoder, on problems from standard input:
//! `host/matching/tests/data/make.py random SEED COUNT | check_fusion`.
//!
//! Where there is no correction (an odd number of defects in a part without boundary) fusion-blossom does not return, and on
//! edges of weight zero it may panic, so these are counted and left out.

#[allow(dead_code)]
#[path = "../../host/matching/tests/common/mod.rs"]
mod common;

use std::io::BufRead;

use anyhow::{Result, ensure};
use fusion_blossom::mwpm_solver::{PrimalDualSolver, SolverSerial};
use fusion_blossom::util::{SolverInitializer, SyndromePattern};
use ringcall_matching::{MwpmDecoder, MatchingGraph};

/// The graph as fusion-blossom takes it. An edge of negative weight is taken beforehand, and costs as much to take back.
struct Other {
    solver: SolverSerial,
    costs: Vec<i64>,
    /// Whether the edges taken beforehand flip a detector.
    flipped: Vec<bool>,
    spent: i64,
}

impl Other {
    fn new(graph: &MatchingGraph) -> Self {
        let n = graph.num_detectors();
        let (mut edges, mut costs, mut flipped, mut spent) = (Vec::new(), Vec::new(), vec![false; n], 0);
        for (index, edge) in graph.edges().iter().enumerate() {
            let weight = graph.grid_weight(index);
            if weight < 0 {
                spent += weight;
                for end in [Some(edge.u), edge.v].into_iter().flatten() {
                    flipped[end as usize] ^= true;
                }
            }
            costs.push(weight.abs());
            // The boundary is one more vertex.
            edges.push((edge.u as usize, edge.v.map_or(n, |v| v as usize), weight.unsigned_abs() as isize));
        }
        let solver = SolverSerial::new(&SolverInitializer::new(n + 1, edges, vec![n]));
        Self { solver, costs, flipped, spent }
    }

    fn weight(&mut self, defects: &[u32]) -> i64 {
        let mut fired = self.flipped.clone();
        for &defect in defects {
            fired[defect as usize] ^= true;
        }
        let fired = (0..fired.len()).filter(|&detector| fired[detector]).collect();
        self.solver.solve(&SyndromePattern::new_vertices(fired));
        let weight = self.spent + self.solver.subgraph().iter().map(|&edge| self.costs[edge]).sum::<i64>();
        self.solver.clear();
        weight
    }
}

fn main() -> Result<()> {
    let (mut graphs, mut zero, mut cases, mut odd, mut wrong) = (0, 0, 0, 0, 0);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (graph, shots) = common::parse(&line);
        if (0..graph.num_edges()).any(|edge| graph.grid_weight(edge) == 0) {
            zero += 1;
            continue;
        }
        let mut other = Other::new(&graph);
        let mut decoder = MwpmDecoder::new(graph);
        graphs += 1;
        for shot in shots {
            let Ok(solution) = decoder.decode(&shot.defects) else {
                odd += 1;
                continue;
            };
            cases += 1;
            let (ours, theirs) = (solution.grid_weight(), other.weight(&shot.defects));
            if ours != theirs {
                wrong += 1;
                if wrong <= 20 {
                    eprintln!("ours {ours}, fusion-blossom {theirs}: {:?}\n{line}", shot.defects);
                }
            }
        }
    }
    println!("{graphs} graphs, {cases} weights compared, {wrong} differ");
    println!("left out: {odd} cases without a correction, {zero} graphs with edges of weight zero");
    ensure!(wrong == 0, "weights differ");
    Ok(())
}
