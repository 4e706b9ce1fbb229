//! Regular kernels: every handler, payload, ring and slot size.

use crate::rig::{self, TIMEOUT, call, counted, drive, flood, on_device, pattern, slot, slots, stop_clean};
use ringcall_cuda::driver::Context;
use ringcall_launch::ring::KernelKind;
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAYLOADS: [usize; 9] = [0, 1, 7, 8, 31, 32, 488, 512, 1000];
const RINGS: [u32; 5] = [1, 3, 16, 64, 200];
const SLOT_BYTES: [u32; 4] = [64, 576, 4096, 65536];

/// Names of the thread and warp handlers that add 1 to every byte.
const INCREMENTS: [&str; 4] =
    ["rpc_increment", "rpc_increment_bytes", "rpc_increment_bytes_alone", "rpc_increment_warp"];

fn every_shape(context: &Arc<Context>, blocks: u32, warps: u32) {
    let kernel = KernelKind::Regular { blocks, warps };
    for slot_bytes in SLOT_BYTES {
        for slots in RINGS {
            let (ring, running) = rig::start(context, (slots, slot_bytes), kernel);
            let shared = ring.ring().shared();
            let all = rig::slots(ring.ring());
            let mut calls = 0;
            for len in PAYLOADS.into_iter().filter(|&len| len + 24 <= slot_bytes as usize) {
                let n = 8 * INCREMENTS.len() as u64 + 2 * u64::from(slots);
                flood(shared, &all, &INCREMENTS, len, n);
                calls += n;
            }
            calls += typed(ring.ring());
            counted(&running, &format!("every call: {kernel:?}, {slots} slots of {slot_bytes}"), |c| {
                let each = [Counter::Received, Counter::Dispatched, Counter::Completed];
                each.into_iter().all(|counter| c.get(counter) == calls) && c.answered() == calls
            });
            stop_clean(running);
        }
    }
}

/// Typed handlers; how many calls.
fn typed(ring: &ringcall::Ring) -> u64 {
    let last = slot(ring, ring.geometry().slots() - 1);
    for i in 0..16_u64 {
        let syndrome: Vec<u8> = (0..16).map(|at| pattern(i, at)).collect();
        let parity = syndrome.iter().map(|byte| byte.count_ones()).sum::<u32>() & 1;
        let answer = call(ring, last, "rpc_mock_decode", &syndrome);
        assert_eq!((answer.status, answer.result), (Status::OK, vec![parity as u8]));
    }
    let answer = call(ring, last, "rpc_spin", &10_000_i64.to_le_bytes());
    assert_eq!(answer.status, Status::OK);
    let took = i64::from_le_bytes(answer.result.try_into().expect("eight bytes"));
    assert!(took >= 10_000, "it says that it took {took} ns");
    17
}

#[test]
fn every_shape_with_1_block_of_1_warp() {
    on_device("every_shape_with_1_block_of_1_warp", |context| every_shape(context, 1, 1));
}

#[test]
fn every_shape_with_1_block_of_2_warps() {
    on_device("every_shape_with_1_block_of_2_warps", |context| every_shape(context, 1, 2));
}

#[test]
fn every_shape_with_1_block_of_8_warps() {
    on_device("every_shape_with_1_block_of_8_warps", |context| every_shape(context, 1, 8));
}

#[test]
fn every_shape_with_4_blocks_of_1_warp() {
    on_device("every_shape_with_4_blocks_of_1_warp", |context| every_shape(context, 4, 1));
}

#[test]
fn every_shape_with_4_blocks_of_2_warps() {
    on_device("every_shape_with_4_blocks_of_2_warps", |context| every_shape(context, 4, 2));
}

#[test]
fn every_shape_with_4_blocks_of_8_warps() {
    on_device("every_shape_with_4_blocks_of_8_warps", |context| every_shape(context, 4, 8));
}

#[test]
fn every_sample_is_called_by_the_tests() {
    let known = [
        "rpc_increment_grid",
        "rpc_grid_mirror",
        "rpc_mock_decode",
        "rpc_spin",
        "rpc_refuse",
        "rpc_overclaim",
        "rpc_trigger",
    ];
    for handler in ringcall_kernels::samples::handlers::all() {
        assert!(INCREMENTS.contains(&handler.name) || known.contains(&handler.name), "{}", handler.name);
    }
}

#[test]
fn several_producers_at_once() {
    on_device("several_producers_at_once", |context| {
        for (blocks, warps) in [(1, 2), (1, 16), (4, 8)] {
            let (ring, running) = rig::start(context, (64, 576), KernelKind::Regular { blocks, warps });
            std::thread::scope(|scope| {
                for part in rig::parts(ring.ring(), 4) {
                    let shared = ring.ring().shared();
                    scope.spawn(move || flood(shared, &part, &INCREMENTS, 512, 20_000));
                }
            });
            counted(&running, "every call", |c| {
                c.get(Counter::Completed) == 80_000 && c.answered() == 80_000
            });
            stop_clean(running);
        }
    });
}

#[test]
fn counters_are_read_while_it_runs() {
    on_device("counters_are_read_while_it_runs", |context| {
        const CALLS: u64 = 200_000;
        let (ring, running) = rig::start(context, (64, 576), KernelKind::regular());
        let done = AtomicBool::new(false);
        let mut seen_between = 0;
        std::thread::scope(|scope| {
            let (shared, all, done) = (ring.ring().shared(), slots(ring.ring()), &done);
            scope.spawn(move || {
                // Said also if it panics, so that the reader below ends.
                struct Done<'a>(&'a AtomicBool);
                impl Drop for Done<'_> {
                    fn drop(&mut self) {
                        self.0.store(true, Ordering::Release);
                    }
                }
                let _done = Done(done);
                flood(shared, &all, &INCREMENTS, 32, CALLS);
            });
            let mut last = 0;
            while !done.load(Ordering::Acquire) {
                let now = running.counters().get(Counter::Completed);
                assert!(now >= last && now <= CALLS, "{now} after {last}");
                seen_between += u64::from(now > last && now < CALLS);
                last = now;
            }
        });
        assert!(seen_between > 10, "the counters moved {seen_between} times while {CALLS} calls ran");
        counted(&running, "every call", |c| c.get(Counter::Completed) == CALLS);
        assert!(running.watch().is_alive(TIMEOUT), "the heart beats");
        stop_clean(running);
    });
}

#[test]
fn slow_and_fast_handlers_mix() {
    on_device("slow_and_fast_handlers_mix", |context| {
        let kernel = KernelKind::Regular { blocks: 1, warps: 8 };
        let (ring, running) = rig::start(context, (16, 64), kernel);
        let (spin, fast) = (FunctionId::of("rpc_spin").0, FunctionId::of("rpc_increment").0);
        let shared = ring.ring().shared();
        drive(
            shared,
            &slots(ring.ring()),
            20_000,
            |i, vacant| {
                // Every 16th takes 20 µs.
                let (function, word) = if i % 16 == 0 { (spin, 20_000) } else { (fast, i) };
                vacant.submit(shared, function, i as u32, 0, &word.to_le_bytes()).expect("it fits");
            },
            |i, response| {
                let mut result = [0; 8];
                assert_eq!((response.header().status, response.read(shared, &mut result)), (0, 8), "{i}");
                if i % 16 == 0 {
                    assert!(u64::from_le_bytes(result) >= 20_000, "{i}");
                } else {
                    assert_eq!(result, i.to_le_bytes().map(|byte| byte.wrapping_add(1)), "{i}");
                }
            },
        );
        stop_clean(running);
    });
}
