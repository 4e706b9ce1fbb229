//! The kernel that launches graphs. Needs `libcudadevrt.a` beside a device.

use crate::device::{graph, on_device_with_runtime, waiting};
use crate::rig::{self, TIMEOUT, call, calls, counted, drive, flood, setting, slot, slots, stop_clean};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, MappedRegion, devrt};
use ringcall_launch::ring::{
    DeviceDispatcher, DeviceError, DispatcherOptions, Functions, GraphFunction, KernelKind, MappedRing,
    Running,
};
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::time::Instant;

const GRAPH: &str = "graph_increment";

/// Whether the kernel that launches graphs can be linked here.
pub(crate) fn can_link() -> bool {
    devrt::find().is_ok()
}

fn with_graph(slot_bytes: u32, graph: GraphFunction) -> Functions {
    calls(slot_bytes).graph(GRAPH, HandlerSchema::new(), graph)
}

fn start(
    context: &Arc<Context>,
    (slots, slot_bytes): (u32, u32),
    functions: Functions,
) -> (MappedRing, DeviceDispatcher<Running>) {
    let ring = rig::ring(context, slots, slot_bytes);
    let options = DispatcherOptions::new(KernelKind::graph());
    let running = rig::wire(&ring, functions, options).start().expect("started");
    (ring, running)
}

/// Waits until so many launches were counted.
fn launched(running: &DeviceDispatcher<Running>, n: u64) {
    let begin = Instant::now();
    while running.watch().launches().graphs != n {
        let launches = running.watch().launches();
        assert!(begin.elapsed() < TIMEOUT, "{n} launches are not counted: {launches:?}");
    }
    assert_eq!(running.watch().launches().graph_error, 0, "a launch failed");
}

#[test]
fn graphs_answer_every_payload_beside_device_calls() {
    on_device_with_runtime("graphs_answer_every_payload_beside_device_calls", |context| {
        for (count, slot_bytes) in [(1, 64), (16, 576), (64, 4096), (200, 576)] {
            let (ring, running) = start(context, (count, slot_bytes), with_graph(slot_bytes, graph(16)));
            let (mut all, mut graphs) = (0, 0);
            let lengths = [0, 1, 7, 8, 31, 32, 488, 512, 1000];
            for len in lengths.into_iter().filter(|&len| len + 24 <= slot_bytes as usize) {
                let names = [GRAPH, "rpc_increment", GRAPH, "rpc_increment_warp"];
                flood(ring.ring().shared(), &slots(ring.ring()), &names, len, 800);
                (all, graphs) = (all + 800, graphs + 400);
            }
            launched(&running, graphs);
            // The children's own counts are in these. What waited for an executable was counted as held back.
            counted(&running, "every call", |c| {
                c.get(Counter::Completed) == all
                    && c.get(Counter::Dispatched) == all
                    && c.answered() == all + c.get(Counter::Backpressure)
            });
            stop_clean(running);
        }
    });
}

#[test]
fn no_launch_is_lost() {
    on_device_with_runtime("no_launch_is_lost", |context| {
        let n = setting("RINGCALL_GRAPH_LAUNCHES", 20_000_u64);
        let (ring, running) = start(context, (64, 64), with_graph(64, graph(16)));
        let begin = Instant::now();
        flood(ring.ring().shared(), &slots(ring.ring()), &[GRAPH], 40, n);
        eprintln!("{:.0} launches a second", n as f64 / begin.elapsed().as_secs_f64());
        launched(&running, n);
        let relaunches = running.watch().launches().relaunches;
        assert!(
            relaunches >= (n - 1) / ringcall_wire::launch::LAUNCHES_PER_EXECUTION,
            "{relaunches} relaunches"
        );
        counted(&running, "every launch", |c| {
            c.get(Counter::Completed) == n && c.get(Counter::Dispatched) == n
        });
        stop_clean(running);
    });
}

#[test]
fn bursts_of_16_are_answered() {
    on_device_with_runtime("bursts_of_16_are_answered", |context| {
        let (ring, running) = start(context, (16, 64), with_graph(64, graph(16)));
        for _ in 0..500 {
            // All 16 slots at once, and no more before all are taken.
            flood(ring.ring().shared(), &slots(ring.ring()), &[GRAPH], 32, 16);
        }
        launched(&running, 8_000);
        counted(&running, "every launch", |c| c.get(Counter::Completed) == 8_000);
        stop_clean(running);
    });
}

#[test]
fn fewer_executables_than_requests_hold_back() {
    on_device_with_runtime("fewer_executables_than_requests_hold_back", |context| {
        for execs in [1, 3] {
            let (ring, running) = start(context, (64, 64), with_graph(64, graph(execs)));
            flood(ring.ring().shared(), &slots(ring.ring()), &[GRAPH], 32, 5_000);
            launched(&running, 5_000);
            let counters = counted(&running, "every launch", |c| c.get(Counter::Completed) == 5_000);
            assert!(counters.get(Counter::Queued) > 0, "64 requests and {execs} executables");
            stop_clean(running);
        }
    });
}

/// A word that graphs wait for while it is not 0.
fn credit(context: &Arc<Context>, value: u64) -> (ringcall_gpu::shared::Words, u64) {
    let region = MappedRegion::zeroed(context, 8).expect("pinned");
    let word = region.words(0, 1).expect("inside"); // keeps the memory
    word.store(0, value, Ordering::Release);
    (word, region.device_address(0).expect("inside").0)
}

#[test]
fn routing_keys_choose_the_graph() {
    on_device_with_runtime("routing_keys_choose_the_graph", |context| {
        // Which of them ran can be told: one has no credit.
        let (_word, closed) = credit(context, 1);
        let functions = with_graph(64, graph(2).routing_key(5)).graph(
            GRAPH,
            HandlerSchema::new(),
            waiting(2, closed).routing_key(6),
        );
        let (ring, running) = start(context, (16, 64), functions);
        let ring = ring.ring();
        let keyed = |key: u64, at: u32| {
            let mut payload = key.to_le_bytes().to_vec();
            payload.extend([40, 41]);
            call(ring, slot(ring, at), GRAPH, &payload)
        };
        for at in 0..16 {
            let open = keyed(5, at);
            assert_eq!((open.status, &open.result[8..]), (Status::OK, &[41, 42][..]));
            assert_eq!(keyed(6, at).status, Status::BACKPRESSURE);
            assert_eq!(keyed(7, at).status, Status::NO_WORKER);
            assert_eq!(call(ring, slot(ring, at), GRAPH, &[5; 7]).status, Status::NO_WORKER, "no key");
        }
        counted(&running, "no worker", |c| c.get(Counter::NoWorker) == 32);
        launched(&running, 32);
        stop_clean(running);

        let ring = rig::ring(context, 16, 64);
        let same = with_graph(64, graph(1).routing_key(5)).graph(
            GRAPH,
            HandlerSchema::new(),
            graph(1).routing_key(5),
        );
        let options = DispatcherOptions::new(KernelKind::graph());
        let refused = DeviceDispatcher::wire(&ring, same, rig::modules(context), options).err();
        assert!(matches!(refused, Some(DeviceError::SameRoute { key: 5, .. })), "{refused:?}");
    });
}

#[test]
fn handlers_trigger_their_follow_up() {
    on_device_with_runtime("handlers_trigger_their_follow_up", |context| {
        let functions = with_graph(64, graph(16)).follow_up("rpc_trigger", GRAPH);
        let (ring, running) = start(context, (16, 64), functions);
        let (ring, mut ok) = (ring.ring(), 0);
        for i in 0..1_000_u32 {
            let answer = call(ring, slot(ring, i % 16), "rpc_trigger", &[1, 2, 3]);
            assert!(answer.result.is_empty(), "{answer:?}");
            // A budget of launches that is used up just now is no error of the handler's.
            assert!(answer.status == Status::OK || answer.status == Status::BACKPRESSURE, "{i}: {answer:?}");
            assert!(i > 0 || answer.status == Status::OK, "the first");
            ok += u64::from(answer.status == Status::OK);
        }
        launched(&running, ok);
        assert_eq!(call(ring, slot(ring, 0), GRAPH, &[1]).result, [2], "the mailboxes are free again");
        stop_clean(running);

        let ring = rig::ring(context, 16, 64);
        let nowhere = calls(64).follow_up("rpc_trigger", "nowhere");
        let options = DispatcherOptions::new(KernelKind::graph());
        let refused = DeviceDispatcher::wire(&ring, nowhere, rig::modules(context), options).err();
        assert!(matches!(refused, Some(DeviceError::NoFollowUp { .. })), "{refused:?}");
    });
}

#[test]
fn a_graph_without_credit_answers_backpressure() {
    on_device_with_runtime("a_graph_without_credit_answers_backpressure", |context| {
        let (word, address) = credit(context, 1);
        let (ring, running) = start(context, (16, 64), with_graph(64, waiting(4, address)));
        let (graph, plain) = (FunctionId::of(GRAPH).0, FunctionId::of("rpc_increment").0);
        let shared = ring.ring().shared();
        let all = slots(ring.ring());
        let mut refused = 0;
        drive(
            shared,
            &all,
            400,
            |i, vacant| {
                let id = if i % 2 == 0 { graph } else { plain };
                vacant.submit(shared, id, i as u32, i, &[3]).expect("it fits");
            },
            |i, response| {
                let status = Status(response.header().status);
                assert_eq!(status, if i % 2 == 0 { Status::BACKPRESSURE } else { Status::OK }, "{i}");
                refused += u64::from(i % 2 == 0);
            },
        );
        assert_eq!(refused, 200);
        // What waited in the ring for an executable was counted there too.
        counted(&running, "refusals", |c| {
            c.get(Counter::Backpressure) >= 200 && c.get(Counter::Completed) == 200
        });
        launched(&running, 200);
        word.store(0, 0, Ordering::Release);
        flood(shared, &all, &[GRAPH], 32, 400);
        counted(&running, "answers with credit", |c| c.get(Counter::Completed) == 600);
        stop_clean(running);
    });
}

/// Graphs that take a while are waited for, and what they counted is in the counters of the stop and of the next start.
#[test]
fn a_stop_waits_for_graphs() {
    on_device_with_runtime("a_stop_waits_for_graphs", |context| {
        let (_word, closed) = credit(context, 1);
        let ring = rig::ring(context, 16, 64);
        let functions = with_graph(64, waiting(4, closed));
        let mut dispatcher = rig::wire(&ring, functions, DispatcherOptions::new(KernelKind::graph()));
        let ring = ring.ring();
        for turn in 1..=20 {
            let running = dispatcher.start().expect("started");
            for at in 0..4 {
                rig::send(ring, slot(ring, at), GRAPH, at, &[1]);
            }
            launched(&running, 4);
            let stopped = running.stop(TIMEOUT);
            assert!(stopped.report.is_clean(), "stop {turn}: {:?}", stopped.report);
            dispatcher = stopped.dispatcher.expect("it is given back");
            let counters = dispatcher.counters();
            assert_eq!(counters.get(Counter::Dispatched), 4 * turn, "stop {turn}");
            assert!(counters.get(Counter::Backpressure) >= 4 * turn, "stop {turn}");
            for at in 0..4 {
                assert_eq!(rig::take(ring, slot(ring, at)).status, Status::BACKPRESSURE, "stop {turn}");
            }
        }
    });
}
