//! Two requests of one producer, seen while they are written: the second is never served before the first.
#![cfg(loom)]

mod loom_support;

use loom::thread;
use loom_support::*;
use ringcall_protocol::ordered_scan::OrderedScan;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::slot::Vacant;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::status::Status;

/// One look that appends the numbers of the requests that it takes.
type Poll = fn(&mut OrderedScan, &SharedRing, &mut Vec<u32>);

fn in_order(scan: &mut OrderedScan, ring: &SharedRing, served: &mut Vec<u32>) {
    scan.turn(ring, |seen| {
        let Some(request) = seen.claim(ring) else { return false };
        served.push(request.header().request_id);
        let _ = request.answer(ring, Status::OK, &[]);
        true
    });
}

/// As a dispatcher does that has no order: one look at the line, from its first slot to its last.
fn in_any_order(_: &mut OrderedScan, ring: &SharedRing, served: &mut Vec<u32>) {
    Scan::new(ring.geometry().slots()).turn(ring, |seen| {
        let Some(request) = seen.claim(ring) else { return };
        served.push(request.header().request_id);
        let _ = request.answer(ring, Status::OK, &[]);
    });
}

fn run(poll: Poll) {
    let ring = ring(2);
    let producer = {
        let ring = ring.clone();
        thread::spawn(move || {
            for i in 0..2 {
                let slot = ring.geometry().slot(i).expect("in the ring");
                submit(&ring, Vacant::probe(&ring, slot).expect("never used"), i);
            }
        })
    };
    let (mut scan, mut served) = (OrderedScan::new(2), Vec::new());
    poll(&mut scan, &ring, &mut served);
    producer.join().expect("no panic");
    poll(&mut scan, &ring, &mut served);
    assert_eq!(served, [0, 1]);
}

#[test]
fn requests_are_served_as_they_were_written() {
    model(|| run(in_order));
}

#[test]
fn a_line_read_once_misses_the_order() {
    assert!(broken(|| run(in_any_order)).contains("[1, 0]"));
}
