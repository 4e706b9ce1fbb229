//! How the warps of a block hand a slot to each other, every interleaving.
//!
//! The mailboxes, slot states and flags are those of a kernel. The poller is simulated: its rules are few, each has a mutant here,
//! and its polling has no end that a model could reach. So are, with a few steps in place of hundreds, the serving warp
//! and the maintenance warp; one model has the real ones.
//!
//! Two requests go through one slot. The first is in the ring when the model begins, the second is written as soon as
//! the slot is vacant.
#![cfg(loom)]

#[path = "../../protocol/tests/loom_support/mod.rs"]
mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_dispatcher::ring::block_state::WarpCommand;
use ringcall_dispatcher::ring::{
    BlockDispatcher, BlockState, Call, DeviceTable, Machine, Partition, Returned, RingOptions, staging_bytes,
};
use ringcall_gpu::atomic::{BlockU64, DeviceU64};
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Region, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::table::{Cell, EMPTY, IdIndex};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::flag;
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The warp that serves; 0 polls.
const WORKER: u32 = 1;
/// Warps that serve or poll; the maintenance warp comes after them.
const WORKERS: u32 = 2;
/// The state of a slot that a warp serves.
const SERVED: u64 = u64::MAX;
/// The state of a slot whose answer a simulated warp has written.
const WRITTEN: u64 = 1 << 32;

/// What the warps of the block share.
struct Model {
    ring: SharedRing,
    /// Boxed: the stacks of a model's threads are small.
    block_state: Box<BlockState>,
    serving: [BlockU64; 1],
    staging: [Vec<BlockU64>; 2],
    entries: [DeviceEntry; 1],
    cells: [Cell; 2],
    index: IdIndex,
    unused: Words,
    submitted: DeviceU64,
    served: DeviceU64,
    taken: DeviceU64,
}

/// The only function: ten times the payload.
struct Tenfold<'a>(&'a Model);

impl Machine for Tenfold<'_> {
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        let served = self.0.served.load(Relaxed) + 1;
        self.0.served.store(served, Relaxed);
        assert!(served <= self.0.submitted.load(Relaxed), "a request was served twice");
        call.output.set_word(3, call.input.word(3) * 10);
        Returned { status: 0, len: 8 }
    }

    fn call_warp(&self, _: Warp<'_>, _: &Call<'_>) -> Returned {
        Returned::default()
    }

    fn sleep(&self) {
        thread::yield_now();
    }

    fn sleep_until_next_round(&self) {
        thread::yield_now();
    }
}

/// One poll; whether it handed the slot out.
type Poll = fn(&Model) -> bool;
/// The life of a serving or a maintenance warp.
type Life = fn(&Model);

/// The slot state before the flag: the state was cleared after the flag was, so that a flag seen set after it is a new one.
fn poll(model: &Model) -> bool {
    let state = model.serving[0].load(Acquire);
    let flag = model.ring.rx_pair(0)[0];
    state == 0 && flag != flag::FREE && hand_out(model, flag)
}

fn hand_out(model: &Model, flag: u64) -> bool {
    // An answer that was not taken holds the slot back; a warp that is at work is no helper.
    if model.block_state.read(WORKER) != WarpCommand::Free {
        return false;
    }
    barrier::observe_from_peer();
    if model.ring.tx_pair(0)[0] != flag::FREE {
        return false;
    }
    model.serving[0].store(SERVED, Relaxed);
    model
        .block_state
        .set_command(WORKER, WarpCommand::Serve { slot: 0, valid_flag: model.ring.is_address_of(0, flag) });
    true
}

fn run_maintenance(model: &Model) {
    model.block(&Tenfold(model)).run_maintenance(Warp::single(), WORKERS);
}

impl Model {
    fn new() -> Self {
        let block_state = Box::<BlockState>::default();
        let ring = ring(1);
        let mut cells = [EMPTY; 2];
        let index = IdIndex::build(1, |_| FUNCTION, &mut cells).expect("one id");
        let entry = DeviceEntry {
            address: 0,
            id: FUNCTION,
            kind: HandlerKind::Thread as u32,
            arg_bytes: 8,
            follow_up: DeviceEntry::NONE,
            execs: 0,
            io_stride: 0,
            routing_key: 0,
            next_route: DeviceEntry::NONE,
            reserved: 0,
        };
        let words = staging_bytes(ring.geometry().rx_stride()) / 8;
        let staging = || (0..words).map(|_| BlockU64::new(0)).collect();
        Self {
            ring,
            block_state,
            serving: [BlockU64::new(0)],
            staging: [staging(), staging()],
            entries: [entry],
            cells,
            index,
            unused: Region::zeroed(8).and_then(|region| region.words(0, 1)).expect("memory"),
            submitted: DeviceU64::new(0),
            served: DeviceU64::new(0),
            taken: DeviceU64::new(0),
        }
    }

    fn block<'a>(&'a self, machine: &'a Tenfold<'a>) -> BlockDispatcher<'a, Tenfold<'a>> {
        BlockDispatcher {
            ring: &self.ring,
            partition: Partition { first: 0, count: 1 },
            table: DeviceTable::new(self.index, &self.cells, &self.entries),
            block_state: &self.block_state,
            serving: &self.serving,
            control: &self.unused,
            saved: &self.unused,
            workers: WORKERS,
            poller_maintains: false,
            batch: 1,
            options: RingOptions::default(),
            machine,
        }
    }

    /// The life of a serving warp: the real one, with one lane.
    fn serve(&self) {
        let [input, output] = self.staging.each_ref().map(|words| StagingBuffer::new(words));
        let _ = self.block(&Tenfold(self)).run(Warp::single(), WORKER, input, output);
    }

    /// The same, simulated: it writes the answer, sets the slot's state to `WRITTEN`, and is free.
    fn play_serve(&self) {
        loop {
            match self.block_state.read(WORKER) {
                WarpCommand::Serve { slot, valid_flag } => {
                    assert!(valid_flag);
                    let slot = self.ring.geometry().slot(slot).expect("in the ring");
                    let header = RequestHeader::from_words(self.ring.request_header(slot));
                    let served = self.served.load(Relaxed) + 1;
                    self.served.store(served, Relaxed);
                    assert!(served <= self.submitted.load(Relaxed), "a request was served twice");
                    let answer = answer_of(&self.ring, slot);
                    let reply = ResponseHeader::reply(&header, 0, 8).to_words();
                    self.ring.write_response(slot, reply, &answer);
                    self.serving[0].store(WRITTEN, Release);
                    self.block_state.set_command(WORKER, WarpCommand::Free);
                }
                WarpCommand::Exit => return,
                _ => thread::yield_now(),
            }
        }
    }

    /// Producer: the next request, if the slot is vacant. Vacant means that all answers before were taken.
    fn produce(&self) -> bool {
        let i = self.submitted.load(Relaxed);
        if i == 2 {
            return false;
        }
        let Some(vacant) = Vacant::probe(&self.ring, first(&self.ring)) else { return false };
        assert_eq!(self.taken.load(Relaxed), i, "both flags 0 while a request was under way");
        self.submitted.store(i + 1, Relaxed);
        submit(&self.ring, vacant, i as u32);
        true
    }

    /// Consumer: the next response, if it is there.
    fn consume(&self) -> bool {
        let Some(response) = Response::probe(&self.ring, first(&self.ring)) else { return false };
        let i = self.taken.load(Relaxed);
        check_response(&self.ring, &response, i as u32);
        self.taken.store(i + 1, Relaxed);
        response.release(&self.ring);
        true
    }
}

fn life(poll: Poll, serve: Life, maintenance: Life) {
    let model = Arc::new(Model::new());
    assert!(model.produce());
    let party = |work: Life| {
        let model = Arc::clone(&model);
        thread::spawn(move || work(&model))
    };
    let worker = party(serve);
    let maintainer = party(maintenance);
    assert!(poll(&model), "the first request");
    // Producer and consumer, at any time.
    let peer = party(|model| {
        model.consume();
        model.produce();
    });
    poll(&model);
    poll(&model);
    peer.join().expect("producer and consumer");
    // What nobody got to, in order: each round lets the warps run.
    while model.taken.load(Relaxed) < 2 {
        model.consume();
        model.produce();
        poll(&model);
        thread::yield_now();
    }
    while model.block_state.read(WORKER) != WarpCommand::Free {
        thread::yield_now();
    }
    model.block_state.set_command(WORKER, WarpCommand::Exit);
    worker.join().expect("worker");
    model.block_state.set_command(WORKERS, WarpCommand::Exit);
    maintainer.join().expect("maintenance warp");
    assert_eq!(model.served.load(Relaxed), 2);
    assert_eq!(model.serving[0].load(Relaxed), 0);
    assert!(Vacant::probe(&model.ring, first(&model.ring)).is_some());
}

#[test]
fn each_request_is_served_once() {
    once(|| life(poll, Model::play_serve, |model| keep(model, in_order)));
}

/// With the warps' own code.
#[test]
fn the_real_warps_serve_each_request_once() {
    once(|| life(poll, Model::serve, run_maintenance));
}

/// One preemption and the first 3,000 interleavings, whatever the environment says: four parties take hundreds of steps
/// for each request, and a whole exploration takes too long.
fn once(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(1);
    builder.max_permutations = Some(3_000);
    builder.max_branches = 100_000;
    builder.check(body);
}

/// The flag read before the slot state: a flag from before it was cleared, a state from after.
#[test]
fn mutant_flag_read_before_the_slot_state() {
    fn wrong(model: &Model) -> bool {
        let flag = model.ring.rx_pair(0)[0];
        let state = model.serving[0].load(Acquire);
        state == 0 && flag != flag::FREE && hand_out(model, flag)
    }
    assert!(
        broken(|| life(wrong, Model::play_serve, |model| keep(model, in_order))).contains("served twice")
    );
}

/// A maintenance warp of our own, to break: does `retire` for a slot whose answer is written, until the end.
fn keep(model: &Model, retire: fn(&Model)) {
    loop {
        let end = model.block_state.read(WORKERS) == WarpCommand::Exit;
        if !matches!(model.serving[0].load(Acquire), 0 | SERVED) {
            retire(model);
        } else if end {
            model.block_state.set_command(WORKERS, WarpCommand::Free);
            return;
        }
        thread::yield_now();
    }
}

/// Response, response flag, request flag, slot state.
fn in_order(model: &Model) {
    barrier::publish_to_peer();
    model.ring.publish_tx_relaxed(0);
    barrier::publish_to_peer();
    model.ring.clear_rx_relaxed(0);
    model.serving[0].store(0, Release);
}

/// A written answer is retired while the producer looks. The consumer does not take it, so at no time is the
/// slot vacant.
fn retirement(retire: Life) {
    let model = Arc::new(Model::new());
    assert!(model.produce());
    let maintenance = {
        let model = Arc::clone(&model);
        thread::spawn(move || retire(&model))
    };
    let vacant = Vacant::probe(&model.ring, first(&model.ring)).is_some();
    maintenance.join().expect("maintenance warp");
    assert!(!vacant, "both flags 0 while a request was under way");
}

#[test]
fn a_slot_is_not_vacant_before_its_answer_is_taken() {
    model(|| retirement(in_order));
}

/// rx cleared before tx is set: for a moment the slot looks vacant.
#[test]
fn mutant_rx_cleared_before_tx() {
    fn retire(model: &Model) {
        barrier::publish_to_peer();
        model.ring.clear_rx_relaxed(0);
        barrier::publish_to_peer();
        model.ring.publish_tx_relaxed(0);
        model.serving[0].store(0, Release);
    }
    assert!(broken(|| retirement(retire)).contains("both flags 0"));
}

/// One fence for both flags: they may be seen in the other order.
#[test]
fn mutant_no_fence_between_tx_and_rx() {
    fn retire(model: &Model) {
        barrier::publish_to_peer();
        model.ring.publish_tx_relaxed(0);
        model.ring.clear_rx_relaxed(0);
        model.serving[0].store(0, Release);
    }
    assert!(broken(|| retirement(retire)).contains("both flags 0"));
}

/// The slot state cleared before rx: the poller takes the old flag for a new request.
#[test]
fn mutant_slot_state_cleared_before_rx() {
    fn retire(model: &Model) {
        barrier::publish_to_peer();
        model.ring.publish_tx_relaxed(0);
        barrier::publish_to_peer();
        model.serving[0].store(0, Release);
        model.ring.clear_rx_relaxed(0);
    }
    assert!(!broken(|| life(poll, Model::play_serve, |model| keep(model, retire))).is_empty());
}

/// Polling is handed off after the slot states are set: the next poller sees the state of every slot that is being served.
fn inheritance(pass_on: fn(&BlockState, &BlockU64)) {
    let shared = Arc::new((BlockState::default(), BlockU64::new(0)));
    let poller = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || pass_on(&shared.0, &shared.1))
    };
    if shared.0.read(WORKER) == WarpCommand::Poll {
        assert_eq!(shared.1.load(Acquire), SERVED, "the next poller sees a slot that is being served");
    }
    poller.join().expect("poller");
}

#[test]
fn the_next_poller_sees_the_slot_states() {
    model(|| {
        inheritance(|block_state, state| {
            state.store(SERVED, Relaxed);
            block_state.set_command(WORKER, WarpCommand::Poll);
        });
    });
}

#[test]
fn mutant_polling_handed_off_before_the_slot_state() {
    let body = || {
        inheritance(|block_state, state| {
            block_state.set_command(WORKER, WarpCommand::Poll);
            state.store(SERVED, Relaxed);
        });
    };
    assert!(broken(body).contains("being served"));
}
