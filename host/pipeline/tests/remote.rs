//! A pipeline with a remote dispatcher. A host dispatcher simulates the device, and so does a thread that breaks every rule on
//! demand. Each request is completed exactly once whatever the device does.

mod support;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall::wire::flag;
use ringcall::wire::header::{RESPONSE_MAGIC, RequestHeader, ResponseHeader};
use ringcall::{Ring, Status};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemoteStop};
use ringcall_pipeline::{
    BoxError, Pipeline, PipelineError, RequestView, RunningPipeline, StageConfig, StageError, SubmitError,
};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::*;

/// What a simulated device does with a request: payload byte 0. Anything else is answered with the payload.
mod deed {
    pub(super) const NEVER: u8 = 100;
    /// Answered when the gate opens.
    pub(super) const LATE: u8 = 101;
    pub(super) const NO_MAGIC: u8 = 102;
    pub(super) const OTHER_ID: u8 = 103;
    pub(super) const TOO_LONG: u8 = 104;
    pub(super) const ERROR: u8 = 105;
    pub(super) const REFUSED: u8 = 106;
    /// Writes another request over this one.
    pub(super) const OVERWRITE: u8 = 107;
}

/// A thread that does what payloads say.
struct FakeDevice {
    ring: Ring,
    gate: Gate,
    /// Now and then answers slots that hold no request.
    noisy: bool,
    sick: Arc<AtomicBool>,
    quit: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FakeDevice {
    fn new(slots: u32) -> Self {
        let flag = || Arc::new(AtomicBool::new(false));
        let (sick, quit) = (flag(), flag());
        Self { ring: ring(slots), gate: Gate::default(), noisy: false, sick, quit, thread: None }
    }
}

fn respond(ring: &SharedRing, slot: SlotIndex, header: ResponseHeader, result: &[u8]) {
    ring.write_response(slot, header.to_words(), result);
    ring.publish_tx(slot, ring.geometry().response_address(slot));
    ring.clear_rx(slot);
}

fn play(ring: &SharedRing, gate: &Gate, slot: SlotIndex) -> bool {
    let header = RequestHeader::from_words(ring.request_header(slot));
    let mut payload = vec![0; header.arg_len as usize];
    ring.read_payload(slot, &mut payload);
    let reply = ResponseHeader::reply(&header, 0, header.arg_len);
    match payload[0] {
        deed::NEVER => return false,
        deed::LATE if !gate.is_open() => return false,
        deed::NO_MAGIC => respond(ring, slot, ResponseHeader { magic: 7, ..reply }, &payload),
        deed::OTHER_ID => {
            respond(ring, slot, ResponseHeader { request_id: header.request_id ^ 1, ..reply }, &payload);
        }
        deed::TOO_LONG => respond(ring, slot, ResponseHeader { result_len: u32::MAX, ..reply }, &payload),
        deed::ERROR => {
            ring.publish_tx(slot, flag::error(700));
            ring.clear_rx(slot);
        }
        deed::REFUSED => {
            respond(ring, slot, ResponseHeader { status: Status::BAD_PAYLOAD.0, ..reply }, &[]);
        }
        deed::OVERWRITE => {
            let forged = RequestHeader { arg_len: u32::MAX, ..header };
            ring.forge_request(slot, &forged.to_bytes(), 1);
            respond(ring, slot, reply, &payload);
        }
        _ => respond(ring, slot, reply, &payload),
    }
    true
}

impl RemoteDispatcher for FakeDevice {
    fn ring(&self) -> &Ring {
        &self.ring
    }

    fn start(&mut self) -> Result<(), BoxError> {
        self.quit.store(false, Ordering::Release);
        let (ring, gate) = (self.ring.shared().clone(), self.gate.clone());
        let (quit, noisy) = (Arc::clone(&self.quit), self.noisy);
        self.thread = Some(std::thread::spawn(move || {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
            while !quit.load(Ordering::Acquire) {
                for slot in ring.geometry().iter() {
                    let noise = noisy && rng.random_range(0..20) == 0 && ring.tx(slot) == flag::FREE;
                    if ring.rx(slot) != flag::FREE && ring.tx(slot) == flag::FREE {
                        play(&ring, &gate, slot);
                    } else if noise {
                        let word = ResponseHeader {
                            magic: RESPONSE_MAGIC,
                            status: 0,
                            result_len: 1,
                            request_id: rng.random(),
                            ptp_timestamp: 0,
                        };
                        ring.write_response(slot, word.to_words(), &[1]);
                        ring.publish_tx(slot, rng.random_range(1..u64::MAX));
                    }
                }
                std::thread::yield_now();
            }
        }));
        Ok(())
    }

    fn health(&self) -> Health {
        let sick = Arc::clone(&self.sick);
        Box::new(move || if sick.load(Ordering::Acquire) { Err("it burns".to_owned()) } else { Ok(()) })
    }

    fn stop(&mut self, _: Duration) -> RemoteStop {
        self.quit.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
        RemoteStop { ended: true, failure: None }
    }
}

/// The CPU stage of [`act`]: every byte plus one.
fn acting(_: RequestView<'_>, output: &[u8], response: &mut [u8]) -> Result<usize, StageError> {
    match output.first() {
        Some(&act::FAIL) => return Err(StageError(Status(7))),
        Some(&act::PANIC) => panic!("on purpose"),
        Some(&act::TOO_LONG) => return Ok(response.len() + 1),
        _ => (),
    }
    let result = answer(output);
    response[..result.len()].copy_from_slice(&result);
    Ok(result.len())
}

fn pipeline(
    dispatcher: impl RemoteDispatcher + 'static,
    config: StageConfig,
    log: &Log,
) -> Pipeline<RunningPipeline> {
    quiet_panics();
    let log = log.clone();
    Pipeline::remote(dispatcher)
        .config(config)
        .stage(|_| Ok(Box::new(acting)))
        .on_completion(move |completion| log.push(completion))
        .build()
        .expect("built")
        .start()
        .expect("started")
}

fn timed(workers: u32, timeout: Duration) -> StageConfig {
    StageConfig { request_timeout: Some(timeout), ..config(workers, 1) }
}

#[test]
fn every_request_is_completed_over_rings_of_any_size_and_restarts() {
    for (slots, workers) in [(1, 1), (2, 3), (64, 2), (100, 4)] {
        let log = Log::default();
        let mut running = pipeline(Hosted::new(slots), config(workers, 1), &log);
        for round in 0..3_u64 {
            let mut injector = running.injector().expect("one at a time");
            assert!(running.injector().is_none());
            for i in 0..500 {
                let acts = [act::DONE, 77, act::FAIL, act::DONE, act::TOO_LONG, act::PANIC];
                submit(&mut injector, &[acts[i as usize % 6], i as u8], (round << 40) + i);
            }
            // The test awaits no completion: the stop comes in the middle of the burst, and drains it.
            let stopped = running.stop(LONG);
            assert!(stopped.is_clean(), "{:?} {:?}", stopped.report, stopped.failure);
            let stats = stopped.report.stats;
            assert_eq!((stats.submitted, stats.completed), ((round + 1) * 500, (round + 1) * 500));
            assert_eq!((stats.dispatched, stats.late_results, stopped.garbage), ((round + 1) * 500, 0, 0));
            assert_eq!(injector.try_submit(ECHO, &[0], 0), Err(SubmitError::Stopped));
            running = stopped.pipeline.expect("nothing is stuck").start().expect("started");
        }
        assert!(running.stop(LONG).is_clean());
        let done: BTreeMap<u64, Done> = log.wait(1500).into_iter().map(|done| (done.id, done)).collect();
        assert_eq!((done.len(), log.len()), (1500, 1500), "none twice");
        for (id, done) in done {
            let i = id & 0xFF_FFFF;
            let expected = match i % 6 {
                2 => (Status(7), vec![]),
                4 => (Status::RESULT_TOO_LONG, vec![]),
                5 => (Status::HANDLER_PANIC, vec![]),
                k => (Status::OK, answer(&[if k == 1 { 77 } else { act::DONE }, i as u8])),
            };
            assert_eq!((done.status, done.result), (expected.0, Some(expected.1)), "request {id:#x}");
            let t = done.times;
            assert!(t.submitted <= t.inferred && t.inferred <= t.processed && t.processed <= t.harvested);
        }
    }
}

/// A device that serves its ring in parts.
struct InParts(FakeDevice, u32);

impl RemoteDispatcher for InParts {
    fn ring(&self) -> &Ring {
        self.0.ring()
    }

    fn parts(&self) -> u32 {
        self.1
    }

    fn start(&mut self) -> Result<(), BoxError> {
        self.0.start()
    }

    fn health(&self) -> Health {
        self.0.health()
    }

    fn stop(&mut self, deadline: Duration) -> RemoteStop {
        self.0.stop(deadline)
    }
}

#[test]
fn requests_go_to_each_part_of_a_ring_in_turn() {
    let log = Log::default();
    let device = FakeDevice::new(12);
    let gate = device.gate.clone();
    let running = pipeline(InParts(device, 3), timed(2, LONG), &log);
    let mut injector = running.injector().expect("the first");
    let mut slots: Vec<u32> = Vec::new();
    for id in 0..12 {
        slots.push(injector.submit(ECHO, &[deed::LATE, id as u8], id).expect("submitted").get());
    }
    assert_eq!(slots, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    assert_eq!(injector.try_submit(ECHO, &[act::DONE], 12), Err(SubmitError::Full));
    gate.open();
    for id in 12..500 {
        submit(&mut injector, &[act::DONE, id as u8], id);
    }
    assert!(running.stop(LONG).is_clean());
    assert_eq!(log.wait(500).len(), 500);
    for (parts, works) in [(0, false), (5, false), (12, true), (24, false)] {
        let built =
            Pipeline::remote(InParts(FakeDevice::new(12), parts)).stage(|_| Ok(Box::new(acting))).build();
        match built {
            Ok(_) => assert!(works, "{parts} parts"),
            Err(error) => {
                assert!(matches!(error, PipelineError::Parts { slots: 12, .. }) && !works, "{error}");
            }
        }
    }
}

#[test]
fn a_device_that_lies_is_found_out() {
    let log = Log::default();
    let running = pipeline(FakeDevice::new(4), config(2, 1), &log);
    let mut injector = running.injector().expect("the first");
    let cases = [
        (deed::NO_MAGIC, Status::ENGINE_FAILED, None),
        (deed::OTHER_ID, Status::ENGINE_FAILED, None),
        (deed::TOO_LONG, Status::ENGINE_FAILED, None),
        (deed::OVERWRITE, Status::ENGINE_FAILED, None),
        (deed::REFUSED, Status::BAD_PAYLOAD, None),
        (deed::ERROR, Status::LAUNCH_FAILED, Some(700)),
    ];
    for (n, (deed, status, error)) in cases.into_iter().enumerate() {
        for (id, deed) in [(2 * n as u64, deed), (2 * n as u64 + 1, act::DONE)] {
            submit(&mut injector, &[deed], id);
        }
        let done: BTreeMap<u64, Done> = log.wait(2 * n + 2).into_iter().map(|d| (d.id, d)).collect();
        let lied = &done[&(2 * n as u64)];
        assert_eq!((lied.status, lied.error), (status, error), "deed {deed}");
        assert_eq!(done[&(2 * n as u64 + 1)].status, Status::OK, "the next one is served");
    }
    let stopped = running.stop(LONG);
    assert!(stopped.is_clean(), "{:?}", stopped.report);
    assert_eq!((stopped.garbage, stopped.report.stats.refused), (4, 6));
}

#[test]
fn answers_that_nobody_asked_for_are_dropped_and_never_taken_for_another_request() {
    let log = Log::default();
    let device = FakeDevice { noisy: true, ..FakeDevice::new(8) };
    let running = pipeline(device, timed(2, LONG), &log);
    let mut injector = running.injector().expect("the first");
    for id in 0..2000 {
        submit(&mut injector, &[act::DONE, id as u8], id);
    }
    let stopped = running.stop(LONG);
    assert!(stopped.is_clean(), "{:?} {:?}", stopped.report, stopped.failure);
    let done = log.wait(2000);
    assert_eq!(done.len(), 2000);
    for done in &done {
        // In the slot of a request in flight, noise is an answer to another request. Any other answer is right.
        match done.status {
            Status::OK => assert_eq!(done.result, Some(answer(&[act::DONE, done.id as u8]))),
            other => assert_eq!(other, Status::ENGINE_FAILED),
        }
    }
    assert!(stopped.report.stats.late_results > 0, "there was noise");
    assert!(stopped.report.stats.succeeded > 0);
}

/// A request that timed out is completed. Its slot is not written again until the device has answered.
#[test]
fn time_runs_out_for_the_user_and_not_for_the_slot() {
    let log = Log::default();
    let device = FakeDevice::new(2);
    let (ring, gate) = (device.ring.clone(), device.gate.clone());
    let running = pipeline(device, timed(1, Duration::from_millis(20)), &log);
    let mut injector = running.injector().expect("the first");
    submit(&mut injector, &[deed::LATE, 9], 1);
    assert_eq!(log.wait(1)[0].status, Status::TIMED_OUT);
    // The other slot serves alone.
    for id in 2..20 {
        submit(&mut injector, &[act::DONE], id);
    }
    let done = log.wait(19);
    assert!(done[1..].iter().all(|done| done.slot == 1 && done.status.is_ok()), "{done:?}");
    let first = ring.geometry().slot(0).expect("a slot");
    assert_ne!(ring.shared().rx(first), flag::FREE);
    gate.open();
    let monitor = running.monitor();
    wait_for("the late answer", || monitor.stats().late_results == 1);
    for id in 20..24 {
        submit(&mut injector, &[act::DONE], id);
    }
    let slots: Vec<u32> = log.wait(23)[19..].iter().map(|done| done.slot).collect();
    assert!(slots.contains(&0), "the first slot serves again: {slots:?}");
    let stopped = running.stop(LONG);
    assert!(stopped.is_clean(), "{:?}", stopped.report);
    assert_eq!((stopped.report.stats.timed_out, stopped.report.stats.dispatched), (1, 22));
}

/// A CPU stage that never returns: its request times out, the others are served, and the stop names it.
#[test]
fn a_stage_that_hangs_holds_up_nobody_else() {
    let log = Log::default();
    let seen = log.clone();
    let (gate, hung) = (Gate::default(), Arc::new(DeviceU64::new(0)));
    let (shut, entered) = (gate.clone(), Arc::clone(&hung));
    let running = Pipeline::remote(Hosted::new(4))
        .config(timed(2, Duration::from_millis(50)))
        .stage(move |_| {
            let (shut, entered) = (shut.clone(), Arc::clone(&entered));
            Ok(Box::new(move |request: RequestView<'_>, output: &[u8], response: &mut [u8]| {
                if output.first() == Some(&act::NEVER) {
                    entered.fetch_add(1, Ordering::Release);
                    shut.pass();
                }
                acting(request, output, response)
            }))
        })
        .on_completion(move |completion| seen.push(completion))
        .build()
        .expect("built")
        .start()
        .expect("started");
    let mut injector = running.injector().expect("the first");
    submit(&mut injector, &[act::NEVER], 0);
    wait_for("the stage", || hung.load(Ordering::Acquire) == 1);
    for id in 1..50 {
        submit(&mut injector, &[act::DONE], id);
    }
    let done = log.wait(50);
    assert_eq!(done.iter().find(|done| done.id == 0).map(|done| done.status), Some(Status::TIMED_OUT));
    assert_eq!(done.iter().filter(|done| done.status.is_ok()).count(), 49);
    let stopped = running.stop(Duration::ZERO);
    assert_eq!(stopped.report.stuck_workers.len(), 1);
    assert!(!stopped.report.is_clean() && stopped.failure.is_none());
    gate.open();
    // The hung stage's result comes too late, and a restart works.
    let running = stopped.pipeline.expect("the dispatcher has ended").start().expect("started");
    submit(&mut injector, &[act::DONE, 5], 99);
    assert_eq!(log.wait(51)[50].result, Some(answer(&[act::DONE, 5])));
    assert!(running.stop(LONG).is_clean());
    assert_eq!(log.len(), 51);
}

#[test]
fn a_dead_device_is_lost_and_everything_is_answered() {
    // The device reports a fault; the device reports none; the device reports a fault and requests have no limit.
    for (sick, timeout) in [(true, Some(30)), (false, Some(30)), (true, None)] {
        let log = Log::default();
        let device = FakeDevice::new(3);
        device.sick.store(sick, Ordering::Release);
        let timeout = timeout.map(Duration::from_millis);
        let running = pipeline(device, StageConfig { request_timeout: timeout, ..config(1, 1) }, &log);
        let mut injector = running.injector().expect("the first");
        let mut accepted = 0;
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < LONG, "nobody noticed");
            match injector.try_submit(ECHO, &[deed::NEVER], accepted) {
                Ok(_) => accepted += 1,
                Err(SubmitError::Lost) => break,
                Err(SubmitError::Full) => std::thread::sleep(Duration::from_millis(1)),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(injector.submit(ECHO, &[0], 0), Err(SubmitError::Lost));
        let done = log.wait(accepted as usize);
        let may = [Status::TIMED_OUT, Status::ENGINE_FAILED];
        assert!(done.iter().all(|done| may.contains(&done.status)), "{done:?}");
        let stopped = running.stop(LONG);
        let why = stopped.failure.expect("it was lost");
        assert!(why.contains(if sick { "it burns" } else { "no slot" }), "{why}");
        assert_eq!(stopped.report.stats.completed, accepted);
        assert!(stopped.pipeline.is_none());
    }
}

/// A stop while requests pour in: each is refused or completed, with any deadline; and a restart serves
/// again.
#[test]
fn a_stop_in_the_middle_of_a_burst_loses_nothing() {
    for deadline in [LONG, Duration::ZERO] {
        let log = Log::default();
        let device = FakeDevice::new(8);
        let mut running = pipeline(device, config(2, 1), &log);
        let mut accepted = 0;
        for _ in 0..10 {
            let mut injector = running.injector().expect("one at a time");
            let injecting = std::thread::spawn(move || {
                let mut n = 0_u64;
                while try_until(&mut injector, &[act::DONE, n as u8], n) != Err(SubmitError::Stopped) {
                    n += 1;
                }
                n
            });
            let monitor = running.monitor();
            wait_for("some requests", || monitor.stats().submitted > accepted + 5);
            let stopped = running.stop(deadline);
            accepted += injecting.join().expect("no panic");
            let report = stopped.report;
            assert_eq!((report.stats.submitted, report.stats.completed), (accepted, accepted), "{report:?}");
            assert_eq!(log.len() as u64, accepted);
            assert_eq!(report.stats.succeeded + report.stats.timed_out, accepted);
            if deadline == LONG {
                assert!(report.is_clean(), "{report:?}");
            }
            running = stopped.pipeline.expect("nothing is stuck").start().expect("started");
        }
        assert!(running.stop(LONG).is_clean());
    }
}

/// A stop answers and names the requests that the device never answers.
#[test]
fn a_stop_answers_what_the_device_does_not() {
    let log = Log::default();
    let running = pipeline(FakeDevice::new(4), config(1, 1), &log);
    let mut injector = running.injector().expect("the first");
    submit(&mut injector, &[deed::NEVER], 1 << 50);
    submit(&mut injector, &[act::DONE], 2);
    log.wait(1);
    let stopped = running.stop(Duration::from_millis(10));
    assert_eq!(stopped.report.dropped, 1);
    let unfinished = stopped.report.unfinished.expect("one was left");
    assert_eq!(unfinished.requests.iter().map(|r| r.request_id).collect::<Vec<_>>(), [1 << 50]);
    assert_eq!(unfinished.slots.slots[0].phase.as_deref(), Some("Sent"));
    let done = log.wait(2);
    assert_eq!((done[1].id, done[1].status), (1 << 50, Status::SHUTTING_DOWN));
    // Its slot is free for the next run.
    let running = stopped.pipeline.expect("it has ended").start().expect("started");
    for id in 0..8 {
        submit(&mut injector, &[act::DONE], id);
    }
    assert!(running.stop(LONG).is_clean());
    assert_eq!(log.len(), 10);
}

#[test]
fn a_dispatcher_that_does_not_start_says_why() {
    struct Refusing(Ring, Arc<Mutex<u32>>);
    impl RemoteDispatcher for Refusing {
        fn ring(&self) -> &Ring {
            &self.0
        }
        fn start(&mut self) -> Result<(), BoxError> {
            Err("no such device".into())
        }
        fn health(&self) -> Health {
            Box::new(|| Ok(()))
        }
        fn stop(&mut self, _: Duration) -> RemoteStop {
            *lock(&self.1) += 1;
            RemoteStop { ended: true, failure: None }
        }
    }
    let stops = Arc::new(Mutex::new(0));
    let refusing = || Refusing(ring(1), Arc::clone(&stops));
    let built = Pipeline::remote(refusing()).config(config(1, 1)).stage(|_| Ok(Box::new(acting)));
    let error = built.build().expect("built").start().expect_err("it does not start");
    assert_eq!(error.to_string(), "the dispatcher does not start: no such device");
    assert_eq!(*lock(&stops), 1);
    let error = Pipeline::remote(refusing()).config(config(1, 1)).build().expect_err("no stage");
    assert!(matches!(error, PipelineError::NoCpuStage));
}
