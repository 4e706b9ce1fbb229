//! The hand-off queue: against a plain queue, with garbage, and by threads.
#![cfg(not(loom))]

use proptest::prelude::*;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::{Region, Words};
use ringcall_protocol::Geometry;
use ringcall_protocol::handoff::{
    Claim, ConsumerState, DeviceEnd, HostEnd, NotClaimed, PolledJob, Shape, Whose,
};
use ringcall_wire::handoff::{MAX_DEPTH, queue, record, state};
use ringcall_wire::header::RequestHeader;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A queue, and what its pollers share.
struct Queue {
    words: Words,
    shape: Shape,
    next: DeviceU64,
    claims: Vec<DeviceU64>,
}

impl Queue {
    fn new(depth: u32, output_bytes: u32) -> Self {
        let shape = Shape::new(depth, output_bytes).expect("a shape");
        let region = Region::zeroed(shape.bytes()).expect("memory");
        let claims = (0..depth).map(|_| DeviceU64::new(0)).collect();
        let words = region.words(0, shape.bytes() / 8).expect("inside");
        Self { words, shape, next: DeviceU64::new(0), claims }
    }

    fn device(&self) -> DeviceEnd<'_> {
        DeviceEnd::new(&self.words, self.shape)
    }

    fn host(&self) -> HostEnd<'_> {
        let consumer = ConsumerState { next: &self.next, claims: &self.claims };
        HostEnd::new(&self.words, self.shape, consumer).expect("it fits")
    }

    /// The device's part of job `sequence`, if there is room.
    fn produce(&self, sequence: u64, polls: u64) -> bool {
        let device = self.device();
        let Some(grant) = device.grant(sequence, polls) else { return false };
        for pair in 0..(self.shape.output_bytes() as usize).div_ceil(16) {
            device.set_output_pair(grant, pair, [sequence ^ pair as u64, !sequence]);
        }
        device.publish(grant, &whose(sequence));
        true
    }

    /// Whether the job has the output and the origin that were given to it.
    fn check(&self, claim: &Claim) {
        let sequence = claim.sequence();
        let given = whose(sequence);
        assert_eq!(
            (claim.header(), claim.slot(), claim.has_answer_outstanding()),
            (&given.header, given.slot, given.answers)
        );
        assert_eq!(claim.output_bytes(), self.shape.output_bytes());
        let first = self.shape.output_at(claim.index()) / 8;
        for pair in 0..(claim.output_bytes() as usize).div_ceil(16) {
            assert_eq!(self.words.load_pair(first + 2 * pair), [sequence ^ pair as u64, !sequence], "{pair}");
        }
    }

    fn state(&self, index: u32) -> usize {
        self.shape.record(index) + record::STATE
    }
}

fn whose(sequence: u64) -> Whose {
    let header = RequestHeader::new(7, 8, sequence as u32, sequence + 100);
    Whose { header, slot: sequence % 5, answers: !sequence.is_multiple_of(3) }
}

fn job(polled: PolledJob) -> Option<Claim> {
    match polled {
        PolledJob::Job(claim) => Some(claim),
        PolledJob::Empty => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_records_are_of_use() {
    for depth in [1, 2, 3, 16] {
        let queue = Queue::new(depth, 40);
        for lap in 0..3 {
            let first = lap * u64::from(depth);
            for sequence in first..first + u64::from(depth) {
                assert!(queue.host().has_room());
                assert!(queue.produce(sequence, 1), "{depth}: job {sequence}");
            }
            assert!(!queue.host().has_room());
            assert!(!queue.produce(first + u64::from(depth), 3), "{depth}: full");
            assert_eq!(queue.words.load(queue::REFUSED, Relaxed), lap + 1, "refusals are counted");
            // Claimed is as full as ready.
            let claims: Vec<_> = std::iter::from_fn(|| job(queue.host().poll())).collect();
            assert_eq!((claims.len(), queue.host().claimed()), (depth as usize, depth));
            assert!(!queue.produce(first + u64::from(depth), 1), "{depth}: all claimed");
            queue.words.store(queue::REFUSED, lap + 1, Relaxed);
            for claim in claims {
                queue.check(&claim);
                queue.host().release(claim.index(), claim.sequence()).expect("claimed");
            }
        }
    }
}

#[test]
fn only_what_is_claimed_can_be_released_and_once() {
    let queue = Queue::new(4, 8);
    let refused = |index, sequence| {
        let wrong = queue.host().release(index, sequence).expect_err("not claimed");
        assert_eq!(wrong, NotClaimed { index, sequence });
    };
    refused(0, 0);
    assert!(queue.produce(0, 1) && queue.produce(1, 1));
    refused(0, 0); // ready, not claimed
    let (first, second) = (job(queue.host().poll()).expect("0"), job(queue.host().poll()).expect("1"));
    assert_eq!(queue.host().poll(), PolledJob::Empty);
    for (index, sequence) in [(4, 4), (u32::MAX, 0), (0, 1), (0, 4), (1, 0), (2, 2)] {
        refused(index, sequence);
    }
    assert_eq!(queue.words.load(queue.state(0), Relaxed), state::claimed(0), "nothing was changed");
    queue.host().release(second.index(), second.sequence()).expect("out of order");
    refused(1, 1);
    queue.host().release(first.index(), first.sequence()).expect("claimed");
    refused(0, 0);
}

#[test]
fn an_answer_is_taken_once_and_only_for_a_slot_of_the_ring() {
    let queue = Queue::new(4, 8);
    let geometry = Geometry::new(4, 64, 64, 0, 0, 0).expect("shape");
    for sequence in 0..4 {
        assert!(queue.produce(sequence, 1));
    }
    let mut claims: Vec<_> = std::iter::from_fn(|| job(queue.host().poll())).collect();
    assert!(claims[0].in_flight(&geometry).is_none(), "no answer is owed");
    let request = claims[1].in_flight(&geometry).expect("owed");
    assert_eq!((request.slot().get(), request.header()), (1, &whose(1).header));
    assert!(claims[1].in_flight(&geometry).is_none(), "taken");
    let smaller = Geometry::new(2, 64, 64, 0, 0, 0).expect("shape");
    assert!(claims[2].in_flight(&smaller).is_none(), "no such slot");
    assert!(claims[2].has_answer_outstanding(), "and the right to answer is still there");
}

#[test]
fn impossible_shapes_are_refused() {
    assert!(Shape::new(0, 8).is_none() && Shape::new(MAX_DEPTH + 1, 8).is_none());
    assert!(Shape::new(1, Shape::MAX_OUTPUT_BYTES + 1).is_none());
    let queue = Queue::new(2, 8);
    let short = queue.words.len() - 1;
    let region = Region::zeroed(short * 8).expect("memory");
    let words = region.words(0, short).expect("inside");
    let consumer = ConsumerState { next: &queue.next, claims: &queue.claims };
    assert!(HostEnd::new(&words, queue.shape, consumer).is_none());
    let consumer = ConsumerState { next: &queue.next, claims: &queue.claims[..1] };
    assert!(HostEnd::new(&queue.words, queue.shape, consumer).is_none());
}

proptest! {
    /// Against plain queues: what was published is polled in order, and released in any.
    #[test]
    fn like_a_plain_queue(depth in 1..6_u32, bytes in 0..50_u32, steps in proptest::collection::vec((0..3_u8, any::<u8>()), 0..300)) {
        let queue = Queue::new(depth, bytes);
        let (mut ready, mut held) = (VecDeque::new(), Vec::<Claim>::new());
        let mut tail = 0;
        for (step, pick) in steps {
            match step {
                0 => {
                    let free = !ready.iter().copied().chain(held.iter().map(Claim::sequence))
                        .any(|other| queue.shape.index(other) == queue.shape.index(tail));
                    prop_assert_eq!(queue.host().has_room(), free);
                    prop_assert_eq!(queue.produce(tail, 2), free);
                    if free {
                        ready.push_back(tail);
                        tail += 1;
                    }
                }
                1 => {
                    prop_assert_eq!(queue.host().has_job(), !ready.is_empty());
                    let claim = job(queue.host().poll());
                    prop_assert_eq!(claim.as_ref().map(Claim::sequence), ready.pop_front());
                    if let Some(claim) = claim {
                        queue.check(&claim);
                        held.push(claim);
                    }
                }
                _ if held.is_empty() => {}
                _ => {
                    let claim = held.swap_remove(usize::from(pick) % held.len());
                    queue.check(&claim);
                    prop_assert_eq!(queue.host().release(claim.index(), claim.sequence()), Ok(()));
                }
            }
        }
    }

    /// Any words anywhere in the queue: nothing panics or hangs, no more jobs are handed out than there are records, and
    /// every claim can be released.
    #[test]
    fn garbage_does_no_harm(depth in 1..5_u32, words in proptest::collection::vec((any::<prop::sample::Index>(), garbage()), 1..40)) {
        let queue = Queue::new(depth, 24);
        let mut tail = 0;
        for (at, word) in words {
            queue.words.store(at.index(queue.words.len()), word, Relaxed);
            tail += u64::from(queue.produce(tail, 1));
            let mut held = Vec::new();
            for _ in 0..3 * depth {
                match queue.host().poll() {
                    PolledJob::Job(claim) | PolledJob::Damaged(claim) => held.push(claim),
                    PolledJob::Empty | PolledJob::Garbage { .. } => {}
                }
            }
            prop_assert!(held.len() <= depth as usize);
            for claim in held {
                prop_assert!(claim.output_bytes() <= 24);
                prop_assert_eq!(queue.host().release(claim.index(), claim.sequence()), Ok(()));
            }
        }
    }

    /// A state that is overwritten with anything: a job that was handed over is still there, once, and says that it was
    /// damaged; a free record is free again.
    #[test]
    fn an_overwritten_state_is_made_good(depth in 1..5_u32, before in 0..9_u64, published: bool, word in any::<u64>()) {
        let queue = Queue::new(depth, 24);
        for sequence in 0..before {
            prop_assert!(queue.produce(sequence, 1));
            let claim = job(queue.host().poll()).expect("published");
            queue.host().release(claim.index(), claim.sequence()).expect("claimed");
        }
        if published {
            prop_assert!(queue.produce(before, 1));
        }
        let good = [state::FREE, state::ready(before)];
        let earlier = before.checked_sub(u64::from(depth)).is_some_and(|b| word == state::ready(b) || word == state::claimed(b));
        prop_assume!(!good.contains(&word) && !earlier);
        let index = queue.shape.index(before);
        queue.words.store(queue.state(index), word, Relaxed);
        match queue.host().poll() {
            PolledJob::Damaged(claim) if published => {
                prop_assert_eq!(claim.sequence(), before);
                queue.check(&claim);
                queue.host().release(claim.index(), claim.sequence()).expect("claimed");
            }
            PolledJob::Garbage { index: at, found } if !published => prop_assert_eq!((at, found), (index, word)),
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert_eq!(queue.host().poll(), PolledJob::Empty);
        prop_assert!(queue.produce(before + u64::from(published), 1), "the queue goes on");
        let next = job(queue.host().poll()).expect("published");
        prop_assert_eq!(next.sequence(), before + u64::from(published));
    }
}

/// Words that are nearly right, or not at all.
fn garbage() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..40_u64,
        (0..8_u64).prop_map(state::ready),
        (0..8_u64).prop_map(state::claimed),
        Just(u64::MAX)
    ]
}

/// Claims that any thread may release: no more than a queue has records. Of words, since a sanitizer does not see the
/// standard library's locks.
#[derive(Default)]
struct Shelf([DeviceU64; 16]);

impl Shelf {
    fn put(&self, claim: &Claim) {
        let word = ((claim.sequence() + 1) << 8) | u64::from(claim.index());
        let fill = |cell: &&DeviceU64| cell.compare_exchange(0, word, AcqRel, Acquire).is_ok();
        self.0.iter().find(fill).expect("as many as records");
    }

    fn take(&self) -> Option<(u32, u64)> {
        let word = self.0.iter().map(|cell| cell.swap(0, AcqRel)).find(|&word| word != 0)?;
        Some((u32::from(word as u8), (word >> 8) - 1))
    }
}

/// One device, pollers that release in any order they come to it: every job once, whole, and in order of
/// polling.
#[test]
fn threads_take_every_job_once() {
    const JOBS: u64 = 6_000;
    for depth in [1, 2, 16] {
        for pollers in [1, 3] {
            let queue = Queue::new(depth, 48);
            let seen: Vec<_> = (0..JOBS).map(|_| DeviceU64::new(0)).collect();
            let shelf = Shelf::default();
            let done = DeviceU64::new(0);
            std::thread::scope(|scope| {
                let mut threads = Vec::new();
                threads.push(scope.spawn(|| {
                    let mut sequence = 0;
                    while sequence < JOBS {
                        if queue.produce(sequence, 50) {
                            sequence += 1;
                        } else {
                            std::thread::yield_now();
                        }
                    }
                }));
                for poller in 0..pollers {
                    let (queue, seen, done, shelf) = (&queue, &seen, &done, &shelf);
                    threads.push(scope.spawn(move || {
                        let mut last = None;
                        while done.load(Relaxed) < JOBS {
                            if let Some(claim) = job(queue.host().poll()) {
                                queue.check(&claim);
                                assert!(last < Some(claim.sequence()), "{poller}: {last:?}");
                                last = Some(claim.sequence());
                                let before = seen[claim.sequence() as usize].fetch_add(1, Relaxed);
                                assert_eq!(before, 0, "job {} twice", claim.sequence());
                                // Another agent may release it.
                                shelf.put(&claim);
                            } else {
                                std::thread::yield_now();
                            }
                            if let Some((index, sequence)) = shelf.take() {
                                queue.host().release(index, sequence).expect("claimed");
                                done.fetch_add(1, Relaxed);
                            }
                        }
                    }));
                }
                // Each by name: a sanitizer does not see how a scope waits for the rest.
                for thread in threads {
                    thread.join().expect("no panic");
                }
            });
            assert!(seen.iter().all(|count| count.load(Relaxed) == 1));
            assert_eq!(queue.host().claimed(), 0);
        }
    }
}
