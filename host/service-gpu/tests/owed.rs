//! What the tests on a device hold its answers against (`common/owed.rs`), without a device: what it excuses, and what not.

mod common;

use common::{Bound, MODEL, Owed, Predicted, ROUNDING, experiment, outcome, round_and_round};
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{Decoder, DecoderFactory, MatchingFactory};
use ringcall_qec::predecoder::PredecoderVolume;
use ringcall_service::{Inference, Pace, Predecoder, Problem, Service, ServiceConfig};
use std::sync::Arc;
use std::time::Duration;

const THRESHOLD: f32 = 1.75;
const FAR: f32 = 2.0 * ROUNDING;
const CLOSE: f32 = 0.5 * ROUNDING;

/// An element of the output, and how far its logit is above the threshold.
type Decision = (usize, f32);

fn volume() -> PredecoderVolume {
    PredecoderVolume::new(3, 3, Basis::Z).expect("in range")
}

fn decoder() -> Box<dyn Decoder> {
    let model = experiment(3, 0.01).detector_error_model().expect("a model");
    MatchingFactory::from_dem(&model).expect("a matching problem").build().expect("a decoder")
}

/// An X error on the data qubit of this row and column, in the second layer.
fn error(row: usize, column: usize) -> usize {
    ((4 + 1) * 3 + row) * 3 + column
}

/// What is owed where all other logits are far below.
fn owed(volume: &PredecoderVolume, request: &[u8], decisions: &[Decision]) -> Owed {
    let mut logits = vec![-7.0; volume.maps().len()];
    for &(at, above) in decisions {
        logits[at] = THRESHOLD + above;
    }
    Owed::new(volume, &logits, THRESHOLD, request)
}

#[test]
fn a_decision_may_fall_otherwise_where_it_is_close_and_nowhere_else() {
    let volume = volume();
    let of = |decisions: &[Decision]| owed(&volume, &[0x25, 0x10, 0x02], decisions);
    let own = |decisions: &[Decision]| of(decisions).own().to_vec();
    let (one, other) = (error(1, 1), error(0, 2));
    let (taken, not) = (own(&[(one, FAR)]), own(&[]));
    assert_ne!(taken, not);
    for above in [FAR, CLOSE, -CLOSE, -FAR] {
        let (owed, open) = (of(&[(one, above)]), above.abs() < ROUNDING);
        assert_eq!(owed.is_open(), open, "{above}");
        assert_eq!(owed.own(), if above > 0.0 { &taken[..] } else { &not[..] }, "{above}");
        assert_eq!(owed.allows(&taken), above > 0.0 || open, "{above}");
        assert_eq!(owed.allows(&not), above < 0.0 || open, "{above}");
        // It excuses itself: no other decision, and no part of what it flips.
        assert!(!owed.allows(&own(&[(one, above), (other, FAR)])), "{above}");
        for byte in 0..taken.len() {
            let mut damaged = owed.own().to_vec();
            damaged[byte] ^= 1;
            assert!(!owed.allows(&damaged), "{above}, byte {byte}");
        }
    }
}

#[test]
fn close_decisions_fall_in_every_combination_up_to_a_number() {
    let volume = volume();
    let of = |decisions: &[Decision]| owed(&volume, &[0; 3], decisions);
    let three = [error(0, 0), error(1, 1), error(2, 2)];
    let close = of(&three.map(|at| (at, CLOSE)));
    for way in 0..8 {
        let decided: Vec<Decision> =
            (0..3).map(|i| (three[i], if way >> i & 1 == 1 { FAR } else { -FAR })).collect();
        assert!(close.allows(of(&decided).own()), "{way:03b}");
    }
    // Outputs that flip nothing decide nothing.
    let all: Vec<Decision> = (0..volume.maps().len()).map(|at| (at, CLOSE)).collect();
    let open: Vec<Decision> = all.iter().copied().filter(|one| of(&[*one]).is_open()).collect();
    assert!(open.len() > 9 && open.len() < all.len());
    let (eight, nine) = (of(&open[..8]), of(&open[..9]));
    assert!(eight.allows(of(&open[1..8]).own()));
    assert!(nine.is_open() && nine.allows(nine.own()));
    assert!(!nine.allows(eight.own()), "of so many nothing is known but the CPU's own answer");
    assert!(!nine.predicted(&mut *decoder()).1);
}

#[test]
fn a_prediction_is_sure_where_matching_makes_the_same_of_every_way() {
    let (volume, mut decoder) = (volume(), decoder());
    let mut predicted = |decisions: &[Decision]| {
        let owed = owed(&volume, &[0; 3], decisions);
        let (prediction, sure) = owed.predicted(&mut *decoder);
        assert_eq!(prediction, outcome(&mut *decoder, owed.own()));
        (prediction, sure)
    };
    let [first, second] = [error(0, 1), error(1, 1)];
    // An error that is not there: matching takes it back.
    assert_eq!(predicted(&[(first, CLOSE)]), (0, true));
    // Two of the three across the code: matching adds the third.
    assert_eq!(predicted(&[(first, FAR), (second, FAR)]), (1, true));
    assert_eq!(predicted(&[(first, FAR), (second, CLOSE)]), (1, false));
    assert_eq!(predicted(&[(first, FAR), (second, -CLOSE)]), (0, false));
}

#[test]
fn a_service_on_the_cpu_predicts_what_is_owed_and_a_wrong_answer_is_counted() {
    let bound = Bound::new(3, 0.006);
    let Predicted { mut sure, open, errors } = bound.predicted(bound.shots(300, 11));
    assert_eq!(sure.len() as u64 + open, 300);
    assert!(open < 30 && errors < 30, "{open} open, {errors} wrong");

    let experiment = experiment(3, 0.006);
    let sizes = Predecoder::sizes(&experiment);
    let options = sizes.into_iter().fold(OnnxOptions::new(), |all, (name, size)| all.with_symbol(name, size));
    let network = OnnxModel::from_bytes("3x128", MODEL, &options).expect("the committed model");
    let model = Predecoder::new(Arc::new(network), &experiment, None).expect("bound");
    let inference = Inference::Model(Arc::new(model));
    let problem = Problem::new(bound.model.clone()).expect("a problem");
    let config = ServiceConfig { request_timeout: None, ..ServiceConfig::default() };
    let requests = sure.len() as u64;
    for wrong in [0, 1] {
        if wrong == 1 {
            sure[7].observables.flip(0);
        }
        let service = Service::start(&problem, &inference, config).expect("started");
        let pace = Pace { requests: Some(requests), duration: None, interval: Duration::ZERO };
        let source = round_and_round(&problem, &sure, requests);
        let summary = service.drive(source, pace, &mut |_| true).expect("a run");
        assert_eq!((summary.rate.shots, summary.rate.errors), (requests, wrong));
    }
}
