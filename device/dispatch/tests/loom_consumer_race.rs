//! The race between a consumer that takes a request out of the book and a producer that enters the next one.
//!
//! The consumer of the reference's design notes (§7.2) freed the slot first: a producer that was fast enough entered
//! its next request in between, the late removal wiped that out, and one request was waited for by nobody.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_dispatch::SharedRing;
use ringcall_dispatch::book::{Booked, Page, SlotBook};
use ringcall_dispatch::slot::{Response, Vacant};
use ringcall_wire::status::Status;

/// Ids that differ in both halves.
const IDS: [Booked; 2] = [
    Booked { request_id: 1 << 40 | 1, submitted_ns: 11 },
    Booked { request_id: 2 << 40 | 2, submitted_ns: 22 },
];

/// How a consumer takes a request out of the book and frees its slot.
type Harvest = fn(&SharedRing, &SlotBook<'_>, Response) -> Option<Booked>;

fn take_then_release(ring: &SharedRing, book: &SlotBook<'_>, response: Response) -> Option<Booked> {
    let booked = book.take(response.slot());
    response.release(ring);
    booked
}

fn release_then_take(ring: &SharedRing, book: &SlotBook<'_>, response: Response) -> Option<Booked> {
    let slot = response.slot();
    response.release(ring);
    book.take(slot)
}

fn race(harvest: Harvest) {
    let ring = ring(1);
    let pages = Arc::new([Page::default()]);
    let slot = first(&ring);
    // The first request is answered when the model begins.
    SlotBook::new(&*pages).enter(slot, IDS[0]);
    submit(&ring, Vacant::probe(&ring, slot).expect("new"), 0);
    let request = look(&ring).expect("submitted");
    let answer = answer_of(&ring, slot);
    let _ = request.answer(&ring, Status::OK, &answer);

    let consumer = {
        let (ring, pages) = (ring.clone(), Arc::clone(&pages));
        thread::spawn(move || {
            let response = Response::probe(&ring, first(&ring)).expect("answered");
            check_response(&ring, &response, 0);
            assert_eq!(
                harvest(&ring, &SlotBook::new(&*pages), response),
                Some(IDS[0]),
                "another request's id"
            );
        })
    };
    let book = SlotBook::new(&*pages);
    let enter = || {
        let Some(vacant) = Vacant::probe(&ring, slot) else { return false };
        book.enter(slot, IDS[1]);
        submit(&ring, vacant, 1);
        true
    };
    let entered = enter() || enter();
    consumer.join().expect("consumer");
    assert!(entered || enter());
    assert_eq!(book.look(slot), Some(IDS[1]), "a request that nobody waits for");
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
