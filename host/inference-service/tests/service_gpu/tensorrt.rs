//! TensorRT's models as services. Needs a GPU, and a TensorRT with a builder for it, found as a program would find it; skipped,
//! with a line, without either.

use crate::rig::{Sent, TIMEOUT, dispatcher, drive, requests, ring, try_on_device};
use crate::{FUNCTION, by_host, same, stages, workers};
use ringcall_cuda::driver::Context;
use ringcall_infer::{Model, conformance};
use ringcall_inference_service::{
    AiDecoderService, AiPredecoderService, Bindings, Capturable, Pick, ServiceError, ServiceOptions, Stage,
    Transfer, Workers,
};
use ringcall_launch::ring::Functions;
use ringcall_tensorrt::{BuildOptions, Library, Search, TensorRtError, TensorRtModel};
use std::path::Path;
use std::sync::Arc;

/// Integers in, integers and floats out; and every type that there is, by several tensors each way.
const MODELS: [(&str, &[u8]); 2] = [
    ("conv_integers", include_bytes!("../../../infer/tests/data/conv_integers.onnx")),
    ("many_types", include_bytes!("../../../infer/tests/data/many_types.onnx")),
];

/// Runs `test` with each model, or says why not.
fn with_models(name: &str, test: impl Fn(&Arc<Context>, &TensorRtModel)) {
    try_on_device(name, |context| {
        let kept = tempfile::tempdir().expect("a folder");
        let built_here = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let shims = if built_here.is_dir() { built_here } else { kept.path() }.join("shims");
        let library = match Library::open(&Search::new().with_cache(shims)) {
            Err(why @ TensorRtError::NoLibrary { .. }) => return Err(why.to_string()),
            other => other.unwrap_or_else(|why| panic!("{name}: {why}")),
        };
        if !library.builds() {
            return Err(format!("{} makes no plans", library.version()));
        }
        for (model, onnx) in MODELS {
            let options = BuildOptions { tf32: false, ..BuildOptions::new() };
            match TensorRtModel::load(&library, context, model, onnx, &options, None) {
                // TensorRT-RTX knows no data-centre GPUs.
                Err(TensorRtError::Refused { words, .. }) if words.contains("capab") => {
                    let version = library.version();
                    return Err(format!("{version} does not run here: {words}"));
                }
                network => test(context, &network.unwrap_or_else(|why| panic!("{name}: {model}: {why}"))),
            }
        }
        Ok(())
    });
}

/// Requests, and the answers that an engine by itself gives to them.
struct Asked {
    requests: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    /// Bytes of an answer that belong to no tensor.
    gaps: Vec<std::ops::Range<usize>>,
}

/// Tensors one after the other, as bindings have them.
fn joined(bindings: &Bindings, tensors: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0; bindings.bytes()];
    for bound in bindings.bound() {
        all[bound.offset..][..bound.bytes].copy_from_slice(&tensors[bound.index]);
    }
    all
}

fn ask(network: &TensorRtModel, inputs: &Bindings, outputs: &Bindings) -> Asked {
    let mut engine = network.instantiate().expect("an engine");
    let mut asked = Asked { requests: Vec::new(), answers: Vec::new(), gaps: Vec::new() };
    for seed in 1..9 {
        let given = conformance::made_up(Model::inputs(network), seed);
        let mut made: Vec<Vec<u8>> =
            Model::outputs(network).iter().map(|spec| vec![0; spec.size_bytes()]).collect();
        let borrowed: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
        let mut results: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
        engine.run(&borrowed, &mut results).expect("it runs");
        asked.requests.push(joined(inputs, &given));
        asked.answers.push(joined(outputs, &made));
    }
    let ends = outputs.bound().iter().map(|bound| bound.offset + bound.bytes);
    let begins = outputs.bound().iter().skip(1).map(|bound| bound.offset);
    asked.gaps = ends.zip(begins).map(|(end, begin)| end..begin).collect();
    asked
}

impl Asked {
    fn sent(&self, i: u64) -> Sent<'_> {
        let at = i as usize % self.requests.len();
        let answer = |_: &[u8]| self.answers[at].clone();
        Sent { ignored: &self.gaps, ..Sent::of(self.requests[at].clone(), answer) }
    }
}

/// All tensors, by their names.
fn all(network: &TensorRtModel, instances: u32) -> ServiceOptions {
    let names =
        |specs: &[ringcall_infer::TensorSpec]| Pick::names(specs.iter().map(|spec| spec.name.clone()));
    let (inputs, outputs) = (names(Model::inputs(network)), names(Model::outputs(network)));
    ServiceOptions { inputs, outputs, instances, ..ServiceOptions::default() }
}

#[test]
fn models_of_tensorrt_are_served() {
    with_models("models_of_tensorrt_are_served", |context, network| {
        let n = requests() / 5;
        for (instances, input_transfer) in [(1, Transfer::Kernel), (4, Transfer::Dma)] {
            let options = ServiceOptions { input_transfer, ..all(network, instances) };
            let service = AiDecoderService::new(network, &options).expect("a service");
            let asked = ask(network, service.inputs(), service.outputs());
            let slots = ring(context, 16, service.slot_bytes());
            let running = dispatcher(&slots, service.function(Functions::new(), FUNCTION));
            drive(slots.ring(), FUNCTION, n, |i| asked.sent(i));
            assert!(running.stop(TIMEOUT).report.is_clean());

            let service = AiPredecoderService::new(network, 4, &options).expect("a service");
            let slots = ring(context, 16, service.slot_bytes());
            let running = dispatcher(&slots, service.function(Functions::new(), FUNCTION));
            let shared = slots.ring().shared();
            let at_work =
                Workers::start(service.queues(), shared, stages(2, same), &workers()).expect("workers");
            drive(slots.ring(), FUNCTION, n, |i| asked.sent(i));
            assert!(running.stop(TIMEOUT).report.is_clean());
            let report = at_work.stop(TIMEOUT);
            assert!(report.is_clean() && report.workers.answered == n, "{report:?}");
        }
        assert_eq!(network.most_instances(), None);
        let missing = ServiceOptions { inputs: Pick::names(["x"]), ..all(network, 1) };
        assert!(matches!(AiDecoderService::new(network, &missing), Err(ServiceError::NoTensor { .. })));
    });
}

/// A model of one input, whose requests are its bytes alone.
#[test]
fn a_host_dispatcher_launches_them_too() {
    with_models("a_host_dispatcher_launches_them_too", |_, network| {
        if Model::inputs(network).len() > 1 {
            return;
        }
        let options = all(network, 2);
        let service = AiPredecoderService::new(network, 1, &options).expect("a service");
        let asked = ask(network, service.inputs(), service.outputs());
        let len = service.inputs().bytes().max(service.outputs().bytes());
        let stage = || Some(Box::new(same) as Box<dyn Stage>);
        by_host(
            (len, requests() / 5),
            |i| service.host_worker(i).expect("a worker"),
            stage,
            |i| asked.sent(i),
        );
    });
}
