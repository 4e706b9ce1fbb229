//! Plans run on a device, against ONNX Runtime's answers. Needs a GPU and a TensorRT with a builder for it, found as a
//! program would find it (`RINGCALL_TENSORRT_LIB`, `RINGCALL_TENSORRT_INCLUDE`); skipped, with a line, without either.

mod common;

use common::{cases, model};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver, Graph};
use ringcall_infer::Model;
use ringcall_infer::conformance::{self, Tolerance};
use ringcall_tensorrt::{BuildOptions, Cache, Found, Library, Search, Sizes, TensorRtError, TensorRtModel};
use std::sync::Arc;

fn on_device(name: &str, test: impl FnOnce(&Library, &Arc<Context>)) {
    // In turn: where one's kernel runs, nobody loads code, and what another drops is not freed.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let context = match Driver::load().and_then(|driver| driver.device(0)?.context()) {
        Err(why @ (CudaError::NoDriver | CudaError::NoDevice | CudaError::DriverUnusable(_))) => {
            eprintln!("skipped: {name}: {why}");
            return;
        }
        other => other.unwrap_or_else(|why| panic!("{name}: {why}")),
    };
    let cache = tempfile::tempdir().expect("a folder");
    match Library::open(&Search::new().with_cache(common::shims(cache.path()))) {
        Err(why @ TensorRtError::NoLibrary { .. }) => eprintln!("skipped: {name}: {why}"),
        Err(why) => panic!("{name}: {why}"),
        Ok(library) if !library.builds() => {
            eprintln!("skipped: {name}: {} makes no plans", library.version());
        }
        Ok(library) => {
            let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let trial = TensorRtModel::load(&library, &context, "t", model("residual"), &exact(), None);
            // TensorRT-RTX knows no data-centre GPUs.
            if let Err(TensorRtError::Refused { words, .. }) = &trial
                && words.contains("capab")
            {
                eprintln!("skipped: {name}: {} does not run here: {words}", library.version());
                return;
            }
            drop(trial.unwrap_or_else(|why| panic!("{name}: {why}")));
            test(&library, &context);
            eprintln!("ran: {name}");
        }
    }
}

/// Products in binary32, to be compared with a CPU's.
fn exact() -> BuildOptions {
    BuildOptions { tf32: false, ..BuildOptions::new() }
}

#[test]
fn answers_are_those_of_onnx_runtime() {
    on_device("answers_are_those_of_onnx_runtime", |library, context| {
        for case in cases() {
            let options = BuildOptions { tf32: false, ..case.options() };
            let network =
                TensorRtModel::load(library, context, &case.model, model(&case.model), &options, None)
                    .unwrap_or_else(|why| panic!("{}: {why}", case.model));
            // Sums go in another order than on a CPU.
            let tolerance = match case.tolerance() {
                Tolerance::Close { absolute, relative } => {
                    Tolerance::Close { absolute: absolute * 4.0, relative: relative * 4.0 }
                }
                exact => exact,
            };
            conformance::check_case(&network, &case.inputs(), &case.outputs(), tolerance)
                .unwrap_or_else(|why| panic!("{}: {why}", case.model));
        }
    });
}

#[test]
fn engines_like_any_other() {
    on_device("engines_like_any_other", |library, context| {
        for name in ["conv_integers", "many_types", "residual", "half_precision"] {
            let network =
                TensorRtModel::load(library, context, name, model(name), &exact(), None).expect("loaded");
            conformance::check(&network).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    });
}

#[test]
fn one_plan_serves_every_shape_of_its_range() {
    on_device("one_plan_serves_every_shape_of_its_range", |library, context| {
        let options = exact()
            .with_symbol("rounds", Sizes::new(1, 3, 6))
            .with_symbol("height", 3)
            .with_symbol("width", 3);
        let bytes = model("fully_convolutional");
        let usual = TensorRtModel::load(library, context, "network", bytes, &options, None).expect("loaded");
        assert_eq!(usual.inputs()[0].shape, [1, 4, 3, 3, 3]);
        for rounds in [1, 6] {
            let shape = [1, 4, rounds, 3, 3];
            let other = TensorRtModel::new("network", usual.engine(), context, &[("detectors", &shape)])
                .expect("fits");
            assert_eq!(other.outputs()[0].shape, shape);
            conformance::check(&other).unwrap_or_else(|why| panic!("{rounds}: {why}"));
        }
        let why = TensorRtModel::new("network", usual.engine(), context, &[("detectors", &[1, 4, 7, 3, 3])]);
        assert!(matches!(why, Err(TensorRtError::Sizes { .. })), "{why:?}");
    });
}

#[test]
fn a_kept_plan_is_used_again_and_a_refused_one_is_built_anew() {
    on_device("a_kept_plan_is_used_again_and_a_refused_one_is_built_anew", |library, context| {
        let home = tempfile::tempdir().expect("a folder");
        let cache = Cache::at(home.path().join("plans")).expect("made");
        let load = || {
            let bytes = model("conv_integers");
            TensorRtModel::load(library, context, "conv", bytes, &exact(), Some(&cache)).expect("loaded")
        };
        assert_eq!(load().found(), Some(&Found::Built));
        let kept = load();
        assert_eq!(kept.found(), Some(&Found::Kept));
        assert!(kept.metadata().contains(&("threshold".to_owned(), "2.0".to_owned())));
        conformance::check(&kept).expect("the contract");
    });
}

#[test]
fn a_run_is_part_of_a_graph_for_the_host_and_for_the_device() {
    on_device("a_run_is_part_of_a_graph_for_the_host_and_for_the_device", |library, context| {
        let network = TensorRtModel::load(library, context, "conv", model("conv_integers"), &exact(), None)
            .expect("loaded");
        let runs = [(); 2].map(|()| network.run_between_tensors().expect("a run"));
        let mut begins = Vec::new();
        for run in &runs {
            for (index, spec) in run.inputs().iter().enumerate() {
                let buffer = run.input(index).expect("it is there");
                assert!(buffer.len() >= spec.size_bytes() && buffer.address().0.is_multiple_of(256));
                begins.push(buffer.address());
            }
            for (index, spec) in run.outputs().iter().enumerate() {
                let buffer = run.output(index).expect("it is there");
                assert!(buffer.len() >= spec.size_bytes() && buffer.address().0.is_multiple_of(256));
                begins.push(buffer.address());
            }
            assert!(run.input(run.inputs().len()).is_none() && run.output(run.outputs().len()).is_none());
            let mut graph = Graph::new(context).expect("a graph");
            let first = run.add_to(&mut graph, &[]).expect("a node");
            run.add_to(&mut graph, &[first]).expect("another behind it");
            graph.instantiate_for_host().expect("for the host");
            graph.instantiate_for_device_launch().expect("for the device");
        }
        begins.sort_unstable_by_key(|at| at.0);
        begins.dedup();
        assert_eq!(begins.len(), 2 * (network.inputs().len() + network.outputs().len()), "each its own");
        // What was captured beside them does not disturb the engines.
        conformance::check(&network).expect("the contract");
    });
}
