//! The network between bits: as a handler of the cooperative dispatcher and as a graph, against its own logits. Skipped, with
//! a line, without a device.

mod common;

use common::{Lines, bytes, engines_of_many_threads_agree, first_wrong, network, on_device, times};
use ringcall::RingConfig;
use ringcall_cuda::driver::{Context, DeviceBuffer};
use ringcall_gpu_decoders::predecoder::{GpuModel, GridHandler, Network};
use ringcall_infer::Model;
use ringcall_launch::ring::{DeviceDispatcher, Functions, MappedRing, Modules, Running};
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_wire::Status;
use ringcall_wire::function::FunctionId;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(5);
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
        assert!(begin.elapsed() < TIMEOUT, "the slot does not become free");
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
        assert!(begin.elapsed() < TIMEOUT, "no answer");
    }
}

const THRESHOLD: f32 = 0.25;

/// Requests, and what is owed for each by an engine's logits: it cannot run while a handler has the device.
struct Cases {
    lines: Lines,
    requests: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Cases {
    fn new(network: &Network, context: &Arc<Context>, [d, layers]: [u32; 2]) -> Self {
        let lines = Lines::new(d, layers);
        let logits_of = GpuModel::new("made up", network, context, d, layers).expect("on the device");
        let mut engine = logits_of.instantiate().expect("an engine");
        let mut case = |seed| {
            let request = lines.request(seed);
            let mut logits = vec![0; logits_of.outputs()[0].size_bytes()];
            engine.run(&[&bytes(&lines.volume(&request))], &mut [&mut logits]).expect("a run");
            let owed = lines.answer(&request, &logits, THRESHOLD);
            (request, owed)
        };
        let requests = (0..4).map(&mut case).collect();
        Self { lines, requests }
    }

    /// Answers one of them through the ring.
    fn check(&self, ring: &MappedRing, number: usize) {
        let (payload, owed) = &self.requests[number % self.requests.len()];
        let (status, result) = call(ring, payload);
        assert_eq!((status, result.len()), (Status::OK, payload.len() + 1), "request {number}");
        assert_eq!(first_wrong(owed, &result), None, "request {number}");
    }
}

fn ring_for(context: &Arc<Context>, handler: &GridHandler) -> MappedRing {
    MappedRing::allocate(context, RingConfig { slots: 1, slot_bytes: handler.slot_bytes() }).expect("a ring")
}

fn wire(ring: &MappedRing, handler: &GridHandler) -> DeviceDispatcher {
    let (functions, modules) = (handler.function(Functions::new(), NAME), handler.modules(Modules::new()));
    DeviceDispatcher::wire(ring, functions, modules, handler.options()).expect("wired")
}

fn stop(running: DeviceDispatcher<Running>) {
    let stopped = running.stop(TIMEOUT);
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
}

fn serves(context: &Arc<Context>, d: u32, layers: u32, requests: usize) {
    let network = network(9);
    let cases = Cases::new(&network, context, [d, layers]);
    let wiring = cases.lines.wiring(THRESHOLD);
    let graph = GpuModel::wired("made up", &network, context, &wiring).expect("on the device");
    let mut graph = graph.instantiate().expect("an engine");
    for (seed, (request, owed)) in cases.requests.iter().enumerate() {
        // A graph again and again: each run leaves its counters and flips as it found them.
        for run in 0..3 {
            let mut answer = vec![0xFF; wiring.answer_bytes()];
            graph.run(&[request], &mut [&mut answer]).expect("a run");
            assert_eq!(first_wrong(owed, &answer), None, "{d} x {d} x {layers}, seed {seed}, run {run}");
        }
    }

    let handler = GridHandler::new(&network, context, &wiring).expect("a handler");
    let ring = ring_for(context, &handler);
    for _ in 0..2 {
        // A dispatcher anew: shared memory comes as the last one left it.
        let running = wire(&ring, &handler).start().expect("started");
        let (status, result) = call(&ring, &[0; 5][..5 - usize::from(handler.request_bytes() == 5)]);
        assert_eq!((status, result.len()), (Status::SCHEMA_MISMATCH, 0));
        (0..requests).for_each(|number| cases.check(&ring, number));
        stop(running);
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

/// Each on its part of the device, all of them at once; the shapes are other ones than of a whole.
#[test]
fn parts_of_a_device_answer_side_by_side() {
    on_device("parts_of_a_device_answer_side_by_side", |context| {
        let network = network(9);
        for (d, layers, parts) in [(7, 8, 2), (7, 8, 4), (13, 14, 2), (13, 14, 3), (13, 14, 4), (21, 22, 2)] {
            let cases = Cases::new(&network, context, [d, layers]);
            let wiring = cases.lines.wiring(THRESHOLD);
            let handlers = GridHandler::several(&network, context, &wiring, parts).expect("handlers");
            let rings: Vec<_> = handlers.iter().map(|handler| ring_for(context, handler)).collect();
            // None runs while the driver allocates and loads.
            let wired: Vec<_> =
                rings.iter().zip(&handlers).map(|(ring, handler)| wire(ring, handler)).collect();
            let running: Vec<_> = wired.into_iter().map(|wired| wired.start().expect("started")).collect();
            std::thread::scope(|scope| {
                for ring in &rings {
                    let cases = &cases;
                    scope.spawn(move || (0..300).for_each(|number| cases.check(ring, number)));
                }
            });
            running.into_iter().for_each(stop);
            for handler in &handlers {
                assert_eq!(handler.failed().expect("readable"), None, "{d} x {d} x {layers} in {parts}");
            }
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
        let network = network(9);
        let cases = Cases::new(&network, context, [7, 7]);
        let handler = GridHandler::new(&network, context, &cases.lines.wiring(THRESHOLD)).expect("a handler");
        let ring = ring_for(context, &handler);
        let wired = wire(&ring, &handler);
        drop(handler);
        // A thread that allocates now would get the handler's memory, and writes to it.
        let others = [1 << 12, 1 << 16, 1 << 20, 1 << 22].map(|bytes| {
            let buffer = DeviceBuffer::zeroed(context, bytes).expect("memory");
            buffer.fill(0xFF).expect("filled");
            buffer
        });
        let running = wired.start().expect("started");
        (0..10).for_each(|number| cases.check(&ring, number));
        stop(running);
        drop(others);
    });
}
