//! TensorRT-RTX for real, without a GPU: parse, build, keep, refuse. `cargo xtask tensorrt` fetches it and runs these.

mod common;

use common::{Setup, cases, damage, exchange, kept, model, refused, with_library};
use ringcall_infer::ElementType;
use ringcall_tensorrt::{
    BuildOptions, Builder, Cache, Found, Gpu, Library, Precision, Product, Runtime, Search, Sizes,
    TensorRtError,
};
use std::fs;

/// Ampere: what RTX builds for where no GPU is.
const CAPABILITY: (u32, u32) = (8, 6);

fn options() -> BuildOptions {
    BuildOptions::new().with_capabilities([CAPABILITY])
}

fn rtx(name: &str, test: impl FnOnce(Library, &Setup)) {
    with_library("RTX", name, test);
}

#[test]
fn the_library_says_what_it_is() {
    rtx("the_library_says_what_it_is", |library, _| {
        assert_eq!(library.version().product, Product::Rtx);
        assert_eq!(library.version().numbers[..2], library.headers().numbers[..2]);
        assert!(library.builds());
    });
}

#[test]
fn every_model_is_parsed_as_onnx_runtime_sees_it_and_built() {
    rtx("every_model_is_parsed_as_onnx_runtime_sees_it_and_built", |library, _| {
        let mut built = Vec::new();
        for case in cases() {
            let options = case.options().with_capabilities([CAPABILITY]);
            let builder = Builder::parse(&library, &case.model, model(&case.model), &options)
                .unwrap_or_else(|why| panic!("{}: {why}", case.model));
            let bytes = |side: &[ringcall_tensorrt::TensorInfo]| -> Vec<usize> {
                let elements =
                    |dims: &[Option<usize>]| dims.iter().map(|dim| dim.expect("fixed")).product::<usize>();
                side.iter().map(|info| elements(&info.dims) * info.element.size_bytes()).collect()
            };
            let lengths = |buffers: Vec<Vec<u8>>| -> Vec<usize> { buffers.iter().map(Vec::len).collect() };
            assert_eq!(bytes(builder.inputs()), lengths(case.inputs()), "{}: {builder:?}", case.model);
            assert_eq!(bytes(builder.outputs()), lengths(case.outputs()), "{}: {builder:?}", case.model);
            for (info, shape) in builder.outputs().iter().zip(&case.shapes) {
                let dims: Vec<usize> = info.dims.iter().flatten().copied().collect();
                assert_eq!(dims, *shape, "{}: {info}", case.model);
            }
            if !built.contains(&case.model) {
                let plan = builder.build().unwrap_or_else(|why| panic!("{}: {why}", case.model));
                assert!(!plan.as_bytes().is_empty(), "{}", case.model);
                built.push(case.model);
            }
        }
        assert!(built.len() >= 7, "{built:?}");
    });
}

#[test]
fn element_types_and_several_inputs_and_outputs_are_kept_apart() {
    rtx("element_types_and_several_inputs_and_outputs_are_kept_apart", |library, _| {
        use ElementType::{Bool, F16, F32, I64, U8};
        let builder =
            Builder::parse(&library, "many_types", model("many_types"), &options()).expect("parsed");
        let shown = |side: &[ringcall_tensorrt::TensorInfo]| -> Vec<(String, ElementType)> {
            side.iter().map(|info| (info.name.clone(), info.element)).collect()
        };
        let named = |list: &[(&str, ElementType)]| -> Vec<(String, ElementType)> {
            list.iter().map(|(name, element)| ((*name).to_owned(), *element)).collect()
        };
        let inputs = [("a", F32), ("mask", Bool), ("bytes", U8), ("big", I64), ("half", F16)];
        assert_eq!(shown(builder.inputs()), named(&inputs));
        let outputs =
            [("sum_f32", F32), ("sum_f16", F16), ("big_times_3", I64), ("unmask", Bool), ("half_u8", U8)];
        assert_eq!(shown(builder.outputs()), named(&outputs));
        let builder = Builder::parse(&library, "conv", model("conv_integers"), &options()).expect("parsed");
        assert_eq!(builder.inputs()[0].to_string(), "detectors: i32[1, 2, 4, 3, 3]");
        assert_eq!(builder.outputs()[0].to_string(), "flips: i32[1, 1, 4, 3, 3]");
    });
}

#[test]
fn open_dimensions_want_sizes_and_a_range_stays_open() {
    rtx("open_dimensions_want_sizes_and_a_range_stays_open", |library, _| {
        let parse = |options: &BuildOptions| {
            Builder::parse(&library, "network", model("fully_convolutional"), options)
        };
        let why = parse(&options()).expect_err("open").to_string();
        assert!(why.contains("dimension 2 of `detectors` is dynamic (`rounds`)"), "{why}");
        let sized = options().with_symbol("height", 5).with_axis("detectors", 4, 7);
        let ranged = sized.clone().with_symbol("rounds", Sizes::new(2, 5, 9));
        let builder = parse(&ranged).expect("sized");
        assert_eq!(builder.inputs()[0].to_string(), "detectors: f32[1, 4, ?, 5, 7]");
        assert_eq!(builder.outputs()[0].to_string(), "logits: f32[1, 4, ?, 5, 7]");
        assert!(!builder.build().expect("built").as_bytes().is_empty());
        let builder = parse(&sized.clone().with_symbol("rounds", 5)).expect("sized");
        assert_eq!(builder.inputs()[0].to_string(), "detectors: f32[1, 4, 5, 5, 7]");
        for wrong in [sized.clone().with_symbol("depth", 5), sized.with_axis("detectors", 1, 8)] {
            let why = parse(&wrong).expect_err("no such dimension");
            assert!(matches!(why, TensorRtError::Sizes { .. }), "{why}");
        }
    });
}

#[test]
fn capabilities_are_built_for_or_refused() {
    rtx("capabilities_are_built_for_or_refused", |library, _| {
        let build = |capabilities: &[(u32, u32)]| {
            let options = BuildOptions::new().with_capabilities(capabilities);
            Builder::parse(&library, "conv", model("conv_integers"), &options)?.build()
        };
        let one = build(&[CAPABILITY]).expect("one").as_bytes().len();
        let two = build(&[CAPABILITY, (12, 0)]).expect("two").as_bytes().len();
        assert!(two > one, "two capabilities take more than one: {two}, {one}");
        refused(build(&[(9, 0)]));
        refused(build(&[(3, 5)]));
    });
}

#[test]
fn what_is_no_model_is_refused_in_the_parsers_words() {
    rtx("what_is_no_model_is_refused_in_the_parsers_words", |library, _| {
        let parse = |bytes: &[u8]| Builder::parse(&library, "broken", bytes, &options());
        let words = refused(parse(model("unknown_operator")));
        assert!(words.contains("Frobnicate") && words.contains("node 0"), "{words}");
        let words = refused(parse(model("dangling")));
        assert!(words.contains("not registered"), "{words}");
        let whole = model("conv_integers");
        for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
            let why = parse(&whole[..cut]).expect_err("cut short").to_string();
            assert!(!why.is_empty() && !why.contains('\n'), "cut at {cut}: {why}");
        }
        for garbage in [&b"garbage"[..], &[0xFF; 64], &[0; 64]] {
            let why = parse(garbage).expect_err("garbage").to_string();
            assert!(why.contains("`broken` is no usable ONNX model"), "{why}");
        }
        // And it keeps working.
        parse(whole).expect("parsed").build().expect("built");
    });
}

#[test]
fn precisions_are_the_models_own() {
    rtx("precisions_are_the_models_own", |library, _| {
        for precision in [Precision::F16, Precision::Bf16, Precision::Int8] {
            let options = options().with_precision(precision);
            match Builder::parse(&library, "conv", model("conv_integers"), &options) {
                Err(TensorRtError::Unsupported { why, .. }) => {
                    assert!(why.contains("strongly typed"), "{why}");
                }
                other => panic!("{precision:?}: {other:?}"),
            }
        }
        let half = Builder::parse(&library, "half", model("half_precision"), &options()).expect("parsed");
        assert_eq!(half.outputs()[0].element, ElementType::F16);
    });
}

#[test]
fn options_reach_the_builder() {
    rtx("options_reach_the_builder", |library, _| {
        let build = |options: BuildOptions| {
            Builder::parse(&library, "conv", model("conv_integers"), &options)?.build()
        };
        let all = BuildOptions { workspace_bytes: Some(64 << 20), effort: Some(1), tf32: false, ..options() };
        build(all).expect("built");
        refused(build(BuildOptions { effort: Some(77), ..options() }));
        // The lean runtime to put inside is its own library, which TensorRT-RTX does not come with.
        let compatible = BuildOptions { version_compatible: true, ..options() };
        let words = refused(build(compatible.clone()));
        assert!(words.contains("lean"), "{words}");
        build(BuildOptions { exclude_lean_runtime: true, ..compatible }).expect("built");
    });
}

#[test]
fn plans_are_kept_by_what_they_are_made_of_and_damage_is_found_out() {
    rtx("plans_are_kept_by_what_they_are_made_of_and_damage_is_found_out", |library, setup| {
        let folder = setup.cache.path().join("plans");
        let cache = Cache::at(&folder).expect("made");
        let plan = |onnx: &str, options: &BuildOptions, gpu: Option<&Gpu>| {
            cache.plan(&library, onnx, model(onnx), options, gpu).expect("a plan")
        };
        let first = plan("conv_integers", &options(), None);
        assert_eq!((&first.found, &first.not_kept), (&Found::Built, &None));
        let again = plan("conv_integers", &options(), None);
        assert_eq!((&again.found, &again.plan), (&Found::Kept, &first.plan));

        let gpu = Gpu { name: "NVIDIA RTX A6000".to_owned(), capability: CAPABILITY };
        assert_eq!(plan("conv_integers", &options(), Some(&gpu)).found, Found::Built, "another GPU");
        assert_eq!(plan("residual", &options(), None).found, Found::Built, "another model");
        let other = BuildOptions { tf32: false, ..options() };
        assert_eq!(plan("conv_integers", &other, None).found, Found::Built, "other options");
        let files = kept(&folder);
        assert_eq!(files.len(), 4);

        files.iter().for_each(|file| damage(file));
        let rebuilt = plan("conv_integers", &options(), None);
        assert!(
            matches!(&rebuilt.found, Found::Rebuilt { why } if why.contains("its contents are not what they were")),
            "{:?}",
            rebuilt.found
        );
        assert_eq!(plan("conv_integers", &options(), None).found, Found::Kept);

        // One that is whole and no plan is TensorRT's to refuse.
        files.iter().for_each(|file| exchange(file, b"no plan"));
        let exchanged = plan("conv_integers", &options(), None);
        assert_eq!((&exchanged.found, exchanged.plan.as_bytes()), (&Found::Kept, &b"no plan"[..]));
        let runtime = Runtime::new(&library).expect("a runtime");
        refused(runtime.load(exchanged.plan.as_bytes()));

        fs::remove_dir_all(&folder).expect("removed");
        let lost = plan("conv_integers", &options(), None);
        assert_eq!(lost.found, Found::Built);
        assert!(
            lost.not_kept.is_some(),
            "a folder that is gone keeps nothing, and the plan is there all the same"
        );
    });
}

#[test]
fn plans_that_are_none_are_refused_in_the_librarys_words() {
    rtx("plans_that_are_none_are_refused_in_the_librarys_words", |library, _| {
        let runtime = Runtime::new(&library).expect("a runtime");
        let words = refused(runtime.load(b""));
        assert!(words.contains("empty memory buffer"), "{words}");
        let words =
            refused(runtime.load(b"garbage, and long enough to be taken for the beginning of a header"));
        assert!(
            words.contains("Assertion") || words.contains("magic") || words.contains("Serialization"),
            "{words}"
        );
        let plan = Builder::parse(&library, "conv", model("conv_integers"), &options()).expect("parsed");
        let plan = plan.build().expect("built");
        let bytes = plan.as_bytes();
        let words = refused(runtime.load(&bytes[..bytes.len() / 2]));
        assert!(words.contains("Serialization"), "{words}");
        // Whole, it is refused for want of the GPU that it is for; where there is one, it loads.
        match runtime.load(bytes) {
            Ok(engine) => assert_eq!(engine.inputs()[0].name, "detectors"),
            Err(TensorRtError::Refused { words, .. }) => {
                assert!(words.to_lowercase().contains("cuda") || words.contains("capab"), "{words}");
            }
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn builds_go_on_at_once() {
    rtx("builds_go_on_at_once", |library, _| {
        let plans: Vec<_> = std::thread::scope(|scope| {
            let one = || Builder::parse(&library, "conv", model("conv_integers"), &options())?.build();
            let wrong =
                || Builder::parse(&library, "broken", model("unknown_operator"), &options()).map(drop);
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(one)).collect();
            let words = refused(scope.spawn(wrong).join().expect("no panic"));
            assert!(words.contains("Frobnicate"), "a thread's error is its own: {words}");
            threads.into_iter().map(|thread| thread.join().expect("no panic").expect("built")).collect()
        });
        assert!(plans.iter().all(|plan| !plan.as_bytes().is_empty()));
    });
}

#[test]
fn headers_of_another_release_are_refused() {
    rtx("headers_of_another_release_are_refused", |_, setup| {
        let home = tempfile::tempdir().expect("a folder");
        let include = setup.search.include.as_ref().expect("given");
        for entry in fs::read_dir(include).expect("listed") {
            let path = entry.expect("one").path();
            if path.is_file() {
                fs::copy(&path, home.path().join(path.file_name().expect("a name"))).expect("copied");
            }
        }
        let version = home.path().join("NvInferVersion.h");
        let text = fs::read_to_string(&version).expect("read");
        let newer = text.replace("#define TRT_MINOR_RTX ", "#define TRT_MINOR_RTX 9");
        assert_ne!(newer, text);
        fs::write(&version, newer).expect("written");
        let search = Search { include: Some(home.path().to_owned()), ..setup.search.clone() };
        let why = Library::open(&search).expect_err("another release");
        assert!(matches!(why, TensorRtError::NoHeaders { .. }), "{why}");
    });
}

#[test]
fn a_shim_is_compiled_by_two_at_once_and_again_when_it_is_damaged() {
    rtx("a_shim_is_compiled_by_two_at_once_and_again_when_it_is_damaged", |_, setup| {
        let folder = setup.cache.path().join("fresh");
        let search = setup.search.clone().with_cache(&folder);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| Library::open(&search).map(drop))).collect();
            for thread in threads {
                thread.join().expect("no panic").expect("opened");
            }
        });
        let files = kept(&folder);
        Library::open(&search).expect("again");
        assert_eq!(files.len(), 1, "one shim, and nothing beside it: {files:?}");

        let damaged = setup.cache.path().join("damaged");
        fs::create_dir(&damaged).expect("made");
        let name = files[0].file_name().expect("a name");
        fs::write(damaged.join(name), "cut short").expect("written");
        let library = Library::open(&setup.search.clone().with_cache(&damaged)).expect("compiled again");
        assert!(library.builds());
        assert!(fs::read(damaged.join(name)).expect("there").starts_with(b"\x7fELF"));
    });
}
