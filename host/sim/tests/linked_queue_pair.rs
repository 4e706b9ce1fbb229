//! The unified loop over hooks, on threads: its transport is a queue pair on the emulated NIC, or a plain ring of flags.
#![cfg(not(loom))]

mod support;

use ringcall_dispatcher::linked::queue_pair::Transport;
use ringcall_dispatcher::linked::{Hooked, Hooks, Over, Polled};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::ring::{Call, DeviceTable, Machine, Returned};
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::{Event, Register};
use ringcall_protocol::table::{EMPTY, IdIndex};
use ringcall_sim::nic::thread::Running;
use ringcall_sim::nic::{Nic, Port, Wire};
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;
use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use support::*;

const FUNCTIONS: [(&str, HandlerKind, u32); 6] = [
    ("increment", HandlerKind::Thread, DeviceEntry::NONE),
    ("eight", HandlerKind::Thread, 8),
    ("fails", HandlerKind::Thread, DeviceEntry::NONE),
    ("boasts", HandlerKind::Thread, DeviceEntry::NONE),
    ("together", HandlerKind::Warp, DeviceEntry::NONE),
    ("elsewhere", HandlerKind::Graph, DeviceEntry::NONE),
];

struct Thread;

impl Machine for Thread {
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        for word in 3..3 + (call.arg_len as usize).div_ceil(8) {
            let bytes = call.input.word(word).to_le_bytes().map(|byte| byte.wrapping_add(1));
            call.output.set_word(word, u64::from_le_bytes(bytes));
        }
        match call.address {
            2 => Returned { status: 7, len: 0 },
            3 => Returned { status: 0, len: 100_000 },
            _ => Returned { status: 0, len: call.arg_len },
        }
    }

    fn call_warp(&self, _: Warp<'_>, _: &Call<'_>) -> Returned {
        unreachable!("one thread is no warp")
    }

    fn sleep(&self) {}
    fn sleep_until_next_round(&self) {}
}

/// Runs the loop over `hooks` to its end.
fn dispatch(hooks: &mut impl Hooks, control: &Words, stride: u32) -> Over {
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
    let table = DeviceTable::new(index, &cells, &entries);
    let staging = || (0..stride / 8).map(|_| BlockU64::new(0)).collect::<Vec<_>>();
    let (input, output) = (staging(), staging());
    let hooked = Hooked { table, control, machine: &Thread, response_bytes: stride };
    hooked.run(hooks, StagingBuffer::new(&input), StagingBuffer::new(&output))
}

fn frame(function: &str, arg_len: u32, id: u32, payload: &[u8]) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of(function).0, arg_len, id, 1000 + u64::from(id));
    [&header.to_bytes(), payload].concat()
}

/// Requests with what they are answered with: status and length of the result.
fn cases(stride: u32) -> Vec<(Vec<u8>, Status, u32)> {
    let room = stride - HEADER_BYTES as u32;
    let mut bad_magic = frame("increment", 4, 9, b"1234");
    bad_magic[0] ^= 1;
    vec![
        (frame("increment", 4, 1, b"1234"), Status::OK, 4),
        (frame("increment", 0, 2, b""), Status::OK, 0),
        (frame("increment", 21, 4, &[1; 21]), Status::OK, 21),
        (frame("increment", room, 5, &vec![3; room as usize]), Status::OK, room),
        (frame("eight", 8, 6, &[1; 8]), Status::OK, 8),
        (frame("eight", 4, 7, &[1; 4]), Status::SCHEMA_MISMATCH, 0),
        (frame("nobody", 4, 8, &[1; 4]), Status::UNKNOWN_FUNCTION, 0),
        (bad_magic, Status::BAD_MAGIC, 0),
        (frame("elsewhere", 4, 10, &[1; 4]), Status::WRONG_MODE, 0),
        (frame("together", 4, 11, &[1; 4]), Status::WRONG_MODE, 0),
        (frame("fails", 0, 12, b""), Status(7), 0),
        (frame("boasts", 0, 13, b""), Status::RESULT_TOO_LONG, room),
        (frame("increment", room + 1, 14, &[1; 4]), Status::ARG_TOO_LONG, 0),
        (frame("increment", u32::MAX, 15, &[1; 4]), Status::ARG_TOO_LONG, 0),
        (frame("increment", 4, 16, b"1234"), Status::OK, 4),
    ]
}

fn check(request: &[u8], response: &[u8], status: Status, len: u32) {
    let header = ResponseHeader::from_bytes(response).expect("a header");
    assert!(header.has_magic());
    assert_eq!((header.status(), header.result_len), (status, len), "{request:x?}");
    if let Ok(asked) = RequestHeader::from_bytes(request) {
        assert_eq!((header.request_id, header.ptp_timestamp), (asked.request_id, asked.ptp_timestamp));
    }
    if status.is_ok() {
        let result = &response[HEADER_BYTES..HEADER_BYTES + len as usize];
        assert_eq!(result, incremented(&request[HEADER_BYTES..]));
    }
}

/// Every status was counted as often as it was answered, and all of it ended well.
fn account(control: &Words, statuses: &[Status]) {
    let count = |counter: Counter| control.load(control::COUNTERS + counter as usize, Acquire);
    for status in statuses {
        let n = statuses.iter().filter(|other| *other == status).count() as u64;
        assert_eq!(count(Counter::of_status(*status)), n, "{status}");
    }
    assert_eq!(count(Counter::Received), statuses.len() as u64);
    assert_eq!(count(Counter::Dropped), 0);
    assert_eq!(control.load(control::STATE, Acquire), control::STATE_ENDED);
    assert_eq!(control.load(control::BUSY, Acquire), 0);
}

/// The stop word is set, also if the client panics.
struct Stop<'a>(&'a Words);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(control::STOP, control::STOP_DRAIN, Relaxed);
    }
}

/// A queue pair behind the hooks' trait, as a kernel has it behind their functions.
struct OnQueues<'a> {
    transport: Transport<Register>,
    control: &'a Words,
}

impl Hooks for OnQueues<'_> {
    fn poll(&mut self) -> Polled {
        let control = self.control;
        self.transport.poll(|| control.load(control::STOP, Relaxed), thread::yield_now)
    }

    fn publish(&mut self, response: &Bytes) {
        self.transport.publish(response.address());
    }
}

fn call(peer: &mut Wire, shape: &Shape, i: u32, bytes: &[u8]) -> Vec<u8> {
    assert!(peer.send(write_imm(shape, i % shape.slots, i), bytes));
    let (mut response, mut poll_limit) = (Vec::new(), PollLimit::default());
    while peer.receive(&mut response).is_none() {
        poll_limit.wait();
        thread::yield_now();
    }
    response
}

#[test]
fn over_a_queue_pair_from_start_to_start() {
    let shape = Shape { slots: 8, sequence: true, ..Shape::of_depth(4) };
    let (windows, uar, control) = (windows(&shape), words(8), words(control::WORDS));
    let bell = Register::new(uar.clone()).expect("8 words");
    let transport = Transport::new(config(&shape), Extent::Received, windows.clone(), bell).expect("queues");
    let (nic, mut peer) = nic_over(&shape, &windows, &uar);
    let nic = Running::start(nic).expect("a thread");
    let mut hooks = OnQueues { transport, control: &control };
    let mut cases = cases(shape.stride);
    // More than was received: only a transport that says how much that was can tell.
    cases.push((frame("increment", 5, 20, &[1; 4]), Status::ARG_TOO_LONG, 0));
    let mut sent = 0;
    let mut statuses = Vec::new();
    for turn in 0..50 {
        control.store(control::STOP, control::STOP_NO, Relaxed);
        thread::scope(|scope| {
            let server = scope.spawn(|| dispatch(&mut hooks, &control, shape.stride));
            let stop = Stop(&control);
            for (bytes, status, len) in &cases {
                let response = call(&mut peer, &shape, sent, bytes);
                assert_eq!(response.len(), HEADER_BYTES + *len as usize, "exactly as long as it is");
                check(bytes, &response, *status, *len);
                sent += 1;
            }
            // Too short for a header, in a slot that still has a whole request: none of it is answered with.
            let response = call(&mut peer, &shape, sent, &frame("increment", 0, 1, b"")[..HEADER_BYTES - 1]);
            sent += 1;
            let header = ResponseHeader::from_bytes(&response).expect("a header");
            assert_eq!((header.status(), header.request_id), (Status::BAD_MAGIC, 0));
            drop(stop);
            assert_eq!(server.join().expect("no panic"), Over::Ended, "turn {turn}");
        });
        statuses.extend(cases.iter().map(|(_, status, _)| *status).chain([Status::BAD_MAGIC]));
        account(&control, &statuses);
    }
    let endpoint = hooks.transport.endpoint();
    for (event, n) in [(Event::RxRequests, sent.into()), (Event::RxLost, 0), (Event::RxUnanswered, 0)] {
        assert_eq!(endpoint.counters().get(event), n, "{}", event.name());
    }
    assert_eq!(endpoint.send_queue().under_way(), 0, "the end waits for the last responses");
    assert_obeyed(&nic.stop().expect("NIC"));
}

/// A transport whose send queue is full: four responses were published, and the NIC has sent none of them. A fifth request has
/// arrived.
fn full() -> (Transport<Register>, Nic<Wire>, Wire) {
    let shape = Shape::of_depth(4);
    let (windows, uar) = (windows(&shape), words(8));
    let bell = Register::new(uar.clone()).expect("8 words");
    let mut transport =
        Transport::new(config(&shape), Extent::Received, windows.clone(), bell).expect("queues");
    let (mut nic, mut peer) = nic_over(&shape, &windows, &uar);
    for i in 0..5 {
        assert!(peer.send(write_imm(&shape, i % 4, i), &frame("increment", 0, i, b"")));
        assert!(nic.step_receive());
        if i == 4 {
            break;
        }
        let Polled::Ready { response, .. } = transport.poll(|| control::STOP_NO, || ()) else {
            panic!("request {i} is there, and room");
        };
        respond(&mut transport, &response, i);
    }
    assert_eq!(transport.endpoint().send_queue().under_way(), 4);
    (transport, nic, peer)
}

fn respond(transport: &mut Transport<Register>, response: &Bytes, id: u32) {
    let header = RequestHeader::new(FunctionId::of("increment").0, 0, id, 0);
    response.write_words(0, ResponseHeader::reply(&header, 0, 0).to_words());
    transport.publish(response.address());
}

#[test]
fn a_drain_answers_what_arrived_while_the_send_queue_was_full() {
    let (mut transport, mut nic, mut peer) = full();
    let mut looks = 0;
    let polled = transport.poll(
        || control::STOP_DRAIN,
        || {
            looks += 1;
            // The NIC takes its time.
            if looks > 500 {
                nic.step();
            }
        },
    );
    let Polled::Ready { response, .. } = polled else { panic!("the request was thrown away: {polled:?}") };
    respond(&mut transport, &response, 4);
    let step = || {
        nic.step();
    };
    assert!(matches!(transport.poll(|| control::STOP_DRAIN, step), Polled::Shutdown));
    assert_eq!(transport.endpoint().send_queue().under_way(), 0);
    assert_eq!(transport.endpoint().counters().get(Event::RxUnanswered), 0);
    let mut response = Vec::new();
    for id in 0..5 {
        assert!(peer.receive(&mut response).is_some(), "response {id}");
        assert_eq!(ResponseHeader::from_bytes(&response).expect("a header").request_id, id);
    }
    assert_obeyed(&nic);
}

#[test]
fn a_stop_does_not_wait_for_a_nic_that_sends_nothing() {
    // At once: a look or two, then the end, whatever is under way.
    for arrived in [true, false] {
        let (mut transport, mut nic, _peer) = full();
        if !arrived {
            let polled = transport.poll(
                || control::STOP_NO,
                || {
                    nic.step_send();
                },
            );
            let Polled::Ready { response, .. } = polled else { panic!("there is room: {polled:?}") };
            respond(&mut transport, &response, 4);
        }
        let mut looks = 0;
        assert!(matches!(transport.poll(|| control::STOP_NOW, || looks += 1), Polled::Shutdown));
        assert!(looks < 100, "{looks} looks");
        assert!(transport.endpoint().send_queue().under_way() > 0);
        assert_eq!(transport.endpoint().counters().get(Event::RxUnanswered), u64::from(arrived));
    }
    // A drain ends too, and counts what it could not answer. Told to end at once meanwhile, it does.
    let (mut transport, ..) = full();
    assert!(matches!(transport.poll(|| control::STOP_DRAIN, || ()), Polled::Shutdown));
    assert_eq!(transport.endpoint().counters().get(Event::RxUnanswered), 1);
    let (looks, mut transport) = (Cell::new(0), full().0);
    let stop = || if looks.get() < 1000 { control::STOP_DRAIN } else { control::STOP_NOW };
    assert!(matches!(transport.poll(stop, || looks.set(looks.get() + 1)), Polled::Shutdown));
    assert!(looks.get() < 2000, "{} looks", looks.get());
}

/// A ring of flags, a slot after the other: what `kernels-cu/hooks/ring.cu` is.
struct OnRing<'a> {
    flags: &'a [Words; 2],
    data: &'a [Bytes; 2],
    stride: usize,
    next: usize,
    control: &'a Words,
}

impl Hooks for OnRing<'_> {
    fn poll(&mut self) -> Polled {
        while self.flags[0].load(self.next, Acquire) == 0 {
            if self.control.load(control::STOP, Relaxed) != 0 {
                return Polled::Shutdown;
            }
            thread::yield_now();
        }
        let window = |data: &Bytes| data.slice(self.next * self.stride, self.stride).expect("inside");
        Polled::Ready { request: window(&self.data[0]), response: window(&self.data[1]) }
    }

    fn publish(&mut self, _: &Bytes) {
        self.flags[0].store(self.next, 0, Relaxed);
        self.flags[1].store(self.next, 1, Release);
        self.next = (self.next + 1) % self.flags[0].len();
    }
}

#[test]
fn over_a_plain_ring() {
    let (slots, stride) = (4, 128);
    let flags = [words(slots), words(slots)];
    let data = [bytes(slots * stride), bytes(slots * stride)];
    let control = words(control::WORDS);
    let mut hooks = OnRing { flags: &flags, data: &data, stride, next: 0, control: &control };
    let cases = cases(stride as u32);
    thread::scope(|scope| {
        let server = scope.spawn(|| dispatch(&mut hooks, &control, stride as u32));
        let stop = Stop(&control);
        for (i, (request, status, len)) in cases.iter().enumerate() {
            let slot = i % slots;
            assert!(data[0].write(slot * stride, request));
            flags[0].store(slot, 1, Release);
            let mut poll_limit = PollLimit::default();
            while flags[1].load(slot, Acquire) == 0 {
                poll_limit.wait();
                thread::yield_now();
            }
            let mut response = vec![0; stride];
            assert!(data[1].read(slot * stride, &mut response));
            flags[1].store(slot, 0, Relaxed);
            check(request, &response, *status, *len);
        }
        drop(stop);
        assert_eq!(server.join().expect("no panic"), Over::Ended);
    });
    account(&control, &cases.iter().map(|(_, status, _)| *status).collect::<Vec<_>>());
}

/// A transport that says what it should not.
struct Broken(u64);

impl Hooks for Broken {
    fn poll(&mut self) -> Polled {
        self.0 += 1;
        if self.0 < 100 { Polled::Unusable } else { Polled::Unknown }
    }

    fn publish(&mut self, _: &Bytes) {
        unreachable!("there was no request")
    }
}

#[test]
fn a_broken_transport_ends_the_loop() {
    let control = words(control::WORDS);
    assert_eq!(dispatch(&mut Broken(0), &control, 128), Over::Failed);
    assert_eq!(control.load(control::STATE, Acquire), control::STATE_FAILED);
    assert_eq!(control.load(control::COUNTERS + Counter::Dropped as usize, Acquire), 99);
    // One that never runs dry is stopped at once all the same.
    control.store(control::STOP, control::STOP_NOW, Relaxed);
    assert_eq!(dispatch(&mut Broken(0), &control, 128), Over::Ended);
    // Frames that hold no header.
    assert_eq!(dispatch(&mut Broken(0), &control, 16), Over::Failed);
}
