//! Repetition codes with noisy measurements, of any length.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{GraphBuilder, MatchingGraph};

/// A repetition code of `checks` checks, `rounds` rounds of them, the last free of measurement errors; errors on the leftmost
/// qubit flip observable 0. And the round of each detector.
pub(crate) fn repetition_code(checks: u32, rounds: u32, p: f64) -> (MatchingGraph, Vec<u32>) {
    let weight = ((1.0 - p) / p).ln();
    let mut b = GraphBuilder::new();
    for t in 0..rounds {
        let at = t * checks;
        b.boundary_edge(at, weight, &[0]).expect("a good edge");
        b.boundary_edge(at + checks - 1, weight, &[]).expect("a good edge");
        for c in 0..checks {
            if c + 1 < checks {
                b.edge(at + c, at + c + 1, weight, &[]).expect("a good edge");
            }
            if t + 1 < rounds {
                // Measurement errors are a little rarer, so that not everything ties.
                b.edge(at + c, at + checks + c, 1.07 * weight, &[]).expect("a good edge");
            }
        }
    }
    (b.build().expect("a good graph"), (0..rounds * checks).map(|i| i / checks).collect())
}

/// A shot in which each edge fires with probability `p`: its defects, and whether observable 0 flips.
pub(crate) fn sample(graph: &MatchingGraph, p: f64, rng: &mut Rng) -> (Vec<u32>, u64) {
    let mut odd = vec![false; graph.num_detectors()];
    let mut flips = 0;
    for edge in graph.edges().iter().filter(|_| rng.random_bool(p)) {
        odd[edge.u as usize] ^= true;
        if let Some(v) = edge.v {
            odd[v as usize] ^= true;
        }
        flips ^= edge.observables.len() as u64;
    }
    ((0..odd.len() as u32).filter(|&i| odd[i as usize]).collect(), flips)
}

/// The defects of each round, as positions in it.
#[allow(dead_code)] // streams are given detectors
pub(crate) fn by_round(checks: u32, rounds: u32, defects: &[u32]) -> Vec<Vec<u32>> {
    let round = |t: u32| defects.iter().filter(|&&d| d / checks == t).map(|d| d % checks).collect();
    (0..rounds).map(round).collect()
}
