//! Damaged files: an error or, where nothing that matters was hit, the same model. Never a panic.
#![cfg(feature = "onnx")]

mod common;

use common::{cases, path};
use proptest::prelude::*;
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_infer::{InferError, Model, conformance};

fn read(model: &str) -> Vec<u8> {
    std::fs::read(path(model)).unwrap()
}

#[test]
fn nothing_is_no_model() {
    for bytes in [&b""[..], b"\0", b"not a model at all", b"PK\x03\x04zip", &[0xFF; 64]] {
        let error = OnnxModel::from_bytes("nothing", bytes, &OnnxOptions::new()).unwrap_err();
        assert!(matches!(error, InferError::Malformed { .. }), "{error}");
    }
}

/// Every prefix of every model. After the graph and the operator set only metadata can be lost, and then the
/// model still gives the right answers.
#[test]
fn truncated_at_every_length() {
    let mut survivors = 0;
    for case in cases().iter().filter(|c| ["conv_integers", "residual", "many_types"].contains(&&*c.model)) {
        let bytes = read(&case.model);
        for length in 0..bytes.len() {
            if let Ok(model) = OnnxModel::from_bytes(&case.model, &bytes[..length], &case.options()) {
                assert!(model.metadata().len() < 2, "only metadata may be missing");
                let shapes: Vec<_> = model.outputs().iter().map(|o| o.shape.clone()).collect();
                assert_eq!(shapes, case.shapes);
                conformance::check_case(&model, &case.inputs(), &case.outputs(), case.tolerance()).unwrap();
                survivors += 1;
            }
        }
    }
    // After conv_integers' operator set: no metadata, or one entry of the two.
    assert_eq!(survivors, 2 * 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(OnnxModel::from_bytes("garbage", &bytes, &OnnxOptions::new()).is_err());
    }

    /// Overwritten bytes may make another valid model (a weight, a name); what loads must keep the contract.
    #[test]
    fn overwritten_bytes_never_panic(
        model in prop::sample::select(vec!["conv_integers", "residual", "many_types", "bytes_unbatched"]),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = read(model);
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(model) = OnnxModel::from_bytes(model, &bytes, &OnnxOptions::new()) {
            let mut engine = model.instantiate().unwrap();
            let inputs = conformance::made_up(model.inputs(), 1);
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let mut outputs: Vec<Vec<u8>> = model.outputs().iter().map(|o| vec![0; o.size_bytes()]).collect();
            let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            if let Err(error) = engine.run(&inputs, &mut outputs) {
                prop_assert!(matches!(error, InferError::Backend { .. }), "{}", error);
            }
        }
    }
}
