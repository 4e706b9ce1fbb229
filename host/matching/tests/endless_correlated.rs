//! Correlated runs without end, on one core, on several and by sliding windows, against whole runs that are matched twice.

mod repetition;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{
    DecoderConfig, EndlessConfig, EndlessDecoder, EndlessRun, ErrorPart, GraphBuilder, MatchingGraph,
    MwpmDecoder, SharedEndlessConfig, SharedEndlessDecoder, SlidingConfig, SlidingDecoder,
};
use std::num::NonZeroUsize;
use std::time::Duration;

/// An error: its probability, the detectors of each part, and the observables that it flips.
struct Fault {
    probability: f64,
    parts: Vec<(Vec<u32>, Vec<u32>)>,
}

/// Two repetition codes side by side, whose qubits have errors of either code and of both. Code `k` has observable `k`. Probabilities
/// differ from place to place, so that few weights tie.
fn two_codes(checks: u32, rounds: u32, [single, both, measured]: [f64; 3]) -> (Vec<Fault>, Vec<u32>) {
    let mut faults = Vec::new();
    let uneven =
        |p: f64, place: u32| p * (0.8 + 0.4 * (f64::from(place + 1) * 0.618_033_988_749_894_9).fract());
    for t in 0..rounds {
        let node = |code: u32, check: u32| (2 * t + code) * checks + check;
        let qubit = |code: u32, qubit: u32| {
            let ends = [qubit.checked_sub(1), (qubit < checks).then_some(qubit)];
            let observables = if qubit == 0 { vec![code] } else { Vec::new() };
            (ends.into_iter().flatten().map(|check| node(code, check)).collect::<Vec<_>>(), observables)
        };
        for q in 0..=checks {
            for code in 0..2 {
                faults.push(Fault { probability: uneven(single, 2 * q + code), parts: vec![qubit(code, q)] });
            }
            faults.push(Fault { probability: uneven(both, 50 + q), parts: vec![qubit(0, q), qubit(1, q)] });
        }
        if t + 1 < rounds {
            for check in 0..2 * checks {
                let u = node(0, check);
                let part = (vec![u, u + 2 * checks], Vec::new());
                faults.push(Fault { probability: uneven(measured, 100 + check), parts: vec![part] });
            }
        }
    }
    (faults, (0..2 * checks * rounds).map(|i| i / (2 * checks)).collect())
}

fn graph(faults: &[Fault]) -> MatchingGraph {
    let mut b = GraphBuilder::new();
    for fault in faults {
        let part = |(detectors, observables): &(Vec<u32>, Vec<u32>)| (detectors.clone(), observables.clone());
        let parts: Vec<_> = fault.parts.iter().map(part).collect();
        let parts: Vec<_> =
            parts.iter().map(|(detectors, observables)| ErrorPart { detectors, observables }).collect();
        b.error(fault.probability, &parts).unwrap();
    }
    b.build().unwrap()
}

/// The defects and flipped observables of a run.
fn sample(faults: &[Fault], detectors: usize, rng: &mut Rng) -> (Vec<u32>, u64) {
    let (mut flips, mut observables) = (vec![false; detectors], 0);
    for fault in faults.iter().filter(|fault| rng.random_bool(fault.probability)).collect::<Vec<_>>() {
        for (nodes, flipped) in &fault.parts {
            nodes.iter().for_each(|&node| flips[node as usize] ^= true);
            flipped.iter().for_each(|&o| observables ^= 1 << o);
        }
    }
    ((0..detectors as u32).filter(|&i| flips[i as usize]).collect(), observables)
}

fn config(margin: usize) -> EndlessConfig {
    let mut config = EndlessConfig::default();
    (config.margin, config.correlations) = (margin, true);
    config
}

/// On so many cores, with windows that overlap by so many rounds; 0 stands for the default.
fn shared(short: &MatchingGraph, of: &[u32], cores: usize, overlap: usize) -> SharedEndlessDecoder {
    let mut config = SharedEndlessConfig::new(NonZeroUsize::new(cores).unwrap());
    (config.overlap, config.correlations) = (overlap, true);
    // A window that is late is matched twice, and takes memory for it.
    config.timeout = Duration::from_secs(20);
    SharedEndlessDecoder::new(short, of, &config, |_| {}).unwrap()
}

fn run(decoder: &mut EndlessRun, width: u32, rounds: u32, defects: &[u32]) -> u64 {
    let run = repetition::by_round(width, rounds, defects);
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

fn whole(graph: &MatchingGraph, correlations: bool) -> MwpmDecoder {
    let mut config = DecoderConfig::default();
    config.correlations = correlations;
    MwpmDecoder::with_config(graph.clone(), &config)
}

/// What became of so many runs.
#[derive(Debug, Default)]
struct Counts {
    shots: usize,
    /// Runs in whose first pass two decoders with other tables break no tie differently, and those of them that have another weight than
    /// the whole run.
    settled: usize,
    other_weight: usize,
    /// Runs whose answer is not that of the whole run.
    other_answer: usize,
    forced: usize,
    /// Wrong observables: endless, whole, and whole in one pass.
    errors: [u32; 3],
}

fn compare(
    checks: u32,
    p: [f64; 3],
    rounds: u32,
    shots: usize,
    decoder: impl Fn(&MatchingGraph, &[u32]) -> EndlessRun,
) -> Counts {
    let (faults, _) = two_codes(checks, rounds, p);
    let (short, of) = two_codes(checks, 9, p);
    let (long, short) = (graph(&faults), graph(&short));
    let mut endless = decoder(&short, &of);
    let (mut twice, mut once) = (whole(&long, true), whole(&long, false));
    let mut searches = DecoderConfig::default();
    searches.near_entries = 0;
    let mut searches = MwpmDecoder::with_config(long.clone(), &searches);
    let mut rng = Rng::seed_from_u64(7);
    let mut counts = Counts { shots, ..Counts::default() };
    for _ in 0..shots {
        let (defects, flipped) = sample(&faults, long.num_detectors(), &mut rng);
        let answer = run(&mut endless, 2 * checks, rounds, &defects);
        let solution = twice.decode(&defects).unwrap();
        let (expected, weight) = (solution.observables()[0], solution.weight());
        let plain = once.decode(&defects).unwrap().observables()[0];
        for (count, found) in counts.errors.iter_mut().zip([answer, expected, plain]) {
            *count += (found ^ flipped).count_ones();
        }
        searches.decode(&defects).unwrap();
        let settled = searches.correction() == once.correction();
        counts.settled += usize::from(settled);
        let other = (endless.weight() - weight).abs() > 1e-4 * (1.0 + weight);
        counts.other_weight += usize::from(settled && other);
        counts.other_answer += usize::from(answer != expected);
        counts.forced += usize::from(endless.forced() > 0);
    }
    counts
}

fn alone(margin: usize) -> impl Fn(&MatchingGraph, &[u32]) -> EndlessRun {
    move |short, of| {
        let decoder = EndlessDecoder::new(short, of, &config(margin)).unwrap();
        assert!(decoder.makes_second_pass());
        decoder.into()
    }
}

fn errors_are_as_many_as_of_whole_runs(decoder: impl Fn(&MatchingGraph, &[u32]) -> EndlessRun) {
    for (checks, p, shots) in [(5, [0.004, 0.03, 0.02], 600), (8, [0.01, 0.05, 0.03], 300)] {
        let counts = compare(checks, p, 200, shots, &decoder);
        let [endless, twice, once] = counts.errors;
        assert!(counts.settled > 20 && counts.other_weight * 2 < counts.settled, "{counts:?}");
        assert!(counts.other_answer * 50 <= counts.shots, "{counts:?}");
        // Answers that differ are ties, or runs in which a window was forced.
        assert!(endless.abs_diff(twice) <= 2 + twice / 20, "{counts:?}");
        assert!(endless * 5 < once * 4, "correlations pay: {counts:?}");
    }
}

#[test]
fn one_core_errs_as_whole_runs() {
    errors_are_as_many_as_of_whole_runs(alone(0));
}

#[test]
fn several_cores_err_as_whole_runs() {
    errors_are_as_many_as_of_whole_runs(|short, of| {
        let decoder = shared(short, of, 2, 0);
        assert!(decoder.makes_second_pass());
        decoder.into()
    });
}

/// Windows that keep their first rounds make few errors more than whole runs, and fewer than in one pass.
#[test]
fn sliding_windows_use_correlations() {
    let (checks, p, rounds) = (5, [0.004, 0.03, 0.02], 200);
    let (faults, _) = two_codes(checks, rounds, p);
    let (short, of) = two_codes(checks, 9, p);
    let (long, short) = (graph(&faults), graph(&short));
    let config = SlidingConfig { window: 16, commit: 8 };
    let mut once = SlidingDecoder::new(&short, &of, config).unwrap();
    let mut twice = SlidingDecoder::with_correlations(&short, &of, config).unwrap();
    let mut whole = whole(&long, true);
    let mut rng = Rng::seed_from_u64(9);
    let mut errors = [0; 3];
    for _ in 0..600 {
        let (defects, flipped) = sample(&faults, long.num_detectors(), &mut rng);
        let run = repetition::by_round(2 * checks, rounds, &defects);
        let mut answers = [0, 0, whole.decode(&defects).unwrap().observables()[0]];
        for (decoder, answer) in [&mut once, &mut twice].into_iter().zip(&mut answers) {
            let (before, last) = run.split_at(run.len() - decoder.tail_rounds());
            for round in before {
                decoder.push_round(round).unwrap();
            }
            let last: Vec<&[u32]> = last.iter().map(Vec::as_slice).collect();
            *answer = decoder.finish(&last).unwrap()[0];
        }
        for (count, answer) in errors.iter_mut().zip(answers) {
            *count += (answer ^ flipped).count_ones();
        }
    }
    let [once, twice, whole] = errors;
    assert!(twice * 5 < once * 4 && twice <= whole + whole / 10, "{errors:?}");
}

#[test]
fn a_short_overlap_is_told_and_costs_little() {
    let counts = compare(5, [0.004, 0.03, 0.02], 200, 300, |short, of| shared(short, of, 1, 1).into());
    assert!(counts.forced > 10, "{counts:?}");
    let [endless, twice, _] = counts.errors;
    assert!(endless <= 2 * twice + 10, "{counts:?}");
}

#[test]
fn the_answer_does_not_depend_on_threads() {
    let p = [0.01, 0.05, 0.03];
    let (faults, _) = two_codes(5, 200, p);
    let (short, of) = two_codes(5, 9, p);
    let (long, short) = (graph(&faults), graph(&short));
    let mut decoders = [1, 2, 4].map(|cores| EndlessRun::from(shared(&short, &of, cores, 3)));
    let mut rng = Rng::seed_from_u64(8);
    for shot in 0..100 {
        let (defects, _) = sample(&faults, long.num_detectors(), &mut rng);
        let [one, two, four] = decoders
            .each_mut()
            .map(|decoder| (run(decoder, 10, 200, &defects), decoder.weight().to_bits(), decoder.forced()));
        assert_eq!((two, four), (one, one), "shot {shot}");
    }
}

#[test]
fn a_short_margin_is_told_and_costs_little() {
    let counts = compare(5, [0.004, 0.03, 0.02], 200, 300, alone(2));
    assert!(counts.forced > 10, "{counts:?}");
    let [endless, twice, _] = counts.errors;
    assert!(endless <= 2 * twice + 10, "{counts:?}");
}

#[test]
fn without_correlations_a_run_is_matched_once() {
    let (short, of) = repetition::repetition_code(6, 8, 0.05);
    let plain = EndlessDecoder::new(&short, &of, &EndlessConfig::default()).unwrap();
    let asked = EndlessDecoder::new(&short, &of, &config(0)).unwrap();
    assert!(!asked.makes_second_pass() && !shared(&short, &of, 2, 0).makes_second_pass());
    let [mut plain, mut asked] = [plain, asked].map(EndlessRun::from);
    let (long, _) = repetition::repetition_code(6, 150, 0.05);
    let mut rng = Rng::seed_from_u64(3);
    for _ in 0..50 {
        let (defects, _) = repetition::sample(&long, 0.05, &mut rng);
        assert_eq!(run(&mut plain, 6, 150, &defects), run(&mut asked, 6, 150, &defects));
        assert_eq!(plain.weight(), asked.weight());
    }
}

#[test]
fn single_errors_are_put_right_in_runs_of_any_length() {
    let p = [0.01, 0.03, 0.02];
    let (short, of) = two_codes(3, 9, p);
    let short = graph(&short);
    let alone = EndlessDecoder::new(&short, &of, &config(4)).unwrap().into();
    for mut decoder in [alone, EndlessRun::from(shared(&short, &of, 2, 0))] {
        let least = decoder.least_rounds() as u32;
        for rounds in least..least + 12 {
            let (faults, _) = two_codes(3, rounds, p);
            for fault in &faults {
                let mut defects: Vec<u32> = fault.parts.iter().flat_map(|part| part.0.clone()).collect();
                defects.sort_unstable();
                let expected = fault.parts.iter().flat_map(|part| &part.1).fold(0, |all, o| all ^ 1 << o);
                assert_eq!(run(&mut decoder, 6, rounds, &defects), expected, "{rounds} rounds, {defects:?}");
                assert_eq!(decoder.forced(), 0);
            }
        }
    }
}

#[test]
fn a_run_of_any_length_allocates_nothing() {
    let (short, of) = two_codes(4, 9, [0.01, 0.03, 0.02]);
    let short = graph(&short);
    let mut decoder = EndlessDecoder::new(&short, &of, &config(0)).unwrap();
    let mut rng = Rng::seed_from_u64(6);
    let rounds: Vec<Vec<u32>> =
        (0..3000).map(|_| (0..8).filter(|_| rng.random_bool(0.15)).collect()).collect();
    let mut other = decoder.clone();
    for decoder in [&mut decoder, &mut other] {
        let info = allocation_counter::measure(|| {
            for round in &rounds {
                decoder.push_round(round).unwrap();
            }
            decoder.finish(&[&[1, 2]]).unwrap();
        });
        assert_eq!(info.count_total, 0);
    }
    assert_eq!(decoder.weight(), other.weight());
    for cores in [1, 3] {
        let mut decoder = shared(&short, &of, cores, 0);
        let mut run = || {
            for round in &rounds {
                decoder.push_round(round).unwrap();
            }
            decoder.finish(&[&[1, 2]]).unwrap();
        };
        run();
        assert_eq!(allocation_counter::measure(run).count_total, 0, "{cores} cores");
    }
}

proptest! {
    /// Any defects, with any margin: every defect is explained, and the next run is unaffected.
    #[test]
    fn any_run_is_explained(
        bits in prop::collection::vec(any::<bool>(), 6 * 60),
        margin in 1usize..9,
    ) {
        let p = [0.01, 0.03, 0.02];
        let (short, of) = two_codes(3, 9, p);
        let short = graph(&short);
        let alone = EndlessDecoder::new(&short, &of, &config(margin)).unwrap().into();
        for mut decoder in [alone, EndlessRun::from(shared(&short, &of, 1, margin))] {
            prop_assume!(decoder.least_rounds() <= 60);
            let defects: Vec<u32> = (0..360).filter(|&i| bits[i as usize]).collect();
            let first = (run(&mut decoder, 6, 60, &defects), decoder.weight(), decoder.forced());
            prop_assert!(first.1 >= 0.0);
            prop_assert_eq!(run(&mut decoder, 6, 60, &[]), 0);
            prop_assert_eq!((decoder.weight(), decoder.forced()), (0.0, 0));
            let again = (run(&mut decoder, 6, 60, &defects), decoder.weight(), decoder.forced());
            prop_assert_eq!(first, again);
        }
    }
}
