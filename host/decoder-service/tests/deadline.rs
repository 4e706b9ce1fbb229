//! Deadlines of decodes in a service: late answers say so, and are counted next to wrong ones.

use ringcall::wire::qec::{DecodeResponse, read_decode_result};
use ringcall_decoder_service::{
    Cancellation, Inference, Pace, Problem, ResidualDecoder, Service, ServiceConfig, ShotSource, Summary,
};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{BpConfig, DecoderFamily, DecoderOptions};
use ringcall_qec::dem::text;
use std::sync::mpsc;
use std::time::Duration;

fn problem(deadline: Option<Duration>) -> Problem {
    let noise = CircuitNoise::uniform(0.01);
    let experiment = MemoryExperiment { distance: 7, rounds: 7, basis: Basis::Z, noise };
    Problem::with_matching(experiment.detector_error_model().unwrap(), None).unwrap().with_deadline(deadline)
}

fn run(deadline: Option<Duration>) -> Summary {
    let problem = problem(deadline);
    let source = ShotSource::sampled(&problem, 5).unwrap();
    let config = ServiceConfig { workers: 1, request_timeout: None, ..ServiceConfig::default() };
    let service = Service::start(&problem, &Inference::None, config).unwrap();
    let pace = Pace { requests: Some(2000), duration: None, interval: Duration::ZERO };
    service.drive(source, pace, &mut |_| true).unwrap()
}

/// A deadline of zero: it has passed at the first check.
#[test]
fn without_time_answers_are_given_and_late() {
    let [none, long, zero] = [None, Some(Duration::from_secs(3600)), Some(Duration::ZERO)].map(run);
    for summary in [&none, &long, &zero] {
        assert_eq!((summary.stats.succeeded, summary.lost(), summary.unconverged), (2000, 0, 0));
        assert_eq!(summary.rate.shots, 2000);
    }
    assert_eq!((none.late, none.late_or_wrong), (0, none.rate.errors));
    assert_eq!((long.late, long.late_or_wrong, long.rate.errors), (0, none.rate.errors, none.rate.errors));
    // Shots without a defect are in time, and so is a syndrome that is settled before the first look and lowers no weight.
    assert!(zero.late > 1900, "{} of 2000 are late", zero.late);
    assert!(zero.rate.errors > none.rate.errors, "the best so far is worse than correlated matching");
    assert!(zero.rate.errors < 1000, "but better than nothing: {} errors", zero.rate.errors);
    assert!(zero.late_or_wrong >= zero.late.max(zero.rate.errors));
    assert!(zero.late_or_wrong <= zero.late + zero.rate.errors);
}

#[test]
fn an_answer_says_that_it_is_late() {
    let converged = |deadline, defects: &[usize]| {
        let problem = problem(deadline);
        let mut decoder = ResidualDecoder::new(&problem).unwrap();
        let (mut left, mut answer) = (vec![0; problem.inferred_bytes()], vec![0; problem.result_bytes()]);
        defects.iter().for_each(|defect| left[defect / 8] |= 1 << (defect % 8));
        let len = decoder.decode(&left, &mut answer).unwrap();
        let schema = problem.schema();
        let (_, outcome) = read_decode_result(&schema, &answer[..len]).unwrap();
        outcome.converged
    };
    let defects: Vec<usize> = (0..160).step_by(3).collect();
    assert_eq!(converged(None, &defects), 1);
    assert_eq!(converged(Some(Duration::from_secs(3600)), &defects), 1);
    assert_eq!(converged(Some(Duration::ZERO), &defects), DecodeResponse::LATE);
    assert_eq!(converged(Some(Duration::ZERO), &[]), 1, "nothing to decode is in time");
}

/// Of a decode that would go on for centuries: three detectors fire, and one more error flips each pair of them.
#[test]
fn another_thread_cancels_a_decode() {
    let model = text::parse("error(0.1) D0 D1\nerror(0.1) D1 D2\nerror(0.1) D0 D2 L0").unwrap();
    let relay = BpConfig { legs: u32::MAX, ..BpConfig::relay() };
    let options = DecoderOptions { family: Some(DecoderFamily::Relay), relay, ..DecoderOptions::default() };
    let cancellation = Cancellation::default();
    let problem = Problem::with_decoder(model, &options).unwrap().cancelled_by(&cancellation);
    let (began, begins) = mpsc::channel();
    let decoding = std::thread::spawn(move || {
        let (mut decoder, mut observables) = (problem.decoder().unwrap(), [0]);
        let one = decoder.decode(&[0, 1], &mut observables).unwrap();
        began.send(()).unwrap();
        [one, decoder.decode(&[0, 1, 2], &mut observables).unwrap()]
    });
    begins.recv().unwrap();
    assert!(!decoding.is_finished());
    cancellation.cancel_after(Duration::from_millis(1));
    let [one, cancelled] = decoding.join().unwrap();
    assert!(one.converged && !one.late, "{one:?}");
    assert!(cancelled.late && !cancelled.converged, "{cancelled:?}");
}
