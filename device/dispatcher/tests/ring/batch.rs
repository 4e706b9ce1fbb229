//! Several requests served at once by one warp.

use crate::client::{Ask, Client, bytes, increments};
use crate::device::{Device, increment};
use crate::harness::{LIMIT, Setup, Warps, entry, ring, slots, start};
use ringcall_dispatcher::ring::{Call, Returned, RingOptions};
use ringcall_gpu::team::Warp;
use ringcall_protocol::{Response, Vacant};
use ringcall_wire::Counter;
use ringcall_wire::header::HEADER_WORDS;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;
use std::sync::{Arc, Condvar, Mutex};

const FUNCTION: u32 = 11;
const LANES: u32 = 4;
const LONE: Warps = Warps { workers: 1, lanes: LANES, maintenance_warp: false };

/// How many calls run, the most that ever did, and the first payload bytes in the order of the calls.
#[derive(Default)]
struct Calls {
    now: usize,
    most: usize,
    order: Vec<u8>,
}

/// A dispatcher of one warp, all of whose requests are there when it starts; how its handlers were called. The handler waits until
/// `together` calls run.
fn served(options: RingOptions, together: usize) -> (Vec<u8>, usize) {
    let parts = ring([LANES, 64, 64]);
    let calls = Arc::new((Mutex::new(Calls::default()), Condvar::new()));
    let called = Arc::clone(&calls);
    let handler = move |_: Warp<'_>, call: &Call<'_>| {
        let (calls, changed) = &*called;
        let mut now = calls.lock().expect("no panic");
        now.now += 1;
        now.most = now.most.max(now.now);
        now.order.push(call.input.word(HEADER_WORDS) as u8);
        changed.notify_all();
        let (mut now, timeout) =
            changed.wait_timeout_while(now, LIMIT, |now| now.most < together).expect("no panic");
        assert!(!timeout.timed_out(), "{} calls at once, not {together}", now.most);
        now.now -= 1;
        call.output.set_word(HEADER_WORDS, call.input.word(HEADER_WORDS) + 1);
        Returned { status: 0, len: call.arg_len }
    };
    let device = Arc::new(Device::<false>::new(vec![Box::new(handler)], None));
    for slot in slots(&parts.ring) {
        let vacant = Vacant::probe(&parts.ring, slot).expect("nothing was asked yet");
        vacant.submit(&parts.ring, FUNCTION, slot.get(), 0, &[slot.get() as u8; 8]).expect("8 bytes");
    }
    let entries = vec![entry(FUNCTION, HandlerKind::Thread, 0)];
    let running = start(Setup::new(&parts, entries, LONE, options), &device);
    for slot in slots(&parts.ring) {
        running.setup.wait("an answer", || Response::probe(&parts.ring, slot).is_some());
        let response = Response::probe(&parts.ring, slot).expect("there just now");
        let mut result = [0; 8];
        assert_eq!(response.read(&parts.ring, &mut result), 8);
        assert_eq!(result[0], slot.get() as u8 + 1);
        response.release(&parts.ring);
    }
    assert_eq!(running.drain().counters.get(Counter::Completed), u64::from(LANES));
    let calls = calls.0.lock().expect("no panic");
    (calls.order.clone(), calls.most)
}

/// Each lane calls a handler of its own: none returns before all run.
#[test]
fn threads_handlers_run_side_by_side() {
    let (mut order, most) = served(RingOptions::default(), LANES as usize);
    order.sort_unstable();
    assert_eq!((order, most), (vec![0, 1, 2, 3], LANES as usize));
}

/// For handlers that keep state: one after the other, in the order of the slots.
#[test]
fn serial_handlers_run_in_the_order_of_the_slots() {
    let options = RingOptions { serial_handlers: true, ..RingOptions::default() };
    assert_eq!(served(options, 1), (vec![0, 1, 2, 3], 1));
}

/// Threads' and warps' handlers, refusals, statuses and lengths of all kinds in the same batches.
#[test]
fn what_is_in_a_batch_is_answered_by_its_kind() {
    const WARP: u32 = 12;
    const FAILS: u32 = 13;
    const UNKNOWN: u32 = 14;
    const GRID: u32 = 15;
    const CALLS: u64 = 150;
    for serial_handlers in [false, true] {
        for warps in
            [LONE, Warps { workers: 2, ..LONE }, Warps { workers: 3, lanes: 3, maintenance_warp: true }]
        {
            let parts = ring([24, 128, 128]);
            let fails = |_: Warp<'_>, _: &Call<'_>| Returned { status: 7, len: 0 };
            let device = Device::<false>::new(vec![Box::new(increment), Box::new(fails)], None);
            let entries = vec![
                entry(FUNCTION, HandlerKind::Thread, 0),
                entry(WARP, HandlerKind::Warp, 0),
                entry(FAILS, HandlerKind::Thread, 1),
                entry(GRID, HandlerKind::Grid, 0),
            ];
            let options = RingOptions { serial_handlers, ..RingOptions::default() };
            let running = start(Setup::new(&parts, entries, warps, options), &Arc::new(device));
            let mut client = Client::new(&running.setup);
            let mut asks = Vec::new();
            for (i, ask) in (0..).zip(increments(&parts.ring, FUNCTION, CALLS)) {
                let function = if i % 3 == 1 { WARP } else { FUNCTION };
                asks.push(match i % 7 {
                    5 => Ask::refused(UNKNOWN, bytes(i, 9), Status::UNKNOWN_FUNCTION),
                    6 if i % 2 == 0 => Ask::refused(GRID, bytes(i, 5), Status::WRONG_MODE),
                    6 => Ask::refused(FAILS, bytes(i, 3), Status(7)),
                    _ => Ask { function, ..ask },
                });
            }
            client.drive(asks);
            let counters = running.drain().counters;
            let of = |counter| counters.get(counter);
            assert_eq!(of(Counter::Received), CALLS);
            let refused = of(Counter::UnknownFunction) + of(Counter::WrongMode) + of(Counter::HandlerErrors);
            assert_eq!(of(Counter::Completed) + refused, CALLS);
            assert_eq!(of(Counter::UnknownFunction), (0..CALLS).filter(|i| i % 7 == 5).count() as u64);
        }
    }
}
