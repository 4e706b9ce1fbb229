//! A pool's words: the ready flag, the idle mask, and the mailbox that the idle mask protects.
#![cfg(loom)]

mod loom_support;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_gpu::atomic::{DeviceU64, SystemU64};
use ringcall_protocol::idle::IdleMask;
use ringcall_protocol::ledger::Ticket;
use ringcall_protocol::mailbox::{Job, Mailbox};
use ringcall_protocol::ready::{IDLE, PROCESSING, READY, ReadyFlag};
use ringcall_protocol::{Geometry, RingMemory};
use ringcall_wire::header::RequestHeader;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Memory of one party at a time, without atomics: loom reports two parties in it at once, and a party that enters
/// without having seen the last one leave.
#[derive(Default)]
struct Private(UnsafeCell<()>);

impl Private {
    fn write(&self) {
        self.0.with_mut(|_| ());
    }
    fn read(&self) {
        self.0.with(|_| ());
    }
}

#[derive(Default)]
struct Lane {
    flag: SystemU64,
    output: Private,
}

/// One signal, two pollers that claim by `claim`.
fn one_signal(signal: fn(&SystemU64), claim: fn(&SystemU64) -> bool) {
    let lane = Arc::new(Lane::default());
    let take = move |lane: &Lane| {
        let claimed = claim(&lane.flag);
        if claimed {
            lane.output.read();
        }
        claimed
    };
    let pollers = [(); 2].map(|()| {
        let lane = Arc::clone(&lane);
        thread::spawn(move || (0..2).filter(|_| take(&lane)).count())
    });
    lane.output.write();
    signal(&lane.flag);
    let claims: usize = pollers.map(|poller| poller.join().expect("poller")).iter().sum();
    assert!(claims <= 1, "claimed twice");
    assert!(claims == 1 || take(&lane), "nobody can claim it");
    assert_eq!(ReadyFlag::new(&lane.flag).state(), PROCESSING);
    ReadyFlag::new(&lane.flag).release();
    assert_eq!(ReadyFlag::new(&lane.flag).state(), IDLE);
    assert!(!take(&lane), "claimed after the release");
}

fn signal(flag: &SystemU64) {
    ReadyFlag::new(flag).signal();
}

fn claim(flag: &SystemU64) -> bool {
    ReadyFlag::new(flag).claim()
}

#[test]
fn a_ready_flag_is_claimed_once_and_shows_the_output() {
    model(|| one_signal(signal, claim));
}

#[test]
fn mutant_ready_flag_claimed_by_load_and_store() {
    fn wrong(flag: &SystemU64) -> bool {
        let ready = flag.load(Acquire) == READY;
        if ready {
            flag.store(PROCESSING, Relaxed);
        }
        ready
    }
    assert!(broken(|| one_signal(signal, wrong)).contains("claimed twice"));
}

#[test]
fn mutant_ready_flag_signalled_relaxed() {
    assert!(broken(|| one_signal(|flag| flag.store(READY, Relaxed), claim)).contains("Causality violation"));
}

/// Two workers and what they own.
#[derive(Default)]
struct Pool {
    idle: [DeviceU64; 1],
    owned: [Private; 2],
}

/// Three claimers over two workers: each uses what it claimed, and gives it back by `release`.
fn claims(release: fn(&Pool, u32)) {
    let pool = Arc::new(Pool::default());
    for worker in 0..2 {
        IdleMask::new(&pool.idle).release(worker);
    }
    let turn = move |pool: &Pool| match IdleMask::new(&pool.idle).claim(&[0b11]) {
        Some(worker) => {
            assert!(
                !IdleMask::new(&pool.idle).is_idle(worker),
                "worker {worker} is idle although it was claimed"
            );
            pool.owned[worker as usize].write();
            release(pool, worker);
            true
        }
        None => false,
    };
    let others = [(); 2].map(|()| {
        let pool = Arc::clone(&pool);
        thread::spawn(move || turn(&pool))
    });
    let _ = turn(&pool);
    // Two workers for at most two others: nobody who was alone with one other went without.
    let claimed = others.map(|other| other.join().expect("claimer"));
    assert!(claimed.iter().any(|&claimed| claimed));
    assert_eq!(IdleMask::new(&pool.idle).count(), 2, "a worker was lost");
}

#[test]
fn no_worker_is_claimed_twice_and_what_it_owns_is_handed_over() {
    model(|| claims(|pool, worker| IdleMask::new(&pool.idle).release(worker)));
}

#[test]
fn mutant_worker_released_relaxed() {
    let found = broken(|| {
        claims(|pool, worker| {
            pool.idle[0].fetch_or(1 << worker, Relaxed);
        });
    });
    assert!(found.contains("Causality violation"), "{found}");
}

/// A claim that only covers its members leaves the others alone.
#[test]
fn claims_stay_within_their_team() {
    model(|| {
        let idle = Arc::new([DeviceU64::new(0b11)]);
        let other = {
            let idle = Arc::clone(&idle);
            thread::spawn(move || IdleMask::new(&*idle).claim(&[0b10]))
        };
        assert_eq!(IdleMask::new(&*idle).claim(&[0b01]), Some(0));
        assert_eq!(other.join().expect("claimer"), Some(1));
    });
}

#[derive(Default)]
struct WorkerShared {
    mailbox: Mailbox,
    idle: [DeviceU64; 1],
}

/// Job `i`: every field says so.
fn job(geometry: &Geometry, i: u64) -> Job {
    let header = RequestHeader::new(i as u32, i as u32 + 1, i as u32 + 2, i + 3);
    let slot = geometry.slot(i as u32).expect("in the ring");
    Job { ticket: Ticket { slot, generation: i + 4, header }, accepted_ns: i + 5, posted_ns: i + 6 }
}

/// Two jobs for one worker, handed over whenever its bit is set; `work` takes one and sets the bit again.
fn hand_over(work: fn(&WorkerShared, &Geometry) -> Option<Job>) {
    let geometry = *ring(2).geometry();
    let shared = Arc::new(WorkerShared::default());
    IdleMask::new(&shared.idle).release(0);
    let worker = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || (0..3).filter_map(|_| work(&shared, &geometry)).collect::<Vec<_>>())
    };
    let mut posted = 0;
    for _ in 0..2 {
        if IdleMask::new(&shared.idle).claim(&[1]).is_some() {
            shared.mailbox.post(&job(&geometry, posted));
            posted += 1;
        }
    }
    let mut taken = worker.join().expect("worker");
    while (taken.len() as u64) < posted {
        taken.push(work(&shared, &geometry).expect("a job was lost"));
    }
    for (i, taken) in taken.iter().enumerate() {
        assert_eq!(*taken, job(&geometry, i as u64), "not the job that was posted");
    }
    assert!(work(&shared, &geometry).is_none(), "a job was taken twice");
    assert_eq!(shared.mailbox.tag(&geometry), taken.last().copied(), "the origin tag is the last job");
}

#[test]
fn jobs_are_handed_over_whole_in_order_and_once() {
    model(|| {
        hand_over(|hand_over, geometry| {
            let job = hand_over.mailbox.take(geometry)?;
            IdleMask::new(&hand_over.idle).release(0);
            Some(job)
        });
    });
}

/// The worker's bit set before the job is out of the box: the next one is put on top of it.
#[test]
fn mutant_worker_released_before_the_box_is_empty() {
    let found = broken(|| {
        hand_over(|hand_over, geometry| {
            // A look that takes nothing out.
            hand_over.mailbox.tag(geometry).filter(|job| job.ticket.generation != 0)?;
            if !IdleMask::new(&hand_over.idle).is_idle(0) {
                IdleMask::new(&hand_over.idle).release(0);
            }
            hand_over.mailbox.take(geometry)
        });
    });
    assert!(["lost", "not the job", "twice"].iter().any(|text| found.contains(text)), "{found}");
}

/// The worker's bit set with relaxed order: the next job's fields may be stored before the last one's are read.
#[test]
fn release_and_claim_order_the_box() {
    model(|| {
        let hand_over = Arc::new((WorkerShared::default(), Private::default()));
        let worker = {
            let hand_over = Arc::clone(&hand_over);
            thread::spawn(move || {
                hand_over.1.read(); // the fields of the last job
                hand_over.0.idle[0].fetch_or(1, Release);
            })
        };
        if IdleMask::new(&hand_over.0.idle).claim(&[1]).is_some() {
            hand_over.1.write(); // those of the next
        }
        worker.join().expect("worker");
    });
}
