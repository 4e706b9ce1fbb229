//! Graphs that the host dispatcher launches, and that answer in the ring.

use crate::rig::{self, TIMEOUT, call, flood, modules, on_device, send, slot, slots, take};
use ringcall::dispatcher::{Running, Wired};
use ringcall::wire::schema::HandlerSchema;
use ringcall::{FunctionTable, HostDispatcher};
use ringcall_cuda::driver::{Context, MappedRegion, Module};
use ringcall_kernels::samples::graph::{KERNELS, SINGLE};
use ringcall_launch::ring::{DeviceError, GraphFunction, GraphKernel, MappedRing, RingGraphs};
use ringcall_wire::Counter;
use ringcall_wire::status::Status;
use std::sync::Arc;

/// Graphs of one kernel and of three, and a function of the dispatcher's own thread.
const ONE: &str = "graph_one";
const THREE: &str = "graph_three";
const PLAIN: &str = "plain";

fn kernels(list: &[(&str, u32)]) -> Vec<GraphKernel> {
    list.iter().map(|&(name, threads)| GraphKernel { name: name.to_owned(), blocks: 1, threads }).collect()
}

fn module(context: &Arc<Context>) -> Module {
    modules(context).load_alone(context).expect("loaded")
}

fn graphs(ring: &MappedRing, execs: u32) -> RingGraphs {
    let module = module(ring.context());
    RingGraphs::new(ring)
        .graph(ONE, &module, &GraphFunction::new(kernels(&SINGLE), execs))
        .and_then(|graphs| graphs.graph(THREE, &module, &GraphFunction::new(kernels(&KERNELS), execs)))
        .expect("graphs")
}

fn wire(ring: &MappedRing, graphs: RingGraphs) -> HostDispatcher<Wired> {
    let table = FunctionTable::builder()
        .external_call(ONE, HandlerSchema::new())
        .external_call(THREE, HandlerSchema::new())
        .host_call(PLAIN, |request: &[u8], result: &mut [u8]| {
            for (out, byte) in result.iter_mut().zip(request) {
                *out = byte.wrapping_add(1);
            }
            Ok(request.len())
        })
        .build(ring.ring())
        .expect("a table");
    HostDispatcher::builder(ring.ring(), table).executor(graphs.executor()).build().expect("a dispatcher")
}

fn stop_clean(running: HostDispatcher<Running>) -> HostDispatcher<Wired> {
    let stopped = running.stop(TIMEOUT);
    let report = stopped.report;
    assert!(!report.stuck && report.dropped == 0 && report.unfinished.is_none(), "{report:?}");
    stopped.dispatcher.expect("it is given back")
}

#[test]
fn the_hosts_graphs_answer_every_payload_in_the_ring() {
    on_device("the_hosts_graphs_answer_every_payload_in_the_ring", |context| {
        for (count, slot_bytes, execs) in [(1, 64, 1), (16, 576, 8), (64, 4096, 3), (200, 576, 16)] {
            let ring = rig::ring(context, count, slot_bytes);
            let mut dispatcher = wire(&ring, graphs(&ring, execs));
            let mut all = 0;
            // It is stopped and started again, between payloads of all lengths.
            for len in [0, 1, 7, 8, 31, 32, 111, 112, 113, 488, 512, 1000, 4072] {
                if len + 24 > slot_bytes as usize {
                    continue;
                }
                let running = dispatcher.start().expect("started");
                flood(ring.ring().shared(), &slots(ring.ring()), &[ONE, THREE, PLAIN, ONE], len, 800);
                all += 800;
                dispatcher = stop_clean(running);
                let counters = dispatcher.counters();
                let counts = [Counter::Received, Counter::Dispatched, Counter::Completed];
                assert_eq!(counts.map(|counter| counters.get(counter)), [all; 3], "after {len} bytes");
            }
        }
    });
}

#[test]
fn none_of_the_hosts_launches_is_lost() {
    on_device("none_of_the_hosts_launches_is_lost", |context| {
        let n = rig::setting("RINGCALL_GRAPH_LAUNCHES", 20_000_u64) / 4;
        let ring = rig::ring(context, 64, 64);
        let running = wire(&ring, graphs(&ring, 8)).start().expect("started");
        flood(ring.ring().shared(), &slots(ring.ring()), &[ONE], 32, n);
        let dispatcher = stop_clean(running);
        assert_eq!(dispatcher.counters().get(Counter::Completed), n);
    });
}

#[test]
fn what_the_hosts_graphs_cannot_serve_is_answered() {
    on_device("what_the_hosts_graphs_cannot_serve_is_answered", |context| {
        let ring = rig::ring(context, 16, 64);
        let module = module(context);
        // A word that the three kernels wait for in vain, and a routing key.
        let word = MappedRegion::zeroed(context, 8).expect("pinned");
        word.words(0, 1).expect("inside").store(0, 1, core::sync::atomic::Ordering::Release);
        let closed = [word.device_address(0).expect("inside").0; 2];
        let three = GraphFunction::new(kernels(&KERNELS), 2);
        // SAFETY: a word of mapped memory, which is dropped after the dispatcher with this graph.
        #[allow(unsafe_code)]
        let three = unsafe { three.credits(&closed) };
        let one = GraphFunction::new(kernels(&SINGLE), 2).routing_key(5);
        let graphs = RingGraphs::new(&ring)
            .graph(ONE, &module, &one)
            .and_then(|graphs| graphs.graph(THREE, &module, &three))
            .expect("graphs");
        let running = wire(&ring, graphs).start().expect("started");
        let keyed = |key: u64| [&key.to_le_bytes()[..], &[1]].concat();
        for at in 0..16 {
            assert_eq!(call(ring.ring(), slot(ring.ring(), at), ONE, &keyed(5)).result[8..], [2]);
            send(ring.ring(), slot(ring.ring(), at), ONE, 3, &keyed(6));
            let answer = take(ring.ring(), slot(ring.ring(), at));
            assert_eq!((answer.status, answer.error), (Status::NO_WORKER, None));
            assert_eq!(call(ring.ring(), slot(ring.ring(), at), THREE, &[1]).status, Status::BACKPRESSURE);
            assert_eq!(
                call(ring.ring(), slot(ring.ring(), at), "nowhere", &[1]).status,
                Status::UNKNOWN_FUNCTION
            );
        }
        let counters = stop_clean(running).counters();
        let counts = [Counter::NoWorker, Counter::Backpressure, Counter::Completed];
        assert_eq!(counts.map(|counter| counters.get(counter)), [16; 3]);

        let none = RingGraphs::new(&ring).graph(ONE, &module, &GraphFunction::new(kernels(&SINGLE), 0));
        assert!(matches!(none.err(), Some(DeviceError::Shape(_))));
        let unknown = GraphFunction::new(kernels(&[("no_such_kernel", 32)]), 1);
        assert!(RingGraphs::new(&ring).graph(ONE, &module, &unknown).is_err());
    });
}
