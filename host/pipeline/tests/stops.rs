//! Injectors, stops and restarts.

mod support;

use ringcall::Status;
use ringcall_pipeline::{Pipeline, PipelineError, StageContext, StageOutcome, SubmitError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::*;

#[test]
fn one_injector_at_a_time_refused_while_stopped_and_good_again_after_a_restart() {
    let log = Log::default();
    let (builder, _deferrals) = builder(config(1, 4), &log);
    let running = builder.build().expect("built").start().expect("started");
    let mut injector = running.injector().expect("the first");
    assert!(running.injector().is_none());
    drop(injector);
    injector = running.injector().expect("the first was dropped");
    submit(&mut injector, &[act::DONE], 1);
    let stopped = running.stop(LONG);
    assert_eq!(injector.try_submit(ECHO, &[act::DONE], 2), Err(SubmitError::Stopped));
    assert_eq!(injector.submit(ECHO, &[act::DONE], 2), Err(SubmitError::Stopped));
    let running = stopped.pipeline.expect("nothing is stuck").start().expect("started");
    assert!(running.injector().is_none(), "the old one still exists");
    submit(&mut injector, &[act::DONE], 3);
    let stopped = running.stop(LONG);
    assert!(stopped.report.is_clean());
    assert_eq!(log.wait(2).iter().map(|d| d.id).collect::<Vec<_>>(), [1, 3]);
    drop(stopped);
    assert_eq!(injector.try_submit(ECHO, &[], 4), Err(SubmitError::Stopped));
}

#[test]
fn a_stop_drains_what_was_submitted() {
    let log = Log::default();
    let (builder, deferrals) = builder(config(2, 64), &log);
    let answering = std::thread::spawn(move || {
        for (deferral, _) in deferrals {
            std::thread::sleep(Duration::from_millis(1));
            deferral.complete(Status::OK, &[]).expect("before the deadline");
        }
    });
    let mut pipeline = builder.build().expect("built");
    let mut expected = 0;
    for round in 0..10 {
        let running = pipeline.start().expect("started");
        let mut injector = running.injector().expect("one at a time");
        for i in 0..64 {
            let act = [act::DONE, act::LATER, act::DEFER, act::FAIL][i % 4];
            submit(&mut injector, &[act, 50], (round * 64 + i) as u64);
        }
        expected += 64;
        let stopped = running.stop(LONG);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
        assert_eq!(stopped.report.stats.completed, expected);
        assert!(stopped.report.drained <= 64);
        assert_eq!(log.len() as u64, expected, "completed before the stop returned");
        pipeline = stopped.pipeline.expect("nothing is stuck");
    }
    drop(pipeline);
    answering.join().expect("no panic");
}

/// Submissions from another thread while the pipeline stops: each is refused or completed.
#[test]
fn a_submission_in_the_middle_of_a_stop_is_refused_or_completed() {
    for deadline in [LONG, Duration::ZERO] {
        let log = Log::default();
        let (builder, _deferrals) = builder(config(1, 8), &log);
        let mut pipeline = builder.build().expect("built");
        let mut accepted = 0;
        for _ in 0..30 {
            let running = pipeline.start().expect("started");
            let mut injector = running.injector().expect("one at a time");
            let injecting = std::thread::spawn(move || {
                let mut n = 0_u64;
                while try_until(&mut injector, &[act::DONE], n) != Err(SubmitError::Stopped) {
                    n += 1;
                }
                n
            });
            let monitor = running.monitor();
            wait_for("some requests", || monitor.stats().submitted > accepted + 5);
            let stopped = running.stop(deadline);
            accepted += injecting.join().expect("no panic");
            let stats = stopped.report.stats;
            assert_eq!((stats.submitted, stats.completed), (accepted, accepted), "{:?}", stopped.report);
            assert_eq!(log.len() as u64, accepted);
            assert!(stopped.report.stuck_workers.is_empty());
            pipeline = stopped.pipeline.expect("nothing is stuck");
        }
    }
}

/// The last completions may take longer than the threads' grace period: the deadline decides.
#[test]
fn a_slow_completion_handler_is_waited_for_until_the_deadline() {
    let log = Log::default();
    let (builder, _deferrals) = builder(config(1, 64), &log);
    let seen = log.clone();
    let running = builder
        .on_completion(move |completion| {
            std::thread::sleep(Duration::from_millis(20));
            seen.push(completion);
        })
        .build()
        .expect("built")
        .start()
        .expect("started");
    let mut injector = running.injector().expect("the first");
    for i in 0..64 {
        submit(&mut injector, &[act::DONE], i);
    }
    let stopped = running.stop(LONG);
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    assert_eq!(log.len(), 64);
    assert!(stopped.pipeline.is_some());
}

#[test]
fn a_stop_at_its_deadline_names_what_it_gave_up_and_a_restart_works() {
    quiet_panics();
    let log = Log::default();
    let seen = log.clone();
    let gates = Arc::new(Mutex::new(Vec::<Gate>::new()));
    let shut = Arc::clone(&gates);
    let mut pipeline = Pipeline::builder()
        .config(config(2, 8))
        .gpu_stage(|_| Ok(echo()))
        .cpu_stage(move |_| {
            let gate = Gate::default();
            lock(&shut).push(gate.clone());
            Ok(Box::new(move |context: &mut StageContext<'_>| {
                if context.output.first() == Some(&act::NEVER) {
                    gate.pass(); // a stage that does not return
                }
                StageOutcome::Done(0)
            }))
        })
        .on_completion(move |completion| seen.push(completion))
        .build()
        .expect("built");
    for round in 0..5_u64 {
        let running = pipeline.start().expect("started");
        let mut injector = running.injector().expect("one at a time");
        let monitor = running.monitor();
        let id = |i: u64| (round << 40) + i;
        submit(&mut injector, &[act::NEVER], id(1));
        wait_for("the stage to hang", || {
            monitor.dump().slots.slots.iter().any(|s| s.phase.as_deref() == Some("Running"))
        });
        let dump = monitor.dump();
        let stuck = dump.slots.slots[0].worker.expect("running on a worker");
        assert_eq!((dump.requests.len(), dump.requests[0].request_id), (1, id(1)));
        // The other worker serves the rest.
        for i in 2..20 {
            submit(&mut injector, &[act::DONE], id(i));
        }
        log.wait(round as usize * 19 + 18);
        let stopped = running.stop(Duration::from_millis(30));
        let report = &stopped.report;
        assert_eq!((report.stuck_workers.as_slice(), report.dropped), (&[stuck][..], 1), "{report:?}");
        assert!(!report.stuck_dispatcher && !report.stuck_consumer && !report.is_clean());
        let unfinished = report.unfinished.as_ref().expect("a dump");
        assert_eq!(unfinished.requests.len(), 1);
        assert_eq!(unfinished.requests[0].request_id, id(1));
        assert_eq!(unfinished.requests[0].slot, unfinished.slots.slots[0].slot);
        assert_eq!(unfinished.slots.slots[0].worker, Some(stuck));
        let text = unfinished.to_string();
        assert!(text.contains(&format!("request {}", id(1))) && text.contains("worker"), "{text}");
        let last = log.wait(round as usize * 19 + 19).pop().expect("some");
        assert_eq!((last.id, last.status), (id(1), Status::SHUTTING_DOWN));
        assert_eq!(report.stats.submitted, report.stats.completed);
        // An answer of the stage after the stop reaches no completion.
        for gate in lock(&gates).drain(..) {
            gate.open();
        }
        pipeline = stopped.pipeline.expect("a stuck worker keeps nothing from starting again");
    }
    let running = pipeline.start().expect("started");
    let mut injector = running.injector().expect("one at a time");
    for i in 0..100 {
        submit(&mut injector, &[act::DONE], i);
    }
    assert!(running.stop(LONG).report.is_clean());
    assert_eq!(log.len(), 5 * 19 + 100);
}

#[test]
fn a_deferral_kept_over_a_stop_answers_nothing_in_the_next_run() {
    let log = Log::default();
    let (builder, deferrals) = builder(config(1, 1), &log);
    let running = builder.build().expect("built").start().expect("started");
    let mut injector = running.injector().expect("the first");
    submit(&mut injector, &[act::DEFER], 1);
    let (old, _) = deferrals.recv_timeout(LONG).expect("deferred");
    let stopped = running.stop(Duration::ZERO);
    assert_eq!((stopped.report.dropped, stopped.report.stats.completed), (1, 1));
    let running = stopped.pipeline.expect("nothing is stuck").start().expect("started");
    submit(&mut injector, &[act::DEFER], 2);
    let (new, _) = deferrals.recv_timeout(LONG).expect("deferred");
    assert_eq!(old.slot(), new.slot());
    assert!(old.complete(Status(3), b"old").is_err());
    new.complete(Status::OK, b"new").expect("the only one");
    let done = log.wait(2);
    assert_eq!((done[0].status, done[1].status), (Status::SHUTTING_DOWN, Status::OK));
    assert_eq!(done[1].result.as_deref(), Some(&b"new"[..]));
    assert!(running.stop(LONG).report.is_clean());
}

#[test]
fn many_restarts() {
    let log = Log::default();
    let (builder, _deferrals) = builder(config(2, 2), &log);
    let mut pipeline = builder.build().expect("built");
    for round in 0..100_u64 {
        let running = pipeline.start().expect("started");
        let mut injector = running.injector().expect("one at a time");
        for i in 0..round % 5 {
            submit(&mut injector, &[act::DONE], i);
        }
        let stopped = running.stop(LONG);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
        pipeline = stopped.pipeline.expect("nothing is stuck");
    }
    assert_eq!(log.len(), 200);
}

#[test]
fn two_pipelines_at_once_know_nothing_of_each_other() {
    let logs = [Log::default(), Log::default()];
    let running = logs.each_ref().map(|log| {
        let (builder, _deferrals) = builder(config(1, 4), log);
        builder.build().expect("built").start().expect("started")
    });
    assert_ne!(running[0].ring_bases(), running[1].ring_bases());
    let mut injectors = running.each_ref().map(|pipeline| pipeline.injector().expect("the first of each"));
    for i in 0..500 {
        for (which, injector) in injectors.iter_mut().enumerate() {
            submit(injector, &[act::DONE, which as u8], i);
        }
    }
    for (which, pipeline) in running.into_iter().enumerate() {
        assert!(pipeline.stop(LONG).report.is_clean());
        let done = logs[which].wait(500);
        assert_eq!(done.len(), 500);
        assert!(done.iter().all(|d| d.result == Some(vec![1, which as u8 + 1])));
    }
}

#[test]
fn ring_bases_are_known_before_the_first_start_and_stay() {
    let log = Log::default();
    let (builder, _deferrals) = builder(config(1, 4), &log);
    let pipeline = builder.build().expect("built");
    let bases = pipeline.ring_bases();
    assert_ne!(bases.rx_host, 0);
    assert_eq!(bases.rx_host, bases.rx_peer);
    let running = pipeline.start().expect("started");
    assert_eq!(running.ring_bases(), bases);
    let stopped = running.stop(LONG).pipeline.expect("nothing is stuck");
    assert_eq!(stopped.ring_bases(), bases);
}

#[test]
fn what_cannot_be_built_or_started_says_why() {
    let error = |result: Result<Pipeline, PipelineError>| result.expect_err("refused").to_string();
    assert!(error(Pipeline::builder().build()).contains("no inference stage"));
    assert!(
        error(Pipeline::builder().gpu_stage(|_| Ok(echo())).config(config(0, 4)).build()).contains("worker")
    );
    assert!(
        error(Pipeline::builder().gpu_stage(|_| Ok(echo())).config(config(1, 0)).build()).contains("slots")
    );
    let start = Pipeline::builder()
        .config(config(3, 4))
        .gpu_stage(|worker| if worker == 2 { Err("no device".into()) } else { Ok(echo()) })
        .build()
        .expect("built")
        .start();
    let text = start.expect_err("refused").to_string();
    assert!(text.contains("GPU stage of worker 2") && text.contains("no device"), "{text}");
    // Workers that run already are stopped when a later one cannot be made.
    let dropped = Arc::new(AtomicBool::new(false));
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let held = Arc::clone(&dropped);
    let start = Pipeline::builder()
        .config(config(2, 4))
        .gpu_stage(|_| Ok(echo()))
        .cpu_stage(move |worker| {
            if worker == 1 {
                return Err("no memory".into());
            }
            let flag = Flag(Arc::clone(&held));
            Ok(Box::new(move |_: &mut StageContext<'_>| {
                let _ = &flag;
                StageOutcome::Done(0)
            }))
        })
        .build()
        .expect("built")
        .start();
    assert!(start.expect_err("refused").to_string().contains("CPU stage of worker 1"));
    wait_for("the first worker's thread to end", || dropped.load(Ordering::Acquire));
}

#[test]
fn a_pipeline_dropped_without_a_stop_lets_its_threads_end() {
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let running = Pipeline::builder()
        .config(config(2, 4))
        .gpu_stage(|_| Ok(echo()))
        .cpu_stage(move |_| {
            let held = Arc::clone(&held);
            Ok(Box::new(move |_: &mut StageContext<'_>| {
                let _ = &held;
                StageOutcome::Done(0)
            }))
        })
        .build()
        .expect("built")
        .start()
        .expect("started");
    let mut injector = running.injector().expect("the first");
    drop(running);
    assert_eq!(injector.try_submit(ECHO, &[act::DONE], 1), Err(SubmitError::Stopped));
    let begin = std::time::Instant::now();
    while Arc::strong_count(&alive) > 1 {
        assert!(begin.elapsed() < LONG, "a worker's stage is still held");
        std::thread::yield_now();
    }
}
