//! Requests that a program's own graphs answer, through the one context that they share; and trigger graphs.

use crate::client::{Ask, Client};
use crate::device::{Device, Door, increment};
use crate::graphs::{GRAPH, INCREMENT, TEAMS, plus, words};
use crate::harness::{RingParts, Running, Setup, Warps, entry, ring, slot_of, start};
use crate::program::{Body, Program};
use ringcall_dispatcher::ring::{Call, Returned, RingOptions};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::team::Warp;
use ringcall_protocol::RingMemory;
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::launch::{DeviceEntry, HandlerKind, LAUNCHES_PER_EXECUTION, control, saved};
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const OTHER: u32 = 11;
const TRIGGER: u32 = 12;
const STATE: u32 = 13;
/// How long a graph may take to answer in tests where it does.
const AGES: u64 = u64::MAX;
/// And where it does not: a millisecond.
const SHORT_TIMEOUT: u64 = 1_000_000;

/// A graph that answers and ends.
fn answers(add: u64) -> Body {
    Box::new(move |program| program.find().answer(add))
}

/// Handler 0 adds one; further ones as given.
fn dispatcher(
    parts: &RingParts,
    program: &Arc<Program>,
    entries: Vec<DeviceEntry>,
    more: Vec<crate::device::Handler>,
    warps: Warps,
    limit: u64,
) -> Running {
    let mut handlers: Vec<crate::device::Handler> = vec![Box::new(increment)];
    handlers.extend(more);
    let mut device = Device::<true>::new(handlers, None);
    device.program = Some(Arc::clone(program));
    let setup = Setup::new(parts, entries, warps, RingOptions::default());
    program.wire(&setup, limit);
    start(setup, &Arc::new(device))
}

/// What the host is told of a trigger graph: launches, and the last one's code.
fn triggers(setup: &Setup) -> [u64; 2] {
    [control::TRIGGERS, control::TRIGGER_ERROR].map(|word| setup.control.load(word, Relaxed))
}

/// Hundreds of requests for two graphs that share the context, many at a time: each is answered by its own graph, with a
/// budget of 120 an execution.
#[test]
fn graphs_share_a_context() {
    for warps in TEAMS {
        let parts = ring([16, 64, 64]);
        let program = Program::new(&parts, vec![answers(0), answers(7)]);
        let entries = vec![
            Program::entry(GRAPH, 0, 0),
            Program::entry(OTHER, 1, 0),
            entry(INCREMENT, HandlerKind::Thread, 0),
        ];
        let running = dispatcher(&parts, &program, entries, Vec::new(), warps, AGES);
        let setup = Arc::clone(&running.setup);
        Client::new(&setup).drive((0..600).map(|i| match i % 3 {
            0 => plus(GRAPH, words(i), 0),
            1 => plus(OTHER, words(i), 7),
            _ => Ask::increment(INCREMENT, words(i)),
        }));
        let report = running.drain();
        assert!(report.executions > 400 / LAUNCHES_PER_EXECUTION, "{} executions", report.executions);
        assert_eq!(program.launches(), 400);
        assert_eq!(setup.control.load(control::LAUNCHES, Relaxed), 400);
        assert_eq!(setup.control.load(control::TRIGGERS, Relaxed), 0, "these are no trigger graphs");
        for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
            assert_eq!(report.counters.get(counter), 600, "{counter:?}");
        }
        assert_eq!(setup.saved.load(saved::HOLDER, Relaxed), 0);
    }
}

/// While a graph runs, handlers are served, and other requests for graphs stay in the ring, unmarked.
#[test]
fn handlers_are_served_beside_a_graph() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let door = Arc::new(Door::default());
        let waited = Arc::clone(&door);
        let waits: Body = Box::new(move |program| {
            let found = program.find();
            waited.pass();
            found.answer(0);
        });
        let program = Program::new(&parts, vec![waits, answers(5)]);
        let entries = vec![
            Program::entry(GRAPH, 0, 0),
            Program::entry(OTHER, 1, 0),
            entry(INCREMENT, HandlerKind::Warp, 0),
        ];
        let running = dispatcher(&parts, &program, entries, Vec::new(), warps, AGES);
        let setup = Arc::clone(&running.setup);
        let mut graphs = Client::of(&setup, 0..2);
        graphs.send(0, &plus(GRAPH, words(2), 0));
        setup.wait("the graph", || door.reached() == 1);
        graphs.send(1, &plus(OTHER, words(3), 5));
        let mut others = Client::of(&setup, 2..8);
        others.drive((0..200).map(|i| Ask::increment(INCREMENT, words(i))));
        assert_eq!(parts.ring.tx(slot_of(&parts.ring, 0)), flag::IN_FLIGHT);
        assert_ne!(parts.ring.rx(slot_of(&parts.ring, 1)), flag::FREE, "it stays in the ring");
        assert_eq!(parts.ring.tx(slot_of(&parts.ring, 1)), flag::FREE, "unmarked");
        assert_eq!(program.launches(), 1);
        door.open();
        graphs.drive([]);
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::Completed), 202);
    }
}

/// A graph that continues after its answer keeps its executable: the next request for it is launched all the
/// same, when it has ended, and never refused.
#[test]
fn a_graph_may_go_on_after_its_answer() {
    const LINGERING: u64 = 5;
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let begun = DeviceU64::new(0);
        let lingers: Body = Box::new(move |program| {
            let awaited = program.awaited();
            program.find().answer(0);
            // The first ones go on until the execution that launched them gives up: that is, until the next request for this
            // graph, which will come, was tried as often as one is.
            if begun.fetch_add(1, AcqRel) < LINGERING {
                let limit = std::time::Instant::now() + crate::harness::LIMIT;
                while program.awaited() == awaited {
                    assert!(std::time::Instant::now() < limit, "the next request is not tried");
                    std::thread::yield_now();
                }
            }
        });
        let program = Program::new(&parts, vec![lingers, answers(1)]);
        let entries = vec![Program::entry(GRAPH, 0, 0), Program::entry(OTHER, 1, 0)];
        let running = dispatcher(&parts, &program, entries, Vec::new(), warps, AGES);
        let setup = Arc::clone(&running.setup);
        Client::new(&setup).drive(
            (0..30).map(|i| if i % 2 == 0 { plus(GRAPH, words(i), 0) } else { plus(OTHER, words(i), 1) }),
        );
        let report = running.drain();
        assert!(report.executions > LINGERING, "{} executions", report.executions);
        assert_eq!(report.counters.get(Counter::LaunchFailed), 0);
        assert_eq!(report.counters.get(Counter::Completed), 30);
    }
}

/// A launch that fails in a fresh execution, too, is answered; requests for other graphs are not.
#[test]
fn a_launch_that_fails_is_answered() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let program = Program::new(&parts, vec![answers(0), answers(3)]);
        program.break_exec(0, 719);
        let entries = vec![Program::entry(GRAPH, 0, 0), Program::entry(OTHER, 1, 0)];
        let running = dispatcher(&parts, &program, entries, Vec::new(), warps, AGES);
        let setup = Arc::clone(&running.setup);
        Client::new(&setup).drive((0..60).map(|i| {
            if i % 2 == 0 {
                Ask::refused(GRAPH, words(i), Status::LAUNCH_FAILED)
            } else {
                plus(OTHER, words(i), 3)
            }
        }));
        let report = running.drain();
        assert_eq!(setup.control.load(control::LAUNCH_ERROR, Relaxed), 719);
        for (counter, count) in [
            (Counter::Received, 60),
            (Counter::Dispatched, 30),
            (Counter::LaunchFailed, 30),
            (Counter::Completed, 30),
        ] {
            assert_eq!(report.counters.get(counter), count, "{counter:?}");
        }
    }
}

/// A graph that ends without an answer: the dispatcher answers for it, by itself, and continues.
#[test]
fn a_graph_that_does_not_answer_is_answered_for() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let silent: Body = Box::new(|_| ());
        let program = Program::new(&parts, vec![silent, answers(2)]);
        let entries = vec![Program::entry(GRAPH, 0, 0), Program::entry(OTHER, 1, 0)];
        let running = dispatcher(&parts, &program, entries, Vec::new(), warps, SHORT_TIMEOUT);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        // No other agent asks: it is noticed all the same.
        client.send(3, &Ask::refused(GRAPH, words(4), Status::LAUNCH_FAILED));
        client.take(3);
        client.drive((0..12).map(|i| match i % 4 {
            0 => Ask::refused(GRAPH, words(i), Status::LAUNCH_FAILED),
            _ => plus(OTHER, words(i), 2),
        }));
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::LaunchFailed), 4);
        assert_eq!(report.counters.get(Counter::Completed), 9);
        assert_eq!(report.counters.get(Counter::Dispatched), 13);
    }
}

/// A graph that takes long is not given up while it runs: a relaunch waits for it, and finds its answer.
#[test]
fn a_slow_graph_answers_itself() {
    for warps in TEAMS {
        let parts = ring([4, 64, 64]);
        let door = Arc::new(Door::default());
        let waited = Arc::clone(&door);
        let slow: Body = Box::new(move |program| {
            let found = program.find();
            waited.pass();
            found.answer(0);
        });
        let program = Program::new(&parts, vec![slow]);
        let entries = vec![Program::entry(GRAPH, 0, 0)];
        let running = dispatcher(&parts, &program, entries, Vec::new(), warps, SHORT_TIMEOUT);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        client.send(0, &plus(GRAPH, words(1), 0));
        setup.wait("the relaunch", || setup.control.load(control::RELAUNCHES, Relaxed) == 1);
        assert!(!client.is_answered(0));
        door.open();
        client.drive([]);
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::Completed), 1);
        assert_eq!(report.counters.get(Counter::LaunchFailed), 0);
    }
}

/// A drain waits for the answer of the graph that runs, and answers for one that gives none.
#[test]
fn a_drain_leaves_no_request_in_flight() {
    for warps in TEAMS {
        for answering in [true, false] {
            let parts = ring([4, 64, 64]);
            let door = Arc::new(Door::default());
            let waited = Arc::clone(&door);
            let body: Body = Box::new(move |program| {
                let found = program.find();
                waited.pass();
                if answering {
                    found.answer(0);
                }
            });
            let program = Program::new(&parts, vec![body]);
            let limit = if answering { AGES } else { SHORT_TIMEOUT };
            let entries = vec![Program::entry(GRAPH, 0, 0)];
            let running = dispatcher(&parts, &program, entries, Vec::new(), warps, limit);
            let setup = Arc::clone(&running.setup);
            let mut client = Client::new(&setup);
            let ask = if answering {
                plus(GRAPH, words(2), 0)
            } else {
                Ask::refused(GRAPH, words(2), Status::LAUNCH_FAILED)
            };
            client.send(1, &ask);
            setup.wait("the graph", || door.reached() == 1);
            running.request_stop(control::STOP_DRAIN);
            if answering {
                setup.wait_rounds(3);
            } else {
                // It waits for the graph's end in a relaunch.
                setup.wait("the relaunch", || setup.control.load(control::RELAUNCHES, Relaxed) == 1);
            }
            assert_eq!(setup.state(), control::STATE_RUNNING);
            door.open();
            client.take(1);
            running.drain();
        }
    }
}

/// Several graphs under one id: the payload's first eight bytes say which; one without a key takes the rest.
#[test]
fn the_routing_key_picks_the_graph() {
    for with_default in [false, true] {
        let parts = ring([8, 64, 64]);
        let program = Program::new(&parts, vec![answers(10), answers(11), answers(12)]);
        let mut entries = vec![Program::entry(GRAPH, 0, 500), Program::entry(GRAPH, 1, 501)];
        entries[0].next_route = 1;
        if with_default {
            entries[1].next_route = 2;
            entries.push(Program::entry(GRAPH, 2, 0));
        }
        let warps = Warps { workers: 3, lanes: 2, maintenance_warp: true };
        let running = dispatcher(&parts, &program, entries, Vec::new(), warps, AGES);
        let setup = Arc::clone(&running.setup);
        Client::new(&setup).drive((0..60_u64).map(|i| {
            let payload = [(500 + i % 3).to_le_bytes(), i.to_le_bytes()].concat();
            if i % 3 == 2 && !with_default {
                Ask::refused(GRAPH, payload, Status::NO_WORKER)
            } else {
                plus(GRAPH, payload, 10 + i % 3)
            }
        }));
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::NoWorker), if with_default { 0 } else { 20 });
        assert_eq!(report.counters.get(Counter::Completed), if with_default { 60 } else { 40 });
    }
}

/// A handler that asks for the trigger graph is answered at once; a client that has seen that answer finds
/// the graph's work done, however long it takes.
#[test]
fn later_calls_find_the_trigger_graph_finished() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let done = Arc::new(DeviceU64::new(0));
        let work = Arc::clone(&done);
        let graph: Body = Box::new(move |_| {
            for _ in 0..50 {
                std::thread::yield_now();
            }
            work.fetch_add(1, AcqRel);
        });
        let trigger = |warp: Warp<'_>, call: &Call<'_>| Returned {
            status: flag::GRAPH_TRIGGER as i32,
            ..increment(warp, call)
        };
        let read = Arc::clone(&done);
        let state = move |_: Warp<'_>, call: &Call<'_>| {
            call.output.set_word(ringcall_wire::header::HEADER_WORDS, read.load(Acquire));
            Returned { status: 0, len: 8 }
        };
        let program = Program::new(&parts, vec![graph]);
        // The graph is no function of the table, so a client cannot ask for it.
        let entries = vec![
            DeviceEntry { follow_up: 2, ..entry(TRIGGER, HandlerKind::Thread, 1) },
            entry(STATE, HandlerKind::Thread, 2),
            Program::entry(u32::MAX, 0, 0),
        ];
        let more: Vec<crate::device::Handler> = vec![Box::new(trigger), Box::new(state)];
        let running = dispatcher(&parts, &program, entries, more, warps, AGES);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        for i in 0..40_u64 {
            let slot = (i % 7) as u32;
            client.send(slot, &Ask::increment(TRIGGER, words(i)));
            client.take(slot);
            // Whether the graph has ended or not.
            assert_eq!(triggers(&setup), [i + 1, 0]);
            let result = (i + 1).to_le_bytes().to_vec();
            client.send(7, &Ask { function: STATE, payload: Vec::new(), status: Status::OK, result });
            client.take(7);
        }
        let report = running.drain();
        setup.wait("the last graph", || program.is_quiet());
        assert_eq!(done.load(Acquire), 40);
        assert_eq!(report.counters.get(Counter::Completed), 80);
        assert!(report.executions > 40, "{} executions", report.executions);
    }
}

/// Handlers that may ask for the trigger graph run one at a time, however many warps there are: none runs in vain.
#[test]
fn handlers_that_may_trigger_take_turns() {
    for warps in [
        Warps { workers: 3, lanes: 1, maintenance_warp: true },
        Warps { workers: 2, lanes: 2, maintenance_warp: true },
    ] {
        let parts = ring([8, 64, 64]);
        let [done, inside, most] = std::array::from_fn(|_| Arc::new(DeviceU64::new(0)));
        let work = Arc::clone(&done);
        let graph: Body = Box::new(move |_| {
            work.fetch_add(1, AcqRel);
        });
        let (within, together) = (Arc::clone(&inside), Arc::clone(&most));
        // Asks for the graph with every other number; waits a while for company.
        let asks = move |warp: Warp<'_>, call: &Call<'_>| {
            let before = within.fetch_add(1, AcqRel);
            for _ in 0..200 {
                if before != 0 || within.load(Acquire) > 1 {
                    together.fetch_add(1, AcqRel);
                    break;
                }
                std::thread::yield_now();
            }
            within.fetch_add(u64::MAX, AcqRel);
            let ask = crate::device::payload_word(call.input, 0).is_multiple_of(2);
            let status = if ask { flag::GRAPH_TRIGGER as i32 } else { 0 };
            Returned { status, ..increment(warp, call) }
        };
        let program = Program::new(&parts, vec![graph]);
        let entries = vec![
            DeviceEntry { follow_up: 1, ..entry(TRIGGER, HandlerKind::Thread, 1) },
            Program::entry(u32::MAX, 0, 0),
        ];
        let running = dispatcher(&parts, &program, entries, vec![Box::new(asks)], warps, AGES);
        let setup = Arc::clone(&running.setup);
        let payload = |i: u64| i.to_le_bytes().to_vec();
        Client::new(&setup).drive((0..80).map(|i| Ask::increment(TRIGGER, payload(i))));
        let report = running.drain();
        setup.wait("the last graph", || program.is_quiet());
        assert_eq!((done.load(Acquire), most.load(Acquire)), (40, 0));
        assert_eq!(triggers(&setup), [40, 0]);
        assert_eq!(report.counters.get(Counter::Completed), 80);
    }
}

/// A trigger graph whose launch fails is told by the status.
#[test]
fn a_trigger_that_fails_is_reported() {
    let parts = ring([4, 64, 64]);
    let program = Program::new(&parts, vec![Box::new(|_: &Program| ())]);
    program.break_exec(0, 3);
    let trigger = |warp: Warp<'_>, call: &Call<'_>| Returned {
        status: flag::GRAPH_TRIGGER as i32,
        ..increment(warp, call)
    };
    let entries = vec![
        DeviceEntry { follow_up: 1, ..entry(TRIGGER, HandlerKind::Thread, 1) },
        Program::entry(u32::MAX, 0, 0),
    ];
    let warps = Warps { workers: 1, lanes: 2, maintenance_warp: true };
    let running = dispatcher(&parts, &program, entries, vec![Box::new(trigger)], warps, AGES);
    let setup = Arc::clone(&running.setup);
    let mut client = Client::new(&setup);
    let ask = Ask { status: Status::LAUNCH_FAILED, ..Ask::increment(TRIGGER, words(1)) };
    for i in 0..5 {
        client.send(0, &ask);
        client.take(0);
        assert_eq!(triggers(&setup), [i + 1, 3]);
    }
    // The last one's code, not that of the last failure.
    program.break_exec(0, 0);
    client.send(0, &Ask::increment(TRIGGER, words(1)));
    client.take(0);
    assert_eq!(triggers(&setup), [6, 0]);
    let report = running.drain();
    assert_eq!(setup.control.load(control::LAUNCH_ERROR, Relaxed), 3);
    assert_eq!(report.counters.get(Counter::LaunchFailed), 5);
    assert_eq!(report.executions, 2);
}

/// A producer that keeps triggering cannot keep a drain up.
#[test]
fn a_drain_ends_though_every_request_relaunches() {
    let parts = ring([4, 64, 64]);
    let program = Program::new(&parts, vec![Box::new(|_: &Program| ())]);
    let trigger = |warp: Warp<'_>, call: &Call<'_>| Returned {
        status: flag::GRAPH_TRIGGER as i32,
        ..increment(warp, call)
    };
    let entries = vec![
        DeviceEntry { follow_up: 1, ..entry(TRIGGER, HandlerKind::Thread, 1) },
        Program::entry(u32::MAX, 0, 0),
    ];
    let warps = Warps { workers: 1, lanes: 1, maintenance_warp: true };
    let running = dispatcher(&parts, &program, entries, vec![Box::new(trigger)], warps, AGES);
    let setup = Arc::clone(&running.setup);
    running.request_stop(control::STOP_DRAIN);
    let mut client = Client::new(&setup);
    setup.wait("the end", || {
        for slot in 0..4 {
            client.try_take(slot);
            client.try_send(slot, &Ask::increment(TRIGGER, words(1)));
        }
        setup.state() == control::STATE_ENDED
    });
    assert_eq!(running.join().state, control::STATE_ENDED);
    assert_eq!(setup.saved.load(saved::DRAINED, Relaxed), 0, "another start drains from the beginning");
}
