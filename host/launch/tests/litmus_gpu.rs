//! The memory contract between host and device, at full speed: what a flag promises, every word of every message shows.
//!
//! Requests go through mapped memory to the dispatcher and come back changed, as fast as one thread can turn them round.
//! Payloads differ in every word from one to the next, and their lengths change, so that a word that was read before its
//! flag promised it is a wrong word in the answer. `RINGCALL_LITMUS_ROUNDS` says how many round trips each test makes.

mod device;
#[allow(dead_code)] // the other tests of the dispatcher use the rest
#[path = "ring_gpu/rig.rs"]
mod rig;

use rig::{drive, on_device, setting, slots, stop_clean};
use ringcall_launch::ring::KernelKind;
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::RESPONSE_MAGIC;

/// Words of the longest message.
const WORDS: u64 = 64;
const SLOT_BYTES: u32 = 24 + 8 * WORDS as u32;

/// Word `at` of message `i`: no byte of it is the same in the message before or in the word before.
const fn word(i: u64, at: u64) -> u64 {
    let byte = (i.wrapping_mul(29) ^ i >> 8).wrapping_add(at.wrapping_mul(101)) & 0xFF;
    // Every byte differs from its neighbours too, so that a torn word shows.
    (byte * 0x0101_0101_0101_0101) ^ 0x0706_0504_0302_0100
}

/// The same with 1 added to every byte.
fn answered(i: u64, at: u64) -> u64 {
    u64::from_le_bytes(word(i, at).to_le_bytes().map(|byte| byte.wrapping_add(1)))
}

/// Words of message `i`: 1 to 64, long and short in turn.
const fn length(i: u64) -> usize {
    (i.wrapping_mul(27) % WORDS + 1) as usize
}

/// Round trips through `count` slots, all of them under way at once.
fn round_trips(name: &str, kernel: KernelKind, count: u32, functions: &[&str]) {
    on_device(name, |context| {
        let rounds = setting("RINGCALL_LITMUS_ROUNDS", 100_000_u64);
        let (ring, running) = rig::start(context, (count, SLOT_BYTES), kernel);
        let (ring, ids) = (ring.ring(), functions.iter().map(|name| FunctionId::of(name).0));
        let (shared, ids) = (ring.shared(), ids.collect::<Vec<_>>());
        let mut payload = [0; 8 * WORDS as usize];
        let mut result = [0; 8 * WORDS as usize];
        drive(
            shared,
            &slots(ring),
            rounds,
            |i, vacant| {
                let len = length(i);
                for (at, bytes) in payload.chunks_exact_mut(8).take(len).enumerate() {
                    bytes.copy_from_slice(&word(i, at as u64).to_le_bytes());
                }
                let id = ids[i as usize % ids.len()];
                vacant.submit(shared, id, i as u32, !i, &payload[..8 * len]).expect("the payload fits");
            },
            |i, response| {
                let (header, len) = (response.header(), length(i));
                let echo = (header.magic, header.status, header.request_id, header.ptp_timestamp);
                assert_eq!(echo, (RESPONSE_MAGIC, 0, i as u32, !i), "round {i}: the header");
                assert_eq!(header.result_len as usize, 8 * len, "round {i}: the length");
                response.read(shared, &mut result);
                for (at, bytes) in (0..).zip(result.chunks_exact(8).take(len)) {
                    let got = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                    assert_eq!(got, answered(i, at), "round {i}, word {at} of {len}, {got:#x}");
                }
            },
        );
        rig::counted(&running, "every round", |c| {
            c.get(Counter::Completed) == rounds && c.answered() == rounds
        });
        stop_clean(running);
    });
}

const ONE_WARP: KernelKind = KernelKind::Regular { blocks: 1, warps: 1 };
const TWO_WARPS: KernelKind = KernelKind::Regular { blocks: 1, warps: 2 };
const EIGHT_WARPS: KernelKind = KernelKind::Regular { blocks: 1, warps: 8 };
const THREAD: &[&str] = &["rpc_increment"];
const WARP: &[&str] = &["rpc_increment_warp"];
const BOTH: &[&str] = &["rpc_increment_warp", "rpc_increment", "rpc_increment_bytes"];

#[test]
fn messages_differ_in_every_byte() {
    for i in 0..10_000 {
        for at in 0..WORDS {
            let differs = |other: u64| (word(i, at) ^ other).to_le_bytes().iter().all(|byte| *byte != 0);
            assert!(differs(word(i + 1, at)) && differs(word(i, at + 1)), "{i}, {at}");
            assert!(differs(word(i + 2, at)), "two slots in turn: {i}, {at}");
        }
    }
    let lengths: std::collections::BTreeSet<_> = (0..64).map(length).collect();
    assert_eq!((lengths.first(), lengths.last(), lengths.len()), (Some(&1), Some(&64), 64));
}

#[test]
fn one_slot_one_warp() {
    round_trips("one_slot_one_warp", ONE_WARP, 1, THREAD);
}

#[test]
fn one_slot_two_warps() {
    round_trips("one_slot_two_warps", TWO_WARPS, 1, WARP);
}

#[test]
fn one_slot_eight_warps() {
    round_trips("one_slot_eight_warps", EIGHT_WARPS, 1, BOTH);
}

#[test]
fn two_slots_in_turn_one_warp() {
    round_trips("two_slots_in_turn_one_warp", ONE_WARP, 2, WARP);
}

#[test]
fn two_slots_in_turn_eight_warps() {
    round_trips("two_slots_in_turn_eight_warps", EIGHT_WARPS, 2, THREAD);
}

#[test]
fn many_slots_eight_warps() {
    round_trips("many_slots_eight_warps", EIGHT_WARPS, 64, BOTH);
}

#[test]
fn many_slots_four_blocks() {
    round_trips("many_slots_four_blocks", KernelKind::Regular { blocks: 4, warps: 8 }, 64, BOTH);
}
