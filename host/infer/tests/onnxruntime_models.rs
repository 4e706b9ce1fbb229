//! ONNX Runtime against the CPU engine, on every committed model. Skipped, with a line, where the library is not there:
//! `cargo xtask onnxruntime` installs it and runs these.

use ringcall_infer::conformance::{self, Tolerance};
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer::onnxruntime::{ExecutionProvider, LIBRARY_VARIABLE, OrtModel, Runtime, RuntimeError};
use ringcall_infer::{InferError, Model, OnnxOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const CPU: ExecutionProvider = ExecutionProvider::Cpu { threads: 1 };

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Runs `test` with ONNX Runtime, or says why not.
fn with_runtime(name: &str, test: impl FnOnce(&Runtime)) {
    if std::env::var_os(LIBRARY_VARIABLE).is_none() {
        eprintln!("skipped: {name}: {LIBRARY_VARIABLE} is not set (`cargo xtask onnxruntime`)");
        return;
    }
    let runtime = Runtime::load(None).unwrap_or_else(|why| panic!("{name}: {why}"));
    test(&runtime);
    eprintln!("ran: {name}: {}", runtime.build());
}

/// Every model that has a case of ONNX Runtime's, with sizes for its open dimensions.
fn models() -> BTreeMap<PathBuf, OnnxOptions> {
    let mut models = BTreeMap::new();
    for (file, folder, extension) in [
        ("host/infer/tests/data/cases.json", "host/infer/tests/data", ".onnx"),
        ("host/infer/tests/data/predecoder.json", "training/models", ""),
    ] {
        let text = std::fs::read_to_string(root(file)).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        for case in cases {
            let path = root(folder).join(format!("{}{extension}", case["model"].as_str().unwrap()));
            let fold = |options: OnnxOptions, (symbol, size): (&String, &Value)| {
                options.with_symbol(symbol, size.as_u64().unwrap() as usize)
            };
            // Its file says 0, which is open to others and nothing at all to ONNX Runtime.
            if path.ends_with("bytes_zero.onnx") {
                continue;
            }
            models.insert(path, case["symbols"].as_object().unwrap().iter().fold(OnnxOptions::new(), fold));
        }
    }
    assert!(models.len() >= 13, "{models:?}");
    models
}

fn run(model: &dyn Model, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut outputs: Vec<Vec<u8>> = model.outputs().iter().map(|spec| vec![0; spec.size_bytes()]).collect();
    let mut engine = model.instantiate().unwrap();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    engine.run(&inputs, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>()).unwrap();
    outputs
}

#[test]
fn equals_the_cpu_engine_on_every_committed_model() {
    with_runtime("equals_the_cpu_engine_on_every_committed_model", |runtime| {
        for (path, options) in models() {
            let ours = OnnxModel::load(&path, &options).unwrap();
            let theirs = OrtModel::load(runtime, &path, &options, CPU).unwrap();
            assert_eq!(
                (theirs.name(), theirs.inputs(), theirs.outputs()),
                (ours.name(), ours.inputs(), ours.outputs())
            );
            let mut metadata = ours.metadata().to_vec();
            metadata.sort_unstable();
            assert_eq!(theirs.metadata(), metadata);
            for seed in 0..2 {
                let inputs = conformance::made_up(ours.inputs(), seed);
                let expected = run(&ours, &inputs);
                let close = Tolerance::Close { absolute: 2e-3, relative: 1e-3 };
                conformance::check_case(&theirs, &inputs, &expected, close)
                    .unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            }
        }
    });
}

#[test]
fn conforms() {
    with_runtime("conforms", |runtime| {
        for (path, options) in models() {
            let model = OrtModel::load(runtime, &path, &options, CPU).unwrap();
            conformance::check(&model).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        }
    });
}

#[test]
fn open_dimensions_are_pinned_as_elsewhere() {
    with_runtime("open_dimensions_are_pinned_as_elsewhere", |runtime| {
        let path = root("host/infer/tests/data/fully_convolutional.onnx");
        let load = |options: &OnnxOptions| OrtModel::load(runtime, &path, options, CPU);
        let error = load(&OnnxOptions::new()).unwrap_err();
        assert!(matches!(&error, InferError::DynamicDimension { axis: 2, .. }), "{error}");
        let error = load(&OnnxOptions::new().with_symbol("round", 2)).unwrap_err();
        assert!(
            matches!(error, InferError::DynamicDimension { .. } | InferError::UnusedDimension { .. }),
            "{error}"
        );
        let by_axis = OnnxOptions::new().with_axis("detectors", 2, 2).with_axis("detectors", 3, 3).with_axis(
            "detectors",
            4,
            3,
        );
        let by_symbol =
            OnnxOptions::new().with_symbol("rounds", 2).with_symbol("height", 3).with_symbol("width", 3);
        let (by_axis, by_symbol) = (load(&by_axis).unwrap(), load(&by_symbol).unwrap());
        assert_eq!((by_axis.inputs(), by_axis.outputs()), (by_symbol.inputs(), by_symbol.outputs()));
    });
}

#[test]
fn what_cannot_be_loaded_says_why() {
    with_runtime("what_cannot_be_loaded_says_why", |runtime| {
        let options = OnnxOptions::new();
        let refused = |name: &str, bytes: &[u8]| {
            let error = OrtModel::from_bytes(runtime, name, bytes.to_vec(), &options, CPU).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            error
        };
        assert!(matches!(refused("words", b"no model"), InferError::Backend { .. }));
        assert!(matches!(refused("nothing", b""), InferError::Backend { .. }));
        let bytes = std::fs::read(root("host/infer/tests/data/unknown_operator.onnx")).unwrap();
        assert!(refused("unknown", &bytes).to_string().contains("Frobnicate"));
        let bytes = std::fs::read(root("host/infer/tests/data/doubles.onnx")).unwrap();
        assert!(matches!(refused("doubles", &bytes), InferError::UnsupportedElement { .. }));
        let bytes = std::fs::read(root("host/infer/tests/data/bytes_zero.onnx")).unwrap();
        assert!(refused("zero", &bytes).to_string().contains("Expected: 0"));
        let absent = OrtModel::load(runtime, root("no_such.onnx"), &options, CPU).unwrap_err();
        assert!(matches!(absent, InferError::Io { .. }), "{absent}");
        let another = Runtime::load(Some(Path::new("/no/such/library.so"))).unwrap_err();
        assert!(matches!(another, RuntimeError::Another { .. }), "{another}");
    });
}

/// The CPU build has no CUDA, and a machine without a GPU no driver: an error, and no run on the CPU instead.
#[test]
fn cuda_is_used_or_refused() {
    with_runtime("cuda_is_used_or_refused", |runtime| {
        let path = root("training/models/predecoder_3x64_d7_r7_Z.detectors.onnx");
        let options = OnnxOptions::new();
        match OrtModel::load(runtime, &path, &options, ExecutionProvider::Cuda { device: 0 }) {
            Ok(model) => {
                let inputs = conformance::made_up(model.inputs(), 1);
                let cpu = OrtModel::load(runtime, &path, &options, CPU).unwrap();
                assert_eq!(run(&model, &inputs)[0].len(), run(&cpu, &inputs)[0].len());
                conformance::check(&model).unwrap();
            }
            Err(InferError::Backend { stage, reason, .. }) => {
                assert!(stage == "making a session" && reason.contains("CUDA"), "{stage}: {reason}");
            }
            Err(other) => panic!("{other}"),
        }
    });
}
