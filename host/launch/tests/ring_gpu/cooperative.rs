//! Cooperative grids: calls that all threads take part in, and the others beside them.

use crate::rig::{self, call, calls, counted, flood, on_device, pattern, slot, slots, stop_clean};
use ringcall_cuda::driver::Context;
use ringcall_launch::ring::{DeviceDispatcher, DispatcherOptions, KernelKind};
use ringcall_wire::Counter;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::Status;
use std::sync::Arc;

const MIRRORS: u64 = 2_000;

fn serves(context: &Arc<Context>, blocks: u32, threads: u32) {
    let options = DispatcherOptions::new(KernelKind::Cooperative { blocks, threads });
    for (count, slot_bytes) in [(1, 576), (16, 576), (64, 4096), (200, 576)] {
        let ring = rig::ring(context, count, slot_bytes);
        let functions = calls(slot_bytes).handlers(&rig::samples(slot_bytes, &[HandlerKind::Grid]));
        let running = rig::wire(&ring, functions, options).start().expect("started");
        let ring = ring.ring();
        let names = ["rpc_increment_grid", "rpc_increment", "rpc_increment_grid", "rpc_increment_warp"];
        let lengths = [0, 1, 7, 8, 31, 32, 488, 512, 1000];
        let mut n = 0;
        for len in lengths.into_iter().filter(|&len| len + 24 <= slot_bytes as usize) {
            flood(ring.shared(), &slots(ring), &names, len, 400);
            n += 400;
        }
        let at = slot(ring, count - 1);
        for i in 0..MIRRORS {
            let input: Vec<u8> = (0..256).map(|at| pattern(i, at)).collect();
            let answer = call(ring, at, "rpc_grid_mirror", &input);
            let plus = |at: usize| input[at].wrapping_add(1);
            let owed: Vec<u8> = (0..256).map(|at| plus(at).wrapping_add(plus(255 - at))).collect();
            assert_eq!((answer.status, answer.result), (Status::OK, owed), "{blocks}x{threads}: {i}");
        }
        assert_eq!(call(ring, at, "rpc_grid_mirror", &[0; 255]).status, Status::SCHEMA_MISMATCH);
        assert_eq!(call(ring, at, "rpc_mock_decode", &[1; 16]).result, [0]);
        assert_eq!(call(ring, at, "rpc_refuse", &7_i32.to_le_bytes()).status, Status(7));
        counted(&running, "every call", |c| {
            (c.get(Counter::Completed), c.answered()) == (n + MIRRORS + 1, n + MIRRORS + 3)
                && (c.rejected(), c.get(Counter::HandlerErrors)) == (1, 1)
        });
        stop_clean(running);
    }
}

#[test]
fn a_grid_of_8_blocks_of_128_serves() {
    on_device("a_grid_of_8_blocks_of_128_serves", |context| serves(context, 8, 128));
}

#[test]
fn a_grid_of_4_blocks_of_64_serves() {
    on_device("a_grid_of_4_blocks_of_64_serves", |context| serves(context, 4, 64));
}

#[test]
fn a_grid_of_one_block_serves() {
    on_device("a_grid_of_one_block_serves", |context| serves(context, 1, 32));
}

/// A separate block serves, and calls four others: one request at a time, and many.
#[test]
fn a_grid_that_is_served_ahead() {
    const HANDLER: &str = include_str!("../ptx/ahead.ptx");
    on_device("a_grid_that_is_served_ahead", |context| {
        let options = DispatcherOptions::new(KernelKind::Ahead { blocks: 4, threads: 64 });
        for (count, slot_bytes) in [(1, 576), (16, 576), (64, 4096), (200, 576)] {
            let ring = rig::ring(context, count, slot_bytes);
            let (schema, kind) = (HandlerSchema::new(), HandlerKind::Grid);
            let functions = calls(slot_bytes).symbol("ahead", "increment_in_four_blocks", kind, schema);
            let modules = rig::modules(context).ptx("a grid handler", HANDLER);
            let wired = DeviceDispatcher::wire(&ring, functions, modules, options).expect("wired");
            let running = wired.start().expect("started");
            let ring = ring.ring();
            let mut n = 0;
            for names in [&["ahead"][..], &["ahead", "rpc_increment", "ahead", "rpc_increment_warp"]] {
                for len in [0, 1, 7, 8, 31, 488, 512, 1000]
                    .into_iter()
                    .filter(|&len| len + 24 <= slot_bytes as usize)
                {
                    flood(ring.shared(), &slots(ring), names, len, 2_000);
                    n += 2_000;
                }
            }
            let answer = call(ring, slot(ring, count - 1), "ahead", &[41; 100]);
            assert_eq!((answer.status, answer.result), (Status::OK, vec![42; 100]));
            counted(&running, "every call", |c| c.get(Counter::Completed) == n + 1 && c.rejected() == 0);
            stop_clean(running);
        }
    });
}
