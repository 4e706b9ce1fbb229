//! Matching behind the queues of a service that hands over, against the pipeline. The device is a thread here: what its graphs
//! would leave in a queue the CPU's engine leaves there.

mod common;

use common::{Bound, TIMEOUT, answer, drive, experiment, logits};
use ringcall::wire::header::RequestHeader;
use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::wire::qec::read_decode_result;
use ringcall::{Ring, RingConfig, Status, Wait};
use ringcall_decoder_service::gpu::MatchingStage;
use ringcall_decoder_service::{Inference, Pace, Predecoder, Problem, Service, ServiceConfig, ShotSource};
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_infer::{ElementType, Model, TensorSpec};
use ringcall_inference_service::{Bindings, Job, Pick, Queue, Stage, WorkerOptions, Workers};
use ringcall_protocol::handoff::{Shape, Whose};
use ringcall_protocol::scan::Scan;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{Shot, ShotFormat, ShotLayout, ShotWriter};
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Looks for a free record; then the request is refused, which no test here allows.
const POLLS: u64 = 1 << 40;

/// One instance of a service for each queue, as a dispatcher and the graphs' kernels are seen: takes `n` requests, and leaves
/// what `outputs` says of each in the next queue that has room.
fn play(ring: &SharedRing, queues: &[Arc<Queue>], requests: &[Vec<u8>], outputs: &[Vec<u8>]) {
    let mut scan = Scan::new(ring.geometry().slots());
    let (mut tails, mut served, begin) = (vec![0; queues.len()], 0, Instant::now());
    let mut payload = vec![0; ring.geometry().request_capacity() as usize];
    while served < requests.len() && begin.elapsed() < 6 * TIMEOUT {
        scan.turn(ring, |one| {
            let Some(instance) = queues.iter().position(|queue| queue.has_room()) else { return };
            let Some(request) = one.claim(ring) else { return };
            let header = *request.header();
            request.read_payload(ring, &mut payload[..header.arg_len as usize]);
            let slot = request.take(ring).slot();
            let number = header.ptp_timestamp as usize;
            assert_eq!(payload[..header.arg_len as usize], requests[number], "request {number}");
            let end = queues[instance].device_end();
            let grant = end.grant(tails[instance], POLLS).expect("there was room");
            for (pair, bytes) in outputs[number].chunks(16).enumerate() {
                let mut both = [0; 16];
                both[..bytes.len()].copy_from_slice(bytes);
                let [low, high] =
                    [0, 8].map(|at| u64::from_le_bytes(both[at..at + 8].try_into().expect("8")));
                end.set_output_pair(grant, pair, [low, high]);
            }
            end.publish(grant, &Whose { header, slot: slot.get().into(), answers: true });
            tails[instance] += 1;
            served += 1;
        });
        std::thread::yield_now();
    }
}

/// Every request through queues and workers; what each was answered.
fn hand_over(
    problem: &Problem,
    bindings: &Bindings,
    stages: Vec<Box<dyn Stage>>,
    requests: &[Vec<u8>],
    outputs: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let bytes = bindings.bytes().max(requests[0].len()).max(problem.result_bytes()) + 24;
    let slot_bytes = bytes.next_multiple_of(64) as u32;
    let ring = Ring::allocate(RingConfig { slots: 16, slot_bytes }).expect("a ring");
    let shape = Shape::new(4, bindings.bytes() as u32).expect("a shape");
    let queues: Vec<_> = (0..2).map(|_| Arc::new(Queue::allocate(shape).expect("memory"))).collect();
    let options = WorkerOptions { wait: Wait::Yield { spins: 4 }, ..WorkerOptions::default() };
    let workers = Workers::start(&queues, ring.shared(), stages, &options).expect("workers");
    let n = requests.len() as u64;
    let mut answers = vec![Vec::new(); requests.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| play(ring.shared(), &queues, requests, outputs));
        drive(&ring, DECODE_SYNDROME, requests, n, |number, result| {
            answers[number] = result.to_vec();
        });
    });
    let report = workers.stop(TIMEOUT);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.workers.answered, report.workers.failed), (n, 0), "{report:?}");
    assert!(report.queues.iter().all(|queue| queue.published > 0), "both queues are used: {report:?}");
    answers
}

fn predicted(problem: &Problem, answer: &[u8]) -> bool {
    let schema = problem.schema();
    let (bits, outcome) = read_decode_result(&schema, answer).expect("a result");
    assert_eq!(outcome.converged, 1);
    bits.ones().next().is_some()
}

/// The same shots through the pipeline, each with the answer that it has to get as its truth, but for every eighth, which has
/// the other one: so many errors and no more, and so many that were not matched.
fn check(problem: &Problem, inference: &Inference, shots: &[Shot], answers: &[Vec<u8>], empty: u64) {
    let mut truths =
        ShotWriter::new(Vec::new(), ShotFormat::B8, shots[0].layout()).expect("a layout with bits");
    let mut ones = 0;
    for (number, (shot, answer)) in shots.iter().zip(answers).enumerate() {
        let (mut shot, predicted) = (shot.clone(), predicted(problem, answer));
        ones += u64::from(predicted);
        shot.observables.set(0, predicted ^ number.is_multiple_of(8)).expect("one observable");
        truths.write(&shot).expect("written");
    }
    let n = shots.len() as u64;
    assert!(ones > 0 && ones < n && empty > 0 && empty < n, "{ones} ones, {empty} of {n} empty");
    let file = Cursor::new(truths.finish().expect("written"));
    let source = ShotSource::read(problem, file, ShotFormat::B8, true).expect("a source");
    let config = ServiceConfig { workers: 2, request_timeout: None, ..ServiceConfig::default() };
    let service = Service::start(problem, inference, config).expect("started");
    let pace = Pace { requests: Some(n), duration: None, interval: Duration::ZERO };
    let summary = service.drive(source, pace, &mut |_| true).expect("a run");
    assert_eq!((summary.stats.succeeded, summary.lost()), (n, 0));
    assert_eq!((summary.rate.shots, summary.rate.errors), (n, n.div_ceil(8)), "the answers differ");
    assert_eq!(summary.matching_skipped, empty);
}

fn drawn(problem: &Problem, seed: u64, count: usize) -> Vec<Shot> {
    let mut sampler = Sampler::new(problem.model(), seed).expect("a sampler");
    let layout = ShotLayout::with_observables(problem.detectors(), problem.observables());
    let draw = |_| {
        let mut shot = sampler.new_shot();
        sampler.sample_into(&mut shot).expect("a shot");
        assert_eq!(shot.layout(), layout);
        shot
    };
    (0..count).map(draw).collect()
}

fn bits(name: &str, bytes: usize) -> TensorSpec {
    TensorSpec::new(name, ElementType::U8, [1, bytes]).expect("a tensor")
}

/// As the network on a device leaves it: bits, the decisions applied.
#[test]
fn bits_that_a_network_leaves_are_answered_as_by_the_pipeline() {
    let Bound { volume, model, threshold, cpu, wiring, .. } = Bound::new(5, 0.003);
    let problem = Problem::new(model).expect("a problem");
    let shots = drawn(&problem, 23, 96);
    let requests: Vec<Vec<u8>> = shots.iter().map(|shot| shot.detectors.iter_bytes().collect()).collect();
    let mut engine = cpu.instantiate().expect("an engine");
    let outputs: Vec<Vec<u8>> = requests
        .iter()
        .map(|request| answer(&volume, &logits(&mut *engine, &volume, request), threshold, request))
        .collect();
    let nothing = |left: &&Vec<u8>| left[..left.len() - 1].iter().all(|&byte| byte == 0);
    let empty = outputs.iter().filter(nothing).count() as u64;
    assert!(outputs.iter().any(|left| left.last() == Some(&1)), "no frame is flipped");

    let bindings = Bindings::choose("played", "output", &[bits("left", wiring.answer_bytes())], &Pick::First)
        .expect("one");
    let stage = || -> Box<dyn Stage> {
        Box::new(MatchingStage::packed(&problem, &bindings).expect("residual and frame"))
    };
    let answers = hand_over(&problem, &bindings, vec![stage(), stage()], &requests, &outputs);
    let bound = Predecoder::new(Arc::new(cpu), &experiment(5, 0.003), Some(threshold)).expect("bound");
    check(&problem, &Inference::Model(Arc::new(bound)), &shots, &answers, empty);
}

/// A committed network with its corrections built in: detectors in, residual and frame out, an element each.
#[test]
fn tensors_that_a_network_leaves_are_answered_as_by_the_pipeline() {
    const EXPORTED: &[u8] = include_bytes!("../../../training/models/predecoder_3x64_d7_r7_Z.detectors.onnx");
    let network = OnnxModel::from_bytes("3x64", EXPORTED, &OnnxOptions::new()).expect("the committed model");
    let problem =
        Problem::new(experiment(7, 0.002).detector_error_model().expect("a model")).expect("a problem");
    let inference = Inference::Model(Arc::new(network.clone()));
    inference.check(&problem).expect("made for this experiment");
    let shots = drawn(&problem, 29, 48);
    let [detectors] = network.inputs() else { panic!("one input") };
    let element = |set: bool| {
        let mut bytes = vec![0; detectors.element.size_bytes()];
        bytes[0] = u8::from(set);
        bytes
    };
    assert!(!matches!(detectors.element, ElementType::F16 | ElementType::F32), "{detectors}");
    let requests: Vec<Vec<u8>> = shots
        .iter()
        .map(|shot| {
            (0..problem.detectors()).flat_map(|i| element(shot.detectors.get(i) == Some(true))).collect()
        })
        .collect();

    // Chosen by name, the frame first: another order than the network's.
    let pick = Pick::names(network.outputs().iter().rev().map(|spec| spec.name.clone()));
    let turned = Bindings::choose("played", "output", network.outputs(), &pick).expect("both");
    MatchingStage::elements(&problem, &turned).expect_err("the frame is no residual");
    let pick = Pick::names(network.outputs().iter().map(|spec| spec.name.clone()));
    let bindings = Bindings::choose("played", "output", network.outputs(), &pick).expect("both");
    let [residual, frame] = bindings.bound() else { panic!("two outputs") };
    let mut engine = network.instantiate().expect("an engine");
    let mut empty = 0;
    let outputs: Vec<Vec<u8>> = requests
        .iter()
        .map(|request| {
            let (mut left, mut flipped) = (vec![0; residual.bytes], vec![0; frame.bytes]);
            engine.run(&[request], &mut [&mut left, &mut flipped]).expect("a run");
            empty += u64::from(left.iter().all(|&byte| byte == 0));
            // The bytes between tensors belong to no tensor.
            left.resize(frame.offset, 0xAA);
            left.extend(flipped);
            left
        })
        .collect();
    let stage = || -> Box<dyn Stage> {
        Box::new(MatchingStage::elements(&problem, &bindings).expect("residual and frame"))
    };
    let answers = hand_over(&problem, &bindings, vec![stage()], &requests, &outputs);
    check(&problem, &inference, &shots, &answers, empty);
}

#[test]
fn what_cannot_be_matched_is_refused() {
    // Memory experiments fill whole bytes; a chain of five detectors leaves padding.
    let chain = "error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1 D2\nerror(0.1) D2 D3\nerror(0.1) D3 D4\nerror(0.1) D4";
    let problem = Problem::new(chain.parse().expect("a model")).expect("a problem");
    let detectors = problem.detectors() as usize;
    assert_eq!(detectors, 5);
    let choose = |specs: &[TensorSpec]| {
        let pick = Pick::names(specs.iter().map(|spec| spec.name.clone()));
        Bindings::choose("played", "output", specs, &pick).expect("there")
    };
    let bytes = problem.inferred_bytes();
    let fitting = choose(&[bits("left", bytes)]);
    for other in [
        choose(&[bits("left", bytes + 1)]),
        choose(&[bits("left", bytes - 1), bits("frame", 1)]),
        choose(&[TensorSpec::new("left", ElementType::F32, [1, bytes]).expect("a tensor")]),
    ] {
        let why = MatchingStage::packed(&problem, &other).expect_err("refused").to_string();
        assert!(why.contains("handed over") && why.contains("left"), "{why}");
    }
    for other in [
        choose(&[bits("residual", detectors + 1)]),
        choose(&[bits("residual", detectors), bits("frame", 2)]),
        choose(&[bits("residual", detectors), bits("frame", 1), bits("weights", 9)]),
    ] {
        let why = MatchingStage::elements(&problem, &other).expect_err("refused").to_string();
        assert!(why.contains(&format!("{detectors} residual detectors")), "{why}");
    }

    let header = RequestHeader::new(0, 0, 0, 0);
    let process = |stage: &mut MatchingStage, output: &[u8]| {
        let job = Job { instance: 0, sequence: 0, header: &header, output };
        let mut result = [0; 64];
        stage.process(&job, &mut result).map(|len| result[..len].to_vec())
    };
    let mut stage = MatchingStage::packed(&problem, &fitting).expect("fits");
    let mut left = vec![0; bytes];
    let right = process(&mut stage, &left).expect("nothing is left");
    assert!(!predicted(&problem, &right));
    left[bytes - 2] = 0x80;
    assert_eq!(process(&mut stage, &left), Err(Status::BAD_PAYLOAD), "set by the request");
    left[bytes - 1] = 0x80;
    assert_eq!(process(&mut stage, &left), Err(Status::ENGINE_FAILED), "the device gave up");
    assert_eq!(process(&mut stage, &left[..bytes - 1]), Err(Status::ENGINE_FAILED));
    assert_eq!(process(&mut stage, &[]), Err(Status::ENGINE_FAILED));

    // Without a frame it is not flipped.
    let alone = choose(&[bits("residual", detectors)]);
    let mut stage = MatchingStage::elements(&problem, &alone).expect("fits");
    assert_eq!(process(&mut stage, &vec![0; detectors]).expect("nothing is left"), right);
    assert_eq!(process(&mut stage, &vec![0; detectors - 1]), Err(Status::ENGINE_FAILED));
    let both = choose(&[bits("residual", detectors), bits("frame", 1)]);
    let mut stage = MatchingStage::elements(&problem, &both).expect("fits");
    let mut record = vec![0; both.bytes()];
    *record.last_mut().expect("the frame") = 1;
    assert!(predicted(&problem, &process(&mut stage, &record).expect("the frame alone")));

    let float = TensorSpec::new("residual", ElementType::F32, [1, detectors]).expect("a tensor");
    let mut stage = MatchingStage::elements(&problem, &choose(&[float])).expect("fits");
    let mut record = [0.0_f32; 5];
    let bytes = |record: [f32; 5]| record.map(f32::to_le_bytes).concat();
    assert_eq!(process(&mut stage, &bytes(record)).expect("nothing is left"), right);
    for no_number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        record[4] = no_number;
        assert_eq!(process(&mut stage, &bytes(record)), Err(Status::ENGINE_FAILED), "{no_number}");
    }
}
