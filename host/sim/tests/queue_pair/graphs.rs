//! Requests that launched graphs answer.

use crate::park::{Child_, Conduct, Park, TRIGGER};
use crate::rig::*;
use crate::support::*;
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_gpu::team::WARP_LANES;
use ringcall_mlx5::Event;
use ringcall_mlx5::layout::cqe::opcode;
use ringcall_sim::nic::{Fault, Queue, Wire};
use ringcall_wire::counter::Counter;
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::launch::{DeviceEntry, HandlerKind, LAUNCHES_PER_EXECUTION};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

const ADDS: Conduct = |_| Child_::Adds;

/// Two graphs under names of their own, beside handlers.
fn table(park: &Park) -> Table {
    let mut trigger = entry("trigger", HandlerKind::Thread, TRIGGER);
    trigger.follow_up = 1;
    Table::new(vec![
        entry("increment", HandlerKind::Thread, 0),
        park.entry("graph", 0, 0),
        park.entry("other graph", 1, 0),
        entry("increment together", HandlerKind::Warp, 1),
        trigger,
    ])
}

/// Runs `client` against a dispatcher that launches, from start to end; how many executions.
fn serve(bench: &mut Bench, team: Team, park: &Arc<Park>, client: impl FnOnce(&mut Wire)) -> u64 {
    serve_of(&table(park), bench, team, park, client)
}

/// The same with another table.
fn serve_of(
    table: &Table,
    bench: &mut Bench,
    team: Team,
    park: &Arc<Park>,
    client: impl FnOnce(&mut Wire),
) -> u64 {
    let mut executions = 0;
    let counted = &mut executions;
    let life = |kernel: KernelRig<'_>| *counted = Park::executions(park, kernel, team, table);
    // A client that panics must not leave children at the door.
    struct Opens<'a>(&'a Park);
    impl Drop for Opens<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.open();
            }
        }
    }
    bench.play(team.copying, life, |peer, _| {
        let _opens = Opens(park);
        client(peer);
    });
    executions
}

/// What is outstanding for each id: status and result.
#[derive(Default)]
struct Outstanding(HashMap<u32, (Status, Vec<u8>)>);

impl Outstanding {
    /// Sends request `id` to a slot, for which this is outstanding.
    fn ask(
        &mut self,
        peer: &mut Wire,
        shape: &Shape,
        id: u32,
        name: &str,
        payload: &[u8],
        outstanding: Status,
    ) {
        let result = match (outstanding, name) {
            (Status::OK, "graph") => payload.to_vec(),
            (Status::OK, "other graph") => plus_one(payload),
            (Status::OK, "trigger") => incremented(payload),
            (Status::OK, _) => incremented(payload),
            _ => Vec::new(),
        };
        send(peer, shape, id % shape.slots, id, &frame(name, payload.len() as u32, id, payload));
        assert!(self.0.insert(id, (outstanding, result)).is_none());
    }

    /// Takes the next response, whichever it is.
    fn take(&mut self, peer: &mut Wire) -> u32 {
        let (header, result) = receive(peer);
        let id = header.request_id;
        let (status, outstanding) = self.0.remove(&id).unwrap_or_else(|| panic!("{id} was answered before"));
        assert_eq!((header.status(), header.ptp_timestamp), (status, 1000 + u64::from(id)), "request {id}");
        assert_eq!(result, outstanding, "request {id}");
        id
    }

    fn take_all(&mut self, peer: &mut Wire) {
        while !self.0.is_empty() {
            self.take(peer);
        }
    }
}

/// What graph 1 answers to whole words.
fn plus_one(payload: &[u8]) -> Vec<u8> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8")).wrapping_add(1).to_le_bytes();
    payload.chunks_exact(8).flat_map(word).collect()
}

/// Whole words, of every length that fits.
fn payload(i: u32, shape: &Shape) -> Vec<u8> {
    let words = i % (1 + (shape.stride - HEADER_BYTES as u32) / 8);
    (0..words).flat_map(|word| (u64::from(i) << 20 | u64::from(word) | 1 << 8).to_le_bytes()).collect()
}

const NAMES: [&str; 6] = ["graph", "increment", "other graph", "increment together", "graph", "increment"];

/// Each slot has one request under way; `n` requests of every kind.
fn mixture(peer: &mut Wire, shape: &Shape, n: u32, mut between: impl FnMut(u32)) {
    let mut outstanding = Outstanding::default();
    let mut free: Vec<u32> = (0..shape.slots).rev().collect();
    let mut sent = 0;
    let mut at: HashMap<u32, u32> = HashMap::new();
    let mut taken = 0;
    while taken < n {
        while sent < n
            && let Some(slot) = free.pop()
        {
            between(sent);
            let payload = payload(sent, shape);
            let name = NAMES[sent as usize % NAMES.len()];
            let result = if name == "graph" {
                payload.clone()
            } else if name == "other graph" {
                plus_one(&payload)
            } else {
                incremented(&payload)
            };
            send(peer, shape, slot, sent, &frame(name, payload.len() as u32, sent, &payload));
            outstanding.0.insert(sent, (Status::OK, result));
            at.insert(sent, slot);
            sent += 1;
        }
        let id = outstanding.take(peer);
        free.push(at.remove(&id).expect("it was sent"));
        taken += 1;
    }
    assert!(outstanding.0.is_empty());
}

/// Far more launches than an execution has, over two graphs and among handlers: none is lost, and the counts go on.
#[test]
fn many_launches_beside_handlers() {
    for (threads, slots, execs, n) in [(1, 16, 4, 600), (4, 16, 2, 300), (WARP_LANES + 2, 32, 8, 60)] {
        let shape = Shape { sequence: true, stride: 64, ..Shape::of_depth(slots) };
        let park = Arc::new(Park::new(&shape, 2, execs, ADDS));
        let mut bench = Bench::new(&shape);
        let executions = serve(&mut bench, Team::of(threads), &park, |peer| mixture(peer, &shape, n, |_| ()));
        let graphs = u64::from(n / 2);
        let control = |word| bench.control.load(word, Relaxed);
        assert_eq!((control(control::STATE), control(control::HELD)), (control::STATE_ENDED, 0));
        assert_eq!((control(control::LAUNCHES), park.finished()), (graphs, graphs));
        assert_eq!(control(control::RELAUNCHES) + 1, executions);
        assert!(executions > (graphs - 1) / LAUNCHES_PER_EXECUTION, "{executions} executions");
        assert_eq!(control(control::POSTED), control(control::DONE));
        for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
            assert_eq!(bench.count(counter), u64::from(n), "{counter:?}");
        }
        assert_eq!(bench.event(Event::RxLost) + bench.event(Event::RxReordered), 0);
        assert_eq!(bench.event(Event::RxRequests), bench.event(Event::RxReposted), "the credit");
        bench.end();
    }
}

/// Wrong completions in between, and the copy to BlueFlame of each answer.
#[test]
fn wrong_completions_beside_graphs() {
    let shape = Shape { consumer_records: true, completions: 4, stride: 64, ..Shape::of_depth(16) };
    let park = Arc::new(Park::new(&shape, 2, 4, ADDS));
    let table = table(&park);
    let mut bench = Bench::new(&shape);
    let mut strays = 0;
    let control = bench.control.clone();
    let life = |kernel: KernelRig<'_>| {
        Park::executions(&park, kernel, Team::of(2), &table);
    };
    bench.play(Copying::FirstWordLast, life, |peer, nic| {
        mixture(peer, &shape, 300, |i| {
            if i % 3 == 0 {
                let queue = if i % 2 == 0 { Queue::Receive } else { Queue::Send };
                let opcode = if i % 2 == 0 { opcode::REQUEST } else { opcode::SEND };
                strays += u64::from(i % 2 == 0);
                assert!(nic.plant(Fault::Stray { queue, opcode, wqe_counter: 0x7FF0 }));
            }
        });
        // The last one may come after the last answer.
        until(|| control.load(control::EVENTS + Event::RxStray as usize, Relaxed) >= strays);
    });
    assert_eq!(bench.event(Event::RxStray), strays);
    assert_eq!(bench.count(Counter::Completed), 300);
    bench.end();
}

/// A graph that takes its time holds up nobody: what came after it is answered before it.
#[test]
fn a_slow_graph_holds_up_nothing() {
    for threads in [1, 4] {
        let shape = Shape { stride: 64, ..Shape::of_depth(8) };
        let park = Arc::new(Park::new(&shape, 2, 2, ADDS));
        park.shut();
        let mut bench = Bench::new(&shape);
        serve(&mut bench, Team::of(threads), &park, |peer| {
            let mut outstanding = Outstanding::default();
            outstanding.ask(peer, &shape, 0, "graph", &[1; 8], Status::OK);
            outstanding.ask(peer, &shape, 1, "other graph", &[2; 16], Status::OK);
            park.await_children(2);
            // The slots of the graphs' requests are taken; all others go round, and so do the queues.
            let mut others = Outstanding::default();
            for id in (2..100).filter(|id| id % 8 > 1) {
                others.ask(peer, &shape, id, "increment", &payload(id, &shape), Status::OK);
                assert_eq!(others.take(peer), id);
            }
            park.open();
            outstanding.take_all(peer);
        });
        bench.end();
    }
}

/// More requests than executables: they wait on the pending, beyond that they are refused, and handlers are served meanwhile.
#[test]
fn back_pressure_waits_and_is_bounded() {
    for threads in [1, 4, WARP_LANES + 1] {
        let shape = Shape { stride: 64, ..Shape::of_depth(8) };
        let park = Arc::new(Park::new(&shape, 2, 2, ADDS));
        park.shut();
        let mut bench = Bench::new(&shape);
        let control = bench.control.clone();
        let received = |n: u64| {
            let mut poll_limit = PollLimit::default();
            while control.load(control::COUNTERS + Counter::Received as usize, Relaxed) < n {
                poll_limit.wait();
                std::thread::yield_now();
            }
        };
        serve(&mut bench, Team::of(threads), &park, |peer| {
            let mut outstanding = Outstanding::default();
            for id in 0..2 {
                outstanding.ask(peer, &shape, id, "graph", &[id as u8; 8], Status::OK);
                park.await_children(u64::from(id) + 1);
            }
            // As many as the pending table has entries; their slots' contents were copied, so they may be written over.
            for id in 2..10 {
                outstanding.ask(peer, &shape, id, "graph", &[id as u8; 8], Status::OK);
            }
            received(10);
            let mut refused = Outstanding::default();
            refused.ask(peer, &shape, 10, "increment", &[1; 4], Status::OK);
            refused.take_all(peer);
            assert_eq!(park.reached(), 2, "as many as there are executables");
            refused.ask(peer, &shape, 11, "graph", &[1; 8], Status::BACKPRESSURE);
            refused.ask(peer, &shape, 12, "increment", &[1; 4], Status::OK);
            refused.take_all(peer);
            // The other graph waits too, and is not stopped by the first indefinitely.
            park.open();
            outstanding.take_all(peer);
        });
        assert_eq!(bench.count(Counter::Completed), 12);
        assert_eq!(bench.count(Counter::Backpressure), 1);
        let queued = bench.count(Counter::Queued);
        assert!((1..=8).contains(&queued), "each is counted once: {queued}");
        bench.end();
    }
}

/// Requests that wait for one graph do not hold up those for another.
#[test]
fn one_graph_does_not_wait_for_the_other() {
    let shape = Shape { stride: 64, ..Shape::of_depth(64) };
    let park = Arc::new(Park::new(&shape, 2, 1, ADDS));
    park.shut();
    let mut bench = Bench::new(&shape);
    serve(&mut bench, Team::of(2), &park, |peer| {
        let mut outstanding = Outstanding::default();
        for id in 0..40 {
            outstanding.ask(peer, &shape, id, "graph", &[1; 8], Status::OK);
        }
        park.await_children(1);
        outstanding.ask(peer, &shape, 40, "other graph", &[2; 8], Status::OK);
        park.await_children(2);
        park.open();
        outstanding.take_all(peer);
    });
    assert_eq!(bench.count(Counter::Completed), 41);
    bench.end();
}

/// Launches that fail, graphs that say nothing, too much or nonsense: each request is answered once, with a status.
#[test]
fn whatever_a_graph_does_is_answered() {
    const CONDUCT: Conduct = |word| match word & 7 {
        1 => Child_::Fails(719),
        2 => Child_::IsSilent,
        3 => Child_::Boasts,
        4 => Child_::Scribbles,
        _ => Child_::Adds,
    };
    for threads in [1, 4] {
        let shape = Shape { stride: 64, ..Shape::of_depth(16) };
        let room = shape.stride as usize - HEADER_BYTES;
        let park = Arc::new(Park::new(&shape, 2, 4, CONDUCT));
        let mut bench = Bench::new(&shape);
        serve(&mut bench, Team::of(threads), &park, |peer| {
            for round in 0..4_u32 {
                let mut ids = 0;
                for slot in 0..16_u32 {
                    let id = round * 16 + slot;
                    let payload = u64::from(slot % 8).to_le_bytes();
                    send(peer, &shape, slot, 0, &frame("graph", 8, id, &payload));
                    ids |= 1 << slot;
                }
                while ids != 0 {
                    let (header, result) = receive(peer);
                    let slot = header.request_id - round * 16;
                    assert!(ids >> slot & 1 == 1, "{slot} was answered twice");
                    ids &= !(1 << slot);
                    let (status, len) = match slot % 8 {
                        1 | 2 | 4 => (Status::LAUNCH_FAILED, 0),
                        3 => (Status::RESULT_TOO_LONG, room),
                        _ => (Status::OK, 8),
                    };
                    assert_eq!((header.status(), result.len()), (status, len), "{slot}");
                }
            }
        });
        assert_eq!(bench.control.load(control::LAUNCH_ERROR, Relaxed), 719);
        for (counter, n) in [
            (Counter::Received, 64),
            (Counter::Dispatched, 56),
            (Counter::LaunchFailed, 24),
            (Counter::ResultClamped, 8),
            (Counter::Completed, 32),
        ] {
            assert_eq!(bench.count(counter), n, "{counter:?}");
        }
        assert_eq!(bench.control.load(control::LAUNCHES, Relaxed), 56);
        bench.end();
    }
}

/// Several graphs under one id: the payload's first eight bytes say which.
#[test]
fn the_routing_key_picks_the_graph() {
    let shape = Shape { stride: 64, ..Shape::of_depth(8) };
    let park = Arc::new(Park::new(&shape, 2, 2, ADDS));
    let table = Table::new(vec![
        park.entry("graph", 0, 500),
        entry("increment", HandlerKind::Thread, 0),
        park.entry("graph", 1, 501),
    ]);
    let mut bench = Bench::new(&shape);
    let life = |kernel: KernelRig<'_>| {
        Park::executions(&park, kernel, Team::of(4), &table);
    };
    bench.play(Copying::Not, life, |peer, _| {
        for i in 0..75_u32 {
            let key = 500 + u64::from(i % 3);
            let payload = [key.to_le_bytes(), u64::from(i).to_le_bytes()].concat();
            send(peer, &shape, i % 8, 0, &frame("graph", 16, i, &payload));
            let (header, result) = receive(peer);
            let outstanding = match i % 3 {
                0 => (Status::OK, payload),
                1 => (Status::OK, plus_one(&payload)),
                _ => (Status::NO_WORKER, Vec::new()),
            };
            assert_eq!((header.request_id, (header.status(), result)), (i, outstanding));
        }
        send(peer, &shape, 0, 0, &frame("graph", 7, 9, &[5; 7]));
        assert_eq!(receive(peer).0.status(), Status::NO_WORKER, "no key");
    });
    assert_eq!((bench.count(Counter::Completed), bench.count(Counter::NoWorker)), (50, 26));
    bench.end();
}

/// A handler that asks for its follow-up graph answers itself; the graph sends no response.
#[test]
fn a_follow_up_answers_nothing() {
    for threads in [1, 4] {
        let shape = Shape { stride: 64, ..Shape::of_depth(8) };
        let park = Arc::new(Park::new(&shape, 2, 2, ADDS));
        let mut bench = Bench::new(&shape);
        serve(&mut bench, Team::of(threads), &park, |peer| {
            let mut outstanding = Outstanding::default();
            for id in 0..130 {
                let (done, mut poll_limit) = (u64::from(id), PollLimit::default());
                outstanding.ask(peer, &shape, id, "trigger", &[3; 8], Status::OK);
                assert_eq!(outstanding.take(peer), id);
                while park.finished() <= done {
                    poll_limit.wait();
                    std::thread::yield_now();
                }
            }
            // None is idle: the handler's answer says so, and has its result.
            park.shut();
            for id in 130..132 {
                outstanding.ask(peer, &shape, id, "trigger", &[3; 8], Status::OK);
                outstanding.take(peer);
                park.await_children(u64::from(id) + 1);
            }
            send(peer, &shape, 2, 0, &frame("trigger", 2, 132, &[3; 2]));
            let (header, result) = receive(peer);
            assert_eq!((header.status(), result), (Status::BACKPRESSURE, vec![4; 2]));
            // A graph's own request waits for the follow-ups to end.
            outstanding.ask(peer, &shape, 133, "graph", &[1; 8], Status::OK);
            park.open();
            outstanding.take_all(peer);
        });
        assert_eq!(bench.control.load(control::LAUNCHES, Relaxed), 133);
        bench.end();
    }
}

/// While no launch is left for what a handler asks for, it is not called: its request waits for the next execution, and no other
/// for it.
#[test]
fn a_handler_is_called_when_there_is_a_launch_for_its_graph() {
    const ALL: u32 = LAUNCHES_PER_EXECUTION as u32;
    /// Requests that are served with that: every second one asks, the last one too.
    const FIRST: u32 = 2 * ALL - 1;
    for threads in [1, 4] {
        let shape = Shape { stride: 64, ..Shape::of_depth(8) };
        let park = Arc::new(Park::new(&shape, 1, ALL + 10, ADDS));
        let table = Table::new(vec![
            entry("increment", HandlerKind::Thread, 0),
            park.entry("graph", 0, 0),
            DeviceEntry { follow_up: 1, ..entry("trigger", HandlerKind::Thread, TRIGGER) },
            DeviceEntry { follow_up: 1, ..entry("does not trigger", HandlerKind::Warp, 1) },
        ]);
        park.shut();
        let mut bench = Bench::new(&shape);
        let control = bench.control.clone();
        let executions = serve_of(&table, &mut bench, Team::of(threads), &park, |peer| {
            let mut outstanding = Outstanding::default();
            // A handler that does not ask gives its launch back.
            for id in 0..FIRST {
                let name = if id % 2 == 0 { "trigger" } else { "does not trigger" };
                outstanding.ask(peer, &shape, id, name, &[3; 8], Status::OK);
                assert_eq!(outstanding.take(peer), id);
            }
            park.await_children(ALL.into());
            let mut waiting = Outstanding::default();
            for id in FIRST..FIRST + 4 {
                let name = if id % 2 == 0 { "trigger" } else { "does not trigger" };
                waiting.ask(peer, &shape, id, name, &[3; 8], Status::OK);
            }
            let counter = |counter: Counter| control.load(control::COUNTERS + counter as usize, Relaxed);
            let received = u64::from(FIRST) + 4;
            let mut poll_limit = PollLimit::default();
            while counter(Counter::Received) < received {
                poll_limit.wait();
                std::thread::yield_now();
            }
            outstanding.ask(peer, &shape, FIRST + 4, "increment", &[3; 8], Status::OK);
            outstanding.take_all(peer);
            assert_eq!((park.triggers(), counter(Counter::Backpressure)), (ALL.into(), 0));
            park.open();
            waiting.take_all(peer);
            park.await_children(u64::from(ALL) + 2);
        });
        assert_eq!(executions, 2);
        assert_eq!((park.triggers(), park.reached()), (u64::from(ALL) + 2, u64::from(ALL) + 2));
        let all = u64::from(FIRST) + 5;
        for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
            assert_eq!(bench.count(counter), all, "{counter:?}");
        }
        assert_eq!(bench.control.load(control::LAUNCHES, Relaxed), u64::from(ALL) + 2);
        let queued = bench.count(Counter::Queued);
        assert!((1..=4).contains(&queued), "each is counted once: {queued}");
        bench.end();
    }
}

/// The host is shown that a graph was launched, or waits for an executable, while no answer leaves.
#[test]
fn what_graphs_hold_is_shown() {
    for threads in [1, 4] {
        let shape = Shape { stride: 64, ..Shape::of_depth(8) };
        let park = Arc::new(Park::new(&shape, 1, 1, ADDS));
        let table = Table::new(vec![park.entry("graph", 0, 0)]);
        park.shut();
        let mut bench = Bench::new(&shape);
        let control = bench.control.clone();
        serve_of(&table, &mut bench, Team::of(threads), &park, |peer| {
            let mut outstanding = Outstanding::default();
            for (id, counter) in [(0, Counter::Dispatched), (1, Counter::Queued)] {
                outstanding.ask(peer, &shape, id, "graph", &[1; 8], Status::OK);
                let mut poll_limit = PollLimit::default();
                while control.load(control::COUNTERS + counter as usize, Relaxed) == 0 {
                    poll_limit.wait();
                    std::thread::yield_now();
                }
            }
            park.open();
            outstanding.take_all(peer);
        });
        for (counter, n) in [(Counter::Dispatched, 2), (Counter::Queued, 1), (Counter::Completed, 2)] {
            assert_eq!(bench.count(counter), n, "{counter:?}");
        }
        bench.end();
    }
}

/// A drain waits for what graphs have outstanding; an end at once leaves it to the next start. Nothing is lost either way.
#[test]
fn a_stop_in_a_burst_loses_nothing() {
    for threads in [1, 4] {
        let shape = Shape { sequence: true, stride: 64, ..Shape::of_depth(16) };
        let park = Arc::new(Park::new(&shape, 2, 3, ADDS));
        let mut bench = Bench::new(&shape);
        let mut outstanding = Outstanding::default();
        for turn in 0..6_u32 {
            let control = bench.control.clone();
            let at_once = turn % 2 == 0;
            park.shut();
            let before = park.reached();
            serve(&mut bench, Team::of(threads), &park, |peer| {
                for id in turn * 16..turn * 16 + 16 {
                    let name = NAMES[id as usize % NAMES.len()];
                    outstanding.ask(peer, &shape, id, name, &payload(id, &shape), Status::OK);
                }
                park.await_children(before + 5);
                control.store(
                    control::STOP,
                    if at_once { control::STOP_NOW } else { control::STOP_DRAIN },
                    Relaxed,
                );
                if at_once {
                    let mut poll_limit = PollLimit::default();
                    while control.load(control::STATE, Acquire) != control::STATE_ENDED {
                        poll_limit.wait();
                        std::thread::yield_now();
                    }
                    assert!(control.load(control::HELD, Relaxed) >= 5, "what graphs have outstanding");
                }
                park.open();
            });
            if !at_once {
                assert_eq!(bench.control.load(control::HELD, Relaxed), 0);
            }
            serve(&mut bench, Team::of(threads), &park, |peer| outstanding.take_all(peer));
        }
        assert_eq!(bench.count(Counter::Completed), 96);
        assert_eq!(bench.event(Event::RxLost) + bench.event(Event::RxReordered), 0);
        bench.end();
    }
}

/// A dispatcher that cannot launch itself again says so and ends; what it held is answered at the next start.
#[test]
fn a_failed_relaunch_is_reported() {
    let shape = Shape { stride: 64, ..Shape::of_depth(8) };
    let mut park = Park::new(&shape, 2, 4, ADDS);
    park.refuses_relaunch = Some(701);
    let park = Arc::new(park);
    let mut bench = Bench::new(&shape);
    let control = bench.control.clone();
    let mut outstanding = Outstanding::default();
    let executions = serve(&mut bench, Team::of(2), &park, |peer| {
        let mut id = 0;
        while control.load(control::STATE, Acquire) != control::STATE_FAILED {
            assert!(id < 1000, "it goes on");
            if outstanding.0.is_empty() {
                outstanding.ask(peer, &shape, id, "graph", &[1; 8], Status::OK);
                id += 1;
            }
            let mut bytes = Vec::new();
            if ringcall_sim::nic::Port::receive(peer, &mut bytes).is_some() {
                outstanding.0.clear();
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(executions, 1);
    assert_eq!(bench.control.load(control::RELAUNCH_ERROR, Relaxed), 701);
    serve(&mut bench, Team::of(2), &park, |peer| outstanding.take_all(peer));
    bench.end();
}

/// Garbage of every length beside graphs: whatever is no whole request is refused with a status.
#[test]
fn garbage_is_refused_beside_graphs() {
    let shape = Shape { stride: 64, ..Shape::of_depth(8) };
    let room = shape.stride - HEADER_BYTES as u32;
    let park = Arc::new(Park::new(&shape, 2, 2, ADDS));
    let mut bench = Bench::new(&shape);
    serve(&mut bench, Team::of(2), &park, |peer| {
        for i in 0..200_u32 {
            let whole = frame("graph", 16, i, &[9; 16]);
            let (bytes, status) = match i % 5 {
                0 => (whole, Status::OK),
                1 => (whole[..HEADER_BYTES + (i % 16) as usize].to_vec(), Status::ARG_TOO_LONG),
                2 => (whole[..(i % 24) as usize].to_vec(), Status::BAD_MAGIC),
                3 => (frame("graph", room + 1 + i, i, &[9; 16]), Status::ARG_TOO_LONG),
                _ => (vec![i as u8; (24 + i % 40) as usize], Status::BAD_MAGIC),
            };
            send(peer, &shape, i % 8, 0, &bytes);
            assert_eq!(receive(peer).0.status(), status, "{i}");
        }
    });
    assert_eq!(bench.count(Counter::Received), 200);
    assert_eq!(bench.count(Counter::Dispatched), 40);
    bench.end();
}
