//! The unified dispatcher that launches graphs. Needs `libcudadevrt.a` beside a device.

use crate::device::{graph, on_device, on_device_with_runtime, waiting};
use crate::rig::{Pair, Peer, Rig, TIMEOUT, calls, queues, setting, stop_clean, try_wire, wire_with};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, MappedRegion};
use ringcall_launch::queue_pair::{Running, UnifiedDispatcher};
use ringcall_launch::ring::{DeviceError, Functions, KernelKind, LaunchStats};
use ringcall_mlx5::Event;
use ringcall_wire::Counter;
use ringcall_wire::launch::LAUNCHES_PER_EXECUTION;
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::time::{Duration, Instant};

const GRAPHS: [&str; 2] = ["graph_increment", "graph_increment_too"];

fn with_graphs(stride: u32, execs: u32) -> Functions {
    GRAPHS
        .iter()
        .fold(calls(stride), |functions, name| functions.graph(name, HandlerSchema::new(), graph(execs)))
}

fn pair(depth: u32, stride: u32) -> Pair {
    Pair { stride, kernel: KernelKind::graph(), ..Pair::of_depth(depth) }
}

fn start(context: &Arc<Context>, pair: Pair, functions: Functions) -> (UnifiedDispatcher<Running>, Rig) {
    let (wired, rig) = wire_with(context, pair, functions);
    (wired.start().expect("started"), rig)
}

/// Graphs, of each a half, and handlers between them.
fn mixed(i: u64) -> &'static str {
    ["graph_increment", "rpc_increment", "graph_increment_too", "rpc_increment_warp"][(i % 4) as usize]
}

#[test]
fn two_graphs_beside_handlers() {
    on_device_with_runtime("two_graphs_beside_handlers", |context| {
        let n = setting("RINGCALL_UNIFIED_GRAPH_REQUESTS", 10_000);
        for (depth, stride, execs, len) in [(16, 64, 8, 32), (128, 64, 16, 32), (64, 576, 16, 512)] {
            let (running, mut rig) = start(context, pair(depth, stride), with_graphs(stride, execs));
            let begin = Instant::now();
            rig.peer.mix(2 * n, u64::from(depth / 2), len, mixed);
            eprintln!("{:.0} launches a second", n as f64 / begin.elapsed().as_secs_f64());
            let wired = stop_clean(running);
            let LaunchStats { graphs, relaunches, graph_error, relaunch_error } = wired.launches();
            assert_eq!((graphs, graph_error, relaunch_error), (n, 0, 0));
            assert!(relaunches >= (n - 1) / LAUNCHES_PER_EXECUTION, "{relaunches} relaunches");
            for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
                assert_eq!(wired.counters().get(counter), 2 * n, "{counter:?}");
            }
            assert_eq!((wired.event(Event::RxLost), wired.event(Event::RxReordered)), (0, 0));
            rig.end();
        }
    });
}

#[test]
fn few_executables_hold_back_graphs_alone() {
    on_device_with_runtime("few_executables_hold_back_graphs_alone", |context| {
        for execs in [1, 3] {
            let (running, mut rig) = start(context, pair(64, 64), with_graphs(64, execs));
            rig.peer.mix(5_000, 32, 32, mixed);
            let wired = stop_clean(running);
            assert_eq!(wired.launches().graphs, 2_500);
            assert_eq!(wired.counters().get(Counter::Completed), 5_000);
            assert!(
                wired.counters().get(Counter::Queued) > 0,
                "16 graphs at once and {execs} executables each"
            );
            rig.end();
        }
    });
}

/// A graph that waits for its credit, and handlers that do not wait for it.
#[test]
fn a_slow_graph_holds_up_nothing() {
    on_device_with_runtime("a_slow_graph_holds_up_nothing", |context| {
        let region = MappedRegion::zeroed(context, 8).expect("pinned");
        let word = region.words(0, 1).expect("inside");
        let credit = region.device_address(0).expect("inside").0;
        word.store(0, 1, Ordering::Release);
        let functions = calls(64).graph(GRAPHS[0], HandlerSchema::new(), waiting(4, credit));
        let (running, mut rig) = start(context, pair(64, 64), functions);
        let mut overtaken = 0;
        for round in 0..50_u32 {
            rig.peer.send(&Peer::frame(GRAPHS[0], 4, 1_000_000 + round, &[1; 4]));
            rig.peer.send(&Peer::frame("rpc_increment", 4, round, &[2; 4]));
            for nth in 0..2 {
                let (header, result) = rig.peer.receive();
                if header.request_id == round {
                    assert_eq!(result, [3; 4]);
                    overtaken += u32::from(nth == 0);
                } else {
                    assert_eq!(
                        (header.request_id, header.status()),
                        (1_000_000 + round, Status::BACKPRESSURE)
                    );
                }
            }
        }
        assert_eq!(overtaken, 50, "a graph waits for some 2 ms before it gives up");
        word.store(0, 0, Ordering::Release);
        rig.peer.send(&Peer::frame(GRAPHS[0], 4, 7, &[1; 4]));
        assert_eq!(rig.peer.receive().1, [2; 4]);
        let _ = stop_clean(running);
        rig.end();
    });
}

#[test]
fn routes_and_follow_ups() {
    on_device_with_runtime("routes_and_follow_ups", |context| {
        let functions = calls(64)
            .graph(GRAPHS[0], HandlerSchema::new(), graph(8).routing_key(5))
            .graph(GRAPHS[0], HandlerSchema::new(), graph(8).routing_key(6))
            .graph(GRAPHS[1], HandlerSchema::new(), graph(8))
            .follow_up("rpc_trigger", GRAPHS[1]);
        let (running, mut rig) = start(context, pair(16, 64), functions);
        for key in [5_u64, 6, 7] {
            rig.peer.send(&Peer::frame(GRAPHS[0], 8, key as u32, &key.to_le_bytes()));
            let status = rig.peer.receive().0.status();
            assert_eq!(status, if key == 7 { Status::NO_WORKER } else { Status::OK }, "{key}");
        }
        let mut launched = 2;
        for id in 0..500_u32 {
            rig.peer.send(&Peer::frame("rpc_trigger", 3, id, &[1, 2, 3]));
            let (header, result) = rig.peer.receive();
            assert!(result.is_empty());
            // A budget of launches that is used up just now is no error of the handler's.
            let status = header.status();
            assert!(status == Status::OK || status == Status::BACKPRESSURE, "{id}: {status}");
            launched += u64::from(status == Status::OK);
        }
        let wired = stop_clean(running);
        assert_eq!((wired.launches().graphs, wired.launches().graph_error), (launched, 0));
        rig.end();
    });
}

#[test]
fn a_stop_in_a_burst_of_graphs_loses_nothing() {
    on_device_with_runtime("a_stop_in_a_burst_of_graphs_loses_nothing", |context| {
        let (mut wired, mut rig) = wire_with(context, pair(64, 64), with_graphs(64, 4));
        for turn in 0..20_u32 {
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            for id in 0..32_u32 {
                rig.peer.send(&Peer::frame(mixed(id.into()), 8, id, &[id as u8; 8]));
            }
            // What has arrived by now is answered before the end, what comes later at the next start.
            wired = stop_clean(running);
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            let mut owed = (1_u64 << 32) - 1;
            while owed != 0 {
                let (header, result) = rig.peer.receive();
                let id = header.request_id;
                assert!(owed >> id & 1 == 1, "turn {turn}: {id} was answered twice");
                owed &= !(1 << id);
                assert_eq!(
                    (header.status(), result),
                    (Status::OK, vec![id as u8 + 1; 8]),
                    "turn {turn}: {id}"
                );
            }
            wired = stop_clean(running);
        }
        assert_eq!(wired.counters().get(Counter::Completed), 20 * 32);
        assert_eq!(wired.launches().graphs, 20 * 16);
        rig.end();
    });
}

/// A drain that takes too long is cut short: what is held then is told, and answered at the next start.
#[test]
fn what_a_hurried_stop_leaves_is_answered_later() {
    on_device_with_runtime("what_a_hurried_stop_leaves_is_answered_later", |context| {
        let region = MappedRegion::zeroed(context, 8).expect("pinned");
        let word = region.words(0, 1).expect("inside");
        let credit = region.device_address(0).expect("inside").0;
        let functions = calls(64).graph(GRAPHS[0], HandlerSchema::new(), waiting(1, credit));
        let (mut wired, mut rig) = wire_with(context, pair(64, 64), functions);
        for turn in 0..5_u64 {
            // One after the other, and each waits some 2 ms in vain.
            word.store(0, 1, Ordering::Release);
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            for id in 0..32_u32 {
                rig.peer.send(&Peer::frame(GRAPHS[0], 8, id, &[id as u8; 8]));
            }
            let begin = Instant::now();
            while running.counters().get(Counter::Received) < (turn + 1) * 32 {
                assert!(begin.elapsed() < TIMEOUT, "they do not arrive");
            }
            let stopped = running.stop(Duration::from_millis(15));
            assert!(stopped.report.held > 0 && !stopped.report.is_clean(), "{:?}", stopped.report);
            let again = stopped.dispatcher.expect("it has ended");
            word.store(0, 0, Ordering::Release);
            let running = again.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            let mut owed = (1_u64 << 32) - 1;
            while owed != 0 {
                let (header, result) = rig.peer.receive();
                let id = header.request_id;
                assert!(owed >> id & 1 == 1, "turn {turn}: {id} was answered twice");
                owed &= !(1 << id);
                match header.status() {
                    Status::BACKPRESSURE => assert!(result.is_empty()),
                    status => {
                        assert_eq!((status, result), (Status::OK, vec![id as u8 + 1; 8]), "{turn}: {id}");
                    }
                }
            }
            wired = stop_clean(running);
        }
        assert_eq!(wired.launches().graphs, 5 * 32);
        rig.end();
    });
}

#[test]
fn a_graph_needs_its_kernel() {
    on_device("a_graph_needs_its_kernel", |context| {
        let pair = Pair { kernel: KernelKind::regular(), ..pair(16, 64) };
        let (queues, rig) = queues(context, pair);
        let why = try_wire(context, &queues, pair, with_graphs(64, 1)).expect_err("no graphs");
        assert!(matches!(why, DeviceError::WrongKernel { kernel: "ringcall_unified", .. }), "{why}");
        rig.end();
    });
}
