//! Every request is answered, once, with what its function makes of it.

use crate::client::{Ask, Client, bytes, increments};
use crate::device::{Device, increment};
use crate::harness::{Setup, Shape, Warps, entry, ring, start};
use ringcall_dispatcher::ring::{Partition, Returned, RingOptions};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::RingMemory;
use ringcall_wire::Counter;
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const THREAD: u32 = 11;
const WARP: u32 = 12;

/// Rings of all sizes: slots that hold a header alone, an odd number of words, more than the first burst of a fetch.
const SHAPES: [Shape; 6] =
    [[1, 64, 64], [3, 24, 24], [3, 1304, 1200], [16, 40, 56], [64, 128, 128], [200, 72, 64]];

/// Serves `count` requests; a thread's handler and a warp's take turns.
fn serves(shape: Shape, warps: Warps, count: u64) {
    let parts = ring(shape);
    let calls = Arc::new(DeviceU64::new(0));
    let counted = Arc::clone(&calls);
    let handler = move |warp: ringcall_gpu::team::Warp<'_>, call: &ringcall_dispatcher::ring::Call<'_>| {
        if warp.lane() == 0 {
            counted.fetch_add(1, Relaxed);
        }
        increment(warp, call)
    };
    let device = Arc::new(Device::<false>::new(vec![Box::new(handler)], None));
    let entries = vec![entry(THREAD, HandlerKind::Thread, 0), entry(WARP, HandlerKind::Warp, 0)];
    let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &device);
    let mut client = Client::new(&running.setup);
    client.drive(increments(&parts.ring, THREAD, count).enumerate().map(|(i, mut ask)| {
        ask.function = if i % 3 == 0 { THREAD } else { WARP };
        ask
    }));
    let report = running.drain();
    assert_eq!(calls.load(Relaxed), count, "calls of the handler");
    for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
        assert_eq!(report.counters.get(counter), count, "{counter:?} of {shape:?} by {warps:?}");
    }
    assert_eq!(report.counters.answered(), count);
}

#[test]
fn one_warp_that_does_everything() {
    for lanes in [1, 2, 4] {
        for shape in SHAPES {
            serves(
                shape,
                Warps { workers: 1, lanes, maintenance_warp: false },
                if lanes == 1 { 4000 } else { 400 },
            );
        }
    }
}

#[test]
fn one_warp_and_a_maintenance_warp() {
    for (lanes, shape) in [(1, SHAPES[3]), (2, SHAPES[2]), (4, SHAPES[4])] {
        serves(shape, Warps { workers: 1, lanes, maintenance_warp: true }, 400);
    }
}

#[test]
fn warps_of_one_lane() {
    for shape in SHAPES {
        serves(shape, Warps { workers: 3, lanes: 1, maintenance_warp: true }, 3000);
    }
}

#[test]
fn warps_of_two_lanes() {
    for shape in SHAPES {
        serves(shape, Warps { workers: 3, lanes: 2, maintenance_warp: true }, 400);
    }
}

#[test]
fn warps_of_four_lanes() {
    for shape in SHAPES {
        serves(shape, Warps { workers: 2, lanes: 4, maintenance_warp: true }, 200);
    }
}

#[test]
fn several_warps_without_a_maintenance_warp() {
    serves(SHAPES[3], Warps { workers: 3, lanes: 1, maintenance_warp: false }, 3000);
    serves(SHAPES[5], Warps { workers: 2, lanes: 2, maintenance_warp: false }, 400);
}

#[test]
fn as_many_warps_as_a_block_has() {
    serves(SHAPES[4], Warps { workers: 31, lanes: 1, maintenance_warp: true }, 2000);
}

/// Two blocks, each with its share of one ring.
#[test]
fn two_blocks_share_a_ring() {
    let parts = ring([21, 64, 64]);
    let warps = Warps { workers: 2, lanes: 1, maintenance_warp: true };
    let running = [0, 1].map(|block| {
        let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
        let entries = vec![entry(THREAD, HandlerKind::Thread, 0)];
        let setup = Setup::new(&parts, entries, warps, RingOptions::default());
        start(setup.sharing(Partition::of(21, block, 2)), &device)
    });
    let mut client = Client::new(&running[0].setup);
    client.drive(increments(&parts.ring, THREAD, 3000));
    let completed = running.map(|running| running.drain().counters.get(Counter::Completed));
    assert_eq!(completed.iter().sum::<u64>(), 3000);
    assert!(completed.iter().all(|&n| n > 0), "{completed:?}");
}

/// A result longer than the payload, and one of no bytes.
#[test]
fn results_of_any_length() {
    let parts = ring([16, 64, 1304]);
    let room = parts.ring.geometry().result_capacity() as usize;
    // The payload's first byte says how many bytes of 0xA5 to answer with, in eighths of the room.
    let fill = |warp: ringcall_gpu::team::Warp<'_>, call: &ringcall_dispatcher::ring::Call<'_>| {
        let eighths = crate::device::payload_word(call.input, 0) & 0xFF;
        for word in warp.stride(call.capacity as usize / 8) {
            call.output.set_word(HEADER_BYTES / 8 + word, 0xA5A5_A5A5_A5A5_A5A5);
        }
        Returned { status: 0, len: call.capacity * eighths as u32 / 8 }
    };
    let device = Arc::new(Device::<false>::new(vec![Box::new(fill)], None));
    let entries = vec![entry(WARP, HandlerKind::Warp, 0)];
    let warps = Warps { workers: 2, lanes: 2, maintenance_warp: true };
    let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &device);
    let mut client = Client::new(&running.setup);
    client.drive((0..270_u64).map(|i| {
        let result = vec![0xA5; room * (i as usize % 9) / 8];
        Ask { function: WARP, payload: vec![(i % 9) as u8], status: Status::OK, result }
    }));
    running.drain();
}

/// The request's header is there for the handler, and so are bytes of the payload that no word is whole of.
#[test]
fn a_handler_sees_the_request() {
    let parts = ring([4, 64, 64]);
    let echo = |warp: ringcall_gpu::team::Warp<'_>, call: &ringcall_dispatcher::ring::Call<'_>| {
        for word in warp.stride(5) {
            let seen = if word < 3 {
                call.input.word(word)
            } else {
                [u64::from(call.arg_len), crate::device::payload_word(call.input, 0)][word - 3]
            };
            call.output.set_word(3 + word, seen);
        }
        Returned { status: 0, len: 40 }
    };
    let device = Arc::new(Device::<false>::new(vec![Box::new(echo)], None));
    let entries = vec![entry(WARP, HandlerKind::Warp, 0)];
    let warps = Warps { workers: 1, lanes: 2, maintenance_warp: false };
    let running = start(Setup::new(&parts, entries, warps, RingOptions::default()), &device);
    let mut client = Client::new(&running.setup);
    let payload = bytes(3, 8);
    let header = ringcall_wire::RequestHeader::new(WARP, 8, 0, 2);
    let words = header.to_words();
    let seen = [words[0], words[1], words[2], 8, u64::from_le_bytes(payload[..8].try_into().expect("8"))];
    let result = seen.iter().flat_map(|word| word.to_le_bytes()).collect();
    client.send(2, &Ask { function: WARP, payload, status: Status::OK, result });
    client.take(2);
    running.drain();
}
