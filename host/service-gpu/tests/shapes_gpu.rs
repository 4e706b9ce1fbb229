//! The same syndromes through each way that the network can be reached by on a device, and through the CPU's engine: a handler of
//! the cooperative dispatcher, a graph that the device's dispatcher launches, a graph that the host launches. Skipped, with a
//! line, without a device. `RINGCALL_SHAPE_REQUESTS` says how many requests each way, `RINGCALL_DECISION_SHOTS` how many shots
//! they are taken from, all of which go through the CPU.

mod common;

use common::{Bound, PATIENCE, answer, drive, floats, from_env, input, logits, on_device};
use ringcall::{FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Status, Wait};
use ringcall_ai_service::{AiDecoderService, Options as ServiceOptions, PredecoderEngine};
use ringcall_cuda::dispatcher::{DeviceDispatcher, Functions, KernelKind, MappedRing, Modules, Options};
use ringcall_cuda::driver::devrt;
use ringcall_infer::Model;
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer_gpu::{GpuModel, GridHandler};
use ringcall_qec::predecoder::PredecoderVolume;
use ringcall_qec::sample::Sampler;

const FUNCTION: &str = "predecode";
const SLOTS: u32 = 16;
const DISTANCE: u32 = 7;

/// A syndrome, and the answer that it has.
struct Shot {
    request: Vec<u8>,
    owed: Vec<u8>,
}

/// What the CPU's engine makes of each request, by as many threads as there are cores.
fn on_the_cpu(cpu: &OnnxModel, volume: &PredecoderVolume, threshold: f32, requests: &[Vec<u8>]) -> Vec<Shot> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let each = requests.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts: Vec<_> = requests
            .chunks(each)
            .map(|part| {
                let mut engine = cpu.instantiate().expect("an engine");
                scope.spawn(move || -> Vec<Shot> {
                    let shot = |request: &Vec<u8>| Shot {
                        request: request.clone(),
                        owed: answer(volume, &logits(&mut *engine, volume, request), threshold, request),
                    };
                    part.iter().map(shot).collect()
                })
            })
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect()
    })
}

#[test]
fn every_shape_gives_the_cpus_answers() {
    on_device("every_shape_gives_the_cpus_answers", |context| {
        let requests = from_env("RINGCALL_SHAPE_REQUESTS", 2000);
        let shots = from_env("RINGCALL_DECISION_SHOTS", 200);
        let Bound { volume, model, network, threshold, cpu, wiring } = Bound::new(DISTANCE, 0.003);

        let mut sampler = Sampler::new(&model, 17).expect("a sampler");
        let mut shot = sampler.new_shot();
        let drawn: Vec<Vec<u8>> = (0..shots)
            .map(|_| {
                sampler.sample_into(&mut shot).expect("a shot");
                shot.detectors.iter_bytes().collect()
            })
            .collect();
        let graph = GpuModel::wired("3x128", &network, context, &wiring).expect("on the device");
        // A decision that rounding to 16 bits tips over is `decisions_gpu`'s to judge: such shots are counted and left out.
        let mut engine = graph.instantiate().expect("an engine");
        let mut left = vec![0; wiring.answer_bytes()];
        let mut same = on_the_cpu(&cpu, &volume, threshold, &drawn);
        same.retain(|shot| {
            engine.run(&[&shot.request], &mut [&mut left]).expect("a run");
            left == shot.owed
        });
        let tipped = shots - same.len() as u64;
        assert!(tipped * 1000 <= shots, "{tipped} of {shots} answers differ from the CPU's");
        let bits: Vec<Vec<u8>> = same.iter().map(|shot| shot.request.clone()).collect();
        let right = |place: usize, result: &[u8]| result == same[place].owed;

        // A graph that the host launches, in its dispatcher's thread.
        let ring = Ring::allocate(RingConfig { slots: SLOTS, slot_bytes: 128 }).expect("a ring");
        let table = FunctionTable::builder()
            .host_call(FUNCTION, move |request: &[u8], result: &mut [u8]| {
                let len = request.len() + 1; // and the frame
                engine.run(&[request], &mut [&mut result[..len]]).map_err(|_| Status::ENGINE_FAILED)?;
                Ok(len)
            })
            .build(&ring)
            .expect("a table");
        let options = HostOptions { wait: Wait::Spin, core: None, request_timeout: None };
        let host = HostDispatcher::builder(&ring, table).options(options).build().expect("a dispatcher");
        let host = host.start().expect("started");
        let by_host = drive(&ring, FUNCTION, &bits, requests, right);
        assert_eq!(host.stop(PATIENCE).report.dropped, 0);

        // A graph that the device's dispatcher launches: floats in, logits out.
        let by_device = match devrt::find() {
            Err(_) => None,
            Ok(_) => {
                let engine = PredecoderEngine::new("3x128", &network, context, DISTANCE, DISTANCE + 1);
                let service =
                    AiDecoderService::new(&engine.expect("on the device"), &ServiceOptions::default());
                let service = service.expect("a service");
                let config = RingConfig { slots: SLOTS, slot_bytes: service.slot_bytes() };
                let ring = MappedRing::allocate(context, config).expect("a ring");
                let functions = service.function(Functions::new(), FUNCTION);
                let graphs = Options::new(KernelKind::graph());
                let device = DeviceDispatcher::wire(&ring, functions, Modules::new(), graphs).expect("wired");
                let device = device.start().expect("started");
                let halves = |value: f32| half::f16::from_f32(value).to_le_bytes();
                let volumes: Vec<Vec<u8>> = bits
                    .iter()
                    .map(|request| input(&volume, request).into_iter().flat_map(halves).collect())
                    .collect();
                let per_s = drive(ring.ring(), FUNCTION, &volumes, requests, |place, logits| {
                    answer(&volume, &floats(logits), threshold, &same[place].request) == same[place].owed
                });
                assert!(device.stop(PATIENCE).report.is_clean());
                Some(per_s)
            }
        };

        // A handler that is there already.
        let handler = GridHandler::new(&network, context, &wiring).expect("a handler");
        let config = RingConfig { slots: SLOTS, slot_bytes: handler.slot_bytes() };
        let ring = MappedRing::allocate(context, config).expect("a ring");
        let functions = handler.function(Functions::new(), FUNCTION);
        let modules = handler.modules(Modules::new());
        let device = DeviceDispatcher::wire(&ring, functions, modules, handler.options()).expect("wired");
        let device = device.start().expect("started");
        let by_grid = drive(ring.ring(), FUNCTION, &bits, requests, right);
        assert!(device.stop(PATIENCE).report.is_clean());

        let by_device = by_device.map_or("no libcudadevrt.a".to_owned(), |per_s| format!("{per_s:.0}"));
        eprintln!(
            "d = {DISTANCE}: {shots} shots by the CPU, {tipped} of them left out; {requests} requests each, none lost, each with \
             the CPU's answer, a second: {by_grid:.0} by a grid's handler, {by_device} by graphs of the device's dispatcher, \
             {by_host:.0} by graphs of the host's"
        );
    });
}
