//! Round by round: the same weight as all at once, whatever belongs to which round, and its proof.

#[allow(dead_code)] // not every test compares with the given answers
mod common;
mod repetition;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{DecodeError, Decoder, DecoderConfig, GraphBuilder, MatchingGraph, StreamingDecoder};

/// Gives the defects to `stream` by rounds.
fn push(
    stream: &mut StreamingDecoder,
    rounds: &[u32],
    defects: &[u32],
) -> Result<(i64, Vec<u64>), DecodeError> {
    for round in 0..stream.num_rounds() {
        let list: Vec<u32> =
            defects.iter().copied().filter(|&d| rounds[d as usize] as usize == round).collect();
        if let Some(solution) = stream.push_round(&list)? {
            return Ok((solution.grid_weight(), solution.observables().to_vec()));
        }
    }
    unreachable!("the last round gives a solution")
}

fn agree(graph: &MatchingGraph, config: &DecoderConfig, rounds: &[u32], shots: &[Vec<u32>]) {
    let mut whole = Decoder::with_config(graph.clone(), config);
    let mut stream = StreamingDecoder::new(&whole, rounds).unwrap();
    for defects in shots {
        match whole.decode(defects) {
            Ok(solution) => {
                let weight = solution.grid_weight();
                let (streamed, observables) = push(&mut stream, rounds, defects).unwrap();
                assert_eq!(streamed, weight, "{defects:?} by rounds {rounds:?}");
                stream.verify().unwrap();
                let mut flips = vec![0u64; observables.len()];
                let mut odd = vec![false; graph.num_detectors()];
                for &edge in stream.correction() {
                    let edge = &graph.edges()[edge as usize];
                    edge.observables.iter().for_each(|&o| flips[o as usize / 64] ^= 1 << (o % 64));
                    odd[edge.u as usize] ^= true;
                    if let Some(v) = edge.v {
                        odd[v as usize] ^= true;
                    }
                }
                assert_eq!(flips, observables, "the correction flips what the answer says");
                let explained: Vec<u32> = (0..odd.len() as u32).filter(|&d| odd[d as usize]).collect();
                assert_eq!(&explained, defects, "the correction explains the syndrome");
            }
            Err(DecodeError::OddParity { .. }) => {
                let error = push(&mut stream, rounds, defects).unwrap_err();
                assert!(matches!(error, DecodeError::OddParity { .. }), "{error}");
                stream.restart();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn random_defects(rng: &mut Rng, detectors: usize, density: f64) -> Vec<u32> {
    (0..detectors as u32).filter(|_| rng.random_bool(density)).collect()
}

#[test]
fn the_oracles_graphs_in_random_rounds() {
    let mut rng = Rng::seed_from_u64(5);
    for (data, step) in [(include_str!("data/random.txt"), 4), (include_str!("data/circuits.txt"), 8)] {
        for line in data.lines().step_by(step) {
            let (graph, shots) = common::parse(line);
            let n = graph.num_detectors();
            let mut lists: Vec<Vec<u32>> = shots.iter().take(4).map(|s| s.defects.clone()).collect();
            for list in &mut lists {
                list.sort_unstable();
            }
            lists.extend([0.1, 0.5, 1.0].map(|density| random_defects(&mut rng, n, density)));
            let count = rng.random_range(1..6u32);
            let mixed: Vec<u32> = (0..n).map(|_| rng.random_range(0..count)).collect();
            let sliced: Vec<u32> = (0..n as u32).map(|i| i * count / n as u32).collect();
            for config in common::configs() {
                agree(&graph, &config, &mixed, &lists);
                agree(&graph, &config, &sliced, &lists);
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
        agree(&graph, &config, &rounds, &shots);
    }
}

proptest! {
    #[test]
    fn small_graphs_in_any_rounds(
        edges in prop::collection::vec((0u32..14, prop::option::weighted(0.85, 0u32..14), -2i32..12), 1..50),
        rounds in prop::collection::vec(0u32..6, 14),
        shots in prop::collection::vec(prop::collection::vec(any::<bool>(), 14), 1..4),
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
        agree(&graph, &config, &rounds, &shots);
    }
}

#[test]
fn bad_rounds_are_refused_and_the_next_is_right() {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 1.0, &[]).unwrap().edge(0, 1, 1.0, &[]).unwrap().edge(2, 3, 1.0, &[0]).unwrap();
    let decoder = Decoder::new(b.build().unwrap());
    assert!(StreamingDecoder::new(&decoder, &[0, 1]).is_err());
    assert!(StreamingDecoder::new(&decoder, &[0, 1, 1, u32::MAX]).is_err());
    let mut stream = StreamingDecoder::new(&decoder, &[0, 1, 0, 1]).unwrap();
    assert!(matches!(
        stream.push_round(&[1]),
        Err(DecodeError::WrongRound { defect: 1, round: 1, expected: 0 })
    ));
    assert!(matches!(stream.push_round(&[9]), Err(DecodeError::DefectOutOfRange { .. })));
    assert!(matches!(stream.push_round(&[0, 0]), Err(DecodeError::DuplicateDefect { .. })));
    assert!(stream.push_round(&[2]).unwrap().is_none());
    assert!(matches!(stream.push_round(&[]), Err(DecodeError::OddParity { detector: 2 })));
    assert!(stream.correction().is_empty() && stream.verify().is_err());
    let solution = stream.push_round(&[3]).unwrap().unwrap();
    assert!(solution.flips(0));
    assert!(stream.push_round(&[0]).unwrap().is_none());
    stream.restart();
    assert!(stream.push_round(&[]).unwrap().is_none());
    assert_eq!(stream.push_round(&[]).unwrap().unwrap().grid_weight(), 0);
}

#[test]
fn streaming_allocates_nothing() {
    let line = include_str!("data/circuits.txt").lines().last().unwrap();
    let (graph, shots) = common::parse(line);
    let n = graph.num_detectors() as u32;
    let rounds: Vec<u32> = (0..n).map(|i| i * 5 / n).collect();
    let lists: Vec<Vec<Vec<u32>>> = shots
        .iter()
        .map(|s| {
            (0..5).map(|r| s.defects.iter().copied().filter(|&d| rounds[d as usize] == r).collect()).collect()
        })
        .collect();
    let mut stream = StreamingDecoder::new(&Decoder::new(graph), &rounds).unwrap();
    let mut answers = 0;
    let info = allocation_counter::measure(|| {
        for list in lists.iter().flatten() {
            answers += usize::from(stream.push_round(list).is_ok_and(|s| s.is_some()));
            std::hint::black_box(stream.correction());
        }
    });
    assert_eq!((info.count_total, answers), (0, shots.len()));
}
