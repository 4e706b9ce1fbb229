//! A sliding window against the whole run, on a repetition code with noisy measurements.

mod repetition;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{
    GraphBuilder, MatchingGraph, MwpmDecoder, SlidingConfig, SlidingDecoder, SlidingError,
};

const CHECKS: u32 = 6;
const P: f64 = 0.03;

fn repetition_code(rounds: u32) -> (MatchingGraph, Vec<u32>) {
    repetition::repetition_code(CHECKS, rounds, P)
}

fn sample(graph: &MatchingGraph, rng: &mut Rng) -> (Vec<u32>, u64) {
    repetition::sample(graph, P, rng)
}

/// The answer to a run, given round by round.
fn slide(decoder: &mut SlidingDecoder, rounds: u32, defects: &[u32]) -> u64 {
    let run = repetition::by_round(CHECKS, rounds, defects);
    let (before, last) = run.split_at(run.len() - decoder.tail_rounds());
    for round in before {
        decoder.push_round(round).unwrap();
    }
    let last: Vec<&[u32]> = last.iter().map(Vec::as_slice).collect();
    decoder.finish(&last).unwrap()[0]
}

#[test]
fn a_window_decides_as_the_whole_does() {
    const ROUNDS: u32 = 61;
    let (graph, _) = repetition_code(ROUNDS);
    let (short, rounds) = repetition_code(8);
    let mut whole = MwpmDecoder::new(graph.clone());
    for (window, commit) in [(14, 7), (13, 1), (20, 9)] {
        let mut sliding = SlidingDecoder::new(&short, &rounds, SlidingConfig { window, commit }).unwrap();
        let mut rng = Rng::seed_from_u64(3);
        let (mut differ, mut errors, mut expected_errors) = (0, 0, 0);
        const SHOTS: usize = 1500;
        for _ in 0..SHOTS {
            let (defects, truth) = sample(&graph, &mut rng);
            let expected = whole.decode(&defects).unwrap().observables()[0];
            let found = slide(&mut sliding, ROUNDS, &defects);
            differ += usize::from(found != expected);
            errors += usize::from(found != truth);
            expected_errors += usize::from(expected != truth);
        }
        assert!(expected_errors > 10, "the test sees no error at all: {expected_errors}");
        assert!(differ * 50 < SHOTS, "{window}/{commit}: {differ} of {SHOTS} differ");
        assert!(errors < expected_errors + 15, "{window}/{commit}: {errors}, against {expected_errors}");
    }
}

#[test]
fn a_window_that_is_too_narrow_is_worse() {
    const ROUNDS: u32 = 61;
    let (graph, _) = repetition_code(ROUNDS);
    let (short, rounds) = repetition_code(8);
    let mut narrow = SlidingDecoder::new(&short, &rounds, SlidingConfig { window: 2, commit: 1 }).unwrap();
    let mut whole = MwpmDecoder::new(graph.clone());
    let mut rng = Rng::seed_from_u64(4);
    let (mut errors, mut expected_errors) = (0, 0);
    for _ in 0..500 {
        let (defects, truth) = sample(&graph, &mut rng);
        expected_errors += u32::from(whole.decode(&defects).unwrap().observables()[0] != truth);
        errors += u32::from(slide(&mut narrow, ROUNDS, &defects) != truth);
    }
    assert!(errors > 2 * expected_errors, "{errors}, against {expected_errors}");
}

#[test]
fn runs_of_any_length_follow_each_other() {
    let (short, rounds) = repetition_code(8);
    let mut decoder = SlidingDecoder::new(&short, &rounds, SlidingConfig { window: 6, commit: 3 }).unwrap();
    let least = decoder.least_rounds() as u32;
    for length in least..least + 12 {
        let (graph, _) = repetition_code(length);
        let mut whole = MwpmDecoder::new(graph.clone());
        // One error anywhere is always put right.
        for (at, edge) in graph.edges().iter().enumerate() {
            let mut defects = vec![edge.u];
            defects.extend(edge.v);
            let expected = whole.decode(&defects).unwrap().observables()[0];
            assert_eq!(slide(&mut decoder, length, &defects), expected, "{length} rounds, error {at}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_next_is_right() {
    let (short, rounds) = repetition_code(8);
    let new = |window, commit| SlidingDecoder::new(&short, &rounds, SlidingConfig { window, commit });
    assert!(matches!(new(4, 4), Err(SlidingError::Window { .. })));
    assert!(matches!(new(4, 0), Err(SlidingError::Window { .. })));
    let config = SlidingConfig { window: 4, commit: 2 };
    let (tiny, of) = repetition_code(2);
    assert!(matches!(SlidingDecoder::new(&tiny, &of, config), Err(SlidingError::NotPeriodic)));
    assert!(matches!(SlidingDecoder::new(&tiny, &rounds, config), Err(SlidingError::Rounds(_))));
    let far: Vec<u32> = of.iter().map(|r| r * 1_000_000_000).collect();
    assert!(matches!(SlidingDecoder::new(&tiny, &far, config), Err(SlidingError::Rounds(_))));
    let mut decoder = new(4, 2).unwrap();
    assert!(matches!(decoder.push_round(&[CHECKS]), Err(SlidingError::Defect { .. })));
    assert!(matches!(decoder.push_round(&[1, 0]), Err(SlidingError::Defect { .. })));
    decoder.push_round(&[0]).unwrap();
    assert!(matches!(decoder.finish(&[]), Err(SlidingError::Tail { found: 0, expected: 1 })));
    assert!(matches!(decoder.finish(&[&[]]), Err(SlidingError::TooShort { .. })));
    for _ in 0..5 {
        decoder.push_round(&[]).unwrap();
    }
    assert!(matches!(decoder.finish(&[&[CHECKS]]), Err(SlidingError::Defect { .. })));
    assert_eq!(decoder.finish(&[&[]]).unwrap(), [1], "the lone defect of round 0");
    assert_eq!(decoder.progress(), (0, 0));
}

#[test]
fn sliding_allocates_nothing() {
    let (short, rounds) = repetition_code(8);
    let mut decoder = SlidingDecoder::new(&short, &rounds, SlidingConfig { window: 12, commit: 6 }).unwrap();
    let mut rng = Rng::seed_from_u64(6);
    let layers: Vec<Vec<u32>> =
        (0..2000).map(|_| (0..CHECKS).filter(|_| rng.random_bool(0.3)).collect()).collect();
    let info = allocation_counter::measure(|| {
        for layer in &layers {
            decoder.push_round(layer).unwrap();
        }
        decoder.finish(&[&[1, 2]]).unwrap();
    });
    assert_eq!(info.count_total, 0);
}

/// A chain in time whose edges lead two rounds on, too, with a detector that nothing joins in every round.
fn skipping(rounds: u32) -> (MatchingGraph, Vec<u32>) {
    let mut b = GraphBuilder::new();
    for t in 0..rounds {
        b.boundary_edge(2 * t, 3.0, &[0]).unwrap();
        for later in 1..=2 {
            if t + later < rounds {
                b.edge(2 * t, 2 * (t + later), f64::from(later) + 0.5, &[later]).unwrap();
            }
        }
    }
    b.ensure_detectors(2 * rounds as usize);
    (b.build().unwrap(), (0..2 * rounds).map(|i| i / 2).collect())
}

#[test]
fn edges_over_two_rounds_are_put_right() {
    let (short, rounds) = skipping(8);
    let narrow = SlidingConfig { window: 3, commit: 2 };
    let refused = SlidingDecoder::new(&short, &rounds, narrow);
    assert!(matches!(refused, Err(SlidingError::Reach { reach: 2, .. })));
    let config = SlidingConfig { window: 6, commit: 3 };
    let mut decoder = SlidingDecoder::new(&short, &rounds, config).unwrap();
    let tail = decoder.tail_rounds() as u32;
    const ROUNDS: u32 = 20;
    let (graph, _) = skipping(ROUNDS);
    for edge in graph.edges() {
        let fired = |t: u32| -> &[u32] {
            if edge.u / 2 == t || edge.v.is_some_and(|v| v / 2 == t) { &[0] } else { &[] }
        };
        for t in 0..ROUNDS - tail {
            decoder.push_round(fired(t)).unwrap();
        }
        let last: Vec<&[u32]> = (ROUNDS - tail..ROUNDS).map(fired).collect();
        let expected = edge.observables.iter().fold(0, |set, o| set | 1 << o);
        assert_eq!(decoder.finish(&last).unwrap(), [expected], "{edge:?}");
        assert!((decoder.weight() - edge.weight).abs() < 1e-6, "{edge:?}");
    }
}

#[test]
fn a_round_that_nothing_explains_is_not_taken_in() {
    let (short, rounds) = skipping(8);
    let config = SlidingConfig { window: 6, commit: 3 };
    let mut decoder = SlidingDecoder::new(&short, &rounds, config).unwrap();
    let tail: Vec<&[u32]> = vec![&[]; decoder.tail_rounds()];
    let mut bad = tail.clone();
    bad[0] = &[1];
    for run in 0..3 {
        for t in 0..12 {
            if (t + 1) % 3 == 0 && t >= 5 {
                // The round that fills a window.
                for _ in 0..2 {
                    assert!(matches!(decoder.push_round(&[0, 1]), Err(SlidingError::Decode(_))), "{run} {t}");
                }
            }
            decoder.push_round(if t == 4 || t == 5 { &[0] } else { &[] }).unwrap();
        }
        for _ in 0..2 {
            assert!(matches!(decoder.finish(&bad), Err(SlidingError::Decode(_))));
        }
        assert_eq!(decoder.finish(&tail).unwrap(), [0b10], "run {run}");
    }
}

#[test]
fn negative_weights_are_refused() {
    let mut b = GraphBuilder::new();
    for t in 0..8 {
        b.boundary_edge(t, -1.0, &[0]).unwrap();
    }
    let refused = SlidingDecoder::new(
        &b.build().unwrap(),
        &[0, 1, 2, 3, 4, 5, 6, 7],
        SlidingConfig { window: 3, commit: 1 },
    );
    assert!(matches!(refused, Err(SlidingError::Negative)));
}
