//! Errors, drops and completions of no meaning: each has its own count, and none changes what else happens.
#![cfg(not(loom))]

mod support;

use ringcall_mlx5::endpoint::{Discard, Endpoint, Frame, Poll, RespondError, ResponsePath};
use ringcall_mlx5::layout::cqe::{Syndrome, opcode};
use ringcall_mlx5::layout::wqe::Remote;
use ringcall_mlx5::{Bound, Event, QueueError, Register, Shutdown, WaitEnd};
use ringcall_sim::nic::{Fault, Message, Port, Queue};
use std::sync::atomic::Ordering::Relaxed;
use support::*;

/// One way for a completion to be wrong; those that use up a receive request come with `true`.
fn plant(rig: &mut Rig, shape: &Shape, kind: u64) -> (Event, bool) {
    let stray = |queue, opcode| Fault::Stray { queue, opcode, wqe_counter: 0x7FF0 };
    match kind {
        0 => rig.nic.plant(stray(Queue::Receive, opcode::REQUEST)),
        1 => rig.nic.plant(stray(Queue::Receive, opcode::RESIZE)),
        2 => rig.nic.plant(stray(Queue::Receive, opcode::NO_PACKET)),
        3 => rig.nic.plant(stray(Queue::Receive, opcode::SIGNATURE_ERROR)),
        4 => rig.nic.plant(stray(Queue::Receive, opcode::REQUEST_ERROR)),
        5 => {
            rig.nic.plant(Fault::FailReceive(Syndrome::LOCAL_ACCESS));
            return (Event::RxErrors, true);
        }
        6 => {
            // A send where there are credits alone: the NIC has no buffer for it.
            assert!(rig.peer.send(Message::Send, b"unexpected"));
            return (Event::RxErrors, true);
        }
        7 => {
            let Message::WriteImm { address, rkey, .. } = write_imm(shape, 0, 0) else { unreachable!() };
            let message = Message::WriteImm { address, rkey, immediate: shape.slots };
            assert!(rig.peer.send(message, b""));
            return (Event::RxBadSlot, true);
        }
        8 => {
            let message = Message::WriteImm { address: 0, rkey: RX_KEY, immediate: 0 };
            assert!(rig.peer.send(message, &vec![9; shape.stride as usize + 1]));
            return (Event::RxTooLong, true);
        }
        9 => rig.nic.plant(stray(Queue::Send, opcode::REQUEST)),
        10 => rig.nic.plant(stray(Queue::Send, opcode::SEND)),
        _ => rig.nic.plant(stray(Queue::Send, opcode::RESPONSE_ERROR)),
    }
    (if kind > 8 { Event::TxStray } else { Event::RxStray }, false)
}

const KINDS: u64 = 12;

#[test]
fn a_thousand_wrong_completions_in_between_change_nothing() {
    for depth in [1_u32, 2, 64, 1024] {
        let shape =
            Shape { consumer_records: true, completions: 4, slots: depth.max(2), ..Shape::of_depth(depth) };
        let mut it = rig(&shape);
        let mut expected = [0_u64; Event::COUNT];
        let (mut wrong, mut dropped, mut good) = (0_u64, 0, 0);
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        while wrong < 1000 || good < 4 * u64::from(depth) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if wrong < 1000 && random & 1 == 0 {
                let (event, uses_up) = plant(&mut it, &shape, random / 2 % KINDS);
                expected[event as usize] += 1;
                wrong += 1;
                dropped += u64::from(uses_up);
            }
            let slot = (good % u64::from(shape.slots)) as u32;
            // Before the request is sent: with one receive request, what is wrong uses it up first.
            while it.nic.step() {
                while let Poll::Discarded(_) = it.endpoint.poll() {}
            }
            assert!(it.peer.send(write_imm(&shape, slot, 0), &request(good)));
            let mut poll_limit = PollLimit::default();
            let mut arrived = None;
            while arrived.is_none() {
                poll_limit.wait();
                it.nic.step();
                match it.endpoint.poll() {
                    Poll::Arrived(request) => arrived = Some(request),
                    Poll::Empty | Poll::Discarded(_) => (),
                    Poll::Dead(syndrome) => panic!("{}", syndrome.name()),
                }
            }
            let arrived = arrived.expect("found");
            assert_eq!(arrived.slot(), slot);
            let room = loop {
                if let Some(room) = it.endpoint.try_reserve() {
                    break room;
                }
                poll_limit.wait();
                it.nic.step();
            };
            increment(&mut it.endpoint, arrived, room);
            let mut payload = Vec::new();
            while it.peer.receive(&mut payload).is_none() {
                poll_limit.wait();
                it.nic.step();
            }
            assert_eq!(payload, incremented(&request(good)));
            good += 1;
        }
        while it.nic.step() {}
        it.endpoint.reclaim();
        for (event, expected) in Event::ALL.iter().zip(expected) {
            if expected > 0 {
                assert_eq!(it.endpoint.counters().get(*event), expected, "{} at depth {depth}", event.name());
            }
        }
        let count = |event| it.endpoint.counters().get(event);
        assert_eq!(count(Event::RxRequests), good);
        assert_eq!(count(Event::RxReposted), good + dropped, "the credit is back at its depth");
        assert_eq!(it.endpoint.receive_queue().posted(), good + dropped + u64::from(depth));
        assert_eq!(it.nic.stats().rx_no_credit, 0);
        assert_eq!(count(Event::TxErrors) + count(Event::TxFlushed) + count(Event::RxFlushed), 0);
        // What the host sees is what was counted.
        for event in Event::ALL {
            assert_eq!(it.windows.counters.load(*event as usize, Relaxed), count(*event));
        }
        assert_obeyed(&it.nic);
    }
}

#[test]
fn without_credit_a_message_is_dropped_and_counted_and_nothing_is_written() {
    let shape = Shape { slots: 8, ..Shape::of_depth(2) };
    let Rig { mut endpoint, mut nic, mut peer, windows, .. } = rig(&shape);
    for i in 0..5 {
        assert!(peer.send(write_imm(&shape, i, 0), &request(u64::from(i) + 1)));
    }
    // No receive request is needed for a write that tells nobody.
    assert!(peer.send(Message::Write { address: 7 * 128, rkey: RX_KEY }, b"unseen"));
    while nic.step() {}
    assert_eq!((nic.stats().rx_delivered, nic.stats().rx_no_credit, nic.stats().rx_writes), (2, 3, 1));
    let mut slot = [0xFF; 8];
    assert!(windows.rx_data.read(4 * 128, &mut slot) && slot == [0; 8]);
    assert!(windows.rx_data.read(7 * 128, &mut slot) && slot == *b"unseen\0\0");
    for i in 0..2 {
        let Poll::Arrived(arrived) = endpoint.poll() else { panic!("request {i}") };
        let room = endpoint.try_reserve().expect("room");
        increment(&mut endpoint, arrived, room);
    }
    assert!(matches!(endpoint.poll(), Poll::Empty));
    // The credit is back.
    assert!(peer.send(write_imm(&shape, 5, 0), &request(5)));
    nic.step();
    assert!(matches!(endpoint.poll(), Poll::Arrived(_)));
    assert_obeyed(&nic);
}

#[test]
fn memory_that_the_peer_may_not_write() {
    let shape = Shape::of_depth(2);
    let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
    for (address, rkey) in [(0, RX_KEY + 1), (2 * 128 - 4, RX_KEY), (0x10_0000, TX_KEY), (u64::MAX, RX_KEY)] {
        assert!(peer.send(Message::WriteImm { address, rkey, immediate: 0 }, b"12345678"));
    }
    while nic.step() {}
    assert_eq!((nic.stats().rx_refused, nic.stats().rx_delivered), (4, 0));
    assert!(matches!(endpoint.poll(), Poll::Empty));
    // At any address inside, whole words or not.
    assert!(peer.send(Message::WriteImm { address: 3, rkey: RX_KEY, immediate: 0 }, b"12345678"));
    nic.step();
    let Poll::Arrived(arrived) = endpoint.poll() else { panic!("it may") };
    let mut bytes = [0; 16];
    assert!(endpoint.read(&arrived, 0, &mut bytes));
    assert_eq!(&bytes, b"\0\0\x0012345678\0\0\0\0\0");
    assert!(!endpoint.read(&arrived, 120, &mut bytes), "past the slot");
    endpoint.release(arrived);
    assert_eq!(endpoint.counters().get(Event::RxUnanswered), 1);
}

#[test]
fn sends_go_to_the_slot_of_their_receive_request() {
    let shape = Shape { sends: true, ..Shape::of_depth(4) };
    let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
    for i in 0..12_u64 {
        let message = if i % 2 == 0 { Message::Send } else { Message::SendImm { immediate: 9 } };
        assert!(peer.send(message, &request(i)));
        nic.step();
        let Poll::Arrived(arrived) = endpoint.poll() else { panic!("message {i}") };
        assert_eq!((arrived.slot(), arrived.bytes()), (i as u32 % 4, request(i).len() as u32));
        let room = endpoint.try_reserve().expect("room");
        increment(&mut endpoint, arrived, room);
        while nic.step() {}
        let mut payload = Vec::new();
        assert!(peer.receive(&mut payload).is_some());
        assert_eq!(payload, incremented(&request(i)));
    }
    assert!(peer.send(Message::Send, &[0; 129]));
    nic.step();
    let Poll::Discarded(why) = endpoint.poll() else { panic!("longer than a slot") };
    assert_eq!(why, Discard::Failed(Syndrome::LOCAL_LENGTH));
    assert_obeyed(&nic);
}

#[test]
fn responses_as_writes_with_immediate() {
    let base = Remote { address: 0x4000, rkey: 0xABCD };
    let shape = Shape { reply: ResponsePath::WriteImm { base, stride: 256 }, ..Shape::of_depth(8) };
    let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
    for i in 0..64_u64 {
        let slot = (i * 3 % 8) as u32;
        assert!(peer.send(write_imm(&shape, slot, 0), &request(i)));
        while nic.step() {}
        let Poll::Arrived(arrived) = endpoint.poll() else { panic!("request {i}") };
        let room = endpoint.try_reserve().expect("room");
        increment(&mut endpoint, arrived, room);
        while nic.step() {}
        let mut payload = Vec::new();
        let address = 0x4000 + u64::from(slot) * 256;
        let expected = Message::WriteImm { address, rkey: 0xABCD, immediate: slot };
        assert_eq!(peer.receive(&mut payload), Some(expected));
        assert_eq!(payload, incremented(&request(i)));
    }
    assert_obeyed(&nic);
}

#[test]
fn a_response_that_could_run_into_the_peer_s_next_slot() {
    let base = Remote { address: 0x4000, rkey: 0xABCD };
    let over = |stride| {
        let shape = Shape { reply: ResponsePath::WriteImm { base, stride }, ..Shape::of_depth(8) };
        let bell = Register::new(words(8)).expect("8 words");
        Endpoint::new(config(&shape), windows(&shape), bell).map(|_| ())
    };
    assert_eq!(over(120), Err(QueueError::Remote { have: 120, needed: 128 }));
    assert_eq!(over(128), Ok(()));
}

#[test]
fn a_send_that_fails_frees_its_entry() {
    let shape = Shape { consumer_records: true, completions: 2, ..Shape::of_depth(8) };
    let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
    let mut lost = 0;
    for i in 0..100_u64 {
        if i % 10 == 3 {
            nic.plant(Fault::FailSend(Syndrome::REMOTE_ACCESS));
            lost += 1;
        }
        assert!(peer.send(write_imm(&shape, 0, 0), &request(i)));
        while nic.step() {}
        let Poll::Arrived(arrived) = endpoint.poll() else { panic!("request {i}") };
        let room = endpoint.try_reserve().expect("room");
        increment(&mut endpoint, arrived, room);
        while nic.step() {}
    }
    endpoint.reclaim();
    assert_eq!((endpoint.counters().get(Event::TxErrors), nic.stats().tx_sent), (lost, 100 - lost));
    assert_obeyed(&nic);
}

#[test]
fn a_broken_queue_pair_ends_every_wait_with_its_reason() {
    let shape = Shape { consumer_records: true, completions: 2, ..Shape::of_depth(4) };
    let bound = Bound { between: 16, turns: 1 << 20 };
    // While waiting for a request.
    let Rig { mut endpoint, mut nic, .. } = rig(&shape);
    nic.plant(Fault::Break);
    let ended = endpoint.wait_arrival(bound, || while nic.step() {}).map(|_| ());
    assert_eq!(ended, Err(WaitEnd::Dead));
    assert_eq!(endpoint.dead(), Some(Syndrome::FLUSHED));
    assert!(matches!(endpoint.poll(), Poll::Dead(Syndrome::FLUSHED)));
    assert_eq!((nic.stats().flushed, endpoint.counters().get(Event::RxFlushed)), (4, 1));
    assert_eq!(endpoint.counters().get(Event::RxReposted), 0, "nothing is posted to a dead queue pair");

    // While waiting for room, and for the last response to be gone.
    for full in [true, false] {
        let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
        for i in 0..if full { 4 } else { 1 } {
            assert!(peer.send(write_imm(&shape, 0, 0), &request(i)));
            nic.step_receive();
            let Poll::Arrived(arrived) = endpoint.poll() else { panic!("request {i}") };
            let room = endpoint.try_reserve().expect("room");
            increment(&mut endpoint, arrived, room);
        }
        nic.plant(Fault::Break);
        let ended = if full {
            endpoint.reserve(bound, || while nic.step() {}).map(|_| ())
        } else {
            endpoint.drain(&Shutdown::new(words(1)), bound, || while nic.step() {})
        };
        assert_eq!(ended, Err(WaitEnd::Dead));
        assert!(endpoint.counters().get(Event::TxFlushed) > 0);
    }
}

#[test]
fn every_wait_looks_at_the_stop_word_and_has_a_bound() {
    let shape = Shape::of_depth(2);
    let Rig { mut endpoint, windows, .. } = rig(&shape);
    let short = Bound { between: 8, turns: 5 };
    let mut turns = 0;
    assert_eq!(endpoint.wait_arrival(short, || turns += 1).map(|_| ()), Err(WaitEnd::Exhausted));
    assert_eq!(turns, 5);

    // The stop word is set while it waits: the turn is finished, and no other one begun.
    let stop = |after: u32| {
        let (word, mut turns) = (windows.shutdown.clone(), 0);
        word.store(0, 0, Relaxed);
        move || {
            turns += 1;
            assert!(turns <= after, "a turn more than it had to");
            if turns == after {
                word.store(0, 1, Relaxed);
            }
        }
    };
    assert_eq!(endpoint.wait_arrival(Bound::UNTIL_STOPPED, stop(3)).map(|_| ()), Err(WaitEnd::Stopped));
    assert!(endpoint.is_stopping());
}

#[test]
fn a_nic_that_stands_still_ends_no_wait_but_by_stop_or_bound() {
    let shape = Shape::of_depth(2);
    let Rig { mut endpoint, mut nic, mut peer, windows, .. } = rig(&shape);
    for i in 0..2 {
        assert!(peer.send(write_imm(&shape, 0, 0), &request(i)));
        nic.step_receive();
        let Poll::Arrived(arrived) = endpoint.poll() else { panic!("request {i}") };
        let room = endpoint.try_reserve().expect("room");
        increment(&mut endpoint, arrived, room);
    }
    let short = Bound { between: 4, turns: 3 };
    assert_eq!(endpoint.reserve(short, || ()).map(|_| ()), Err(WaitEnd::Exhausted));
    let word = windows.shutdown.clone();
    let stop = || word.store(0, 1, Relaxed);
    assert_eq!(endpoint.reserve(Bound::UNTIL_STOPPED, stop).map(|_| ()), Err(WaitEnd::Stopped));
    let own = words(1);
    let never = Shutdown::new(own.clone());
    assert_eq!(endpoint.drain(&never, short, || ()), Err(WaitEnd::Exhausted));
    let ended = endpoint.drain(&never, Bound::UNTIL_STOPPED, || own.store(0, 1, Relaxed));
    assert_eq!(ended, Err(WaitEnd::Stopped));
    assert_eq!(endpoint.counters().get(Event::TxFull), 2);
    // It moves again: everything that was waited for is there.
    own.store(0, 0, Relaxed);
    let ended = endpoint.drain(&never, Bound::UNTIL_STOPPED, || while nic.step() {});
    assert_eq!((ended, nic.stats().tx_sent), (Ok(()), 2));
    assert_obeyed(&nic);
}

#[test]
fn a_drain_asks_for_the_responses_that_nobody_signalled() {
    let shape = Shape::of_depth(64);
    for responses in [0, 1, 15, 16, 17, 63, 64] {
        let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
        for i in 0..responses {
            assert!(peer.send(write_imm(&shape, i as u32, 0), &request(i)));
            nic.step_receive();
            let Poll::Arrived(arrived) = endpoint.poll() else { panic!("request {i}") };
            let room = endpoint.try_reserve().expect("room");
            increment(&mut endpoint, arrived, room);
        }
        let bound = Bound { between: 1, turns: 1000 };
        let ended = endpoint.drain(&Shutdown::new(words(1)), bound, || while nic.step() {});
        assert_eq!(ended, Ok(()), "{responses} responses");
        assert_eq!((endpoint.send_queue().under_way(), nic.stats().tx_sent), (0, responses));
        assert_obeyed(&nic);
    }
}

#[test]
fn missing_and_old_messages_are_counted() {
    let shape = Shape { sequence: true, ..Shape::of_depth(8) };
    let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
    let top = (1 << 20) - 1;
    for sequence in [top - 1, top, 0, 3, 2, 4, 4, 10] {
        assert!(peer.send(write_imm(&shape, 0, sequence), b"x"));
        nic.step();
        let Poll::Arrived(arrived) = endpoint.poll() else { panic!("message {sequence}") };
        endpoint.release(arrived);
    }
    let count = |event| endpoint.counters().get(event);
    assert_eq!((count(Event::RxLost), count(Event::RxReordered)), (2 + 5, 2));
}

#[test]
fn room_is_used_once() {
    let shape = Shape::of_depth(4);
    let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
    let mut arrive = |endpoint: &mut _| {
        assert!(peer.send(write_imm(&shape, 0, 0), b"x"));
        nic.step_receive();
        let Poll::Arrived(arrived) = ringcall_mlx5::Endpoint::poll(endpoint) else { panic!("a request") };
        arrived
    };
    let (first, second) = (endpoint.try_reserve().expect("room"), endpoint.try_reserve().expect("room"));
    let arrived = arrive(&mut endpoint);
    assert_eq!(endpoint.respond(arrived, first, Frame::Bytes(b"once")), Ok(()));
    assert!(!endpoint.write(&second, 0, b"the NIC may be reading"));
    let arrived = arrive(&mut endpoint);
    assert_eq!(endpoint.respond(arrived, second, Frame::Bytes(b"twice")), Err(RespondError::Stale));
    for (frame, len) in [(Frame::Bytes(&[]), 0), (Frame::InSlot(129), 129), (Frame::Bytes(&[0; 129]), 129)] {
        let room = endpoint.try_reserve().expect("room");
        let arrived = arrive(&mut endpoint);
        assert_eq!(endpoint.respond(arrived, room, frame), Err(RespondError::Length(len)));
    }
    let count = |event| endpoint.counters().get(event);
    assert_eq!((count(Event::TxTooLong), count(Event::RxUnanswered), count(Event::RxReposted)), (3, 4, 5));
}
