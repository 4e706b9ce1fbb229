//! The counts are exact: at rest, while everything runs, and over restarts.

mod support;

use ringcall::client::Client;
use ringcall::{Ring, RingConfig, Status};
use ringcall_pipeline::{Stats, SubmitError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::*;

#[test]
fn a_full_ring_is_refused_and_counted_once_for_each_submission() {
    let log = Log::default();
    let (builder, deferrals) = builder(config(1, 2), &log);
    let running = builder.build().expect("built").start().expect("started");
    let mut injector = running.injector().expect("the first");
    submit(&mut injector, &[act::DEFER], 1);
    submit(&mut injector, &[act::DEFER], 2);
    for n in 1..4 {
        assert_eq!(injector.try_submit(ECHO, &[act::DONE], 3), Err(SubmitError::Full));
        assert_eq!((injector.backpressure_stalls(), running.stats().backpressure_stalls), (n, n));
    }
    assert_eq!(injector.retry(ECHO, &[act::DONE], 3), Err(SubmitError::Full));
    assert_eq!(injector.backpressure_stalls(), 3, "a retry is the same stall");
    let held: Vec<_> = (0..2).map(|_| deferrals.recv_timeout(LONG).expect("deferred").0).collect();
    assert_eq!(running.stats().in_flight(), 2);
    // A submission that waits is one stall, however long it waits.
    let waiting = std::thread::spawn(move || {
        submit(&mut injector, &[act::DONE], 3);
        injector
    });
    wait_for("the submission to stall", || running.stats().backpressure_stalls == 4);
    assert_eq!(running.stats().submitted, 2);
    for deferral in held {
        deferral.complete(Status::OK, &[]).expect("first");
    }
    let injector = waiting.join().expect("no panic");
    log.wait(3);
    assert_eq!(injector.backpressure_stalls(), 4);
    let stopped = running.stop(LONG);
    assert!(stopped.report.is_clean());
    assert_eq!(stopped.report.stats.backpressure_stalls, 4);
}

#[test]
fn a_slot_that_stays_taken_does_not_hold_up_the_others() {
    let log = Log::default();
    let (builder, deferrals) = builder(config(1, 4), &log);
    let running = builder.build().expect("built").start().expect("started");
    let mut injector = running.injector().expect("the first");
    submit(&mut injector, &[act::DEFER], 0);
    for i in 1..200 {
        submit(&mut injector, &[act::DONE], i);
    }
    let done = log.wait(199);
    let held = deferrals.recv_timeout(LONG).expect("deferred").0;
    assert!(done.iter().all(|d| d.id != 0 && d.slot != held.slot()));
    held.complete(Status::OK, &[]).expect("first");
    assert_eq!(log.wait(200)[199].id, 0);
    assert!(running.stop(LONG).report.is_clean());
}

fn consistent(stats: &Stats, last: &Stats) {
    assert_eq!(stats.completed, stats.succeeded + stats.refused + stats.timed_out, "{stats:?}");
    assert!(stats.submitted >= stats.completed, "{stats:?}");
    let pairs = [
        (stats.submitted, last.submitted),
        (stats.completed, last.completed),
        (stats.dispatched, last.dispatched),
        (stats.panics, last.panics),
        (stats.late_results, last.late_results),
    ];
    assert!(pairs.iter().all(|(now, before)| now >= before), "{stats:?} after {last:?}");
}

/// A watcher reads all the time, over stops and restarts.
#[test]
fn counts_are_consistent_at_every_moment() {
    let log = Log::default();
    let (builder, _deferrals) = builder(config(2, 16), &log);
    let mut pipeline = builder.build().expect("built");
    let mut total = 0;
    for _ in 0..5 {
        let running = pipeline.start().expect("started");
        let monitor = running.monitor();
        let quit = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (monitor, quit) = (monitor.clone(), Arc::clone(&quit));
            std::thread::spawn(move || {
                let mut last = monitor.stats();
                while !quit.load(Ordering::Relaxed) {
                    let stats = monitor.stats();
                    consistent(&stats, &last);
                    last = stats;
                    std::thread::yield_now();
                }
            })
        };
        let mut injector = running.injector().expect("one at a time");
        for i in 0..1000 {
            let act = [act::DONE, act::FAIL, act::DROP, act::LATER, act::INFER_FAIL][i as usize % 5];
            submit(&mut injector, &[act, 2], i);
        }
        total += 1000;
        let stopped = running.stop(LONG);
        let stats = stopped.report.stats;
        assert!(stopped.report.is_clean());
        quit.store(true, Ordering::Relaxed);
        watcher.join().expect("consistent");
        assert_eq!((stats.submitted, stats.completed, stats.dispatched), (total, total, total));
        assert_eq!(
            (stats.succeeded, stats.refused, stats.timed_out),
            (total / 5 * 2, total / 5 * 2, total / 5)
        );
        assert_eq!(monitor.stats(), stats, "a monitor that outlives its run counts nothing twice");
        pipeline = stopped.pipeline.expect("nothing is stuck");
    }
    assert_eq!(log.len() as u64, total);
}

/// The same for an external ring, where the dispatcher counts requests.
#[test]
fn counts_of_an_external_ring_are_consistent_at_every_moment() {
    let ours = Ring::allocate(RingConfig { slots: 8, slot_bytes: 64 }).expect("a ring");
    let log = Log::default();
    let (builder, _deferrals) = builder(config(1, 1), &log);
    let running =
        builder.ring(Ring::external(ours.shared().clone())).build().expect("built").start().expect("up");
    let monitor = running.monitor();
    let producing = std::thread::spawn(move || {
        let mut client = Client::new(&ours);
        let (mut sent, mut got) = (0_u32, 0);
        while got < 3000 {
            if sent < 3000 && client.send(ECHO, sent, 0, &[act::DONE]).is_ok() {
                sent += 1;
            } else {
                got += client.take_all(|response, _| assert_eq!(response.header().status, 0));
                std::thread::yield_now();
            }
        }
    });
    let mut last = monitor.stats();
    while !producing.is_finished() {
        let stats = monitor.stats();
        consistent(&stats, &last);
        last = stats;
        std::thread::yield_now();
    }
    producing.join().expect("no panic");
    let stats = running.stop(LONG).report.stats;
    assert_eq!((stats.submitted, stats.completed, stats.dispatched), (3000, 3000, 3000));
    assert_eq!(monitor.stats(), stats);
}

/// A result that comes after its request was answered is counted, once.
#[test]
fn late_results_are_counted_once() {
    let log = Log::default();
    let mut config = config(1, 4);
    config.request_timeout = Some(Duration::from_millis(5));
    let (builder, deferrals) = builder(config, &log);
    let running = builder.build().expect("built").start().expect("started");
    let mut injector = running.injector().expect("the first");
    let mut late = 0;
    for i in 0..3 {
        submit(&mut injector, &[act::DEFER], i);
        assert_eq!(log.wait(i as usize + 1)[i as usize].status, Status::TIMED_OUT);
        // No deferral if the request timed out before a worker was free.
        if let Ok((deferral, _)) = deferrals.recv_timeout(Duration::from_millis(500)) {
            assert!(deferral.complete(Status::OK, &[]).is_err());
            late += 1;
        }
    }
    let stats = running.stop(LONG).report.stats;
    assert!(late >= 1, "the first had a free worker");
    assert_eq!((stats.completed, stats.timed_out, stats.late_results), (3, 3, late));
}
