//! Both queues go round a thousand times, at every depth, with every kind of doorbell: every request is answered, once,
//! with its own bytes, and no rule is broken.
#![cfg(not(loom))]

mod support;

use ringcall_mlx5::endpoint::Poll;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{Bound, Event, Shutdown, WaitEnd};
use ringcall_sim::nic::thread::Running;
use ringcall_sim::nic::{Message, Port, Wire};
use std::sync::atomic::Ordering;
use std::thread;
use support::*;

const LAPS: u64 = 1000;

fn take(peer: &mut Wire, i: u64) -> bool {
    let mut payload = Vec::new();
    let Some(message) = peer.receive(&mut payload) else { return false };
    assert_eq!(message, Message::Send);
    assert_eq!(payload, incremented(&request(i)), "response {i}");
    true
}

/// Everything on one thread, in an order that keeps the queues as full as they get.
fn laps(shape: &Shape) {
    let Rig { mut endpoint, mut nic, mut peer, .. } = rig(shape);
    let total = LAPS * u64::from(shape.depth);
    let (mut sent, mut answered) = (0, 0);
    let mut waiting = None;
    let mut poll_limit = PollLimit::default();
    while answered < total {
        poll_limit.wait();
        while sent < total && sent < answered + u64::from(shape.depth) {
            let slot = (sent % u64::from(shape.slots)) as u32;
            assert!(peer.send(write_imm(shape, slot, sent as u32), &request(sent)));
            sent += 1;
        }
        nic.step();
        loop {
            let arrived = match waiting.take() {
                Some(arrived) => arrived,
                None => match endpoint.poll() {
                    Poll::Arrived(arrived) => arrived,
                    Poll::Empty => break,
                    other => panic!("{other:?}"),
                },
            };
            let Some(slot) = endpoint.try_reserve() else {
                waiting = Some(arrived);
                break;
            };
            increment(&mut endpoint, arrived, slot);
        }
        while take(&mut peer, answered) {
            answered += 1;
            poll_limit.renew();
        }
    }
    assert_obeyed(&nic);
    let (stats, count) = (*nic.stats(), |event| endpoint.counters().get(event));
    assert_eq!((stats.rx_delivered, stats.tx_sent, stats.rx_no_credit), (total, total, 0));
    assert_eq!(
        (count(Event::RxRequests), count(Event::RxReposted), count(Event::TxPosted)),
        (total, total, total)
    );
    assert_eq!(count(Event::RxLost) + count(Event::RxReordered), 0);
    assert_eq!(endpoint.receive_queue().posted(), total + u64::from(shape.depth));
    assert_eq!(stats.tx_inline, count(Event::TxInline));
    assert!(stats.tx_inline > 0 && stats.tx_inline < total, "both ways to send were taken");
    assert_eq!(count(Event::TxSignalled), total / u64::from(endpoint.send_queue().interval()));
}

#[test]
fn a_thousand_laps_at_every_depth() {
    for depth in [1, 2, 64, 1024] {
        laps(&Shape { sequence: true, ..Shape::of_depth(depth) });
        laps(&Shape { burst: 1, blue_flame: true, ..Shape::of_depth(depth.min(64)) });
    }
}

#[test]
fn a_thousand_laps_without_a_record_and_told_what_was_read() {
    for (depth, blue_flame) in [(1, true), (2, false), (64, true)] {
        let shape = Shape {
            record: RecordMode::NotWritten,
            blue_flame,
            consumer_records: true,
            ..Shape::of_depth(depth)
        };
        laps(&shape);
    }
}

/// A NIC, a server and a client on threads of their own; the server waits with the waits that ship. The client has `window`
/// requests under way: fewer than there are receive requests, since those come back after the response.
fn threads(shape: &Shape, window: u64, total: u64) {
    let Rig { mut endpoint, nic, mut peer, windows, .. } = rig(shape);
    let nic = Running::start(nic).expect("a thread");
    let server = thread::spawn(move || {
        let bound = Bound { between: 64, turns: u64::MAX };
        loop {
            let arrived = match endpoint.wait_arrival(bound, thread::yield_now) {
                Ok(arrived) => arrived,
                Err(ended) => break (endpoint, ended),
            };
            match endpoint.reserve(bound, thread::yield_now) {
                Ok(slot) => increment(&mut endpoint, arrived, slot),
                Err(ended) => break (endpoint, ended),
            }
        }
    });
    let (mut sent, mut answered) = (0, 0);
    let mut poll_limit = PollLimit::default();
    while answered < total {
        let mut idle = true;
        while sent < total && sent < answered + window {
            let slot = (sent % u64::from(shape.slots)) as u32;
            assert!(peer.send(write_imm(shape, slot, sent as u32), &request(sent)));
            sent += 1;
            idle = false;
        }
        while take(&mut peer, answered) {
            answered += 1;
            idle = false;
        }
        if idle {
            poll_limit.wait();
            thread::yield_now();
        } else {
            poll_limit.renew();
        }
    }
    windows.shutdown.store(0, 1, Ordering::Relaxed);
    let (mut endpoint, ended) = server.join().expect("server");
    assert_eq!(ended, WaitEnd::Stopped);
    let bound = Bound { between: 64, turns: u64::MAX };
    endpoint.drain(&Shutdown::new(words(1)), bound, thread::yield_now).expect("the NIC lives");
    assert_eq!(endpoint.send_queue().under_way(), 0);
    let nic = nic.stop().expect("NIC");
    assert_obeyed(&nic);
    assert_eq!(nic.stats().rx_no_credit, 0);
    assert_eq!(endpoint.counters().get(Event::RxRequests), total);
}

#[test]
fn laps_on_threads() {
    for (window, laps, blue_flame) in [(1, 1000, true), (2, 1000, false), (63, 250, true), (1023, 20, true)] {
        let depth = (window as u32 + 1).next_power_of_two();
        let shape = Shape { blue_flame, ..Shape::of_depth(depth) };
        threads(&shape, window, laps * u64::from(depth));
    }
}
