//! Broken requests on a ring that several dispatchers serve: each is answered once, by the dispatcher that
//! has the turn.
//!
//! Two broken requests go through one slot. The first is in the ring when the model begins, the second is written as soon
//! as the slot is vacant.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::idle::IdleMask;
use ringcall_protocol::slot::{Request, Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Default)]
struct Shared {
    /// The right to answer what is broken: an idle mask of one.
    turn: [DeviceU64; 1],
    /// Answers that the consumer took.
    taken: DeviceU64,
}

impl Shared {
    fn take(&self) -> bool {
        IdleMask::new(&self.turn).claim(&[1]).is_some()
    }

    fn let_go(&self) {
        IdleMask::new(&self.turn).release(0);
    }
}

/// How a dispatcher deals with a broken request that it has seen: whether it answered one.
type Serve = fn(&SharedRing, &Shared, Request) -> bool;

/// Copies the request again, if its flag is still set; and answers it.
fn answer_again(ring: &SharedRing, request: Request, before: impl FnOnce()) -> bool {
    let value = ring.rx(request.slot());
    if value == flag::FREE {
        request.leave();
        return false;
    }
    let Some(whole) = request.again(ring, value) else { return false };
    assert_eq!(whole.check(ring), Err(Status::BAD_MAGIC), "half of the next one");
    before();
    let _ = whole.answer(ring, Status::BAD_MAGIC, &[]);
    true
}

fn in_turn(ring: &SharedRing, shared: &Shared, request: Request) -> bool {
    if !shared.take() {
        request.leave();
        return false;
    }
    let answered = answer_again(ring, request, || ());
    shared.let_go();
    answered
}

/// Producer: broken request `i`, if the slot is vacant.
fn produce(ring: &SharedRing, shared: &Shared, i: u32) -> bool {
    let Some(vacant) = Vacant::probe(ring, first(ring)) else { return false };
    assert_eq!(shared.taken.load(Relaxed), u64::from(i), "both flags 0 while a request was under way");
    let header = RequestHeader { magic: 0xBAD, ..RequestHeader::new(FUNCTION, 8, i, 0) };
    ring.forge_request(vacant.slot(), &header.to_bytes(), ring.geometry().request_address(vacant.slot()));
    true
}

/// Consumer: the next answer, if it is there.
fn consume(ring: &SharedRing, shared: &Shared) -> bool {
    let Some(response) = Response::probe(ring, first(ring)) else { return false };
    let i = shared.taken.load(Relaxed);
    assert_eq!(u64::from(response.header().request_id), i, "answered twice");
    shared.taken.store(i + 1, Relaxed);
    response.release(ring);
    true
}

fn life(serve: Serve) {
    let ring = ring(1);
    let shared = Arc::new(Shared::default());
    shared.let_go();
    assert!(produce(&ring, &shared, 0));
    let dispatchers = [2, 1].map(|polls| {
        let (ring, shared) = (ring.clone(), Arc::clone(&shared));
        thread::spawn(move || {
            (0..polls).filter(|_| poll(&ring).is_some_and(|request| serve(&ring, &shared, request))).count()
        })
    });
    // Consumer and producer in one: what is taken is taken as soon as it is there.
    let consumed = usize::from(consume(&ring, &shared)) + usize::from(consume(&ring, &shared));
    let produced = consumed > 0 && produce(&ring, &shared, 1);
    let served: usize = dispatchers.map(|dispatcher| dispatcher.join().expect("dispatcher")).iter().sum();
    assert!(served <= 1 + usize::from(produced), "answered twice");
    assert!(served > 0, "a request that one of them has seen is answered");
    // What nobody got to, in order.
    assert!(consumed >= 1 || consume(&ring, &shared));
    assert!(produced || produce(&ring, &shared, 1));
    if served < 2 {
        assert!(serve(&ring, &shared, poll(&ring).expect("the second request")));
    }
    assert!(consume(&ring, &shared));
    assert!(Vacant::probe(&ring, first(&ring)).is_some() && poll(&ring).is_none());
}

#[test]
fn a_broken_request_is_answered_once() {
    model(|| life(in_turn));
}

#[test]
fn mutant_without_a_turn() {
    let found = broken(|| life(|ring, _, request| answer_again(ring, request, || ())));
    assert!(found.contains("twice") || found.contains("both flags"), "{found}");
}

/// The turn let go of before the answer is out.
#[test]
fn mutant_turn_ends_before_the_answer() {
    let found = broken(|| {
        life(|ring, shared, request| {
            if !shared.take() {
                request.leave();
                return false;
            }
            let let_go = DeviceU64::new(1);
            let answered = answer_again(ring, request, || {
                shared.let_go();
                let_go.store(0, Relaxed);
            });
            if let_go.load(Relaxed) == 1 {
                shared.let_go();
            }
            answered
        });
    });
    assert!(found.contains("twice") || found.contains("both flags"), "{found}");
}

/// What was copied before the turn is answered as it is: another dispatcher may have answered it.
#[test]
fn mutant_nothing_is_polled_again() {
    let found = broken(|| {
        life(|ring, shared, request| {
            if !shared.take() {
                request.leave();
                return false;
            }
            let _ = request.answer(ring, Status::BAD_MAGIC, &[]);
            shared.let_go();
            true
        });
    });
    assert!(found.contains("twice") || found.contains("both flags"), "{found}");
}
