//! Thread and warp handlers.

use crate::rig::*;
use crate::support::*;
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::queue_pair::{Bell, Copying, QueuePairEnd};
use ringcall_gpu::team::WARP_LANES;
use ringcall_mlx5::endpoint::ResponsePath;
use ringcall_mlx5::layout::cqe::{Syndrome, opcode};
use ringcall_mlx5::layout::wqe::Remote;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{Event, QueueError};
use ringcall_sim::nic::{Fault, Message, Port, Queue};
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;
use std::sync::atomic::Ordering::Relaxed;

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
    // The general path, without and with other warps to share it; and the fast path, which hands over what it does not do.
    for threads in [1, 4, 8] {
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
            let outstanding = cases.iter().filter(|(_, other, _)| other == status).count() as u64;
            assert_eq!(bench.count(Counter::of_status(*status)), outstanding, "{status}");
        }
        assert_eq!(bench.count(Counter::Received), cases.len() as u64);
        bench.end();
    }
}

#[test]
fn queues_go_round_at_every_depth_and_over_restarts() {
    for (depth, threads, copying, record) in [
        (1, 1, Copying::Not, RecordMode::Written),
        (2, 4, Copying::FirstWordLast, RecordMode::Written),
        (64, 4, Copying::Not, RecordMode::NotWritten),
        (64, 4, Copying::FirstWordLast, RecordMode::Written),
        (1024, 1, Copying::Not, RecordMode::Written),
    ] {
        // Four lanes take the fast path through slots of less than 128 bytes.
        let stride = if threads == 4 { 112 } else { 128 };
        let shape = Shape { sequence: true, record, stride, ..Shape::of_depth(depth) };
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

/// The fast path: one at a time, where they are expected and elsewhere, sent and written, answered with either operation.
#[test]
fn one_at_a_time() {
    const TOTAL: u64 = 60;
    let base = Shape { slots: 16, stride: 112, ..Shape::of_depth(16) };
    let remote = Remote { address: 0x5_0000, rkey: 5 };
    let recorded = Shape { stride: 80, consumer_records: true, sequence: true, ..base };
    let written = Shape { reply: ResponsePath::WriteImm { base: remote, stride: 112 }, ..base };
    // A slot with a second pair for every lane leaves none for the completion: the general way.
    for shape in [base, recorded, written, Shape { sends: true, ..base }, Shape { stride: 128, ..base }] {
        let mut bench = Bench::new(&shape);
        bench.serve(Team::of(4), |peer, _| {
            for i in 0..TOTAL {
                // Now and then a slot that is not expected; what is expected holds an older request.
                let slot = (i + i / 5) % u64::from(shape.slots);
                let payload: Vec<u8> = (0..(i * 13) as usize % (shape.stride as usize - HEADER_BYTES))
                    .map(|at| (at as u64 + i) as u8)
                    .collect();
                let function = if i % 3 == 0 { "increment together" } else { "increment" };
                let bytes = frame(function, payload.len() as u32, i as u32, &payload);
                if shape.sends {
                    assert!(peer.send(Message::Send, &bytes));
                } else {
                    send(peer, &shape, slot as u32, i as u32, &bytes);
                }
                let (header, result) = receive(peer);
                assert_eq!((header.status(), header.request_id), (Status::OK, i as u32));
                assert_eq!(result, incremented(&payload), "request {i}");
            }
        });
        for event in [Event::RxCompletions, Event::RxRequests, Event::RxReposted, Event::TxPosted] {
            // The last may be the empty request that asks for a completion.
            let extra = u64::from(event == Event::TxPosted);
            assert!(
                (TOTAL..=TOTAL + extra).contains(&bench.event(event)),
                "{event:?}: {}",
                bench.event(event)
            );
        }
        for counter in [Counter::Received, Counter::Dispatched, Counter::Completed] {
            assert_eq!(bench.count(counter), TOTAL);
        }
        assert_eq!(bench.event(Event::RxLost) + bench.event(Event::RxReordered), 0);
        bench.end();
    }
}

/// What was counted is shown while the dispatcher runs and nothing comes.
#[test]
fn counts_are_shown_without_a_stop() {
    for threads in [1, 4] {
        let shape = Shape { stride: 112, ..Shape::of_depth(4) };
        let mut bench = Bench::new(&shape);
        let control = bench.control.clone();
        bench.serve(Team::of(threads), |peer, _| {
            flood(peer, &shape, 1, 0, 5, |_| ());
            let shown = |counter: Counter| control.load(control::COUNTERS + counter as usize, Relaxed);
            until(|| shown(Counter::Completed) == 5 && shown(Counter::Received) == 5);
        });
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
    let shape = Shape { consumer_records: true, completions: 4, ..Shape::of_depth(64) };
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
        // The dispatcher ends by itself: a stop that it sees first would end it in health.
        until(|| control.load(control::STATE, Relaxed) == control::STATE_ENDED);
    });
    assert_eq!(bench.control.load(control::DEAD, Relaxed), u64::from(Syndrome::FLUSHED.0));
    assert!(bench.event(Event::RxFlushed) > 0);
    bench.end();
}

/// A receive request for a send has a slot as its buffer: with more receive requests than slots a send could go beyond.
#[test]
fn more_receive_requests_than_slots_for_sends() {
    for (slots, sends, refused) in [(4, true, true), (8, true, false), (4, false, false)] {
        let shape = Shape { slots, sends, ..Shape::of_depth(8) };
        let (windows, control) = (windows(&shape), words(control::WORDS));
        let bell = Bell::new(words(8), Copying::FirstWordLast).expect("8 words");
        // Ends as soon as it has begun.
        control.store(control::STOP, control::STOP_NOW, Relaxed);
        let kernel = KernelRig { shape: &shape, windows: &windows, control: &control, bell: &bell };
        let over = kernel.outcomes(Team::of(WARP_LANES), &Table::standard(), &Threads, None);
        let expected =
            if refused { QueuePairEnd::Refused(QueueError::Slots(4)) } else { QueuePairEnd::Ended };
        assert!(over.iter().all(|over| *over == expected), "{slots} {sends}: {over:?}");
    }
}
