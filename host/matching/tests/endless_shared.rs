//! Runs shared among cores against whole runs: the same weight, whichever thread matched which window.

mod repetition;

use std::num::NonZeroUsize;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{
    MatchingGraph, MwpmDecoder, SharedEndlessConfig, SharedEndlessDecoder, SlidingError,
};

const CHECKS: u32 = 6;
/// A test that waits so long has failed.
const LONG: Duration = Duration::from_secs(20);

fn config(cores: usize) -> SharedEndlessConfig {
    SharedEndlessConfig::new(NonZeroUsize::new(cores).unwrap())
}

fn decoder(graph: &MatchingGraph, of: &[u32], config: &SharedEndlessConfig) -> SharedEndlessDecoder {
    SharedEndlessDecoder::new(graph, of, config, |_| {}).unwrap()
}

/// Gives a run round by round; round `t` has the detectors from `t * checks` on.
fn run(decoder: &mut SharedEndlessDecoder, checks: u32, rounds: u32, defects: &[u32]) -> u64 {
    let run = repetition::by_round(checks, rounds, defects);
    let (before, last) = run.split_at(run.len() - decoder.tail_rounds());
    for round in before {
        decoder.push_round(round).unwrap();
    }
    let last: Vec<&[u32]> = last.iter().map(Vec::as_slice).collect();
    decoder.finish(&last).unwrap()[0]
}

/// Weights against those of whole runs; how many runs were forced, how many of those were worse, and how many answers differ.
fn compare(
    checks: u32,
    p: f64,
    rounds: u32,
    config: &SharedEndlessConfig,
    shots: usize,
    seed: u64,
) -> [usize; 3] {
    let (graph, _) = repetition::repetition_code(checks, rounds, p);
    let (short, of) = repetition::repetition_code(checks, 8, p);
    let mut whole = MwpmDecoder::new(graph.clone());
    let mut shared = decoder(&short, &of, config);
    let mut rng = Rng::seed_from_u64(seed);
    let [mut forced, mut worse, mut other] = [0; 3];
    for shot in 0..shots {
        let (defects, _) = repetition::sample(&graph, p, &mut rng);
        let solution = whole.decode(&defects).unwrap();
        let (expected, flips) = (solution.weight(), solution.observables()[0]);
        let answer = run(&mut shared, checks, rounds, &defects);
        let found = shared.weight();
        let equal = (found - expected).abs() < 1e-6;
        assert!(equal || found > expected, "shot {shot}: {found} is less than the least weight, {expected}");
        assert!(equal || shared.forced() > 0, "shot {shot}: {found} instead of {expected}, and not said");
        forced += usize::from(shared.forced() > 0);
        worse += usize::from(!equal);
        other += usize::from(answer != flips);
    }
    [forced, worse, other]
}

#[test]
fn the_weight_is_that_of_the_whole_run() {
    for (checks, p, cores, shots) in
        [(6, 0.03, 3, 400), (12, 0.02, 3, 150), (12, 0.02, 1, 50), (6, 0.03, 2, 50)]
    {
        let [forced, worse, other] = compare(checks, p, 300, &config(cores), shots, 11);
        assert!(
            forced * 20 <= shots && worse * 20 <= shots && other * 20 <= shots,
            "{checks} checks, p = {p}: {forced} of {shots} forced, {worse} worse, {other} other answers"
        );
    }
}

/// Near the threshold, and with overlaps that are too short, weight is lost, and that is said.
#[test]
fn an_overlap_too_short_is_told() {
    let mut config = config(2);
    (config.overlap, config.step) = (1, 3);
    let [forced, worse, _] = compare(10, 0.1, 300, &config, 40, 12);
    assert!(forced > 0 && worse > 0, "{forced} forced, {worse} worse");
    let [_, worse, _] = compare(4, 0.1, 300, &self::config(3), 100, 12);
    assert!(worse <= 20, "{worse} worse");
}

/// The answer does not depend on which thread matches a window, whether it comes too late, or whether it dies.
#[test]
fn all_threads_give_the_same_answer() {
    let (graph, _) = repetition::repetition_code(CHECKS, 200, 0.08);
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.08);
    let mut alone = decoder(&short, &of, &config(1));
    let mut hasty_config = config(3);
    hasty_config.timeout = Duration::ZERO;
    let mut hasty = decoder(&short, &of, &hasty_config);
    let (starts, started) = channel();
    let mut mortal = SharedEndlessDecoder::new(&short, &of, &config(3), move |helper| {
        let _ = starts.send(helper);
        assert!(helper == 2, "helper {helper} dies as the test wants");
    })
    .unwrap();
    let mut rng = Rng::seed_from_u64(20);
    for shot in 0..100 {
        let (defects, _) = repetition::sample(&graph, 0.08, &mut rng);
        let expected = (run(&mut alone, CHECKS, 200, &defects), alone.weight().to_bits(), alone.forced());
        for other in [&mut hasty, &mut mortal] {
            let found = (run(other, CHECKS, 200, &defects), other.weight().to_bits(), other.forced());
            assert_eq!(found, expected, "shot {shot}");
        }
    }
    // On a busy machine a helper may begin, and die, after all that.
    let begin = Instant::now();
    while mortal.lost() == 0 && begin.elapsed() < LONG {
        run(&mut mortal, CHECKS, 200, &[]);
    }
    assert_eq!((hasty.lost(), mortal.lost()), (0, 1));
    assert!(started.recv_timeout(LONG).is_ok() && started.recv_timeout(LONG).is_ok());
}

#[test]
fn runs_of_any_length_follow_each_other() {
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.03);
    let mut shared = decoder(&short, &of, &config(2));
    let least = shared.least_rounds() as u32;
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
                run(&mut shared, CHECKS, length, &defects),
                observables,
                "{length} rounds, error {at}"
            );
            assert!((shared.weight() - weight).abs() < 1e-6 && shared.forced() == 0);
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_next_is_right() {
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.03);
    let (tiny, of_tiny) = repetition::repetition_code(CHECKS, 2, 0.03);
    let new = |graph: &MatchingGraph, of: &[u32], overlap| {
        let mut config = config(2);
        config.overlap = overlap;
        SharedEndlessDecoder::new(graph, of, &config, |_| {})
    };
    assert!(matches!(new(&tiny, &of_tiny, 0), Err(SlidingError::NotPeriodic)));
    assert!(matches!(new(&tiny, &of, 0), Err(SlidingError::Rounds(_))));
    assert!(matches!(new(&short, &of, usize::MAX), Err(SlidingError::Window { .. })));
    let mut decoder = new(&short, &of, 0).unwrap();
    assert!(matches!(decoder.push_round(&[CHECKS]), Err(SlidingError::Defect { .. })));
    assert!(matches!(decoder.push_round(&[1, 0]), Err(SlidingError::Defect { .. })));
    decoder.push_round(&[0]).unwrap();
    assert!(matches!(decoder.finish(&[]), Err(SlidingError::Tail { found: 0, expected: 1 })));
    assert!(matches!(decoder.finish(&[&[]]), Err(SlidingError::TooShort { .. })));
    for _ in 0..3 * decoder.least_rounds() {
        decoder.push_round(&[]).unwrap();
    }
    assert!(matches!(decoder.finish(&[&[CHECKS]]), Err(SlidingError::Defect { .. })));
    // A run that is given up, while helpers match its windows, leaves nothing for the next.
    decoder.restart();
    decoder.push_round(&[0]).unwrap();
    for _ in 0..3 * decoder.least_rounds() {
        decoder.push_round(&[]).unwrap();
    }
    assert_eq!(decoder.finish(&[&[]]).unwrap(), [1], "the lone defect of round 0");
    assert_eq!((decoder.given(), decoder.forced()), (0, 0));
}

/// Counted is the caller's thread, which does all of the work without helpers, and all but the windows of the helpers with them.
#[test]
fn a_run_of_any_length_allocates_nothing() {
    let (short, of) = repetition::repetition_code(CHECKS, 8, 0.05);
    let mut rng = Rng::seed_from_u64(6);
    let layers: Vec<Vec<u32>> =
        (0..2000).map(|_| (0..CHECKS).filter(|_| rng.random_bool(0.15)).collect()).collect();
    for cores in [1, 3] {
        let mut config = config(cores);
        // A window that is late is matched twice, and takes memory for it.
        config.timeout = LONG;
        let mut decoder = decoder(&short, &of, &config);
        let mut run = || {
            for layer in &layers {
                decoder.push_round(layer).unwrap();
            }
            decoder.finish(&[&[1, 2]]).unwrap();
        };
        run();
        let info = allocation_counter::measure(run);
        assert_eq!(info.count_total, 0, "{cores} cores");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Many defects anywhere, ties and blossoms, with any windows: a weight above the least is always said.
    #[test]
    fn no_wrong_weight_goes_unsaid(
        bits in prop::collection::vec(0u8..10, 4 * 60),
        density in 1u8..6,
        overlap in 1usize..9,
        step in 1usize..9,
        p in prop::sample::select(vec![0.1, 0.2, 0.3]),
    ) {
        let (short, of) = repetition::repetition_code(4, 9, p);
        let (graph, _) = repetition::repetition_code(4, 60, p);
        let mut config = config(1);
        (config.overlap, config.step) = (overlap, step);
        let mut shared = decoder(&short, &of, &config);
        prop_assume!(shared.least_rounds() <= 60);
        let defects: Vec<u32> = (0..240).filter(|&i| bits[i as usize] < density).collect();
        let expected = MwpmDecoder::new(graph).decode(&defects).unwrap().weight();
        run(&mut shared, 4, 60, &defects);
        let found = shared.weight();
        prop_assert!(found > expected - 1e-6, "{} is less than {}", found, expected);
        prop_assert!(found < expected + 1e-6 || shared.forced() > 0, "{} instead of {}", found, expected);
    }
}
