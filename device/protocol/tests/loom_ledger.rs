//! Who may answer a request in flight: the worker, a deferred completion, the dispatcher after the request's timeout. One.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_protocol::SharedRing;
use ringcall_protocol::ledger::{Ledger, Phase, Record, Ticket};
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

type Records = [CachePadded<Record>; 1];

/// Puts request `i` into slot 0 and takes it: in flight.
fn open(ring: &SharedRing, records: &Records, i: u32) -> Ticket {
    submit(ring, Vacant::probe(ring, first(ring)).expect("vacant"), i);
    let request = poll(ring).expect("submitted");
    Ledger::new(records).open(request.take(ring), Phase::Running, u64::from(i) + 1)
}

/// Answers with `status`, if no other agent has.
fn complete(ring: &SharedRing, records: &Records, ticket: &Ticket, status: Status) -> bool {
    match Ledger::new(records).complete(ticket) {
        Some(in_flight) => {
            let _ = in_flight.answer(ring, status, &[]);
            true
        }
        None => false,
    }
}

/// Worker, time-out and deferred completion at once: one of them answers, and its answer is the one in the slot.
#[test]
fn exactly_one_completes() {
    model(|| {
        let ring = ring(1);
        let records: Arc<Records> = Arc::default();
        let ticket = open(&ring, &records, 0);
        let rivals = [Status(1), Status(2)].map(|status| {
            let (ring, records) = (ring.clone(), Arc::clone(&records));
            thread::spawn(move || {
                // The second one is a pipeline stage that defers first.
                let deferred =
                    status == Status(2) && Ledger::new(&*records).advance(&ticket, Phase::Deferred, None);
                (complete(&ring, &records, &ticket, status), deferred)
            })
        });
        let timed_out = complete(&ring, &records, &ticket, Status::TIMED_OUT);
        let [worker, deferral] = rivals.map(|rival| rival.join().expect("rival"));
        let winners = [(timed_out, Status::TIMED_OUT), (worker.0, Status(1)), (deferral.0, Status(2))];
        let mut winners = winners.into_iter().filter(|&(won, _)| won);
        let (_, status) = winners.next().expect("somebody answered");
        assert!(winners.next().is_none(), "answered twice");
        assert!(!deferral.0 || deferral.1, "completed after a deferral that was refused");
        let response = Response::probe(&ring, first(&ring)).expect("answered");
        assert_eq!(response.header().status, status.0);
        response.release(&ring);
        assert!(!complete(&ring, &records, &ticket, Status(3)), "a completed request was completed again");
        assert!(Ledger::new(&*records).in_flight().next().is_none());
    });
}

/// A result that comes after its slot was reused completes nothing, however late.
#[test]
fn a_stale_generation_completes_nothing() {
    model(|| {
        let ring = ring(1);
        let records: Arc<Records> = Arc::default();
        let old = open(&ring, &records, 0);
        let late = {
            let (ring, records) = (ring.clone(), Arc::clone(&records));
            thread::spawn(move || {
                let advanced = Ledger::new(&*records).advance(&old, Phase::Deferred, Some(3));
                (advanced, complete(&ring, &records, &old, Status(1)))
            })
        };
        // The dispatcher: time is up, the answer is taken, the slot is reused, its next worker answers.
        let timed_out = complete(&ring, &records, &old, Status::TIMED_OUT);
        let mut outcome = None;
        if let Some(response) = Response::probe(&ring, first(&ring)) {
            response.release(&ring);
            let new = open(&ring, &records, 1);
            assert!(
                complete(&ring, &records, &new, Status(2)),
                "the new request was completed by the old one's result"
            );
            outcome = Some(Response::probe(&ring, first(&ring)).expect("answered").header().status);
        }
        let (_, completed) = late.join().expect("late");
        assert!(timed_out != completed, "exactly one answered the old request");
        assert!(outcome.is_none_or(|status| status == 2), "the old answer in the new request's slot");
    });
}

/// A watcher that sees a generation sees that generation's facts, or newer ones.
#[test]
fn a_watcher_sees_the_facts_of_what_it_sees() {
    model(|| {
        let ring = ring(1);
        let records: Arc<Records> = Arc::default();
        let watcher = {
            let (ring, records) = (ring.clone(), Arc::clone(&records));
            thread::spawn(move || Ledger::new(&*records).snapshot(first(&ring)).expect("in the ring"))
        };
        let ticket = open(&ring, &records, 4);
        let entry = watcher.join().expect("watcher");
        if entry.generation == ticket.generation {
            assert_eq!((entry.function_id, entry.request_id, entry.since_ns), (FUNCTION, 4, 5));
            assert_eq!(entry.phase, Phase::Running);
        }
    });
}

/// Completing by a load and a store: both rivals see the request open.
#[test]
fn mutant_completed_by_load_and_store() {
    let body = |atomic: bool| {
        move || {
            let state = Arc::new(DeviceU64::new(1));
            let complete = move |state: &DeviceU64| {
                if atomic {
                    return state.compare_exchange(1, 0, AcqRel, Acquire).is_ok();
                }
                let open = state.load(Acquire) == 1;
                state.store(0, Release);
                open
            };
            let rival = {
                let state = Arc::clone(&state);
                thread::spawn(move || complete(&state))
            };
            let ours = complete(&state);
            assert!(ours != rival.join().expect("rival"), "completed twice");
        }
    };
    model(body(true));
    assert!(broken(body(false)).contains("completed twice"));
}
