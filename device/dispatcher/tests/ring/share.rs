//! Several dispatchers on one ring, each with its own functions.

use crate::client::{Ask, Client, bytes, increments};
use crate::device::{Device, Door, Handler, increment};
use crate::harness::{RingParts, Running, Setup, Warps, entry, ring, slot_of, slots, start};
use ringcall_dispatcher::ring::{Call, RingOptions};
use ringcall_gpu::team::Warp;
use ringcall_protocol::RingMemory;
use ringcall_protocol::counters::Snapshot;
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::launch::{HandlerKind, control};
use ringcall_wire::status::Status;
use std::sync::Arc;

const OURS: u32 = 1;
const THEIRS: u32 = 2;
const NOBODYS: u32 = 99;

fn dispatcher(parts: &RingParts, function: u32, warps: Warps, shared_ring: bool) -> Running {
    let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
    let options = RingOptions { shared_ring, ..RingOptions::default() };
    start(Setup::new(parts, vec![entry(function, HandlerKind::Warp, 0)], warps, options), &device)
}

/// A dispatcher that answers what is broken or for nobody, and is told that `others` are another's.
fn keeper(parts: &RingParts, function: u32, others: &[u32], warps: Warps) -> Running {
    let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
    let options = RingOptions { default_of_several: true, ..RingOptions::default() };
    let mut entries = vec![entry(function, HandlerKind::Warp, 0)];
    entries.extend(others.iter().map(|&id| entry(id, HandlerKind::OtherDispatcher, 0)));
    start(Setup::new(parts, entries, warps, options), &device)
}

/// Stops several once the ring is empty: what was left to another is forgotten then.
fn drain_all<const N: usize>(all: [Running; N]) -> [Snapshot; N] {
    let setup = Arc::clone(&all[0].setup);
    // A request flag is cleared after its answer.
    setup.wait("an empty ring", || slots(setup.ring()).all(|slot| setup.ring().rx(slot) == flag::FREE));
    all.map(|running| running.drain().counters)
}

/// Each request goes once to the dispatcher that has its function.
fn both_serve(slots: u32, warps: Warps, count: u64) {
    let parts = ring([slots, 64, 64]);
    let both = [OURS, THEIRS].map(|function| dispatcher(&parts, function, warps, true));
    let mut client = Client::new(&both[0].setup);
    client.drive(increments(&parts.ring, OURS, count).enumerate().map(|(i, mut ask)| {
        // Runs of different lengths: every slot has requests of both after each other.
        ask.function = if (i / 3) % 2 == 0 { OURS } else { THEIRS };
        ask
    }));
    let ours = (0..count).filter(|i| (i / 3) % 2 == 0).count() as u64;
    let counters = drain_all(both);
    for (counters, expected) in counters.iter().zip([ours, count - ours]) {
        for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
            assert_eq!(counters.get(counter), expected, "{counter:?}");
        }
        assert_eq!(counters.answered(), expected);
    }
}

#[test]
fn each_request_is_answered_by_its_owner() {
    both_serve(1, Warps { workers: 2, lanes: 1, maintenance_warp: true }, 600);
    both_serve(16, Warps { workers: 2, lanes: 1, maintenance_warp: true }, 2000);
    both_serve(64, Warps { workers: 2, lanes: 2, maintenance_warp: true }, 300);
}

#[test]
fn lone_warps_share_a_ring() {
    both_serve(3, Warps { workers: 1, lanes: 1, maintenance_warp: false }, 1000);
}

/// A request for a function that no dispatcher has stays, and delays nothing: neither other requests nor the
/// end.
fn unknown_is_left(slots: u32, warps: Warps, stop: u64) {
    let parts = ring([slots, 64, 64]);
    let both = [OURS, THEIRS].map(|function| dispatcher(&parts, function, warps, true));
    let mut unknown = Client::of(&both[0].setup, 0..1);
    unknown.send(0, &Ask::refused(NOBODYS, bytes(1, 5), Status::UNKNOWN_FUNCTION));
    let mut client = Client::of(&both[0].setup, 1..slots);
    client.drive(increments(&parts.ring, OURS, 100));
    client.drive(increments(&parts.ring, THEIRS, 100));
    let slot = slot_of(&parts.ring, 0);
    let flags = || [parts.ring.rx(slot), parts.ring.tx(slot)];
    assert_eq!(flags(), [parts.ring.geometry().request_address(slot), flag::FREE]);
    for running in both {
        running.request_stop(stop);
        let setup = Arc::clone(&running.setup);
        let report = running.join();
        assert_eq!(report.state, control::STATE_ENDED, "{}", setup.dump());
        assert_eq!(report.counters.get(Counter::Received), 100);
        assert_eq!(report.counters.answered(), 100);
    }
    assert_eq!(flags(), [parts.ring.geometry().request_address(slot), flag::FREE]);
    // A dispatcher that has the ring to itself says that there is no such function.
    let last = dispatcher(&parts, OURS, warps, false);
    unknown.take(0);
    let report = last.drain();
    assert_eq!(report.counters.get(Counter::UnknownFunction), 1);
}

#[test]
fn an_unknown_function_is_left_and_stop_now_ends() {
    unknown_is_left(8, Warps { workers: 2, lanes: 1, maintenance_warp: true }, control::STOP_NOW);
    unknown_is_left(200, Warps { workers: 2, lanes: 2, maintenance_warp: true }, control::STOP_NOW);
}

/// What is others' is not waited for: a drain ends although it is in the ring. In a ring of one window, and
/// in one of more windows than the turns for which a request is left alone.
#[test]
fn a_drain_does_not_wait_for_others_requests() {
    unknown_is_left(2, Warps { workers: 2, lanes: 1, maintenance_warp: true }, control::STOP_DRAIN);
    unknown_is_left(200, Warps { workers: 2, lanes: 1, maintenance_warp: true }, control::STOP_DRAIN);
}

/// A warp that does the maintenance itself hears of a stop although it looks at another's request again and again.
#[test]
fn a_lone_warp_hears_of_a_stop_beside_others_requests() {
    unknown_is_left(2, Warps { workers: 1, lanes: 1, maintenance_warp: false }, control::STOP_NOW);
    unknown_is_left(16, Warps { workers: 1, lanes: 2, maintenance_warp: false }, control::STOP_NOW);
}

/// Beside a dispatcher that does not share, unknown functions are answered, once.
#[test]
fn an_unsharing_dispatcher_answers_what_nobody_has() {
    let parts = ring([16, 64, 64]);
    let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
    let both = [true, false].map(|shared| dispatcher(&parts, OURS + u32::from(!shared), warps, shared));
    let mut client = Client::new(&both[0].setup);
    // Not the sharing one's own function: the other would answer that, too.
    client.drive(increments(&parts.ring, THEIRS, 1000).enumerate().map(|(i, ask)| {
        if i % 2 == 0 { ask } else { Ask::refused(NOBODYS, ask.payload, Status::UNKNOWN_FUNCTION) }
    }));
    let [sharing, alone] = drain_all(both);
    assert_eq!(sharing.answered(), 0);
    assert_eq!((alone.get(Counter::Completed), alone.get(Counter::UnknownFunction)), (500, 500));
}

/// A dispatcher that is told of the others' functions leaves their requests alone, and answers all other requests.
#[test]
fn a_keeper_answers_what_nobody_has_and_leaves_the_rest() {
    for warps in [
        Warps { workers: 2, lanes: 1, maintenance_warp: true },
        Warps { workers: 3, lanes: 2, maintenance_warp: true },
        Warps { workers: 1, lanes: 1, maintenance_warp: false },
    ] {
        let parts = ring([16, 64, 64]);
        let sharing = dispatcher(&parts, OURS, warps, true);
        let keeper = keeper(&parts, THEIRS, &[OURS], warps);
        let mut client = Client::new(&sharing.setup);
        client.drive(increments(&parts.ring, THEIRS, 900).enumerate().map(|(i, ask)| match i % 3 {
            0 => ask,
            1 => Ask { function: OURS, ..ask },
            _ => Ask::refused(NOBODYS, ask.payload, Status::UNKNOWN_FUNCTION),
        }));
        let [sharing, keeper] = drain_all([sharing, keeper]);
        assert_eq!((sharing.get(Counter::Completed), sharing.answered()), (300, 300));
        assert_eq!((keeper.get(Counter::Completed), keeper.get(Counter::UnknownFunction)), (300, 300));
        assert_eq!(keeper.answered(), 600);
    }
}

/// A request that is wrong for everybody is answered once, not by each of those that see it.
#[test]
fn a_broken_request_is_answered_once() {
    for with_keeper in [false, true] {
        let parts = ring([4, 64, 64]);
        let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
        let other = if with_keeper {
            keeper(&parts, THEIRS, &[OURS], warps)
        } else {
            dispatcher(&parts, THEIRS, warps, true)
        };
        let both = [dispatcher(&parts, OURS, warps, true), other];
        let mut client = Client::new(&both[0].setup);
        let times = 400;
        for i in 0..times {
            let slot = i % 4;
            let header = RequestHeader::new(OURS, 8, i, 5);
            let raw = [&header.to_bytes()[..], &[1; 8]].concat();
            client.forge(slot, &raw, 0x123, Status::BAD_FLAG, Vec::new());
            client.take(slot);
        }
        let answered = drain_all(both).map(|counters| counters.answered());
        assert_eq!(answered, [u64::from(times), 0]);
    }
}

/// A request waits for a warp, and is another's; that one answers it meanwhile, and the producer is writing the next into its
/// slot: which is not served before its flag is set.
fn half_of_the_next_is_not_served(options: RingOptions, listed: bool) {
    const SLOW: u32 = 3;
    let parts = ring([4, 64, 64]);
    let door = Arc::new(Door::default());
    let waited = Arc::clone(&door);
    let slow = move |warp: Warp<'_>, call: &Call<'_>| {
        waited.pass();
        increment(warp, call)
    };
    let handlers: Vec<Handler> = vec![Box::new(increment), Box::new(slow)];
    let mut entries = vec![entry(OURS, HandlerKind::Thread, 0), entry(SLOW, HandlerKind::Thread, 1)];
    entries.extend(listed.then_some(entry(THEIRS, HandlerKind::OtherDispatcher, 0)));
    let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
    let running =
        start(Setup::new(&parts, entries, warps, options), &Arc::new(Device::<false>::new(handlers, None)));
    let setup = Arc::clone(&running.setup);
    let mut client = Client::new(&setup);
    client.send(0, &Ask::increment(SLOW, bytes(1, 8)));
    setup.wait("the slow handler", || door.reached() == 1);
    // The other warp polls; no warp is free.
    let theirs = Ask { function: THEIRS, payload: bytes(2, 16), status: Status::OK, result: Vec::new() };
    client.send(1, &theirs);
    setup.wait("a request that waits for a warp", || setup.slot_state(1) == u64::MAX);
    let (ring, slot) = (&parts.ring, slot_of(&parts.ring, 1));
    let header = RequestHeader::from_words(ring.request_header(slot));
    ring.write_response(slot, ResponseHeader::reply(&header, Status::OK.0, 0).to_words(), &[]);
    ring.publish_tx(slot, ring.geometry().response_address(slot));
    ring.clear_rx(slot);
    client.take(1);
    let next = [&RequestHeader::new(OURS, 16, 9, 9).to_bytes()[..], &[7; 16]].concat();
    ring.forge_request(slot, &next[..next.len() - 8], flag::FREE);
    door.open();
    client.take(0);
    setup.wait("a look at what waited", || setup.slot_state(1) == 0);
    assert_eq!(ring.tx(slot), flag::FREE, "half a request was served");
    client.forge(1, &next, ring.geometry().request_address(slot), Status::OK, vec![8; 16]);
    client.take(1);
    let report = running.drain();
    assert_eq!((report.counters.get(Counter::Completed), report.counters.answered()), (2, 2));
}

#[test]
fn a_request_that_is_being_written_is_not_served() {
    half_of_the_next_is_not_served(RingOptions { shared_ring: true, ..RingOptions::default() }, false);
    half_of_the_next_is_not_served(RingOptions { default_of_several: true, ..RingOptions::default() }, true);
}

/// A ring that is full of others' requests does not delay the end of a drain, whichever dispatcher is at work
/// on what.
#[test]
fn a_drain_ends_in_a_ring_full_of_others_requests() {
    for (slots, lanes) in [(8, 1), (40, 1), (8, 2)] {
        for workers in [1, 2, 3] {
            let warps = Warps { workers, lanes, maintenance_warp: true };
            for listed in [false, true] {
                let parts = ring([slots, 64, 64]);
                let running = if listed {
                    keeper(&parts, OURS, &[THEIRS], warps)
                } else {
                    dispatcher(&parts, OURS, warps, true)
                };
                let mut client = Client::new(&running.setup);
                for slot in 0..slots {
                    client.send(slot, &Ask::increment(THEIRS, bytes(1, 5)));
                }
                running.request_stop(control::STOP_DRAIN);
                let report = running.join();
                assert_eq!((report.state, report.counters.answered()), (control::STATE_ENDED, 0));
            }
        }
    }
}
