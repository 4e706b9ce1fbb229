//! Runs without end against whole runs: the same weight, whatever the window decided before the end.

mod repetition;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{
    EndlessConfig, EndlessDecoder, GraphBuilder, MatchingGraph, MwpmDecoder, SlidingError,
};

const CHECKS: u32 = 6;

fn config(margin: usize) -> EndlessConfig {
    let mut config = EndlessConfig::default();
    config.margin = margin;
    config
}

/// The same, with so many defects that are gathered.
fn gathering(batch: usize) -> EndlessConfig {
    let mut config = config(0);
    config.batch = batch;
    config
}

/// Gives a run round by round; round `t` has the detectors from `t * checks` on.
fn run(decoder: &mut EndlessDecoder, checks: u32, rounds: u32, defects: &[u32]) -> u64 {
    let run = repetition::by_round(checks, rounds, defects);
    let (before, last) = run.split_at(run.len() - decoder.tail_rounds());
    for (t, round) in before.iter().enumerate() {
        decoder.push_round(round).unwrap();
        // What is rehearsed changes nothing.
        if t % 7 == 3 {
            decoder.rehearse();
        }
    }
    let last: Vec<&[u32]> = last.iter().map(Vec::as_slice).collect();
    decoder.finish(&last).unwrap()[0]
}

/// The window's weights against those of whole runs; how many runs were forced, and how many of those were worse.
fn compare(checks: u32, p: f64, rounds: u32, config: &EndlessConfig, shots: usize, seed: u64) -> [usize; 2] {
    let (graph, _) = repetition::repetition_code(checks, rounds, p);
    let (short, of) = repetition::repetition_code(checks, 8, p);
    let mut whole = MwpmDecoder::new(graph.clone());
    let mut endless = EndlessDecoder::new(&short, &of, config).unwrap();
    let mut rng = Rng::seed_from_u64(seed);
    let (mut forced, mut worse) = (0, 0);
    for shot in 0..shots {
        let (defects, _) = repetition::sample(&graph, p, &mut rng);
        let expected = whole.decode(&defects).unwrap().weight();
        run(&mut endless, checks, rounds, &defects);
        let found = endless.weight();
        let equal = (found - expected).abs() < 1e-6;
        assert!(equal || found > expected, "shot {shot}: {found} is less than the least weight, {expected}");
        assert!(equal || endless.forced() > 0, "shot {shot}: {found} instead of {expected}, and not said");
        forced += usize::from(endless.forced() > 0);
        worse += usize::from(!equal);
    }
    [forced, worse]
}

#[test]
fn the_weight_is_that_of_the_whole_run() {
    for (checks, p, shots) in [(6, 0.03, 1000), (4, 0.1, 400), (12, 0.02, 400), (10, 0.1, 200)] {
        let [forced, worse] = compare(checks, p, 300, &config(0), shots, 11);
        assert!(
            forced * 20 <= shots,
            "{checks} checks, p = {p}: {forced} of {shots} runs were forced, {worse} were worse"
        );
    }
}

/// However many defects are gathered before they are matched.
#[test]
fn gathered_defects_have_the_same_weight() {
    for (batch, shots) in [(0, 60), (1, 30), (32, 100), (1000, 100)] {
        let [forced, worse] = compare(6, 0.03, 300, &gathering(batch), shots, 13);
        assert!(forced * 20 <= shots && worse == 0, "{batch}: {forced} forced, {worse} worse");
    }
}

/// Two codes side by side; the second flips no observable.
#[test]
fn parts_without_an_observable_may_be_left_out() {
    const ROUNDS: u32 = 120;
    let both = |rounds: u32| {
        let (graph, of) = repetition::repetition_code(CHECKS, rounds, 0.08);
        let mut b = GraphBuilder::new();
        // A round has the detectors of both, those of the first code first.
        let at = |d: u32, code: u32| d / CHECKS * 2 * CHECKS + code * CHECKS + d % CHECKS;
        for code in 0..2 {
            for edge in graph.edges() {
                let observables: &[u32] = if code == 0 { &edge.observables } else { &[] };
                match edge.v {
                    Some(v) => b.edge(at(edge.u, code), at(v, code), edge.weight, observables).unwrap(),
                    None => b.boundary_edge(at(edge.u, code), edge.weight, observables).unwrap(),
                };
            }
        }
        let rounds: Vec<u32> = (0..2 * of.len() as u32).map(|d| d / (2 * CHECKS)).collect();
        (b.build().unwrap(), rounds)
    };
    let (short, of) = both(8);
    let (one, _) = repetition::repetition_code(CHECKS, ROUNDS, 0.08);
    let mut whole = MwpmDecoder::new(one);
    let mut config = EndlessConfig::default();
    config.observables_only = true;
    let mut endless = EndlessDecoder::new(&short, &of, &config).unwrap();
    let mut rng = Rng::seed_from_u64(17);
    let (long, _) = both(ROUNDS);
    for shot in 0..60 {
        let (defects, _) = repetition::sample(&long, 0.08, &mut rng);
        let first: Vec<u32> = defects
            .iter()
            .filter(|&d| d % (2 * CHECKS) < CHECKS)
            .map(|d| d / (2 * CHECKS) * CHECKS + d % CHECKS)
            .collect();
        let expected = whole.decode(&first).unwrap().weight();
        run(&mut endless, 2 * CHECKS, ROUNDS, &defects);
        assert!((endless.weight() - expected).abs() < 1e-6 || endless.forced() > 0, "shot {shot}");
    }
}

/// A margin that is far too short costs weight, and that is said.
#[test]
fn a_margin_too_short_is_told() {
    let [forced, worse] = compare(10, 0.1, 300, &config(1), 60, 12);
    assert!(forced > 0 && worse > 0, "{forced} forced, {worse} worse");
}

/// Whatever is gathered, and however often an end is rehearsed, near the threshold and with margins that are too short.
#[test]
fn rehearsals_change_nothing() {
    let (graph, _) = repetition::repetition_code(CHECKS, 120, 0.1);
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.1);
    let mut rng = Rng::seed_from_u64(18);
    for (margin, batch) in [(0, 48), (0, 0), (0, 5), (1, 48), (2, 3)] {
        let mut config = gathering(batch);
        config.margin = margin;
        let mut decoder = EndlessDecoder::new(&short, &of, &config).unwrap();
        for shot in 0..40 {
            let (defects, _) = repetition::sample(&graph, 0.1, &mut rng);
            let run = repetition::by_round(CHECKS, 120, &defects);
            let (before, last) = run.split_at(run.len() - decoder.tail_rounds());
            let last: Vec<&[u32]> = last.iter().map(Vec::as_slice).collect();
            let [without, with] = [0, 2].map(|rehearsals| {
                let mut progress = Vec::new();
                for round in before {
                    let moved = decoder.push_round(round).unwrap();
                    (0..rehearsals).for_each(|_| decoder.rehearse());
                    let decided = (decoder.observables()[0], decoder.weight().to_bits(), decoder.forced());
                    progress.push((moved, decoder.progress(), decided));
                }
                let answer = decoder.finish(&last).unwrap()[0];
                (progress, answer, decoder.weight().to_bits(), decoder.forced())
            });
            assert_eq!(without, with, "margin {margin}, {batch} gathered, shot {shot}");
        }
    }
}

#[test]
fn runs_of_any_length_follow_each_other() {
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.03);
    let mut decoder = EndlessDecoder::new(&short, &of, &config(4)).unwrap();
    let least = decoder.least_rounds() as u32;
    for length in least..least + 20 {
        let (graph, _) = repetition::repetition_code(CHECKS, length, 0.03);
        let mut whole = MwpmDecoder::new(graph.clone());
        // One error anywhere is always put right.
        for (at, edge) in graph.edges().iter().enumerate() {
            let mut defects = vec![edge.u];
            defects.extend(edge.v);
            let solution = whole.decode(&defects).unwrap();
            let (observables, weight) = (solution.observables()[0], solution.weight());
            assert_eq!(
                run(&mut decoder, CHECKS, length, &defects),
                observables,
                "{length} rounds, error {at}"
            );
            assert!((decoder.weight() - weight).abs() < 1e-6);
        }
    }
}

/// A code whose weights differ from place to place, with edges over one and two rounds.
fn uneven(rounds: u32, weights: &[u32]) -> (MatchingGraph, Vec<u32>) {
    let checks = 4;
    let mut b = GraphBuilder::new();
    let mut at = 0;
    let mut next = || {
        at += 1;
        f64::from(weights[at % weights.len()])
    };
    let [left, right, skip] = [next(), next(), next()];
    let across: Vec<f64> = (0..checks).map(|_| next()).collect();
    let along: Vec<f64> = (0..checks).map(|_| next()).collect();
    for t in 0..rounds {
        let node = |c: u32| t * checks + c;
        b.boundary_edge(node(0), left, &[0]).unwrap().boundary_edge(node(checks - 1), right, &[]).unwrap();
        for c in 0..checks {
            if c + 1 < checks {
                b.edge(node(c), node(c + 1), across[c as usize], &[]).unwrap();
            }
            if t + 1 < rounds {
                b.edge(node(c), node(c) + checks, along[c as usize], &[]).unwrap();
            }
        }
        if t + 2 < rounds {
            b.edge(node(1), node(2) + 2 * checks, skip, &[]).unwrap();
        }
    }
    (b.build().unwrap(), (0..rounds * checks).map(|i| i / checks).collect())
}

proptest! {
    /// Small weights and many defects: ties, blossoms and long chains, with any margin.
    #[test]
    fn no_wrong_weight_goes_unsaid(
        weights in prop::collection::vec(1u32..9, 11),
        bits in prop::collection::vec(0u8..10, 4 * 40),
        density in 1u8..6,
        margin in 0usize..9,
    ) {
        let (short, of) = uneven(9, &weights);
        let (graph, _) = uneven(40, &weights);
        let mut decoder = EndlessDecoder::new(&short, &of, &config(margin)).unwrap();
        prop_assume!(decoder.least_rounds() <= 40);
        let defects: Vec<u32> = (0..160).filter(|&i| bits[i as usize] < density).collect();
        let expected = MwpmDecoder::new(graph).decode(&defects).unwrap().weight();
        for _ in 0..2 {
            run(&mut decoder, 4, 40, &defects);
            let found = decoder.weight();
            prop_assert!(found > expected - 1e-6, "{} is less than {}", found, expected);
            prop_assert!(found < expected + 1e-6 || decoder.forced() > 0, "{} instead of {}", found, expected);
        }
    }
}

/// Runs that end before their window has moved, with most of their defects gathered.
#[test]
fn short_runs_have_the_weight_of_the_whole() {
    // Where more came before the first round, its defects would be nearer to each other.
    let weights = [1, 7, 1, 1, 7, 8, 5, 1, 1, 4, 2];
    let (short, of) = uneven(9, &weights);
    let mut rng = Rng::seed_from_u64(19);
    for margin in 1..6 {
        let mut config = config(margin);
        config.batch = 1000;
        let mut decoder = EndlessDecoder::new(&short, &of, &config).unwrap();
        let rounds = decoder.least_rounds() as u32 + margin as u32;
        let mut whole = MwpmDecoder::new(uneven(rounds, &weights).0);
        for shot in 0..100 {
            let defects: Vec<u32> = (0..4 * rounds).filter(|_| rng.random_bool(0.4)).collect();
            let expected = whole.decode(&defects).unwrap().weight();
            run(&mut decoder, 4, rounds, &defects);
            let found = decoder.weight();
            assert!(found > expected - 1e-6, "margin {margin}, shot {shot}: {found} is less than {expected}");
            assert!(
                found < expected + 1e-6 || decoder.forced() > 0,
                "{found} instead of {expected}, and not said"
            );
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_next_is_right() {
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.03);
    let new = |graph: &MatchingGraph, of: &[u32], margin| EndlessDecoder::new(graph, of, &config(margin));
    let (tiny, of_tiny) = repetition::repetition_code(CHECKS, 2, 0.03);
    assert!(matches!(new(&tiny, &of_tiny, 0), Err(SlidingError::NotPeriodic)));
    assert!(matches!(new(&tiny, &of, 0), Err(SlidingError::Rounds(_))));
    assert!(matches!(new(&short, &of, usize::MAX), Err(SlidingError::Window { .. })));
    let mut ring = GraphBuilder::new();
    for t in 0..8 {
        ring.edge(2 * t, 2 * t + 1, 1.0, &[]).unwrap();
        if t < 7 {
            ring.edge(2 * t, 2 * t + 2, 1.0, &[]).unwrap();
        }
    }
    let of_ring: Vec<u32> = (0..16).map(|i| i / 2).collect();
    assert!(matches!(new(&ring.build().unwrap(), &of_ring, 0), Err(SlidingError::NoBoundary { .. })));
    let mut decoder = new(&short, &of, 2).unwrap();
    assert!(matches!(decoder.push_round(&[CHECKS]), Err(SlidingError::Defect { .. })));
    assert!(matches!(decoder.push_round(&[1, 0]), Err(SlidingError::Defect { .. })));
    decoder.push_round(&[0]).unwrap();
    assert!(matches!(decoder.finish(&[]), Err(SlidingError::Tail { found: 0, expected: 1 })));
    assert!(matches!(decoder.finish(&[&[]]), Err(SlidingError::TooShort { .. })));
    for _ in 0..decoder.least_rounds() {
        decoder.push_round(&[]).unwrap();
    }
    assert!(matches!(decoder.finish(&[&[CHECKS]]), Err(SlidingError::Defect { .. })));
    assert_eq!(decoder.finish(&[&[]]).unwrap(), [1], "the lone defect of round 0");
    assert_eq!((decoder.progress(), decoder.forced()), ((0, 0), 0));
}

#[test]
fn a_run_of_any_length_allocates_nothing() {
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.03);
    let mut decoder = EndlessDecoder::new(&short, &of, &EndlessConfig::default()).unwrap();
    let mut rng = Rng::seed_from_u64(6);
    let layers: Vec<Vec<u32>> =
        (0..2000).map(|_| (0..CHECKS).filter(|_| rng.random_bool(0.2)).collect()).collect();
    let mut other = decoder.clone();
    for decoder in [&mut decoder, &mut other] {
        let info = allocation_counter::measure(|| {
            for layer in &layers {
                decoder.push_round(layer).unwrap();
            }
            decoder.finish(&[&[1, 2]]).unwrap();
        });
        assert_eq!(info.count_total, 0);
    }
    assert_eq!(decoder.weight(), other.weight());
}
