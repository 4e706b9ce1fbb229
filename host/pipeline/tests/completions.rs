//! Each request has exactly one completion, whatever its stages do.

mod support;

use ringcall::{FunctionId, Status};
use ringcall_pipeline::{Deferral, Pipeline, SubmitError};
use std::time::Duration;
use support::*;

/// Each kind of outcome, several times around.
#[test]
fn each_outcome_has_its_status_and_its_result() {
    let log = Log::default();
    let (builder, deferrals) = builder(config(2, 4), &log);
    let pipeline = builder.build().expect("built").start().expect("started");
    let answering = std::thread::spawn(move || {
        let in_time =
            |(deferral, payload): (Deferral, Vec<u8>)| deferral.complete(Status::OK, &answer(&payload));
        deferrals.into_iter().filter_map(|deferred| in_time(deferred).ok()).count()
    });
    let cases = [
        (act::DONE, Status::OK),
        (act::LATER, Status::OK),
        (act::FAIL, Status(7)),
        (act::PANIC, Status::HANDLER_PANIC),
        (act::TOO_LONG, Status::RESULT_TOO_LONG),
        (act::DEFER, Status::OK),
        (act::DROP, Status::ABANDONED),
        (act::LIE, Status::ABANDONED),
        (act::INFER_PANIC, Status::ENGINE_FAILED),
        (act::INFER_FAIL, Status::BAD_PAYLOAD),
        (act::INFER_TOO_LONG, Status::ENGINE_FAILED),
        (act::HANDLER_PANIC, Status::OK),
    ];
    // Ids that differ in their high halves only, and the largest there are.
    let ids = |round: u64, i: u64| if round == 4 { u64::MAX - i } else { round << 32 | i };
    let mut injector = pipeline.injector().expect("the first");
    for round in 0..5 {
        for (i, (act, _)) in cases.iter().enumerate() {
            submit(&mut injector, &[*act, 5, i as u8], ids(round, i as u64));
        }
    }
    let mut done = log.wait(5 * cases.len());
    for round in 0..5 {
        for (i, (act, status)) in cases.iter().enumerate() {
            let at = done.iter().position(|d| d.id == ids(round, i as u64)).expect("completed");
            let found = done.swap_remove(at);
            assert_eq!((found.status, found.error), (*status, None), "act {act}");
            let result = found.result.expect("on a ring of its own");
            if status.is_ok() {
                assert_eq!(result, answer(&[*act, 5, i as u8]));
            } else if *status == Status::RESULT_TOO_LONG {
                assert_eq!(result.len(), 40, "cut to the slot");
            } else {
                assert!(result.is_empty());
            }
        }
    }
    assert_eq!(done, []);
    let stopped = pipeline.stop(LONG);
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    let stats = stopped.report.stats;
    assert_eq!((stats.submitted, stats.completed), (60, 60));
    assert_eq!((stats.succeeded, stats.refused, stats.timed_out), (20, 30, 10));
    assert_eq!((stats.panics, stats.late_results, stats.dispatched), (15, 0, 60));
    assert_eq!(log.len(), 60);
    drop(stopped);
    drop(injector);
    assert_eq!(answering.join().expect("no panic"), 5);
}

/// Rings of one slot to more slots than requests, one worker to more workers than slots.
#[test]
fn rings_and_pools_of_any_size() {
    for (workers, slots) in [(1, 1), (3, 1), (1, 2), (2, 64), (5, 4096)] {
        let log = Log::default();
        let (builder, _deferrals) = builder(config(workers, slots), &log);
        let pipeline = builder.build().expect("built").start().expect("started");
        let mut injector = pipeline.injector().expect("the first");
        // Few through small rings: each request waits for the one before it, which takes long on a busy machine.
        let n = if slots < 3 { 200_u64 } else { 2000 };
        for i in 0..n {
            let payload = [&[act::DONE][..], &i.to_le_bytes()].concat();
            submit(&mut injector, &payload[..1 + i as usize % 8], i << 20);
        }
        let stopped = pipeline.stop(LONG);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
        let mut done = log.wait(n as usize);
        assert_eq!(done.len() as u64, n);
        done.sort_by_key(|d| d.id);
        for (i, done) in (0..n).zip(done) {
            assert_eq!((done.id, done.status), (i << 20, Status::OK));
            let payload = [&[act::DONE][..], &i.to_le_bytes()].concat();
            assert_eq!(done.result, Some(answer(&payload[..1 + i as usize % 8])));
            assert!(done.slot < slots);
        }
    }
}

/// What the dispatcher refuses is completed like everything else.
#[test]
fn requests_that_no_stage_sees_are_completed_too() {
    let log = Log::default();
    let (builder, _deferrals) = builder(config(1, 4), &log);
    let pipeline = builder.build().expect("built").start().expect("started");
    let mut injector = pipeline.injector().expect("the first");
    injector.submit(FunctionId::of("nobody"), &[], 1).expect("running");
    let long = injector.submit(ECHO, &[0; 41], 2).expect_err("too long");
    assert!(matches!(long, SubmitError::TooLong(_)) && long.to_string().contains("41 bytes"), "{long}");
    submit(&mut injector, &[0; 40], 3);
    let done = log.wait(2);
    let status = |id| done.iter().find(|d| d.id == id).map(|d| d.status);
    assert_eq!((status(1), status(2), status(3)), (Some(Status::UNKNOWN_FUNCTION), None, Some(Status::OK)));
    let stats = pipeline.stop(LONG).report.stats;
    assert_eq!((stats.submitted, stats.completed, stats.refused, stats.dispatched), (2, 2, 1, 1));
}

/// Without a CPU stage the inference output is the answer.
#[test]
fn inference_alone() {
    quiet_panics();
    let log = Log::default();
    let seen = log.clone();
    let pipeline = Pipeline::builder()
        .config(config(2, 8))
        .gpu_stage(|_| Ok(echo()))
        .on_completion(move |completion| seen.push(completion))
        .build()
        .expect("built")
        .start()
        .expect("started");
    let mut injector = pipeline.injector().expect("the first");
    for i in 0..100 {
        submit(&mut injector, &[if i == 50 { act::INFER_PANIC } else { 0 }, i], u64::from(i));
    }
    for done in log.wait(100) {
        if done.id == 50 {
            assert_eq!((done.status, done.result), (Status::ENGINE_FAILED, Some(vec![])));
        } else {
            assert_eq!((done.status, done.result), (Status::OK, Some(vec![0, done.id as u8])));
        }
    }
    assert!(pipeline.stop(LONG).report.is_clean());
}

/// Every stamp belongs to its own request, in order. Parts that did not happen have none.
#[test]
fn time_stamps_are_in_order_and_of_their_own_request() {
    let log = Log::default();
    // One slot and one worker: leftovers of a request would show up in the next one.
    let (builder, deferrals) = builder(config(1, 1), &log);
    let pipeline = builder.build().expect("built").start().expect("started");
    let mut injector = pipeline.injector().expect("the first");
    for (i, act) in [act::DONE, act::DEFER, act::INFER_FAIL, act::FAIL].into_iter().enumerate() {
        submit(&mut injector, &[act], i as u64);
        if act == act::DEFER {
            let (deferral, _) = deferrals.recv_timeout(LONG).expect("deferred");
            deferral.complete(Status::OK, &[]).expect("first");
        }
        log.wait(i + 1);
    }
    injector.submit(FunctionId::of("nobody"), &[], 4).expect("running");
    let done = log.wait(5);
    let mut last = 0;
    for done in &done {
        let t = &done.times;
        let stamps = [t.submitted, t.accepted, t.started, t.inferred, t.processed, t.harvested];
        let happened: Vec<u64> = stamps.into_iter().filter(|&stamp| stamp != 0).collect();
        assert!(happened.is_sorted() && happened[0] >= last, "request {}: {t:?}", done.id);
        last = t.harvested;
    }
    let stamps = |id: usize| {
        let t = &done[id].times;
        [t.accepted, t.started, t.inferred, t.processed].map(|stamp| stamp != 0)
    };
    assert_eq!(stamps(0), [true; 4]);
    assert_eq!(stamps(1), [true, true, true, false], "the CPU stage was not done when it deferred");
    assert_eq!(stamps(2), [true, true, false, false], "no inference output");
    assert_eq!(stamps(3), [true; 4]);
    assert_eq!(stamps(4), [false; 4], "no worker had it");
    assert!(pipeline.stop(LONG).report.is_clean());
}

#[test]
fn a_request_that_takes_too_long_is_answered_and_its_result_counted_as_late() {
    let log = Log::default();
    let mut config = config(2, 4);
    config.request_timeout = Some(Duration::from_millis(20));
    let (builder, deferrals) = builder(config, &log);
    let pipeline = builder.build().expect("built").start().expect("started");
    let mut injector = pipeline.injector().expect("the first");
    submit(&mut injector, &[act::DEFER], 1);
    submit(&mut injector, &[act::NEVER], 2);
    let done = log.wait(2);
    assert!(
        done.iter().all(|d| d.status == Status::TIMED_OUT && d.result.as_deref() == Some(&[])),
        "{done:?}"
    );
    // The worker that was never ready is free again, and the late answer changes nothing.
    let (deferral, payload) = deferrals.recv_timeout(LONG).expect("deferred");
    assert!(deferral.complete(Status::OK, &answer(&payload)).is_err());
    wait_for("a request in time", || {
        let n = log.len();
        submit(&mut injector, &[act::DONE], 3);
        log.wait(n + 1)[n].status == Status::OK
    });
    let stopped = pipeline.stop(LONG);
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    let stats = stopped.report.stats;
    assert_eq!(stats.submitted, stats.completed);
    assert!(stats.timed_out >= 2 && stats.late_results >= 1, "{stats:?}");
}
