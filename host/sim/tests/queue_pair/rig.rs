//! A queue pair with a dispatcher on one side, an emulated NIC on the other, and a client behind it.
#![allow(unreachable_pub)] // a module of tests

use crate::support::*;
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::queue_pair::{
    Bell, Copying, Graphs, QueuePairBlockState, QueuePairDispatcher, QueuePairEnd,
};
use ringcall_dispatcher::ring::{Call, DeviceTable, Machine, Returned};
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::{self, Block, WARP_LANES, Warp};
use ringcall_mlx5::Event;
use ringcall_mlx5::endpoint::{SLOT_BITS, Windows};
use ringcall_protocol::table::{EMPTY, IdIndex};
use ringcall_sim::nic::thread::Running;
use ringcall_sim::nic::{Message, Port, Wire};
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind, TableCell};
use ringcall_wire::status::Status;
use ringcall_wire::unified::control;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Functions by their addresses.
const FUNCTIONS: [(&str, HandlerKind, u32); 6] = [
    ("increment", HandlerKind::Thread, DeviceEntry::NONE),
    ("increment together", HandlerKind::Warp, DeviceEntry::NONE),
    ("eight", HandlerKind::Thread, 8),
    ("fails", HandlerKind::Thread, DeviceEntry::NONE),
    ("boasts", HandlerKind::Warp, DeviceEntry::NONE),
    ("elsewhere", HandlerKind::Graph, DeviceEntry::NONE),
];

pub fn increment_word(word: u64) -> u64 {
    u64::from_le_bytes(word.to_le_bytes().map(|byte| byte.wrapping_add(1)))
}

pub struct Threads;

impl Machine for Threads {
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        if call.address == 3 {
            return Returned { status: 7, len: 0 };
        }
        for word in 3..3 + (call.arg_len as usize).div_ceil(8) {
            call.output.set_word(word, increment_word(call.input.word(word)));
        }
        Returned { status: 0, len: call.arg_len }
    }

    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned {
        if call.address == 4 {
            return Returned { status: 0, len: 100_000 };
        }
        for word in warp.stride((call.arg_len as usize).div_ceil(8)) {
            call.output.set_word(3 + word, increment_word(call.input.word(3 + word)));
        }
        Returned { status: 0, len: call.arg_len }
    }

    fn sleep(&self) {}
    fn sleep_until_next_round(&self) {}
}

/// A table of functions.
pub struct Table {
    index: IdIndex,
    cells: Vec<TableCell>,
    entries: Vec<DeviceEntry>,
}

impl Table {
    /// Entries of the same id are routes of the first of them.
    pub fn new(mut entries: Vec<DeviceEntry>) -> Self {
        let mut heads: Vec<usize> = Vec::new();
        for at in 0..entries.len() {
            match heads.iter().copied().find(|&head| entries[head].id == entries[at].id) {
                None => heads.push(at),
                Some(mut last) => {
                    while entries[last].next_route != DeviceEntry::NONE {
                        last = entries[last].next_route as usize;
                    }
                    entries[last].next_route = at as u32;
                }
            }
        }
        let mut cells = vec![EMPTY; 32];
        let index = IdIndex::build(heads.len(), |i| entries[heads[i]].id, &mut cells).expect("distinct ids");
        for cell in cells.iter_mut().filter(|cell| **cell != EMPTY) {
            cell.entry = heads[cell.entry as usize] as u32;
        }
        Self { index, cells, entries }
    }

    /// The functions of [`FUNCTIONS`].
    pub fn standard() -> Self {
        let entry =
            |(address, (name, kind, arg_bytes))| DeviceEntry { arg_bytes, ..entry(name, kind, address) };
        Self::new((0..).zip(FUNCTIONS).map(entry).collect())
    }
}

pub fn entry(name: &str, kind: HandlerKind, address: u64) -> DeviceEntry {
    DeviceEntry {
        address,
        id: FunctionId::of(name).0,
        kind: kind as u32,
        arg_bytes: DeviceEntry::NONE,
        follow_up: DeviceEntry::NONE,
        execs: 0,
        io_stride: 0,
        routing_key: 0,
        next_route: DeviceEntry::NONE,
        reserved: 0,
    }
}

#[derive(Clone, Copy)]
pub struct Team {
    pub threads: u32,
    pub extent: Extent,
    pub copying: Copying,
}

impl Team {
    pub const fn of(threads: u32) -> Self {
        Self { threads, extent: Extent::Received, copying: Copying::FirstWordLast }
    }
}

pub struct Bench {
    pub shape: Shape,
    windows: Windows,
    pub control: Words,
    nic: Running<Wire>,
    uar: Words,
    peer: Wire,
}

impl Bench {
    pub fn new(shape: &Shape) -> Self {
        let windows = windows(shape);
        let uar = words(8);
        let (nic, peer) = nic_over(shape, &windows, &uar);
        let nic = Running::start(nic).expect("a thread");
        Self { shape: *shape, windows, control: words(control::WORDS), nic, uar, peer }
    }

    /// Runs `client` against a dispatcher of the standard functions, from start to stop.
    pub fn serve(&mut self, team: Team, client: impl FnOnce(&mut Wire, &Running<Wire>)) {
        self.play(team.copying, |kernel| kernel.run(team, &Table::standard(), &Threads, None), client);
        assert_eq!(self.control.load(control::STATE, Relaxed), control::STATE_ENDED);
        if self.control.load(control::DEAD, Relaxed) == 0 {
            assert_eq!(
                self.control.load(control::POSTED, Relaxed),
                self.control.load(control::DONE, Relaxed)
            );
        }
    }

    /// Runs `client` against the dispatcher that `life` is, from start to stop.
    pub fn play(
        &mut self,
        copying: Copying,
        life: impl FnOnce(KernelRig<'_>) + Send,
        client: impl FnOnce(&mut Wire, &Running<Wire>),
    ) {
        let Self { shape, windows, control, nic, uar, peer } = self;
        control.store(control::STATE, control::STATE_NEW, Relaxed);
        control.store(control::STOP, control::STOP_NO, Relaxed);
        let bell = Bell::new(uar.clone(), copying).expect("8 words");
        thread::scope(|scope| {
            let (shape, windows, shared) = (&*shape, &*windows, &*control);
            let dispatcher =
                scope.spawn(move || life(KernelRig { shape, windows, control: shared, bell: &bell }));
            let mut poll_limit = PollLimit::default();
            while control.load(control::STATE, Relaxed) == control::STATE_NEW {
                poll_limit.wait();
                thread::yield_now();
            }
            {
                // Also if the client panics, so that the test fails and does not hang.
                let _stop = Stop(control);
                client(peer, nic);
            }
            dispatcher.join().expect("the dispatcher");
        });
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.control.load(control::COUNTERS + counter as usize, Relaxed)
    }

    pub fn event(&self, event: Event) -> u64 {
        self.control.load(control::EVENTS + event as usize, Relaxed)
    }

    pub fn end(self) {
        assert_obeyed(&self.nic.stop().expect("NIC"));
    }
}

/// Orders the drain, unless something was ordered already.
struct Stop<'a>(&'a Words);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if self.0.load(control::STOP, Relaxed) == control::STOP_NO {
            self.0.store(control::STOP, control::STOP_DRAIN, Relaxed);
        }
    }
}

/// What a dispatcher under test works with.
#[derive(Clone, Copy)]
pub struct KernelRig<'a> {
    pub shape: &'a Shape,
    pub windows: &'a Windows,
    pub control: &'a Words,
    pub bell: &'a Bell,
}

impl<'a> KernelRig<'a> {
    /// The dispatcher, as one block's threads have it.
    pub fn dispatcher<M: Machine>(
        &self,
        block_state: &'a QueuePairBlockState,
        table: &'a Table,
        machine: &'a M,
        graphs: Option<&'a Graphs>,
        (extent, warps): (Extent, u32),
    ) -> QueuePairDispatcher<'a, M> {
        QueuePairDispatcher {
            config: config(self.shape),
            extent,
            windows: self.windows,
            bell: self.bell,
            table: DeviceTable::new(table.index, &table.cells, &table.entries),
            block_state,
            control: self.control,
            graphs,
            machine,
            warps,
        }
    }

    /// A staging buffer as long as a slot.
    pub fn staging(&self) -> Vec<BlockU64> {
        (0..self.shape.stride.div_ceil(16) * 2).map(|_| BlockU64::new(0)).collect()
    }

    /// One execution of a block of threads.
    pub fn run<M: Machine + Sync>(&self, with: Team, table: &Table, machine: &M, graphs: Option<&Graphs>) {
        let over = self.outcomes(with, table, machine, graphs);
        assert!(over.iter().all(|over| *over == QueuePairEnd::Ended), "{over:?}");
    }

    /// One execution of a block of threads, and how it ended for each of them.
    pub fn outcomes<M: Machine + Sync>(
        &self,
        with: Team,
        table: &Table,
        machine: &M,
        graphs: Option<&Graphs>,
    ) -> Vec<QueuePairEnd> {
        let block_state = QueuePairBlockState::default();
        let warps = with.threads.div_ceil(WARP_LANES);
        let staging: Vec<_> = (0..2 * warps).map(|_| self.staging()).collect();
        let kernel: &KernelRig<'_> = self;
        let dispatcher = kernel.dispatcher(&block_state, table, machine, graphs, (with.extent, warps));
        team::run_grid(1, with.threads, |grid| {
            let block: Block<'_> = grid.as_block();
            let me = (block.thread() / WARP_LANES) as usize;
            dispatcher.run(
                block,
                StagingBuffer::new(&staging[2 * me]),
                StagingBuffer::new(&staging[2 * me + 1]),
            )
        })
    }
}

pub fn frame(function: &str, arg_len: u32, id: u32, payload: &[u8]) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of(function).0, arg_len, id, 1000 + u64::from(id));
    [&header.to_bytes(), payload].concat()
}

pub fn send(peer: &mut Wire, shape: &Shape, slot: u32, number: u32, frame: &[u8]) {
    let message = Message::WriteImm {
        address: u64::from(slot) * u64::from(shape.stride),
        rkey: RX_KEY,
        immediate: slot | number << SLOT_BITS,
    };
    assert!(peer.send(message, frame));
}

pub fn receive(peer: &mut Wire) -> (ResponseHeader, Vec<u8>) {
    let mut payload = Vec::new();
    let mut poll_limit = PollLimit::default();
    while peer.receive(&mut payload).is_none() {
        poll_limit.wait();
        thread::yield_now();
    }
    let header = ResponseHeader::from_bytes(&payload).expect("a header");
    assert!(header.has_magic());
    assert_eq!(payload.len(), HEADER_BYTES + header.result_len as usize, "exactly as long as it is");
    (header, payload.split_off(HEADER_BYTES))
}

/// Waits, not indefinitely.
pub fn until(done: impl Fn() -> bool) {
    let mut poll_limit = PollLimit::default();
    while !done() {
        poll_limit.wait();
        thread::yield_now();
    }
}

/// `total` requests, up to `window` of them under way, all checked.
pub fn flood(
    peer: &mut Wire,
    shape: &Shape,
    window: u64,
    from: u64,
    total: u64,
    mut between: impl FnMut(u64),
) {
    let (mut sent, mut answered) = (from, from);
    while answered < from + total {
        while sent < from + total && sent < answered + window {
            let payload = request(sent);
            let payload = &payload[..payload.len().min(shape.stride as usize - HEADER_BYTES)];
            let function = if sent.is_multiple_of(3) { "increment together" } else { "increment" };
            let bytes = frame(function, payload.len() as u32, sent as u32, payload);
            send(peer, shape, (sent % u64::from(shape.slots)) as u32, sent as u32, &bytes);
            between(sent);
            sent += 1;
        }
        let (header, result) = receive(peer);
        assert_eq!((header.status(), header.request_id), (Status::OK, answered as u32));
        let payload = request(answered);
        let payload = &payload[..payload.len().min(shape.stride as usize - HEADER_BYTES)];
        assert_eq!(result, incremented(payload), "request {answered}");
        answered += 1;
    }
}
