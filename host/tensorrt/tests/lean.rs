//! The lean runtime for real: what it says of itself, and what it refuses. Runs wherever `RINGCALL_TENSORRT_LEAN_LIB` and
//! `RINGCALL_TENSORRT_LEAN_INCLUDE` name it, with a GPU or without. `RINGCALL_TENSORRT_FOREIGN_PLAN` is a file that a plan of
//! TensorRT-RTX is kept in where that can make one, and taken from where it can't.

mod common;

use common::{model, refused, with_library};
use ringcall_tensorrt::{BuildOptions, Builder, Library, Product, Runtime, TensorRtError};

/// A runtime; none where there is no CUDA, which it says in its own words.
fn runtime(library: &Library) -> Option<Runtime> {
    match Runtime::new(library) {
        Ok(runtime) => Some(runtime),
        Err(TensorRtError::Refused { doing, words }) => {
            assert_eq!(doing, "making a runtime");
            assert!(words.contains("CUDA initialization failure"), "{words}");
            eprintln!("the lean runtime does not start here: {words}");
            None
        }
        Err(other) => panic!("refused by something else than the library: {other:?}"),
    }
}

#[test]
fn the_lean_runtime_says_what_it_is_and_builds_nothing() {
    with_library("LEAN", "the_lean_runtime_says_what_it_is_and_builds_nothing", |library, _| {
        assert_eq!(library.version().product, Product::Enterprise);
        assert!(library.version().numbers[0] >= 10 && !library.builds(), "{}", library.version());
        let why =
            Builder::parse(&library, "conv", model("conv_integers"), &BuildOptions::new()).expect_err("lean");
        assert!(matches!(why, TensorRtError::Unsupported { .. }), "{why}");
        assert!(why.to_string().contains("no builder"), "{why}");
    });
}

#[test]
fn the_lean_runtime_refuses_what_is_no_plan_in_its_own_words() {
    with_library("LEAN", "the_lean_runtime_refuses_what_is_no_plan_in_its_own_words", |library, _| {
        let Some(runtime) = runtime(&library) else { return };
        let long: Vec<u8> =
            (0..4096_u32).flat_map(|word| word.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
        for (name, plan) in [("empty", &b""[..]), ("garbage", b"garbage"), ("long garbage", &long)] {
            eprintln!("{name}: {}", refused(runtime.load(plan)));
        }
    });
}

/// A plan that TensorRT-RTX makes here, in the same process with its own shim; or made elsewhere.
fn foreign_plan() -> Option<Vec<u8>> {
    let kept = std::env::var_os("RINGCALL_TENSORRT_FOREIGN_PLAN");
    let Some(setup) = common::named("RTX") else {
        return kept.map(|file| std::fs::read(file).expect("the plan that is named"));
    };
    let rtx = Library::open(&setup.search).expect("TensorRT-RTX");
    let options = BuildOptions::new().with_capabilities([(8, 6)]);
    let plan = Builder::parse(&rtx, "conv", model("conv_integers"), &options).expect("parsed");
    let plan = plan.build().expect("built").as_bytes().to_vec();
    if let Some(file) = kept {
        std::fs::write(file, &plan).expect("written");
    }
    Some(plan)
}

#[test]
fn the_lean_runtime_refuses_a_plan_of_tensorrt_rtx() {
    with_library("LEAN", "the_lean_runtime_refuses_a_plan_of_tensorrt_rtx", |library, _| {
        let Some(plan) = foreign_plan() else {
            common::skipped("the_lean_runtime_refuses_a_plan_of_tensorrt_rtx", "no TensorRT-RTX to make one");
            return;
        };
        let Some(runtime) = runtime(&library) else { return };
        eprintln!("foreign: {}", refused(runtime.load(&plan)));
        eprintln!("foreign, cut: {}", refused(runtime.load(&plan[..1000])));
    });
}
