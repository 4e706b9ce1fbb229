//! Plans run on a device, against ONNX Runtime's answers. Needs a GPU and a TensorRT with a builder for it, found as a
//! program would find it (`RINGCALL_TENSORRT_LIB`, `RINGCALL_TENSORRT_INCLUDE`); skipped, with a line, without either.

mod common;

use common::{cases, damage, exchange, kept, model};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver, Graph, Stream};
use ringcall_infer::conformance::{self, Tolerance};
use ringcall_infer::{Engine, Model};
use ringcall_tensorrt::{BuildOptions, Cache, Found, Library, Search, Sizes, TensorRtError, TensorRtModel};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

fn on_device(name: &str, test: impl FnOnce(&Library, &Arc<Context>)) {
    // In turn: where one's kernel runs, no test loads code, and what another drops is not freed.
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
        let optimum =
            TensorRtModel::load(library, context, "network", bytes, &options, None).expect("loaded");
        assert_eq!(optimum.inputs()[0].shape, [1, 4, 3, 3, 3]);
        for rounds in [1, 6] {
            let shape = [1, 4, rounds, 3, 3];
            let other = TensorRtModel::new("network", optimum.engine(), context, &[("detectors", &shape)])
                .expect("fits");
            assert_eq!(other.outputs()[0].shape, shape);
            conformance::check(&other).unwrap_or_else(|why| panic!("{rounds}: {why}"));
        }
        let why =
            TensorRtModel::new("network", optimum.engine(), context, &[("detectors", &[1, 4, 7, 3, 3])]);
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
        let kept_again = || {
            let network = load();
            assert_eq!(network.found(), Some(&Found::Kept));
            assert!(network.metadata().contains(&("threshold".to_owned(), "2.0".to_owned())));
            conformance::check(&network).expect("the contract");
        };
        let rebuilt = || match load().found() {
            Some(Found::Rebuilt { why }) => why.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(load().found(), Some(&Found::Built));
        kept_again();

        let files = kept(cache.folder());
        let [file] = &files[..] else { panic!("one plan: {files:?}") };
        damage(file);
        let why = rebuilt();
        assert!(why.contains("its contents are not what they were"), "{why}");
        kept_again();

        // Whole, as far as its digest tells, and refused by TensorRT alone.
        let plan = fs::read(file).expect("read");
        for none in [&b"no plan"[..], &plan[plan.len() / 2..]] {
            exchange(file, none);
            let why = rebuilt();
            assert!(!why.contains(&*file.to_string_lossy()) && !why.is_empty(), "the cache's words: {why}");
            kept_again();
        }
    });
}

/// An ordinary run.
fn run(engine: &mut dyn Engine, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<u8>> = engine.outputs().iter().map(|spec| vec![0; spec.size_bytes()]).collect();
    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    engine.run(&inputs, &mut slices).expect("runs");
    outputs
}

/// By the host, which may launch what is for the device as well; the device's own launches of graphs are tested in
/// `ringcall-cuda`.
#[test]
fn a_run_is_part_of_a_graph_for_the_host_and_for_the_device() {
    on_device("a_run_is_part_of_a_graph_for_the_host_and_for_the_device", |library, context| {
        for name in ["conv_integers", "many_types"] {
            let network =
                TensorRtModel::load(library, context, name, model(name), &exact(), None).expect("loaded");
            let mut engine = network.instantiate().expect("an engine");
            let cases = [3, 4, 5].map(|seed| conformance::made_up(network.inputs(), seed));
            let expected = cases.each_ref().map(|inputs| run(&mut *engine, inputs));
            assert_ne!(expected[0], expected[1], "{name}: runs with the same outputs prove nothing");
            let stream = Stream::new(context).expect("a stream");
            let mut begins = Vec::new();
            let runs = [(); 2].map(|()| network.run_between_tensors().expect("a run"));
            for (run, by_device) in runs.iter().zip([false, true]) {
                let inputs = (0..run.inputs().len()).map(|index| run.input(index));
                let outputs = (0..run.outputs().len()).map(|index| run.output(index));
                for (buffer, spec) in inputs.chain(outputs).zip(run.inputs().iter().chain(run.outputs())) {
                    let buffer = buffer.expect("it is there");
                    assert!(buffer.len() >= spec.size_bytes() && buffer.address().0.is_multiple_of(256));
                    begins.push(buffer.address().0);
                }
                assert!(run.input(run.inputs().len()).is_none() && run.output(run.outputs().len()).is_none());
                let mut graph = Graph::new(context).expect("a graph");
                let first = run.add_to(&mut graph, &[]).expect("a node");
                run.add_to(&mut graph, &[first]).expect("another after it");
                let exec = match by_device {
                    true => graph.instantiate_for_device_launch(),
                    false => graph.instantiate_for_host(),
                };
                let exec = exec.expect("for either side");
                for (inputs, outputs) in cases.iter().zip(&expected).cycle().take(7) {
                    for (index, tensor) in inputs.iter().enumerate() {
                        run.input(index).expect("it is there").write_from(0, tensor).expect("written");
                    }
                    // SAFETY: the graph reaches the run's memory and nothing else, all of which lives on and
                    // is used by no other agent until the launch has ended.
                    #[allow(unsafe_code)]
                    unsafe { exec.launch(&stream) }.expect("launched");
                    stream.wait(Duration::from_secs(5)).expect("it ends");
                    for (index, (spec, expected)) in run.outputs().iter().zip(outputs).enumerate() {
                        let mut found = vec![0; spec.size_bytes()];
                        run.output(index).expect("it is there").read_into(0, &mut found).expect("read");
                        assert!(found == *expected, "{name}, {}, by the device: {by_device}", spec.name);
                    }
                }
            }
            begins.sort_unstable();
            begins.dedup();
            assert_eq!(begins.len(), 2 * (network.inputs().len() + network.outputs().len()), "each its own");
            // What was captured beside them did not disturb the engines.
            assert!(run(&mut *engine, &cases[0]) == expected[0], "{name}");
        }
    });
}
