//! Both services on a real device. Without one, each test is skipped with one line that says why.
//!
//! `RINGCALL_SERVICE_REQUESTS` says how many requests each of the longer tests makes.

mod rig;
mod tensorrt;

use rig::{Sent, TIMEOUT, counted, dispatcher, drive, on_device, payload, requests, ring, try_on_device};
use ringcall::wire::Counter;
use ringcall::worker::WorkerSpec;
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Status, Wait};
use ringcall_cuda::driver::Context;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu_decoders::predecoder::{GpuError, GpuModel};
use ringcall_infer::{ElementType, Engine, Model, TensorSpec};
use ringcall_inference_service::{
    AiDecoderService, AiPredecoderService, Capturable, Job, PassThrough, Pick, PredecoderEngine,
    ServiceError, ServiceOptions, Stage, Transfer, WorkerOptions, Workers,
};
use ringcall_launch::ring::{Functions, Stopped};
use ringcall_wire::schema::HandlerSchema;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

const FUNCTION: &str = "decode";

fn bytes(name: &str, len: usize) -> TensorSpec {
    TensorSpec::new(name, ElementType::U8, [1, len]).expect("a spec")
}

fn pass_through(context: &Arc<Context>, len: usize) -> PassThrough {
    PassThrough::new(context, vec![bytes("bits", len)])
}

/// Turns the output round and answers with it.
fn reversed(job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status> {
    let len = job.output.len();
    for (to, from) in result.iter_mut().zip(job.output.iter().rev()) {
        *to = *from;
    }
    Ok(len)
}

/// Answers with the output as it is.
fn same(job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status> {
    result[..job.output.len()].copy_from_slice(job.output);
    Ok(job.output.len())
}

fn stages(count: usize, stage: fn(&Job<'_>, &mut [u8]) -> Result<usize, Status>) -> Vec<Box<dyn Stage>> {
    (0..count).map(|_| Box::new(stage) as Box<dyn Stage>).collect()
}

fn workers() -> WorkerOptions {
    WorkerOptions { wait: Wait::Yield { spins: 64 }, ..WorkerOptions::default() }
}

#[test]
fn an_autonomous_service_answers_from_the_device() {
    on_device("an_autonomous_service_answers_from_the_device", |context| {
        for (len, instances) in [(1, 1), (256, 4), (4000, 8)] {
            for input_transfer in [Transfer::Kernel, Transfer::Dma] {
                let engine = pass_through(context, len);
                let options = ServiceOptions { instances, input_transfer, ..ServiceOptions::default() };
                let service = AiDecoderService::new(&engine, &options).expect("a service");
                let ring = ring(context, 32, service.slot_bytes());
                let running = dispatcher(&ring, service.function(Functions::new(), FUNCTION));
                let n = requests();
                drive(ring.ring(), FUNCTION, n, |i| Sent::of(payload(len, i), <[u8]>::to_vec));
                counted(&running, "answers", |c| c.get(Counter::Completed) == n);
                let Stopped { report, .. } = running.stop(TIMEOUT);
                assert!(report.is_clean(), "{report:?}");
            }
        }
    });
}

#[test]
fn a_predecoder_service_hands_over_through_queues_of_any_depth() {
    on_device("a_predecoder_service_hands_over_through_queues_of_any_depth", |context| {
        for (depth, instances, threads) in [(1, 1, 1), (2, 4, 2), (16, 1, 2), (16, 8, 3)] {
            for dma in [false, true] {
                let transfer = |when| if when { Transfer::Dma } else { Transfer::Kernel };
                let options = ServiceOptions {
                    instances,
                    input_transfer: transfer(dma),
                    output_transfer: transfer(dma && depth == 1),
                    ..ServiceOptions::default()
                };
                let engine = pass_through(context, 336);
                let service = AiPredecoderService::new(&engine, depth, &options).expect("a service");
                let ring = ring(context, 32, service.slot_bytes());
                let running = dispatcher(&ring, service.function(Functions::new(), FUNCTION));
                let shared = ring.ring().shared();
                let at_work = Workers::start(service.queues(), shared, stages(threads, reversed), &workers())
                    .expect("workers");
                let n = requests();
                let answer = |sent: &[u8]| sent.iter().rev().copied().collect();
                drive(ring.ring(), FUNCTION, n, |i| Sent::of(payload(336, i), answer));
                let Stopped { report, .. } = running.stop(TIMEOUT);
                assert!(report.is_clean(), "{report:?}");
                let report = at_work.stop(TIMEOUT);
                assert!(report.is_clean(), "{report:?}");
                assert_eq!((report.workers.jobs, report.workers.answered), (n, n), "{report:?}");
                assert_eq!(report.queues.iter().map(|queue| queue.published).sum::<u64>(), n);
                let refused: u64 = report.queues.iter().map(|queue| queue.refused).sum();
                assert_eq!(refused, 0, "with a gate nothing is launched in vain: {report:?}");
            }
        }
    });
}

/// The first line of back-pressure: requests wait in the ring while workers are slower than the device. The second alone:
/// they are launched, refused, answered and counted.
#[test]
fn slow_workers_hold_requests_back_or_have_them_refused() {
    on_device("slow_workers_hold_requests_back_or_have_them_refused", |context| {
        fn slow(job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status> {
            std::thread::sleep(Duration::from_micros(200));
            reversed(job, result)
        }
        for depth in [1, 2, 16] {
            for gated in [true, false] {
                let options = ServiceOptions { gated, poll_limit: 10, ..ServiceOptions::default() };
                let engine = pass_through(context, 64);
                let service = AiPredecoderService::new(&engine, depth, &options).expect("a service");
                let ring = ring(context, 64, service.slot_bytes());
                let running = dispatcher(&ring, service.function(Functions::new(), FUNCTION));
                let shared = ring.ring().shared();
                let at_work =
                    Workers::start(service.queues(), shared, stages(1, slow), &workers()).expect("workers");
                let n = requests() / 5;
                let allowed = if gated { &[Status::OK][..] } else { &[Status::OK, Status::BACKPRESSURE] };
                let answer = |sent: &[u8]| sent.iter().rev().copied().collect();
                let ok =
                    drive(ring.ring(), FUNCTION, n, |i| Sent { allowed, ..Sent::of(payload(64, i), answer) });
                let held_back = running.counters().get(Counter::Queued);
                let Stopped { report, .. } = running.stop(TIMEOUT);
                assert!(report.is_clean(), "{report:?}");
                let report = at_work.stop(TIMEOUT);
                assert!(report.is_clean(), "{report:?}");
                let refused = report.queues[0].refused;
                assert_eq!((ok, report.workers.answered, refused), (n - refused, n - refused, n - ok));
                assert_eq!(gated, refused == 0, "{refused} refused of {n}");
                assert!(!gated || held_back > 0, "64 requests at once and one slow worker");
            }
        }
    });
}

#[test]
fn another_length_is_refused() {
    on_device("another_length_is_refused", |context| {
        let engine = pass_through(context, 100);
        let service = AiPredecoderService::new(&engine, 2, &ServiceOptions::default()).expect("a service");
        let ring = ring(context, 4, service.slot_bytes());
        let running = dispatcher(&ring, service.function(Functions::new(), FUNCTION));
        let n = 300;
        drive(ring.ring(), FUNCTION, n, |i| Sent {
            allowed: &[Status::SCHEMA_MISMATCH],
            ..Sent::of(payload([0, 99, 101][i as usize % 3], i), |_| Vec::new())
        });
        counted(&running, "refusals", |c| c.get(Counter::SchemaMismatch) == n);
        assert_eq!((service.stats()[0].bad_length, service.stats()[0].published), (n, 0));
        assert!(running.stop(TIMEOUT).report.is_clean());
    });
}

#[test]
fn tensors_are_chosen_by_name() {
    on_device("tensors_are_chosen_by_name", |context| {
        let engine = PassThrough::new(context, vec![bytes("a", 5), bytes("b", 33), bytes("c", 16)]);
        let options = ServiceOptions {
            inputs: Pick::names(["c", "a"]),
            outputs: Pick::names(["b_out", "a_out", "c_out"]),
            instances: 2,
            ..ServiceOptions::default()
        };
        let service = AiDecoderService::new(&engine, &options).expect("a service");
        let auxiliary = payload(33, 1234);
        service.write_input(&engine, "b", &auxiliary).expect("auxiliary");
        assert!(service.write_input(&engine, "d", &auxiliary).is_err());
        assert!(service.write_input(&engine, "a", &auxiliary).is_err());
        let ring = ring(context, 8, service.slot_bytes());
        let running = dispatcher(&ring, service.function(Functions::new(), FUNCTION));
        // The bytes between tensors belong to no tensor: 33..48 and 53..64.
        let answer = |sent: &[u8]| {
            let mut all = auxiliary.clone();
            all.resize(48, 0);
            all.extend(&sent[16..21]);
            all.resize(64, 0);
            all.extend(&sent[..16]);
            all
        };
        drive(ring.ring(), FUNCTION, 500, |i| Sent {
            ignored: &[33..48, 53..64],
            ..Sent::of(payload(21, i), answer)
        });
        assert!(running.stop(TIMEOUT).report.is_clean());
    });
}

#[test]
fn what_cannot_be_is_refused() {
    on_device("what_cannot_be_is_refused", |context| {
        let engine = pass_through(context, 64);
        let why = |depth, options: &ServiceOptions| {
            AiPredecoderService::new(&engine, depth, options).expect_err("refused").to_string()
        };
        let options = ServiceOptions::default();
        assert!(why(0, &options).contains("0 records"));
        assert!(
            why(1, &ServiceOptions { instances: 0, ..options.clone() }).contains("at least one instance")
        );
        let dma = ServiceOptions { output_transfer: Transfer::Dma, ..options.clone() };
        assert!(why(2, &dma).contains("one record"));
        assert!(why(1, &ServiceOptions { gated: false, ..dma.clone() }).contains("before a launch"));
        assert!(AiDecoderService::new(&engine, &dma).is_err());
        let missing = ServiceOptions { inputs: Pick::names(["x"]), ..options.clone() };
        assert!(matches!(AiDecoderService::new(&engine, &missing), Err(ServiceError::NoTensor { .. })));

        // One service, two dispatchers.
        let service = AiDecoderService::new(&engine, &options).expect("a service");
        let slots = ring(context, 4, service.slot_bytes());
        let running = dispatcher(&slots, service.function(Functions::new(), FUNCTION));
        let again = service.host_worker(0).expect_err("in use").to_string();
        assert!(again.contains("part of a graph already"), "{again}");
        assert!(service.host_worker(1).is_err(), "no such instance");
        assert!(running.stop(TIMEOUT).report.is_clean());
    });
}

/// Requests of a host ring, by workers of the host dispatcher that launch the services' graphs: so long at most, and so many.
fn by_host<'a>(
    dispatched: (usize, u64),
    make: impl Fn(u32) -> ringcall_inference_service::HostWorker,
    mut stage: impl FnMut() -> Option<Box<dyn Stage>>,
    sent: impl Fn(u64) -> Sent<'a>,
) {
    let (len, n) = dispatched;
    let slot_bytes = (len + 24).next_multiple_of(64) as u32;
    let ring = Ring::allocate(RingConfig { slots: 16, slot_bytes }).expect("a ring");
    let table =
        FunctionTable::builder().worker_call(FUNCTION, HandlerSchema::new()).build(&ring).expect("a table");
    let options = HostOptions { wait: Wait::Yield { spins: 64 }, core: None, request_timeout: None };
    let mut builder = HostDispatcher::builder(&ring, table).options(options);
    for _ in 0..2 {
        builder = builder.worker(WorkerSpec::mailbox(FunctionId::of(FUNCTION)));
    }
    let host = builder.build().expect("a dispatcher");
    let ports = host.ports();
    let quit = DeviceU64::new(0);
    let host = host.start().expect("started");
    std::thread::scope(|scope| {
        for (index, port) in ports.into_iter().enumerate() {
            let (mut worker, mut stage, quit) = (make(index as u32), stage(), &quit);
            scope.spawn(move || {
                let stage = stage.as_mut().map(|stage| &mut **stage as &mut dyn Stage);
                worker.serve(&port, stage, TIMEOUT, quit);
                let counts = worker.stats();
                assert_eq!((counts.jobs, counts.failed, counts.late), (counts.answered, 0, 0), "{counts:?}");
            });
        }
        drive(&ring, FUNCTION, n, sent);
        quit.store(1, Release);
    });
    let stopped = host.stop(TIMEOUT);
    assert!(!stopped.report.stuck && stopped.report.dropped == 0, "{:?}", stopped.report);
}

#[test]
fn a_host_dispatcher_launches_both() {
    on_device("a_host_dispatcher_launches_both", |context| {
        let n = requests() / 5;
        for input_transfer in [Transfer::Kernel, Transfer::Dma] {
            let options = ServiceOptions { instances: 2, input_transfer, ..ServiceOptions::default() };
            let engine = pass_through(context, 200);
            let service = AiDecoderService::new(&engine, &options).expect("a service");
            let copied = |i| Sent::of(payload(200, i), <[u8]>::to_vec);
            by_host((200, n), |i| service.host_worker(i).expect("a worker"), || None, copied);

            let output_transfer = input_transfer;
            let options = ServiceOptions { output_transfer, ..options };
            let service = AiPredecoderService::new(&engine, 1, &options).expect("a service");
            let turned = |i| Sent::of(payload(200, i), |sent| sent.iter().rev().copied().collect());
            let stage = || Some(Box::new(reversed) as Box<dyn Stage>);
            by_host((200, n), |i| service.host_worker(i).expect("a worker"), stage, turned);
        }
    });
}

/// The predecoder's network, by both services, against the same network as a model.
#[test]
fn the_predecoders_network_is_served() {
    try_on_device("the_predecoders_network_is_served", |context| {
        let network = rig::network(7);
        let (d, layers) = (5_u32, 5_u32);
        let engine = match PredecoderEngine::new("made up", &network, context, d, layers) {
            Ok(engine) => engine,
            Err(why) if context.device().capability() != (9, 0) => {
                assert!(why.to_string().contains("compute capability 9.0"), "{why}");
                return Err(why.to_string());
            }
            Err(why) => panic!("{why}"),
        };
        let two = ServiceOptions { instances: 2, ..ServiceOptions::default() };
        assert!(matches!(AiDecoderService::new(&engine, &two), Err(ServiceError::Instances { most: 1, .. })));
        let model: Result<GpuModel, GpuError> = GpuModel::new("made up", &network, context, d, layers);
        let mut reference: Box<dyn Engine> = model.expect("on the device").instantiate().expect("an engine");
        let cells = (4 * layers * d * d) as usize;
        let volumes: Vec<Vec<f32>> = (0..8).map(|seed| rig::volume(seed, cells)).collect();
        let logits: Vec<Vec<u8>> = volumes
            .iter()
            .map(|volume| {
                let input: Vec<u8> = volume.iter().flat_map(|value| value.to_le_bytes()).collect();
                let mut output = vec![0; cells * 4];
                reference.run(&[&input], &mut [&mut output]).expect("it runs");
                output
            })
            .collect();
        let halves = |volume: &Vec<f32>| -> Vec<u8> {
            volume.iter().flat_map(|&value| half::f16::from_f32(value).to_le_bytes()).collect()
        };
        let n = requests();
        let sent = |i: u64| Sent::of(halves(&volumes[i as usize % 8]), |_| logits[i as usize % 8].clone());
        let by_itself = |engine: &PredecoderEngine, options: &ServiceOptions| {
            let service = AiDecoderService::new(engine, options).expect("a service");
            let slots = ring(context, 16, service.slot_bytes());
            let running = dispatcher(&slots, service.function(Functions::new(), FUNCTION));
            drive(slots.ring(), FUNCTION, n, sent);
            assert!(running.stop(TIMEOUT).report.is_clean());
        };
        // How many requests each queue had.
        let handing_over = |engine: &PredecoderEngine, depth, options: &ServiceOptions| -> Vec<u64> {
            let service = AiPredecoderService::new(engine, depth, options).expect("a service");
            let slots = ring(context, 16, service.slot_bytes());
            let running = dispatcher(&slots, service.function(Functions::new(), FUNCTION));
            let shared = slots.ring().shared();
            let at_work =
                Workers::start(service.queues(), shared, stages(2, same), &workers()).expect("workers");
            drive(slots.ring(), FUNCTION, n, sent);
            assert!(running.stop(TIMEOUT).report.is_clean());
            let report = at_work.stop(TIMEOUT);
            assert!(report.is_clean() && report.workers.answered == n, "{report:?}");
            assert!(report.queues.iter().all(|queue| queue.engine_failed == 0), "{report:?}");
            report.queues.iter().map(|queue| queue.published).collect()
        };
        by_itself(&engine, &ServiceOptions::default());
        for depth in [1, 16] {
            assert_eq!(handing_over(&engine, depth, &ServiceOptions::default()), [n]);
        }
        assert_eq!(engine.most_instances(), Some(1));

        // Each on its part of the device, side by side.
        for instances in [2, 4] {
            let engine = PredecoderEngine::several("made up", &network, context, [d, layers], instances)
                .expect("in parts");
            let more = ServiceOptions { instances: instances + 1, ..ServiceOptions::default() };
            let refused = AiDecoderService::new(&engine, &more);
            assert!(matches!(refused, Err(ServiceError::Instances { most, .. }) if most == instances));
            let all = ServiceOptions { instances, ..ServiceOptions::default() };
            by_itself(&engine, &all);
            let published = handing_over(&engine, 4, &all);
            assert!(published.iter().filter(|&&n| n > 0).count() > 1, "{published:?}");
        }
        Ok(())
    });
}
