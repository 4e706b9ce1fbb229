//! What the NIC sees between two steps of a doorbell, and the rules that it holds software to.
#![cfg(not(loom))]

mod support;

use ringcall_gpu::shared::Words;
use ringcall_mlx5::Event;
use ringcall_mlx5::doorbell::{BlueFlame, Doorbell, DoorbellRecord};
use ringcall_mlx5::endpoint::{Endpoint, Poll};
use ringcall_mlx5::layout::wqe::{self, Completion, Operation, Payload, Wqe};
use ringcall_mlx5::layout::{self, Segment};
use ringcall_mlx5::sq::RecordMode;
use ringcall_sim::nic::{Nic, Port, Violation, Wire};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use support::*;

/// A BlueFlame doorbell between whose stores the NIC takes its steps.
struct Watched {
    inner: BlueFlame,
    nic: Rc<RefCell<Nic<Wire>>>,
}

impl Doorbell for Watched {
    fn copy(&mut self, request: &[u64; wqe::WORDS]) {
        self.inner.copy(request);
        self.nic.borrow_mut().step_send();
    }

    fn ring(&mut self, value: u64) {
        self.inner.ring(value);
        self.nic.borrow_mut().step_send();
    }
}

#[test]
fn a_blue_flame_copy_is_sent_before_its_record_and_only_once() {
    for record in [RecordMode::Written, RecordMode::NotWritten] {
        for depth in [1, 4, 64] {
            let shape = Shape { record, ..Shape::of_depth(depth) };
            let (windows, uar) = (windows(&shape), words(8));
            let (nic, mut peer) = nic_over(&shape, &windows, &uar);
            let nic = Rc::new(RefCell::new(nic));
            let doorbell = Watched { inner: BlueFlame::new(uar).expect("8 words"), nic: Rc::clone(&nic) };
            let mut endpoint = Endpoint::new(config(&shape), windows, doorbell).expect("an endpoint");
            let total = 1000 * u64::from(depth);
            for i in 0..total {
                assert!(peer.send(write_imm(&shape, (i % u64::from(depth)) as u32, 0), &request(i)));
                nic.borrow_mut().step();
                let Poll::Arrived(arrived) = endpoint.poll() else { panic!("request {i}") };
                let slot = endpoint.try_reserve().expect("one under way at most");
                increment(&mut endpoint, arrived, slot);
                nic.borrow_mut().step();
                let mut payload = Vec::new();
                assert!(peer.receive(&mut payload).is_some());
                assert_eq!(payload, incremented(&request(i)));
                assert!(peer.receive(&mut payload).is_none());
            }
            let nic = nic.borrow();
            assert_obeyed(&nic);
            assert_eq!((nic.stats().tx_blue_flame, nic.stats().tx_sent), (total, total));
        }
    }
}

/// Software that does each step by hand, and so can do it wrong.
struct ByHand {
    nic: Nic<Wire>,
    peer: Wire,
    windows: ringcall_mlx5::endpoint::Windows,
    uar: Words,
    record: DoorbellRecord,
}

const DEPTH: u32 = 4;

impl ByHand {
    fn new() -> Self {
        let shape = Shape { burst: 1, ..Shape::of_depth(DEPTH) };
        let (windows, uar) = (windows(&shape), words(8));
        let (nic, peer) = nic_over(&shape, &windows, &uar);
        let record = DoorbellRecord::new(windows.record.clone()).expect("a word");
        Self { nic, peer, windows, uar, record }
    }

    fn write(&self, request: &Wqe, index: u32) {
        for (at, &word) in request.words.iter().enumerate() {
            self.windows.send.store(index as usize * wqe::WORDS + at, word, Relaxed);
        }
    }

    fn ring(&self, producer: u16) {
        self.uar.store(0, layout::doorbell(QPN, producer), Relaxed);
    }

    /// Everything as it should be, for request `index`.
    fn post(&mut self, index: u16, request: &Wqe) {
        self.write(request, u32::from(index) % DEPTH);
        self.record.publish_send(index + 1);
        self.ring(index + 1);
    }

    fn work(&mut self) {
        while self.nic.step() {}
    }

    fn broken(&self) -> Vec<(Violation, u64)> {
        self.nic.violations().broken().collect()
    }

    fn received(&mut self) -> usize {
        let mut payload = Vec::new();
        std::iter::from_fn(|| self.peer.receive(&mut payload)).count()
    }
}

fn send(index: u16, text: &[u8]) -> Wqe {
    Wqe::build(index, QPN, Completion::OnError, Operation::Send, Payload::Inline(text)).expect("short")
}

fn send_memory(index: u16, bytes: u32) -> Wqe {
    let segment = Segment { bytes, lkey: TX_KEY, address: 0x10_0000 };
    Wqe::build(index, QPN, Completion::OnError, Operation::Send, Payload::Memory(segment))
        .expect("some bytes")
}

#[test]
fn nothing_is_sent_before_the_doorbell() {
    let mut it = ByHand::new();
    it.write(&send(0, b"first"), 0);
    it.record.publish_send(1);
    it.work();
    assert_eq!(it.received(), 0);
    it.ring(1);
    it.work();
    assert_eq!((it.received(), it.broken()), (1, vec![]));
}

#[test]
fn a_doorbell_before_the_record_is_named_and_the_work_is_found_later() {
    let mut it = ByHand::new();
    it.write(&send(0, b"first"), 0);
    it.ring(1);
    it.work();
    assert_eq!((it.received(), it.broken()), (0, vec![(Violation::DoorbellBeforeRecord, 1)]));
    it.record.publish_send(1);
    it.work();
    assert_eq!((it.received(), it.broken()), (1, vec![(Violation::DoorbellBeforeRecord, 1)]));
}

#[test]
fn a_request_that_is_not_there_yet_is_named_and_breaks_the_queue_pair() {
    let mut it = ByHand::new();
    for index in 0..4 {
        it.post(index, &send(index, b"lap 0"));
        it.work();
    }
    // Rung for number 4, whose entry still holds number 0.
    it.record.publish_send(5);
    it.ring(5);
    it.work();
    assert_eq!((it.received(), it.broken()), (4, vec![(Violation::StaleRequest, 1)]));
    assert!(it.nic.is_broken());
    assert_eq!(it.nic.stats().tx_errors, 1);
    assert_eq!(it.nic.stats().flushed, 0, "no receive request was posted");
}

#[test]
fn what_a_request_may_not_be() {
    let good = send(0, b"first");
    let other_qp =
        Wqe::build(0, QPN + 1, Completion::OnError, Operation::Send, Payload::Inline(b"x")).expect("x");
    let mut bad_opcode = good;
    bad_opcode.words[0] = layout::pair(0x55, QPN << 8 | 2);
    for (request, named) in
        [(other_qp, Violation::RequestQueuePair), (bad_opcode, Violation::MalformedRequest)]
    {
        let mut it = ByHand::new();
        it.post(0, &request);
        it.work();
        assert_eq!((it.received(), it.broken()), (0, vec![(named, 1)]));
        assert!(it.nic.is_broken());
    }
    let mut it = ByHand::new();
    it.uar.store(0, layout::doorbell(QPN + 1, 1), Relaxed);
    it.work();
    assert_eq!(it.broken(), [(Violation::DoorbellQueuePair, 1)]);
}

#[test]
fn memory_that_the_key_does_not_open_is_an_error_and_no_violation() {
    for request in [send_memory(0, 1 << 20), {
        let segment = Segment { bytes: 8, lkey: 0x5555, address: 0 };
        Wqe::build(0, QPN, Completion::OnError, Operation::Send, Payload::Memory(segment)).expect("8 bytes")
    }] {
        let mut it = ByHand::new();
        it.post(0, &request);
        it.work();
        assert_eq!((it.received(), it.broken(), it.nic.stats().tx_errors), (0, vec![], 1));
        assert!(it.nic.is_broken());
    }
}

#[test]
fn what_changes_while_the_nic_has_it() {
    let mut it = ByHand::new();
    it.post(0, &send(0, b"first"));
    // Read, and not yet done.
    it.nic.step();
    it.write(&send(0, b"other"), 0);
    it.work();
    assert_eq!((it.received(), it.broken()), (1, vec![(Violation::RequestOverwritten, 1)]));

    let mut it = ByHand::new();
    it.windows.tx_data.write(0, b"response");
    it.post(0, &send_memory(0, 8));
    it.nic.step();
    it.windows.tx_data.write(0, b"RESPONSE");
    it.work();
    assert_eq!((it.received(), it.broken()), (1, vec![(Violation::PayloadOverwritten, 1)]));
}

#[test]
fn more_requests_than_there_are_entries() {
    let mut it = ByHand::new();
    for index in 0..5 {
        it.write(&send(index, b"x"), u32::from(index) % DEPTH);
    }
    it.record.publish_send(5);
    it.ring(5);
    it.nic.step();
    assert_eq!(it.broken(), [(Violation::SendOverrun, 1)]);

    let mut it = ByHand::new();
    it.record.publish_receive(DEPTH as u16 + 1);
    let shape = Shape::of_depth(DEPTH);
    assert!(it.peer.send(write_imm(&shape, 0, 0), b"x"));
    it.work();
    assert_eq!(it.broken(), [(Violation::ReceiveOverCredit, 1)]);
}

#[test]
fn a_copy_that_is_not_in_the_queue_is_not_taken() {
    let mut it = ByHand::new();
    it.write(&send(0, b"first"), 0);
    let mut doorbell = BlueFlame::new(it.uar.clone()).expect("8 words");
    doorbell.copy(&send(0, b"other").words);
    it.work();
    assert_eq!((it.received(), it.broken()), (0, vec![(Violation::BlueFlameDiffers, 1)]));
    it.record.publish_send(1);
    doorbell.ring(layout::doorbell(QPN, 1));
    it.work();
    assert_eq!((it.received(), it.nic.stats().tx_blue_flame), (1, 0));
}

#[test]
fn a_completion_queue_that_is_not_read_overruns_only_if_the_nic_is_told() {
    let shape = Shape { consumer_records: true, ..Shape::of_depth(2) };
    let Rig { mut endpoint, mut nic, mut peer, windows, .. } = rig(&shape);
    // Credit without reading: what a consumer must not do.
    windows.record.store(0, layout::record(3, 0), Relaxed);
    for i in 0..3 {
        assert!(peer.send(write_imm(&shape, 0, 0), &request(i)));
        nic.step();
    }
    let broken: Vec<_> = nic.violations().broken().collect();
    assert_eq!(broken, [(Violation::ReceiveOverCredit, 1), (Violation::CompletionOverrun, 1)]);
    for _ in 0..2 {
        assert!(matches!(endpoint.poll(), Poll::Arrived(_)));
    }
    assert!(matches!(endpoint.poll(), Poll::Empty));
    assert_eq!(endpoint.counters().get(Event::RxCompletions), 2);
}
