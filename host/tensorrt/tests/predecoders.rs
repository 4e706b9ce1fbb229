//! The committed predecoders through TensorRT-RTX, without a GPU: what it makes of each form, a plan for every distance, and
//! that plan kept and taken back. `cargo xtask tensorrt` fetches the library and runs these.

mod common;

use common::{Setup, damage, kept, refused, with_library};
use ringcall_tensorrt::{
    BuildOptions, Builder, Cache, Found, Library, Product, Runtime, Sizes, TensorInfo, TensorRtError,
};
use std::fs;
use std::path::Path;

/// A committed model, and its inputs and outputs as TensorRT is to see them.
struct Committed {
    file: &'static str,
    inputs: &'static [&'static str],
    outputs: &'static [&'static str],
}

const CORE: &str = "predecoder_3x128.onnx";
/// The core for every distance, and the forms that are bound to an experiment.
const MODELS: &[Committed] = &[
    Committed {
        file: CORE,
        inputs: &["volume: f32[1, 4, ?, ?, ?]"],
        outputs: &["logits: f32[1, 4, ?, ?, ?]"],
    },
    Committed {
        file: "predecoder_3x128_int8.onnx",
        inputs: &["volume: f32[1, 4, ?, ?, ?]"],
        outputs: &["logits: f32[1, 4, ?, ?, ?]"],
    },
    Committed {
        file: "predecoder_3x64.onnx",
        inputs: &["volume: f32[1, 4, ?, ?, ?]"],
        outputs: &["logits: f32[1, 4, ?, ?, ?]"],
    },
    Committed {
        file: "predecoder_3x128_d7_r7_Z.measurements.onnx",
        inputs: &["measurements: i32[1, 72, 7]"],
        outputs: &["residual_detectors: i32[1, 336]", "logical_frame: i32[1, 1]"],
    },
    Committed {
        file: "predecoder_3x128_d13_r13_Z.measurements.onnx",
        inputs: &["measurements: i32[1, 252, 13]"],
        outputs: &["residual_detectors: i32[1, 2184]", "logical_frame: i32[1, 1]"],
    },
    Committed {
        file: "predecoder_3x128_int8_d7_r7_Z.measurements.onnx",
        inputs: &["measurements: i32[1, 72, 7]"],
        outputs: &["residual_detectors: i32[1, 336]", "logical_frame: i32[1, 1]"],
    },
    Committed {
        file: "predecoder_3x128_int8_d13_r13_Z.measurements.onnx",
        inputs: &["measurements: i32[1, 252, 13]"],
        outputs: &["residual_detectors: i32[1, 2184]", "logical_frame: i32[1, 1]"],
    },
    Committed {
        file: "predecoder_3x64_d7_r7_Z.detectors.onnx",
        inputs: &["detectors: u8[1, 336]"],
        outputs: &["residual_detectors: u8[1, 336]", "logical_frame: u8[1, 1]"],
    },
    Committed {
        file: "predecoder_3x64_d13_r13_Z.detectors.onnx",
        inputs: &["detectors: u8[1, 2184]"],
        outputs: &["residual_detectors: u8[1, 2184]", "logical_frame: u8[1, 1]"],
    },
];

impl Committed {
    fn onnx(&self) -> Vec<u8> {
        fs::read(folder().join(self.file)).expect("committed")
    }

    /// For distances 3 to 31, where the file leaves that open; tuned for 13.
    fn options(&self) -> BuildOptions {
        // Ampere: what RTX builds for where no GPU is.
        let options = BuildOptions::new().with_capabilities([(8, 6)]);
        if !self.inputs[0].contains('?') {
            return options;
        }
        options
            .with_symbol("layers", Sizes::new(2, 14, 32))
            .with_symbol("height", Sizes::new(3, 13, 31))
            .with_symbol("width", Sizes::new(3, 13, 31))
    }
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models"))
}

fn rtx(name: &str, test: impl FnOnce(Library, &Setup)) {
    with_library("RTX", name, |library, setup| {
        assert_eq!(library.version().product, Product::Rtx);
        test(library, setup);
    });
}

#[test]
fn every_committed_model_is_one_of_these() {
    let found = fs::read_dir(folder()).expect("listed").map(|entry| entry.expect("one").file_name());
    let mut found: Vec<_> = found.filter_map(|name| name.into_string().ok()).collect();
    found.retain(|name| name.ends_with(".onnx"));
    found.sort_unstable();
    let mut listed: Vec<_> = MODELS.iter().map(|model| model.file).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

#[test]
fn each_is_parsed_with_the_shapes_that_it_says() {
    rtx("each_is_parsed_with_the_shapes_that_it_says", |library, _| {
        for model in MODELS {
            let builder = Builder::parse(&library, model.file, &model.onnx(), &model.options())
                .unwrap_or_else(|why| panic!("{}: {why}", model.file));
            let shown = |side: &[TensorInfo]| side.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(shown(builder.inputs()), model.inputs, "{}", model.file);
            assert_eq!(shown(builder.outputs()), model.outputs, "{}", model.file);
        }
    });
}

#[test]
fn the_cores_open_dimensions_take_one_size_or_want_one() {
    rtx("the_cores_open_dimensions_take_one_size_or_want_one", |library, _| {
        let (model, bare) = (&MODELS[0], BuildOptions::new().with_capabilities([(8, 6)]));
        let parse = |options: &BuildOptions| Builder::parse(&library, CORE, &model.onnx(), options);
        let why = parse(&bare).expect_err("open").to_string();
        assert!(why.contains("dimension 2 of `volume` is dynamic (`layers`)"), "{why}");
        let d7 = bare.with_symbol("layers", 8).with_symbol("height", 7).with_symbol("width", 7);
        let builder = parse(&d7).expect("sized");
        assert_eq!(builder.inputs()[0].to_string(), "volume: f32[1, 4, 8, 7, 7]");
        assert_eq!(builder.outputs()[0].to_string(), "logits: f32[1, 4, 8, 7, 7]");
        assert!(matches!(parse(&d7.with_symbol("depth", 8)), Err(TensorRtError::Sizes { .. })));
    });
}

#[test]
fn a_plan_of_each_is_built_kept_taken_back_and_read() {
    rtx("a_plan_of_each_is_built_kept_taken_back_and_read", |library, setup| {
        let runtime = Runtime::new(&library).expect("a runtime");
        let folder = setup.cache.path().join("plans");
        let cache = Cache::at(&folder).expect("made");
        let mut files = Vec::new();
        for model in MODELS {
            let (file, onnx, options) = (model.file, model.onnx(), model.options());
            let obtain = || {
                let cached = cache.plan(&library, file, &onnx, &options, None);
                cached.unwrap_or_else(|why| panic!("{file}: {why}"))
            };
            let built = obtain();
            assert_eq!((&built.found, &built.not_kept), (&Found::Built, &None), "{file}");
            let again = obtain();
            assert_eq!(again.found, Found::Kept, "{file}");
            let plan = again.plan.as_bytes();
            assert!(again.plan == built.plan, "{file}: another plan came back");
            eprintln!("{file}: a plan of {} KiB", plan.len() >> 10);

            let added: Vec<_> = kept(&folder).into_iter().filter(|path| !files.contains(path)).collect();
            let [own] = &added[..] else { panic!("{file}: {added:?}") };
            damage(own);
            let rebuilt = obtain();
            assert!(
                matches!(&rebuilt.found, Found::Rebuilt { why } if why.contains("its contents are not what")),
                "{file}: {:?}",
                rebuilt.found
            );
            files.extend(added);

            let words = refused(runtime.load(&plan[..plan.len() / 2]));
            assert!(words.contains("Serialization"), "{file}: {words}");
            // Whole, it is refused for want of the GPU that it is for; where there is one, it loads.
            match runtime.load(plan) {
                Ok(engine) => assert_eq!(engine.inputs()[0].to_string(), model.inputs[0], "{file}"),
                Err(TensorRtError::Refused { words, .. }) => {
                    assert!(words.to_lowercase().contains("cuda") || words.contains("capab"), "{words}");
                }
                Err(other) => panic!("{file}: {other}"),
            }
        }
    });
}
