//! The network between bits: as a handler of the cooperative dispatcher and as a graph, against its own logits. Skipped, with
//! a line, without a device.

mod common;

use common::{Lines, bytes, engines_of_many_threads_agree, network, on_device, times};
use ringcall::RingConfig;
use ringcall_cuda::dispatcher::{DeviceDispatcher, Functions, MappedRing, Modules};
use ringcall_cuda::driver::{Context, DeviceBuffer};
use ringcall_dispatch::slot::{Response, Vacant};
use ringcall_infer::Model;
use ringcall_infer_gpu::{GpuModel, GridHandler};
use ringcall_wire::Status;
use ringcall_wire::function::FunctionId;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(5);
const NAME: &str = "predecode";

/// One call through the ring's first slot.
fn call(ring: &MappedRing, payload: &[u8]) -> (Status, Vec<u8>) {
    let ring = ring.ring();
    let slot = ring.geometry().slot(0).expect("a slot");
    let begin = Instant::now();
    let vacant = loop {
        if let Some(vacant) = Vacant::probe(ring.shared(), slot) {
            break vacant;
        }
        assert!(begin.elapsed() < PATIENCE, "the slot does not become free");
    };
    vacant.submit(ring.shared(), FunctionId::of(NAME).0, 7, 7, payload).expect("it fits");
    loop {
        if let Some(response) = Response::probe(ring.shared(), slot) {
            let (status, len) = (Status(response.header().status), response.header().result_len);
            let mut result = vec![0; len as usize];
            response.read(ring.shared(), &mut result);
            response.release(ring.shared());
            return (status, result);
        }
        assert!(begin.elapsed() < PATIENCE, "no answer");
    }
}

fn serves(context: &Arc<Context>, d: u32, layers: u32, requests: u64) {
    let (network, threshold) = (network(9), 0.25);
    let logits_of = GpuModel::new("made up", &network, context, d, layers).expect("on the device");
    let mut engine = logits_of.instantiate().expect("an engine");
    let lines = Lines::new(d, layers);
    let wiring = lines.wiring(threshold);
    let graph = GpuModel::wired("made up", &network, context, &wiring).expect("on the device");
    let mut graph = graph.instantiate().expect("an engine");
    let handler = GridHandler::new(&network, context, &wiring).expect("a handler");
    let ring = MappedRing::allocate(context, RingConfig { slots: 1, slot_bytes: handler.slot_bytes() });
    let ring = ring.expect("a ring");

    // What the engine says, first: it cannot run while the handler has the device.
    let mut cases = Vec::new();
    for seed in 0..4 {
        let request = lines.request(seed);
        let mut logits = vec![0; logits_of.outputs()[0].size_bytes()];
        engine.run(&[&bytes(&lines.volume(&request))], &mut [&mut logits]).expect("a run");
        let owed = lines.answer(&request, &logits, threshold);
        // A graph again and again: each run leaves its counters and flips as it found them.
        for run in 0..3 {
            let mut answer = vec![0xFF; wiring.answer_bytes()];
            graph.run(&[&request], &mut [&mut answer]).expect("a run");
            assert_eq!(owed.first_wrong(&answer), None, "{d} x {d} x {layers}, seed {seed}, run {run}");
        }
        cases.push((request, owed));
    }

    for _ in 0..2 {
        // A dispatcher anew: shared memory comes as the last one left it.
        let functions = handler.function(Functions::new(), NAME);
        let wired =
            DeviceDispatcher::wire(&ring, functions, handler.modules(Modules::new()), handler.options());
        let running = wired.expect("wired").start().expect("started");
        let (status, result) = call(&ring, &[0; 5][..5 - usize::from(handler.request_bytes() == 5)]);
        assert_eq!((status, result.len()), (Status::SCHEMA_MISMATCH, 0));
        for request in 0..requests {
            let (payload, owed) = &cases[request as usize % cases.len()];
            let (status, result) = call(&ring, payload);
            assert_eq!((status, result.len()), (Status::OK, handler.answer_bytes()), "request {request}");
            assert_eq!(owed.first_wrong(&result), None, "{d} x {d} x {layers}, request {request}");
        }
        let stopped = running.stop(PATIENCE);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
        assert_eq!(handler.failed().expect("readable"), None);
    }
}

#[test]
fn a_grid_answers_as_the_engine_does() {
    on_device("a_grid_answers_as_the_engine_does", |context| {
        for (d, layers, requests) in
            [(7, 7, 1000), (13, 13, 10_000), (13, 14, 200), (21, 21, 200), (31, 31, 100)]
        {
            serves(context, d, layers, requests);
        }
    });
}

/// Between bits, too: counters, flips and answers of one engine are no other's.
#[test]
fn graphs_answer_their_own_threads() {
    on_device("graphs_answer_their_own_threads", |context| {
        for (d, layers) in [(7, 8), (13, 14)] {
            let lines = Lines::new(d, layers);
            let model = GpuModel::wired("made up", &network(9), context, &lines.wiring(0.25));
            let model = model.expect("on the device");
            let requests = [1, 2, 3, 4, 5].map(|seed| lines.request(seed));
            engines_of_many_threads_agree(&model, &requests, 1000);
            let mut engine = model.instantiate().expect("an engine");
            eprintln!("{d} x {d} x {layers}, bits to bits: {}", times(&mut *engine, &requests));
        }
    });
}

/// A dispatcher has all that its handler works on.
#[test]
fn a_dispatcher_outlives_its_handler() {
    on_device("a_dispatcher_outlives_its_handler", |context| {
        let (network, threshold, lines) = (network(9), 0.25, Lines::new(7, 7));
        let wiring = lines.wiring(threshold);
        let model = GpuModel::new("made up", &network, context, 7, 7).expect("on the device");
        let request = lines.request(3);
        let mut logits = vec![0; model.outputs()[0].size_bytes()];
        let mut engine = model.instantiate().expect("an engine");
        engine.run(&[&bytes(&lines.volume(&request))], &mut [&mut logits]).expect("a run");
        let owed = lines.answer(&request, &logits, threshold);

        let handler = GridHandler::new(&network, context, &wiring).expect("a handler");
        let ring = MappedRing::allocate(context, RingConfig { slots: 1, slot_bytes: handler.slot_bytes() });
        let ring = ring.expect("a ring");
        let functions = handler.function(Functions::new(), NAME);
        let modules = handler.modules(Modules::new());
        let wired = DeviceDispatcher::wire(&ring, functions, modules, handler.options()).expect("wired");
        drop(handler);
        // Whoever allocates now would get the handler's memory, and writes to it.
        let others = [1 << 12, 1 << 16, 1 << 20, 1 << 22].map(|bytes| {
            let buffer = DeviceBuffer::zeroed(context, bytes).expect("memory");
            buffer.fill(0xFF).expect("filled");
            buffer
        });
        let running = wired.start().expect("started");
        for _ in 0..10 {
            let (status, result) = call(&ring, &request);
            assert_eq!((status, owed.first_wrong(&result)), (Status::OK, None));
        }
        let stopped = running.stop(PATIENCE);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
        drop(others);
    });
}
