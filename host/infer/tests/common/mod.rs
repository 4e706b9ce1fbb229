//! The committed models and what ONNX Runtime made of them (`tests/data/make_models.py`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringcall_infer::conformance::Tolerance;
use ringcall_infer::onnx::OnnxOptions;

/// One run of one model.
#[derive(serde::Deserialize)]
pub(crate) struct Case {
    /// File name without extension.
    pub(crate) model: String,
    symbols: BTreeMap<String, usize>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Shapes of the outputs.
    pub(crate) shapes: Vec<Vec<usize>>,
    absolute: f32,
    relative: f32,
}

impl Case {
    pub(crate) fn options(&self) -> OnnxOptions {
        self.symbols.iter().fold(OnnxOptions::new(), |o, (symbol, size)| o.with_symbol(symbol, *size))
    }

    pub(crate) fn inputs(&self) -> Vec<Vec<u8>> {
        self.inputs.iter().map(|s| unhex(s)).collect()
    }

    pub(crate) fn outputs(&self) -> Vec<Vec<u8>> {
        self.outputs.iter().map(|s| unhex(s)).collect()
    }

    pub(crate) fn tolerance(&self) -> Tolerance {
        match (self.absolute, self.relative) {
            (0.0, 0.0) => Tolerance::Exact,
            (absolute, relative) => Tolerance::Close { absolute, relative },
        }
    }
}

pub(crate) fn path(model: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("{model}.onnx"))
}

pub(crate) fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(path("x").with_file_name("cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
