//! The ONNX engine against ONNX Runtime, the conformance suite, and the ways a file can be refused.
#![cfg(feature = "onnx")]

mod common;

use std::any::Any;

use common::{cases, path};
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_infer::{ElementType, InferError, Model, Passthrough, TensorSpec, conformance};

fn load(model: &str) -> Result<OnnxModel, InferError> {
    OnnxModel::load(path(model), &OnnxOptions::new())
}

#[test]
fn equals_onnx_runtime() {
    let cases = cases();
    assert!(cases.len() >= 14, "the data file has lost cases");
    for (i, case) in cases.iter().enumerate() {
        let model = OnnxModel::load(path(&case.model), &case.options()).unwrap();
        let shapes: Vec<_> = model.outputs().iter().map(|o| o.shape.clone()).collect();
        assert_eq!(shapes, case.shapes, "{}", case.model);
        conformance::check_case(&model, &case.inputs(), &case.outputs(), case.tolerance())
            .unwrap_or_else(|e| panic!("case {i}, {}: {e}", case.model));
    }
}

#[test]
fn the_oracle_can_fail() {
    let case = &cases()[0];
    let model = OnnxModel::load(path(&case.model), &case.options()).unwrap();
    let mut expected = case.outputs();
    expected[0][0] ^= 1; // one decision flipped
    conformance::check_case(&model, &case.inputs(), &expected, case.tolerance()).unwrap_err();
    let mut expected = case.outputs();
    expected[1][2] ^= 0x10; // one logit off in the fourth decimal or so
    conformance::check_case(&model, &case.inputs(), &expected, case.tolerance()).unwrap_err();
}

#[test]
fn conforms() {
    let mut done = std::collections::BTreeSet::new();
    for case in cases() {
        if done.insert(case.model.clone()) {
            let model = OnnxModel::load(path(&case.model), &case.options()).unwrap();
            conformance::check(&model).unwrap_or_else(|e| panic!("{}: {e}", case.model));
            conformance::check(&Passthrough::shaped_like(&model).unwrap()).unwrap();
        }
    }
    assert!(done.len() >= 8, "{done:?}");
}

#[test]
fn describes_the_model() {
    let model = load("conv_integers").unwrap();
    assert_eq!(model.name(), "conv_integers");
    assert_eq!(
        model.inputs(),
        [TensorSpec::new("detectors", ElementType::I32, [1, 2, 4, 3, 3]).unwrap()],
        "the symbolic batch is pinned to 1"
    );
    assert_eq!(TensorSpec::find(model.outputs(), "logits").unwrap().0, 1);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(model.metadata(), [pair("threshold", "2.0"), pair("p", "0.006")]);
    let shared: Box<dyn Model> = Box::new(model);
    assert!((&*shared as &dyn Any).is::<OnnxModel>());

    let model = load("many_types").unwrap();
    let types: Vec<_> = model.outputs().iter().map(|o| o.element).collect();
    use ElementType::{Bool, F16, F32, I64, U8};
    assert_eq!(types, [F32, F16, I64, Bool, U8]);
}

#[test]
fn open_dimensions_need_a_size() {
    let error = load("fully_convolutional").unwrap_err();
    assert!(matches!(&error, InferError::DynamicDimension { axis: 2, .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("`rounds`") && text.contains("`detectors`") && text.contains("with_symbol"),
        "{text}"
    );
}

#[test]
fn sizes_by_axis_equal_sizes_by_symbol() {
    let by_symbol =
        OnnxOptions::new().with_symbol("rounds", 2).with_symbol("height", 3).with_symbol("width", 3);
    let by_axis = OnnxOptions::new()
        .with_axis("detectors", 2, 2)
        .with_axis("detectors", 3, 3)
        .with_axis("detectors", 4, 3)
        .with_axis("detectors", 1, 4); // fixed at 4 already: agreeing is no error
    let model = |options| OnnxModel::load(path("fully_convolutional"), &options).unwrap();
    assert_eq!(model(by_symbol).inputs(), model(by_axis).inputs());
}

#[test]
fn the_batch_can_be_given() {
    let model = OnnxModel::load(path("residual"), &OnnxOptions::new().with_symbol("batch", 3)).unwrap();
    assert_eq!(model.inputs()[0].shape, [3, 8, 3]);
    assert_eq!(model.outputs()[0].shape, [3, 24]);
    conformance::check(&model).unwrap();
}

#[test]
fn sizes_that_do_not_apply_are_refused() {
    let refuse = |options: OnnxOptions, says: &str| {
        let error = OnnxModel::load(path("residual"), &options).unwrap_err();
        assert!(matches!(error, InferError::UnusedDimension { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    refuse(OnnxOptions::new().with_symbol("bacth", 1), "\"batch\"");
    refuse(OnnxOptions::new().with_axis("measurements", 7, 1), "axis 7");
    refuse(OnnxOptions::new().with_axis("measurement", 0, 1), "\"measurements\"");
    refuse(OnnxOptions::new().with_axis("measurements", 1, 9), "fixes it at 8");
    let zero = OnnxModel::load(path("residual"), &OnnxOptions::new().with_symbol("batch", 0));
    assert!(matches!(zero, Err(InferError::InvalidSpec { .. })));
    let huge = OnnxModel::load(path("residual"), &OnnxOptions::new().with_symbol("batch", usize::MAX));
    assert!(matches!(huge, Err(InferError::InvalidSpec { .. })));
}

#[test]
fn unusable_models_say_why() {
    let says = |model: &str, words: &str| {
        let error = load(model).unwrap_err();
        assert!(error.to_string().contains(words), "{model}: {error}");
        error
    };
    assert!(matches!(says("unknown_operator", "Frobnicate"), InferError::UnsupportedOperators { .. }));
    assert!(matches!(says("foreign_domain", "com.example.Relu"), InferError::UnsupportedOperators { .. }));
    assert!(matches!(says("doubles", "double"), InferError::UnsupportedElement { .. }));
    assert!(matches!(says("dangling", "`nowhere`"), InferError::Malformed { .. }));
    assert!(matches!(says("wrong_output_type", "declares it I32"), InferError::InvalidSpec { .. }));
    says("shape_from_data", "`y`");
    assert!(matches!(says("no_such_file", "no_such_file.onnx"), InferError::Io { .. }));
}
