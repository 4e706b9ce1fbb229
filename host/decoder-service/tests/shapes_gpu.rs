//! The same syndromes through each way that the network can be reached by on a device, and through the CPU's engine: a handler of
//! the cooperative dispatcher, a graph that the device's dispatcher launches, a graph that the host launches. Skipped, with a
//! line, without a device. What is owed comes from the CPU alone, and every answer is that. `RINGCALL_SHAPE_REQUESTS` says how many
//! requests each way, `RINGCALL_DECISION_SHOTS` how many shots they are taken from, all of which go through the CPU.

mod common;

use common::{Bound, TIMEOUT, answer, bytes_of, drive, floats, from_env, input, on_device};
use ringcall::{FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Status, Wait};
use ringcall_cuda::driver::devrt;
use ringcall_gpu_decoders::predecoder::{GpuModel, GridHandler};
use ringcall_infer::Model;
use ringcall_inference_service::{AiDecoderService, PredecoderEngine, ServiceOptions};
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules,
};

const FUNCTION: &str = "predecode";
const SLOTS: u32 = 16;
const DISTANCE: u32 = 7;

#[test]
fn every_shape_gives_the_cpus_answers() {
    on_device("every_shape_gives_the_cpus_answers", |context| {
        let requests = from_env("RINGCALL_SHAPE_REQUESTS", 2000);
        let shots = from_env("RINGCALL_DECISION_SHOTS", 200);
        let bound = Bound::new(DISTANCE, 0.003);
        let Bound { volume, network, threshold, wiring, .. } = &bound;

        let drawn = bound.shots(shots, 17);
        let owed = bound.owed(&drawn);
        let bits: Vec<Vec<u8>> = drawn.iter().map(bytes_of).collect();
        let is_owed = |place: usize, answer: &[u8]| assert_eq!(answer, owed[place], "shot {place}");

        // A graph that the host launches, in its dispatcher's thread.
        let graph = GpuModel::wired("3x128_int8", network, context, wiring).expect("on the device");
        let mut engine = graph.instantiate().expect("an engine");
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
        let by_host = drive(&ring, FUNCTION, &bits, requests, is_owed);
        assert_eq!(host.stop(TIMEOUT).report.dropped, 0);

        // A graph that the device's dispatcher launches: floats in, logits out.
        let by_device = match devrt::find() {
            Err(_) => None,
            Ok(_) => {
                let engine = PredecoderEngine::new("3x128_int8", network, context, DISTANCE, DISTANCE + 1);
                let service =
                    AiDecoderService::new(&engine.expect("on the device"), &ServiceOptions::default());
                let service = service.expect("a service");
                let config = RingConfig { slots: SLOTS, slot_bytes: service.slot_bytes() };
                let ring = MappedRing::allocate(context, config).expect("a ring");
                let functions = service.function(Functions::new(), FUNCTION);
                let graphs = DispatcherOptions::new(KernelKind::graph());
                let device = DeviceDispatcher::wire(&ring, functions, Modules::new(), graphs).expect("wired");
                let device = device.start().expect("started");
                let halves = |value: f32| half::f16::from_f32(value).to_le_bytes();
                let volumes: Vec<Vec<u8>> = bits
                    .iter()
                    .map(|request| input(volume, request).into_iter().flat_map(halves).collect())
                    .collect();
                let per_s = drive(ring.ring(), FUNCTION, &volumes, requests, |place, logits| {
                    is_owed(place, &answer(volume, &floats(logits), *threshold, &bits[place]));
                });
                assert!(device.stop(TIMEOUT).report.is_clean());
                Some(per_s)
            }
        };

        // A handler that exists already.
        let handler = GridHandler::new(network, context, wiring).expect("a handler");
        let config = RingConfig { slots: SLOTS, slot_bytes: handler.slot_bytes() };
        let ring = MappedRing::allocate(context, config).expect("a ring");
        let functions = handler.function(Functions::new(), FUNCTION);
        let modules = handler.modules(Modules::new());
        let device = DeviceDispatcher::wire(&ring, functions, modules, handler.options()).expect("wired");
        let device = device.start().expect("started");
        let by_grid = drive(ring.ring(), FUNCTION, &bits, requests, is_owed);
        assert!(device.stop(TIMEOUT).report.is_clean());

        let by_device = by_device.map_or("no libcudadevrt.a".to_owned(), |per_s| format!("{per_s:.0}"));
        eprintln!(
            "d = {DISTANCE}: {shots} shots by the CPU; {requests} requests each, none lost, each with the CPU's answer, a second: \
             {by_grid:.0} by a grid's handler, {by_device} by graphs of the device's dispatcher, {by_host:.0} by graphs of the host's"
        );
    });
}
