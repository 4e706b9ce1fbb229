//! A queue pair with an endpoint on one side, an emulated NIC on the other, and the peer's end of the wire.
#![allow(dead_code, unreachable_pub)] // each test uses its part

use ringcall_gpu::shared::{Bytes, Region, Words};
use ringcall_mlx5::Event;
use ringcall_mlx5::cq::CompletionQueue;
use ringcall_mlx5::doorbell::{BlueFlame, Doorbell, Register};
use ringcall_mlx5::endpoint::{self, Arrived, Endpoint, Frame, ResponsePath, TxSlot, Windows};
use ringcall_mlx5::layout::{cqe, wqe};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_sim::nic::{Config, Memory, Message, Nic, Region as Registered, Wire};

pub const QPN: u32 = 0x12_3456;
pub const RX_KEY: u32 = 0x1234;
pub const TX_KEY: u32 = 0x77;

/// Either doorbell, chosen at run time.
#[derive(Debug)]
pub enum AnyDoorbell {
    Plain(Register),
    Copying(BlueFlame),
}

impl Doorbell for AnyDoorbell {
    fn copy(&mut self, request: &[u64; wqe::WORDS]) {
        match self {
            Self::Plain(it) => it.copy(request),
            Self::Copying(it) => it.copy(request),
        }
    }

    fn ring(&mut self, value: u64) {
        match self {
            Self::Plain(it) => it.ring(value),
            Self::Copying(it) => it.ring(value),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Entries in each work queue, and receive requests posted.
    pub depth: u32,
    /// Entries in each completion queue, in multiples of `depth`.
    pub completions: u32,
    pub slots: u32,
    pub stride: u32,
    /// Whether records tell the NIC which completions were read.
    pub consumer_records: bool,
    pub blue_flame: bool,
    pub record: RecordMode,
    pub sends: bool,
    pub sequence: bool,
    pub reply: ResponsePath,
    pub burst: usize,
}

impl Shape {
    pub fn of_depth(depth: u32) -> Self {
        Self {
            depth,
            completions: 1,
            slots: depth,
            stride: 128,
            consumer_records: false,
            blue_flame: false,
            record: RecordMode::Written,
            sends: false,
            sequence: false,
            reply: ResponsePath::Send,
            burst: 16,
        }
    }
}

pub struct Rig {
    pub endpoint: Endpoint<AnyDoorbell>,
    pub nic: Nic<Wire>,
    pub peer: Wire,
    pub windows: Windows,
    pub uar: Words,
}

pub fn words(count: usize) -> Words {
    Region::zeroed(count * 8).expect("memory").words(0, count).expect("inside")
}

pub fn bytes(len: usize) -> Bytes {
    Region::zeroed(len).expect("memory").bytes(0, len).expect("inside")
}

pub fn windows(shape: &Shape) -> Windows {
    let depth = shape.depth as usize;
    let completions = depth * shape.completions as usize * cqe::WORDS;
    let record = || shape.consumer_records.then(|| words(1));
    let windows = Windows {
        rx_completions: words(completions),
        rx_completions_record: record(),
        receive: words(depth * 2),
        tx_completions: words(completions),
        tx_completions_record: record(),
        send: words(depth * wqe::WORDS),
        record: words(1),
        rx_data: bytes(shape.slots as usize * shape.stride as usize),
        tx_data: bytes(depth * shape.stride as usize),
        counters: words(Event::COUNT),
        shutdown: words(1),
    };
    CompletionQueue::prepare(&windows.rx_completions);
    CompletionQueue::prepare(&windows.tx_completions);
    windows
}

pub fn config(shape: &Shape) -> endpoint::Config {
    let buffers = if shape.sends {
        Buffers::Slots { lkey: RX_KEY, base: 0, stride: shape.stride }
    } else {
        Buffers::Credits
    };
    endpoint::Config {
        qpn: QPN,
        slots: shape.slots,
        rx_stride: shape.stride,
        tx_stride: shape.stride,
        tx_lkey: TX_KEY,
        tx_base: 0x10_0000,
        depth: shape.depth,
        buffers,
        sequence: shape.sequence,
        reply: shape.reply,
        record: shape.record,
    }
}

/// The NIC over these windows, and the peer's end of its wire.
pub fn nic_over(shape: &Shape, windows: &Windows, uar: &Words) -> (Nic<Wire>, Wire) {
    let memory = Memory::new(vec![
        Registered { key: RX_KEY, base: 0, window: windows.rx_data.clone(), remote_write: true },
        Registered { key: TX_KEY, base: 0x10_0000, window: windows.tx_data.clone(), remote_write: false },
    ]);
    let (port, peer) = Wire::pair(4096);
    let config = Config { qpn: QPN, record: shape.record, burst: shape.burst };
    (Nic::new(config, windows, uar.clone(), memory, port).expect("a NIC"), peer)
}

pub fn rig(shape: &Shape) -> Rig {
    let windows = windows(shape);
    let uar = words(8);
    let doorbell = if shape.blue_flame {
        AnyDoorbell::Copying(BlueFlame::new(uar.clone()).expect("8 words"))
    } else {
        AnyDoorbell::Plain(Register::new(uar.clone()).expect("8 words"))
    };
    let endpoint = Endpoint::new(config(shape), windows.clone(), doorbell).expect("an endpoint");
    let (nic, peer) = nic_over(shape, &windows, &uar);
    Rig { endpoint, nic, peer, windows, uar }
}

/// A request into slot `slot`, with message number `sequence`.
pub fn write_imm(shape: &Shape, slot: u32, sequence: u32) -> Message {
    let immediate = slot | sequence << endpoint::SLOT_BITS;
    Message::WriteImm { address: u64::from(slot) * u64::from(shape.stride), rkey: RX_KEY, immediate }
}

/// Request `i`: its number, and as many bytes more as make every way of sending come up.
pub fn request(i: u64) -> Vec<u8> {
    let mut bytes = i.to_le_bytes().to_vec();
    bytes.resize(8 + (i % 90) as usize, i as u8);
    bytes
}

/// Every byte one more.
pub fn incremented(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.wrapping_add(1)).collect()
}

/// The handler of these tests: every byte of the request one more.
pub fn increment<D: Doorbell>(endpoint: &mut Endpoint<D>, arrived: Arrived, slot: TxSlot) {
    let mut bytes = [0; 256];
    let bytes = &mut bytes[..arrived.bytes() as usize];
    assert!(endpoint.read(&arrived, 0, bytes));
    bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    // Both ways to give a response's bytes.
    let frame = if arrived.bytes().is_multiple_of(2) {
        assert!(endpoint.write(&slot, 0, bytes));
        Frame::InSlot(arrived.bytes())
    } else {
        Frame::Bytes(bytes)
    };
    endpoint.respond(arrived, slot, frame).expect("it fits");
}

/// The bound of a test's own loops: a request that is lost fails the test, and does not hang it.
#[derive(Debug, Default)]
pub struct PollLimit(u64);

impl PollLimit {
    /// One turn without anything to show for it.
    pub fn wait(&mut self) {
        self.0 += 1;
        assert!(self.0 < 50_000_000, "a request or a response was lost");
    }

    /// Something came.
    pub fn renew(&mut self) {
        self.0 = 0;
    }
}

/// No rule was broken.
pub fn assert_obeyed(nic: &Nic<Wire>) {
    assert_eq!(nic.violations().broken().collect::<Vec<_>>(), []);
}
