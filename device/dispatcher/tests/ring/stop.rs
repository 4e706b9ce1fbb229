//! How a dispatcher ends.

use crate::client::{Ask, Client, bytes, increments};
use crate::device::{Device, Door, increment};
use crate::harness::{Running, Setup, Warps, entry, ring, slots, start};
use crate::slots::Pump;
use ringcall_dispatcher::ring::RingOptions;
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::launch::{HandlerKind, control};
use std::sync::Arc;

const INCREMENT: u32 = 1;
const SLOW: u32 = 2;

const STOPS: [u64; 2] = [control::STOP_DRAIN, control::STOP_NOW];

const TEAMS: [Warps; 4] = [
    Warps { workers: 1, lanes: 1, maintenance_warp: false },
    Warps { workers: 1, lanes: 2, maintenance_warp: true },
    Warps { workers: 3, lanes: 1, maintenance_warp: true },
    Warps { workers: 2, lanes: 4, maintenance_warp: true },
];

fn plain() -> Arc<Device<false>> {
    Arc::new(Device::new(vec![Box::new(increment)], None))
}

#[test]
fn an_idle_dispatcher_ends() {
    for warps in TEAMS {
        for stop in STOPS {
            for slots in [1, 40] {
                let parts = ring([slots, 64, 64]);
                let entries = vec![entry(INCREMENT, HandlerKind::Warp, 0)];
                let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &plain());
                running.setup.wait("the beginning", || running.setup.state() == control::STATE_RUNNING);
                running.setup.wait_rounds(2);
                let report = running.stop(stop);
                assert_eq!((report.counters.answered(), report.executions), (0, 1));
            }
        }
    }
}

/// A drain that begins with a full ring ends with an empty one.
#[test]
fn a_drain_leaves_nothing_unanswered() {
    for warps in TEAMS {
        for slots in [1, 16, 50] {
            let parts = ring([slots, 64, 64]);
            let entries = vec![entry(INCREMENT, HandlerKind::Warp, 0)];
            let setup = Setup::new(&parts, entries, warps, RingOptions::default());
            // The stop stands before the first request is seen.
            setup.control.store(control::STOP, control::STOP_DRAIN, std::sync::atomic::Ordering::Relaxed);
            let setup_for_requests = Arc::new(Setup::new(&parts, Vec::new(), warps, RingOptions::default()));
            let mut client = Client::new(&setup_for_requests);
            for (slot, ask) in (0..).zip(increments(&parts.ring, INCREMENT, u64::from(slots))) {
                client.send(slot, &ask);
            }
            let running = start(setup, &plain());
            let report = running.stop(control::STOP_DRAIN);
            for slot in self::slots(&parts.ring) {
                assert_eq!(parts.ring.rx(slot), flag::FREE);
            }
            assert_eq!(client.outstanding(), slots as usize);
            client.drive([]);
            assert_eq!(report.counters.get(Counter::Completed), u64::from(slots));
        }
    }
}

/// A drain serves a request that was sent to an idle dispatcher just before: the poller is somewhere in a ring of many windows.
#[test]
fn a_drain_serves_what_was_sent_just_before() {
    let warps_of = |workers, maintenance_warp| Warps { workers, lanes: 1, maintenance_warp };
    for warps in [warps_of(1, false), warps_of(2, true)] {
        for slot in [0, 300, 777, 1023].repeat(2) {
            let parts = ring([1024, 64, 64]);
            let entries = vec![entry(INCREMENT, HandlerKind::Warp, 0)];
            let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &plain());
            running.setup.wait_rounds(4);
            let mut client = Client::of(&running.setup, slot..slot + 1);
            client.send(slot, &Ask::increment(INCREMENT, bytes(1, 9)));
            let report = running.stop(control::STOP_DRAIN);
            assert_eq!(report.counters.get(Counter::Completed), 1, "slot {slot}, {warps:?}");
            client.drive([]);
        }
    }
}

/// A drain in the middle of traffic: whatever was sent before it is answered.
#[test]
fn a_drain_of_a_busy_dispatcher() {
    for warps in TEAMS {
        let parts = ring([24, 64, 64]);
        let entries = vec![entry(INCREMENT, HandlerKind::Warp, 0)];
        let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &plain());
        let mut client = Client::new(&running.setup);
        client.drive(increments(&parts.ring, INCREMENT, 200));
        let mut sent = 200;
        for slot in 0..24 {
            sent += u64::from(client.try_send(slot, &Ask::increment(INCREMENT, bytes(1, 9))));
        }
        let report = running.stop(control::STOP_DRAIN);
        for slot in self::slots(&parts.ring) {
            assert_eq!(parts.ring.rx(slot), flag::FREE);
        }
        client.drive([]);
        assert_eq!(report.counters.get(Counter::Completed), sent);
    }
}

/// A dispatcher whose warps, but the one that polls, are all in a handler that waits at the door, and a client whose other
/// requests wait in the ring.
fn all_at_work(warps: Warps) -> (Running, Arc<Door>, Client, u64) {
    let parts = ring([24, 64, 64]);
    let door = Arc::new(Door::default());
    let waited = Arc::clone(&door);
    let slow = move |warp: ringcall_gpu::team::Warp<'_>, call: &ringcall_dispatcher::ring::Call<'_>| {
        if warp.lane() == 0 {
            waited.pass();
        }
        warp.sync();
        increment(warp, call)
    };
    let device = Arc::new(Device::<false>::new(vec![Box::new(slow)], None));
    let entries = vec![entry(SLOW, HandlerKind::Warp, 0)];
    let setup = Setup::new(&parts, entries, warps, RingOptions::default()).without_batches();
    let running = start(setup, &device);
    let mut client = Client::new(&running.setup);
    for slot in 0..24 {
        client.send(slot, &Ask::increment(SLOW, vec![slot as u8; 3]));
    }
    let at_work = u64::from(warps.workers.saturating_sub(1).max(1));
    running.setup.wait("handlers at work", || door.reached() == at_work);
    (running, door, client, at_work)
}

/// What waits for a warp when a drain begins is served, however long that takes.
#[test]
fn a_drain_serves_what_waits_for_a_warp() {
    for warps in TEAMS {
        let (running, door, mut client, _) = all_at_work(warps);
        running.request_stop(control::STOP_DRAIN);
        if warps.maintenance_warp {
            // More looks than a drain makes at a ring that no dispatcher works on.
            running.setup.wait_rounds(40);
        }
        door.open();
        let report = running.stop(control::STOP_DRAIN);
        assert_eq!(report.counters.get(Counter::Completed), 24, "{warps:?}");
        client.drive([]);
    }
}

/// At once means after the handlers that run, and before the requests that wait.
#[test]
fn a_stop_at_once_waits_for_running_handlers_alone() {
    for warps in TEAMS {
        let (running, door, mut client, at_work) = all_at_work(warps);
        let setup = Arc::clone(&running.setup);
        running.request_stop(control::STOP_NOW);
        if warps.maintenance_warp {
            setup.wait_rounds(3);
        }
        assert_eq!(setup.state(), control::STATE_RUNNING, "ended before its handlers");
        door.open();
        let report = running.stop(control::STOP_NOW);
        let answered = (0..24).filter(|&slot| client.is_answered(slot)).count() as u64;
        assert_eq!(report.counters.get(Counter::Completed), answered);
        assert!(answered >= at_work);
        if warps.workers > 1 {
            assert_eq!(answered, at_work, "served what it had not begun");
        }
        for slot in self::slots(&setup.parts.ring) {
            // Answered and given back, or as the producer left it.
            assert_ne!(client.is_answered(slot.get()), setup.parts.ring.rx(slot) != flag::FREE);
        }
        for slot in 0..24 {
            client.try_take(slot);
        }
        assert_eq!(client.outstanding() as u64, 24 - answered);
    }
}

/// Requests without a pause do not keep a stop from being heard, nor a drain up.
#[test]
fn a_stop_is_heard_under_load() {
    let teams = [
        Warps { workers: 1, lanes: 2, maintenance_warp: false },
        Warps { workers: 1, lanes: 2, maintenance_warp: true },
        Warps { workers: 2, lanes: 1, maintenance_warp: false },
        Warps { workers: 2, lanes: 1, maintenance_warp: true },
        Warps { workers: 4, lanes: 1, maintenance_warp: true },
    ];
    for (warps, stop) in teams.into_iter().flat_map(|warps| STOPS.map(|stop| (warps, stop))) {
        let parts = ring([2, 64, 64]);
        let pump = Pump::new();
        let device = Arc::new(Device::<false>::new(vec![pump.handler(&parts.ring)], None));
        let entries = vec![entry(SLOW, HandlerKind::Warp, 0)];
        let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &device);
        let setup = Arc::clone(&running.setup);
        let feeder = pump.feed(Client::of(&setup, 0..2));
        setup.wait("the pump", || pump.calls() > 10);
        let before = pump.calls();
        running.request_stop(stop);
        let ended = || setup.state() == control::STATE_ENDED;
        setup.wait("the end, or 5000 calls", || ended() || pump.calls() > before + 5000);
        let deaf = !ended();
        pump.stop();
        running.stop(stop);
        feeder.join().expect("the feeder");
        assert!(!deaf, "{warps:?} served 5000 requests after it was told to stop ({stop})");
    }
}

/// Counts and heartbeats are there while it runs, not only at the end.
#[test]
fn counters_move_while_it_runs() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let entries = vec![entry(INCREMENT, HandlerKind::Thread, 0)];
        let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &plain());
        let setup = &running.setup;
        for round in 1..=3 {
            Client::new(setup).drive(increments(&parts.ring, INCREMENT, 10));
            setup.wait("the count", || setup.counters().get(Counter::Completed) == 10 * round);
        }
        running.drain();
    }
}
