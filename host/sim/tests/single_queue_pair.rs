//! The unified loop over a queue pair: every status of the protocol, by the checks of every other dispatcher.
#![cfg(not(loom))]

mod support;

use ringcall_dispatcher::queue_pair::single::{Extent, Returned, Scratch, Unified};
use ringcall_mlx5::endpoint::SLOT_BITS;
use ringcall_mlx5::{Bound, Event, WaitEnd};
use ringcall_protocol::counters::Bank;
use ringcall_protocol::table::{Callable, EMPTY, IdIndex, Table};
use ringcall_sim::nic::thread::Running;
use ringcall_sim::nic::{Message, Port, Wire};
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::TableCell;
use ringcall_wire::status::{DispatchMode, Status};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use support::*;

type Function = fn(&[u8], &mut [u8]) -> Returned;

#[derive(Clone, Copy)]
struct Entry {
    mode: DispatchMode,
    bytes: Option<u32>,
    call: Function,
}

impl Callable for Entry {
    fn mode(&self) -> DispatchMode {
        self.mode
    }

    fn arg_bytes(&self) -> Option<u32> {
        self.bytes
    }
}

struct Functions {
    index: IdIndex,
    cells: Vec<TableCell>,
    entries: Vec<Entry>,
}

impl Table for Functions {
    type Entry = Entry;

    fn lookup(&self, id: FunctionId) -> Option<&Entry> {
        self.index.lookup(&self.cells, id).and_then(|entry| self.entries.get(entry))
    }
}

fn increment(input: &[u8], output: &mut [u8]) -> Returned {
    for (to, from) in output.iter_mut().zip(input) {
        *to = from.wrapping_add(1);
    }
    Returned { status: 0, len: input.len() as u32 }
}

fn table() -> Functions {
    let functions: [(&str, DispatchMode, Option<u32>, Function); 5] = [
        ("increment", DispatchMode::DeviceCall, None, increment),
        ("eight", DispatchMode::DeviceCall, Some(8), increment),
        ("fails", DispatchMode::DeviceCall, None, |_, _| Returned { status: 7, len: 0 }),
        ("boasts", DispatchMode::DeviceCall, None, |_, _| Returned { status: 0, len: 100_000 }),
        ("elsewhere", DispatchMode::GraphLaunch, None, increment),
    ];
    let ids = functions.map(|(name, ..)| FunctionId::of(name).0);
    let mut cells = vec![EMPTY; 32];
    let index = IdIndex::build(ids.len(), |i| ids[i], &mut cells).expect("five ids");
    let entries = functions.iter().map(|&(_, mode, bytes, call)| Entry { mode, bytes, call }).collect();
    Functions { index, cells, entries }
}

/// A request's bytes: header and payload.
fn frame(function: &str, arg_len: u32, id: u32, payload: &[u8]) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of(function).0, arg_len, id, 1000 + u64::from(id));
    [&header.to_bytes(), payload].concat()
}

fn call(peer: &mut Wire, shape: &Shape, slot: u32, frame: &[u8]) -> (ResponseHeader, Vec<u8>) {
    let message = Message::WriteImm {
        address: u64::from(slot) * u64::from(shape.stride),
        rkey: RX_KEY,
        immediate: slot | 5 << SLOT_BITS,
    };
    assert!(peer.send(message, frame));
    let mut payload = Vec::new();
    let mut poll_limit = PollLimit::default();
    while peer.receive(&mut payload).is_none() {
        poll_limit.wait();
        thread::yield_now();
    }
    let header = ResponseHeader::from_bytes(&payload).expect("a header");
    assert!(header.has_magic());
    assert_eq!(payload.len(), HEADER_BYTES + header.result_len as usize, "exactly as long as it is");
    (header, payload.split_off(HEADER_BYTES))
}

struct Served {
    bank: Bank,
    served: u64,
    rx_requests: u64,
}

/// Runs `client` against a server and a NIC on threads of their own.
fn against_a_server(shape: &Shape, extent: Extent, client: impl FnOnce(&mut Wire)) -> Served {
    let Rig { mut endpoint, nic, mut peer, windows, .. } = rig(shape);
    let nic = Running::start(nic).expect("a thread");
    let stride = shape.stride as usize;
    let server = thread::spawn(move || {
        let (table, bank) = (table(), Bank::default());
        let mut unified = Unified {
            table: &table,
            bank: &bank,
            extent,
            runs: |mode| mode == DispatchMode::DeviceCall,
            call: |entry: &Entry, _: &RequestHeader, input: &[u8], output: &mut [u8]| {
                (entry.call)(input, output)
            },
        };
        let (mut request, mut response) = (vec![0; stride], vec![0; stride]);
        let mut scratch = Scratch { request: &mut request, response: &mut response };
        let bound = Bound { between: 64, turns: u64::MAX };
        let (served, ended) = unified.run(&mut endpoint, &mut scratch, bound, thread::yield_now);
        assert_eq!(ended, WaitEnd::Stopped);
        let rx_requests = endpoint.counters().get(Event::RxRequests);
        Served { bank, served, rx_requests }
    });
    client(&mut peer);
    windows.shutdown.store(0, 1, Relaxed);
    let served = server.join().expect("server");
    assert_obeyed(&nic.stop().expect("NIC"));
    served
}

#[test]
fn every_status() {
    let shape = Shape { slots: 8, ..Shape::of_depth(4) };
    let mut slot = 0;
    let room = shape.stride - HEADER_BYTES as u32;
    let full = vec![3; room as usize];
    let mut bad_magic = frame("increment", 4, 9, b"1234");
    bad_magic[0] ^= 1;
    let cases: Vec<(Vec<u8>, Status, u32)> = vec![
        (frame("increment", 4, 1, b"1234"), Status::OK, 4),
        (frame("increment", 0, 2, b""), Status::OK, 0),
        (frame("increment", 20, 3, &[1; 20]), Status::OK, 20),
        (frame("increment", 21, 4, &[1; 21]), Status::OK, 21),
        (frame("increment", room, 5, &full), Status::OK, room),
        (frame("eight", 8, 6, &[1; 8]), Status::OK, 8),
        (frame("eight", 4, 7, &[1; 4]), Status::SCHEMA_MISMATCH, 0),
        (frame("nobody", 4, 8, &[1; 4]), Status::UNKNOWN_FUNCTION, 0),
        (bad_magic, Status::BAD_MAGIC, 0),
        (frame("elsewhere", 4, 10, &[1; 4]), Status::WRONG_MODE, 0),
        (frame("fails", 0, 11, b""), Status(7), 0),
        (frame("boasts", 0, 12, b""), Status::RESULT_TOO_LONG, room),
        // More than a slot holds, and more than was received.
        (frame("increment", room + 1, 13, &[1; 4]), Status::ARG_TOO_LONG, 0),
        (frame("increment", u32::MAX, 14, &[1; 4]), Status::ARG_TOO_LONG, 0),
        (frame("increment", 5, 15, &[1; 4]), Status::ARG_TOO_LONG, 0),
        // The slot still holds a whole request; what was received does not.
        (frame("increment", 4, 16, b"1234")[..HEADER_BYTES - 1].to_vec(), Status::BAD_MAGIC, 0),
        (Vec::new(), Status::BAD_MAGIC, 0),
        (frame("increment", 4, 17, b"1234"), Status::OK, 4),
    ];
    let total = cases.len() as u64;
    let refused = cases.iter().filter(|(_, status, _)| status.is_protocol_error()).count() as u64;
    let expected: Vec<_> = cases.iter().map(|&(_, status, _)| status).collect();
    let served = against_a_server(&shape, Extent::Received, |peer| {
        for (bytes, status, len) in &cases {
            let (header, result) = call(peer, &shape, slot, bytes);
            assert_eq!((header.status(), header.result_len), (*status, *len), "{bytes:x?}");
            if let Ok(request) = RequestHeader::from_bytes(bytes) {
                let echoed = (header.request_id, header.ptp_timestamp);
                assert_eq!(echoed, (request.request_id, request.ptp_timestamp));
                if status.is_ok() {
                    assert_eq!(result, incremented(&bytes[HEADER_BYTES..]));
                }
            }
            slot = (slot + 1) % 3;
        }
    });
    assert_eq!((served.served, served.rx_requests), (total, total));
    for status in &expected {
        let count = expected.iter().filter(|other| *other == status).count() as u64;
        assert_eq!(served.bank.get(Counter::of_status(*status)), count, "{status}");
    }
    assert_eq!(served.bank.get(Counter::Received), total);
    // The boast was called, and answered with a status of the protocol's.
    assert_eq!(served.bank.get(Counter::Dispatched), total - refused + 1);
    assert_eq!(served.bank.get(Counter::Dropped), 0);
}

#[test]
fn a_request_of_several_messages_is_as_long_as_its_slot() {
    let shape = Shape { slots: 8, ..Shape::of_depth(4) };
    let bytes = frame("increment", 64, 1, &[5; 64]);
    let parts = bytes.split_at(48);
    let send = |peer: &mut Wire| {
        assert!(peer.send(Message::Write { address: 128, rkey: RX_KEY }, parts.0));
        let message = Message::WriteImm { address: 128 + 48, rkey: RX_KEY, immediate: 1 };
        assert!(peer.send(message, parts.1));
        let mut payload = Vec::new();
        let mut poll_limit = PollLimit::default();
        while peer.receive(&mut payload).is_none() {
            poll_limit.wait();
            thread::yield_now();
        }
        ResponseHeader::from_bytes(&payload).expect("a header")
    };
    against_a_server(&shape, Extent::Slot, |peer| {
        let header = send(peer);
        assert_eq!((header.status(), header.result_len), (Status::OK, 64));
    });
    against_a_server(&shape, Extent::Received, |peer| {
        assert_eq!(send(peer).status(), Status::ARG_TOO_LONG);
    });
}

#[test]
fn thousands_of_requests() {
    let shape = Shape { blue_flame: true, ..Shape::of_depth(16) };
    let served = against_a_server(&shape, Extent::Received, |peer| {
        for i in 0..5000_u32 {
            let payload = vec![i as u8; (i % 100) as usize];
            let bytes = frame("increment", payload.len() as u32, i, &payload);
            let (header, result) = call(peer, &shape, i % 16, &bytes);
            assert_eq!((header.status(), header.request_id), (Status::OK, i));
            assert_eq!(result, incremented(&payload));
        }
    });
    assert_eq!(served.served, 5000);
    assert_eq!(served.bank.get(Counter::Completed), 5000);
}
