//! Engines over streams that the test simulates: ends that come late, or not at all; calls from hooks; stops.

mod lease;
mod routing;
mod shared;
mod transport;

use super::api::{cudaq_graph_launch_engine_destroy, cudaq_graph_launch_engine_launch, enter};
use super::fake::{Bench, FUNCTION, Manner, SLOT, SLOTS};
use super::{Ended, EngineExecutor, Publishing};
use crate::host_call::CallCounter;
use crate::host_loop::{HostLoop, HostThread, Shutdown, Source, Wiring};
use crate::layout::{WorkerHook, cudaStream_t, cudaq_ringbuffer_t};
use crate::raw_ring::host_ring;
use crate::status::{CUDA_UNKNOWN, Fault};
use core::ffi::{c_int, c_void};
use ringcall::dispatcher::{DispatchStep, Stepped};
use ringcall::external::{BadRequests, RingCompat};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, Ring};
use ringcall_launch::ring::worker_pool::SWEEPS_PER_QUERY;
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::status::{CudaqStatus, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

const UNKNOWN: u64 = flag::error(CUDA_UNKNOWN as u16);
const COMPAT: RingCompat =
    RingCompat { any_flag: true, shared_ring: false, bad_requests: BadRequests::Answer };

fn counter() -> CallCounter {
    // SAFETY: nothing to promise of a null pointer.
    unsafe { CallCounter::new(core::ptr::null_mut()) }.expect("no word")
}

/// A dispatcher of the bench's ring that the test steps.
fn dispatcher(bench: &Bench) -> HostDispatcher<Stepped> {
    dispatcher_of(bench, COMPAT)
}

fn dispatcher_of(bench: &Bench, compat: RingCompat) -> HostDispatcher<Stepped> {
    // SAFETY: the ring's memory is the bench's, whose windows keep it.
    let shared = unsafe { host_ring(&bench.ring, SLOTS) }.expect("a ring");
    let ring = Ring::external(shared);
    let table = FunctionTable::builder().external_call("graph", <_ as zerocopy::FromZeros>::new_zeroed());
    let table = table.with_id(FunctionId(FUNCTION)).build(&ring).expect("a table");
    let publishing = Publishing::Ring(ring.shared().clone());
    let executor = EngineExecutor { engine: Arc::clone(&bench.engine), counter: counter(), publishing };
    let builder = HostDispatcher::builder(&ring, table).compat(compat).executor(Box::new(executor));
    builder.build().expect("a dispatcher").into_stepper()
}

/// Sweeps until a query of the streams is among them.
fn ends_after_a_query(bench: &Bench) -> Vec<Ended> {
    (0..SWEEPS_PER_QUERY).flat_map(|_| ends(bench)).collect()
}

fn ends(bench: &Bench) -> Vec<Ended> {
    let mut ends = Vec::new();
    bench.engine.sweep(|end| ends.push(end));
    ends
}

fn launch(bench: &Bench, worker: usize, slot: u32, mark: bool) -> Result<(), CudaqStatus> {
    // SAFETY: what the streams launch touches nothing.
    unsafe { bench.engine.launch(worker, slot, mark) }.map_err(|fault| fault.status)
}

#[test]
fn a_late_end_is_not_taken_for_the_next_requests() {
    for skip_marks in [false, true] {
        let bench = Bench::new(2, skip_marks);
        let mut dispatcher = dispatcher(&bench);
        bench.ask(1, 1);
        let _ = dispatcher.step();
        assert_eq!(bench.streams[0].launches(), 1);
        // The graph has answered, the answer was taken, and the slot is filled again, all before its stream says the end.
        bench.answer(1);
        bench.take(1);
        bench.ask(1, 2);
        for _ in 0..10 {
            let _ = dispatcher.step();
        }
        assert_eq!(bench.streams[1].launches(), 0, "the slot's worker has not ended");
        bench.streams[0].end();
        if skip_marks {
            // The request flag stands until then, so that the producer does not fill the slot: it was the
            // first one's.
            let _ = dispatcher.step();
            assert_eq!(bench.rx(1), flag::FREE);
            bench.ask(1, 2);
        }
        for _ in 0..10 {
            let _ = dispatcher.step();
        }
        assert_eq!(bench.streams[0].launches() + bench.streams[1].launches(), 2);
        assert!(!matches!(TxState::decode(bench.tx(1)), TxState::Error(_)));
        bench.answer(1);
        let again = bench.streams[0].launches() - 1;
        bench.streams[1 - again as usize].end();
        while dispatcher.step() != DispatchStep::Idle {}
        assert_eq!(bench.response(1).request_id, 2);
        assert!(matches!(TxState::decode(bench.tx(1)), TxState::Ready(_)));
        assert!(bench.engine.is_idle());
    }
}

#[test]
fn a_slot_launched_again_is_its_new_workers() {
    let bench = Bench::new(2, false);
    launch(&bench, 0, 3, true).expect("idle");
    assert_eq!(launch(&bench, 1, 3, true), Err(CudaqStatus::InvalidArg), "under way");
    assert_eq!(launch(&bench, 0, 2, true), Err(CudaqStatus::InvalidArg), "busy");
    assert_eq!(launch(&bench, 1, SLOTS, true), Err(CudaqStatus::InvalidArg), "no such slot");
    assert_eq!(launch(&bench, 2, 0, true), Err(CudaqStatus::InvalidArg), "no such worker");
    bench.answer(3);
    bench.take(3);
    launch(&bench, 1, 3, true).expect("the answer was taken");
    bench.streams[0].end();
    assert_eq!(ends(&bench), [], "the slot is not its own any more");
    assert_eq!(bench.tx(3), flag::IN_FLIGHT);
    assert_eq!(bench.engine.acquire(None), Some(0));
    bench.streams[1].end();
    assert_eq!(ends(&bench), [Ended { slot: 3, failed: true }], "it did not answer");
    assert_eq!(bench.tx(3), UNKNOWN);
    assert!(bench.engine.is_idle());
}

#[test]
fn without_marks_an_answer_that_never_came_is_reported() {
    let bench = Bench::new(1, true);
    let run = |work: &dyn Fn()| {
        launch(&bench, 0, 2, false).expect("idle");
        work();
        bench.streams[0].end();
        ends(&bench)
    };
    let ended = |failed| [Ended { slot: 2, failed }];
    assert_eq!(run(&|| bench.answer(2)), ended(false));
    bench.take(2);
    assert_eq!(run(&|| ()), ended(true));
    assert_eq!(bench.tx(2), UNKNOWN);
    bench.take(2);
    assert_eq!(run(&|| (bench.answer(2), bench.take(2)).0), ended(false), "taken before the end");
    // A consumer may leave the slot as he likes.
    let wiped = || {
        bench.answer(2);
        bench.tx_data.store(2 * SLOT as usize / 8, 0, Ordering::Relaxed);
        bench.take(2);
    };
    assert_eq!(run(&wiped), ended(false));
    assert_eq!(bench.tx(2), flag::FREE);
}

#[test]
fn a_failed_stream_marks_its_slot() {
    let bench = Bench::new(2, false);
    launch(&bench, 0, 0, true).expect("idle");
    bench.streams[0].fail(700);
    let mut seen = Vec::new();
    while seen.is_empty() {
        seen = ends(&bench);
    }
    assert_eq!(seen, [Ended { slot: 0, failed: true }]);
    assert_eq!(bench.tx(0), flag::error(700));
}

#[test]
fn a_launch_that_fails_is_answered_once() {
    let bench = Bench::new(1, false);
    bench.streams[0].refuse();
    assert_eq!(launch(&bench, 0, 1, false), Err(CudaqStatus::Cuda));
    assert_eq!(bench.tx(1), flag::FREE, "the caller answers");
    assert!(bench.engine.is_idle());
    let mut dispatcher = dispatcher(&bench);
    bench.ask(1, 9);
    while dispatcher.step() != DispatchStep::Idle {}
    assert_eq!(bench.tx(1), UNKNOWN);
    assert_eq!((bench.response(1).status(), bench.response(1).request_id), (Status::LAUNCH_FAILED, 9));
    bench.take(1);

    let public = enter(Arc::clone(&bench.engine));
    // SAFETY: an engine that is there.
    unsafe { cudaq_graph_launch_engine_launch(public, 0, core::ptr::null_mut(), 2) };
    assert_eq!(bench.tx(2), UNKNOWN, "the C call's own mark");
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_launch(public, 7, core::ptr::null_mut(), 3) };
    assert_eq!(bench.tx(3), flag::FREE, "a bad argument does nothing");
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_destroy(public) };
}

#[test]
fn an_entry_of_any_layout_gives_its_mode() {
    use super::api::cudaq_graph_launch_engine_acquire_v1;
    let bench = Bench::new(1, false);
    let public = enter(Arc::clone(&bench.engine));
    // No longer than what the three layouts have in common; the mode is the byte after pointer and id.
    let mut entry = [0_u64; 21];
    // SAFETY: an engine that is there, and the part of an entry that is read.
    let mut acquire = |mode: u8, id| unsafe {
        entry[1] = u64::from(mode) << 32;
        cudaq_graph_launch_engine_acquire_v1(public, 1, entry.as_ptr().cast(), id, 0)
    };
    assert_eq!([acquire(1, FUNCTION), acquire(1, 1), acquire(2, 1)], [0, -1, 0]);
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_destroy(public) };
}

const LAST: Manner =
    Manner { skip_marks: false, answer_last: true, shared: false, in_place: false, keys: &[] };

#[test]
fn an_answer_that_comes_last_is_the_end() {
    let bench = Bench::of(2, LAST);
    launch(&bench, 0, 3, true).expect("idle");
    assert_eq!(bench.streams[0].queued(), 0, "a launch and nothing else");
    assert_eq!(ends_after_a_query(&bench), [], "it runs");
    assert_eq!(launch(&bench, 1, 3, true), Err(CudaqStatus::InvalidArg), "under way");
    bench.answer(3);
    assert_eq!(ends(&bench), [Ended { slot: 3, failed: false }], "its stream was not asked");
    assert!(bench.engine.is_idle());
    // The same worker again; its answer is taken before anybody sweeps.
    bench.take(3);
    launch(&bench, 0, 2, true).expect("idle");
    bench.answer(2);
    bench.take(2);
    assert_eq!(ends(&bench), [Ended { slot: 2, failed: false }]);
    // So it is, and the slot goes to the other worker at once.
    launch(&bench, 0, 1, true).expect("idle");
    bench.answer(1);
    bench.take(1);
    launch(&bench, 1, 1, true).expect("the answer was taken");
    assert_eq!(ends(&bench), [], "the slot is not its own any more");
    assert_eq!((bench.engine.acquire(None), bench.tx(1)), (Some(0), flag::IN_FLIGHT));
    bench.answer(1);
    assert_eq!(ends(&bench), [Ended { slot: 1, failed: false }]);
    // One that ends without an answer, one whose stream fails.
    launch(&bench, 0, 0, true).expect("idle");
    launch(&bench, 1, 1, true).expect("the last answer is overwritten, as the caller wants");
    bench.streams[0].end();
    bench.streams[1].fail(700);
    assert_eq!(ends_after_a_query(&bench), [0, 1].map(|slot| Ended { slot, failed: true }));
    assert_eq!((bench.tx(0), bench.tx(1)), (UNKNOWN, flag::error(700)));
    assert!(bench.engine.is_idle());
}

#[test]
fn in_place_the_answer_is_the_only_write_after_a_graph() {
    for (skip_marks, queued) in [(false, 1), (true, 2)] {
        let bench = Bench::of(1, Manner { skip_marks, in_place: true, ..Manner::default() });
        launch(&bench, 0, 2, !skip_marks).expect("idle");
        assert_eq!(bench.streams[0].queued(), queued);
        assert_eq!(ends_after_a_query(&bench), []);
        bench.streams[0].end();
        assert!(matches!(TxState::decode(bench.tx(2)), TxState::Ready(_)));
        assert_eq!(ends(&bench), [Ended { slot: 2, failed: false }]);
        assert!(bench.engine.is_idle());
    }
}

#[test]
fn who_sees_an_in_place_slot_in_flight_finds_its_graph_launched() {
    let marked =
        |slot: usize| core::array::from_fn(|index| if index == slot { flag::IN_FLIGHT } else { flag::FREE });
    for in_place in [true, false] {
        let bench = Bench::of(1, Manner { in_place, ..Manner::default() });
        let mut dispatcher = dispatcher(&bench);
        bench.ask(2, 7);
        while dispatcher.step() != DispatchStep::Idle {}
        let free = [flag::FREE; SLOTS as usize];
        // A graph that answers by the flag may do so at once; in place the stream writes it.
        assert_eq!(
            bench.streams[0].at_launches(),
            [if in_place { free } else { marked(2) }],
            "in place: {in_place}"
        );
        assert_eq!(bench.streams[0].at_writes(), [marked(2)], "before the answer");
        assert_eq!((bench.rx(2), bench.tx(2)), (flag::FREE, flag::IN_FLIGHT));
    }
    // The C call likewise; a refused request leaves no mark.
    let bench = Bench::of(1, Manner { in_place: true, ..Manner::default() });
    launch(&bench, 0, 1, true).expect("idle");
    assert_eq!(bench.streams[0].at_launches(), [[flag::FREE; SLOTS as usize]]);
    assert_eq!(bench.streams[0].at_writes(), [marked(1)]);
    let bench = Bench::of(1, Manner { in_place: true, ..Manner::default() });
    bench.streams[0].refuse();
    assert_eq!(launch(&bench, 0, 1, true), Err(CudaqStatus::Cuda));
    assert_eq!(bench.tx(1), flag::FREE);
}

#[test]
fn without_marks_the_end_is_written_whatever_comes_last() {
    let bench = Bench::of(1, Manner { skip_marks: true, ..LAST });
    launch(&bench, 0, 2, false).expect("idle");
    assert_eq!(bench.streams[0].queued(), 1);
    bench.answer(2);
    assert_eq!(ends_after_a_query(&bench), [], "it has not ended");
    bench.streams[0].end();
    assert_eq!(ends(&bench), [Ended { slot: 2, failed: false }]);
}

#[test]
fn a_loop_whose_graphs_answer_last_serves_them() {
    let bench = Bench::of(2, LAST);
    let mut dispatcher = dispatcher(&bench);
    for round in 0..20 {
        bench.ask(round % SLOTS, round);
        while dispatcher.step() != DispatchStep::Idle {}
        assert_eq!(bench.streams.iter().map(|stream| stream.launches()).sum::<u32>(), round + 1);
        bench.answer(round % SLOTS);
        // Taken before the dispatcher has noticed, or after.
        if round % 2 == 0 {
            while dispatcher.step() != DispatchStep::Idle {}
        }
        assert_eq!(bench.response(round % SLOTS).request_id, round);
        bench.take(round % SLOTS);
    }
    while dispatcher.step() != DispatchStep::Idle {}
    assert!(bench.engine.is_idle());
    assert_eq!(bench.streams.iter().map(|stream| stream.queued()).sum::<usize>(), 0);
}

#[test]
fn an_answer_outlives_the_failure_of_its_stream() {
    let bench = Bench::new(1, false);
    launch(&bench, 0, 1, true).expect("idle");
    bench.answer(1);
    bench.streams[0].fail(700);
    assert_eq!(ends_after_a_query(&bench), [Ended { slot: 1, failed: false }]);
    assert!(matches!(TxState::decode(bench.tx(1)), TxState::Ready(_)));
}

unsafe extern "C" fn sweeping_hook(bench: *mut c_void, _: *mut c_void, _: cudaStream_t) {
    // SAFETY: the test's bench, which outlives the launch.
    let bench = unsafe { &*bench.cast::<Bench>() };
    for _ in 0..=SWEEPS_PER_QUERY {
        assert_eq!(ends(bench), [], "who is being launched has not ended");
    }
}

#[test]
fn hooks_and_callbacks_may_call_the_engine() {
    let bench = Bench::new(2, false);
    // SAFETY: C's view, which is there as long as the engine.
    let workers = unsafe { (*bench.engine.public()).workers };
    // SAFETY: likewise, before the first launch.
    let worker = unsafe { &mut *workers };
    let hook: WorkerHook = sweeping_hook;
    (worker.pre_launch_fn, worker.post_launch_fn) = (Some(hook), Some(hook));
    let data = core::ptr::from_ref(&bench).cast_mut().cast();
    (worker.pre_launch_data, worker.post_launch_data) = (data, data);
    // Even if a sweep would find that its stream had failed.
    bench.streams[0].fail(700);
    launch(&bench, 0, 0, true).expect("idle");
    bench.answer(0);
    bench.streams[0].end();
    let mut seen = 0;
    bench.engine.sweep(|_| {
        seen += 1;
        assert_eq!(ends(&bench), [], "told once");
        assert_eq!(launch(&bench, 0, 1, true), Err(CudaqStatus::InvalidArg), "not idle yet");
        launch(&bench, 1, 1, true).expect("idle");
    });
    assert_eq!(seen, 1);
    launch(&bench, 0, 2, true).expect("idle again");
}

#[test]
fn launches_and_sweeps_of_different_threads_agree() {
    const ROUNDS: u32 = 500;
    let bench = Bench::new(1, false);
    let (over, seen) = (AtomicBool::new(false), AtomicI32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    bench.engine.sweep(|end| {
                        assert!(!end.failed);
                        seen.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
        for round in 0..ROUNDS {
            launch(&bench, 0, round % SLOTS, true).expect("idle");
            bench.answer(round % SLOTS);
            bench.take(round % SLOTS);
            bench.streams[0].end();
            while !bench.engine.is_idle() {
                std::thread::yield_now();
            }
        }
        over.store(true, Ordering::Release);
    });
    assert_eq!(seen.load(Ordering::Relaxed), ROUNDS as i32);
}

#[test]
fn an_engine_whose_graph_still_runs_leaves_its_memory() {
    let bench = Bench::new(1, false);
    let stream = Arc::clone(&bench.streams[0]);
    launch(&bench, 0, 0, true).expect("idle");
    assert!(bench.engine.ended().is_err());
    drop(bench);
    assert_eq!(Arc::strong_count(&stream), 2, "the engine's stays for ever");

    let bench = Bench::new(1, false);
    let stream = Arc::clone(&bench.streams[0]);
    launch(&bench, 0, 0, true).expect("idle");
    let public = enter(Arc::clone(&bench.engine));
    // SAFETY: an engine that is there.
    unsafe { cudaq_graph_launch_engine_destroy(public) };
    assert_eq!(Arc::strong_count(&bench.engine), 2, "still there: the graph runs");
    bench.streams[0].end();
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_destroy(public) };
    assert_eq!(Arc::strong_count(&bench.engine), 1);
    drop(bench);
    assert_eq!(Arc::strong_count(&stream), 1);
}

/// A loop of the bench's ring, and the flag that ends it.
fn host_loop(bench: &Bench) -> (HostLoop, Box<AtomicI32>) {
    let (built, flag) = host_loop_over(bench, Source::Ring(bench.ring), COMPAT);
    (built.expect("a loop"), flag)
}

/// The same, wherever requests come from.
fn host_loop_over(
    bench: &Bench,
    source: Source,
    compat: RingCompat,
) -> (Result<HostLoop, Fault>, Box<AtomicI32>) {
    let flag = Box::new(AtomicI32::new(0));
    // SAFETY: an int that outlives the loop: the caller keeps it.
    let shutdown = unsafe { Shutdown::new(flag.as_ptr().cast::<c_int>()) }.expect("aligned");
    let wiring = Wiring {
        source,
        slots: SLOTS,
        slot_bytes: SLOT,
        entries: bench.entries.clone(),
        engine: Some(Arc::clone(&bench.engine)),
        compat,
        shutdown,
        counter: counter(),
        stop: Duration::from_millis(500),
    };
    // SAFETY: the bench's ring; its streams touch nothing.
    (unsafe { wiring.build() }, flag)
}

#[test]
fn an_engine_of_another_ring_is_refused() {
    let [one, other] = [0, 1].map(|_| Bench::new(1, false));
    let over = |ring| host_loop_over(&one, Source::Ring(ring), COMPAT).0.map(drop);
    assert!(over(one.ring).is_ok());
    let asked = cudaq_ringbuffer_t { rx_flags_host: other.ring.rx_flags_host, ..one.ring };
    let answered = cudaq_ringbuffer_t { tx_flags_host: other.ring.tx_flags_host, ..one.ring };
    let requests = cudaq_ringbuffer_t { rx_data_host: other.ring.rx_data_host, ..one.ring };
    let responses = cudaq_ringbuffer_t { tx_data_host: other.ring.tx_data_host, ..one.ring };
    for ring in [other.ring, asked, answered, requests, responses] {
        let fault = over(ring).expect_err("graphs would answer elsewhere");
        assert_eq!(fault.status, CudaqStatus::InvalidArg);
        assert!(fault.why.contains("another ring"), "{}", fault.why);
    }
}

fn until(done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
}

#[test]
fn a_stop_says_so_while_a_graph_runs() {
    for skip_marks in [false, true] {
        let bench = Bench::new(1, skip_marks);
        let (host_loop, _flag) = host_loop(&bench);
        let mut thread = HostThread::start(host_loop).expect("a thread");
        bench.ask(1, 5);
        until(|| bench.streams[0].launches() == 1);
        bench.ask(2, 6);
        let fault = thread.stop().expect_err("the graph runs");
        assert_eq!(fault.status, CudaqStatus::Internal);
        assert!(fault.why.contains("graph"), "{}", fault.why);
        assert_eq!(bench.tx(1), if skip_marks { flag::FREE } else { flag::IN_FLIGHT }, "not answered for it");
        assert_eq!(bench.rx(1) != flag::FREE, skip_marks);
        // Who waited for the worker is told.
        until(|| matches!(TxState::decode(bench.tx(2)), TxState::Ready(_)));
        assert_eq!(bench.response(2).status(), Status::SHUTTING_DOWN);
        bench.answer(1);
        bench.streams[0].end();
        thread.stop().expect("now");
        thread.stop().expect("and again");
        assert_eq!(bench.response(1).request_id, 5);
        assert!(bench.response(1).status().is_ok());
        assert_eq!((bench.rx(1), bench.streams[0].launches()), (flag::FREE, 1));
    }
}

#[test]
fn a_loop_on_the_callers_thread_says_so_too() {
    let bench = Bench::new(1, true);
    let (host_loop, shutdown) = host_loop(&bench);
    bench.ask(0, 1);
    shutdown.store(1, Ordering::Release);
    let fault = host_loop.run(Duration::ZERO).expect_err("the graph runs");
    assert_eq!((fault.status, bench.streams[0].launches()), (CudaqStatus::Internal, 1));
    assert_eq!(bench.tx(0), flag::FREE, "nobody answers for it");
}
