//! The network as a handler of the cooperative dispatcher, against the engine. Skipped, with a line, without a device.

mod common;

use common::{bytes, network, on_device, volume};
use ringcall::RingConfig;
use ringcall_cuda::dispatcher::{DeviceDispatcher, Functions, MappedRing, Modules};
use ringcall_cuda::driver::Context;
use ringcall_dispatch::slot::{Response, Vacant};
use ringcall_infer::Model;
use ringcall_infer_gpu::{Decide, GpuModel, GridHandler};
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

/// Bit `c` of a cell: whether logit `c` is above the threshold; `None` where one is too close to it to tell.
fn decisions(logits: &[u8], cells: usize, threshold: f32) -> Vec<Option<u8>> {
    let logits: Vec<f32> = logits.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let bit = |cell: usize, c: usize| {
        let logit = logits[c * cells + cell];
        ((logit - threshold).abs() > 1e-4).then(|| u8::from(logit > threshold) << c)
    };
    (0..cells).map(|cell| (0..4).try_fold(0, |bits, c| Some(bits | bit(cell, c)?))).collect()
}

fn serves(context: &Arc<Context>, d: u32, layers: u32, requests: u64) {
    let (network, threshold) = (network(9), 0.25);
    let model = GpuModel::new("made up", &network, context, d, layers).expect("on the device");
    let mut engine = model.instantiate().expect("an engine");
    let cells = (d * d * layers) as usize;
    let square = (d * d) as usize;
    let maps: Vec<f32> = (0..2 * square).map(|i| [0.0, 0.5, 1.0][i % 3]).collect();
    let handler =
        GridHandler::new(&network, context, d, layers, Decide { maps: &maps, threshold }).expect("a handler");
    let ring = MappedRing::allocate(context, RingConfig { slots: 1, slot_bytes: handler.slot_bytes() });
    let ring = ring.expect("a ring");

    // What the engine says, first: it cannot run while the handler has the device.
    let mut cases = Vec::new();
    for seed in 0..4 {
        let mut input = volume(seed, cells);
        input.truncate(2 * cells);
        let payload: Vec<u8> = input.iter().map(|&v| v as u8).collect();
        for map in maps.chunks(square) {
            (0..layers).for_each(|_| input.extend(map));
        }
        let mut logits = vec![0; model.outputs()[0].size_bytes()];
        engine.run(&[&bytes(&input)], &mut [&mut logits]).expect("a run");
        cases.push((payload, decisions(&logits, cells, threshold)));
    }

    for _ in 0..2 {
        // A dispatcher anew: shared memory comes as the last one left it.
        let functions = handler.function(Functions::new(), NAME);
        let wired =
            DeviceDispatcher::wire(&ring, functions, handler.modules(Modules::new()), handler.options());
        let running = wired.expect("wired").start().expect("started");
        let (status, result) = call(&ring, &[0; 5]);
        assert_eq!((status, result.len()), (Status::SCHEMA_MISMATCH, 0));
        for request in 0..requests {
            let (payload, expected) = &cases[request as usize % cases.len()];
            let (status, result) = call(&ring, payload);
            assert_eq!(
                (status, result.len()),
                (Status::OK, cells),
                "{d} x {d} x {layers}, request {request}"
            );
            let wrong =
                result.iter().zip(expected).position(|(got, owed)| owed.is_some_and(|owed| owed != *got));
            assert_eq!(wrong, None, "{d} x {d} x {layers}, request {request}: the first wrong cell");
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

#[test]
fn maps_of_another_length_are_refused() {
    on_device("maps_of_another_length_are_refused", |context| {
        let decide = Decide { maps: &[0.0; 17], threshold: 0.0 };
        let why = GridHandler::new(&network(1), context, 3, 3, decide).expect_err("refused").to_string();
        assert!(why.contains("17 values") && why.contains("18"), "{why}");
    });
}
