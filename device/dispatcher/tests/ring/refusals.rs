//! What is wrong with a request is said to whoever sent it, and counted.

use crate::client::{Ask, Client, bytes};
use crate::device::{Device, increment};
use crate::harness::{Setup, Warps, entry, ring, slot_of, start};
use ringcall_dispatcher::ring::{Returned, RingOptions};
use ringcall_protocol::{RingMemory, Vacant};
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::Status;
use std::sync::Arc;

const INCREMENT: u32 = 1;
const EIGHT_BYTES: u32 = 2;
const GRID: u32 = 3;
const REFUSES: u32 = 4;
const OVERCLAIMS: u32 = 5;
const GRAPH: u32 = 6;
const UNHEARD_OF: u32 = 7;
const UNKNOWN: u32 = 99;
const WHIMSICAL: u32 = 8;
/// Times that each wrong thing is sent.
const TIMES: u64 = 25;

fn refused_by(warps: Warps) {
    let parts = ring([8, 64, 56]);
    let room = parts.ring.geometry().result_capacity();
    let fixed = |status: i32, len: u32| {
        move |_: ringcall_gpu::team::Warp<'_>, _: &ringcall_dispatcher::ring::Call<'_>| Returned {
            status,
            len,
        }
    };
    let overclaims = move |warp: ringcall_gpu::team::Warp<'_>, call: &ringcall_dispatcher::ring::Call<'_>| {
        increment(warp, call);
        Returned { status: 0, len: u32::MAX }
    };
    let device = Arc::new(Device::<false>::new(
        vec![
            Box::new(increment),
            Box::new(fixed(41, 0)),
            Box::new(overclaims),
            Box::new(fixed(-1234, 0)),
            Box::new(fixed(flag::GRAPH_TRIGGER as i32, 0)),
        ],
        None,
    ));
    let schema = DeviceEntry { arg_bytes: 8, ..entry(EIGHT_BYTES, HandlerKind::Warp, 0) };
    let unheard_of = DeviceEntry { kind: 77, ..entry(UNHEARD_OF, HandlerKind::Thread, 0) };
    let entries = vec![
        entry(INCREMENT, HandlerKind::Thread, 0),
        schema,
        entry(GRID, HandlerKind::Grid, 0),
        entry(REFUSES, HandlerKind::Warp, 1),
        entry(OVERCLAIMS, HandlerKind::Warp, 2),
        entry(GRAPH, HandlerKind::Graph, 0),
        unheard_of,
        entry(WHIMSICAL, HandlerKind::Thread, 3),
        // Asks for a follow-up graph, and has none.
        entry(WHIMSICAL + 1, HandlerKind::Thread, 4),
    ];
    let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &device);
    let mut client = Client::new(&running.setup);
    let valid_flag = |slot: u32| parts.ring.geometry().request_address(slot_of(&parts.ring, slot));
    for i in 0..TIMES {
        let payload = bytes(i, 16);
        let slot = (i * 3 % 8) as u32;
        let number = 1_000 + i as u32;
        let raw = |header: RequestHeader| [&header.to_bytes()[..], &payload].concat();
        let fine = RequestHeader::new(INCREMENT, 16, number, i);
        let mut forge = |header: RequestHeader, flag: u64, status: Status| {
            client.forge(slot, &raw(header), flag, status, Vec::new());
            client.take(slot);
        };
        for wrong in
            [1, valid_flag(slot) + 8, valid_flag((slot + 1) % 8), u64::MAX, flag::IN_FLIGHT, flag::error(3)]
        {
            forge(fine, wrong, Status::BAD_FLAG);
        }
        forge(RequestHeader { magic: !0, ..fine }, valid_flag(slot), Status::BAD_MAGIC);
        forge(RequestHeader { magic: 0, arg_len: !0, ..fine }, valid_flag(slot), Status::BAD_MAGIC);
        for len in [41, 64, u32::MAX] {
            forge(RequestHeader { arg_len: len, ..fine }, valid_flag(slot), Status::ARG_TOO_LONG);
        }
        let mut ask = |ask: Ask| {
            client.send(slot, &ask);
            client.take(slot);
        };
        ask(Ask::refused(UNKNOWN, payload.clone(), Status::UNKNOWN_FUNCTION));
        ask(Ask::refused(EIGHT_BYTES, bytes(i, 7), Status::SCHEMA_MISMATCH));
        ask(Ask::refused(EIGHT_BYTES, Vec::new(), Status::SCHEMA_MISMATCH));
        ask(Ask::increment(EIGHT_BYTES, bytes(i, 8)));
        ask(Ask::refused(GRID, payload.clone(), Status::WRONG_MODE));
        ask(Ask::refused(UNHEARD_OF, payload.clone(), Status::WRONG_MODE));
        ask(Ask::refused(GRAPH, payload.clone(), Status::WRONG_MODE));
        ask(Ask::refused(REFUSES, payload.clone(), Status(41)));
        ask(Ask::refused(WHIMSICAL, payload.clone(), Status(-1234)));
        ask(Ask::refused(WHIMSICAL + 1, payload.clone(), Status::LAUNCH_FAILED));
        // As long as the room, so that all that is sent of the overlong result is known.
        let whole = bytes(i, room as usize);
        let result = whole.iter().map(|byte| byte.wrapping_add(1)).collect();
        ask(Ask { function: OVERCLAIMS, payload: whole, status: Status::RESULT_TOO_LONG, result });
    }
    let report = running.drain();
    let expected = [
        (Counter::Received, 22),
        (Counter::Dispatched, 6),
        (Counter::Completed, 1),
        (Counter::BadFlag, 6),
        (Counter::BadMagic, 2),
        (Counter::ArgTooLong, 3),
        (Counter::UnknownFunction, 1),
        (Counter::SchemaMismatch, 2),
        (Counter::WrongMode, 3),
        (Counter::HandlerErrors, 1),
        (Counter::UnknownStatus, 1),
        (Counter::LaunchFailed, 1),
        (Counter::ResultClamped, 1),
        (Counter::Backpressure, 0),
    ];
    for (counter, times) in expected {
        assert_eq!(report.counters.get(counter), times * TIMES, "{counter:?}");
    }
    assert_eq!(report.counters.answered(), 22 * TIMES);
}

#[test]
fn each_wrong_thing_has_its_status_and_its_counter() {
    for warps in [
        Warps { workers: 1, lanes: 1, maintenance_warp: false },
        Warps { workers: 3, lanes: 1, maintenance_warp: true },
        Warps { workers: 2, lanes: 2, maintenance_warp: true },
    ] {
        refused_by(warps);
    }
}

/// What the reference drops is dropped where that is asked for, and counted; everything else is answered.
#[test]
fn bad_requests_are_dropped_where_that_is_asked_for() {
    for warps in [
        Warps { workers: 1, lanes: 1, maintenance_warp: false },
        Warps { workers: 3, lanes: 1, maintenance_warp: true },
        Warps { workers: 2, lanes: 2, maintenance_warp: true },
    ] {
        let parts = ring([4, 64, 64]);
        let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
        let entries = vec![entry(INCREMENT, HandlerKind::Thread, 0), entry(GRAPH, HandlerKind::Graph, 0)];
        let options = RingOptions { drop_bad_requests: true, ..RingOptions::default() };
        let running = start(Setup::new(&parts, entries, warps, options), &device);
        let mut client = Client::new(&running.setup);
        for i in 0..TIMES {
            let fine = RequestHeader::new(INCREMENT, 16, 7, i);
            for bad in [
                RequestHeader { magic: !0, ..fine },
                RequestHeader { function_id: UNKNOWN, ..fine },
                RequestHeader { function_id: GRAPH, ..fine },
            ] {
                let bytes = [&bad.to_bytes()[..], &[0; 16]].concat();
                // All slots at once: flags of requests that come together are written by another warp than the one that
                // looked at the request.
                for slot in (0..4).map(|slot| slot_of(&parts.ring, slot)) {
                    // A warp sets the response flag before it clears the request flag: that the last answer was taken does
                    // not mean that the slot is vacant.
                    running.setup.wait("a vacant slot", || Vacant::probe(&parts.ring, slot).is_some());
                    parts.ring.forge_request(slot, &bytes, parts.ring.geometry().request_address(slot));
                }
                for slot in (0..4).map(|slot| slot_of(&parts.ring, slot)) {
                    running.setup.wait("the slot back", || parts.ring.rx(slot) == flag::FREE);
                    assert_eq!(parts.ring.tx(slot), flag::FREE);
                }
            }
            let slot = (i % 4) as u32;
            client.forge(
                slot,
                &[&RequestHeader { arg_len: 41, ..fine }.to_bytes()[..], &[0; 16]].concat(),
                parts.ring.geometry().request_address(slot_of(&parts.ring, slot)),
                Status::ARG_TOO_LONG,
                Vec::new(),
            );
            client.take(slot);
            client.send(slot, &Ask::increment(INCREMENT, bytes(i, 16)));
            client.take(slot);
        }
        let counters = running.drain().counters;
        for (counter, times) in [
            (Counter::Received, 14),
            (Counter::BadMagic, 4),
            (Counter::UnknownFunction, 4),
            (Counter::WrongMode, 4),
            (Counter::ArgTooLong, 1),
            (Counter::Completed, 1),
        ] {
            assert_eq!(counters.get(counter), times * TIMES, "{counter:?}");
        }
    }
}

/// Flags that name the slot as the peer sees it are as good as this side's.
#[test]
fn the_peers_address_is_a_valid_flag() {
    let parts = ring([4, 64, 64]);
    let peer = 0x7000_0000_0000_u64;
    let mapped =
        ringcall_protocol::SharedRing::new(4, 64, 64, parts.ring.windows(), Some(peer)).expect("a ring");
    let parts = crate::harness::RingParts { ring: mapped, ..parts };
    let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
    let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
    let entries = vec![entry(INCREMENT, HandlerKind::Warp, 0)];
    let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &device);
    let mut client = Client::new(&running.setup);
    for slot in 0..4 {
        let raw = [&RequestHeader::new(INCREMENT, 3, slot, 5).to_bytes()[..], &[1, 2, 3]].concat();
        client.forge(slot, &raw, peer + u64::from(slot) * 64, Status::OK, vec![2, 3, 4]);
        client.take(slot);
        client.forge(slot, &raw, peer + u64::from(slot + 1) * 64, Status::BAD_FLAG, Vec::new());
        client.take(slot);
    }
    running.drain();
}
