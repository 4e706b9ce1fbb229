//! The memory of a queue pair in this process: rings, records, slots, a doorbell register.

use crate::nic::{Memory, Region as Registered};
use ringcall_gpu::shared::{Bytes, Region, SharedError, Words};
use ringcall_mlx5::endpoint::{self, Endpoint, ResponsePath, Windows};
use ringcall_mlx5::layout::{BLUE_FLAME_BYTES, RECEIVE_WQE_WORDS, cqe, wqe};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{BlueFlame, CompletionQueue, Event, QueueError};

/// The key that the NIC reads responses with.
pub(crate) const TX_KEY: u32 = 0x7478;

/// Shape of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) qp: u32,
    pub(crate) rx_key: u32,
    pub(crate) base: u64,
    pub(crate) slots: u32,
    pub(crate) rx_stride: u32,
    pub(crate) tx_stride: u32,
    /// Entries of each work queue: a power of two.
    pub(crate) depth: u32,
    pub(crate) sequence: bool,
}

/// A queue pair's memory, and its register.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) windows: Windows,
    pub(crate) uar: Words,
}

fn words(count: usize) -> Result<Words, SharedError> {
    Region::zeroed(count * 8)?.words(0, count)
}

fn bytes(len: usize) -> Result<Bytes, SharedError> {
    Region::zeroed(len)?.bytes(0, len)
}

impl Queues {
    pub(crate) fn new(shape: &Shape) -> Result<Self, SharedError> {
        let depth = shape.depth as usize;
        let windows = Windows {
            rx_completions: words(depth * cqe::WORDS)?,
            rx_completions_record: None,
            receive: words(depth * RECEIVE_WQE_WORDS)?,
            tx_completions: words(depth * cqe::WORDS)?,
            tx_completions_record: None,
            send: words(depth * wqe::WORDS)?,
            record: words(1)?,
            rx_data: bytes(shape.slots as usize * shape.rx_stride as usize)?,
            tx_data: bytes(depth * shape.tx_stride as usize)?,
            counters: words(Event::COUNT)?,
            shutdown: words(1)?,
        };
        CompletionQueue::prepare(&windows.rx_completions);
        CompletionQueue::prepare(&windows.tx_completions);
        Ok(Self { windows, uar: words(BLUE_FLAME_BYTES / 8)? })
    }

    /// What the NIC may reach.
    pub(crate) fn memory(&self, shape: &Shape) -> Memory {
        let Windows { rx_data, tx_data, .. } = &self.windows;
        Memory::new(vec![
            Registered { key: shape.rx_key, base: shape.base, window: rx_data.clone(), remote_write: true },
            Registered { key: TX_KEY, base: 0, window: tx_data.clone(), remote_write: false },
        ])
    }
}

impl Shape {
    /// Software's end.
    pub(crate) const fn endpoint(&self) -> endpoint::Config {
        endpoint::Config {
            qpn: self.qp,
            slots: self.slots,
            rx_stride: self.rx_stride,
            tx_stride: self.tx_stride,
            tx_lkey: TX_KEY,
            tx_base: 0,
            depth: self.depth,
            buffers: Buffers::Credits,
            sequence: self.sequence,
            reply: ResponsePath::Send,
            record: RecordMode::Written,
        }
    }
}

/// The queues of an emulated adapter, for what makes the loop's end of them.
#[derive(Debug)]
pub struct AdapterQueues<'a> {
    /// What the endpoint is.
    pub config: endpoint::Config,
    /// Its memory.
    pub windows: &'a Windows,
    /// The doorbell register.
    pub uar: &'a Words,
}

impl AdapterQueues<'_> {
    /// The loop's end, of the queues as they are.
    ///
    /// # Errors
    /// Queues of a shape that no endpoint has.
    pub fn endpoint(&self) -> Result<Endpoint<BlueFlame>, QueueError> {
        Endpoint::new(self.config, self.windows.clone(), BlueFlame::new(self.uar.clone())?)
    }
}
