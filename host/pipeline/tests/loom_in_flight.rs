//! InFlightTable under loom: a worker takes each response of the device once, for its own request, while slots are released,
//! harvested and written again by others; and a request that times out is answered once.
#![cfg(loom)]

#[path = "../src/remote/in_flight.rs"]
#[allow(dead_code, unreachable_pub)] // the shipping source: models use its part
mod in_flight;
#[path = "../../../device/protocol/tests/loom_support/mod.rs"]
mod loom_support;

use in_flight::{Claim, InFlightTable, Reply, UNDER_WAY};
use loom::sync::Arc;
use loom::thread;
use loom_support::{answer_of, broken, first, model, poll, ring, submit};
use ringcall::wire::flag;
use ringcall::{Ring, Status};
use ringcall_protocol::slot::Response;
use ringcall_protocol::{RingMemory, SharedRing};

struct World {
    in_flight: InFlightTable,
    answers: SharedRing,
}

impl World {
    fn new() -> Self {
        Self { in_flight: InFlightTable::new(Ring::external(ring(1))), answers: ring(1) }
    }

    fn device_ring(&self) -> &SharedRing {
        self.in_flight.ring().shared()
    }

    /// Injector: writes a request if the slot is free.
    fn send(&self, id: u32) -> bool {
        let ring = self.device_ring();
        let slot = first(ring);
        let Some(vacant) = self.in_flight.reserve(slot, &self.answers) else { return false };
        self.in_flight.announce(slot);
        submit(ring, vacant, id);
        true
    }

    /// Device: answers the request, if there is one.
    fn answer(&self) -> bool {
        let ring = self.device_ring();
        let Some(request) = poll(ring) else { return false };
        let answer = answer_of(ring, first(ring));
        let _ = request.answer(ring, Status::OK, &answer);
        true
    }

    /// Worker: takes a response. Returns the id of the request that it answered.
    fn work(&self, release_first: bool) -> Option<u32> {
        let ring = self.device_ring();
        let slot = first(ring);
        match self.in_flight.claim(slot)? {
            Claim::Answer(word, response) => {
                let id = response.header().request_id;
                let complete = || {
                    let write =
                        || self.in_flight.write(slot, id, Reply::Answer(Status::OK, &[]), &self.answers);
                    self.in_flight.complete(slot, word, write)
                };
                let won = if release_first {
                    response.release(ring);
                    complete()
                } else {
                    let won = complete();
                    response.release(ring);
                    won
                };
                won.then_some(id)
            }
            Claim::Late(word, response) => {
                response.release(ring);
                self.in_flight.discarded(slot, word);
                None
            }
        }
    }

    /// Consumer: the status and id that the user sees.
    fn harvest(&self) -> Option<(Status, u32)> {
        let response = Response::probe(&self.answers, first(&self.answers))?;
        let header = *response.header();
        response.release(&self.answers);
        Some((header.status(), header.request_id))
    }
}

/// Two workers, while the first request is harvested and a second one takes its slot.
fn two_workers(release_first: bool) {
    let world = Arc::new(World::new());
    assert!(world.send(0) && world.answer());
    let workers: Vec<_> = [release_first, true]
        .map(|order| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.work(order))
        })
        .into_iter()
        .collect();
    let mut harvested = Vec::new();
    let mut sent = false;
    for _ in 0..2 {
        harvested.extend(world.harvest());
        sent = sent || (world.send(1) && world.answer());
    }
    let mut taken: Vec<u32> = workers.into_iter().filter_map(|w| w.join().expect("a worker")).collect();
    // The steps that no thread got to, in order.
    for _ in 0..3 {
        taken.extend(world.work(true));
        harvested.extend(world.harvest());
        sent = sent || (world.send(1) && world.answer());
    }
    assert!(sent, "the slot comes back");
    taken.sort_unstable();
    harvested.sort_unstable();
    assert_eq!(taken, [0, 1], "an answer was lost or taken twice");
    assert_eq!(harvested, [(Status::OK, 0), (Status::OK, 1)]);
}

#[test]
fn an_answer_is_released_before_it_is_completed() {
    model(|| two_workers(true));
}

#[test]
fn mutant_completed_first() {
    let says = broken(|| two_workers(false));
    assert!(says.contains("an answer was lost") || says.contains("the slot comes back"), "{says:?}");
}

/// Device, worker and watchdog at once: the user sees one completion, and the slot is free in the end.
#[test]
fn time_runs_out_once() {
    model(|| {
        let world = Arc::new(World::new());
        assert!(world.send(0));
        let (device, worker) = (Arc::clone(&world), Arc::clone(&world));
        let device = thread::spawn(move || device.answer());
        let worker = thread::spawn(move || worker.work(true));
        world.in_flight.expire(UNDER_WAY, u64::MAX, Status::TIMED_OUT, &world.answers);
        let answered = device.join().expect("the device");
        let mut won = worker.join().expect("the worker");
        assert!(answered || world.answer());
        let harvested = world.harvest();
        won = won.or(world.work(true));
        let harvested = harvested.or_else(|| world.harvest()).expect("the user gets it");
        assert_eq!(harvested.0, if won.is_some() { Status::OK } else { Status::TIMED_OUT });
        assert_eq!(world.harvest(), None, "told twice");
        assert_eq!(world.device_ring().tx(first(world.device_ring())), flag::FREE);
        assert!(world.send(1), "the slot comes back");
    });
}
