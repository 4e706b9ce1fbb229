//! Confidences of an ensemble, on the wire and in a run's summary.

use ringcall_decoder_service::{
    Inference, Pace, Problem, ResidualDecoder, Service, ServiceConfig, ShotSource,
};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::MatchingEngine;
use std::time::Duration;

fn problem(matching: MatchingEngine) -> Problem {
    let noise = CircuitNoise::uniform(0.01);
    let experiment = MemoryExperiment { distance: 5, rounds: 5, basis: Basis::Z, noise };
    Problem::with_matching(experiment.detector_error_model().expect("a model"), Some(matching))
        .expect("a problem")
}

fn run(problem: &Problem) -> ringcall_decoder_service::Summary {
    let source = ShotSource::sampled(problem, 5).expect("shots");
    let config = ServiceConfig { request_timeout: None, ..ServiceConfig::default() };
    let service = Service::start(problem, &Inference::None, config).expect("a service");
    let pace = Pace { requests: Some(4000), duration: None, interval: Duration::ZERO };
    service.drive(source, pace, &mut |_| true).expect("a run")
}

#[test]
fn a_run_counts_answers_by_confidence_and_decides_the_same_without() {
    let plain = problem(MatchingEngine::Ensemble);
    let sure = plain.clone().with_confidence();
    assert_eq!(sure.result_bytes(), plain.result_bytes() + 4);
    let (without, with) = (run(&plain), run(&sure));
    assert!(without.confidences.is_empty());
    assert_eq!((with.rate, with.lost()), (without.rate, 0));
    let all = with.confidences.total();
    assert_eq!((all.answers, all.wrong), (4000, with.rate.errors));
    // What is unsure is wrong more often than the rest, among which answers without an alternative are not certain.
    let of = |sure: bool| {
        let bins = with.confidences.iter().filter(|(from, ..)| (*from >= 4.0) == sure);
        bins.fold([0, 0], |[answers, wrong], (.., bin)| [answers + bin.answers, wrong + bin.wrong])
    };
    let ([unsure, unsure_wrong], [sure, sure_wrong]) = (of(false), of(true));
    assert!(unsure > 50 && sure > 3 * unsure, "{unsure} {sure}");
    assert!(unsure_wrong * sure > 3 * sure_wrong * unsure, "{:?}", with.confidences);
    // And of the least sure, as many are wrong as they say: not twice too many or too few.
    let (.., least) = with.confidences.iter().next().expect("bins");
    let ratio = least.expected_wrong / least.wrong as f64;
    assert!((0.5..2.0).contains(&ratio), "{ratio}: {:?}", with.confidences);
}

#[test]
fn a_decoder_that_does_not_say_says_so() {
    for (matching, said) in [(MatchingEngine::Ensemble, true), (MatchingEngine::CorrelatedBlossom, false)] {
        let problem = problem(matching).with_confidence();
        let mut decoder = ResidualDecoder::new(&problem).expect("a decoder");
        let mut answer = vec![0; problem.result_bytes()];
        let mut left = vec![0; problem.inferred_bytes()];
        for byte in [0, 0b0001_0010] {
            left[2] = byte;
            let len = decoder.decode(&left, &mut answer).expect("an answer");
            let confidence = problem.form().read_result(&answer[..len]).expect("an answer").confidence;
            assert_eq!(confidence.is_some_and(|confidence| !confidence.is_nan()), said, "{matching:?}");
        }
    }
}
