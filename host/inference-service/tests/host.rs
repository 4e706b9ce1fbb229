//! Services on the CPU: a model behind a host dispatcher, by itself and with workers.

use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status};
use ringcall_infer::{ElementType, Engine, InferError, Model, TensorSpec, check_buffers};
use ringcall_inference_service::{
    FileOptions, HostDecoderService, HostPredecoderService, HostServiceOptions, Job, Pick, Runner,
    ServiceError, Stage,
};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// Three integers: their doubles, and their sum; fails for a first integer of 13.
struct Doubles([Vec<TensorSpec>; 2]);

impl Doubles {
    fn new() -> Arc<Self> {
        let spec = |name, element, n| TensorSpec::new(name, element, [1, n]).expect("a spec");
        Arc::new(Self([
            vec![spec("measurements", ElementType::I32, 3), spec("bias", ElementType::I32, 1)],
            vec![spec("doubles", ElementType::I32, 3), spec("sum", ElementType::I32, 1)],
        ]))
    }
}

impl Model for Doubles {
    fn name(&self) -> &str {
        "doubles"
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.0[0]
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.0[1]
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Engine for Doubles {
    fn inputs(&self) -> &[TensorSpec] {
        &self.0[0]
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.0[1]
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        check_buffers(&self.0[0], &self.0[1], inputs, outputs)?;
        let values: Vec<i32> =
            inputs[0].as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
        if values[0] == 13 {
            return Err(InferError::Backend {
                model: "doubles".to_owned(),
                stage: "running",
                reason: "13".to_owned(),
            });
        }
        let sum: i32 = values.iter().sum();
        outputs[0].copy_from_slice(&values.iter().flat_map(|v| (2 * v).to_le_bytes()).collect::<Vec<_>>());
        outputs[1].copy_from_slice(&sum.to_le_bytes());
        Ok(())
    }
}

fn integers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn requests_are_inputs_and_answers_outputs() {
    let service = HostDecoderService::new(Doubles::new(), &HostServiceOptions::default()).expect("a service");
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: service.slot_bytes() }).expect("a ring");
    let table = FunctionTable::builder()
        .host_call_with_schema("decode", service.schema(), service.handler().expect("an engine"))
        .build(&ring)
        .expect("a table");
    let dispatcher = HostDispatcher::builder(&ring, table).build().expect("wired").start().expect("started");
    let mut client = Client::new(&ring);
    let reply = client.call("decode", &integers(&[1, -2, 5]), LONG).expect("an answer");
    // The sum begins at a multiple of 16 bytes.
    assert_eq!((reply.status, reply.result), (Status::OK, integers(&[2, -4, 10, 0, 4])));
    let status =
        |client: &mut Client, payload: &[u8]| client.call("decode", payload, LONG).expect("an answer").status;
    assert_eq!(status(&mut client, &[0; 11]), Status::SCHEMA_MISMATCH);
    assert_eq!(status(&mut client, &integers(&[13, 0, 0])), Status::ENGINE_FAILED);
    assert_eq!(status(&mut client, &integers(&[0, 0, 0])), Status::OK);
    let _ = dispatcher.stop(LONG);

    let sum = HostServiceOptions { outputs: Some(Pick::names(["sum"])), ..HostServiceOptions::default() };
    let service = HostDecoderService::new(Doubles::new(), &sum).expect("a service");
    assert!(service.shapes().map(|[_, outputs]| outputs.bytes()).eq([4]));
    let mut result = [0; 4];
    let mut handler = service.handler().expect("an engine");
    assert_eq!((handler(&integers(&[1, 2, 3]), &mut result), result), (Ok(4), 6_i32.to_le_bytes()));
}

/// Shapes of one network in one ring, and requests of their lengths in any order: each answer is that of the network loaded alone for
/// that length.
#[test]
fn a_requests_own_length_chooses_the_shape() {
    const NETWORK: &[u8] = include_bytes!("../../../training/models/predecoder_3x64.onnx");
    let sizes = [[4, 3, 3], [3, 5, 4], [8, 7, 7], [6, 5, 5]];
    let shapes = sizes.map(|sizes| {
        let names = ["layers", "height", "width"].map(str::to_owned);
        let options = FileOptions { sizes: names.into_iter().zip(sizes).collect(), ..FileOptions::default() };
        Runner::BuiltIn.load("3x64", NETWORK, &options).expect("a shape")
    });
    let options = HostServiceOptions::default();
    let service = HostDecoderService::with_shapes(shapes.clone(), &options).expect("a service");
    let lengths: Vec<usize> = service.shapes().map(|[inputs, _]| inputs.bytes()).collect();
    assert_eq!(lengths, [4 * 9, 3 * 20, 6 * 25, 8 * 49].map(|cells| 4 * 4 * cells));

    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: service.slot_bytes() }).expect("a ring");
    let table = FunctionTable::builder()
        .host_call_with_schema("decode", service.schema(), service.handler().expect("engines"))
        .build(&ring)
        .expect("a table");
    let dispatcher = HostDispatcher::builder(&ring, table).build().expect("wired").start().expect("started");
    let mut client = Client::new(&ring);
    let mut alone = shapes.map(|shape| {
        HostDecoderService::new(shape, &options).expect("a service").handler().expect("an engine")
    });
    let mut expected = vec![0; service.slot_bytes() as usize];
    for request in 0..60_usize {
        let shape = request * 7 % 11 % sizes.len();
        let cells: usize = sizes[shape].iter().product();
        let cell = |at: usize| if (at * 31 + request).is_multiple_of(5) { 1_f32 } else { 0.0 };
        let payload: Vec<u8> = (0..4 * cells).flat_map(|at| cell(at).to_le_bytes()).collect();
        let reply = client.call("decode", &payload, LONG).expect("an answer");
        let len = alone[shape](&payload, &mut expected).expect("it runs");
        assert_eq!((reply.status, &reply.result[..]), (Status::OK, &expected[..len]), "{request}");
        let other = client.call("decode", &payload[4..], LONG).expect("an answer");
        assert_eq!((other.status, other.result.len()), (Status::SCHEMA_MISMATCH, 0), "{request}");
    }
    assert_eq!(dispatcher.stop(LONG).report.dropped, 0);
}

fn predecoder(
    options: &HostServiceOptions,
    stages: Vec<Box<dyn Stage>>,
    run: impl FnOnce(&mut Client),
) -> ringcall_inference_service::HostStopReport {
    let service = HostPredecoderService::new(Doubles::new(), options).expect("a service");
    let ring = Ring::allocate(RingConfig { slots: 32, slot_bytes: service.slot_bytes(8) }).expect("a ring");
    let table =
        FunctionTable::builder().worker_call("decode", service.schema()).build(&ring).expect("a table");
    let specs = service.workers(FunctionId::of("decode"));
    let dispatcher = specs
        .fold(HostDispatcher::builder(&ring, table), ringcall::dispatcher::HostDispatcherBuilder::worker)
        .build()
        .expect("wired");
    let running = service.start(dispatcher.ports(), stages).expect("threads");
    let dispatcher = dispatcher.start().expect("started");
    run(&mut Client::new(&ring));
    let stopped = dispatcher.stop(LONG);
    assert_eq!(stopped.report.dropped, 0);
    running.stop(LONG)
}

/// Answers with the sum that the network found, and fails where it is 99.
fn stage(job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status> {
    assert_ne!(job.output[16..20], 98_i32.to_le_bytes(), "on purpose");
    if job.output[16..20] == 99_i32.to_le_bytes() {
        return Err(Status(7));
    }
    result[..4].copy_from_slice(&job.output[16..20]);
    Ok(4)
}

#[test]
fn every_request_is_answered_by_a_stage_once() {
    let options = HostServiceOptions { instances: 3, ..HostServiceOptions::default() };
    let stages = (0..2).map(|_| Box::new(stage) as Box<dyn Stage>).collect();
    let report = predecoder(&options, stages, |client| {
        for number in 0..110_i32 {
            let reply = client.call("decode", &integers(&[number, 1, -1]), LONG).expect("an answer");
            let expected = match number {
                13 => Status::ENGINE_FAILED,
                98 => Status::HANDLER_PANIC,
                99 => Status(7),
                _ => Status::OK,
            };
            assert_eq!(reply.status, expected, "{number}");
            if expected.is_ok() {
                assert_eq!(reply.result, number.to_le_bytes());
            }
        }
        assert_eq!(client.call("decode", &[0; 4], LONG).expect("an answer").status, Status::SCHEMA_MISMATCH);
    });
    let counts = report.counts;
    assert_eq!((counts.inferred, counts.answered, counts.engine_failed), (109, 109, 1));
    assert_eq!((counts.panicked, counts.refused, counts.late), (1, 0, 0));
    assert!(report.is_clean(), "{report:?}");
}

/// Four requests while the only worker waits, of which the queue holds two: what each is answered in the end, and the counts.
fn four_for_two(gated: bool) -> (Vec<Status>, ringcall_inference_service::HostStats) {
    let (go, held) = mpsc::channel::<()>();
    let waits = move |job: &Job<'_>, result: &mut [u8]| {
        // Once the other end is gone it waits no more.
        let _ = held.recv_timeout(LONG);
        stage(job, result)
    };
    let options =
        HostServiceOptions { queue_depth: 2, gated, poll_limit: 10, ..HostServiceOptions::default() };
    let mut found = Vec::new();
    let report = predecoder(&options, vec![Box::new(waits)], |client| {
        let decode = FunctionId::of("decode");
        let slots: Vec<_> =
            (0..4).map(|id| client.send(decode, id, 0, &integers(&[1, 2, 3])).expect("room")).collect();
        if gated {
            // The queue is full, and the others wait in the ring: no answer.
            std::thread::sleep(Duration::from_millis(20));
            assert!(slots.iter().all(|&slot| client.take(slot, |_, _| ()).is_none()));
        } else {
            // Those for which there is no room are answered while the worker waits.
            found.extend(slots[2..].iter().map(|&slot| client.wait(slot, LONG).expect("an answer").status));
        }
        drop(go);
        let left = if gated { &slots[..] } else { &slots[..2] };
        found.extend(left.iter().map(|&slot| client.wait(slot, LONG).expect("an answer").status));
    });
    assert!(report.is_clean(), "{report:?}");
    (found, report.counts)
}

#[test]
fn a_full_queue_keeps_requests_in_the_ring() {
    let (found, counts) = four_for_two(true);
    assert_eq!(found, [Status::OK; 4]);
    assert_eq!((counts.inferred, counts.answered, counts.refused), (4, 4, 0));
}

#[test]
fn a_full_queue_refuses_after_its_limit() {
    let (found, counts) = four_for_two(false);
    assert_eq!(found, [Status::BACKPRESSURE, Status::BACKPRESSURE, Status::OK, Status::OK]);
    assert_eq!((counts.inferred, counts.answered, counts.refused), (2, 2, 2));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let none = HostServiceOptions { queue_depth: 0, ..HostServiceOptions::default() };
    assert!(matches!(HostPredecoderService::new(Doubles::new(), &none), Err(ServiceError::Shape(_))));
    let missing = HostServiceOptions { inputs: Pick::names(["detectors"]), ..HostServiceOptions::default() };
    assert!(matches!(HostDecoderService::new(Doubles::new(), &missing), Err(ServiceError::NoTensor { .. })));

    let shapes = |models: Vec<Arc<dyn Model>>| {
        let service = HostDecoderService::with_shapes(models, &HostServiceOptions::default());
        match service {
            Ok(_) => panic!("not refused"),
            Err(error) => error.to_string(),
        }
    };
    assert!(shapes(Vec::new()).contains("at least one"));
    assert!(shapes(vec![Doubles::new(), Doubles::new()]).contains("requests of 12 bytes"));

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("network.onnx");
    let open =
        |options: &FileOptions| Runner::BuiltIn.open(&file, options).err().expect("refused").to_string();
    assert!(open(&FileOptions::default()).contains("network.onnx"));
    std::fs::write(&file, "no network").expect("written");
    assert!(open(&FileOptions::default()).contains("network"));
    let saved =
        FileOptions { engine_save_path: Some(folder.path().join("x.engine")), ..FileOptions::default() };
    assert!(open(&saved).contains("TensorRT alone"), "{}", open(&saved));
}
