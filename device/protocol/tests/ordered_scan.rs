//! The order in which requests are visited: from the cursor around the ring.

use ringcall_gpu::shared::Region;
use ringcall_protocol::ordered_scan::OrderedScan;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::status::Status;

fn ring(slots: u32) -> SharedRing {
    let n = slots as usize;
    let words = || Region::zeroed(n * 8).expect("memory").words(0, n).expect("inside");
    let bytes = || {
        let len = n * (HEADER_BYTES + 8);
        Region::zeroed(len).expect("memory").bytes(0, len).expect("inside")
    };
    let windows = RingWindows { rx_flags: words(), tx_flags: words(), rx_data: bytes(), tx_data: bytes() };
    let stride = (HEADER_BYTES + 8) as u32;
    SharedRing::new(slots, stride, stride, windows, None).expect("a ring")
}

fn submit(ring: &SharedRing, slot: u32, id: u32) {
    let slot = ring.geometry().slot(slot).expect("in the ring");
    Vacant::probe(ring, slot).expect("free").submit(ring, 7, id, 0, &[]).expect("it fits");
}

/// Answers what a turn visits, up to `most` requests, and takes the answers away.
fn serve(scan: &mut OrderedScan, ring: &SharedRing, most: usize) -> Vec<u32> {
    let mut served = Vec::new();
    let turns = ring.geometry().slots().div_ceil(8) + 1;
    for _ in 0..turns {
        scan.turn(ring, |seen| {
            if served.len() == most {
                return false;
            }
            let (slot, request) = (seen.slot(), seen.claim(ring).expect("set"));
            served.push(request.header().request_id);
            let _ = request.answer(ring, Status::OK, &[]);
            Response::probe(ring, slot).expect("answered").release(ring);
            true
        });
    }
    served
}

#[test]
fn a_producer_that_goes_around_is_followed() {
    for slots in [1, 2, 3, 7, 8, 9, 16, 21, 64] {
        let (ring, mut scan) = (ring(slots), OrderedScan::new(slots));
        let (mut slot, mut id) = (0, 0);
        for burst in (1..=slots.min(21)).chain([1, slots]) {
            for i in 0..burst {
                submit(&ring, (slot + i) % slots, id + i);
            }
            assert_eq!(serve(&mut scan, &ring, usize::MAX), (id..id + burst).collect::<Vec<_>>(), "{slots}");
            (slot, id) = ((slot + burst) % slots, id + burst);
        }
    }
}

#[test]
fn slots_that_the_producer_passes_over_are_passed_over() {
    let (ring, mut scan) = (ring(24), OrderedScan::new(24));
    submit(&ring, 3, 0);
    assert_eq!(serve(&mut scan, &ring, usize::MAX), [0]);
    (1..).zip([9, 17, 23, 1]).for_each(|(id, slot)| submit(&ring, slot, id));
    assert_eq!(serve(&mut scan, &ring, usize::MAX), [1, 2, 3, 4]);
}

#[test]
fn a_request_that_is_left_holds_up_those_after_it() {
    let (ring, mut scan) = (ring(8), OrderedScan::new(8));
    (0..3).for_each(|i| submit(&ring, i, i));
    assert_eq!(serve(&mut scan, &ring, 1), [0]);
    assert_eq!(serve(&mut scan, &ring, usize::MAX), [1, 2]);
    (3..6).for_each(|i| submit(&ring, i, i));
    let mut seen = Vec::new();
    assert_eq!(
        scan.full(&ring, |request| {
            seen.push(request.slot().get());
            false
        }),
        0
    );
    assert_eq!(seen, [3]);
}
