//! The host dispatcher's worker pools: any number of workers, queues per function, hooks, error marks, late results.

use ringcall::dispatcher::HostDispatcherBuilder;
use ringcall::wire::counter::Counter;
use ringcall::wire::schema::HandlerSchema;
use ringcall::worker::{Deferral, Late, LaunchError, Start, WorkerPort, WorkerSpec};
use ringcall::{
    Client, FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Status, Wait,
};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn setup(slots: u32, timeout: Option<Duration>) -> (Ring, HostDispatcherBuilder) {
    let ring = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring");
    let table = FunctionTable::builder()
        .worker_call("slow", HandlerSchema::new())
        .worker_call("fast", HandlerSchema::new())
        .host_call("inline", |_: &[u8], _: &mut [u8]| Ok(0))
        .build(&ring)
        .expect("a table");
    let wait = Wait::Yield { spins: 4 };
    let options = HostOptions { wait, core: None, request_timeout: timeout };
    let builder = HostDispatcher::builder(&ring, table).options(options);
    (ring, builder)
}

/// A worker thread that answers with the payload's bytes plus one, while `gate` is open.
fn serve(port: WorkerPort, gate: Arc<AtomicBool>, quit: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut payload = [0; 40];
        while !quit.load(Ordering::Relaxed) {
            let Some(job) = port.take_job() else {
                std::thread::yield_now();
                continue;
            };
            let len = port.read_payload(&job, &mut payload);
            for byte in &mut payload[..len] {
                *byte = byte.wrapping_add(1);
            }
            while !gate.load(Ordering::Relaxed) && !quit.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let _ = port.answer(&job, Status::OK, &payload[..len]);
            port.release();
        }
    })
}

fn flags() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)))
}

/// More requests than slots, through pools whose sizes sit around the mask's word size.
#[test]
fn pools_of_any_size_answer_everything() {
    for workers in [1, 2, 3, 63, 64, 65, 130] {
        let (ring, mut builder) = setup(256, None);
        for _ in 0..workers {
            builder = builder.worker(WorkerSpec::mailbox(FunctionId::of("fast")));
        }
        let wired = builder.build().expect("wired");
        let ports = wired.ports();
        assert_eq!(ports.len(), workers);
        let dispatcher = wired.start().expect("started");
        let (gate, quit) = flags();
        // All ports on one thread: the pool's size is what is tested, not the machine's cores.
        let stop = Arc::clone(&quit);
        let server = std::thread::spawn(move || {
            // Every worker is given a job before the first answer: while the others are busy, the next request is the last one's.
            let mut held: Vec<_> = ports.iter().map(|_| None).collect();
            let end = Instant::now() + LONG;
            while held.iter().any(Option::is_none) && Instant::now() < end {
                for (port, held) in ports.iter().zip(&mut held) {
                    if held.is_none() {
                        *held = port.take_job();
                    }
                }
                std::thread::yield_now();
            }
            let busy = held.iter().filter(|job| job.is_some()).count();
            while !stop.load(Ordering::Relaxed) {
                for (port, held) in ports.iter().zip(&mut held) {
                    let Some(job) = held.take().or_else(|| port.take_job()) else { continue };
                    let mut payload = [0; 40];
                    let len = port.read_payload(&job, &mut payload);
                    port.answer(&job, Status::OK, &payload[..len]).expect("first");
                    port.release();
                }
                std::thread::yield_now();
            }
            busy
        });
        drop(gate);
        let mut client = Client::new(&ring);
        let (mut sent, mut got) = (0_u32, 0_u32);
        while got < 2000 {
            while sent < 2000 && client.send(FunctionId::of("fast"), sent, 0, &sent.to_le_bytes()).is_ok() {
                sent += 1;
            }
            got += client.take_all(|response, ring| {
                let mut id = [0; 4];
                assert_eq!(response.read(ring, &mut id), 4);
                assert_eq!(u32::from_le_bytes(id), response.header().request_id);
            }) as u32;
            std::thread::yield_now();
        }
        let stopped = dispatcher.stop(LONG);
        assert_eq!(stopped.report.dropped, 0);
        quit.store(true, Ordering::Relaxed);
        assert_eq!(server.join().expect("no panic"), workers, "workers busy at once");
    }
}

#[test]
fn a_busy_function_stalls_no_other_and_nothing_is_lost_when_all_are_busy() {
    let (ring, builder) = setup(16, None);
    let builder = builder
        .worker(WorkerSpec::mailbox(FunctionId::of("slow")))
        .worker(WorkerSpec::mailbox(FunctionId::of("fast")));
    let wired = builder.build().expect("wired");
    let mut ports = wired.ports();
    let dispatcher = wired.start().expect("started");
    let (open, quit) = flags();
    let closed = Arc::new(AtomicBool::new(false));
    let fast = serve(ports.pop().expect("two"), Arc::clone(&open), Arc::clone(&quit));
    let slow = serve(ports.pop().expect("two"), Arc::clone(&closed), Arc::clone(&quit));
    let mut client = Client::new(&ring);
    // Ten for the one slow worker, which is held: nine of them wait.
    let held: Vec<_> =
        (0..10).map(|i| client.send(FunctionId::of("slow"), i, 0, &[i as u8]).expect("room")).collect();
    for i in 0..6 {
        let slot = client.send(FunctionId::of("fast"), 100 + i, 0, &[i as u8]).expect("room");
        assert_eq!(client.wait(slot, LONG).expect("answered").result, [i as u8 + 1]);
    }
    // The fast worker's answer is there a moment before it takes the next one, which may be queued meanwhile.
    let queued = dispatcher.counters().get(Counter::Queued);
    assert!((9..=9 + 5).contains(&queued), "{queued}");
    assert_eq!(dispatcher.dump().slots.len(), 10);
    closed.store(true, Ordering::Relaxed);
    for (i, slot) in held.into_iter().enumerate() {
        assert_eq!(client.wait(slot, LONG).expect("answered").result, [i as u8 + 1]);
    }
    let stopped = dispatcher.stop(LONG);
    assert_eq!(stopped.report.dropped, 0);
    quit.store(true, Ordering::Relaxed);
    fast.join().expect("no panic");
    slow.join().expect("no panic");
}

#[test]
fn requests_of_one_function_are_served_in_order() {
    let (ring, builder) = setup(8, None);
    let wired = builder.worker(WorkerSpec::mailbox(FunctionId::of("slow"))).build().expect("wired");
    let port = wired.ports().pop().expect("one");
    let dispatcher = wired.start().expect("started");
    let mut client = Client::new(&ring);
    for i in 0..8 {
        client.send(FunctionId::of("slow"), i, 0, &[]).expect("room");
    }
    let mut order = Vec::new();
    while order.len() < 8 {
        if let Some(job) = port.take_job() {
            order.push(job.ticket.header.request_id);
            port.answer(&job, Status::OK, &[]).expect("first");
            port.release();
        }
    }
    assert_eq!(order, (0..8).collect::<Vec<_>>());
    assert_eq!(client.take_all(|_, _| ()), 8);
    assert_eq!(dispatcher.stop(LONG).report.dropped, 0);
}

#[test]
fn hooks_run_around_each_launch_and_a_failed_launch_leaves_its_mark() {
    let (ring, builder) = setup(4, None);
    let log = Arc::new(Mutex::new(Vec::new()));
    let fail_next = Arc::new(AtomicU8::new(0));
    let (pre, post, fail) = (Arc::clone(&log), Arc::clone(&log), Arc::clone(&fail_next));
    let started = Arc::new(AtomicBool::new(false));
    let raise = Arc::clone(&started);
    let launch = Box::new(move |context: &ringcall::worker::LaunchContext<'_>| {
        assert_ne!(context.slot_address(), 0);
        match fail.swap(0, Ordering::Relaxed) {
            0 => {
                raise.store(true, Ordering::Release);
                Ok(())
            }
            code => Err(LaunchError { code: u16::from(code) }),
        }
    });
    let spec = WorkerSpec {
        function: FunctionId::of("slow"),
        start: Start::Launch(launch),
        pre_launch: Some(Box::new(move |context| {
            let mut payload = [0; 40];
            let len = context.read_payload(&mut payload);
            pre.lock().expect("lock").push(format!("pre {:?}", &payload[..len]));
        })),
        post_launch: Some(Box::new(move |_| post.lock().expect("lock").push("post".to_owned()))),
        ready: None,
    };
    let wired = builder.worker(spec).build().expect("wired");
    let port = wired.ports().pop().expect("one");
    let dispatcher = wired.start().expect("started");
    let mut client = Client::new(&ring);

    fail_next.store(42, Ordering::Relaxed);
    let reply = client.call("slow", &[9], LONG).expect("answered");
    assert_eq!((reply.error, reply.status), (Some(42), Status::LAUNCH_FAILED));

    // The worker came back by itself: the next launch goes through, and its end is the raised flag.
    let slot = client.send(FunctionId::of("slow"), 1, 0, &[8]).expect("room");
    while !started.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    assert!(port.claim_ready().is_none(), "not raised yet");
    let signal = port.signal();
    std::thread::spawn(move || signal.raise()).join().expect("no panic");
    let job = port.claim_ready().expect("raised");
    assert!(port.claim_ready().is_none(), "claimed once");
    port.answer(&job, Status::OK, b"done").expect("first");
    port.release();
    assert_eq!(client.wait(slot, LONG).expect("answered").result, b"done");
    assert_eq!(*log.lock().expect("lock"), ["pre [9]", "pre [8]", "post"]);
    assert_eq!(dispatcher.counters().get(Counter::LaunchFailed), 1);
    assert_eq!(dispatcher.stop(LONG).report.dropped, 0);
}

#[test]
fn a_late_result_is_dropped_counted_and_the_slot_long_reused() {
    let (ring, builder) = setup(1, Some(Duration::from_millis(5)));
    let wired = builder
        .worker(WorkerSpec::mailbox(FunctionId::of("slow")))
        .worker(WorkerSpec::mailbox(FunctionId::of("fast")))
        .build()
        .expect("wired");
    let mut ports = wired.ports();
    let dispatcher = wired.start().expect("started");
    let (gate, quit) = flags();
    let fast = serve(ports.pop().expect("two"), gate, Arc::clone(&quit));
    let slow = ports.pop().expect("two");
    let mut client = Client::new(&ring);
    let reply = client.call("slow", &[1], LONG).expect("answered");
    assert_eq!(reply.status, Status::TIMED_OUT);
    // One of the same function waits in the queue behind the hung worker, and times out there.
    assert_eq!(client.call("slow", &[2], LONG).expect("answered").status, Status::TIMED_OUT);
    // The one slot serves others meanwhile.
    assert_eq!(client.call("fast", &[3], LONG).expect("answered").result, [4]);
    let job = slow.take_job().expect("the first");
    assert!(slow.is_completed(&job));
    assert_eq!(slow.answer(&job, Status::OK, b"late"), Err(Late));
    slow.release();
    assert_eq!(client.call("fast", &[4], LONG).expect("answered").result, [5]);
    let counters = dispatcher.counters();
    assert_eq!((counters.get(Counter::LateResults), counters.get(Counter::TimedOut)), (1, 2));
    assert_eq!(counters.get(Counter::Received), counters.answered());
    assert_eq!(dispatcher.stop(LONG).report.dropped, 0);
    quit.store(true, Ordering::Relaxed);
    fast.join().expect("no panic");
}

#[test]
fn deferred_answers_come_from_any_thread_and_dropped_ones_are_answered_too() {
    let (ring, builder) = setup(4, None);
    let wired = builder.worker(WorkerSpec::mailbox(FunctionId::of("slow"))).build().expect("wired");
    let port = wired.ports().pop().expect("one");
    let dispatcher = wired.start().expect("started");
    let mut client = Client::new(&ring);
    let slots: Vec<_> =
        (0..3).map(|i| client.send(FunctionId::of("slow"), i, 0, &[]).expect("room")).collect();
    let mut deferred: Vec<Deferral> = Vec::new();
    while deferred.len() < 3 {
        if let Some(job) = port.take_job() {
            deferred.push(port.defer(&job));
            port.release(); // the one worker continues while the answers are open
        }
    }
    assert_eq!(dispatcher.dump().slots.iter().filter(|s| s.phase.as_deref() == Some("Deferred")).count(), 3);
    drop(deferred.remove(1));
    let answering = std::thread::spawn(move || {
        for deferral in deferred {
            deferral.complete(Status::OK, b"later").expect("first");
        }
    });
    let replies: Vec<_> = slots.iter().map(|&slot| client.wait(slot, LONG).expect("answered")).collect();
    assert_eq!(
        replies.iter().map(|r| r.status).collect::<Vec<_>>(),
        [Status::OK, Status::ABANDONED, Status::OK]
    );
    assert_eq!(replies[2].result, b"later");
    answering.join().expect("no panic");
    assert_eq!(dispatcher.stop(LONG).report.dropped, 0);
}

#[test]
fn a_stop_at_its_deadline_answers_everything_and_says_what() {
    let (ring, builder) = setup(8, None);
    let wired = builder.worker(WorkerSpec::mailbox(FunctionId::of("slow"))).build().expect("wired");
    let port = wired.ports().pop().expect("one");
    let dispatcher = wired.start().expect("started");
    let mut client = Client::new(&ring);
    let slots: Vec<_> =
        (0..5).map(|i| client.send(FunctionId::of("slow"), i, 0, &[]).expect("room")).collect();
    while dispatcher.counters().get(Counter::Received) < 5 {
        std::thread::yield_now();
    }
    let stopped = dispatcher.stop(Duration::from_millis(10));
    assert_eq!((stopped.report.dropped, stopped.report.drained, stopped.report.stuck), (5, 0, false));
    let dump = stopped.report.unfinished.expect("a dump");
    assert_eq!(dump.slots.len(), 5);
    assert_eq!(dump.slots.iter().filter(|s| s.worker == Some(0)).count(), 1);
    assert!(dump.to_string().contains("5 slots not idle"));
    for slot in slots {
        assert_eq!(client.wait(slot, Duration::ZERO).expect("answered").status, Status::SHUTTING_DOWN);
    }
    // The worker finishes after the fact: nothing happens to the ring.
    let job = port.take_job().expect("the first");
    assert_eq!(port.answer(&job, Status::OK, &[]), Err(Late));
    port.release();
    assert_eq!(client.take_all(|_, _| ()), 0);
    let again = stopped.dispatcher.expect("not stuck").start().expect("restarted");
    assert_eq!(client.call("inline", &[], LONG).expect("answered").status, Status::OK);
    assert_eq!(again.stop(LONG).report.dropped, 0);
}

#[test]
fn a_dispatcher_dropped_without_a_stop_answers_and_ends() {
    let (ring, builder) = setup(8, None);
    let wired = builder.worker(WorkerSpec::mailbox(FunctionId::of("slow"))).build().expect("wired");
    let dispatcher = wired.start().expect("started");
    let mut client = Client::new(&ring);
    let slot = client.send(FunctionId::of("slow"), 1, 0, &[]).expect("room");
    while dispatcher.counters().get(Counter::Received) < 1 {
        std::thread::yield_now();
    }
    drop(dispatcher);
    assert_eq!(client.wait(slot, LONG).expect("answered").status, Status::SHUTTING_DOWN);
}

#[test]
fn workers_for_functions_that_are_not_there_are_refused() {
    let (_, builder) = setup(4, None);
    assert!(builder.worker(WorkerSpec::mailbox(FunctionId::of("nothing"))).build().is_err());
    let (_, builder) = setup(4, None);
    assert!(builder.worker(WorkerSpec::mailbox(FunctionId::of("inline"))).build().is_err());
}

/// On the caller's thread: inline calls are answered, a worker that never answers is given up at the
/// deadline, and the dispatcher continues afterwards.
#[test]
fn a_stepped_dispatcher_drains_gives_up_and_goes_on() {
    use ringcall::dispatcher::DispatchStep;
    let (ring, builder) = setup(8, None);
    let slow = FunctionId::of("slow");
    let wired = builder.worker(WorkerSpec::mailbox(slow)).build().expect("wired");
    let mut client = Client::new(&ring);
    let mut dispatcher = wired.into_stepper();
    assert_eq!(dispatcher.step(), DispatchStep::Idle);
    let held = client.send(slow, 1, 0, &[]).expect("sent");
    while dispatcher.step() == DispatchStep::Idle {}
    let inline = client.send(FunctionId::of("inline"), 2, 0, &[]).expect("sent");
    let stopped = dispatcher.finish(Duration::from_millis(20));
    assert_eq!((stopped.report.drained, stopped.report.dropped, stopped.report.stuck), (1, 1, false));
    assert!(stopped.report.unfinished.is_some());
    assert_eq!(client.wait(inline, LONG).expect("answered").status, Status::OK);
    assert_eq!(client.wait(held, LONG).expect("answered").status, Status::SHUTTING_DOWN);

    let mut dispatcher = stopped.dispatcher.expect("handed back").into_stepper();
    let slot = client.send(FunctionId::of("inline"), 3, 0, &[]).expect("sent");
    while dispatcher.step() == DispatchStep::Idle {}
    assert_eq!(client.wait(slot, LONG).expect("answered").status, Status::OK);
    let stopped = dispatcher.finish(LONG);
    assert_eq!((stopped.report.drained, stopped.report.dropped), (0, 0));
    assert!(stopped.report.unfinished.is_none());
}
