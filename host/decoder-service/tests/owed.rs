//! What the tests on a device hold its answers against (`common/owed.rs`), without a device: a wrong answer is found.

mod common;

use common::{Bound, MODEL, Predicted, experiment, round_and_round};
use ringcall_decoder_service::{Inference, Pace, Predecoder, Problem, Service, ServiceConfig};
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_service_on_the_cpu_predicts_what_is_owed_and_a_wrong_answer_is_counted() {
    let bound = Bound::new(3, 0.006);
    let Predicted { mut shots, errors } = bound.predicted(bound.shots(100, 11));
    assert_eq!(shots.len(), 100);
    assert!(errors < 10, "{errors} wrong");

    let experiment = experiment(3, 0.006);
    let sizes = Predecoder::sizes(&experiment);
    let options = sizes.into_iter().fold(OnnxOptions::new(), |all, (name, size)| all.with_symbol(name, size));
    let network = OnnxModel::from_bytes("3x128_int8", MODEL, &options).expect("the committed model");
    let model = Predecoder::new(Arc::new(network), &experiment, None).expect("bound");
    let inference = Inference::Model(Arc::new(model));
    let problem = Problem::new(bound.model.clone()).expect("a problem");
    let config = ServiceConfig { request_timeout: None, ..ServiceConfig::default() };
    let requests = shots.len() as u64;
    for wrong in [0, 1] {
        if wrong == 1 {
            shots[7].observables.flip(0);
        }
        let service = Service::start(&problem, &inference, config).expect("started");
        let pace = Pace { requests: Some(requests), duration: None, interval: Duration::ZERO };
        let source = round_and_round(&problem, &shots, requests);
        let summary = service.drive(source, pace, &mut |_| true).expect("a run");
        assert_eq!((summary.rate.shots, summary.rate.errors), (requests, wrong));
    }
}
