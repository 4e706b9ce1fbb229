//! Drains of dispatchers that launch graphs.

use crate::client::{Ask, Client};
use crate::device::Device;
use crate::graphs::{GRAPH, INCREMENT, TEAMS, dispatcher, fine, plus, words};
use crate::harness::{Setup, Warps, entry, ring, start};
use crate::park::Park;
use ringcall_dispatcher::ring::RingOptions;
use ringcall_wire::Counter;
use ringcall_wire::launch::{HandlerKind, control, io, saved};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Waits until the drain was heard and went on for longer than its looks at the ring last; whether it has ended.
fn drains_on(setup: &Setup, warps: Warps) -> bool {
    let (beat, state) = (|| setup.control.load(control::HEARTBEAT, Relaxed), || setup.state());
    let first = beat();
    // A lone warp does the maintenance every 64 turns, one that does only that every 64 of its passes.
    let rounds = if warps.maintenance_warp { 100 } else { 45 };
    setup.wait("some rounds", || state() != control::STATE_RUNNING || beat() >= first + rounds);
    state() == control::STATE_RUNNING
}

/// Drains while `requests` requests for a graph with so many executables are in the ring, as many of them launched as can be:
/// all are answered before the end.
fn a_drain_of(requests: u32, executables: u32) {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let park = Park::new(&parts, 1, executables, fine());
        let running = dispatcher(&parts, &park, vec![park.entry(GRAPH, 0, 0)], warps);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        for slot in 0..requests {
            client.send(slot, &plus(GRAPH, words(u64::from(slot)), 0));
        }
        let launched = u64::from(executables.min(requests));
        setup.wait("the children", || park.door.reached() == launched);
        running.request_stop(control::STOP_DRAIN);
        let drains = drains_on(&setup, warps);
        park.door.open();
        let report = running.stop(control::STOP_DRAIN);
        assert!(drains, "{warps:?} ended before its graphs");
        assert_eq!(park.finished(), u64::from(requests));
        assert_eq!(report.counters.get(Counter::Completed), u64::from(requests), "{warps:?}");
        client.drive([]);
    }
}

/// The end of a drain comes after the graphs', whose answers are counted.
#[test]
fn a_drain_waits_for_graphs() {
    a_drain_of(3, 4);
}

/// What waits for an executable is served when a graph has ended.
#[test]
fn a_drain_serves_what_waits_for_a_graph() {
    a_drain_of(8, 1);
}

/// A drain does not take a request that waits for an executable for none: it comes back to it.
#[test]
fn a_drain_comes_back_to_what_waits_for_an_executable() {
    // A lone warp hears the stop after 64 turns, and tries every ninth.
    for lanes in [1, 2] {
        let warps = Warps { workers: 1, lanes, maintenance_warp: false };
        let parts = ring([8, 64, 64]);
        let park = Park::new(&parts, 1, 1, fine());
        let entry = park.entry(GRAPH, 0, 0);
        // Somebody has the only mailbox, and no graph of this dispatcher runs.
        park.mailbox(entry.address, 1).expect("inside").store(io::STATE, io::LAUNCHED, Relaxed);
        let for_requests = Arc::new(Setup::new(&parts, Vec::new(), warps, RingOptions::default()));
        let mut client = Client::new(&for_requests);
        client.send(0, &plus(GRAPH, words(1), 0));
        let setup = Setup::new(&parts, vec![entry], warps, RingOptions::default());
        setup.control.store(control::STOP, control::STOP_DRAIN, Relaxed);
        let running = start(setup, &Arc::new(Device::<true>::new(Vec::new(), Some(Arc::clone(&park)))));
        let report = running.join();
        assert_eq!((report.state, client.is_answered(0)), (control::STATE_ENDED, false));
        let tries = report.counters.get(Counter::Queued);
        assert!(tries >= 20, "{warps:?} tried {tries} times");
    }
}

/// An end at once does not wait for graphs. What they count later is theirs, beside what the dispatcher saved.
#[test]
fn an_end_at_once_leaves_graphs_to_their_own() {
    for warps in TEAMS {
        let parts = ring([8, 64, 64]);
        let park = Park::new(&parts, 1, 4, fine());
        let entries = vec![park.entry(GRAPH, 0, 0), entry(INCREMENT, HandlerKind::Warp, 0)];
        let running = dispatcher(&parts, &park, entries, warps);
        let setup = Arc::clone(&running.setup);
        Client::of(&setup, 4..8).drive((0..20).map(|i| Ask::increment(INCREMENT, words(i))));
        let mut client = Client::of(&setup, 0..4);
        for slot in 0..3 {
            client.send(slot, &plus(GRAPH, words(u64::from(slot)), 0));
        }
        setup.wait("three children", || park.door.reached() == 3);
        let report = running.stop(control::STOP_NOW);
        assert_eq!((park.finished(), report.counters.get(Counter::Completed)), (0, 20));
        park.door.open();
        setup.wait("the last child", || park.finished() == 3);
        client.drive([]);
        for (counter, count) in [(Counter::Received, 23), (Counter::Dispatched, 23), (Counter::Completed, 23)]
        {
            let word = |first| setup.saved.load(first + counter.index(), Relaxed);
            assert_eq!(word(saved::COUNTERS) + word(saved::CHILDREN), count, "{counter:?}");
        }
    }
}
