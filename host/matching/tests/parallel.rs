//! Slabs on several cores: the same weight as on one core, for any division into slabs, and its proof.

#[allow(dead_code)] // not every test compares with the given answers
mod common;
mod parts;
mod repetition;

use std::num::NonZeroU32;

use parts::Problem;
use proptest::prelude::*;
use ringcall_matching::{GraphBuilder, MatchingError, MwpmDecoder, ParallelConfig, ParallelDecoder};

fn shared_by(cores: usize) -> ParallelConfig {
    let mut config = ParallelConfig::new(cores.try_into().unwrap());
    (config.least_defects, config.least_rounds) = (0, NonZeroU32::new(1));
    config
}

fn agree(problem: &Problem, cores: usize) {
    let Problem { graph, rounds, config, shots } = problem;
    let mut alone = MwpmDecoder::with_config(graph.clone(), config);
    let mut together = ParallelDecoder::new(&alone, rounds, &shared_by(cores)).unwrap();
    for defects in shots {
        match (alone.decode(defects), together.decode(defects).cloned()) {
            (Ok(expected), Ok(solution)) => {
                assert_eq!(solution.grid_weight(), expected.grid_weight(), "{defects:?} by {rounds:?}");
                together.verify().unwrap();
                common::explains(graph, together.correction(), defects, &solution).unwrap();
            }
            (Err(expected), Err(error)) => assert_eq!(error, expected),
            (expected, found) => panic!("{expected:?}, but {found:?}"),
        }
    }
}

#[test]
fn the_oracles_graphs_in_slabs() {
    parts::of_the_oracles(20, |problem| {
        agree(problem, 2);
        agree(problem, 3);
    });
}

#[test]
fn long_runs() {
    parts::of_a_long_run(|problem| (1..=4).for_each(|cores| agree(problem, cores)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn small_graphs_in_any_slabs(problem in parts::small(), cores in 1usize..4) {
        agree(&problem, cores);
    }
}

#[test]
fn bad_input_is_refused_and_the_next_is_right() {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 1.0, &[]).unwrap().edge(0, 1, 1.0, &[]).unwrap().edge(2, 3, 1.0, &[0]).unwrap();
    let one = MwpmDecoder::new(b.build().unwrap());
    assert!(ParallelDecoder::new(&one, &[0, 1], &shared_by(2)).is_err());
    let mut decoder = ParallelDecoder::new(&one, &[0, 1, 0, u32::MAX], &shared_by(2)).unwrap();
    assert!(matches!(decoder.decode(&[4]), Err(MatchingError::DefectOutOfRange { .. })));
    assert!(matches!(decoder.decode(&[1, 1]), Err(MatchingError::DuplicateDefect { .. })));
    assert!(matches!(decoder.decode(&[1, 2]), Err(MatchingError::OddParity { detector: 2 })));
    assert!(decoder.correction().is_empty() && decoder.verify().is_err());
    assert!(decoder.decode(&[3, 2]).unwrap().flips(0));
    assert_eq!(decoder.decode(&[]).unwrap().grid_weight(), 0);
}

#[test]
fn a_helper_that_sleeps_is_woken() {
    let line = include_str!("data/circuits.txt").lines().last().unwrap();
    let (graph, shots) = common::parse(line);
    let rounds: Vec<u32> = (0..graph.num_detectors() as u32).collect();
    let mut alone = MwpmDecoder::new(graph);
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
    let mut decoder = ParallelDecoder::new(&MwpmDecoder::new(graph), &rounds, &shared_by(2)).unwrap();
    let info = allocation_counter::measure(|| {
        for shot in &shots {
            std::hint::black_box(decoder.decode(&shot.defects).is_ok());
            std::hint::black_box(decoder.correction());
        }
    });
    assert_eq!(info.count_total, 0);
}
