//! The life of a slot: producer, dispatcher, worker and consumer, every interleaving.
//!
//! Two requests go through one slot. The first is in the ring when the model begins, the second is written as soon as
//! the slot is vacant.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_protocol::ledger::{Ledger, Phase, Record};
use ringcall_protocol::mailbox::{Job, Mailbox};
use ringcall_protocol::slot::{Request, Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::flag;
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// How a producer finds out that slot 0 is vacant.
type Probe = fn(&SharedRing) -> Option<Vacant>;
/// How a dispatcher deals with a request.
type Serve = fn(&SharedRing, Request);

fn probe(ring: &SharedRing) -> Option<Vacant> {
    Vacant::probe(ring, first(ring))
}

fn at_once(ring: &SharedRing, request: Request) {
    request.check(ring).expect("what the producer wrote");
    let answer = answer_of(ring, request.slot());
    let _ = request.answer(ring, Status::OK, &answer);
}

fn in_flight(ring: &SharedRing, request: Request) {
    request.check(ring).expect("what the producer wrote");
    let in_flight = request.take(ring);
    let answer = answer_of(ring, in_flight.slot());
    let _ = in_flight.answer(ring, Status::OK, &answer);
}

/// Producer: request `i`, if the slot is vacant. Vacant means that all answers before were taken: not a moment earlier.
fn produce(ring: &SharedRing, taken: &DeviceU64, probe: Probe, i: u32) -> bool {
    let Some(vacant) = probe(ring) else { return false };
    // The consumer counts before it releases: a vacant slot shows the count.
    assert_eq!(taken.load(Relaxed), u64::from(i), "both flags 0 while a request was under way");
    submit(ring, vacant, i);
    true
}

/// Consumer: the next response, if it is there.
fn consume(ring: &SharedRing, taken: &DeviceU64) -> bool {
    let Some(response) = Response::probe(ring, first(ring)) else { return false };
    let i = taken.load(Relaxed);
    check_response(ring, &response, i as u32);
    taken.store(i + 1, Relaxed);
    response.release(ring);
    true
}

fn life(probe: Probe, serve: Serve) {
    let ring = ring(1);
    let taken = Arc::new(DeviceU64::new(0));
    assert!(produce(&ring, &taken, probe, 0));
    let dispatcher = {
        let ring = ring.clone();
        thread::spawn(move || {
            (0..3).filter(|_| poll(&ring).map(|request| serve(&ring, request)).is_some()).count()
        })
    };
    let consumer = {
        let (ring, taken) = (ring.clone(), Arc::clone(&taken));
        thread::spawn(move || (0..3).filter(|_| consume(&ring, &taken)).count())
    };
    let produced = (0..2).any(|_| produce(&ring, &taken, probe, 1));
    let served = dispatcher.join().expect("dispatcher");
    let consumed = consumer.join().expect("consumer");
    // What nobody got to, in order.
    assert!(served >= 1 && served <= 1 + usize::from(produced) && consumed <= served);
    assert!(consumed >= 1 || consume(&ring, &taken));
    assert!(produced || produce(&ring, &taken, probe, 1));
    if served < 2 {
        serve(&ring, poll(&ring).expect("the second request"));
    }
    assert!(consumed == 2 || consume(&ring, &taken));
    assert!(probe(&ring).is_some() && poll(&ring).is_none());
}

#[test]
fn answered_by_the_dispatcher_itself() {
    model(|| life(probe, at_once));
}

#[test]
fn answered_after_the_in_flight_mark() {
    model(|| life(probe, in_flight));
}

/// Four parties: the dispatcher hands to a worker thread, which completes the request in the ledger and answers.
#[test]
fn answered_by_a_worker() {
    model(|| {
        let ring = ring(1);
        let taken = Arc::new(DeviceU64::new(0));
        let hand_over = Arc::new((Mailbox::default(), [CachePadded::<Record>::default()]));
        assert!(produce(&ring, &taken, probe, 0));
        let dispatch = |ring: &SharedRing, hand_over: &(Mailbox, [CachePadded<Record>; 1])| {
            let Some(request) = poll(ring) else { return false };
            request.check(ring).expect("what the producer wrote");
            let ticket = Ledger::new(&hand_over.1).open(request.take(ring), Phase::Running, 5);
            hand_over.0.post(&Job { ticket, accepted_ns: 5, posted_ns: 6 });
            true
        };
        let work = |ring: &SharedRing, hand_over: &(Mailbox, [CachePadded<Record>; 1])| {
            let Some(job) = hand_over.0.take(ring.geometry()) else { return false };
            let answer = answer_of(ring, job.ticket.slot);
            let in_flight = Ledger::new(&hand_over.1).complete(&job.ticket).expect("the only one");
            let _ = in_flight.answer(ring, Status::OK, &answer);
            true
        };
        let dispatcher = {
            let (ring, hand_over) = (ring.clone(), Arc::clone(&hand_over));
            thread::spawn(move || assert!(dispatch(&ring, &hand_over)))
        };
        let worker = {
            let (ring, hand_over) = (ring.clone(), Arc::clone(&hand_over));
            thread::spawn(move || work(&ring, &hand_over))
        };
        let consumer = {
            let (ring, taken) = (ring.clone(), Arc::clone(&taken));
            thread::spawn(move || consume(&ring, &taken))
        };
        let produced = produce(&ring, &taken, probe, 1);
        dispatcher.join().expect("dispatcher");
        let worked = worker.join().expect("worker");
        let consumed = consumer.join().expect("consumer");
        assert!(worked || work(&ring, &hand_over));
        assert!(consumed || consume(&ring, &taken));
        assert!(produced || produce(&ring, &taken, probe, 1));
        assert!(dispatch(&ring, &hand_over) && work(&ring, &hand_over) && consume(&ring, &taken));
    });
}

/// A producer that looks at the request flag alone sends while the last response is still to be taken: its request waits in the
/// slot, and the response stays what it is.
#[test]
fn a_response_is_written_after_the_last_one_was_taken() {
    model(|| {
        let ring = ring(1);
        let taken = Arc::new(DeviceU64::new(0));
        let serve = |ring: &SharedRing| poll(ring).map(|request| at_once(ring, request)).is_some();
        assert!(produce(&ring, &taken, probe, 0) && serve(&ring));
        let consumer = {
            let (ring, taken) = (ring.clone(), Arc::clone(&taken));
            thread::spawn(move || consume(&ring, &taken))
        };
        let second = RequestHeader::new(FUNCTION, 8, 1, 101).to_bytes();
        let raw = [&second[..], &2_u64.to_le_bytes()].concat();
        ring.forge_request(first(&ring), &raw, ring.geometry().request_address(first(&ring)));
        let served = serve(&ring);
        let consumed = consumer.join().expect("consumer");
        assert!(consumed || !served, "answered over a response that was not taken");
        assert!(consumed || consume(&ring, &taken));
        assert!(served || serve(&ring));
        assert!(consume(&ring, &taken));
    });
}

/// tx read before rx: tx = 0 from before the answer, rx = 0 from after it.
#[test]
fn mutant_probe_reads_tx_before_rx() {
    fn wrong(ring: &SharedRing) -> Option<Vacant> {
        let slot = first(ring);
        let vacant = ring.tx(slot) == flag::FREE && ring.rx(slot) == flag::FREE;
        // Both flags are 0 by now or the mutant has found its interleaving: make the token all the same.
        vacant
            .then(|| Vacant::probe(ring, slot))
            .map(|token| token.expect("vacant, or both flags 0 too early"))
    }
    assert!(broken(|| life(wrong, at_once)).contains("both flags 0"));
    assert!(broken(|| life(wrong, in_flight)).contains("both flags 0"));
}

/// rx cleared before the in-flight mark: for a moment the slot looks idle.
#[test]
fn mutant_rx_cleared_before_the_mark() {
    fn wrong(ring: &SharedRing, request: Request) {
        let slot = request.slot();
        ring.clear_rx(slot);
        in_flight(ring, request);
    }
    assert!(broken(|| life(probe, wrong)).contains("both flags 0"));
}

/// rx cleared before the answer is out.
#[test]
fn mutant_rx_cleared_before_the_answer() {
    fn wrong(ring: &SharedRing, request: Request) {
        let slot = request.slot();
        ring.clear_rx(slot);
        at_once(ring, request);
    }
    assert!(broken(|| life(probe, wrong)).contains("both flags 0"));
}

/// The response flag stored relaxed: it may be seen before the response.
#[test]
fn mutant_response_published_relaxed() {
    publish_with(|ring, slot, address| ring.windows().tx_flags.store(slot, address, Relaxed), true);
    publish_with(|ring, slot, address| ring.windows().tx_flags.store(slot, address, Release), false);
}

fn publish_with(publish: fn(&SharedRing, usize, u64), wrong: bool) {
    let body = move || {
        let ring = ring(1);
        let request = RequestHeader::new(FUNCTION, 8, 0, 100);
        let dispatcher = {
            let ring = ring.clone();
            thread::spawn(move || {
                let slot = first(&ring);
                ring.write_response(
                    slot,
                    ResponseHeader::reply(&request, 0, 8).to_words(),
                    &10_u64.to_le_bytes(),
                );
                publish(&ring, slot.as_usize(), ring.geometry().response_address(slot));
            })
        };
        if let Some(response) = Response::probe(&ring, first(&ring)) {
            check_response(&ring, &response, 0);
        }
        dispatcher.join().expect("dispatcher");
    };
    if wrong { assert!(broken(body).contains("left == right")) } else { model(body) }
}

/// The request flag stored relaxed: the dispatcher's fence has nothing to pair with.
#[test]
fn mutant_request_published_relaxed() {
    let body = |order| {
        move || {
            let ring = ring(1);
            let producer = {
                let ring = ring.clone();
                thread::spawn(move || {
                    let slot = first(&ring);
                    let windows = ring.windows();
                    windows.rx_data.write_words(0, RequestHeader::new(FUNCTION, 8, 0, 100).to_words());
                    windows.rx_data.write(24, &1_u64.to_le_bytes());
                    windows.rx_flags.store(0, ring.geometry().request_address(slot), order);
                })
            };
            if let Some(request) = poll(&ring) {
                assert_eq!(*request.header(), RequestHeader::new(FUNCTION, 8, 0, 100));
                at_once(&ring, request);
            }
            producer.join().expect("producer");
        }
    };
    assert!(broken(body(Relaxed)).contains("left == right"));
    model(body(Release));
}
