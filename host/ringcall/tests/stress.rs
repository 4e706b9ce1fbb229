//! The host dispatcher under load: a client in its own thread, worker threads, every kind of answer at once,
//! rings from one slot to thousands.

use ringcall::client::CallError;
use ringcall::wire::counter::Counter;
use ringcall::wire::header::RequestHeader;
use ringcall::wire::schema::HandlerSchema;
use ringcall::worker::{Deferral, WorkerPort, WorkerSpec};
use ringcall::{
    Client, FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Status, Wait,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

fn increment(request: &[u8], result: &mut [u8]) -> usize {
    for (out, byte) in result.iter_mut().zip(request) {
        *out = byte.wrapping_add(1);
    }
    request.len()
}

/// Answers every job with its payload plus one; every seventh from another thread.
fn work(
    port: WorkerPort,
    quit: Arc<AtomicBool>,
    deferrals: Sender<(Deferral, Vec<u8>)>,
) -> JoinHandle<WorkerPort> {
    std::thread::spawn(move || {
        let (mut payload, mut result, mut jobs) = ([0; 40], [0; 40], 0_u32);
        loop {
            let Some(job) = port.take_job() else {
                if quit.load(Ordering::Acquire) {
                    return port;
                }
                std::thread::yield_now();
                continue;
            };
            let len = port.read_payload(&job, &mut payload);
            let len = increment(&payload[..len], &mut result);
            jobs += 1;
            if jobs.is_multiple_of(7) {
                deferrals.send((port.defer(&job), result[..len].to_vec())).expect("somebody answers");
            } else {
                port.answer(&job, Status::OK, &result[..len]).expect("nobody else answers");
            }
            port.release();
        }
    })
}

fn complete(deferrals: Receiver<(Deferral, Vec<u8>)>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for (deferral, result) in deferrals {
            deferral.complete(Status::OK, &result).expect("nobody else answers");
        }
    })
}

/// What request `i` asks for, and the status it must get.
fn case(i: u32) -> (&'static str, Status) {
    match i % 16 {
        0 => ("unheard_of", Status::UNKNOWN_FUNCTION),
        1 => ("on_a_device", Status::WRONG_MODE),
        2 => ("fails", Status(9)),
        3..8 => ("inline", Status::OK),
        _ => ("pool", Status::OK),
    }
}

/// Sends `n` requests of varying length and checks every answer: status, number, time, content.
fn client(ring: &Ring, n: u32) {
    let mut client = Client::new(ring);
    let payload: Vec<u8> = (0..40).collect();
    let length = |i: u32| (i * 7 % 41) as usize;
    let mut answered = vec![false; n as usize];
    let (mut sent, mut got, mut moved) = (0, 0, Instant::now());
    while got < n {
        assert!(moved.elapsed() < LONG, "{got} of {n} answered");
        while sent < n {
            let (function, _) = case(sent);
            let payload = &payload[40 - length(sent)..];
            match client.send(FunctionId::of(function), sent, u64::from(sent) << 8, payload) {
                Ok(_) => sent += 1,
                Err(CallError::Full) => break,
                Err(other) => panic!("{other}"),
            }
        }
        let taken = client.take_all(|response, ring| {
            let header = response.header();
            let i = header.request_id;
            assert!(!std::mem::replace(&mut answered[i as usize], true), "request {i} answered twice");
            let (_, status) = case(i);
            assert_eq!((Status(header.status), header.ptp_timestamp), (status, u64::from(i) << 8));
            let mut result = [0; 40];
            let len = response.read(ring, &mut result);
            if status.is_ok() {
                let mut expected = [0; 40];
                increment(&payload[40 - length(i)..], &mut expected);
                assert_eq!((len, result), (length(i), expected));
            } else {
                assert_eq!(len, 0);
            }
        });
        if taken > 0 {
            moved = Instant::now();
            got += taken as u32;
        } else {
            std::thread::yield_now();
        }
    }
}

fn table(ring: &Ring) -> FunctionTable {
    FunctionTable::builder()
        .host_call("inline", |request: &[u8], result: &mut [u8]| Ok(increment(request, result)))
        .host_call("fails", |_: &[u8], _: &mut [u8]| Err(Status(9)))
        .worker_call("pool", HandlerSchema::new())
        .device_call("on_a_device", HandlerSchema::new())
        .build(ring)
        .expect("a table")
}

#[test]
fn thousands_of_requests_through_rings_of_any_size() {
    for (slots, workers, n) in [
        (1, 1, 3000),
        (2, 2, 6000),
        (7, 3, 8000),
        (8, 1, 8000),
        (9, 2, 8000),
        (64, 3, 20_000),
        (4096, 2, 40_000),
    ] {
        let ring = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring");
        let options = HostOptions { wait: Wait::Yield { spins: 4 }, ..HostOptions::default() };
        let mut builder = HostDispatcher::builder(&ring, table(&ring)).options(options);
        for _ in 0..workers {
            builder = builder.worker(WorkerSpec::mailbox(FunctionId::of("pool")));
        }
        let wired = builder.build().expect("wired");
        let (deferrals, inbox) = channel();
        let quit = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> =
            wired.ports().into_iter().map(|port| work(port, Arc::clone(&quit), deferrals.clone())).collect();
        drop(deferrals);
        let completing = complete(inbox);
        // Two runs of one dispatcher: cursors, queues and workers carry over.
        let mut wired = Some(wired);
        for _ in 0..2 {
            let dispatcher = wired.take().expect("not stuck").start().expect("started");
            let theirs = ring.clone();
            std::thread::spawn(move || client(&theirs, n / 2)).join().expect("every answer right");
            let stopped = dispatcher.stop(LONG);
            assert_eq!((stopped.report.dropped, stopped.report.stuck), (0, false));
            wired = stopped.dispatcher;
        }
        let counters = wired.as_ref().expect("not stuck").counters();
        let each =
            |which: fn(&(&str, Status)) -> bool| 2 * (0..n / 2).filter(|&i| which(&case(i))).count() as u64;
        assert_eq!(counters.get(Counter::Received), u64::from(n));
        assert_eq!(counters.answered(), u64::from(n));
        assert_eq!(counters.get(Counter::Completed), each(|c| c.1.is_ok()));
        assert_eq!(counters.get(Counter::UnknownFunction), each(|c| c.1 == Status::UNKNOWN_FUNCTION));
        assert_eq!(counters.get(Counter::WrongMode), each(|c| c.1 == Status::WRONG_MODE));
        assert_eq!(counters.get(Counter::HandlerErrors), each(|c| c.0 == "fails"));
        assert_eq!(counters.get(Counter::LateResults), 0);
        quit.store(true, Ordering::Release);
        for thread in threads {
            thread.join().expect("no panic");
        }
        completing.join().expect("no panic");
    }
}

/// A producer and a consumer in different threads, neither waiting for the other but by the flags.
#[test]
fn a_producer_and_a_consumer_apart_never_see_a_slot_half_done() {
    for slots in [1, 2, 5] {
        let ring = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring");
        let options = HostOptions { wait: Wait::Yield { spins: 0 }, ..HostOptions::default() };
        let builder = HostDispatcher::builder(&ring, table(&ring))
            .options(options)
            .worker(WorkerSpec::mailbox(FunctionId::of("pool")));
        let wired = builder.build().expect("wired");
        let (deferrals, inbox) = channel();
        let quit = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> =
            wired.ports().into_iter().map(|port| work(port, Arc::clone(&quit), deferrals.clone())).collect();
        drop(deferrals);
        let completing = complete(inbox);
        let dispatcher = wired.start().expect("started");
        let n = 10_000_u32;
        let theirs = ring.clone();
        let producing = std::thread::spawn(move || {
            let mut producer = Client::new(&theirs);
            for i in 0..n {
                let function = FunctionId::of(if i % 2 == 0 { "inline" } else { "pool" });
                let payload = [i.to_le_bytes(); 10].concat();
                while let Err(error) = producer.send(function, i, 0, &payload) {
                    assert_eq!(error, CallError::Full);
                    std::thread::yield_now();
                }
            }
        });
        let consumer = Client::new(&ring);
        let (mut seen, mut moved) = (vec![false; n as usize], Instant::now());
        let mut left = n as usize;
        while left > 0 {
            assert!(moved.elapsed() < LONG, "{left} left");
            let taken = consumer.take_all(|response, ring| {
                let i = response.header().request_id;
                assert!(!std::mem::replace(&mut seen[i as usize], true), "request {i} answered twice");
                let (mut result, mut expected) = ([0; 40], [0; 40]);
                assert_eq!(response.read(ring, &mut result), 40);
                increment(&[i.to_le_bytes(); 10].concat(), &mut expected);
                assert_eq!(result, expected, "the answer to another request");
            });
            if taken > 0 {
                moved = Instant::now();
                left -= taken;
            } else {
                std::thread::yield_now();
            }
        }
        producing.join().expect("no panic");
        assert_eq!(dispatcher.stop(LONG).report.dropped, 0);
        quit.store(true, Ordering::Release);
        for worker in workers {
            worker.join().expect("no panic");
        }
        completing.join().expect("no panic");
    }
}

/// A client that forges while the dispatcher runs, on a flag that already stands: nothing is read out of bounds, and
/// each flag that was seen has one answer.
#[test]
fn a_hostile_producer_changes_requests_under_way() {
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 64 }).expect("a ring");
    let options = HostOptions { wait: Wait::Yield { spins: 0 }, ..HostOptions::default() };
    let dispatcher = HostDispatcher::builder(&ring, table(&ring))
        .options(options)
        .build()
        .expect("wired")
        .start()
        .expect("up");
    let quit = Arc::new(AtomicBool::new(false));
    let hostile = {
        let (ring, quit) = (ring.clone(), Arc::clone(&quit));
        std::thread::spawn(move || {
            let inline = FunctionId::of("inline").0;
            let mut i = 0_u32;
            while !quit.load(Ordering::Relaxed) {
                let slot = ring.geometry().slot(i % 4).expect("in the ring");
                // Lengths that fit and lengths that do not, whatever state the slot is in.
                let header = RequestHeader::new(inline, [8, 40, 41, u32::MAX][(i / 4 % 4) as usize], i, 0);
                ring.shared().forge_request(slot, &header.to_bytes(), ring.geometry().request_address(slot));
                i = i.wrapping_add(1);
                if i.is_multiple_of(64) {
                    std::thread::yield_now();
                }
            }
        })
    };
    let consumer = Client::new(&ring);
    let (mut taken, begin) = (0_u64, Instant::now());
    while taken < 20_000 {
        assert!(begin.elapsed() < LONG, "{taken} answers");
        taken += consumer.take_all(|response, ring| {
            let status = Status(response.header().status);
            assert!(matches!(status, Status::OK | Status::ARG_TOO_LONG), "{status}");
            let mut result = [0; 64];
            assert!(response.read(ring, &mut result) <= 40);
        }) as u64;
        std::thread::yield_now();
    }
    quit.store(true, Ordering::Relaxed);
    hostile.join().expect("no panic");
    let stopped = dispatcher.stop(LONG);
    let counters = stopped.dispatcher.expect("not stuck").counters();
    taken += consumer.take_all(|_, _| ()) as u64;
    assert_eq!((counters.get(Counter::Received), counters.answered()), (taken, taken));
}
