//! A graph's answer on its way to the dispatcher, every interleaving: two launches of one executable, whose mailbox is free before its
//! answer was taken; and mutants, in each of which one rule is broken.
//!
//! The launcher, the pending and the graph's own end are those of a kernel. The poller is simulated: it polls a few times.
#![cfg(loom)]

#[path = "../../protocol/tests/loom_support/mod.rs"]
mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::{FUNCTION, broken, model};
use ringcall_dispatcher::queue_pair::{PendingTable, Plan};
use ringcall_dispatcher::ring::graph_end::{Child, ResponseWindows};
use ringcall_dispatcher::ring::launcher::{GraphRequest, LaunchState, Launcher, Unprepared};
use ringcall_dispatcher::ring::{Call, DeviceTable, Machine, Returned};
use ringcall_gpu::atomic::{BlockU64, DeviceU64};
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Region, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_protocol::table::{Cell, EMPTY, IdIndex};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind, io};
use ringcall_wire::status::Status;
use std::cell::RefCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Bytes of a slot: a header and eight bytes.
const STRIDE: u32 = HEADER_BYTES as u32 + 8;
/// Words of a mailbox.
const MAILBOX: usize = io::PAYLOAD / 8 + 1;

/// One executable: its mailbox, the pending, and where its answer lies there.
#[derive(Clone)]
struct Memory {
    pending: PendingTable,
    mailbox: Words,
    slot: Words,
    flag: Words,
    finished: Arc<DeviceU64>,
}

impl Memory {
    fn new() -> Self {
        let plan = Plan::new(1, 1, STRIDE, STRIDE);
        let region = Region::zeroed(plan.words() * 8).expect("memory");
        let all = region.words(0, plan.words()).expect("inside");
        let mailbox = Region::zeroed(MAILBOX * 8).expect("memory").words(0, MAILBOX).expect("inside");
        let pending = PendingTable::new(all.clone(), plan).expect("a pending");
        let answer = pending.answer_addresses(&mailbox).expect("an entry");
        let part = |address: u64, count: usize| {
            region.words((address - all.address()) as usize, count).expect("on the pending")
        };
        let (slot, flag) = (part(answer.slot, STRIDE as usize / 8), part(answer.flag, 1));
        Self { pending, mailbox, slot, flag, finished: Arc::new(DeviceU64::new(0)) }
    }

    /// What a graph's last kernel does: ten times the payload.
    fn child(&self) {
        let child = Child::new(&self.mailbox);
        let response = ResponseWindows { slot: &self.slot, flag: &self.flag };
        child.set_result_word(&response, 0, child.payload_word(0) * 10);
        child.answer(&response, None, Status::OK, 8);
        child.finish(&self.finished);
    }
}

/// A machine that launches threads.
struct Threads<'a> {
    memory: &'a Memory,
    children: RefCell<Vec<thread::JoinHandle<()>>>,
}

impl Machine for Threads<'_> {
    const GRAPHS: bool = true;

    fn call_thread(&self, _: &Call<'_>) -> Returned {
        Returned::default()
    }

    fn call_warp(&self, _: Warp<'_>, _: &Call<'_>) -> Returned {
        Returned::default()
    }

    fn launch(&self, _: u64) -> Result<(), i32> {
        let memory = self.memory.clone();
        self.children.borrow_mut().push(thread::spawn(move || memory.child()));
        Ok(())
    }

    fn mailbox(&self, _: u64, _: usize) -> Option<Words> {
        Some(self.memory.mailbox.clone())
    }

    fn sleep(&self) {}
    fn sleep_until_next_round(&self) {}
}

/// The rules that a poller keeps, or does not.
#[derive(Clone, Copy)]
struct Rules {
    /// The answer is read after a fence.
    fence: bool,
    /// An executable is launched again only when its answer was taken.
    clear: bool,
    /// Whether a graph has ended is looked at before whether it has answered.
    state_first: bool,
}

const RIGHT: Rules = Rules { fence: true, clear: true, state_first: true };

struct Poller<'a> {
    rules: Rules,
    machine: &'a Threads<'a>,
    launches: &'a LaunchState,
    table: DeviceTable<'a>,
    entry: &'a DeviceEntry,
    launched: u32,
    taken: u32,
}

fn request(i: u32) -> RequestHeader {
    RequestHeader::new(FUNCTION, 8, i, u64::from(i) + 100)
}

impl Poller<'_> {
    fn pending(&self) -> &PendingTable {
        &self.machine.memory.pending
    }

    /// Launches the next of two requests, if the executable is there.
    fn launch(&mut self) {
        if self.launched == 2 {
            return;
        }
        let (warp, header) = (Warp::single(), request(self.launched));
        let graph_request = GraphRequest { header: &header, slot: 0, capacity: 8 };
        let launcher = Launcher { machine: self.machine, table: self.table, launches: self.launches };
        let usable = |mailbox: &Words| !self.rules.clear || self.pending().is_clear(mailbox);
        let response = |mailbox: &Words| self.pending().answer_addresses(mailbox);
        let payload = |_| u64::from(header.request_id) + 1;
        match launcher.prepare(warp, self.entry, graph_request, payload, usable, response) {
            Err(why) => assert_eq!(why, Unprepared::Later),
            Ok(prepared) => {
                self.pending().set_outstanding(0, 0xB0);
                assert!(launcher.fire(warp, &prepared));
                self.launched += 1;
            }
        }
    }

    /// Takes an answer that is there.
    fn poll(&mut self) {
        let memory = self.machine.memory;
        if self.pending().outstanding(0) == 0 {
            return;
        }
        let abandoned = if self.rules.state_first {
            self.pending().is_abandoned(0, &memory.mailbox)
        } else {
            let silent = !self.pending().is_answered(0);
            memory.mailbox.load(io::STATE, Acquire) == io::IDLE && silent
        };
        assert!(!abandoned, "its answer comes or is there");
        if !self.pending().is_answered(0) {
            return;
        }
        if self.rules.fence {
            barrier::observe_from_peer();
        }
        let staging: Vec<_> = (0..4).map(|_| BlockU64::new(0)).collect();
        let staging = StagingBuffer::new(&staging);
        let header = self.pending().answer_header(0);
        assert_eq!(header, ResponseHeader::reply(&request(self.taken), 0, 8), "the answer");
        self.pending().fetch_answer(Warp::single(), 0, STRIDE, staging);
        assert_eq!(staging.word(3), u64::from(self.taken + 1) * 10, "the result");
        self.pending().complete(0);
        self.taken += 1;
    }
}

fn two_launches(rules: Rules) {
    let memory = Memory::new();
    let machine = Threads { memory: &memory, children: RefCell::default() };
    let launches = LaunchState::default();
    let entry = DeviceEntry {
        address: 0x1000,
        id: FUNCTION,
        kind: HandlerKind::Graph as u32,
        arg_bytes: 8,
        follow_up: DeviceEntry::NONE,
        execs: 1,
        io_stride: MAILBOX as u32 * 8,
        routing_key: 0,
        next_route: DeviceEntry::NONE,
        reserved: 0,
    };
    let entries = [entry];
    let mut cells: [Cell; 2] = [EMPTY; 2];
    let index = IdIndex::build(1, |_| FUNCTION, &mut cells).expect("one id");
    let table = DeviceTable::new(index, &cells, &entries);
    let mut poller =
        Poller { rules, machine: &machine, launches: &launches, table, entry: &entry, launched: 0, taken: 0 };
    poller.launch();
    for _ in 0..2 {
        poller.poll();
        poller.launch();
    }
    // The rest in order.
    for _ in 0..2 {
        let children = machine.children.take();
        children.into_iter().for_each(|child| child.join().expect("a child"));
        poller.poll();
        poller.launch();
    }
    let children = machine.children.take();
    children.into_iter().for_each(|child| child.join().expect("a child"));
    poller.poll();
    assert_eq!((poller.launched, poller.taken, memory.finished.load(Relaxed)), (2, 2, 2));
}

#[test]
fn an_answer_is_taken_before_its_executable_runs_again() {
    model(|| two_launches(RIGHT));
}

#[test]
fn mutant_answer_read_without_a_fence() {
    let found = broken(|| two_launches(Rules { fence: false, ..RIGHT }));
    assert!(found.contains("the answer") || found.contains("the result"), "{found}");
}

#[test]
fn mutant_launched_again_before_its_answer_was_taken() {
    let found = broken(|| two_launches(Rules { clear: false, ..RIGHT }));
    assert!(found.contains("the answer") || found.contains("the result"), "{found}");
}

#[test]
fn mutant_silence_seen_before_the_end() {
    let found = broken(|| two_launches(Rules { state_first: false, ..RIGHT }));
    assert!(found.contains("its answer comes or is there"), "{found}");
}
