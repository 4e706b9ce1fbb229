//! What the tests share: the models of `ringcall-infer` with their oracles, and libraries that the environment names.
#![allow(dead_code)] // each uses its part

use ringcall_infer::conformance::Tolerance;
use ringcall_tensorrt::{BuildOptions, Library, Search, TensorRtError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

macro_rules! models {
    ($($name:literal),* $(,)?) => {
        /// A model of `ringcall-infer`'s tests. Inside the program, so that it runs where the sources are not.
        pub(crate) fn model(name: &str) -> &'static [u8] {
            match name {
                $($name => include_bytes!(concat!("../../../infer/tests/data/", $name, ".onnx")),)*
                other => panic!("no model {other}"),
            }
        }
    };
}

models![
    "bytes_minus_one",
    "bytes_unbatched",
    "bytes_zero",
    "conv_integers",
    "dangling",
    "fully_convolutional",
    "half_precision",
    "many_types",
    "predecoder_in_integers",
    "residual",
    "unknown_operator",
];

/// One run of one model, and what ONNX Runtime made of it.
#[derive(serde::Deserialize)]
pub(crate) struct Case {
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
    pub(crate) fn options(&self) -> BuildOptions {
        self.symbols
            .iter()
            .fold(BuildOptions::new(), |options, (symbol, size)| options.with_symbol(symbol, *size))
    }

    pub(crate) fn inputs(&self) -> Vec<Vec<u8>> {
        self.inputs.iter().map(|text| unhex(text)).collect()
    }

    pub(crate) fn outputs(&self) -> Vec<Vec<u8>> {
        self.outputs.iter().map(|text| unhex(text)).collect()
    }

    pub(crate) fn tolerance(&self) -> Tolerance {
        match (self.absolute, self.relative) {
            (0.0, 0.0) => Tolerance::Exact,
            (absolute, relative) => Tolerance::Close { absolute, relative },
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../../infer/tests/data/cases.json")).expect("the oracles")
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex")).collect()
}

/// Where shims are kept, so that they are compiled once for all tests; a program that was carried elsewhere
/// has its own folder.
pub(crate) fn shims(otherwise: &Path) -> PathBuf {
    let built_here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if built_here.is_dir() { built_here.join("shims") } else { otherwise.join("shims") }
}

/// Where the environment says that a library and its headers are: `RINGCALL_TENSORRT_kind_LIB` and `_INCLUDE`.
pub(crate) fn named(kind: &str) -> Option<Setup> {
    let variable =
        |what: &str| std::env::var_os(format!("RINGCALL_TENSORRT_{kind}_{what}")).map(PathBuf::from);
    let cache = tempfile::tempdir().expect("a folder");
    let search = Search::new()
        .with_library(variable("LIB")?)
        .with_include(variable("INCLUDE")?)
        .with_cache(shims(cache.path()));
    Some(Setup { search, cache })
}

/// A library to look for, and a folder for this test alone.
pub(crate) struct Setup {
    pub(crate) search: Search,
    pub(crate) cache: tempfile::TempDir,
}

/// Runs `test` with the library of a kind, or says why not; with `RINGCALL_TENSORRT_REQUIRED` that is a failure.
pub(crate) fn with_library(kind: &str, name: &str, test: impl FnOnce(Library, &Setup)) {
    match named(kind) {
        None => skipped(name, &format!("no RINGCALL_TENSORRT_{kind}_LIB and _INCLUDE")),
        Some(setup) => {
            let library = Library::open(&setup.search).unwrap_or_else(|why| panic!("{name}: {why}"));
            test(library, &setup);
            eprintln!("ran: {name}");
        }
    }
}

pub(crate) fn skipped(name: &str, why: &str) {
    assert!(std::env::var_os("RINGCALL_TENSORRT_REQUIRED").is_none(), "{name} must run: {why}");
    eprintln!("skipped: {name}: {why}");
}

/// The library's own words for refusing something.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, TensorRtError>) -> String {
    match result {
        Err(TensorRtError::Refused { words, .. }) => {
            assert!(!words.is_empty() && !words.contains('\n'), "{words}");
            words
        }
        other => panic!("not refused by the library: {other:?}"),
    }
}

/// The files in a folder of plans.
pub(crate) fn kept(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("listed").map(|entry| entry.expect("one").path()).collect()
}

/// Turns a bit of a kept plan over, as a disk might: its digest tells.
pub(crate) fn damage(file: &Path) {
    let mut bytes = fs::read(file).expect("read");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(file, bytes).expect("written");
}

/// Puts another plan into the file of a kept one, with the digest that it has: nothing but TensorRT can tell.
pub(crate) fn exchange(file: &Path, plan: &[u8]) {
    const MAGIC: usize = 16;
    let kept = fs::read(file).expect("read");
    let length = kept[MAGIC..].first_chunk::<8>().expect("the key's length");
    let key = usize::try_from(u64::from_le_bytes(*length)).expect("short");
    let mut bytes = kept[..MAGIC + 8 + key].to_vec();
    bytes.extend((plan.len() as u64).to_le_bytes());
    bytes.extend(Sha256::digest(plan));
    bytes.extend(plan);
    fs::write(file, bytes).expect("written");
}
