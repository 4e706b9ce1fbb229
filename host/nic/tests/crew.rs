//! A crew of warps over a queue pair, played by threads: as the unified kernel runs it.
#![cfg(not(loom))]

mod support;

use ringcall_dispatch::persistent::{Call, DeviceTable, Machine, Returned};
use ringcall_dispatch::table::{EMPTY, IdIndex};
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::{self, WARP_LANES, Warp};
use ringcall_nic::thread::Running;
use ringcall_nic::{Fault, Message, Port, Queue, Wire};
use ringcall_verbs::Event;
use ringcall_verbs::crew::{Bell, Board, Copying, Crew, Over};
use ringcall_verbs::endpoint::{SLOT_BITS, Windows};
use ringcall_verbs::layout::cqe::{Syndrome, opcode};
use ringcall_verbs::sq::RecordMode;
use ringcall_verbs::unified::Extent;
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use support::*;

/// Functions by their addresses.
const FUNCTIONS: [(&str, HandlerKind, u32); 6] = [
    ("increment", HandlerKind::Thread, DeviceEntry::NONE),
    ("increment together", HandlerKind::Warp, DeviceEntry::NONE),
    ("eight", HandlerKind::Thread, 8),
    ("fails", HandlerKind::Thread, DeviceEntry::NONE),
    ("boasts", HandlerKind::Warp, DeviceEntry::NONE),
    ("elsewhere", HandlerKind::Graph, DeviceEntry::NONE),
];

fn increment_word(word: u64) -> u64 {
    u64::from_le_bytes(word.to_le_bytes().map(|byte| byte.wrapping_add(1)))
}

struct Threads;

impl Machine for Threads {
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        if call.address == 3 {
            return Returned { status: 7, len: 0 };
        }
        for word in 3..3 + (call.arg_len as usize).div_ceil(8) {
            call.output.set_word(word, increment_word(call.input.word(word)));
        }
        Returned { status: 0, len: call.arg_len }
    }

    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned {
        if call.address == 4 {
            return Returned { status: 0, len: 100_000 };
        }
        for word in warp.stride((call.arg_len as usize).div_ceil(8)) {
            call.output.set_word(3 + word, increment_word(call.input.word(3 + word)));
        }
        Returned { status: 0, len: call.arg_len }
    }

    fn nap(&self) {}
    fn rest(&self) {}
}

fn table() -> (IdIndex, Vec<ringcall_wire::launch::TableCell>, Vec<DeviceEntry>) {
    let entries: Vec<_> = (0..)
        .zip(FUNCTIONS)
        .map(|(address, (name, kind, arg_bytes))| DeviceEntry {
            address,
            id: FunctionId::of(name).0,
            kind: kind as u32,
            arg_bytes,
            follow_up: DeviceEntry::NONE,
            execs: 0,
            io_stride: 0,
            routing_key: 0,
            next_route: DeviceEntry::NONE,
            reserved: 0,
        })
        .collect();
    let mut cells = vec![EMPTY; 32];
    let index = IdIndex::build(entries.len(), |i| entries[i].id, &mut cells).expect("distinct ids");
    (index, cells, entries)
}

#[derive(Clone, Copy)]
struct Team {
    threads: u32,
    extent: Extent,
    copying: Copying,
}

impl Team {
    const fn of(threads: u32) -> Self {
        Self { threads, extent: Extent::Received, copying: Copying::Staged }
    }
}

struct Bench {
    shape: Shape,
    windows: Windows,
    control: ringcall_gpu::shared::Words,
    nic: Running<Wire>,
    uar: ringcall_gpu::shared::Words,
    peer: Wire,
}

impl Bench {
    fn new(shape: &Shape) -> Self {
        let windows = windows(shape);
        let uar = words(8);
        let (nic, peer) = nic_over(shape, &windows, &uar);
        let nic = Running::start(nic).expect("a thread");
        Self { shape: *shape, windows, control: words(control::WORDS), nic, uar, peer }
    }

    /// Runs `client` against a crew, from start to stop.
    fn serve(&mut self, team: Team, client: impl FnOnce(&mut Wire, &Running<Wire>)) {
        let Self { shape, windows, control, nic, uar, peer } = self;
        control.store(control::STATE, control::STATE_NEW, Relaxed);
        control.store(control::STOP, control::STOP_NO, Relaxed);
        let bell = Bell::new(uar.clone(), team.copying).expect("8 words");
        thread::scope(|scope| {
            let (shape, windows, shared) = (&*shape, &*windows, &*control);
            let crew = scope.spawn(move || run(shape, windows, shared, &bell, team));
            let mut patience = Patience::default();
            while control.load(control::STATE, Relaxed) == control::STATE_NEW {
                patience.wait();
                thread::yield_now();
            }
            {
                // Also if the client panics, so that the test fails and does not hang.
                let _stop = Stop(control);
                client(peer, nic);
            }
            crew.join().expect("the crew");
        });
        assert_eq!(self.control.load(control::STATE, Relaxed), control::STATE_ENDED);
        if self.control.load(control::DEAD, Relaxed) == 0 {
            assert_eq!(
                self.control.load(control::POSTED, Relaxed),
                self.control.load(control::DONE, Relaxed)
            );
        }
    }

    fn count(&self, counter: Counter) -> u64 {
        self.control.load(control::COUNTERS + counter as usize, Relaxed)
    }

    fn event(&self, event: Event) -> u64 {
        self.control.load(control::EVENTS + event as usize, Relaxed)
    }

    fn end(self) {
        assert_obeyed(&self.nic.stop().expect("NIC"));
    }
}

struct Stop<'a>(&'a ringcall_gpu::shared::Words);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(control::STOP, control::STOP_DRAIN, Relaxed);
    }
}

fn run(shape: &Shape, windows: &Windows, shared: &ringcall_gpu::shared::Words, bell: &Bell, with: Team) {
    let (index, cells, entries) = table();
    let board = Board::default();
    let warps = with.threads.div_ceil(WARP_LANES);
    let stages: Vec<Vec<BlockU64>> = (0..2 * warps)
        .map(|_| (0..shape.stride.div_ceil(16) * 2).map(|_| BlockU64::new(0)).collect())
        .collect();
    let crew = Crew {
        config: config(shape),
        extent: with.extent,
        windows,
        bell,
        table: DeviceTable::new(index, &cells, &entries),
        board: &board,
        control: shared,
        machine: &Threads,
        warps,
    };
    let over = team::run_grid(1, with.threads, |grid| {
        let block = grid.as_block();
        let me = (block.thread() / WARP_LANES) as usize;
        crew.run(block, Stage::new(&stages[2 * me]), Stage::new(&stages[2 * me + 1]))
    });
    assert!(over.iter().all(|over| *over == Over::Ended), "{over:?}");
}

fn frame(function: &str, arg_len: u32, id: u32, payload: &[u8]) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of(function).0, arg_len, id, 1000 + u64::from(id));
    [&header.to_bytes(), payload].concat()
}

fn send(peer: &mut Wire, shape: &Shape, slot: u32, number: u32, frame: &[u8]) {
    let message = Message::WriteImm {
        address: u64::from(slot) * u64::from(shape.stride),
        rkey: RX_KEY,
        immediate: slot | number << SLOT_BITS,
    };
    assert!(peer.send(message, frame));
}

fn receive(peer: &mut Wire) -> (ResponseHeader, Vec<u8>) {
    let mut payload = Vec::new();
    let mut patience = Patience::default();
    while peer.receive(&mut payload).is_none() {
        patience.wait();
        thread::yield_now();
    }
    let header = ResponseHeader::from_bytes(&payload).expect("a header");
    assert!(header.has_magic());
    assert_eq!(payload.len(), HEADER_BYTES + header.result_len as usize, "exactly as long as it is");
    (header, payload.split_off(HEADER_BYTES))
}

#[test]
fn every_status() {
    let shape = Shape { slots: 8, ..Shape::of_depth(4) };
    let room = shape.stride - HEADER_BYTES as u32;
    let mut bad_magic = frame("increment", 4, 9, b"1234");
    bad_magic[0] ^= 1;
    let cases: Vec<(Vec<u8>, Status, u32)> = vec![
        (frame("increment", 4, 1, b"1234"), Status::OK, 4),
        (frame("increment", 0, 2, b""), Status::OK, 0),
        (frame("increment together", 20, 3, &[1; 20]), Status::OK, 20),
        (frame("increment together", 21, 4, &[1; 21]), Status::OK, 21),
        (frame("increment", room, 5, &vec![3; room as usize]), Status::OK, room),
        (frame("eight", 8, 6, &[1; 8]), Status::OK, 8),
        (frame("eight", 4, 7, &[1; 4]), Status::SCHEMA_MISMATCH, 0),
        (frame("nobody", 4, 8, &[1; 4]), Status::UNKNOWN_FUNCTION, 0),
        (bad_magic, Status::BAD_MAGIC, 0),
        (frame("elsewhere", 4, 10, &[1; 4]), Status::WRONG_MODE, 0),
        (frame("fails", 0, 11, b""), Status(7), 0),
        (frame("boasts", 0, 12, b""), Status::RESULT_TOO_LONG, room),
        (frame("increment", room + 1, 13, &[1; 4]), Status::ARG_TOO_LONG, 0),
        (frame("increment", u32::MAX, 14, &[1; 4]), Status::ARG_TOO_LONG, 0),
        (frame("increment", 5, 15, &[1; 4]), Status::ARG_TOO_LONG, 0),
        // The slot still holds a whole request; what was received does not.
        (frame("increment", 4, 16, b"1234")[..HEADER_BYTES - 1].to_vec(), Status::BAD_MAGIC, 0),
        (Vec::new(), Status::BAD_MAGIC, 0),
        (frame("increment", 4, 17, b"1234"), Status::OK, 4),
    ];
    for threads in [1, 4] {
        let mut bench = Bench::new(&shape);
        bench.serve(Team::of(threads), |peer, _| {
            for (slot, (bytes, status, len)) in (0..).map(|i| i % 3).zip(&cases) {
                send(peer, &shape, slot, 0, bytes);
                let (header, result) = receive(peer);
                assert_eq!((header.status(), header.result_len), (*status, *len), "{bytes:x?}");
                if let Ok(request) = RequestHeader::from_bytes(bytes) {
                    let echoed = (header.request_id, header.ptp_timestamp);
                    assert_eq!(echoed, (request.request_id, request.ptp_timestamp));
                    if status.is_ok() {
                        assert_eq!(result, incremented(&bytes[HEADER_BYTES..]));
                    }
                }
            }
        });
        for (_, status, _) in &cases {
            let owed = cases.iter().filter(|(_, other, _)| other == status).count() as u64;
            assert_eq!(bench.count(Counter::for_rejection(*status)), owed, "{status}");
        }
        assert_eq!(bench.count(Counter::Received), cases.len() as u64);
        bench.end();
    }
}

/// Waits, not for ever.
fn until(done: impl Fn() -> bool) {
    let mut patience = Patience::default();
    while !done() {
        patience.wait();
        thread::yield_now();
    }
}

/// `total` requests, up to `window` of them under way, all checked.
fn flood(peer: &mut Wire, shape: &Shape, window: u64, from: u64, total: u64, mut between: impl FnMut(u64)) {
    let (mut sent, mut answered) = (from, from);
    while answered < from + total {
        while sent < from + total && sent < answered + window {
            let payload = request(sent);
            let payload = &payload[..payload.len().min(shape.stride as usize - HEADER_BYTES)];
            let function = if sent.is_multiple_of(3) { "increment together" } else { "increment" };
            let bytes = frame(function, payload.len() as u32, sent as u32, payload);
            send(peer, shape, (sent % u64::from(shape.slots)) as u32, sent as u32, &bytes);
            between(sent);
            sent += 1;
        }
        let (header, result) = receive(peer);
        assert_eq!((header.status(), header.request_id), (Status::OK, answered as u32));
        let payload = request(answered);
        let payload = &payload[..payload.len().min(shape.stride as usize - HEADER_BYTES)];
        assert_eq!(result, incremented(payload), "request {answered}");
        answered += 1;
    }
}

#[test]
fn queues_go_round_at_every_depth_and_over_restarts() {
    for (depth, threads, copying, record) in [
        (1, 1, Copying::Not, RecordMode::Written),
        (2, 4, Copying::Staged, RecordMode::Written),
        (64, 1, Copying::Not, RecordMode::NotWritten),
        (64, 4, Copying::Staged, RecordMode::Written),
        (1024, 1, Copying::Not, RecordMode::Written),
    ] {
        let shape = Shape { sequence: true, record, ..Shape::of_depth(depth) };
        let mut bench = Bench::new(&shape);
        let (window, total) = (u64::from(depth).div_ceil(2), 8 * u64::from(depth.clamp(16, 256)));
        for turn in 0..2 {
            bench.serve(Team { copying, ..Team::of(threads) }, |peer, _| {
                flood(peer, &shape, window, turn * total, total, |_| ());
            });
        }
        assert_eq!(bench.event(Event::RxRequests), 2 * total, "depth {depth}");
        assert_eq!(bench.event(Event::RxLost) + bench.event(Event::RxReordered), 0);
        assert_eq!(bench.count(Counter::Completed), 2 * total);
        bench.end();
    }
}

#[test]
fn several_warps_share_a_batch() {
    let shape = Shape::of_depth(64);
    let mut bench = Bench::new(&shape);
    bench.serve(Team::of(WARP_LANES + 2), |peer, _| flood(peer, &shape, 24, 0, 60, |_| ()));
    assert_eq!(bench.count(Counter::Completed), 60);
    bench.end();
}

#[test]
fn wrong_completions_in_between_change_nothing() {
    let shape = Shape { told: true, completions: 4, ..Shape::of_depth(64) };
    let mut bench = Bench::new(&shape);
    let (mut stray, mut failed, mut tx_stray) = (0, 0, 0);
    let control = bench.control.clone();
    bench.serve(Team::of(2), |peer, nic| {
        flood(peer, &shape, 16, 0, 1500, |i| {
            let wqe_counter = 0x7FF0;
            let fault = match i % 5 {
                0 => Fault::Stray { queue: Queue::Receive, opcode: opcode::REQUEST, wqe_counter },
                1 => Fault::Stray { queue: Queue::Receive, opcode: opcode::SIGNATURE_ERROR, wqe_counter },
                2 => Fault::FailReceive(Syndrome::LOCAL_ACCESS),
                3 => Fault::Stray { queue: Queue::Send, opcode: opcode::SEND, wqe_counter },
                _ => return,
            };
            match i % 5 {
                2 => failed += 1,
                3 => tx_stray += 1,
                _ => stray += 1,
            }
            assert!(nic.plant(fault));
        });
        // The last ones come after the last answer.
        let seen = |event: Event| control.load(control::EVENTS + event as usize, Relaxed);
        until(|| seen(Event::RxStray) >= stray && seen(Event::RxErrors) >= failed);
    });
    assert_eq!((bench.event(Event::RxStray), bench.event(Event::RxErrors)), (stray, failed));
    assert!(bench.event(Event::TxStray) <= tx_stray && stray + failed + tx_stray >= 1000);
    assert_eq!(bench.count(Counter::Completed), 1500);
    bench.end();
}

#[test]
fn a_request_of_several_messages_is_as_long_as_its_slot() {
    let shape = Shape { slots: 8, ..Shape::of_depth(4) };
    let bytes = frame("increment", 64, 1, &[5; 64]);
    let (first, second) = bytes.split_at(48);
    for (extent, status) in [(Extent::Slot, Status::OK), (Extent::Received, Status::ARG_TOO_LONG)] {
        let mut bench = Bench::new(&shape);
        bench.serve(Team { extent, ..Team::of(2) }, |peer, _| {
            assert!(peer.send(Message::Write { address: 128, rkey: RX_KEY }, first));
            let message = Message::WriteImm { address: 128 + 48, rkey: RX_KEY, immediate: 1 };
            assert!(peer.send(message, second));
            assert_eq!(receive(peer).0.status(), status);
        });
        bench.end();
    }
}

#[test]
fn a_dead_queue_pair_ends_it() {
    let shape = Shape::of_depth(4);
    let mut bench = Bench::new(&shape);
    let control = bench.control.clone();
    bench.serve(Team::of(2), |peer, nic| {
        flood(peer, &shape, 2, 0, 8, |_| ());
        assert!(nic.plant(Fault::Break));
        // The crew ends by itself: a stop that it sees first would end it in health.
        until(|| control.load(control::STATE, Relaxed) == control::STATE_ENDED);
    });
    assert_eq!(bench.control.load(control::DEAD, Relaxed), u64::from(Syndrome::FLUSHED.0));
    assert!(bench.event(Event::RxFlushed) > 0);
    bench.end();
}
