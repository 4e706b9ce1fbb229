//! Correlated matching in the service: the answers of the decoder used directly, shot for shot, and fewer errors.

use ringcall::wire::qec::read_decode_result;
use ringcall_decoder_service::study::{Matching, Point, Relay, State, Stop, Study};
use ringcall_decoder_service::{
    Inference, Pace, Predecoder, Problem, ProblemError, ResidualDecoder, Service, ServiceConfig, ShotSource,
};
use ringcall_infer::{ElementType, Model, Passthrough, TensorSpec};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{
    DecodeError, Decoder, DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges,
};
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::ShotFormat;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

const SHOTS: u64 = 1500;
const KINDS: [MatchingEngine; 2] = [MatchingEngine::SparseBlossom, MatchingEngine::CorrelatedBlossom];

fn experiment() -> MemoryExperiment {
    MemoryExperiment { distance: 5, rounds: 4, basis: Basis::Z, noise: CircuitNoise::uniform(0.012) }
}

fn model() -> DetectorErrorModel {
    experiment().detector_error_model().unwrap()
}

/// The decoder itself, without the service.
fn direct(kind: MatchingEngine) -> MatchingDecoder {
    let graph = DecodingGraph::from_dem(&model(), ParallelEdges::Independent).unwrap();
    MatchingDecoder::new(&graph, kind).unwrap()
}

/// Sampled syndromes, a byte a detector.
fn syndromes() -> Vec<Vec<u8>> {
    let mut sampler = Sampler::new(&model(), 11).unwrap();
    let mut shot = sampler.new_shot();
    let one = |_| {
        sampler.sample_into(&mut shot).unwrap();
        (0..shot.detectors.len()).map(|i| u8::from(shot.detectors.get(i) == Some(true))).collect()
    };
    (0..SHOTS).map(one).collect()
}

/// A network that claims an error wherever a detector fired: often wrong, and never silent.
fn network() -> Arc<dyn Model> {
    let spec = TensorSpec::new("x", ElementType::F32, [1, 4, 5, 5, 5]).unwrap();
    let copies = Passthrough::new("copies", vec![spec]).unwrap();
    Arc::new(Predecoder::new(Arc::new(copies), &experiment(), Some(0.6)).unwrap())
}

/// The residual of a syndrome and the frame, after the network or without it.
type Left = (Vec<u8>, u8);

fn left(syndromes: &[Vec<u8>], network: Option<&dyn Model>) -> Vec<Left> {
    let mut engine = network.map(|network| network.instantiate().unwrap());
    let one = |detectors: &Vec<u8>| match &mut engine {
        None => (detectors.clone(), 0),
        Some(engine) => {
            let (mut residual, mut frame) = (vec![0; detectors.len()], [0]);
            engine.run(&[detectors], &mut [&mut residual, &mut frame]).unwrap();
            (residual, frame[0])
        }
    };
    syndromes.iter().map(one).collect()
}

/// The observable that the decoder predicts of each shot.
fn predictions(left: &[Left], kind: MatchingEngine) -> Vec<u8> {
    let mut decoder = direct(kind);
    let one = |(residual, frame): &Left| {
        let defects: Vec<u32> = (0..).zip(residual).filter(|(_, set)| **set == 1).map(|(i, _)| i).collect();
        let mut observables = [0];
        decoder.decode(&defects, &mut observables).unwrap();
        observables[0] ^ frame
    };
    left.iter().map(one).collect()
}

/// How many answers of a service differ from these.
fn differ(problem: &Problem, inference: &Inference, syndromes: &[Vec<u8>], expected: &[u8]) -> u64 {
    let mut text = String::new();
    for (detectors, observable) in syndromes.iter().zip(expected) {
        text.extend(detectors.iter().chain([observable]).map(|bit| if *bit == 1 { '1' } else { '0' }));
        text.push('\n');
    }
    let source = ShotSource::read(problem, Cursor::new(text), ShotFormat::Text01, true).unwrap();
    let config = ServiceConfig { workers: 2, request_timeout: None, ..ServiceConfig::default() };
    let service = Service::start(problem, inference, config).unwrap();
    let pace = Pace { requests: None, duration: None, interval: Duration::ZERO };
    let summary = service.drive(source, pace, &mut |_| true).unwrap();
    assert_eq!((summary.stats.succeeded, summary.lost(), summary.rate.shots), (SHOTS, 0, SHOTS));
    summary.rate.errors
}

#[test]
fn a_service_answers_as_the_decoder_does_shot_for_shot() {
    let syndromes = syndromes();
    let network = network();
    for inference in [Inference::None, Inference::Model(Arc::clone(&network))] {
        let before = matches!(inference, Inference::Model(_)).then_some(&*network);
        let left = left(&syndromes, before);
        let expected = KINDS.map(|kind| predictions(&left, kind));
        let between = expected[0].iter().zip(&expected[1]).filter(|(a, b)| a != b).count() as u64;
        assert!(between > 0, "both kinds predict the same: this would prove nothing");
        for (kind, expected, other) in
            [(KINDS[0], &expected[0], &expected[1]), (KINDS[1], &expected[1], &expected[0])]
        {
            let problem = Problem::with_matching(model(), Some(kind)).unwrap();
            assert_eq!(problem.matching(), Some(kind));
            assert_eq!(differ(&problem, &inference, &syndromes, expected), 0, "{kind:?}, {inference:?}");
            assert_eq!(differ(&problem, &inference, &syndromes, other), between);
        }
    }
}

/// What every worker answers by, wherever inference ran.
#[test]
fn answers_are_made_without_allocation() {
    let problem = Problem::with_matching(model(), None).unwrap();
    let left = left(&syndromes(), Some(&*network()));
    let expected = predictions(&left, MatchingEngine::CorrelatedBlossom);
    let pack = |(residual, frame): &Left| {
        let mut bytes = vec![0; problem.inferred_bytes()];
        residual.iter().enumerate().for_each(|(i, bit)| bytes[i / 8] |= bit << (i % 8));
        *bytes.last_mut().unwrap() = *frame;
        bytes
    };
    let packed: Vec<Vec<u8>> = left.iter().map(pack).collect();
    let mut decoder = ResidualDecoder::new(&problem).unwrap();
    let (schema, mut answer) = (problem.schema(), vec![0; problem.result_bytes()]);
    let mut differ = 0;
    let info = allocation_counter::measure(|| {
        for (left, expected) in packed.iter().zip(&expected) {
            let len = decoder.decode(left, &mut answer).unwrap();
            let (predicted, _) = read_decode_result(&schema, &answer[..len]).unwrap();
            differ += u64::from(u8::from(predicted.ones().next().is_some()) != *expected);
        }
    });
    assert_eq!((info.count_total, differ), (0, 0));
}

#[test]
fn it_is_used_where_the_model_has_correlations() {
    let read = |text: &str| ringcall_qec::dem::text::parse(text).unwrap();
    let kind = |text, matching| {
        Problem::with_matching(read(text), matching).map(|problem| problem.matching().unwrap())
    };
    let (single, likely) = ("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0", "error(0.6) D0 ^ D1 L0");
    let both = "error(0.1) D0 ^ D1 L0\nerror(0.1) D0\nerror(0.1) D1 L0";
    let [plain, correlated] = KINDS;
    assert_eq!(kind(both, None).unwrap(), correlated);
    assert_eq!(kind(both, Some(plain)).unwrap(), plain);
    assert_eq!(kind(both, Some(correlated)).unwrap(), correlated);
    assert_eq!((kind(single, None).unwrap(), kind(likely, None).unwrap()), (plain, plain));
    let refused = kind(single, Some(correlated)).unwrap_err();
    assert!(matches!(refused, ProblemError::NoCorrelations), "{refused}");
    let refused = kind(likely, Some(correlated)).unwrap_err();
    assert!(matches!(refused, ProblemError::Decode(DecodeError::Likely { .. })), "{refused}");
}

/// On the same shots of a memory experiment, whose model has the detectors of both bases.
#[test]
fn it_makes_fewer_errors() {
    let errors = |matching| {
        let study = Study {
            deadline: None,
            program: String::new(),
            seed: 3,
            batch_shots: 1000,
            matching,
            relay: Relay::default(),
            predecoder: None,
            points: vec![Point::surface(9, 9, Basis::Z, 0.006)],
            models: BTreeMap::new(),
            stop: Stop { shots: 10_000, errors: None },
            threads: 2,
            shard: None,
        };
        let mut state = State::new(study.setup());
        study.run(&mut state, &mut std::io::sink(), &mut |_| true).unwrap();
        state.outcome(&study.points[0], &study.stop).counts.errors
    };
    let [plain, correlated, ensemble] =
        [Matching::Plain, Matching::Correlated, Matching::Ensemble].map(errors);
    assert!(plain > 100 && correlated * 4 < plain * 3, "{correlated} errors, {plain} in one pass");
    assert!(ensemble * 10 < correlated * 9, "{ensemble} errors by an ensemble, {correlated} in two passes");
}
