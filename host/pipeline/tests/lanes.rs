//! Launched inference: a thread simulates the GPU, which writes the output and raises the ready flag.

mod support;

use ringcall::Status;
use ringcall::wire::schema::HandlerSchema;
use ringcall::worker::{LaunchContext, LaunchError, ReadySignal};
use ringcall_gpu::shared::{Bytes, Region};
use ringcall_pipeline::{Execution, Pipeline, Raised, StageContext, StageOutcome, WorkerResources};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use support::*;

/// What the launcher does, by payload byte 0.
const LAUNCH: u8 = 0;
const LAUNCH_FAILS: u8 = 1;
const LAUNCH_PANICS: u8 = 2;
const PRE_LAUNCH_PANICS: u8 = 3;
const POST_LAUNCH_PANICS: u8 = 4;
const NEVER_RAISED: u8 = 5;

enum ToGpu {
    Connect(ReadySignal),
    Run(Vec<u8>),
}

/// Doubles the input, and raises the flag.
fn gpu(orders: Receiver<ToGpu>, window: Bytes) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut signal = None;
        for order in orders {
            match order {
                ToGpu::Connect(given) => signal = Some(given),
                ToGpu::Run(payload) if payload[0] == NEVER_RAISED => (),
                ToGpu::Run(payload) => {
                    let doubled: Vec<u8> = payload.iter().map(|byte| byte.wrapping_mul(2)).collect();
                    assert!(window.write(0, &doubled));
                    signal.as_ref().expect("connected before the first launch").raise();
                }
            }
        }
    })
}

/// The payload of a launch on the dispatcher thread.
fn payload(context: &LaunchContext<'_>) -> Vec<u8> {
    let mut payload = vec![0; 40];
    let len = context.read_payload(&mut payload);
    payload.truncate(len);
    payload
}

fn worker() -> WorkerResources {
    let (orders, inbox): (Sender<ToGpu>, _) = mpsc::channel();
    let window = Region::zeroed(64).expect("memory").bytes(0, 40).expect("inside");
    drop(gpu(inbox, window.clone()));
    let connect = orders.clone();
    let panic_on = |act: u8| {
        move |context: &LaunchContext<'_>| {
            if payload(context)[0] == act {
                panic!("on purpose");
            }
        }
    };
    let launcher = move |context: &LaunchContext<'_>| {
        let payload = payload(context);
        match payload[0] {
            LAUNCH_FAILS => Err(LaunchError { code: 700 }),
            LAUNCH_PANICS => panic!("on purpose"),
            _ => {
                orders.send(ToGpu::Run(payload)).expect("the GPU is there");
                Ok(())
            }
        }
    };
    WorkerResources {
        function: "echo".to_owned(),
        id: None,
        schema: HandlerSchema::new(),
        execution: Execution::Launched {
            launcher: Box::new(launcher),
            raised: Raised::Host(Box::new(move |signal| {
                connect.send(ToGpu::Connect(signal)).expect("the GPU is there");
            })),
            output: window,
            check: None,
        },
        pre_launch: Some(Box::new(panic_on(PRE_LAUNCH_PANICS))),
        post_launch: Some(Box::new(panic_on(POST_LAUNCH_PANICS))),
        output_bytes: 40,
    }
}

fn pipeline(workers: u32, timeout: Option<Duration>, log: &Log) -> Pipeline {
    quiet_panics();
    let log = log.clone();
    let mut config = config(workers, 8);
    config.request_timeout = timeout;
    Pipeline::builder()
        .config(config)
        .gpu_stage(|_| Ok(worker()))
        .cpu_stage(|_| {
            Ok(Box::new(|context: &mut StageContext<'_>| {
                assert_eq!(context.output.len(), 40, "the whole window");
                let len = context.request.payload.len();
                for (out, byte) in context.response.iter_mut().zip(&context.output[..len]) {
                    *out = byte.wrapping_add(1);
                }
                StageOutcome::Done(len)
            }))
        })
        .on_completion(move |completion| log.push(completion))
        .build()
        .expect("built")
}

#[test]
fn every_launch_is_answered_with_its_own_output() {
    let log = Log::default();
    let mut pipeline = pipeline(3, None, &log);
    for round in 0..5_u64 {
        let running = pipeline.start().expect("started");
        let mut injector = running.injector().expect("one at a time");
        for i in 0..500 {
            submit(&mut injector, &[LAUNCH, i as u8, (i >> 8) as u8], round * 500 + i);
        }
        let stopped = running.stop(LONG);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
        pipeline = stopped.pipeline.expect("nothing is stuck");
    }
    let done = log.wait(2500);
    assert_eq!(done.len(), 2500);
    for done in done {
        let i = done.id % 500;
        let twice_plus_one = |byte: u64| (byte as u8).wrapping_mul(2).wrapping_add(1);
        assert_eq!(done.result, Some(vec![1, twice_plus_one(i), twice_plus_one(i >> 8)]), "{}", done.id);
        assert!(done.times.started >= done.times.accepted && done.times.inferred >= done.times.started);
    }
}

#[test]
fn launches_that_fail_or_panic_are_answered_and_the_worker_goes_on() {
    let log = Log::default();
    let running = pipeline(1, None, &log).start().expect("started");
    let mut injector = running.injector().expect("the first");
    let cases = [
        (LAUNCH_FAILS, Status::LAUNCH_FAILED, Some(700)),
        (LAUNCH_PANICS, Status::HANDLER_PANIC, None),
        (PRE_LAUNCH_PANICS, Status::HANDLER_PANIC, None),
        (POST_LAUNCH_PANICS, Status::OK, None),
        (LAUNCH, Status::OK, None),
    ];
    for (id, (act, ..)) in cases.iter().cycle().take(20).enumerate() {
        submit(&mut injector, &[*act, 4], id as u64);
    }
    for done in log.wait(20) {
        let (act, status, error) = cases[done.id as usize % 5];
        assert_eq!((done.status, done.error), (status, error), "act {act}");
        if status.is_ok() {
            assert_eq!(done.result, Some(vec![act * 2 + 1, 9]));
        }
    }
    assert!(running.stop(LONG).report.is_clean());
}

#[test]
fn a_launch_whose_end_never_comes_times_out_and_does_not_hold_up_the_stop() {
    let log = Log::default();
    let running = pipeline(2, Some(Duration::from_millis(10)), &log).start().expect("started");
    let mut injector = running.injector().expect("the first");
    submit(&mut injector, &[NEVER_RAISED], 1);
    assert_eq!(log.wait(1)[0].status, Status::TIMED_OUT);
    // The other worker continues.
    wait_for("a request in time", || {
        let n = log.len();
        submit(&mut injector, &[LAUNCH], 2);
        log.wait(n + 1)[n].status.is_ok()
    });
    let stopped = running.stop(LONG);
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    // A new start gives both workers new launchers.
    let running = stopped.pipeline.expect("nothing is stuck").start().expect("started");
    for i in 0..100 {
        submit(&mut injector, &[LAUNCH, i], 100 + u64::from(i));
    }
    assert!(running.stop(LONG).report.is_clean());
}
