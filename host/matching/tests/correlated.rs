//! Correlated matching against PyMatching, against a second implementation, and on models of any shape.

#[path = "common/correlated.rs"]
mod common;

use allocation_counter::measure;
use common::{Checker, Model, Outcome};
use proptest::prelude::*;
use ringcall_matching::{
    DecoderConfig, ErrorPart, GraphBuilder, MatchingGraphError, MwpmDecoder, ParallelConfig, ParallelDecoder,
    StreamingDecoder,
};
use std::num::NonZeroU32;

fn configs() -> [DecoderConfig; 2] {
    [(256, true), (0, false)].map(|(near_entries, pair_table)| {
        let mut config = DecoderConfig::default();
        config.near_entries = near_entries;
        config.pair_table = pair_table;
        config
    })
}

/// What came out of a file.
#[derive(Debug, Default)]
struct Counts {
    checked: usize,
    /// Shots with a tie in the first, in the second pass.
    first: usize,
    second: usize,
    /// Shots predicted wrongly by us, by PyMatching; and those predicted in other ways.
    ours: usize,
    theirs: usize,
    differ: usize,
}

fn run(text: &str, thorough: usize) -> Counts {
    let mut counts = Counts::default();
    for (number, line) in text.lines().enumerate() {
        let (model, shots) = common::parse(line);
        for config in configs() {
            let mut checker = Checker::new(model.clone(), &config);
            for (i, shot) in shots.iter().enumerate() {
                let outcome = checker
                    .check(shot, i % thorough == 0)
                    .unwrap_or_else(|e| panic!("line {}, {config:?}: {:?}: {e}", number + 1, shot.defects));
                counts.checked += 1;
                counts.first += usize::from(outcome == Outcome::FirstTie);
                counts.second += usize::from(outcome == Outcome::SecondTie);
                if let Some((answer, truth)) = shot.answer.as_ref().and_then(|a| Some((a, a.truth.as_ref()?)))
                {
                    let predicted = checker.predicted(shot);
                    counts.ours += usize::from(predicted != *truth);
                    counts.theirs += usize::from(answer.observables != *truth);
                    counts.differ += usize::from(answer.observables != predicted);
                }
            }
        }
    }
    counts
}

#[test]
fn random_models_as_pymatching_decodes_them() {
    let counts = run(include_str!("data/correlated_random.txt"), 1);
    assert_eq!(counts.checked, 300 * 4 * 2);
    assert!((counts.first + counts.second) * 10 < counts.checked, "{counts:?}");
}

#[test]
fn circuits_as_pymatching_decodes_them() {
    let counts = run(include_str!("data/correlated_circuits.txt"), 40);
    assert_eq!(counts.checked, 3100 * 2);
    assert!((counts.first + counts.second) * 20 < counts.checked, "{counts:?}");
    assert!(counts.ours.abs_diff(counts.theirs) <= counts.differ, "{counts:?}");
    assert!(counts.theirs > 100 && counts.differ * 200 < counts.checked, "{counts:?}");
}

/// Models of a few detectors: parts of one or two detectors, up to four of them, probabilities of few kinds so that ties
/// and edges without weight come up.
fn models() -> impl Strategy<Value = (Model, Vec<Vec<u32>>)> {
    (2u32..14).prop_flat_map(|n| {
        let part = (0..n, prop::option::weighted(0.8, 0..n), 0u32..3).prop_map(|(u, v, o)| {
            let mut detectors = vec![u];
            detectors.extend(v.filter(|&v| v != u));
            (detectors, if o > 0 { vec![o - 1] } else { vec![] })
        });
        let p = prop_oneof![Just(0.5), Just(0.1), Just(0.0), 1e-6..0.5f64];
        let error = (p, prop::collection::vec(part, 1..5));
        let defects = prop::collection::vec(any::<bool>(), n as usize)
            .prop_map(|flags| (0..).zip(flags).filter(|x| x.1).map(|x| x.0).collect());
        (prop::collection::vec(error, 1..4 * n as usize), prop::collection::vec(defects, 3))
            .prop_map(move |(errors, shots)| (Model { detectors: n as usize, observables: 2, errors }, shots))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// The second pass is exact on the lowered weights, and leaves nothing behind: shots in any order, repeated.
    #[test]
    fn the_second_pass_is_exact_and_leaves_no_trace((model, shots) in models()) {
        for config in configs() {
            let mut checker = Checker::new(model.clone(), &config);
            let mut found = Vec::new();
            for defects in shots.iter().chain(shots.iter().rev()) {
                let weight = checker.decode(defects, true).map_err(TestCaseError::fail)?;
                found.push((weight, checker.decoder.correction().to_vec()));
            }
            let (there, back) = found.split_at(shots.len());
            prop_assert!(there.iter().eq(back.iter().rev()));
        }
    }
}

#[test]
fn nothing_is_allocated() {
    for line in include_str!("data/correlated_circuits.txt").lines() {
        let (model, shots) = common::parse(line);
        let n = model.detectors as u32;
        let mut lists: Vec<Vec<u32>> = shots.iter().map(|shot| shot.defects.clone()).collect();
        lists.extend([2, 3, 5, 10].map(|step| (0..n).step_by(step).collect()));
        lists.extend([(0..n).collect(), vec![n], vec![0, n - 1], vec![1, 1]]);
        for config in configs() {
            let mut checker = Checker::new(model.clone(), &config);
            let mut changed = 0;
            let info = measure(|| {
                for defects in &lists {
                    let solved = checker.decoder.decode(defects).map(|s| s.pairs().len());
                    changed += checker.decoder.correction().len().min(solved.unwrap_or(0));
                }
            });
            assert_eq!(info.count_total, 0, "{n} detectors, {config:?}");
            assert!(changed > 1000);
        }
    }
}

/// A decoder that is given a syndrome in parts, by these rounds.
trait InParts {
    fn on(decoder: &MwpmDecoder, rounds: &[u32]) -> Self;
    fn decode(&mut self, rounds: &[u32], defects: &[u32]) -> (i64, u64);
    fn edges(&mut self) -> &[u32];
    fn prove(&mut self);
}

impl InParts for StreamingDecoder {
    fn on(decoder: &MwpmDecoder, rounds: &[u32]) -> Self {
        Self::new(decoder, rounds).unwrap()
    }
    fn decode(&mut self, rounds: &[u32], defects: &[u32]) -> (i64, u64) {
        let (mut from, mut found) = (0, None);
        for round in 0..self.num_rounds() as u32 {
            let end = defects.partition_point(|&d| rounds[d as usize] <= round);
            let solution = self.push_round(&defects[from..end]).unwrap();
            found = solution.map(|s| (s.grid_weight(), s.observables()[0]));
            from = end;
        }
        found.expect("that was the last round")
    }
    fn edges(&mut self) -> &[u32] {
        self.correction()
    }
    fn prove(&mut self) {
        self.verify().unwrap();
    }
}

impl InParts for ParallelDecoder {
    fn on(decoder: &MwpmDecoder, rounds: &[u32]) -> Self {
        let mut config = ParallelConfig::new(2.try_into().unwrap());
        (config.least_defects, config.least_rounds) = (0, NonZeroU32::new(1));
        Self::new(decoder, rounds, &config).unwrap()
    }
    fn decode(&mut self, _: &[u32], defects: &[u32]) -> (i64, u64) {
        let solution = self.decode(defects).unwrap();
        (solution.grid_weight(), solution.observables()[0])
    }
    fn edges(&mut self) -> &[u32] {
        self.correction()
    }
    fn prove(&mut self) {
        self.verify().unwrap();
    }
}

/// In parts, a syndrome has the second pass of a whole one, on the weights that its own first pass lowers.
fn second_passes_of<D: InParts>() {
    let mut config = DecoderConfig::default();
    let (mut all, mut same, mut lighter) = (0, 0, 0);
    for line in include_str!("data/correlated_circuits.txt").lines() {
        let (model, shots) = common::parse(line);
        let shots = &shots[..shots.len().min(150)];
        all += shots.len();
        let rounds: Vec<u32> = (0..model.detectors as u32).map(|d| d * 6 / model.detectors as u32).collect();
        let mut whole = Checker::new(model.clone(), &config);
        let graph = model.graph().unwrap();
        let [mut once, mut twice] = [false, true].map(|correlations| {
            config.correlations = correlations;
            D::on(&MwpmDecoder::with_config(graph.clone(), &config), &rounds)
        });
        for shot in shots {
            let plain = once.decode(&rounds, &shot.defects).0;
            let edges = once.edges().iter().map(|&e| &graph.edges()[e as usize]);
            let first: Vec<_> = edges.map(|e| (e.u, e.v)).collect();
            let (weight, observables) = twice.decode(&rounds, &shot.defects);
            assert_eq!(weight, whole.second(&first, &shot.defects));
            twice.prove();
            let mut flipped = shot.defects.clone();
            for &edge in twice.edges() {
                let edge = &graph.edges()[edge as usize];
                flipped.extend([Some(edge.u), edge.v].into_iter().flatten());
            }
            flipped.sort_unstable();
            assert!(flipped.chunk_by(|a, b| a == b).all(|of_one| of_one.len() % 2 == 0));
            lighter += usize::from(weight < plain);
            let at_once = whole.decoder.decode(&shot.defects).unwrap();
            same += usize::from((at_once.grid_weight(), at_once.observables()[0]) == (weight, observables));
        }
        let info = measure(|| {
            for shot in shots {
                twice.decode(&rounds, &shot.defects);
                twice.edges();
            }
        });
        assert_eq!(info.count_total, 0);
    }
    // Another first pass of the same weight may lead elsewhere.
    assert!(same * 20 > all * 19 && lighter * 2 > all, "{same}, {lighter} of {all}");
}

#[test]
fn a_stream_makes_the_second_pass_after_the_last_round() {
    second_passes_of::<StreamingDecoder>();
}

#[test]
fn several_cores_leave_the_second_pass_to_one() {
    second_passes_of::<ParallelDecoder>();
}

#[test]
fn without_correlations_nothing_changes() {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 1.0, &[0]).unwrap().edge(0, 1, -0.5, &[]).unwrap();
    b.error(0.1, &[ErrorPart { detectors: &[1, 2], observables: &[] }]).unwrap();
    let graph = b.build().unwrap();
    assert_eq!(graph.num_correlations(), 0);
    let mut config = DecoderConfig::default();
    config.correlations = true;
    let (mut with, mut without) = (MwpmDecoder::with_config(graph.clone(), &config), MwpmDecoder::new(graph));
    for defects in [&[][..], &[0], &[1], &[0, 1, 2]] {
        assert_eq!(with.decode(defects), without.decode(defects));
        assert_eq!(with.correction(), without.correction());
        with.verify().unwrap();
    }
}

/// Two errors that look alike to the first pass: only the second one sees that a pair is explained by one of them.
#[test]
fn a_shared_error_decides() {
    let part = |detectors, observables| ErrorPart { detectors, observables };
    let mut b = GraphBuilder::new();
    b.error(0.01, &[part(&[0, 1], &[]), part(&[2, 3], &[0])]).unwrap();
    b.error(0.012, &[part(&[2], &[])]).unwrap().error(0.99 / 2.0, &[part(&[3], &[])]).unwrap();
    b.error(0.001, &[part(&[0], &[])]).unwrap().error(0.001, &[part(&[1], &[])]).unwrap();
    let graph = b.build().unwrap();
    let mut config = DecoderConfig::default();
    assert!(!MwpmDecoder::with_config(graph.clone(), &config).decode(&[0, 1, 2, 3]).unwrap().flips(0));
    config.correlations = true;
    let mut decoder = MwpmDecoder::with_config(graph, &config);
    assert!(decoder.decode(&[0, 1, 2, 3]).unwrap().flips(0));
    assert!(!decoder.decode(&[2, 3]).unwrap().flips(0), "and is forgotten again");
}

#[test]
fn errors_that_make_no_sense() {
    let part = |detectors| ErrorPart { detectors, observables: &[] };
    let mut b = GraphBuilder::new();
    for probability in [0.6, -0.1, f64::NAN, 1.0] {
        assert!(matches!(
            b.error(probability, &[part(&[0])]),
            Err(MatchingGraphError::ErrorProbability { .. })
        ));
    }
    let refused = b.error(0.1, &[part(&[0]), part(&[1, 2, 3])]).unwrap_err();
    assert_eq!(refused, MatchingGraphError::PartSize { part: 1, detectors: 3 });
    let refused = b.error(0.1, &[part(&[0]), part(&[])]).unwrap_err();
    assert_eq!(refused, MatchingGraphError::PartSize { part: 1, detectors: 0 });
    assert!(matches!(
        b.error(0.1, &[part(&[0]), part(&[u32::MAX])]),
        Err(MatchingGraphError::DetectorOutOfRange { .. })
    ));
    b.error(0.1, &[part(&[])]).unwrap().error(0.0, &[part(&[0]), part(&[1])]).unwrap();
    assert_eq!(
        b.build().unwrap().num_edges(),
        0,
        "a refused error leaves nothing, nor does one without effect"
    );
    assert_eq!(b.correlate(0.1, &[0]).unwrap_err(), MatchingGraphError::NoSuchEdge { edge: 0, edges: 0 });
    b.boundary_edge(0, -1.0, &[]).unwrap().error(0.1, &[part(&[0]), part(&[1])]).unwrap();
    assert!(matches!(b.build(), Err(MatchingGraphError::CorrelatedNegative { .. })));
}
