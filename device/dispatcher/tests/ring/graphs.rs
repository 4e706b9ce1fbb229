//! Requests that launched graphs answer.

use crate::client::{Ask, Client, bytes};
use crate::device::{Device, increment};
use crate::harness::{RingParts, Running, Setup, Warps, entry, ring, slot_of, start};
use crate::park::{OnLaunch, Park};
use ringcall_dispatcher::ring::{Returned, RingOptions};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_protocol::{Response, RingMemory, Vacant};
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::{DeviceEntry, HandlerKind, LAUNCHES_PER_EXECUTION, control, io};
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

pub(crate) const GRAPH: u32 = 1;
const TRIGGER: u32 = 2;
pub(crate) const INCREMENT: u32 = 3;

pub(crate) const TEAMS: [Warps; 4] = [
    Warps { workers: 1, lanes: 1, maintenance_warp: false },
    Warps { workers: 1, lanes: 2, maintenance_warp: true },
    Warps { workers: 3, lanes: 1, maintenance_warp: true },
    Warps { workers: 2, lanes: 2, maintenance_warp: true },
];

pub(crate) fn fine() -> OnLaunch {
    Box::new(|_| Ok(()))
}

/// A dispatcher with these entries, whose machine has a handler that adds one and one that asks for its follow-up.
pub(crate) fn dispatcher(
    parts: &RingParts,
    park: &Arc<Park>,
    entries: Vec<DeviceEntry>,
    warps: Warps,
) -> Running {
    let trigger = |warp: ringcall_gpu::team::Warp<'_>, call: &ringcall_dispatcher::ring::Call<'_>| Returned {
        status: flag::GRAPH_TRIGGER as i32,
        ..increment(warp, call)
    };
    let device =
        Arc::new(Device::<true>::new(vec![Box::new(increment), Box::new(trigger)], Some(Arc::clone(park))));
    let setup = Setup::new(parts, entries, warps, RingOptions::default());
    park.count_in(&setup.saved);
    start(setup, &device)
}

/// What graph number `graph` answers to whole words.
pub(crate) fn plus(function: u32, payload: Vec<u8>, graph: u64) -> Ask {
    let result = payload
        .chunks_exact(8)
        .flat_map(|word| u64::from_le_bytes(word.try_into().expect("8")).wrapping_add(graph).to_le_bytes())
        .collect();
    Ask { function, payload, status: Status::OK, result }
}

pub(crate) fn words(i: u64) -> Vec<u8> {
    bytes(i, 8 * (i % 5) as usize)
}

/// A thousand launches with a budget of 120 an execution: none is lost, and the counts go on.
#[test]
fn a_thousand_launches() {
    for warps in TEAMS {
        let parts = ring([16, 64, 64]);
        let park = Park::new(&parts, 1, 4, fine());
        park.door.open();
        let running = dispatcher(&parts, &park, vec![park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        client.drive((0..1000).map(|i| plus(GRAPH, words(i), 0)));
        setup.wait("the last child", || park.finished() == 1000);
        let report = running.drain();
        assert!(report.executions > 1000 / LAUNCHES_PER_EXECUTION, "{} executions", report.executions);
        let control = |word| setup.control.load(word, Relaxed);
        assert_eq!(control(control::LAUNCHES), 1000);
        assert_eq!(control(control::RELAUNCHES) + 1, report.executions);
        assert!(control(control::HEARTBEAT) >= report.executions);
        assert_eq!(report.counters.get(Counter::Received), 1000);
        assert_eq!(report.counters.get(Counter::Dispatched), 1000);
        assert_eq!(report.counters.get(Counter::Completed), 1000, "the children's own counts");
    }
}

/// Handlers and graphs take turns; handlers are served while graphs run.
#[test]
fn handlers_beside_graphs() {
    for warps in TEAMS {
        let parts = ring([16, 64, 64]);
        let park = Park::new(&parts, 1, 2, fine());
        let entries = vec![park.entry(GRAPH, 0, 0), entry(INCREMENT, HandlerKind::Warp, 0)];
        let running = dispatcher(&parts, &park, entries, warps);
        let setup = Arc::clone(&running.setup);
        let mut graphs = Client::of(&setup, 0..2);
        for slot in 0..2 {
            graphs.send(slot, &plus(GRAPH, words(3), 0));
        }
        setup.wait("both children", || park.door.reached() == 2);
        let mut others = Client::of(&setup, 2..16);
        others.drive((0..300).map(|i| Ask::increment(INCREMENT, words(i))));
        assert!(!graphs.is_answered(0) && !graphs.is_answered(1));
        park.door.open();
        graphs.drive([]);
        others.drive((0..200).map(|i| {
            if i % 2 == 0 { plus(GRAPH, words(i), 0) } else { Ask::increment(INCREMENT, words(i)) }
        }));
        setup.wait("the last child", || park.finished() == 102);
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::Completed), 502);
    }
}

/// The mark is set before the launch and the request flag stands: at no moment does the slot look vacant, whenever the
/// child answers.
#[test]
fn the_mark_comes_before_the_launch_and_the_flag_is_cleared_after_it() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let (ring_, checked) = (parts.ring.clone(), Arc::new(DeviceU64::new(0)));
        let counted = Arc::clone(&checked);
        let check = move |mailbox: &Words| {
            let slot = slot_of(&ring_, mailbox.load(io::SLOT, Relaxed) as u32);
            assert_eq!(ring_.tx(slot), flag::IN_FLIGHT, "launched without the mark");
            assert_eq!(
                ring_.rx(slot),
                ring_.geometry().request_address(slot),
                "given back before the launch"
            );
            assert!(Vacant::probe(&ring_, slot).is_none() && Response::probe(&ring_, slot).is_none());
            counted.fetch_add(1, Relaxed);
            Ok(())
        };
        let park = Park::new(&parts, 1, 3, Box::new(check));
        park.door.open();
        let running = dispatcher(&parts, &park, vec![park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        // The client looks all the time whether the slot is vacant.
        Client::new(&setup).drive((0..100).map(|i| plus(GRAPH, words(i), 0)));
        setup.wait("the last child", || park.finished() == 100);
        running.drain();
        assert_eq!(checked.load(Relaxed), 100);
    }
}

/// More requests than executables: the rest stays in the ring, unmarked, and is answered later.
#[test]
fn back_pressure_stays_in_the_ring() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let park = Park::new(&parts, 1, 2, fine());
        let running = dispatcher(&parts, &park, vec![park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        for slot in 0..8 {
            client.send(slot, &plus(GRAPH, words(u64::from(slot)), 0));
        }
        setup.wait("two children", || park.door.reached() == 2);
        if warps.maintenance_warp {
            setup.wait("back-pressure", || setup.counters().get(Counter::Queued) >= 6);
        }
        let in_ring = (0..8)
            .filter(|&slot| parts.ring.rx(slot_of(&parts.ring, slot)) != flag::FREE)
            .filter(|&slot| parts.ring.tx(slot_of(&parts.ring, slot)) == flag::FREE)
            .count();
        assert_eq!(in_ring, 6, "{}", setup.dump());
        assert_eq!(park.door.reached(), 2);
        park.door.open();
        client.drive([]);
        setup.wait("the last child", || park.finished() == 8);
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::Received), 8);
        assert_eq!(report.counters.get(Counter::Completed), 8);
        assert!(report.counters.get(Counter::Queued) > 0);
    }
}

/// While the gate of every executable is closed, requests stay in the ring, unmarked, and others are served; once it is open
/// they are answered, and no mailbox was lost by looking.
#[test]
fn a_closed_gate_keeps_requests_in_the_ring() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let park = Park::new(&parts, 2, 2, fine());
        park.door.open();
        let gated = park.entry(GRAPH, 0, 0);
        // The word lies in the mailbox of a graph that no request asks for.
        let gate_at = park.entry(GRAPH, 1, 0).address + io::PAYLOAD as u64;
        let gate = park.mailbox(gate_at, 1).expect("inside");
        gate.store(0, 1, Release);
        let mailbox = |exec: u32| {
            let at = gated.address + u64::from(exec * gated.io_stride);
            park.mailbox(at, io::PAYLOAD / 8).expect("inside")
        };
        for exec in 0..2 {
            mailbox(exec).store(io::GATE, gate_at, Relaxed);
        }
        let entries = vec![gated, entry(INCREMENT, HandlerKind::Warp, 0)];
        let running = dispatcher(&parts, &park, entries, warps);
        let setup = Arc::clone(&running.setup);
        let mut graphs = Client::of(&setup, 0..4);
        for slot in 0..4 {
            graphs.send(slot, &plus(GRAPH, words(3), 0));
        }
        let mut others = Client::of(&setup, 4..8);
        others.drive((0..200).map(|i| Ask::increment(INCREMENT, words(i))));
        for slot in (0..4).map(|slot| slot_of(&parts.ring, slot)) {
            assert_ne!(parts.ring.rx(slot), flag::FREE, "it stays in the ring");
            assert_eq!(parts.ring.tx(slot), flag::FREE, "unmarked");
        }
        assert_eq!(park.door.reached(), 0, "nothing was launched");
        gate.store(0, 0, Release);
        graphs.drive([]);
        graphs.drive((0..50).map(|i| plus(GRAPH, words(i), 0)));
        setup.wait("the last child", || park.finished() == 54);
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::Completed), 254);
        assert!((0..2).all(|exec| mailbox(exec).load(io::STATE, Relaxed) == io::IDLE));
    }
}

/// A request that is held back is looked at again after some turns, not at every turn: maintenance runs in between.
#[test]
fn a_lone_warp_maintains_under_back_pressure() {
    for slots in [2, 16] {
        let parts = ring([slots, 64, 64]);
        let park = Park::new(&parts, 1, 1, fine());
        let warps = Warps { workers: 1, lanes: 2, maintenance_warp: false };
        let running = dispatcher(&parts, &park, vec![park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        client.send(0, &plus(GRAPH, words(1), 0));
        client.send(1, &plus(GRAPH, words(2), 0));
        setup.wait("the child", || park.door.reached() == 1);
        let beat = setup.control.load(control::HEARTBEAT, Relaxed);
        let limit = std::time::Instant::now() + crate::harness::LIMIT;
        while setup.control.load(control::HEARTBEAT, Relaxed) < beat + 3 && std::time::Instant::now() < limit
        {
            std::thread::yield_now();
        }
        let alive = setup.control.load(control::HEARTBEAT, Relaxed) >= beat + 3;
        park.door.open();
        client.drive([]);
        running.drain();
        assert!(alive, "no heartbeat while a request was held back in a ring of {slots}");
    }
}

/// A launch that fails is answered, counted, and its code told; the executable and the budget are there for the next.
#[test]
fn failed_launches_are_answered() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let refuse = |mailbox: &Words| {
            // The payload's first byte says whether this one fails.
            if mailbox.load(io::PAYLOAD / 8, Relaxed) & 1 == 1 { Err(719) } else { Ok(()) }
        };
        let park = Park::new(&parts, 1, 1, Box::new(refuse));
        park.door.open();
        let running = dispatcher(&parts, &park, vec![park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        client.drive((0..300_u64).map(|i| {
            let payload = vec![u8::from(i % 3 != 0); 8];
            if i % 3 == 0 {
                plus(GRAPH, payload, 0)
            } else {
                Ask::refused(GRAPH, payload, Status::LAUNCH_FAILED)
            }
        }));
        setup.wait("the last child", || park.finished() == 100);
        let report = running.drain();
        assert_eq!(setup.control.load(control::LAUNCH_ERROR, Relaxed), 719);
        assert_eq!(setup.control.load(control::LAUNCHES, Relaxed), 100);
        for (counter, count) in [
            (Counter::Received, 300),
            (Counter::Dispatched, 100),
            (Counter::LaunchFailed, 200),
            (Counter::Completed, 100),
        ] {
            assert_eq!(report.counters.get(counter), count, "{counter:?}");
        }
    }
}

/// A dispatcher that cannot launch itself again says so and ends.
#[test]
fn a_failed_relaunch_is_reported() {
    let parts = ring([8, 64, 64]);
    let park = Park::new(&parts, 1, 4, fine());
    park.door.open();
    let mut device = Device::<true>::new(Vec::new(), Some(Arc::clone(&park)));
    device.refuses_relaunch = Some(701);
    let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
    let setup = Setup::new(&parts, vec![park.entry(GRAPH, 0, 0)], warps, RingOptions::default());
    park.count_in(&setup.saved);
    let running = start(setup, &Arc::new(device));
    let setup = Arc::clone(&running.setup);
    let mut client = Client::new(&setup);
    let mut i = 0;
    setup.wait("the end", || {
        for slot in 0..8 {
            client.try_take(slot);
            i += u64::from(client.try_send(slot, &plus(GRAPH, words(i), 0)));
        }
        setup.state() == control::STATE_FAILED
    });
    let report = running.join();
    assert_eq!((report.state, report.executions), (control::STATE_FAILED, 1));
    assert_eq!(setup.control.load(control::RELAUNCH_ERROR, Relaxed), 701);
    // Nothing is being served; what found no executable may still be left alone.
    assert!(report.slot_states.iter().all(|&state| state < u64::from(u32::MAX)), "{:x?}", report.slot_states);
}

/// Several graphs under one id: the payload's first eight bytes say which.
#[test]
fn the_routing_key_picks_the_graph() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let park = Park::new(&parts, 3, 2, fine());
        park.door.open();
        let mut entries = vec![
            park.entry(GRAPH, 0, 500),
            entry(INCREMENT, HandlerKind::Thread, 0),
            park.entry(GRAPH, 1, 501),
            park.entry(GRAPH, 2, 502),
        ];
        entries[0].next_route = 2;
        entries[2].next_route = 3;
        let running = dispatcher(&parts, &park, entries, warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        client.drive((0..400_u64).map(|i| {
            let key = 500 + i % 4;
            let payload = [key.to_le_bytes(), i.to_le_bytes()].concat();
            match i % 4 {
                3 => Ask::refused(GRAPH, payload, Status::NO_WORKER),
                graph => plus(GRAPH, payload, graph),
            }
        }));
        // A payload without a key has the key 0.
        client.drive((0..10).map(|i| Ask::refused(GRAPH, bytes(i, 7), Status::NO_WORKER)));
        setup.wait("the last child", || park.finished() == 300);
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::NoWorker), 110);
        assert_eq!(report.counters.get(Counter::Completed), 300);
    }
}

/// A handler that asks for its follow-up graph answers itself; the graph gets the request and sends no response.
#[test]
fn a_follow_up_answers_nothing() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let seen = Arc::new(DeviceU64::new(0));
        let total = Arc::clone(&seen);
        let check = move |mailbox: &Words| {
            let header =
                RequestHeader::from_words(std::array::from_fn(|i| mailbox.load(io::HEADER + i, Relaxed)));
            assert_eq!((header.function_id, header.arg_len), (TRIGGER, 8));
            assert_eq!([mailbox.load(io::TX_SLOT, Relaxed), mailbox.load(io::TX_FLAG, Relaxed)], [0; 2]);
            total.fetch_add(mailbox.load(io::PAYLOAD / 8, Relaxed), Relaxed);
            Ok(())
        };
        // As many executables as there are slots: a handler whose follow-up cannot be launched says so.
        let park = Park::new(&parts, 1, 8, Box::new(check));
        park.door.open();
        let follow_up = DeviceEntry { follow_up: 1, ..entry(TRIGGER, HandlerKind::Thread, 1) };
        let running = dispatcher(&parts, &park, vec![follow_up, park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        for i in 0..100_u64 {
            client.send((i % 8) as u32, &Ask::increment(TRIGGER, i.to_le_bytes().to_vec()));
            client.take((i % 8) as u32);
            setup.wait("the child", || park.finished() == i + 1);
        }
        let report = running.drain();
        assert_eq!(seen.load(Relaxed), (0..100).sum::<u64>());
        assert_eq!(report.counters.get(Counter::Completed), 100);
        assert_eq!(park.counted(Counter::Completed), 0);
        assert_eq!(setup.control.load(control::LAUNCHES, Relaxed), 100);
    }
}

/// A handler that may ask for its follow-up waits in the ring while the budget of launches is used up: it never runs in vain.
#[test]
fn a_follow_up_waits_for_the_next_execution() {
    for warps in [
        Warps { workers: 3, lanes: 1, maintenance_warp: true },
        Warps { workers: 2, lanes: 2, maintenance_warp: true },
        Warps { workers: 1, lanes: 1, maintenance_warp: false },
    ] {
        let parts = ring([7, 64, 64]);
        let park = Park::new(&parts, 1, 7, fine());
        park.door.open();
        let asks = |warp: ringcall_gpu::team::Warp<'_>, call: &ringcall_dispatcher::ring::Call<'_>| {
            let status =
                if crate::device::payload_word(call.input, 0) % 4 == 3 { 0 } else { flag::GRAPH_TRIGGER };
            Returned { status: status as i32, ..increment(warp, call) }
        };
        let device = Arc::new(Device::<true>::new(vec![Box::new(asks)], Some(Arc::clone(&park))));
        let follow_up = DeviceEntry { follow_up: 1, ..entry(TRIGGER, HandlerKind::Thread, 0) };
        // It is not told that children have ended: it relaunches itself when the budget is gone, and not
        // before.
        let setup =
            Setup::new(&parts, vec![follow_up, park.entry(GRAPH, 0, 0)], warps, RingOptions::default());
        let running = start(setup, &device);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        let mut asked = 0;
        for batch in 0..100_u64 {
            for slot in 0..7 {
                let i = batch * 7 + u64::from(slot);
                asked += u64::from(i % 4 != 3);
                client.send(slot, &Ask::increment(TRIGGER, i.to_le_bytes().to_vec()));
            }
            client.drive([]);
            setup.wait("the children", || park.finished() == asked);
        }
        let report = running.stop(control::STOP_NOW);
        assert_eq!(report.counters.get(Counter::Completed), 700);
        assert_eq!(setup.control.load(control::LAUNCHES, Relaxed), asked);
        assert_eq!(report.executions, asked.div_ceil(LAUNCHES_PER_EXECUTION));
    }
}

/// A follow-up that cannot be launched now, and one whose launch fails.
#[test]
fn a_follow_up_that_is_not_launched_is_reported() {
    for (code, status) in [(Some(3), Status::LAUNCH_FAILED), (None, Status::BACKPRESSURE)] {
        let parts = ring([4, 64, 64]);
        let refuse = move |_: &Words| code.map_or(Ok(()), Err);
        let park = Park::new(&parts, 1, 1, Box::new(refuse));
        let follow_up = DeviceEntry { follow_up: 1, ..entry(TRIGGER, HandlerKind::Warp, 1) };
        let warps = Warps { workers: 2, lanes: 2, maintenance_warp: true };
        let running = dispatcher(&parts, &park, vec![follow_up, park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        let result: Vec<u8> = vec![2, 3];
        if code.is_none() {
            client.send(0, &Ask::increment(TRIGGER, vec![1, 2]));
            client.take(0);
            setup.wait("the child", || park.door.reached() == 1);
        }
        client.send(1, &Ask { function: TRIGGER, payload: vec![1, 2], status, result });
        client.take(1);
        park.door.open();
        setup.wait("the child", || park.finished() == u64::from(code.is_none()));
        let report = running.drain();
        assert_eq!(report.counters.get(Counter::of_status(status)), 1);
    }
}

/// An answer that the child cuts because it does not fit.
#[test]
fn a_childs_result_is_cut_to_the_slot() {
    let parts = ring([4, 64, 40]);
    let park = Park::new(&parts, 1, 1, fine());
    park.door.open();
    let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
    let running = dispatcher(&parts, &park, vec![park.entry(GRAPH, 0, 0)], warps);
    let setup = Arc::clone(&running.setup);
    let mut client = Client::new(&setup);
    let payload = bytes(9, 40);
    let ask =
        Ask { function: GRAPH, result: payload[..16].to_vec(), payload, status: Status::RESULT_TOO_LONG };
    client.send(3, &ask);
    client.take(3);
    setup.wait("the child", || park.finished() == 1);
    let report = running.drain();
    assert_eq!(report.counters.get(Counter::ResultClamped), 1);
}

/// Without marks, for peers that do not know them: the slot is given back with nothing in its response flag.
#[test]
fn marks_can_be_left_out() {
    let parts = ring([1, 64, 64]);
    let ring_ = parts.ring.clone();
    let check = move |_: &Words| {
        assert_eq!(ring_.tx(slot_of(&ring_, 0)), flag::FREE);
        Ok(())
    };
    let park = Park::new(&parts, 1, 1, Box::new(check));
    let device = Arc::new(Device::<true>::new(Vec::new(), Some(Arc::clone(&park))));
    let options = RingOptions { skip_marks: true, ..RingOptions::default() };
    let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
    let setup = Setup::new(&parts, vec![park.entry(GRAPH, 0, 0)], warps, options);
    park.count_in(&setup.saved);
    let running = start(setup, &device);
    let slot = slot_of(&parts.ring, 0);
    let vacant = Vacant::probe(&parts.ring, slot).expect("an empty ring");
    vacant.submit(&parts.ring, GRAPH, 1, 2, &7_u64.to_le_bytes()).expect("8 bytes");
    running.setup.wait("the slot back", || parts.ring.rx(slot) == flag::FREE);
    assert_eq!(parts.ring.tx(slot), flag::FREE);
    park.door.open();
    let mut answer = None;
    running.setup.wait("the answer", || {
        answer = Response::probe(&parts.ring, slot);
        answer.is_some()
    });
    answer.expect("waited for").release(&parts.ring);
    running.setup.wait("the child", || park.finished() == 1);
    running.drain();
}
