//! Round by round: the same weight as all at once, for any division into rounds, and its proof.

#[allow(dead_code)] // not every test compares with the given answers
mod common;
mod parts;
mod repetition;

use parts::Problem;
use proptest::prelude::*;
use ringcall_matching::{GraphBuilder, MatchingError, MwpmDecoder, Solution, StreamingDecoder};

/// Gives the defects to `stream` by rounds.
fn push(stream: &mut StreamingDecoder, rounds: &[u32], defects: &[u32]) -> Result<Solution, MatchingError> {
    for round in 0..stream.num_rounds() {
        let list: Vec<u32> =
            defects.iter().copied().filter(|&d| rounds[d as usize] as usize == round).collect();
        if let Some(solution) = stream.push_round(&list)? {
            return Ok(solution.clone());
        }
    }
    unreachable!("the last round gives a solution")
}

fn agree(problem: &Problem) {
    let Problem { graph, rounds, config, shots } = problem;
    let mut whole = MwpmDecoder::with_config(graph.clone(), config);
    let mut stream = StreamingDecoder::new(&whole, rounds).unwrap();
    for defects in shots {
        match whole.decode(defects) {
            Ok(expected) => {
                let solution = push(&mut stream, rounds, defects).unwrap();
                assert_eq!(
                    solution.grid_weight(),
                    expected.grid_weight(),
                    "{defects:?} by rounds {rounds:?}"
                );
                stream.verify().unwrap();
                common::explains(graph, stream.correction(), defects, &solution).unwrap();
            }
            Err(MatchingError::OddParity { .. }) => {
                let error = push(&mut stream, rounds, defects).unwrap_err();
                assert!(matches!(error, MatchingError::OddParity { .. }), "{error}");
                stream.restart();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn the_oracles_graphs_in_rounds() {
    parts::of_the_oracles(4, agree);
}

#[test]
fn long_runs() {
    parts::of_a_long_run(agree);
}

proptest! {
    #[test]
    fn small_graphs_in_any_rounds(problem in parts::small()) {
        agree(&problem);
    }
}

#[test]
fn bad_rounds_are_refused_and_the_next_is_right() {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 1.0, &[]).unwrap().edge(0, 1, 1.0, &[]).unwrap().edge(2, 3, 1.0, &[0]).unwrap();
    let decoder = MwpmDecoder::new(b.build().unwrap());
    assert!(StreamingDecoder::new(&decoder, &[0, 1]).is_err());
    assert!(StreamingDecoder::new(&decoder, &[0, 1, 1, u32::MAX]).is_err());
    let mut stream = StreamingDecoder::new(&decoder, &[0, 1, 0, 1]).unwrap();
    assert!(matches!(
        stream.push_round(&[1]),
        Err(MatchingError::WrongRound { defect: 1, round: 1, expected: 0 })
    ));
    assert!(matches!(stream.push_round(&[9]), Err(MatchingError::DefectOutOfRange { .. })));
    assert!(matches!(stream.push_round(&[0, 0]), Err(MatchingError::DuplicateDefect { .. })));
    assert!(stream.push_round(&[2]).unwrap().is_none());
    assert!(matches!(stream.push_round(&[]), Err(MatchingError::OddParity { detector: 2 })));
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
    let mut stream = StreamingDecoder::new(&MwpmDecoder::new(graph), &rounds).unwrap();
    let mut answers = 0;
    let info = allocation_counter::measure(|| {
        for list in lists.iter().flatten() {
            answers += usize::from(stream.push_round(list).is_ok_and(|s| s.is_some()));
            std::hint::black_box(stream.correction());
        }
    });
    assert_eq!((info.count_total, answers), (0, shots.len()));
}
