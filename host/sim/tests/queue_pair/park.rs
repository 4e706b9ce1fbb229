//! Graphs: mailboxes, a pending, and threads that play what was launched.
#![allow(unreachable_pub)] // a module of tests

use crate::rig::{KernelRig, Table, Team, Threads, entry};
use crate::support::*;
use ringcall_dispatcher::queue_pair::{Graphs, PendingTable, Plan};
use ringcall_dispatcher::ring::graph_end::{Child, ResponseWindows, mailbox_bytes};
use ringcall_dispatcher::ring::{Call, Machine, Returned};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::{Region, Words};
use ringcall_gpu::team::Warp;
use ringcall_wire::flag;
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::launch::{DeviceEntry, HandlerKind, io, saved};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread;

/// What a child does with its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child_ {
    /// Every word of the payload plus the graph's number.
    Adds,
    /// Nothing: it ends without an answer.
    IsSilent,
    /// An answer longer than fits.
    Boasts,
    /// A flag, and no header.
    Scribbles,
    /// The launch fails with this code.
    Fails(i32),
}

/// Says what a child does, by the first word of its payload.
pub type Conduct = fn(u64) -> Child_;

/// Memory whose words are found by address.
struct Memory {
    region: Region,
    base: u64,
}

impl Memory {
    fn zeroed(words: usize) -> Self {
        let region = Region::zeroed(words * 8).expect("memory");
        let base = region.words(0, 1).expect("inside").address();
        Self { region, base }
    }

    fn words_at(&self, address: u64, count: usize) -> Option<Words> {
        self.region.words(address.checked_sub(self.base)? as usize, count).ok()
    }
}

/// Executables of several graphs, one mailbox each, and the pending where their answers go.
pub struct Park {
    shape: Shape,
    boxes: Memory,
    pending: Memory,
    plan: Plan,
    saved: Words,
    stride: u32,
    execs: u32,
    conduct: Conduct,
    open: DeviceU64,
    reached: DeviceU64,
    /// Finished children; on a device added to by themselves, in the saved words.
    finished: Mutex<u64>,
    running: Vec<DeviceU64>,
    again: DeviceU64,
    triggers: DeviceU64,
    /// CUDA code with which a relaunch fails.
    pub refuses_relaunch: Option<i32>,
}

impl Park {
    /// `graphs` graphs of `execs` executables each.
    pub fn new(shape: &Shape, graphs: u32, execs: u32, conduct: Conduct) -> Self {
        let stride = mailbox_bytes(shape.stride - HEADER_BYTES as u32);
        let all = graphs * execs;
        let plan = Plan::new(all, shape.slots, shape.stride, shape.stride);
        let park = Self {
            shape: *shape,
            boxes: Memory::zeroed((all * stride / 8) as usize),
            pending: Memory::zeroed(plan.words()),
            plan,
            saved: words(saved::WORDS),
            stride,
            execs,
            conduct,
            open: DeviceU64::new(1),
            reached: DeviceU64::new(0),
            finished: Mutex::new(0),
            running: (0..all).map(|_| DeviceU64::new(0)).collect(),
            again: DeviceU64::new(0),
            triggers: DeviceU64::new(0),
            refuses_relaunch: None,
        };
        for number in 0..all {
            let mailbox = park.mailbox_of(number);
            mailbox.store(io::EXEC, 0xE000 + u64::from(number), Relaxed);
            mailbox.store(io::ANSWER, u64::from(number), Relaxed);
        }
        park
    }

    fn mailbox_of(&self, number: u32) -> Words {
        let address = self.boxes.base + u64::from(number * self.stride);
        self.boxes.words_at(address, self.stride as usize / 8).expect("inside")
    }

    /// The table's entry for graph `graph`.
    pub fn entry(&self, name: &str, graph: u32, routing_key: u64) -> DeviceEntry {
        DeviceEntry {
            execs: self.execs,
            io_stride: self.stride,
            routing_key,
            ..entry(name, HandlerKind::Graph, self.boxes.base + u64::from(graph * self.execs * self.stride))
        }
    }

    /// Children wait until the door is opened.
    pub fn shut(&self) {
        self.open.store(0, Release);
    }

    pub fn open(&self) {
        self.open.store(1, Release);
    }

    /// Waits until so many children have come to the door, ever.
    pub fn await_children(&self, n: u64) {
        let mut poll_limit = PollLimit::default();
        while self.reached.load(Acquire) < n {
            poll_limit.wait();
            thread::yield_now();
        }
    }

    /// Children that have come to the door, ever.
    pub fn reached(&self) -> u64 {
        self.reached.load(Acquire)
    }

    /// Calls of the handler that asks for its follow-up, ever.
    pub fn triggers(&self) -> u64 {
        self.triggers.load(Acquire)
    }

    pub fn finished(&self) -> u64 {
        *self.finished.lock().expect("finished")
    }

    fn launch(park: &Arc<Self>, exec: u64) -> Result<(), i32> {
        let number = exec.checked_sub(0xE000).expect("a handle that the host wrote") as u32;
        let mailbox = park.mailbox_of(number);
        assert_eq!(mailbox.load(io::STATE, Relaxed), io::LAUNCHED, "launched without a claim");
        let conduct = (park.conduct)(mailbox.load(io::PAYLOAD / 8, Relaxed));
        if let Child_::Fails(code) = conduct {
            return Err(code);
        }
        let before = park.running[number as usize].fetch_add(1, AcqRel);
        assert_eq!(before, 0, "executable {number} was launched while it ran");
        let park = Arc::clone(park);
        thread::spawn(move || park.child(&mailbox, number, conduct));
        Ok(())
    }

    /// What a graph's kernels do.
    fn child(&self, mailbox: &Words, number: u32, conduct: Child_) {
        self.reached.fetch_add(1, Release);
        let mut poll_limit = PollLimit::default();
        while self.open.load(Acquire) == 0 {
            poll_limit.wait();
            thread::yield_now();
        }
        let child = Child::new(mailbox);
        if let Some((slot, flag)) = child.response_addresses() {
            let slot = self.pending.words_at(slot, self.shape.stride as usize / 8).expect("on the pending");
            let flag = self.pending.words_at(flag, 1).expect("on the pending");
            let response = ResponseWindows { slot: &slot, flag: &flag };
            match conduct {
                Child_::Adds => {
                    for word in 0..child.arg_len().div_ceil(8) as usize {
                        let value = child.payload_word(word).wrapping_add(u64::from(number / self.execs));
                        child.set_result_word(&response, word, value);
                    }
                    child.answer(&response, None, Status::OK, child.arg_len());
                }
                Child_::Boasts => child.answer(&response, None, Status::OK, 100_000),
                Child_::Scribbles => {
                    slot.store(0, 0xBAD, Relaxed);
                    flag.store(0, mailbox.load(io::TX_VALUE, Relaxed), Release);
                }
                Child_::IsSilent | Child_::Fails(_) => (),
            }
        }
        self.running[number as usize].fetch_add(u64::MAX, Release);
        let mut finished = self.finished.lock().expect("finished");
        *finished += 1;
        self.saved.store(saved::FINISHED, *finished, Relaxed);
        // The count is the lock's here: no word of the mailbox's is added to.
        child.finish(&DeviceU64::new(0));
    }

    /// Executions of a block of threads until one ends for good; how many.
    pub fn executions(park: &Arc<Self>, kernel: KernelRig<'_>, team: Team, table: &Table) -> u64 {
        let memory = park.pending.words_at(park.pending.base, park.plan.words()).expect("all of it");
        let graphs = Graphs {
            pending: PendingTable::new(memory, park.plan).expect("a pending"),
            saved: park.saved.clone(),
        };
        let machine = Launching(Arc::clone(park));
        let mut executions = 0;
        loop {
            executions += 1;
            kernel.run(team, table, &machine, Some(&graphs));
            if park.again.swap(0, AcqRel) == 0 {
                return executions;
            }
            // A tail launch begins when every child has ended.
            let mut poll_limit = PollLimit::default();
            while park.running.iter().any(|running| running.load(Acquire) != 0) {
                poll_limit.wait();
                thread::yield_now();
            }
            assert_eq!(kernel.control.load(control::STATE, Relaxed), control::STATE_RUNNING);
        }
    }
}

/// The machine: handlers of the rig, one that asks for its follow-up, and a park of graphs.
pub struct Launching(pub Arc<Park>);

/// Address of the handler that asks for its follow-up.
pub const TRIGGER: u64 = 77;

impl Machine for Launching {
    const GRAPHS: bool = true;

    fn call_thread(&self, call: &Call<'_>) -> Returned {
        let returned = Threads.call_thread(call);
        if call.address == TRIGGER {
            self.0.triggers.fetch_add(1, Release);
            return Returned { status: flag::GRAPH_TRIGGER as i32, ..returned };
        }
        returned
    }

    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned {
        Threads.call_warp(warp, call)
    }

    fn launch(&self, exec: u64) -> Result<(), i32> {
        Park::launch(&self.0, exec)
    }

    fn mailbox(&self, address: u64, words: usize) -> Option<Words> {
        self.0.boxes.words_at(address, words)
    }

    fn relaunch(&self) -> Result<(), i32> {
        match self.0.refuses_relaunch {
            Some(code) => Err(code),
            None => {
                assert_eq!(self.0.again.swap(1, AcqRel), 0, "launched again twice");
                Ok(())
            }
        }
    }

    fn sleep(&self) {
        thread::yield_now();
    }

    fn sleep_until_next_round(&self) {
        thread::yield_now();
    }
}
