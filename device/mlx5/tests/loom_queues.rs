//! The queues against a NIC that does what the rules let it do, every interleaving; and mutants, in each of which one rule
//! is broken.
//!
//! The NIC here is a few lines a model, so that its own order can be broken too. `ringcall-sim` models the emulated NIC.
#![cfg(loom)]

#[path = "../../gpu/tests/loom_support/mod.rs"]
mod loom_support;

use loom::thread;
use loom_support::{broken, model};
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Region, Words};
use ringcall_mlx5::cq::{Arrival, CompletionQueue, PolledCompletion};
use ringcall_mlx5::doorbell::{Doorbell, DoorbellRecord, Register};
use ringcall_mlx5::layout::cqe::{self, Cqe, opcode};
use ringcall_mlx5::layout::wqe::{self, Control, Operation, Payload};
use ringcall_mlx5::layout::{Segment, first, second};
use ringcall_mlx5::rq::{Buffers, ReceiveQueue};
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

fn words(count: usize) -> Words {
    Region::zeroed(count * 8).expect("memory").words(0, count).expect("inside")
}

fn completions() -> Words {
    let window = words(cqe::WORDS);
    CompletionQueue::prepare(&window);
    window
}

/// The words of an entry that matter to a consumer: from the immediate on.
const FIRST: usize = cqe::offset::IMMEDIATE / 8;

/// NIC: entry `index` of a queue of one; the owner word in the order that is asked for.
fn complete(window: &Words, index: u64, entry: Cqe, owner: Ordering) {
    let entry = entry.with_owner(entry.opcode(), cqe::owner_of_lap(index, 1));
    for at in FIRST..cqe::OWNER_WORD {
        window.store(at, entry.0[at], Relaxed);
    }
    window.store(cqe::OWNER_WORD, entry.0[cqe::OWNER_WORD], owner);
}

/// NIC: message `i` and its completion.
fn deliver(data: &Words, window: &Words, i: u64, owner: Ordering) {
    data.store(0, i + 100, Relaxed);
    let entry = Cqe::default().with_immediate(i as u32 + 7).with_byte_count(8 + i as u32);
    complete(window, i, entry.with_wqe_counter(i as u16).with_owner(opcode::WRITE_IMM, 0), owner);
}

fn message(i: u64) -> PolledCompletion {
    PolledCompletion::Received {
        arrival: Arrival::WriteImm,
        immediate: i as u32 + 7,
        bytes: 8 + i as u32,
        wqe_counter: i as u16,
    }
}

/// An entry that is seen is whole, and so is its message.
fn hand_over(nic: fn(&Words, &Words), poll: fn(&mut CompletionQueue, &Words) -> Option<PolledCompletion>) {
    let (data, window) = (words(1), completions());
    let mut queue = CompletionQueue::new(window.clone(), None).expect("a queue");
    let nic = {
        let (data, window) = (data.clone(), window.clone());
        thread::spawn(move || nic(&data, &window))
    };
    let seen = (0..2).find_map(|_| poll(&mut queue, &window));
    if let Some(polled) = seen {
        assert_eq!(polled, message(0));
        assert_eq!(data.load(0, Relaxed), 100, "the message");
    }
    nic.join().expect("NIC");
    if seen.is_none() {
        assert_eq!(queue.poll(), Some(message(0)));
    }
    assert_eq!(queue.poll(), None);
}

#[test]
fn an_entry_that_is_seen_is_whole() {
    model(|| hand_over(|data, window| deliver(data, window, 0, Release), |queue, _| queue.poll()));
}

#[test]
fn mutant_owner_byte_not_last() {
    let found = broken(|| {
        hand_over(|data, window| deliver(data, window, 0, Relaxed), |queue, _| queue.poll());
    });
    assert!(found.contains("left == right"), "{found}");
}

#[test]
fn mutant_payload_after_the_entry() {
    let nic = |data: &Words, window: &Words| {
        let scratch = words(1);
        deliver(&scratch, window, 0, Release);
        data.store(0, 100, Release);
    };
    let found = broken(move || hand_over(nic, |queue, _| queue.poll()));
    assert!(found.contains("the message"), "{found}");
}

/// The consumer takes what it polled, without a fence.
#[test]
fn mutant_no_fence_after_the_hit() {
    let found = broken(|| {
        hand_over(
            |data, window| deliver(data, window, 0, Release),
            |_, window| {
                let owner = window.load(cqe::OWNER_WORD, Relaxed);
                cqe::is_ours(owner, 0, 1).then(|| {
                    let mut entry = Cqe::default();
                    for at in FIRST..cqe::WORDS {
                        entry.0[at] = window.load(at, Relaxed);
                    }
                    PolledCompletion::of(&entry)
                })
            },
        );
    });
    assert!(found.contains("left == right"), "{found}");
}

/// A receive request is posted again when its message was read: the NIC may then write over message and entry.
fn receive_twice(early: bool) {
    let (data, window, record_word) = (words(1), completions(), words(1));
    let mut record = DoorbellRecord::new(record_word.clone()).expect("a word");
    let mut receive = ReceiveQueue::new(&words(2), 1, Buffers::Credits, &mut record).expect("a queue");
    let mut queue = CompletionQueue::new(window.clone(), None).expect("a queue");
    let nic = {
        let (data, window) = (data.clone(), window.clone());
        thread::spawn(move || {
            let mut delivered = 0;
            for _ in 0..3 {
                if u64::from(first(record_word.load(0, Acquire))) > delivered {
                    deliver(&data, &window, delivered, Release);
                    delivered += 1;
                }
            }
            delivered
        })
    };
    let mut received = 0;
    for _ in 0..3 {
        let Some(polled) = queue.poll() else {
            thread::yield_now();
            continue;
        };
        if early {
            receive.repost(&mut record);
        }
        assert_eq!(polled, message(received));
        assert_eq!(data.load(0, Relaxed), received + 100, "the message of this request");
        received += 1;
        if !early {
            receive.repost(&mut record);
        }
    }
    let delivered = nic.join().expect("NIC");
    assert!(delivered <= received + 1 && received <= delivered);
}

#[test]
fn a_message_is_not_written_over_before_it_was_read() {
    model(|| receive_twice(false));
}

#[test]
fn mutant_posted_again_before_the_message_was_read() {
    let found = broken(|| receive_twice(true));
    assert!(found.contains("the message of this request"), "{found}");
}

const QPN: u32 = 5;

/// NIC: once rung, the record says so, and the request is there.
fn rung(uar: &Words, record_word: &Words, requests: &Words) -> bool {
    let doorbell = uar.load(0, Acquire);
    if doorbell == 0 {
        return false;
    }
    assert_eq!(second(doorbell), QPN << 8);
    assert_eq!(second(record_word.load(0, Acquire)), first(doorbell) >> 8, "the record before the doorbell");
    let mut words = [0; wqe::WORDS];
    for (at, word) in words.iter_mut().enumerate().take(4) {
        *word = requests.load(at, Relaxed);
    }
    let control = Control::of(&words);
    assert_eq!((control.index, control.qpn, control.size), (0, QPN, 2), "the request before the record");
    assert_eq!(words[3], u64::from_le_bytes(*b"response"), "the request's bytes");
    true
}

/// Twelve bytes: inline, the last eight in a word of their own.
const RESPONSE: &[u8; 12] = b"the response";

/// How software rings.
type Ring = fn(&Words, &Words, &Words);

fn ring(post: Ring) {
    let (requests, uar, record_word) = (words(wqe::WORDS), words(1), words(1));
    let software = {
        let (requests, uar, record_word) = (requests.clone(), uar.clone(), record_word.clone());
        thread::spawn(move || post(&requests, &uar, &record_word))
    };
    let seen = (0..2).any(|_| rung(&uar, &record_word, &requests));
    software.join().expect("software");
    assert!(seen || rung(&uar, &record_word, &requests));
}

fn post_through<D: Doorbell>(requests: &Words, record_word: &Words, mut doorbell: D) {
    let completions = CompletionQueue::new(completions(), None).expect("a queue");
    let mut record = DoorbellRecord::new(record_word.clone()).expect("a word");
    let mut queue = SendQueue::new(requests.clone(), completions, QPN, RecordMode::Written).expect("a queue");
    queue.post(Operation::Send, Payload::Inline(RESPONSE), &mut record, &mut doorbell).expect("room");
}

#[test]
fn the_request_then_the_record_then_the_doorbell() {
    model(|| {
        ring(|requests, uar, record_word| {
            post_through(requests, record_word, Register::new(uar.clone()).expect("a word"))
        });
    });
}

/// A doorbell that rings when it should only copy.
struct Early(Register);

impl Doorbell for Early {
    fn copy(&mut self, _: &[u64; wqe::WORDS]) {
        self.0.ring(ringcall_mlx5::layout::doorbell(QPN, 1));
    }

    fn ring(&mut self, value: u64) {
        self.0.ring(value);
    }
}

#[test]
fn mutant_doorbell_before_the_record() {
    let found = broken(|| {
        ring(|requests, uar, record_word| {
            post_through(requests, record_word, Early(Register::new(uar.clone()).expect("a word")));
        });
    });
    assert!(found.contains("the record before the doorbell"), "{found}");
}

/// Software by hand: the request's words, the record, the doorbell, with a fence where asked.
fn by_hand(requests: &Words, uar: &Words, record_word: &Words, fences: [bool; 2]) {
    let inline = Payload::Inline(RESPONSE);
    let request = wqe::Wqe::build(0, QPN, wqe::Completion::Always, Operation::Send, inline).expect("short");
    for (at, &word) in request.words.iter().enumerate().take(request.len_words()) {
        requests.store(at, word, Relaxed);
    }
    if fences[0] {
        barrier::publish_to_peer();
    }
    record_word.store(0, ringcall_mlx5::layout::record(0, 1), Relaxed);
    if fences[1] {
        barrier::publish_to_peer();
    }
    uar.store(0, ringcall_mlx5::layout::doorbell(QPN, 1), Relaxed);
}

#[test]
fn mutant_no_fence_between_record_and_doorbell() {
    let found =
        broken(|| ring(|requests, uar, record_word| by_hand(requests, uar, record_word, [true, false])));
    assert!(found.contains("the record before the doorbell"), "{found}");
    model(|| ring(|requests, uar, record_word| by_hand(requests, uar, record_word, [true, true])));
}

/// A NIC that goes by the record alone, which it may read before it is rung again.
#[test]
fn mutant_no_fence_between_request_and_record() {
    fn by_record(fences: [bool; 2]) {
        let (requests, uar, record_word) = (words(wqe::WORDS), words(1), words(1));
        let software = {
            let (requests, uar, record_word) = (requests.clone(), uar.clone(), record_word.clone());
            thread::spawn(move || by_hand(&requests, &uar, &record_word, fences))
        };
        if second(record_word.load(0, Acquire)) == 1 {
            let head = [requests.load(0, Relaxed), requests.load(3, Relaxed)];
            assert_eq!(second(head[0]), QPN << 8 | 2, "the request before the record");
            assert_eq!(head[1], u64::from_le_bytes(*b"response"));
        }
        software.join().expect("software");
    }
    let found = broken(|| by_record([false, true]));
    assert!(found.contains("left == right"), "{found}");
    model(|| by_record([true, true]));
}

/// A queue of one entry and one send slot: the slot is written again only when the NIC is done with it.
fn reuse(waits: bool) {
    let (requests, uar, record_word, window, data) =
        (words(wqe::WORDS), words(1), words(1), completions(), words(1));
    let nic = {
        let (uar, window, data) = (uar.clone(), window.clone(), data.clone());
        thread::spawn(move || {
            let mut sent = 0_u64;
            for _ in 0..3 {
                if u64::from(first(uar.load(0, Acquire)) >> 8) > sent {
                    assert_eq!(data.load(0, Relaxed), sent + 10, "the bytes of this response");
                    let entry = Cqe::default().with_wqe_counter(sent as u16).with_owner(opcode::REQUEST, 0);
                    complete(&window, sent, entry, Release);
                    sent += 1;
                }
            }
            sent
        })
    };
    let mut record = DoorbellRecord::new(record_word).expect("a word");
    let mut doorbell = Register::new(uar).expect("a word");
    let completions = CompletionQueue::new(window, None).expect("a queue");
    let mut queue = SendQueue::new(requests, completions, QPN, RecordMode::Written).expect("a queue");
    let payload = Payload::Memory(Segment { bytes: 8, lkey: 1, address: 0 });
    let mut posted = 0;
    for _ in 0..4 {
        if !queue.has_room() {
            let found = queue.reclaim();
            assert_eq!((found.stray, found.failed, found.flushed), (0, 0, 0));
        }
        if posted < 2 && (queue.has_room() || !waits) {
            data.store(0, posted + 10, Relaxed);
            posted += u64::from(queue.post(Operation::Send, payload, &mut record, &mut doorbell).is_ok());
        }
    }
    let sent = nic.join().expect("NIC");
    assert!(sent <= posted);
}

#[test]
fn a_send_slot_is_written_again_only_when_the_nic_is_done() {
    model(|| reuse(true));
}

#[test]
fn mutant_send_slot_written_without_waiting() {
    let found = broken(|| reuse(false));
    assert!(found.contains("the bytes of this response"), "{found}");
}
