//! Raw measurements as requests: the committed networks that take them, and matching alone.

use ringcall_decoder_service::{
    Inference, Pace, Predecoder, Problem, Service, ServiceConfig, ShotSource, Summary,
};
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer::{Model, OnnxOptions};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn experiment() -> MemoryExperiment {
    MemoryExperiment { distance: 7, rounds: 7, basis: Basis::Z, noise: CircuitNoise::uniform(0.006) }
}

fn load(name: &str, options: &OnnxOptions) -> OnnxModel {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../training/models");
    OnnxModel::load(folder.join(name), options).expect("a committed network")
}

fn run(problem: &Problem, inference: &Inference, requests: u64) -> Summary {
    let config = ServiceConfig { workers: 1, request_timeout: None, ..ServiceConfig::default() };
    let source = ShotSource::sampled(problem, 5).expect("a model");
    let pace = Pace { requests: Some(requests), duration: None, interval: Duration::ZERO };
    let service = Service::start(problem, inference, config).expect("started");
    let summary = service.drive(source, pace, &mut |_| true).expect("driven");
    assert_eq!((summary.stats.succeeded, summary.lost()), (requests, 0));
    summary
}

/// Both forms of one network in integers, with one threshold, leave the same residuals of the same shots.
#[test]
fn a_committed_network_takes_measurements() {
    let experiment = experiment();
    let detectors = Problem::new(experiment.detector_error_model().expect("a model")).expect("a problem");
    let measured = detectors.clone().with_measurements(&experiment).expect("of this experiment");
    assert_eq!((detectors.request_bytes(), measured.request_bytes()), (42, 2016));
    let bound = load("predecoder_3x128_int8_d7_r7_Z.measurements.onnx", &OnnxOptions::new());
    let own = bound.metadata().iter().find(|(key, _)| key == "predecoder.threshold").expect("a threshold");
    let threshold = own.1.parse().expect("a number");
    let sizes = Predecoder::sizes(&experiment);
    let sizes = sizes.iter().fold(OnnxOptions::new(), |all, &(name, n)| all.with_symbol(name, n));
    let network: Arc<dyn Model> = Arc::new(load("predecoder_3x128_int8.onnx", &sizes));
    let any_size = Predecoder::new(network, &experiment, Some(threshold)).expect("a predecoder");

    let bound = Inference::Model(Arc::new(bound));
    // The network does not take detectors.
    assert!(Service::start(&detectors, &bound, ServiceConfig::default()).is_err());
    let by_measurements = run(&measured, &bound, 12);
    let by_detectors = run(&detectors, &Inference::Model(Arc::new(any_size)), 12);
    assert!(by_detectors.density_in > by_detectors.density_out && by_detectors.density_out > 0.0);
    let physics =
        |summary: &Summary| (summary.density_in, summary.density_out, summary.rate, summary.matching_skipped);
    assert_eq!(physics(&by_measurements), physics(&by_detectors));
}

#[test]
fn matching_alone_sees_the_same_through_measurements() {
    let experiment = experiment();
    let detectors = Problem::new(experiment.detector_error_model().expect("a model")).expect("a problem");
    let measured = detectors.clone().with_measurements(&experiment).expect("of this experiment");
    let (by_detectors, by_measurements) =
        (run(&detectors, &Inference::None, 2000), run(&measured, &Inference::None, 2000));
    assert!(by_detectors.rate.errors > 0);
    assert_eq!(
        (by_detectors.density_in, by_detectors.rate),
        (by_measurements.density_in, by_measurements.rate)
    );
    let other = MemoryExperiment { rounds: 6, ..experiment };
    assert!(detectors.with_measurements(&other).is_err());
}

/// Answers alone are judged by nothing, and every request has one.
#[test]
fn slices_answer_corrections_alone() {
    let problem = Problem::by_slices(&experiment()).expect("a problem").answering_alone();
    assert_eq!((problem.result_bytes(), problem.decoder_name()), (8, "slices"));
    let summary = run(&problem, &Inference::None, 500);
    assert_eq!((summary.rate.shots, summary.unconverged), (0, 0));
    // With observables, by the same decoders: far more errors than on the whole graph, which sees measurement errors.
    let errors = |problem: &Problem| run(problem, &Inference::None, 500).rate.errors;
    let whole = Problem::new(problem.model().clone()).expect("a problem");
    assert!(errors(&Problem::by_slices(&experiment()).expect("a problem")) > 2 * errors(&whole));
}
