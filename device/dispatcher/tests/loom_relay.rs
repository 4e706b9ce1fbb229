//! The three kernels of a relay, a NIC and a peer that asks again as soon as it has its answer: two requests through a ring of
//! one slot, every interleaving; and mutants, in each of which one rule is broken.
#![cfg(loom)]

#[path = "../../protocol/tests/loom_support/mod.rs"]
mod loom_support;

use loom::thread;
use loom_support::{FUNCTION, answer_of, broken, model, poll, ring};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::queue_pair::{Bell, Copying};
use ringcall_dispatcher::relay::{Receiver, Sender, Step};
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::shared::{Bytes, Region, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::cq::CompletionQueue;
use ringcall_mlx5::doorbell::{DoorbellRecord, Register};
use ringcall_mlx5::endpoint::{Config, Endpoint, Poll, ResponsePath, Windows};
use ringcall_mlx5::layout::cqe::{self, Cqe, opcode};
use ringcall_mlx5::layout::first;
use ringcall_mlx5::layout::wqe::{self, Operation, Payload};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use ringcall_protocol::slot::Response;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const QPN: u32 = 5;
/// Bytes of a frame: a header and eight bytes.
const FRAME: usize = HEADER_BYTES + 8;

fn words(count: usize) -> Words {
    Region::zeroed(count * 8).expect("memory").words(0, count).expect("inside")
}

fn bytes(len: usize) -> Bytes {
    Region::zeroed(len).expect("memory").bytes(0, len).expect("inside")
}

fn completions(entries: usize) -> Words {
    let window = words(entries * cqe::WORDS);
    CompletionQueue::prepare(&window);
    window
}

/// Queues of as many entries as one slot needs. The send side is the sender's; the NIC keeps the send counter itself.
#[derive(Clone)]
struct Queues {
    ring: SharedRing,
    rx_completions: Words,
    record: Words,
    tx_completions: Words,
    send: Words,
    uar: Words,
}

impl Queues {
    fn new() -> Self {
        Self {
            ring: ring(1),
            rx_completions: completions(2),
            record: words(1),
            tx_completions: completions(1),
            send: words(wqe::WORDS),
            uar: words(1),
        }
    }

    fn config() -> Config {
        Config {
            qpn: QPN,
            slots: 1,
            rx_stride: FRAME as u32,
            tx_stride: FRAME as u32,
            tx_lkey: 0,
            tx_base: 0,
            depth: 2,
            buffers: Buffers::Credits,
            sequence: false,
            reply: ResponsePath::Send,
            record: RecordMode::NotWritten,
        }
    }

    /// The queues of the side that the agent works, and unused memory in place of the other side.
    fn windows(&self, receives: bool) -> Windows {
        let own = |own: &Words, other: Words| if receives { own.clone() } else { other };
        Windows {
            rx_completions: own(&self.rx_completions, words(0)),
            rx_completions_record: None,
            receive: own(&words(4), words(0)),
            tx_completions: if receives { words(0) } else { self.tx_completions.clone() },
            tx_completions_record: None,
            send: if receives { words(0) } else { self.send.clone() },
            record: own(&self.record, words(1)),
            rx_data: self.ring.windows().rx_data,
            tx_data: bytes(FRAME),
            counters: words(0),
            shutdown: words(0),
        }
    }

    fn endpoint(&self) -> Endpoint<Register> {
        let (tx_completions, send) = (completions(1), words(wqe::WORDS));
        let windows = Windows { tx_completions, send, ..self.windows(true) };
        Endpoint::new(Self::config(), windows, Register::new(words(1)).expect("a word")).expect("an endpoint")
    }

    fn receiver(&self) -> Receiver {
        let windows = self.windows(true);
        let mut receiver =
            Receiver::new(Self::config(), &windows, self.ring.clone(), Extent::Received).expect("a receiver");
        receiver.begin(Warp::single());
        receiver
    }

    fn sender(&self) -> Sending {
        let bell = Bell::new(self.uar.clone(), Copying::Not).expect("a word");
        let windows = self.windows(false);
        let sender = Sender::new(Self::config(), &windows, self.ring.clone(), bell).expect("a sender");
        Sending { sender, staging: (0..FRAME / 8).map(|_| BlockU64::new(0)).collect() }
    }
}

/// A sender and its staging buffer.
struct Sending {
    sender: Sender,
    staging: Vec<BlockU64>,
}

/// NIC and peer: what was delivered, and what was answered.
struct Nic {
    queues: Queues,
    delivered: u32,
    answered: u32,
}

/// An entry of a queue, its owner byte last.
fn complete(window: &Words, index: u32, entry: Cqe) {
    let entries = window.len() / cqe::WORDS;
    let entry = entry.with_owner(entry.opcode(), cqe::owner_of_lap(index.into(), entries as u64));
    let first = index as usize % entries * cqe::WORDS;
    for at in cqe::offset::IMMEDIATE / 8..cqe::OWNER_WORD {
        window.store(first + at, entry.0[at], Relaxed);
    }
    window.store(first + cqe::OWNER_WORD, entry.0[cqe::OWNER_WORD], Release);
}

fn request(i: u32) -> RequestHeader {
    RequestHeader::new(FUNCTION, 8, i, u64::from(i) + 100)
}

impl Nic {
    /// Writes the next request into the slot, if the peer has the answer to the last one and there is a receive request.
    fn deliver(&mut self) {
        let i = self.delivered;
        if i == 2 || i > self.answered || u32::from(first(self.queues.record.load(0, Acquire)) as u16) <= i {
            return;
        }
        let slot = self.queues.ring.windows().rx_data;
        for (at, word) in request(i).to_words().into_iter().chain([u64::from(i + 1)]).enumerate() {
            slot.words().store(at, word, Relaxed);
        }
        let entry = Cqe::default().with_immediate(0).with_byte_count(FRAME as u32);
        complete(
            &self.queues.rx_completions,
            i,
            entry.with_wqe_counter(i as u16).with_owner(opcode::WRITE_IMM, 0),
        );
        self.delivered += 1;
    }

    /// Takes the next response, if software has rung for one.
    fn take(&mut self) {
        let i = self.answered;
        if first(self.queues.uar.load(0, Acquire)) >> 8 <= i {
            return;
        }
        let mut request_words = [0_u64; wqe::WORDS];
        for (at, word) in request_words.iter_mut().enumerate() {
            *word = self.queues.send.load(at, Relaxed);
        }
        // The head of inline data, four bytes, then the frame.
        let all: Vec<u8> = request_words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let frame = &all[20..20 + FRAME];
        let header = ResponseHeader::from_bytes(frame).expect("a header");
        assert_eq!(header, ResponseHeader::reply(&request(i), 0, 8), "the answer to request {i}");
        assert_eq!(frame[HEADER_BYTES..], (u64::from(i + 1) * 10).to_le_bytes(), "its result");
        let done = Cqe::default().with_wqe_counter(i as u16).with_owner(opcode::REQUEST, 0);
        complete(&self.queues.tx_completions, i, done);
        self.answered += 1;
    }
}

/// The dispatcher: one look.
fn serve(ring: &SharedRing) {
    if let Some(request) = poll(ring) {
        let answer = answer_of(ring, request.slot());
        let _ = request.answer(ring, Status::OK, &answer);
    }
}

/// A turn that took a completion which brought no request.
const DROPPED: Step = Step::Took { filled: 0, dropped: 1 };

/// One look of a receiver, and of a sender.
trait Receives: Send + 'static {
    fn step(&mut self) -> Step;
}

trait Sends: Send + 'static {
    fn step(&mut self);
}

impl Receives for Receiver {
    fn step(&mut self) -> Step {
        Self::step(self, Warp::single())
    }
}

impl Sends for Sending {
    fn step(&mut self) {
        self.sender.step(Warp::single(), StagingBuffer::new(&self.staging));
    }
}

/// Looks of each party while the others run.
const POLLS: u32 = 2;

fn relay<R: Receives, S: Sends>(receiver: fn(&Queues) -> R, sender: fn(&Queues) -> S) {
    let queues = Queues::new();
    let (mut receiver, mut sender) = (receiver(&queues), sender(&queues));
    let ring = queues.ring.clone();
    let mut nic = Nic { queues, delivered: 0, answered: 0 };
    let receive = |receiver: &mut R| assert_ne!(receiver.step(), DROPPED, "the slot is not vacant");
    // The first request is in the ring already: what is explored is the way from its answer to the second.
    nic.deliver();
    receive(&mut receiver);
    let dispatcher = {
        let ring = ring.clone();
        thread::spawn(move || serve(&ring))
    };
    let receiving = thread::spawn(move || {
        for _ in 0..POLLS {
            receive(&mut receiver);
        }
        receiver
    });
    let sending = thread::spawn(move || {
        for _ in 0..POLLS {
            sender.step();
        }
        sender
    });
    for _ in 0..POLLS {
        nic.take();
        nic.deliver();
    }
    dispatcher.join().expect("dispatcher");
    let mut receiver = receiving.join().expect("receiver");
    let mut sender = sending.join().expect("sender");
    for _ in 0..3 {
        nic.deliver();
        receive(&mut receiver);
        serve(&ring);
        sender.step();
        nic.take();
    }
    assert_eq!((nic.delivered, nic.answered), (2, 2));
}

#[test]
fn a_peer_that_has_its_answer_finds_the_slot_vacant() {
    model(|| relay(Queues::receiver, Queues::sender));
}

/// A sender by hand, which breaks what it is told to break.
struct Hand {
    queues: Queues,
    send: SendQueue,
    record: DoorbellRecord,
    doorbell: Register,
    polls_the_request: bool,
    frees_first: bool,
}

impl Hand {
    fn new(queues: &Queues, polls_the_request: bool, frees_first: bool) -> Self {
        let completions = CompletionQueue::new(queues.tx_completions.clone(), None).expect("a queue");
        Self {
            queues: queues.clone(),
            send: SendQueue::new(queues.send.clone(), completions, QPN, RecordMode::NotWritten)
                .expect("a queue"),
            record: DoorbellRecord::new(words(1)).expect("a word"),
            doorbell: Register::new(queues.uar.clone()).expect("a word"),
            polls_the_request,
            frees_first,
        }
    }
}

impl Sends for Hand {
    fn step(&mut self) {
        let ring = &self.queues.ring;
        let slot = ring.geometry().slot(0).expect("the slot");
        let Some(response) = Response::probe(ring, slot) else { return };
        if self.polls_the_request && ring.rx(slot) != ringcall_wire::flag::FREE {
            return;
        }
        self.send.reclaim();
        if !self.send.has_room() {
            return;
        }
        let mut frame = [0; FRAME];
        frame[..HEADER_BYTES].copy_from_slice(&response.header().to_bytes());
        response.read(ring, &mut frame[HEADER_BYTES..]);
        if self.frees_first {
            response.release(ring);
            self.post(&frame);
        } else {
            self.post(&frame);
            response.release(&self.queues.ring);
        }
    }
}

impl Hand {
    fn post(&mut self, frame: &[u8]) {
        self.send
            .post(Operation::Send, Payload::Inline(frame), &mut self.record, &mut self.doorbell)
            .expect("room");
    }
}

#[test]
fn the_hand_made_sender_is_right_by_itself() {
    model(|| relay(Queues::receiver, |queues| Hand::new(queues, true, true)));
}

#[test]
fn mutant_answer_sent_before_the_request_flag_is_cleared() {
    let found = broken(|| relay(Queues::receiver, |queues| Hand::new(queues, false, true)));
    assert!(found.contains("the slot is not vacant"), "{found}");
}

#[test]
fn mutant_slot_freed_after_the_doorbell() {
    let found = broken(|| relay(Queues::receiver, |queues| Hand::new(queues, true, false)));
    assert!(found.contains("the slot is not vacant"), "{found}");
}

/// A receiver whose flag orders nothing.
struct Loose {
    endpoint: Endpoint<Register>,
    ring: SharedRing,
}

impl Receives for Loose {
    fn step(&mut self) -> Step {
        let Poll::Arrived(arrived) = self.endpoint.poll() else { return Step::Idle };
        let slot = self.ring.geometry().slot(arrived.slot()).expect("the slot");
        self.ring.windows().rx_flags.store(0, self.ring.geometry().request_address(slot), Relaxed);
        self.endpoint.hand_over(arrived);
        Step::Took { filled: 1, dropped: 0 }
    }
}

/// The first request comes while the dispatcher looks; its flag's release is all that brings its bytes along.
fn fill<R: Receives>(receiver: fn(&Queues) -> R) {
    let queues = Queues::new();
    let mut receiver = receiver(&queues);
    let ring = queues.ring.clone();
    let mut nic = Nic { queues, delivered: 0, answered: 0 };
    let dispatcher = thread::spawn(move || {
        for _ in 0..2 {
            if let Some(seen) = poll(&ring) {
                assert_eq!(*seen.header(), request(0), "the request");
                assert_eq!(answer_of(&ring, seen.slot()), 10_u64.to_le_bytes(), "its bytes");
                let _ = seen.answer(&ring, Status::OK, &[]);
                return;
            }
        }
    });
    let receiving = thread::spawn(move || {
        for _ in 0..2 {
            receiver.step();
        }
    });
    nic.deliver();
    dispatcher.join().expect("dispatcher");
    receiving.join().expect("receiver");
}

#[test]
fn the_flag_brings_the_request_along() {
    model(|| fill(Queues::receiver));
}

#[test]
fn mutant_flag_without_release() {
    let loose = |queues: &Queues| Loose { endpoint: queues.endpoint(), ring: queues.ring.clone() };
    let found = broken(move || fill(loose));
    assert!(found.contains("the request") || found.contains("its bytes"), "{found}");
}
