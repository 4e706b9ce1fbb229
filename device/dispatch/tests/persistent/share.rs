//! Several dispatchers on one ring, each with functions of its own.

use crate::client::{Ask, Client, bytes, increments};
use crate::device::{Device, increment};
use crate::harness::{RingParts, Running, Setup, Warps, entry, ring, slot_of, start};
use ringcall_dispatch::RingMemory;
use ringcall_dispatch::persistent::Options;
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::launch::{HandlerKind, control};
use ringcall_wire::status::Status;
use std::sync::Arc;

const OURS: u32 = 1;
const THEIRS: u32 = 2;
const NOBODYS: u32 = 99;

fn dispatcher(parts: &RingParts, function: u32, warps: Warps, shared_ring: bool) -> Running {
    let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
    let options = Options { shared_ring, ..Options::default() };
    start(Setup::new(parts, vec![entry(function, HandlerKind::Warp, 0)], warps, options), &device)
}

/// Each request goes to whoever has its function, once.
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
    // What was left to the other is forgotten once the ring is empty.
    let counters = both.map(|running| running.drain().counters);
    for (counters, expected) in counters.iter().zip([ours, count - ours]) {
        for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
            assert_eq!(counters.get(counter), expected, "{counter:?}");
        }
        assert_eq!(counters.answered(), expected);
    }
}

#[test]
fn each_request_is_answered_by_its_owner() {
    both_serve(1, Warps { workers: 2, lanes: 1, house: true }, 600);
    both_serve(16, Warps { workers: 2, lanes: 1, house: true }, 2000);
    both_serve(64, Warps { workers: 2, lanes: 2, house: true }, 300);
}

#[test]
fn lone_warps_share_a_ring() {
    both_serve(3, Warps { workers: 1, lanes: 1, house: false }, 1000);
}

/// A request that nobody has a function for stays, and keeps nobody from anything: neither other requests nor the end.
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
        running.tell(stop);
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
    unknown_is_left(8, Warps { workers: 2, lanes: 1, house: true }, control::STOP_NOW);
    unknown_is_left(200, Warps { workers: 2, lanes: 2, house: true }, control::STOP_NOW);
}

/// What is others' is not waited for: a drain ends although it stands in the ring. In a ring of one window, and in one of
/// more windows than the turns for which a request is left alone.
#[test]
fn a_drain_does_not_wait_for_others_requests() {
    unknown_is_left(2, Warps { workers: 2, lanes: 1, house: true }, control::STOP_DRAIN);
    unknown_is_left(200, Warps { workers: 2, lanes: 1, house: true }, control::STOP_DRAIN);
}

/// A warp that keeps house itself hears of a stop although it looks at another's request again and again.
#[test]
fn a_lone_warp_hears_of_a_stop_beside_others_requests() {
    unknown_is_left(2, Warps { workers: 1, lanes: 1, house: false }, control::STOP_NOW);
    unknown_is_left(16, Warps { workers: 1, lanes: 2, house: false }, control::STOP_NOW);
}

/// Beside a dispatcher that does not share, unknown functions are answered, once.
#[test]
fn an_unsharing_dispatcher_answers_what_nobody_has() {
    let parts = ring([16, 64, 64]);
    let warps = Warps { workers: 2, lanes: 1, house: true };
    let both = [true, false].map(|shared| dispatcher(&parts, OURS + u32::from(!shared), warps, shared));
    let mut client = Client::new(&both[0].setup);
    // Not the sharing one's own function: the other would answer that, too.
    client.drive(increments(&parts.ring, THEIRS, 1000).enumerate().map(|(i, ask)| {
        if i % 2 == 0 { ask } else { Ask::refused(NOBODYS, ask.payload, Status::UNKNOWN_FUNCTION) }
    }));
    let [sharing, alone] = both.map(|running| running.drain().counters);
    assert_eq!(sharing.answered(), 0);
    assert_eq!((alone.get(Counter::Completed), alone.get(Counter::UnknownFunction)), (500, 500));
}

/// A request that is wrong for everybody is answered once, not by each of those that see it.
#[test]
fn a_broken_request_is_answered_once() {
    let parts = ring([4, 64, 64]);
    let warps = Warps { workers: 2, lanes: 1, house: true };
    let both = [OURS, THEIRS].map(|function| dispatcher(&parts, function, warps, true));
    let mut client = Client::new(&both[0].setup);
    let times = 400;
    for i in 0..times {
        let slot = i % 4;
        let header = ringcall_wire::RequestHeader::new(OURS, 8, i, 5);
        let raw = [&header.to_bytes()[..], &[1; 8]].concat();
        client.forge(slot, &raw, 0x123, Status::BAD_FLAG, Vec::new());
        client.take(slot);
    }
    let answered = both.map(|running| running.drain().counters.answered());
    assert_eq!(answered.iter().sum::<u64>(), u64::from(times), "{answered:?}");
}
