//! The emulated NIC and the queues that ship, on two threads, every interleaving.
#![cfg(loom)]

#[path = "../../../device/gpu/tests/loom_support/mod.rs"]
mod loom_support;
mod support;

use loom::thread;
use loom_support::{broken, model};
use ringcall_gpu::shared::Words;
use ringcall_mlx5::cq::CompletionQueue;
use ringcall_mlx5::doorbell::{BlueFlame, Doorbell, DoorbellRecord, Register};
use ringcall_mlx5::endpoint::{Frame, Poll};
use ringcall_mlx5::layout::wqe::{self, Operation, Payload};
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use ringcall_sim::nic::{Message, Port, Violation};
use support::*;

/// A request of a word and its response, through an endpoint and a NIC with one entry in each queue.
#[test]
fn a_request_and_its_response() {
    model(|| {
        let shape = Shape { stride: 8, slots: 1, ..Shape::of_depth(1) };
        let Rig { mut endpoint, mut nic, mut peer, .. } = rig(&shape);
        assert!(peer.send(write_imm(&shape, 0, 0), b"question"));
        let hardware = thread::spawn(move || {
            for _ in 0..2 {
                nic.step();
            }
            nic
        });
        let serve = |endpoint: &mut ringcall_mlx5::Endpoint<AnyDoorbell>| {
            let Poll::Arrived(arrived) = endpoint.poll() else { return false };
            let mut bytes = [0; 8];
            assert!(endpoint.read(&arrived, 0, &mut bytes));
            assert_eq!(&bytes, b"question");
            let slot = endpoint.try_reserve().expect("nothing was sent yet");
            endpoint.respond(arrived, slot, Frame::Bytes(b"answer")).expect("it fits");
            true
        };
        let served = serve(&mut endpoint);
        let mut nic = hardware.join().expect("NIC");
        assert!(served || serve(&mut endpoint));
        while nic.step() {}
        let mut payload = Vec::new();
        assert_eq!(peer.receive(&mut payload), Some(Message::Send));
        assert_eq!(payload, b"answer");
        assert_obeyed(&nic);
    });
}

/// Software that posts two sends while the NIC looks; what was sent, and the rules that were broken.
fn two_sends<D: Doorbell + 'static>(record: RecordMode, steps: u32, doorbell: fn(Words) -> D) {
    let shape = Shape { stride: 8, slots: 1, record, completions: 1, ..Shape::of_depth(2) };
    let (windows, uar) = (windows(&shape), words(8));
    let (mut nic, mut peer) = nic_over(&shape, &windows, &uar);
    let hardware = thread::spawn(move || {
        for _ in 0..steps {
            nic.step_send();
        }
        nic
    });
    let completions = CompletionQueue::new(windows.tx_completions.clone(), None).expect("a queue");
    let mut queue = SendQueue::new(windows.send.clone(), completions, QPN, record).expect("a queue");
    let mut doorbell_record = DoorbellRecord::new(windows.record.clone()).expect("a word");
    let mut doorbell = doorbell(uar);
    for text in [b"first", b"other"] {
        queue
            .post(Operation::Send, Payload::Inline(text), &mut doorbell_record, &mut doorbell)
            .expect("two entries");
    }
    let mut nic = hardware.join().expect("NIC");
    while nic.step_send() {}
    let mut payload = Vec::new();
    for text in [b"first", b"other"] {
        assert_eq!(peer.receive(&mut payload), Some(Message::Send));
        assert_eq!(payload, text);
    }
    assert_eq!(peer.receive(&mut payload), None);
    assert_obeyed(&nic);
    assert_eq!(queue.reclaim().completions, 2);
    assert_eq!(queue.under_way(), 0);
}

#[test]
fn sends_by_doorbell() {
    model(|| two_sends(RecordMode::Written, 3, |uar| Register::new(uar).expect("8 words")));
}

#[test]
fn sends_without_a_record() {
    model(|| two_sends(RecordMode::NotWritten, 3, |uar| Register::new(uar).expect("8 words")));
}

#[test]
fn sends_by_blue_flame() {
    // One look: each word of the copy that may be read old doubles what is explored.
    model(|| two_sends(RecordMode::Written, 1, |uar| BlueFlame::new(uar).expect("8 words")));
}

/// A BlueFlame copy whose first word is written first: the NIC takes bytes that are not there yet.
struct HeadFirst(Words);

impl Doorbell for HeadFirst {
    fn copy(&mut self, request: &[u64; wqe::WORDS]) {
        for (at, &word) in request.iter().enumerate() {
            self.0.store(at, word, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn ring(&mut self, value: u64) {
        self.0.store(0, value, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn mutant_blue_flame_copy_with_its_first_word_first() {
    let found = broken(|| two_sends(RecordMode::Written, 1, HeadFirst));
    assert!(found.contains(&format!("{:?}", Violation::BlueFlameDiffers)), "{found}");
}

/// A doorbell that rings before the record is written: the NIC has a name for it.
struct Early(Register);

impl Doorbell for Early {
    fn copy(&mut self, request: &[u64; wqe::WORDS]) {
        let index = ringcall_mlx5::layout::wqe::Control::of(request).index;
        self.0.ring(ringcall_mlx5::layout::doorbell(QPN, index + 1));
    }

    fn ring(&mut self, value: u64) {
        self.0.ring(value);
    }
}

#[test]
fn mutant_doorbell_before_the_record() {
    let found =
        broken(|| two_sends(RecordMode::Written, 3, |uar| Early(Register::new(uar).expect("8 words"))));
    assert!(found.contains(&format!("{:?}", Violation::DoorbellBeforeRecord)), "{found}");
}
