//! The committed predecoders on the CPU against ONNX Runtime (`training/oracles.py`).
#![cfg(feature = "onnx")]

use ringcall_infer::conformance::{self, Tolerance};
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_infer::{ElementType, InferError, Model, TensorSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(serde::Deserialize)]
struct Case {
    /// File name.
    model: String,
    symbols: BTreeMap<String, usize>,
    /// In hex: the tensor, or one bit an element.
    input: String,
    outputs: Vec<String>,
    packed: bool,
}

impl Case {
    fn load(&self) -> OnnxModel {
        let fold = |o: OnnxOptions, (symbol, size): (&String, &usize)| o.with_symbol(symbol, *size);
        let options = self.symbols.iter().fold(OnnxOptions::new(), fold);
        OnnxModel::load(folder().join(&self.model), &options).unwrap()
    }

    fn tensor(&self, text: &str, spec: &TensorSpec) -> Vec<u8> {
        let bytes: Vec<u8> =
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect();
        if !self.packed {
            return bytes;
        }
        let one: &[u8] = match spec.element {
            ElementType::I32 => &[1, 0, 0, 0],
            ElementType::U8 => &[1],
            other => panic!("{other}"),
        };
        let zero = vec![0; one.len()];
        (0..spec.elements())
            .flat_map(|i| if bytes[i / 8] >> (i % 8) & 1 == 1 { one } else { &zero[..] }.to_vec())
            .collect()
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../training/models")
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("data/predecoder.json")).unwrap()
}

#[test]
fn equals_onnx_runtime() {
    let mut loaded = BTreeMap::new();
    for (i, case) in cases().iter().enumerate() {
        let model = loaded.entry((&case.model, &case.symbols)).or_insert_with(|| case.load());
        let inputs = [case.tensor(&case.input, &model.inputs()[0])];
        let outputs: Vec<_> =
            case.outputs.iter().zip(model.outputs()).map(|(text, spec)| case.tensor(text, spec)).collect();
        // Decisions of these cases are clear of the threshold, so residuals and frames are exact; of networks in integers
        // everything is.
        let exact = case.packed || case.model.contains("_int8");
        let tolerance =
            if exact { Tolerance::Exact } else { Tolerance::Close { absolute: 1e-4, relative: 1e-5 } };
        conformance::check_case(model, &inputs, &outputs, tolerance)
            .unwrap_or_else(|e| panic!("case {i}, {}: {e}", case.model));
        if case.packed {
            let mut wrong = outputs;
            wrong[0][0] ^= 1;
            conformance::check_case(model, &inputs, &wrong, tolerance).unwrap_err();
        }
    }
}

#[test]
fn every_committed_model_has_cases_and_says_what_it_is() {
    let cases = cases();
    let with_cases: BTreeSet<_> = cases.iter().map(|case| case.model.clone()).collect();
    let names =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let committed: BTreeSet<_> = names.filter(|name| name.ends_with(".onnx")).collect();
    assert_eq!(with_cases, committed);
    for name in &committed {
        let case = cases.iter().find(|case| case.model == *name).unwrap();
        let model = case.load();
        let says = |key: &str| model.metadata().iter().any(|(k, _)| k.starts_with(key));
        assert!(
            says("predecoder.network") && says("predecoder.threshold.d"),
            "{name}: {:?}",
            model.metadata()
        );
        assert_eq!(case.packed, says("predecoder.distance"), "{name}");
    }
}

#[test]
fn the_core_is_of_no_size() {
    let cases = cases();
    let core = cases.iter().find(|case| !case.packed).unwrap();
    let error = OnnxModel::load(folder().join(&core.model), &OnnxOptions::new()).unwrap_err();
    assert!(matches!(error, InferError::DynamicDimension { .. }), "{error}");
}
