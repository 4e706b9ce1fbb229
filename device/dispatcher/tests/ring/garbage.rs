//! Whatever a producer writes, the requests beside it are served, and what is wrong is answered with a status.

use crate::client::{Ask, Client, bytes};
use crate::device::{Device, increment};
use crate::harness::{Setup, Warps, entry, ring, slot_of, start};
use proptest::prelude::*;
use ringcall_dispatcher::ring::RingOptions;
use ringcall_protocol::RingMemory;
use ringcall_wire::Counter;
use ringcall_wire::header::{REQUEST_MAGIC, RequestHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::Status;
use std::sync::Arc;

const INCREMENT: u32 = 1;
const FOUR_BYTES: u32 = 2;

/// The contents of a slot.
#[derive(Debug, Clone)]
struct Written {
    slot: u32,
    header: RequestHeader,
    /// `None` for the slot's own address.
    flag: Option<u64>,
}

fn written(slots: u32) -> impl Strategy<Value = Written> {
    let magic = prop_oneof![8 => Just(REQUEST_MAGIC), 1 => any::<u32>()];
    let function = prop_oneof![6 => Just(INCREMENT), 3 => Just(FOUR_BYTES), 1 => any::<u32>()];
    let arg_len = prop_oneof![4 => 0_u32..=40, 2 => Just(4), 1 => 30_u32..60, 1 => any::<u32>()];
    let flag = prop_oneof![8 => Just(None), 1 => (1_u64..).prop_map(Some)];
    (0..slots, magic, function, arg_len, any::<(u32, u64)>(), flag).prop_map(
        |(slot, magic, function_id, arg_len, (request_id, ptp_timestamp), flag)| Written {
            slot,
            header: RequestHeader { magic, function_id, arg_len, request_id, ptp_timestamp },
            flag,
        },
    )
}

/// The status that the rules of the protocol give, in their order.
fn expected(written: &Written, own: u64, capacity: u32) -> Status {
    let header = &written.header;
    if written.flag.is_some_and(|flag| flag != own) {
        Status::BAD_FLAG
    } else if header.magic != REQUEST_MAGIC {
        Status::BAD_MAGIC
    } else if header.arg_len > capacity {
        Status::ARG_TOO_LONG
    } else if ![INCREMENT, FOUR_BYTES].contains(&header.function_id) {
        Status::UNKNOWN_FUNCTION
    } else if header.function_id == FOUR_BYTES && header.arg_len != 4 {
        Status::SCHEMA_MISMATCH
    } else {
        Status::OK
    }
}

fn survives(all: &[Written], warps: Warps) {
    let parts = ring([8, 64, 64]);
    let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
    let four = DeviceEntry { arg_bytes: 4, ..entry(FOUR_BYTES, HandlerKind::Thread, 0) };
    let entries = vec![entry(INCREMENT, HandlerKind::Warp, 0), four];
    let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &device);
    let capacity = parts.ring.geometry().request_capacity();
    // Garbage goes to the slots below 4, requests of a producer that does everything right to those above.
    let mut hostile = Client::of(&running.setup, 0..4);
    let mut valid_flag = Client::of(&running.setup, 4..8);
    let mut counts = [0_u64; Counter::COUNT];
    for (i, written) in (0_u64..).zip(all) {
        let own = parts.ring.geometry().request_address(slot_of(&parts.ring, written.slot));
        let status = expected(written, own, capacity);
        counts[Counter::of_status(status).index()] += 1;
        let payload = bytes(i, capacity as usize);
        let raw = [&written.header.to_bytes()[..], &payload].concat();
        let len = if status.is_ok() { written.header.arg_len as usize } else { 0 };
        let result = payload[..len].iter().map(|byte| byte.wrapping_add(1)).collect();
        // Several are in the ring at one time.
        for slot in 0..4 {
            hostile.try_take(slot);
        }
        if hostile.is_waiting(written.slot) {
            hostile.take(written.slot);
        }
        hostile.forge(written.slot, &raw, written.flag.unwrap_or(own), status, result);
        valid_flag.drive([Ask::increment(INCREMENT, bytes(i, i as usize % 41))]);
    }
    hostile.drive([]);
    let report = running.drain();
    counts[Counter::Completed.index()] += all.len() as u64;
    for &counter in Counter::ALL {
        let expected = match counter {
            Counter::Received => 2 * all.len() as u64,
            Counter::Dispatched => counts[Counter::Completed.index()],
            other => counts[other.index()],
        };
        assert_eq!(report.counters.get(counter), expected, "{counter:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn garbage_is_answered_and_harms_nobody(all in proptest::collection::vec(written(4), 1..60)) {
        survives(&all, Warps { workers: 3, lanes: 1, maintenance_warp: true });
    }

    #[test]
    fn a_lone_warp_survives_garbage(all in proptest::collection::vec(written(4), 1..60)) {
        survives(&all, Warps { workers: 1, lanes: 2, maintenance_warp: false });
    }
}
