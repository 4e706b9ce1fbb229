//! Slabs on several cores: the same weight as on one, whatever belongs to which slab, and its proof.

#[allow(dead_code)] // not every test compares with the given answers
mod common;
mod repetition;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{
    DecodeError, Decoder, DecoderConfig, GraphBuilder, MatchingGraph, ParallelConfig, ParallelDecoder,
};

fn shared_by(cores: usize) -> ParallelConfig {
    let mut config = ParallelConfig::new(cores.try_into().unwrap());
    config.least_defects = 0;
    config
}

fn agree(graph: &MatchingGraph, config: &DecoderConfig, rounds: &[u32], cores: usize, shots: &[Vec<u32>]) {
    let mut alone = Decoder::with_config(graph.clone(), config);
    let mut together = ParallelDecoder::new(&alone, rounds, &shared_by(cores)).unwrap();
    for defects in shots {
        match (alone.decode(defects), together.decode(defects)) {
            (Ok(expected), Ok(solution)) => {
                assert_eq!(solution.grid_weight(), expected.grid_weight(), "{defects:?} by {rounds:?}");
                together.verify().unwrap();
                let mut odd = vec![false; graph.num_detectors()];
                for &edge in together.correction() {
                    let edge = &graph.edges()[edge as usize];
                    odd[edge.u as usize] ^= true;
                    if let Some(v) = edge.v {
                        odd[v as usize] ^= true;
                    }
                }
                let explained: Vec<u32> = (0..odd.len() as u32).filter(|&d| odd[d as usize]).collect();
                assert_eq!(&explained, defects, "the correction explains the syndrome");
            }
            (Err(expected), Err(error)) => assert_eq!(error, expected),
            (expected, found) => panic!("{expected:?}, but {found:?}"),
        }
    }
}

#[test]
fn the_oracles_graphs_in_slabs() {
    let mut rng = Rng::seed_from_u64(7);
    for (data, step) in [(include_str!("data/random.txt"), 20), (include_str!("data/circuits.txt"), 40)] {
        for line in data.lines().step_by(step) {
            let (graph, shots) = common::parse(line);
            let n = graph.num_detectors() as u32;
            let mut lists: Vec<Vec<u32>> = shots.iter().take(4).map(|s| s.defects.clone()).collect();
            for list in &mut lists {
                list.sort_unstable();
            }
            lists
                .extend([0.1, 0.5, 1.0].map(|density| (0..n).filter(|_| rng.random_bool(density)).collect()));
            let mixed: Vec<u32> = (0..n).map(|_| rng.random_range(0..8)).collect();
            let sliced: Vec<u32> = (0..n).map(|i| i * 8 / n).collect();
            for config in common::configs() {
                agree(&graph, &config, &mixed, 2, &lists);
                agree(&graph, &config, &sliced, 3, &lists);
            }
        }
    }
}

#[test]
fn long_runs() {
    let mut rng = Rng::seed_from_u64(11);
    let (graph, rounds) = repetition::repetition_code(11, 30, 0.08);
    let shots: Vec<Vec<u32>> = (0..60).map(|_| repetition::sample(&graph, 0.08, &mut rng).0).collect();
    for config in common::configs() {
        for cores in 1..=4 {
            agree(&graph, &config, &rounds, cores, &shots);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn small_graphs_in_any_slabs(
        edges in prop::collection::vec((0u32..14, prop::option::weighted(0.85, 0u32..14), -2i32..12), 1..50),
        rounds in prop::collection::vec(0u32..6, 14),
        cores in 1usize..4,
        shots in prop::collection::vec(prop::collection::vec(any::<bool>(), 14), 1..20),
        near_entries in prop::sample::select(vec![0usize, 16, 256]),
    ) {
        let mut b = GraphBuilder::new();
        b.ensure_detectors(14);
        for (i, (u, v, w)) in edges.into_iter().enumerate() {
            let merge = ringcall_matching::MergeStrategy::KeepOriginal;
            b.merge_edge(u, v, w.into(), &[i as u32 % 3], None, merge).unwrap();
        }
        let graph = b.build().unwrap();
        let shots: Vec<Vec<u32>> =
            shots.iter().map(|shot| (0..14).filter(|&i| shot[i as usize]).collect()).collect();
        let mut config = DecoderConfig::default();
        config.near_entries = near_entries;
        agree(&graph, &config, &rounds, cores, &shots);
    }
}

#[test]
fn bad_input_is_refused_and_the_next_is_right() {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 1.0, &[]).unwrap().edge(0, 1, 1.0, &[]).unwrap().edge(2, 3, 1.0, &[0]).unwrap();
    let one = Decoder::new(b.build().unwrap());
    assert!(ParallelDecoder::new(&one, &[0, 1], &shared_by(2)).is_err());
    let mut decoder = ParallelDecoder::new(&one, &[0, 1, 0, u32::MAX], &shared_by(2)).unwrap();
    assert!(matches!(decoder.decode(&[4]), Err(DecodeError::DefectOutOfRange { .. })));
    assert!(matches!(decoder.decode(&[1, 1]), Err(DecodeError::DuplicateDefect { .. })));
    assert!(matches!(decoder.decode(&[1, 2]), Err(DecodeError::OddParity { detector: 2 })));
    assert!(decoder.correction().is_empty() && decoder.verify().is_err());
    assert!(decoder.decode(&[3, 2]).unwrap().flips(0));
    assert_eq!(decoder.decode(&[]).unwrap().grid_weight(), 0);
}

#[test]
fn a_helper_that_sleeps_is_woken() {
    let line = include_str!("data/circuits.txt").lines().last().unwrap();
    let (graph, shots) = common::parse(line);
    let rounds: Vec<u32> = (0..graph.num_detectors() as u32).collect();
    let mut alone = Decoder::new(graph);
    let mut config = shared_by(2);
    config.spin = std::time::Duration::ZERO;
    let mut together = ParallelDecoder::new(&alone, &rounds, &config).unwrap();
    for shot in shots.iter().cycle().take(200) {
        let expected = alone.decode(&shot.defects).unwrap().grid_weight();
        assert_eq!(together.decode(&shot.defects).unwrap().grid_weight(), expected);
        std::thread::yield_now();
    }
}

/// Counted is the caller's thread; the helpers run what streaming runs, which is counted in its own test.
#[test]
fn sharing_allocates_nothing() {
    let line = include_str!("data/circuits.txt").lines().last().unwrap();
    let (graph, shots) = common::parse(line);
    let rounds: Vec<u32> = (0..graph.num_detectors() as u32).collect();
    let mut decoder = ParallelDecoder::new(&Decoder::new(graph), &rounds, &shared_by(2)).unwrap();
    let info = allocation_counter::measure(|| {
        for shot in &shots {
            std::hint::black_box(decoder.decode(&shot.defects).is_ok());
            std::hint::black_box(decoder.correction());
        }
    });
    assert_eq!(info.count_total, 0);
}
