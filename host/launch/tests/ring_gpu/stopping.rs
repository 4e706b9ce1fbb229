//! Stops: bounded, and every request accounted for; and starts after them.

use crate::rig::{self, TIMEOUT, calls, counted, drive, on_device, send, slot, slots, take};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_launch::ring::{DeviceDispatcher, DispatcherOptions, KernelKind, Stopped, Wired};
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIMES: u32 = 100;
const SLOTS: u32 = 16;

/// Kernels with a name for messages.
const KERNELS: [(&str, KernelKind); 4] = [
    ("regular", KernelKind::Regular { blocks: 1, warps: 8 }),
    ("regular of 4 blocks", KernelKind::Regular { blocks: 4, warps: 8 }),
    ("cooperative", KernelKind::Cooperative { blocks: 8, threads: 128 }),
    ("graph", KernelKind::Graph { warps: 8 }),
];

/// Kernels with one serving warp.
const ALONE: [(&str, KernelKind); 4] = [
    ("regular of one warp", KernelKind::Regular { blocks: 1, warps: 1 }),
    ("regular of two warps", KernelKind::Regular { blocks: 1, warps: 2 }),
    ("cooperative", KernelKind::Cooperative { blocks: 8, threads: 128 }),
    ("graph of two warps", KernelKind::Graph { warps: 2 }),
];

/// Runs `test` for every kernel; the one that launches graphs only where it can be linked.
fn for_each(
    name: &str,
    kernels: &[(&str, KernelKind)],
    test: impl Fn(&str, &ringcall_launch::ring::MappedRing, DeviceDispatcher<Wired>),
) {
    on_device(name, |context| {
        for &(kernel_name, kernel) in kernels {
            if matches!(kernel, KernelKind::Graph { .. }) && !crate::graphs::can_link() {
                eprintln!("left out: the graph kernel (no libcudadevrt.a)");
                continue;
            }
            let ring = rig::ring(context, SLOTS, 64);
            let mut functions = calls(64);
            if matches!(kernel, KernelKind::Cooperative { .. }) {
                functions = functions.handlers(&rig::samples(64, &[HandlerKind::Grid]));
            }
            let dispatcher = rig::wire(&ring, functions, DispatcherOptions::new(kernel));
            test(kernel_name, &ring, dispatcher);
        }
    });
}

#[test]
fn idle_dispatchers_stop_and_start_again() {
    for_each("idle_dispatchers_stop_and_start_again", &KERNELS, |name, ring, mut dispatcher| {
        let mut longest = Duration::ZERO;
        for turn in 0..TIMES {
            let running = dispatcher.start().unwrap_or_else(|why| panic!("{name}, start {turn}: {why}"));
            if turn % 10 == 0 {
                let answer = rig::call(ring.ring(), slot(ring.ring(), turn % SLOTS), "rpc_increment", &[9]);
                assert_eq!(answer.result, [10], "{name}, start {turn}");
                counted(&running, "calls of all starts", |c| {
                    c.get(Counter::Completed) == u64::from(turn / 10) + 1
                });
            }
            let Stopped { report, dispatcher: stopped } = running.stop(TIMEOUT);
            assert!(report.is_clean() && report.drained == 0, "{name}, stop {turn}: {report:?}");
            longest = longest.max(report.took);
            dispatcher = stopped.expect("it is given back");
        }
        eprintln!("{name}, idle: longest of {TIMES} stops {:.3} ms", longest.as_secs_f64() * 1e3);
    });
}

/// One warp serves a handler that takes a while; after it the ring is full: the report says where all of that went.
#[test]
fn a_stop_accounts_for_the_whole_ring() {
    for_each("a_stop_accounts_for_the_whole_ring", &ALONE, |name, ring, mut dispatcher| {
        let ring = ring.ring();
        let mut longest = Duration::ZERO;
        let mut answered = 0;
        for turn in 0..TIMES {
            let running = dispatcher.start().unwrap_or_else(|why| panic!("{name}, start {turn}: {why}"));
            send(ring, slot(ring, 0), "rpc_spin", 0, &10_000_000_i64.to_le_bytes());
            let begin = Instant::now();
            while running.busy().is_empty() {
                assert!(begin.elapsed() < TIMEOUT, "{name}: the handler does not begin");
            }
            for (n, &at) in slots(ring).iter().enumerate().skip(1) {
                send(ring, at, "rpc_increment", n as u32, &[n as u8]);
            }
            let Stopped { report, dispatcher: stopped } = running.stop(TIMEOUT);
            assert!(report.stuck.is_empty() && report.failed.is_none(), "{name}, stop {turn}: {report:?}");
            let all = report.drained + report.refused + report.unanswered;
            assert_eq!(all, u64::from(SLOTS), "{name}, stop {turn}: {report:?}");
            let mut refused = 0;
            for (n, &at) in slots(ring).iter().enumerate() {
                let answer = take(ring, at);
                assert_eq!(answer.request_id, n as u32, "{name}, stop {turn}");
                match answer.status {
                    Status::OK if n > 0 => assert_eq!(answer.result, [n as u8 + 1]),
                    Status::OK => {}
                    status => {
                        assert_eq!(status, Status::SHUTTING_DOWN, "{name}, stop {turn}");
                        refused += 1;
                    }
                }
            }
            assert_eq!(refused, report.refused, "{name}, stop {turn}: {report:?}");
            answered += report.drained;
            longest = longest.max(report.took);
            dispatcher = stopped.expect("it is given back");
            assert_eq!(dispatcher.counters().answered(), answered, "{name}: the counters go on");
        }
        eprintln!("{name}, full: longest of {TIMES} stops {:.3} ms", longest.as_secs_f64() * 1e3);
    });
}

/// A producer that knows nothing of stops: every request is answered, by a function or with `SHUTTING_DOWN`.
#[test]
fn busy_dispatchers_stop_and_start_again() {
    for_each("busy_dispatchers_stop_and_start_again", &KERNELS, |name, ring, dispatcher| {
        let shared = ring.ring().shared();
        let (enough, good, refused) = (AtomicBool::new(false), DeviceU64::new(0), DeviceU64::new(0));
        let (running, said) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let id = FunctionId::of("rpc_increment").0;
                // In batches, until it is told that this is enough.
                while !enough.load(Ordering::Acquire) {
                    drive(
                        shared,
                        &slots(ring.ring()),
                        256,
                        |i, vacant| {
                            vacant.submit(shared, id, i as u32, i, &i.to_le_bytes()).expect("it fits");
                        },
                        |i, response| {
                            let (header, mut result) = (response.header(), [0; 8]);
                            let len = response.read(shared, &mut result);
                            assert_eq!(header.ptp_timestamp, i, "{name}");
                            if Status(header.status) == Status::SHUTTING_DOWN {
                                refused.fetch_add(1, Ordering::Relaxed);
                            } else {
                                assert_eq!((header.status, len), (0, 8), "{name}: {i}");
                                assert_eq!(result, i.to_le_bytes().map(|b| b.wrapping_add(1)), "{name}: {i}");
                                good.fetch_add(1, Ordering::Relaxed);
                            }
                        },
                    );
                }
            });
            // Said also if this thread panics, so that the producer ends.
            struct Enough<'a>(&'a AtomicBool);
            impl Drop for Enough<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Release);
                }
            }
            let enough = Enough(&enough);
            let (mut longest, mut said) = (Duration::ZERO, 0);
            let mut dispatcher = dispatcher;
            for turn in 0..TIMES {
                let before = good.load(Ordering::Relaxed);
                let running = dispatcher.start().unwrap_or_else(|why| panic!("{name}, start {turn}: {why}"));
                let begin = Instant::now();
                while good.load(Ordering::Relaxed) < before + 20 {
                    assert!(begin.elapsed() < TIMEOUT, "{name}, start {turn}: nothing is answered");
                    std::thread::yield_now();
                }
                // A kernel that never finds the ring empty is told to end at once after four fifths of this.
                let Stopped { report, dispatcher: stopped } = running.stop(Duration::from_millis(500));
                assert!(report.stuck.is_empty() && report.failed.is_none(), "{name}: {report:?}");
                assert_eq!(report.unanswered, 0, "{name}, stop {turn}: {report:?}");
                said += report.refused;
                longest = longest.max(report.took);
                dispatcher = stopped.expect("it is given back");
            }
            // The last requests need somebody who answers them.
            let running = dispatcher.start().unwrap_or_else(|why| panic!("{name}: {why}"));
            drop(enough);
            eprintln!("{name}, busy: longest of {TIMES} stops {:.3} ms", longest.as_secs_f64() * 1e3);
            (running, said)
        });
        // Here the producer has ended.
        assert_eq!(refused.load(Ordering::Relaxed), said, "{name}: refusals seen and reported");
        counted(&running, "answers of all starts", |c| {
            c.get(Counter::Completed) == good.load(Ordering::Relaxed) && c.rejected() == 0
        });
        rig::stop_clean(running);
    });
}

#[test]
fn what_cannot_be_answered_is_reported_and_stays() {
    for_each("what_cannot_be_answered_is_reported_and_stays", &ALONE[1..], |name, ring, dispatcher| {
        let (ring, at) = (ring.ring(), slot(ring.ring(), 2));
        let running = dispatcher.start().unwrap_or_else(|why| panic!("{name}: {why}"));
        send(ring, at, "rpc_increment", 1, &[1]);
        rig::await_answer(ring, at);
        let header = ringcall_wire::header::RequestHeader::new(FunctionId::of("rpc_increment").0, 1, 2, 0);
        let mut raw = header.to_bytes().to_vec();
        raw.push(5);
        ring.shared().forge_request(at, &raw, ring.geometry().request_address(at));
        let Stopped { report, dispatcher } = running.stop(Duration::from_millis(500));
        assert_eq!((report.refused, report.unanswered), (0, 1), "{name}: {report:?}");
        assert_eq!(take(ring, at).result, [2], "{name}");
        // The next start answers it.
        let running = dispatcher.expect("it is given back").start().expect("started");
        let second = take(ring, at);
        assert_eq!((second.request_id, second.result), (2, vec![6]), "{name}");
        rig::stop_clean(running);
    });
}
