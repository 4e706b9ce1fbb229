//! The hand-off queue under loom: one device, two pollers, one record.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::{Region, Words};
use ringcall_protocol::handoff::{ConsumerState, DeviceEnd, HostEnd, PolledJob, Shape, Whose};
use ringcall_wire::handoff::{record, state};
use ringcall_wire::header::RequestHeader;
use std::sync::atomic::Ordering::{self, Relaxed};

struct Queue {
    words: Words,
    shape: Shape,
    next: DeviceU64,
    claims: Vec<DeviceU64>,
}

impl Queue {
    fn new(depth: u32) -> Self {
        let shape = Shape::new(depth, 16).expect("a shape");
        let region = Region::zeroed(shape.bytes()).expect("memory");
        let words = region.words(0, shape.bytes() / 8).expect("inside");
        let claims = (0..depth).map(|_| DeviceU64::new(0)).collect();
        Self { words, shape, next: DeviceU64::new(0), claims }
    }

    fn host(&self) -> HostEnd<'_> {
        HostEnd::new(&self.words, self.shape, ConsumerState { next: &self.next, claims: &self.claims })
            .expect("it fits")
    }

    /// The device's part of job `sequence`; `publish` is how it hands over.
    fn produce(&self, sequence: u64, publish: fn(&Self, u64)) -> bool {
        let device = DeviceEnd::new(&self.words, self.shape);
        let Some(grant) = device.grant(sequence, 1) else { return false };
        device.set_output_pair(grant, 0, [sequence + 50, sequence + 60]);
        publish(self, sequence);
        true
    }

    /// One poll: the job that was found, released by `release` after it was read.
    fn consume(&self, release: fn(&Self, u32, u64, &dyn Fn())) -> Option<u64> {
        let claim = match self.host().poll() {
            PolledJob::Job(claim) => claim,
            PolledJob::Empty => return None,
            other => panic!("{other:?}: nobody wrote garbage"),
        };
        let sequence = claim.sequence();
        release(self, claim.index(), sequence, &|| {
            let output = self.words.load_pair(self.shape.output_at(claim.index()) / 8);
            assert_eq!(output, [sequence + 50, sequence + 60], "another job's output");
            assert_eq!(claim.slot(), sequence + 3, "another job's slot");
        });
        Some(sequence)
    }
}

fn whose(sequence: u64) -> Whose {
    Whose { header: RequestHeader::new(7, 8, 1, 2), slot: sequence + 3, answers: true }
}

fn publish(queue: &Queue, sequence: u64) {
    let device = DeviceEnd::new(&queue.words, queue.shape);
    device.publish(device.resume(sequence), &whose(sequence));
}

fn read_then_release(queue: &Queue, index: u32, sequence: u64, read: &dyn Fn()) {
    read();
    queue.host().release(index, sequence).expect("claimed");
}

/// Two jobs through `depth` records, two pollers: every job is seen once, with its own output.
fn race(depth: u32, hand_over: fn(&Queue, u64), release: fn(&Queue, u32, u64, &dyn Fn())) {
    let queue = Arc::new(Queue::new(depth));
    assert!(queue.produce(0, publish), "new");
    let poller = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || [queue.consume(release), queue.consume(release)])
    };
    let device = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.produce(1, hand_over))
    };
    let mine = queue.consume(release);
    let others = poller.join().expect("poller");
    let produced = device.join().expect("device") || queue.produce(1, publish);
    assert!(produced, "a free record was refused");
    let mut all: Vec<_> = others.into_iter().chain([mine]).flatten().collect();
    all.extend(std::iter::from_fn(|| queue.consume(release)));
    all.sort_unstable();
    assert_eq!(all, [0, 1], "every job once");
}

#[test]
fn every_job_once_with_its_own_output() {
    race_in_models(1);
}

#[test]
fn every_job_once_with_two_records() {
    race_in_models(2);
}

fn race_in_models(depth: u32) {
    model(move || race(depth, publish, read_then_release));
}

#[test]
fn mutant_state_set_before_the_record_is_written() {
    fn early(queue: &Queue, sequence: u64) {
        let state_at = queue.shape.record(queue.shape.index(sequence)) + record::STATE;
        queue.words.store(state_at, state::ready(sequence), Relaxed);
        publish(queue, sequence);
    }
    let found = broken(|| race(2, early, read_then_release));
    assert!(found.contains("another job's"), "{found}");
}

#[test]
fn mutant_released_before_it_was_read() {
    fn early(queue: &Queue, index: u32, sequence: u64, read: &dyn Fn()) {
        queue.host().release(index, sequence).expect("claimed");
        read();
    }
    let found = broken(|| race(1, publish, early));
    assert!(found.contains("another job's"), "{found}");
}

/// Without the job's number in the state, a poller that is one lap behind takes the record again.
#[test]
fn mutant_state_without_a_number() {
    let found = broken(|| {
        let queue = Arc::new(Queue::new(1));
        assert!(queue.produce(0, publish), "new");
        let take = |queue: &Queue| {
            let at = queue.next.load(Ordering::Acquire);
            let ready = queue.words.load(queue.shape.record(0), Ordering::Acquire) & 3 == 1;
            let mine = ready && queue.next.compare_exchange(at, at + 1, Ordering::AcqRel, Relaxed).is_ok();
            if mine {
                queue.words.store(queue.shape.record(0), 2, Relaxed);
            }
            mine
        };
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || take(&queue))
        };
        let mine = take(&queue);
        assert!(!(other.join().expect("poller") && mine), "one job, two workers");
    });
    assert!(found.contains("one job, two workers"), "{found}");
}

const GARBAGE: u64 = 77;

/// A free record whose state was overwritten, two pollers that find it, and a device that wants it: it is made good, and the
/// job that then comes is not lost.
fn mending(mend: fn(&Queue) -> Option<u64>) {
    let queue = Arc::new(Queue::new(1));
    queue.words.store(queue.shape.record(0) + record::STATE, GARBAGE, Relaxed);
    let poller = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || mend(&queue))
    };
    let device = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.produce(0, publish))
    };
    let mine = mend(&queue);
    let other = poller.join().expect("poller");
    let produced = device.join().expect("device") || queue.produce(0, publish);
    assert!(produced, "the record was not made good");
    let last = queue.consume(read_then_release);
    let all: Vec<_> = [mine, other, last].into_iter().flatten().collect();
    assert_eq!(all, [0], "the job was lost");
}

#[test]
fn an_overwritten_record_is_made_good_once() {
    model(|| {
        mending(|queue| match queue.host().poll() {
            // Of two pollers the slower may find a job that came in between: it is taken once, whatever it is called.
            PolledJob::Job(claim) | PolledJob::Damaged(claim) => {
                queue.host().release(claim.index(), claim.sequence()).expect("claimed");
                Some(claim.sequence())
            }
            PolledJob::Empty => None,
            PolledJob::Garbage { found, .. } => {
                assert_eq!(found, GARBAGE);
                None
            }
        });
    });
}

/// Two menders that do not know of each other: the slower one frees the record of a job that has come meanwhile.
#[test]
fn mutant_mended_by_two() {
    let found = broken(|| {
        mending(|queue| {
            let word = queue.shape.record(0) + record::STATE;
            if queue.words.load(word, Ordering::Acquire) == GARBAGE {
                queue.words.store(word, state::FREE, Ordering::Release);
            }
            None
        });
    });
    assert!(found.contains("the job was lost"), "{found}");
}
