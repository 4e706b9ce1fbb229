//! A study, whole and in pieces. The predecoder is a made-up network: its logits are what goes in, so with a threshold
//! below 1 it claims an error wherever a detector fired, which is often wrong and sometimes right.

use ringcall_decoder_service::study::{
    Arm, Matching, Outcome, Point, Relay, ShotCounts, State, StateError, Stop, Study, StudyError,
};
use ringcall_decoder_service::{Inference, Predecoder, Problem};
use ringcall_infer::{ElementType, Engine, InferError, Model, Passthrough, TensorSpec, check_buffers};
use ringcall_qec::circuit::{Code, DetectorBases, Experiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{
    DecodingGraph, MatchingDecoder, MatchingEngine, OrderedStatistics, ParallelEdges, ShotDecoder,
};
use ringcall_qec::sample::Sampler;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SEED: u64 = 5;

fn point(distance: u32, p: f64) -> Point {
    Point::surface(distance, distance, Basis::Z, p)
}

fn network(point: &Point) -> Result<Arc<dyn Model>, Failure> {
    let d = point.distance as usize;
    let shape = [1, 4, point.rounds as usize + 1, d, d];
    let copies = Passthrough::new("n", vec![TensorSpec::new("x", ElementType::F32, shape)?])?;
    Ok(Arc::new(Predecoder::new(Arc::new(copies), &point.surface().ok_or("another code")?, Some(0.6))?))
}

fn bind(point: &Point) -> Result<Inference, Failure> {
    Ok(Inference::Model(network(point)?))
}

/// The same network between bits, as an engine on a device has it.
struct Bits {
    bytes: Arc<dyn Model>,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

fn bind_bits(point: &Point) -> Result<Inference, Failure> {
    let bytes = network(point)?;
    let packed = bytes.inputs()[0].elements().div_ceil(8);
    let spec = |name, n| Ok::<_, InferError>(vec![TensorSpec::new(name, ElementType::U8, [1, n])?]);
    let (inputs, outputs) = (spec("bits", packed)?, spec("left", packed + 1)?);
    Ok(Inference::Packed(Arc::new(Bits { bytes, inputs, outputs })))
}

impl Model for Bits {
    fn name(&self) -> &str {
        "bits"
    }
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }
    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }
    fn metadata(&self) -> &[(String, String)] {
        &[]
    }
    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        let engine = self.bytes.instantiate()?;
        Ok(Box::new(BitsEngine { engine, inputs: self.inputs.clone(), outputs: self.outputs.clone() }))
    }
}

struct BitsEngine {
    engine: Box<dyn Engine>,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl Engine for BitsEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }
    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }
    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        check_buffers(&self.inputs, &self.outputs, inputs, outputs)?;
        let n = self.engine.inputs()[0].elements();
        let bits: Vec<u8> = (0..n).map(|i| inputs[0][i / 8] >> (i % 8) & 1).collect();
        let (mut residual, mut frame) = (vec![0; n], [0]);
        self.engine.run(&[&bits], &mut [&mut residual, &mut frame])?;
        outputs[0].fill(0);
        for (i, left) in residual.iter().enumerate() {
            outputs[0][i / 8] |= left << (i % 8);
        }
        outputs[0][n.div_ceil(8)] = frame[0];
        Ok(())
    }
}

fn study(threads: usize, errors: Option<u64>) -> Study<'static> {
    Study {
        program: String::new(),
        seed: SEED,
        batch_shots: 50,
        matching: Matching::Plain,
        relay: Relay::default(),
        deadline: None,
        predecoder: Some(Arm { label: "made up".to_owned(), bind: &bind }),
        points: vec![point(3, 0.02), point(5, 0.02), point(3, 0.01)],
        models: BTreeMap::new(),
        stop: Stop { shots: 1000, errors },
        threads,
        shard: None,
    }
}

/// Counts without times.
fn counts(study: &Study<'_>, state: &State) -> Vec<(ShotCounts, bool)> {
    let counted = |point| {
        let Outcome { mut counts, complete } = state.outcome(point, &study.stop);
        counts.matching_ns = 0;
        if let Some(arm) = &mut counts.predecoder {
            (arm.inference_ns, arm.matching_ns) = (0, 0);
        }
        if let Some(plain) = &mut counts.plain {
            plain.matching_ns = 0;
            plain.predecoder.iter_mut().for_each(|arm| arm.matching_ns = 0);
        }
        (counts, complete)
    };
    study.points.iter().map(counted).collect()
}

fn whole(study: &Study<'_>) -> (State, Vec<u8>) {
    let (mut state, mut log) = (State::new(study.setup()), Vec::new());
    assert!(study.run(&mut state, &mut log, &mut |_| true).unwrap());
    (state, log)
}

fn read(study: &Study<'_>, log: &[u8]) -> Result<(State, u64), StateError> {
    State::read(&mut &*log, study.setup())
}

#[test]
fn counts_do_not_depend_on_threads() {
    for errors in [None, Some(20)] {
        let one = study(1, errors);
        let expected = counts(&one, &whole(&one).0);
        assert!(expected.iter().all(|(_, complete)| *complete));
        let all_shots = expected.iter().all(|(counts, _)| counts.shots == 1000);
        assert_eq!(all_shots, errors.is_none(), "{expected:?}");
        let four = study(4, errors);
        assert_eq!(counts(&four, &whole(&four).0), expected);
    }
}

/// All arms, on the same shots, against decoders of each kind used directly.
#[test]
fn the_arms_decode_the_shots_of_a_plain_sampler() {
    let point = study(1, None).points[1];
    let model = point.detector_error_model().unwrap();
    let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
    let mut decoders = [MatchingEngine::SparseBlossom, MatchingEngine::CorrelatedBlossom]
        .map(|engine| ShotDecoder::new(MatchingDecoder::new(&graph, engine).unwrap()));
    let engine = network(&point).unwrap();
    let mut engine = engine.instantiate().unwrap();
    let n = model.num_detectors as usize;
    let (mut fired, mut left) = (0, 0);
    // How often both of two arms are wrong: plain and correlated alone, then both after the network.
    let mut wrongs = [[0; 4]; 4];
    for batch in 0..20 {
        let mut sampler = Sampler::new(&model, point.seed(SEED, batch)).unwrap();
        let mut shot = sampler.new_shot();
        let mut predicted = shot.observables.clone();
        for _ in 0..50 {
            sampler.sample_into(&mut shot).unwrap();
            let bits: Vec<u8> = (0..n).map(|i| u8::from(shot.detectors.get(i as u32).unwrap())).collect();
            let (mut residual, mut frame) = (vec![0; n], [0]);
            engine.run(&[&bits], &mut [&mut residual, &mut frame]).unwrap();
            let mut rest = shot.detectors.clone();
            (0..n).for_each(|i| _ = rest.set(i as u32, residual[i] == 1));
            fired += u64::from(shot.detectors.count_ones());
            left += u64::from(rest.count_ones());
            let mut wrong = [false; 4];
            for (kind, decoder) in decoders.iter_mut().enumerate() {
                decoder.decode(&shot.detectors, &mut predicted).unwrap();
                wrong[kind] = predicted != shot.observables;
                decoder.decode(&rest, &mut predicted).unwrap();
                if frame[0] == 1 {
                    predicted.flip(0);
                }
                wrong[2 + kind] = predicted != shot.observables;
            }
            for (i, row) in wrongs.iter_mut().enumerate() {
                row.iter_mut().zip(wrong).for_each(|(sum, other)| *sum += u64::from(wrong[i] && other));
            }
        }
    }
    let [plain, correlated] = [Matching::Plain, Matching::Correlated];
    let all = [(plain, false), (correlated, false), (plain, true), (correlated, true)];
    for (matching, arms) in [(plain, &[0, 2][..]), (correlated, &[1, 3]), (Matching::Both, &[0, 1, 2, 3])] {
        let study = Study { matching, points: vec![point], ..study(2, None) };
        let counts = counts(&study, &whole(&study).0)[0].0;
        assert_eq!((counts.shots, counts.detectors, counts.fired), (1000, 1000 * n as u64, fired));
        assert_eq!(counts.correlated, matching != plain);
        let expected = |&arm: &usize| {
            let (kind, predecoder) = all[arm];
            (kind, predecoder, wrongs[arm][arm], wrongs[arms[0]][arm])
        };
        let found: Vec<_> =
            counts.arms().iter().map(|arm| (arm.matching, arm.predecoder, arm.errors, arm.both)).collect();
        assert_eq!(found, arms.iter().map(expected).collect::<Vec<_>>());
        let after = counts.predecoder.unwrap();
        let own = usize::from(matching != plain);
        assert_eq!((after.fired, after.both), (left, wrongs[own][2 + own]));
        assert_eq!(counts.paired().unwrap().second, wrongs[2 + own][2 + own]);
    }
    let errors: std::collections::BTreeSet<_> = (0..4).map(|arm| wrongs[arm][arm]).collect();
    assert!(errors.len() == 4 && wrongs[0][3] > 0, "the arms differ: {wrongs:?}");
}

#[test]
fn a_predecoder_between_bits_counts_as_one_between_elements() {
    let elements = study(2, None);
    let bits =
        Study { predecoder: Some(Arm { label: "made up".to_owned(), bind: &bind_bits }), ..study(2, None) };
    assert_eq!(counts(&bits, &whole(&bits).0), counts(&elements, &whole(&elements).0));
}

/// A predecoder that does nothing is an arm like any other.
#[test]
fn nothing_before_matching_is_matching_alone() {
    let nothing = |_: &Point| Ok::<_, Failure>(Inference::None);
    let study =
        Study { predecoder: Some(Arm { label: "none".to_owned(), bind: &nothing }), ..study(1, None) };
    for (counts, _) in counts(&study, &whole(&study).0) {
        let arm = counts.predecoder.expect("an arm");
        assert_eq!((arm.errors, arm.both, arm.fired), (counts.errors, counts.errors, counts.fired));
    }
}

/// Killed anywhere: the log ends in the middle of a line, and a continued run completes the same counts.
#[test]
fn a_log_cut_anywhere_goes_on_to_the_same_end() {
    let study = Study { matching: Matching::Both, ..study(2, Some(20)) };
    let (state, log) = whole(&study);
    let expected = counts(&study, &state);
    for cut in [0, 1, 60, log.len() / 3, log.len() / 2, log.len() - 1, log.len()] {
        let (mut state, bytes) = read(&study, &log[..cut]).unwrap();
        assert!(bytes <= cut as u64 && log[..bytes as usize].last().is_none_or(|&b| b == b'\n'));
        let mut rest = log[..bytes as usize].to_vec();
        assert!(study.run(&mut state, &mut rest, &mut |_| true).unwrap());
        assert_eq!(counts(&study, &state), expected, "cut at {cut}");
        // No batch is listed twice, and reading the whole log again gives the same state.
        assert_eq!(counts(&study, &read(&study, &rest).unwrap().0), expected);
        let text = String::from_utf8(rest).unwrap();
        let mut batches: Vec<&str> =
            text.lines().skip(1).map(|l| l.split(",\"counts").next().unwrap()).collect();
        let all = batches.len();
        batches.sort_unstable();
        batches.dedup();
        assert_eq!(batches.len(), all, "cut at {cut}");
    }
}

#[test]
fn stopped_by_the_caller_it_goes_on_later() {
    let study = study(2, None);
    let (mut state, mut log) = (State::new(study.setup()), Vec::new());
    let mut asked = 0;
    let mut some = |_: &_| {
        asked += 1;
        asked < 8
    };
    assert!(!study.run(&mut state, &mut log, &mut some).unwrap());
    assert!(counts(&study, &state).iter().any(|(_, complete)| !complete));
    assert!(study.run(&mut state, &mut log, &mut |_| true).unwrap());
    assert_eq!(counts(&study, &state), counts(&study, &whole(&study).0));
}

#[test]
fn more_points_and_more_shots_keep_what_was_found() {
    let few =
        Study { stop: Stop { shots: 200, errors: None }, points: vec![point(3, 0.02)], ..study(1, None) };
    let (_, log) = whole(&few);
    let more = study(1, None);
    let (mut state, _) = read(&more, &log).unwrap();
    let mut rest = Vec::new();
    assert!(more.run(&mut state, &mut rest, &mut |_| true).unwrap());
    assert_eq!(counts(&more, &state), counts(&more, &whole(&more).0));
    assert_eq!(rest.iter().filter(|&&b| b == b'\n').count(), 60 - 4, "four batches were there");
}

#[test]
fn other_states_are_refused() {
    let study = study(1, Some(5));
    let (state, log) = whole(&study);
    let text = String::from_utf8(log.clone()).unwrap();
    let other = |change: &dyn Fn(&mut Study<'static>)| {
        let mut other = self::study(1, Some(5));
        change(&mut other);
        let error = read(&other, &log).unwrap_err();
        assert!(matches!(error, StateError::OtherSetup { .. }), "{error}");
        let mut state = state.clone();
        let error = other.run(&mut state, &mut Vec::new(), &mut |_| true).unwrap_err();
        assert!(matches!(error, StudyError::OtherState(_)), "{error}");
    };
    other(&|study| study.program.push('2'));
    other(&|study| study.seed += 1);
    other(&|study| study.batch_shots += 1);
    other(&|study| study.matching = Matching::Correlated);
    other(&|study| study.matching = Matching::Both);
    other(&|study| study.predecoder = None);
    other(&|study| study.predecoder.as_mut().unwrap().label.push('!'));

    let refused = |text: &str, part: &str| {
        let error = read(&study, text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused("no state\n", "line 1: no state");
    refused("{\"ringcall_sweep\":1}\n", "version 1, not 4");
    refused(&format!("{text}\n{text}"), "line ");
    // An edited count is not believed, whether or not it is possible.
    refused(&text.replacen("\"shots\":50", "\"shots\":49", 1), "checksum is wrong");
    refused(&text.replacen("\"errors\":", "\"errors\":9", 1), "checksum is wrong");
    refused(&text.replacen("\"crc32\":\"", "\"crc32\":\"x", 1), "checksum");
    // Files of others, that end without a line's end: not ours to cut.
    refused("notes", "line 1: no line of this state");
    refused(&format!("{text}and notes"), "without an end");
    // A line that is whole, of another study.
    let other = Study { seed: 2, ..self::study(1, Some(5)) };
    let foreign = String::from_utf8(whole(&other).1).unwrap();
    refused(&format!("{text}{}\n", foreign.lines().nth(1).unwrap()), "checksum is wrong");
    let line = text.lines().nth(1).unwrap();
    // The same twice is no news.
    assert_eq!(
        counts(&study, &read(&study, format!("{text}{line}\n").as_bytes()).unwrap().0),
        counts(&study, &state)
    );
    refused(&"x".repeat(1 << 17), "longer than");
}

#[test]
fn what_fails_is_said_and_what_was_done_is_kept() {
    let mut study = study(2, None);
    study.points[1].experiment.distance = 4;
    let (mut state, mut log) = (State::new(study.setup()), Vec::new());
    let error = study.run(&mut state, &mut log, &mut |_| true).unwrap_err().to_string();
    assert!(error.starts_with("d4/r5/z/p0.02: "), "{error}");
    assert!(counts(&study, &read(&study, &log).unwrap().0)[0].1, "the point before it is whole");

    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = study.run(&mut State::new(study.setup()), &mut Full, &mut |_| true).unwrap_err();
    assert!(matches!(error, StudyError::State(_)), "{error}");

    let wrong = |_: &Point| Err::<Inference, Failure>("no such file".into());
    study.predecoder = Some(Arm { label: "made up".to_owned(), bind: &wrong });
    study.points.remove(1);
    let error = study.run(&mut State::new(study.setup()), &mut Vec::new(), &mut |_| true).unwrap_err();
    assert_eq!(error.to_string(), "d3/r3/z/p0.02: no such file");
}

/// Noise above one half has errors that are likelier than not, which correlated matching does not take.
#[test]
fn a_point_without_correlations_to_use_is_matched_in_one_pass() {
    let one = |p, matching| {
        let study = Study {
            matching,
            relay: Relay::default(),
            deadline: None,
            predecoder: None,
            points: vec![point(3, p)],
            stop: Stop { shots: 200, errors: None },
            ..study(1, None)
        };
        counts(&study, &whole(&study).0)[0].0
    };
    let [plain, correlated] = [Matching::Plain, Matching::Correlated].map(|matching| one(0.6, matching));
    assert!(!correlated.correlated && plain == correlated, "{plain:?}, {correlated:?}");
    assert_eq!(one(0.6, Matching::Both), plain, "there is nothing to compare it with");
    assert!(one(0.02, Matching::Correlated).correlated);
}

#[test]
fn points_and_batches_have_shots_of_their_own() {
    let a = point(3, 0.01);
    let x = Point::from(Experiment { basis: Basis::X, ..a.experiment });
    let code = |code| Point::from(Experiment { p: 0.01, ..Experiment::of(code) });
    let both = Point::from(Experiment { detectors: DetectorBases::Both, ..code(Code::Bb144).experiment });
    let seeds = [a.seed(1, 0), a.seed(1, 1), a.seed(2, 0), x.seed(1, 0), point(5, 0.01).seed(1, 0)];
    let seeds = seeds.into_iter().chain(Code::ALL.map(|name| code(name).seed(1, 0))).chain([both.seed(1, 0)]);
    let seeds: Vec<u64> = seeds.collect();
    let distinct: std::collections::BTreeSet<_> = seeds.iter().collect();
    assert_eq!(distinct.len(), seeds.len());
    assert_eq!(x.to_string(), "d3/r3/x/p0.01");
    assert_eq!(code(Code::Color).to_string(), "color/d7/r7/p0.01");
    assert_eq!(code(Code::Bb144).to_string(), "bb144/r12/z/p0.01");
    assert_eq!(both.to_string(), "bb144/r12/z/both/p0.01");
    assert!(Problem::new(a.detector_error_model().unwrap()).is_ok());
}

/// A code whose errors flip three detectors and more is decoded by Relay-BP whatever kind of matching is asked for, and the
/// surface code where Relay-BP is asked for.
#[test]
fn relay_takes_the_place_of_matching_where_it_must_or_shall() {
    let bicycle = Point::from(Experiment { rounds: 2, p: 0.004, ..Experiment::of(Code::Bb72) });
    let surface = point(3, 0.01);
    let study = |matching| Study {
        program: String::new(),
        seed: 5,
        batch_shots: 200,
        matching,
        relay: Relay::default(),
        deadline: None,
        predecoder: None,
        points: vec![bicycle, surface],
        models: BTreeMap::new(),
        stop: Stop { shots: 400, errors: None },
        threads: 2,
        shard: None,
    };
    for (matching, of_surface) in [
        (Matching::Plain, Matching::Plain),
        (Matching::Correlated, Matching::Correlated),
        (Matching::Relay, Matching::Relay),
    ] {
        let study = study(matching);
        let (mut state, mut log) = (State::new(study.setup()), Vec::new());
        assert!(study.run(&mut state, &mut log, &mut |_| true).unwrap());
        let [bicycle, surface] = [&bicycle, &surface].map(|point| state.outcome(point, &study.stop).counts);
        assert_eq!((bicycle.matching(), surface.matching()), (Some(Matching::Relay), Some(of_surface)));
        // One wrong shot flips several of the twelve observables as a rule, and one of the surface code the only one.
        assert!(
            (1..40).contains(&bicycle.errors) && bicycle.observable_errors > bicycle.errors,
            "{bicycle:?}"
        );
        assert!((1..40).contains(&surface.errors), "{surface:?}");
        assert_eq!(surface.observable_errors, surface.errors);
        let (again, _) = State::read(&mut &log[..], study.setup()).unwrap();
        assert_eq!(again.outcome(&study.points[0], &study.stop).counts, bicycle);
    }
    // Of five solutions the lightest is wrong less often than the first; a few iterations leave many shots open.
    let counts = |relay| {
        let study = Study { relay, stop: Stop { shots: 1000, errors: None }, ..study(Matching::Relay) };
        let mut state = State::new(study.setup());
        assert!(study.run(&mut state, &mut Vec::new(), &mut |_| true).unwrap());
        state.outcome(&study.points[0], &study.stop).counts
    };
    let first = counts(Relay::default());
    let order = Some(OrderedStatistics::CombinationSweep(5));
    let (five, few, ordered) = (
        counts(Relay { solutions: 5, ..Relay::default() }),
        counts(Relay { iterations: 2, ..Relay::default() }),
        counts(Relay { iterations: 2, ordered: order, ..Relay::default() }),
    );
    assert!(ordered.unconverged == 0 && ordered.errors < few.errors, "{few:?}, {ordered:?}");
    assert!(five.errors <= first.errors && first.errors < few.errors, "{first:?}, {five:?}, {few:?}");
    assert!(first.unconverged < few.unconverged && few.unconverged < 1000, "{first:?}, {few:?}");
}
