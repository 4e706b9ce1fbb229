//! The dispatch core in one thread, any order of steps: well-behaved and hostile producers, a dispatcher that answers at
//! once or takes in flight, workers and time-outs that complete them, a consumer. A plain list says what must come out.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringcall_gpu::pad::CachePadded;
use ringcall_gpu::shared::Region;
use ringcall_protocol::ledger::{Ledger, Phase, Record, Ticket};
use ringcall_protocol::request_ids::{RequestIdCell, RequestIds, Submitted};
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::Status;
use ringcall_wire::header::{REQUEST_MAGIC, RequestHeader};

#[derive(Arbitrary, Debug)]
enum Step {
    /// A request by the rules, if the slot is vacant.
    Submit { slot: u8, function: u32, payload: Vec<u8> },
    /// Any bytes and any flag, if the producer's side of the slot is free.
    Forge { slot: u8, raw: [u8; 32], flag: Option<u64> },
    /// The dispatcher looks, and deals with what it finds by `how`: bit 0 at once or in flight, the rest is the status.
    Turn { how: u8 },
    /// A worker answers the ticket, maybe an old one; maybe more than fits.
    Settle { ticket: u8, status: i32, result: Vec<u8> },
    /// A launch of the ticket fails.
    Fail { ticket: u8, code: u16 },
    /// The consumer takes what is in the slot.
    Take { slot: u8 },
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Idle,
    Written(RequestHeader),
    InFlight(RequestHeader, usize),
    Answered { header: RequestHeader, status: i32, error: Option<u16>, result: Vec<u8> },
}

const STRIDE: u32 = 48;
const CAPACITY: usize = 24;

fuzz_target!(|input: (u8, Vec<Step>)| {
    let (slots, steps) = (u32::from(input.0 % 20) + 1, input.1);
    let n = slots as usize;
    let words = || Region::zeroed(n * 8).unwrap().words(0, n).unwrap();
    let data = || Region::zeroed(n * STRIDE as usize).unwrap().bytes(0, n * STRIDE as usize).unwrap();
    let windows = RingWindows { rx_flags: words(), tx_flags: words(), rx_data: data(), tx_data: data() };
    let ring = SharedRing::new(slots, STRIDE, STRIDE, windows, None).unwrap();
    let geometry = *ring.geometry();
    let records: Vec<CachePadded<Record>> = (0..n).map(|_| CachePadded::default()).collect();
    let cells: Vec<RequestIdCell> = (0..n).map(|_| RequestIdCell::default()).collect();
    let (ledger, ids) = (Ledger::new(&records), RequestIds::new(&cells));
    let mut scan = Scan::new(slots);
    let mut model = vec![State::Idle; n];
    let mut payloads = vec![Vec::new(); n];
    let mut tickets: Vec<Ticket> = Vec::new();
    let mut next_id = 0_u32;
    for step in steps {
        match step {
            Step::Submit { slot, function, payload } => {
                let index = slot as usize % n;
                let slot = geometry.slot(index as u32).unwrap();
                let vacant = Vacant::probe(&ring, slot);
                assert_eq!(vacant.is_some(), model[index] == State::Idle);
                let Some(vacant) = vacant else { continue };
                let fits = payload.len() <= CAPACITY;
                assert_eq!(vacant.submit(&ring, function, next_id, 7, &payload).is_ok(), fits);
                if fits {
                    ids.insert(slot, Submitted { request_id: u64::from(next_id) << 32, submitted_ns: 1 });
                    model[index] =
                        State::Written(RequestHeader::new(function, payload.len() as u32, next_id, 7));
                    payloads[index] = payload;
                    next_id = next_id.wrapping_add(1);
                }
            }
            Step::Forge { slot, raw, flag } => {
                let index = slot as usize % n;
                let slot = geometry.slot(index as u32).unwrap();
                let flag = flag.filter(|&flag| flag != 0).unwrap_or_else(|| geometry.request_address(slot));
                if model[index] != State::Idle {
                    continue;
                }
                ring.forge_request(slot, &raw, flag);
                let header = RequestHeader::from_bytes(&raw).unwrap();
                // A flag that names another slot is refused whatever the header says.
                model[index] = State::Written(if flag == geometry.request_address(slot) {
                    header
                } else {
                    RequestHeader { arg_len: u32::MAX, ..header }
                });
                payloads[index] = raw[24..].to_vec();
                payloads[index].resize(CAPACITY, 0);
            }
            Step::Turn { how } => {
                let mut served = Vec::new();
                let seen = scan.turn(&ring, |seen| {
                    let index = seen.slot().as_usize();
                    let Some(request) = seen.claim(&ring) else { return };
                    let State::Written(expected) = model[index] else {
                        panic!("slot {index} was served in state {:?}", model[index]);
                    };
                    let checked = request.check(&ring);
                    let header = *request.header();
                    match checked {
                        Err(status) => {
                            assert!(
                                status == Status::BAD_FLAG
                                    || header.magic != REQUEST_MAGIC
                                    || header.arg_len as usize > CAPACITY
                            );
                            let _ = request.answer(&ring, status, &[]);
                            model[index] =
                                State::Answered { header, status: status.0, error: None, result: vec![] };
                        }
                        Ok(()) => {
                            assert_eq!(header, expected);
                            assert!(header.arg_len as usize <= CAPACITY);
                            let mut payload = vec![0; header.arg_len as usize];
                            request.read_payload(&ring, &mut payload);
                            assert_eq!(payload, payloads[index][..payload.len()]);
                            if how & 1 == 0 {
                                let _ = request.answer(&ring, Status(i32::from(how)), &payload);
                                model[index] = State::Answered {
                                    header,
                                    status: i32::from(how),
                                    error: None,
                                    result: payload,
                                };
                            } else {
                                tickets.push(ledger.open(request.take(&ring), Phase::Running, 5));
                                model[index] = State::InFlight(header, tickets.len() - 1);
                            }
                        }
                    }
                    served.push(index);
                });
                assert!(served.len() as u32 <= seen);
                served.sort_unstable();
                served.dedup();
                assert!(served.len() as u32 <= seen, "a slot was served twice in one turn");
            }
            Step::Settle { ticket, status, result } => {
                if tickets.is_empty() {
                    continue;
                }
                let number = ticket as usize % tickets.len();
                let ticket = tickets[number];
                let index = ticket.slot.as_usize();
                let ours = matches!(model[index], State::InFlight(_, of) if of == number);
                match ledger.complete(&ticket) {
                    Some(in_flight) => {
                        assert!(ours, "ticket {number} completed slot {index} in state {:?}", model[index]);
                        let sent = in_flight.answer(&ring, Status(status), &result);
                        let cut = result.len() > CAPACITY;
                        let status = if cut { Status::RESULT_TOO_LONG.0 } else { status };
                        assert_eq!((sent.status.0, sent.len as usize), (status, result.len().min(CAPACITY)));
                        let result = result[..result.len().min(CAPACITY)].to_vec();
                        model[index] = State::Answered { header: ticket.header, status, error: None, result };
                    }
                    None => assert!(!ours, "ticket {number} had the right to answer"),
                }
            }
            Step::Fail { ticket, code } => {
                if tickets.is_empty() {
                    continue;
                }
                let ticket = tickets[ticket as usize % tickets.len()];
                let index = ticket.slot.as_usize();
                if let Some(in_flight) = ledger.complete(&ticket) {
                    in_flight.fail(&ring, Status::LAUNCH_FAILED, code);
                    model[index] = State::Answered {
                        header: ticket.header,
                        status: Status::LAUNCH_FAILED.0,
                        error: Some(code),
                        result: vec![],
                    };
                }
            }
            Step::Take { slot } => {
                let index = slot as usize % n;
                let slot = geometry.slot(index as u32).unwrap();
                match (Response::probe(&ring, slot), model[index].clone()) {
                    (Some(response), State::Answered { header, status, error, result }) => {
                        assert_eq!(response.header().status, status);
                        assert_eq!(response.header().request_id, header.request_id);
                        assert_eq!(response.header().ptp_timestamp, header.ptp_timestamp);
                        assert_eq!(response.error(), error);
                        let mut out = [0; 64];
                        let len = response.read(&ring, &mut out);
                        assert_eq!(out[..len], result);
                        let _ = ids.take(slot);
                        response.release(&ring);
                        model[index] = State::Idle;
                        assert!(ids.get(slot).is_none());
                    }
                    (None, State::Answered { .. }) => panic!("the answer of slot {index} is not there"),
                    (Some(_), state) => panic!("slot {index} has an answer in state {state:?}"),
                    (None, _) => (),
                }
            }
        }
    }
    let in_flight = ledger.in_flight().count();
    assert_eq!(in_flight, model.iter().filter(|state| matches!(state, State::InFlight(..))).count());
});
