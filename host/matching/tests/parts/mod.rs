//! Problems for decoders that are given a syndrome in parts: graphs, to which part each detector belongs, and syndromes.

use crate::common;
use crate::repetition;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{DecoderConfig, GraphBuilder, MatchingGraph, MergeStrategy};

/// A graph, the round of each detector, trade-offs, and syndromes.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) graph: MatchingGraph,
    pub(crate) rounds: Vec<u32>,
    pub(crate) config: DecoderConfig,
    pub(crate) shots: Vec<Vec<u32>>,
}

/// Calls `each` with every `step`-th problem of the oracles, in rounds that have nothing to do with the graph and in slices.
pub(crate) fn of_the_oracles(step: usize, mut each: impl FnMut(&Problem)) {
    let mut rng = Rng::seed_from_u64(5);
    for (data, step) in
        [(include_str!("../data/random.txt"), step), (include_str!("../data/circuits.txt"), 2 * step)]
    {
        for line in data.lines().step_by(step) {
            let (graph, given) = common::parse(line);
            let n = graph.num_detectors() as u32;
            let mut shots: Vec<Vec<u32>> = given.iter().take(4).map(|shot| shot.defects.clone()).collect();
            shots.iter_mut().for_each(|shot| shot.sort_unstable());
            shots
                .extend([0.1, 0.5, 1.0].map(|density| (0..n).filter(|_| rng.random_bool(density)).collect()));
            let count = rng.random_range(1..8u32);
            let mixed: Vec<u32> = (0..n).map(|_| rng.random_range(0..count)).collect();
            let sliced: Vec<u32> = (0..n).map(|i| i * count / n).collect();
            for config in common::configs() {
                for rounds in [&mixed, &sliced] {
                    let (graph, rounds) = (graph.clone(), rounds.clone());
                    each(&Problem { graph, rounds, config: config.clone(), shots: shots.clone() });
                }
            }
        }
    }
}

/// Calls `each` with a repetition code over many rounds, under each trade-off.
pub(crate) fn of_a_long_run(mut each: impl FnMut(&Problem)) {
    let mut rng = Rng::seed_from_u64(11);
    let (graph, rounds) = repetition::repetition_code(11, 30, 0.08);
    let shots: Vec<Vec<u32>> = (0..60).map(|_| repetition::sample(&graph, 0.08, &mut rng).0).collect();
    for config in common::configs() {
        each(&Problem { graph: graph.clone(), rounds: rounds.clone(), config, shots: shots.clone() });
    }
}

/// Any graph of 14 detectors.
pub(crate) fn small() -> impl Strategy<Value = Problem> {
    const DETECTORS: u32 = 14;
    let edge = (0..DETECTORS, prop::option::weighted(0.85, 0..DETECTORS), -2i32..12);
    let shot = prop::collection::vec(any::<bool>(), DETECTORS as usize);
    (
        prop::collection::vec(edge, 1..50),
        prop::collection::vec(0u32..6, DETECTORS as usize),
        prop::collection::vec(shot, 1..8),
        prop::sample::select(vec![0usize, 16, 256]),
    )
        .prop_map(|(edges, rounds, shots, near_entries)| {
            let mut b = GraphBuilder::new();
            b.ensure_detectors(DETECTORS as usize);
            for (i, (u, v, w)) in edges.into_iter().enumerate() {
                b.merge_edge(u, v, w.into(), &[i as u32 % 3], None, MergeStrategy::KeepOriginal)
                    .expect("a good edge");
            }
            let mut config = DecoderConfig::default();
            config.near_entries = near_entries;
            let fired = |shot: Vec<bool>| (0..DETECTORS).filter(|&i| shot[i as usize]).collect();
            let shots = shots.into_iter().map(fired).collect();
            Problem { graph: b.build().expect("a good graph"), rounds, config, shots }
        })
}
