//! Calls that all threads of a grid take part in.

use crate::rig::*;
use crate::support::*;
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::queue_pair::{Copying, QueuePairBlockState, QueuePairEnd};
use ringcall_dispatcher::ring::grid::{self, CachedCall, GridCall, GridChannel, Participant};
use ringcall_dispatcher::ring::{Call, Machine, Returned};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::{self, Warp};
use ringcall_wire::counter::Counter;
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;
use std::sync::atomic::Ordering::Relaxed;

/// What the grid handler's address stands for.
const HANDLER: u64 = 0xC0DE;

/// What the polling warp calls with.
struct GridPoller<'a> {
    port: grid::GridPort<'a>,
    others: u64,
    work: &'a dyn Fn(GridCall) -> Returned,
}

impl Machine for GridPoller<'_> {
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        Threads.call_thread(call)
    }

    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned {
        Threads.call_warp(warp, call)
    }

    fn call_grid(&self, warp: Warp<'_>, call: &Call<'_>, meanwhile: impl FnOnce()) -> Option<Returned> {
        let (arg_len, capacity) = (call.arg_len, call.capacity);
        let what = GridCall { handler: call.address, arg_len, capacity, staging: 0 };
        Some(self.port.call_grid(warp, self.others, what, meanwhile, self.work))
    }

    fn sleep(&self) {}
    fn sleep_until_next_round(&self) {}
}

fn table() -> Table {
    Table::new(vec![
        entry("increment", HandlerKind::Thread, 0),
        entry("increment together", HandlerKind::Warp, 1),
        DeviceEntry { arg_bytes: 16, ..entry("sixteen", HandlerKind::Grid, HANDLER) },
        entry("all", HandlerKind::Grid, HANDLER),
        entry("graph", HandlerKind::Graph, 0),
    ])
}

/// A grid over the queues of `kernel`, from start to stop. Its last warp of the first block polls, or with `single` its first thread alone;
/// how often each thread took part.
fn grid(kernel: KernelRig<'_>, [blocks, threads]: [u32; 2], single: bool) -> Vec<u64> {
    let (channel, block_state, table) = (GridChannel::default(), QueuePairBlockState::default(), table());
    let cached: Vec<CachedCall> = (0..blocks).map(|_| CachedCall::default()).collect();
    let staging = [kernel.staging(), kernel.staging()];
    let turns: Vec<_> = (0..blocks * threads).map(|_| DeviceU64::new(0)).collect();
    let over = team::run_grid(blocks, threads, |grid| {
        let (input, output) = (StagingBuffer::new(&staging[0]), StagingBuffer::new(&staging[1]));
        let (block, is_pollers_block) = (grid.as_block(), grid.block() == 0);
        let port = channel.port(block, &cached[grid.block() as usize]);
        let work = |call: GridCall| {
            assert_eq!(call.handler, HANDLER);
            // The host sees a call while it runs, also of one that does not end.
            until(|| kernel.control.load(control::BUSY, Relaxed) != 0);
            turns[grid.rank() as usize].fetch_add(1, Relaxed);
            for word in grid.stride(call.arg_len.div_ceil(8) as usize) {
                output.set_word(3 + word, increment_word(input.word(3 + word)));
            }
            Returned { status: 0, len: call.arg_len }
        };
        let first = if single { 0 } else { (threads - 1) / 32 * 32 };
        let polls = is_pollers_block && if single { block.thread() == 0 } else { block.thread() >= first };
        if !polls {
            port.participate(
                if is_pollers_block { Participant::PollersBlock } else { Participant::Other },
                work,
            );
            return QueuePairEnd::Ended;
        }
        let warp = if single { Warp::single() } else { block.warp() };
        let machine = GridPoller { port, others: u64::from(blocks - 1), work: &work };
        let over = kernel
            .dispatcher(&block_state, &table, &machine, None, (Extent::Received, 1))
            .run_alone(warp, input, output);
        port.dismiss(warp);
        over
    });
    assert!(over.iter().all(|over| *over == QueuePairEnd::Ended), "{over:?}");
    turns.iter().map(|turns| turns.load(Relaxed)).collect()
}

const TEAMS: [([u32; 2], bool, u64); 4] =
    [([1, 1], true, 200), ([1, 3], true, 80), ([3, 2], true, 40), ([2, 34], false, 8)];

#[test]
fn all_take_part_beside_the_others() {
    for (size, single, n) in TEAMS {
        let shape = Shape { sequence: true, ..Shape::of_depth(16) };
        let mut bench = Bench::new(&shape);
        let mut calls = 0;
        // Twice: the cursors go on.
        for turn in 0..2_u64 {
            let mut took = Vec::new();
            let took_part = &mut took;
            bench.play(
                Copying::FirstWordLast,
                move |kernel| *took_part = grid(kernel, size, single),
                |peer, _| {
                    let names = ["all", "increment", "all", "increment together"];
                    let ask = |i: u64| {
                        let payload = request(i);
                        let payload =
                            payload[..payload.len().min(shape.stride as usize - HEADER_BYTES)].to_vec();
                        (names[(i % 4) as usize], payload)
                    };
                    let (mut sent, mut answered) = (turn * n, turn * n);
                    while answered < (turn + 1) * n {
                        while sent < (turn + 1) * n && sent < answered + 8 {
                            let (name, payload) = ask(sent);
                            let bytes = frame(name, payload.len() as u32, sent as u32, &payload);
                            send(peer, &shape, (sent % u64::from(shape.slots)) as u32, sent as u32, &bytes);
                            sent += 1;
                        }
                        let (header, result) = receive(peer);
                        assert_eq!((header.status(), header.request_id), (Status::OK, answered as u32));
                        assert_eq!(result, incremented(&ask(answered).1), "request {answered}");
                        answered += 1;
                    }
                },
            );
            let asked = (turn * n..(turn + 1) * n).filter(|i| i % 2 == 0).count() as u64;
            assert_eq!(took, vec![asked; (size[0] * size[1]) as usize], "each thread runs each call once");
            calls += asked;
        }
        assert_eq!(calls, n);
        assert_eq!(bench.control.load(control::STATE, Relaxed), control::STATE_ENDED);
        assert_eq!(bench.count(Counter::Completed), 2 * n);
        assert_eq!(bench.control.load(control::POSTED, Relaxed), bench.control.load(control::DONE, Relaxed));
        bench.end();
    }
}

#[test]
fn what_is_wrong_is_refused_and_the_grid_goes_on() {
    let shape = Shape { slots: 8, ..Shape::of_depth(4) };
    let room = shape.stride - HEADER_BYTES as u32;
    let mut bad_magic = frame("all", 4, 9, b"1234");
    bad_magic[0] ^= 1;
    let cases = [
        (frame("all", 8, 1, &[1; 8]), Status::OK, 8),
        (frame("sixteen", 16, 2, &[1; 16]), Status::OK, 16),
        (frame("sixteen", 8, 3, &[1; 8]), Status::SCHEMA_MISMATCH, 0),
        (frame("graph", 8, 4, &[1; 8]), Status::WRONG_MODE, 0),
        (frame("nobody", 8, 5, &[1; 8]), Status::UNKNOWN_FUNCTION, 0),
        (frame("all", room + 1, 6, &[1; 8]), Status::ARG_TOO_LONG, 0),
        (frame("all", 9, 7, &[1; 8]), Status::ARG_TOO_LONG, 0),
        (bad_magic, Status::BAD_MAGIC, 0),
        (Vec::new(), Status::BAD_MAGIC, 0),
        (frame("all", room, 10, &vec![3; room as usize]), Status::OK, room),
        (frame("all", 0, 11, &[]), Status::OK, 0),
    ];
    let mut bench = Bench::new(&shape);
    bench.play(
        Copying::Not,
        |kernel| drop(grid(kernel, [2, 2], true)),
        |peer, _| {
            for (slot, (bytes, status, len)) in (0..).map(|i| i % 3).zip(&cases) {
                send(peer, &shape, slot, 0, bytes);
                let (header, result) = receive(peer);
                assert_eq!((header.status(), header.result_len), (*status, *len), "{bytes:x?}");
                if status.is_ok() {
                    assert_eq!(result, incremented(&bytes[HEADER_BYTES..]));
                }
            }
        },
    );
    for (_, status, _) in &cases {
        let outstanding = cases.iter().filter(|(_, other, _)| other == status).count() as u64;
        assert_eq!(bench.count(Counter::of_status(*status)), outstanding, "{status}");
    }
    bench.end();
}

/// What was under way when the stop came is answered before the end, or at the next start.
#[test]
fn a_burst_that_is_stopped_is_answered_in_the_end() {
    for how in [control::STOP_DRAIN, control::STOP_NOW] {
        let shape = Shape { sequence: true, ..Shape::of_depth(16) };
        let mut bench = Bench::new(&shape);
        for turn in 0..3_u32 {
            let control = bench.control.clone();
            bench.play(
                Copying::Not,
                |kernel| drop(grid(kernel, [2, 1], true)),
                |peer, _| {
                    for slot in 0..16 {
                        send(peer, &shape, slot, turn * 16 + slot, &frame("all", 8, slot, &[7; 8]));
                    }
                    control.store(control::STOP, how, Relaxed);
                },
            );
            bench.play(
                Copying::Not,
                |kernel| drop(grid(kernel, [2, 1], true)),
                |peer, _| {
                    for slot in 0..16 {
                        let (header, result) = receive(peer);
                        assert_eq!((header.status(), header.request_id), (Status::OK, slot));
                        assert_eq!(result, [8; 8]);
                    }
                },
            );
        }
        assert_eq!(bench.count(Counter::Completed), 48);
        bench.end();
    }
}
