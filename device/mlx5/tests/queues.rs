//! The queues by themselves: what they are made of, and the words they write.
#![cfg(not(loom))]

use proptest::prelude::*;
use ringcall_gpu::shared::{Region, Words};
use ringcall_mlx5::cq::{CompletionQueue, PolledCompletion};
use ringcall_mlx5::doorbell::{BlueFlame, DoorbellRecord, Register};
use ringcall_mlx5::layout::cqe::{self, Cqe, Syndrome, opcode};
use ringcall_mlx5::layout::wqe::{self, Completion, Operation, Payload};
use ringcall_mlx5::layout::{self, Segment, first, second};
use ringcall_mlx5::rq::{Buffers, ReceiveQueue};
use ringcall_mlx5::sq::{PostError, RecordMode, SendQueue};
use ringcall_mlx5::{Event, QueueError};
use std::sync::atomic::Ordering::Relaxed;

fn words(count: usize) -> Words {
    Region::zeroed(count.max(1) * 8).expect("memory").words(0, count).expect("inside")
}

fn completions(entries: usize) -> (Words, CompletionQueue) {
    let window = words(entries * cqe::WORDS);
    CompletionQueue::prepare(&window);
    (window.clone(), CompletionQueue::new(window, None).expect("a queue"))
}

/// What the NIC does, with no order needed on one thread.
fn complete(window: &Words, index: u64, entry: Cqe) {
    let entries = (window.len() / cqe::WORDS) as u64;
    let entry = entry.with_owner(entry.opcode(), cqe::owner_of_lap(index, entries));
    for (at, &word) in entry.0.iter().enumerate() {
        window.store((index % entries) as usize * cqe::WORDS + at, word, Relaxed);
    }
}

#[test]
fn memory_that_is_no_queue_is_refused() {
    for entries in [0, 3, 1 << 16] {
        let error = CompletionQueue::new(words(entries * cqe::WORDS), None).map(|_| ());
        assert_eq!(error, Err(QueueError::Entries(entries)));
    }
    assert_eq!(CompletionQueue::new(words(13), None).map(|_| ()), Err(QueueError::Entries(1)));
    let empty = QueueError::TooSmall { needed: 1, have: 0 };
    assert_eq!(CompletionQueue::new(words(8), Some(words(0))).map(|_| ()), Err(empty));
    assert_eq!(DoorbellRecord::new(words(0)).map(|_| ()), Err(empty));
    assert_eq!(Register::new(words(0)).map(|_| ()), Err(empty));
    let short = QueueError::TooSmall { needed: 8, have: 7 };
    assert_eq!(BlueFlame::new(words(7)).map(|_| ()), Err(short));
    for depth in [0, 5] {
        let mut record = DoorbellRecord::new(words(1)).expect("a word");
        let error = ReceiveQueue::new(&words(8), depth, Buffers::Credits, &mut record).map(|_| ());
        assert_eq!(error, Err(QueueError::Depth { depth, entries: 4 }));
    }
    let send = |entries: usize, others, qpn| {
        SendQueue::new(words(entries * wqe::WORDS), completions(others).1, qpn, RecordMode::Written)
            .map(|_| ())
    };
    assert_eq!(send(4, 2, 1), Err(QueueError::Completions { requests: 4, completions: 2 }));
    assert_eq!(send(4, 4, 1 << 24), Err(QueueError::QueuePair(1 << 24)));
    assert_eq!(send(4, 4, 1), Ok(()));
    for error in [QueueError::Entries(3), empty, QueueError::QueuePair(1 << 24), QueueError::Stride(7)] {
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn the_receive_credit_and_its_record_wrap() {
    let (window, record_word) = (words(8), words(1));
    let mut record = DoorbellRecord::new(record_word.clone()).expect("a word");
    let buffers = Buffers::Slots { lkey: 7, base: 0x1000, stride: 64 };
    let mut queue = ReceiveQueue::new(&window, 3, buffers, &mut record).expect("a queue");
    for index in 0..4 {
        let segment = Segment::from_words([0, 1].map(|at| window.load(index * 2 + at, Relaxed)));
        assert_eq!(segment, Segment { bytes: 64, lkey: 7, address: 0x1000 + index as u64 * 64 });
    }
    assert_eq!(first(record_word.load(0, Relaxed)), 3, "as many as were posted in advance");
    record.publish_send(0x1234);
    for posted in 4..=200_000_u64 {
        queue.repost(&mut record);
        assert_eq!(u64::from(first(record_word.load(0, Relaxed))), posted & 0xFFFF);
        assert_eq!(second(record_word.load(0, Relaxed)), 0x1234, "the other counter keeps its value");
    }
    assert_eq!(queue.posted(), 200_000);
}

#[test]
fn the_consumer_index_is_written_modulo_two_to_the_24() {
    let (window, record) = (words(8), words(1));
    CompletionQueue::prepare(&window);
    let mut queue = CompletionQueue::new(window.clone(), Some(record.clone())).expect("a queue");
    assert_eq!(queue.poll(), None);
    for index in 0..1000 {
        complete(
            &window,
            index,
            Cqe::default().with_wqe_counter(index as u16).with_owner(opcode::REQUEST, 0),
        );
        assert_eq!(queue.poll(), Some(PolledCompletion::SendDone { wqe_counter: index as u16 }));
        assert_eq!(queue.poll(), None, "read once");
        assert_eq!(u64::from(first(record.load(0, Relaxed))), index + 1);
    }
}

struct Send {
    queue: SendQueue,
    entries: Words,
    completed: u64,
    record: DoorbellRecord,
    doorbell: Register,
}

impl Send {
    fn new(entries: usize) -> Self {
        let (window, completions) = completions(entries);
        let queue = SendQueue::new(words(entries * wqe::WORDS), completions, 9, RecordMode::Written)
            .expect("a queue");
        let record = DoorbellRecord::new(words(1)).expect("a word");
        let doorbell = Register::new(words(1)).expect("a word");
        Self { queue, entries: window, completed: 0, record, doorbell }
    }

    fn post(&mut self) -> Result<Completion, PostError> {
        self.queue.post(Operation::Send, Payload::Inline(b"x"), &mut self.record, &mut self.doorbell)
    }

    fn complete(&mut self, entry: Cqe) {
        complete(&self.entries, self.completed, entry);
        self.completed += 1;
    }
}

fn done(index: u64) -> Cqe {
    Cqe::default().with_wqe_counter(index as u16).with_owner(opcode::REQUEST, 0)
}

fn failed(index: u64, syndrome: Syndrome) -> Cqe {
    Cqe::default()
        .with_wqe_counter(index as u16)
        .with_syndrome(syndrome, 0)
        .with_owner(opcode::REQUEST_ERROR, 0)
}

#[test]
fn only_what_is_under_way_and_signalled_frees_entries() {
    let mut it = Send::new(16);
    assert_eq!(it.queue.interval(), 4);
    for _ in 0..10 {
        it.post().expect("room");
    }
    // Not signalled, not posted, long gone.
    for index in [0, 1, 2, 4, 10, 11, 15, 0xFFFF, 0x8003] {
        it.complete(done(index));
        let found = it.queue.reclaim();
        assert_eq!((found.completions, found.stray, it.queue.under_way()), (1, 1, 10), "request {index}");
    }
    it.complete(done(7));
    assert_eq!((it.queue.reclaim().stray, it.queue.under_way()), (0, 2));
    it.complete(done(3));
    assert_eq!((it.queue.reclaim().stray, it.queue.under_way()), (1, 2), "freed with the one after it");
    // A failure is told of any request.
    it.complete(failed(8, Syndrome::LOCAL_PROTECTION));
    assert_eq!((it.queue.reclaim().failed, it.queue.under_way(), it.queue.dead()), (1, 1, None));
    it.complete(failed(9, Syndrome::FLUSHED));
    assert_eq!((it.queue.reclaim().flushed, it.queue.under_way()), (1, 0));
    assert_eq!(it.post(), Err(PostError::Dead(Syndrome::FLUSHED)));
}

#[test]
fn a_full_queue_takes_nothing_and_changes_nothing() {
    let mut it = Send::new(2);
    it.post().expect("room");
    it.post().expect("room");
    assert_eq!(it.post(), Err(PostError::Full));
    assert_eq!(it.queue.posted(), 2);
    it.complete(done(1));
    let _ = it.queue.reclaim();
    assert!(it.post().is_ok());
}

proptest! {
    /// Against a model that numbers requests without a wrap: entries are freed exactly when the model says so.
    #[test]
    fn entries_are_freed_as_in_a_model(
        log in 0_u32..7,
        start in 0_u64..3,
        steps in proptest::collection::vec((any::<bool>(), any::<u8>()), 1..200),
    ) {
        let entries = 1_u64 << log;
        let mut it = Send::new(entries as usize);
        let interval = (entries / 4).max(1);
        let (mut posted, mut freed) = (0_u64, 0_u64);
        // Near the wrap of the 16-bit counter.
        while start > 0 && posted + entries < 65_530 + start * 3 {
            prop_assert!(it.post().is_ok());
            posted += 1;
            if posted % interval == 0 {
                it.complete(done(posted - 1));
                let found = it.queue.reclaim();
                prop_assert_eq!((found.completions, found.stray), (1, 0));
                freed = posted;
            }
        }
        for (post, which) in steps {
            if post {
                let expected = posted - freed < entries;
                prop_assert_eq!(it.post().is_ok(), expected);
                posted += u64::from(expected);
            } else if posted > freed {
                let index = freed + u64::from(which) % (posted - freed);
                let signalled = (index + 1) % interval == 0;
                it.complete(done(index));
                prop_assert_eq!(it.queue.reclaim().stray, u32::from(!signalled));
                if signalled {
                    freed = index + 1;
                }
            }
            prop_assert_eq!((it.queue.posted(), it.queue.under_way()), (posted, posted - freed));
            prop_assert_eq!(u64::from(it.queue.next_entry()), posted % entries);
        }
    }
}

#[test]
fn a_doorbell_names_the_index_after_the_last_request() {
    let (uar, record_word) = (words(8), words(1));
    let mut record = DoorbellRecord::new(record_word.clone()).expect("a word");
    let mut doorbell = BlueFlame::new(uar.clone()).expect("8 words");
    let (window, completions) = completions(4);
    let requests = words(4 * wqe::WORDS);
    let mut queue =
        SendQueue::new(requests.clone(), completions, 0x77, RecordMode::Written).expect("a queue");
    for index in 0..70_000_u64 {
        let payload = Payload::Inline(b"a response of some bytes");
        queue.post(Operation::Send, payload, &mut record, &mut doorbell).expect("room");
        assert_eq!(uar.load(0, Relaxed), layout::doorbell(0x77, (index as u16).wrapping_add(1)));
        assert_eq!(second(record_word.load(0, Relaxed)), u32::from((index as u16).wrapping_add(1)));
        // The copy equals the queue's entry, but for the word that the doorbell took.
        let at = (index % 4) as usize * wqe::WORDS;
        for word in 1..6 {
            assert_eq!(uar.load(word, Relaxed), requests.load(at + word, Relaxed));
        }
        assert_eq!(first(requests.load(at, Relaxed)), u32::from(index as u16) << 8 | 0x0A);
        complete(&window, index, done(index));
        assert_eq!(queue.reclaim().completions, 1);
    }
}

#[test]
fn events_of_both_sides_have_names_and_indices_of_their_own() {
    let names: std::collections::BTreeSet<_> = Event::ALL.iter().map(|event| event.name()).collect();
    assert_eq!(names.len(), Event::COUNT);
    for (index, event) in Event::ALL.iter().enumerate() {
        assert_eq!(*event as usize, index);
        assert!(event.name().starts_with("rx_") ^ event.name().starts_with("tx_"));
        assert!(!event.meaning().is_empty());
    }
}
