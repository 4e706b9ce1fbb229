//! The race between a consumer that takes a request out of the ids and a producer that enters the next one.
//!
//! The consumer of the reference's design notes (§7.2) freed the slot first: a producer that was fast enough
//! entered its next request in between, the late removal wiped that out, and one request was waited for by no
//! agent.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_protocol::SharedRing;
use ringcall_protocol::request_ids::{RequestIdCell, RequestIds, Submitted};
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_wire::status::Status;

/// Ids that differ in both halves.
const IDS: [Submitted; 2] = [
    Submitted { request_id: 1 << 40 | 1, submitted_ns: 11 },
    Submitted { request_id: 2 << 40 | 2, submitted_ns: 22 },
];

/// How a consumer takes a request out of the ids and frees its slot.
type Harvest = fn(&SharedRing, &RequestIds<'_>, Response) -> Option<Submitted>;

fn take_then_release(ring: &SharedRing, ids: &RequestIds<'_>, response: Response) -> Option<Submitted> {
    let entry = ids.take(response.slot());
    response.release(ring);
    entry
}

fn release_then_take(ring: &SharedRing, ids: &RequestIds<'_>, response: Response) -> Option<Submitted> {
    let slot = response.slot();
    response.release(ring);
    ids.take(slot)
}

fn race(harvest: Harvest) {
    let ring = ring(1);
    let cells = Arc::new([RequestIdCell::default()]);
    let slot = first(&ring);
    // The first request is answered when the model begins.
    RequestIds::new(&*cells).insert(slot, IDS[0]);
    submit(&ring, Vacant::probe(&ring, slot).expect("new"), 0);
    let request = poll(&ring).expect("submitted");
    let answer = answer_of(&ring, slot);
    let _ = request.answer(&ring, Status::OK, &answer);

    let consumer = {
        let (ring, cells) = (ring.clone(), Arc::clone(&cells));
        thread::spawn(move || {
            let response = Response::probe(&ring, first(&ring)).expect("answered");
            check_response(&ring, &response, 0);
            assert_eq!(
                harvest(&ring, &RequestIds::new(&*cells), response),
                Some(IDS[0]),
                "another request's id"
            );
        })
    };
    let ids = RequestIds::new(&*cells);
    let enter = || {
        let Some(vacant) = Vacant::probe(&ring, slot) else { return false };
        ids.insert(slot, IDS[1]);
        submit(&ring, vacant, 1);
        true
    };
    let entered = enter() || enter();
    consumer.join().expect("consumer");
    assert!(entered || enter());
    assert_eq!(ids.get(slot), Some(IDS[1]), "a request that nobody waits for");
}

#[test]
fn out_of_the_book_first() {
    model(|| race(take_then_release));
}

#[test]
fn mutant_slot_freed_first() {
    let found = broken(|| race(release_then_take));
    assert!(found.contains("another request's id") || found.contains("nobody waits for"), "{found}");
}
