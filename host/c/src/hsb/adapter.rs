//! An adapter without hardware: the queues of one queue pair in memory, a NIC in software that works its end of them on its own
//! thread, and the peer's end of the wire.

use super::hold::Hold;
use crate::handles::{Registry, lock};
use crate::status::Fault;
use ringcall_cuda::driver::{Driver, MappedRegion};
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_dispatcher::relay::CREDITS_PER_SLOT;
use ringcall_gpu::shared::{Bytes, Region, Words};
use ringcall_launch::queue_pair::{MappedQueues, Shape};
use ringcall_mlx5::endpoint::{Config, ResponsePath, Windows};
use ringcall_mlx5::layout::{BLUE_FLAME_BYTES, RECEIVE_WQE_WORDS, cqe, wqe};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{CompletionQueue, Event};
use ringcall_rdma::context::{Context, Context48, Context72};
use ringcall_rdma::doca::QpLayout;
use ringcall_rdma::unified::{UnifiedQueues, addresses_of, pair_at};
use ringcall_sim::nic::thread::Running;
use ringcall_sim::nic::{self, Fault as NicFault, Memory, Message, Nic, Port, Region as Registered, Wire};
use ringcall_wire::HEADER_BYTES;
use ringcall_wire::unified::UnifiedParams;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) static ADAPTERS: Registry<Adapter> = Registry::new("adapter");

/// The queue pair's number, and the keys of its slots.
const NUMBER: u32 = 0x4853;
const RX_KEY: u32 = 0x5258;
const TX_KEY: u32 = 0x5458;
/// Pages at most, which an immediate names.
const MOST_PAGES: u32 = 4096;
/// Bytes of a page at most.
const MOST_PAGE_BYTES: usize = 1 << 16;

/// Where the queues are.
#[derive(Debug)]
pub(super) enum QueueMemory {
    /// In this process's memory, for a loop on a thread.
    Host,
    /// In memory that a device maps, for its kernel.
    Device { ordinal: u32, queues: Box<MappedQueues> },
}

/// What is to work the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// One loop or kernel.
    Unified,
    /// A receiver, a dispatcher and a sender: the doorbell record has one writer, so the adapter counts sends by itself.
    Three,
}

impl For {
    const fn record(self) -> RecordMode {
        match self {
            Self::Unified => RecordMode::Written,
            Self::Three => RecordMode::NotWritten,
        }
    }
}

/// An adapter and its peer.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) memory: QueueMemory,
    pub(super) made_for: For,
    pub(super) windows: Windows,
    pub(super) uar: Words,
    /// The context that a program is handed, and the struct that it names.
    context: Context,
    pair: Vec<u8>,
    nic: Mutex<Option<Running<Wire>>>,
    peer: Mutex<Wire>,
    pub(super) hold: Arc<Hold>,
    // The struct, where the context's address is.
    _pair: Kept,
}

#[derive(Debug)]
enum Kept {
    Host(#[allow(dead_code)] Bytes),
    Device(#[allow(dead_code)] MappedRegion),
}

fn words(count: usize) -> Result<Words, Fault> {
    Ok(Region::zeroed(count * 8)?.words(0, count)?)
}

fn bytes(len: usize) -> Result<Bytes, Fault> {
    Ok(Region::zeroed(len)?.bytes(0, len)?)
}

/// Queues in this process's memory, and where they are.
fn host_queues(config: &Config, sends: u32) -> Result<(Windows, Words, UnifiedParams), Fault> {
    let (receives, sends_len) = (config.depth as usize, sends as usize);
    let windows = Windows {
        rx_completions: words(receives * cqe::WORDS)?,
        rx_completions_record: None,
        receive: words(receives * RECEIVE_WQE_WORDS)?,
        tx_completions: words(sends_len * cqe::WORDS)?,
        tx_completions_record: None,
        send: words(sends_len * wqe::WORDS)?,
        record: words(1)?,
        rx_data: bytes(config.slots as usize * config.rx_stride as usize)?,
        tx_data: bytes(sends_len * config.tx_stride as usize)?,
        counters: words(Event::COUNT)?,
        shutdown: words(1)?,
    };
    CompletionQueue::prepare(&windows.rx_completions);
    CompletionQueue::prepare(&windows.tx_completions);
    let uar = words(BLUE_FLAME_BYTES / 8)?;
    let addresses = addresses_of(&windows, &uar);
    Ok((windows, uar, addresses))
}

impl Adapter {
    /// Makes queues of `pages` requests in this process's memory, or in memory that a device maps, and turns the NIC on.
    pub(super) fn new(
        page_bytes: usize,
        pages: u32,
        device: Option<u32>,
        made_for: For,
    ) -> Result<Self, Fault> {
        let adapter = Self::still(page_bytes, pages, device, made_for)?;
        adapter.turn_on()?;
        Ok(adapter)
    }

    /// The same, whose NIC does not run.
    pub(super) fn still(
        page_bytes: usize,
        pages: u32,
        device: Option<u32>,
        made_for: For,
    ) -> Result<Self, Fault> {
        if !page_bytes.is_multiple_of(16) || !(2 * HEADER_BYTES..=MOST_PAGE_BYTES).contains(&page_bytes) {
            return Err(Fault::invalid(format!(
                "a page of {page_bytes} bytes: give a multiple of 16, from {} to {MOST_PAGE_BYTES}",
                2 * HEADER_BYTES
            )));
        }
        if !pages.is_power_of_two() || pages > MOST_PAGES {
            return Err(Fault::invalid(format!("{pages} pages: give a power of two, {MOST_PAGES} at most")));
        }
        if made_for == For::Three && device.is_none() {
            return Err(Fault::invalid(
                "device -1: three kernels run on a device, and a loop on the host is the unified one",
            ));
        }
        // A peer may write a page as soon as it has the answer, before the page's request is posted again. The adapter drops what it has no
        // request for.
        let (stride, receives) = (page_bytes as u32, CREDITS_PER_SLOT * pages);
        let config = Config {
            qpn: NUMBER,
            slots: pages,
            rx_stride: stride,
            tx_stride: stride,
            tx_lkey: TX_KEY,
            tx_base: 0,
            depth: receives,
            buffers: Buffers::Credits,
            sequence: false,
            reply: ResponsePath::Send,
            record: made_for.record(),
        };
        let (memory, windows, uar, at) = match device {
            None => {
                let (windows, uar, at) = host_queues(&config, pages)?;
                (QueueMemory::Host, windows, uar, at)
            }
            Some(ordinal) => {
                let context = Driver::load()?.device(ordinal)?.context()?;
                let shape = Shape {
                    config,
                    receive: receives,
                    send: pages,
                    completions: receives,
                    consumer_records: false,
                    copying: Copying::FirstWordLast,
                };
                let queues = Box::new(MappedQueues::allocate(&context, shape)?);
                let (windows, uar) = (queues.windows().clone(), queues.uar().clone());
                let at = *queues.pair().addresses();
                (QueueMemory::Device { ordinal, queues }, windows, uar, at)
            }
        };
        let pair = QpLayout::SDK.write(&pair_at(NUMBER, &at));
        let (qp, kept) = Self::keep(&memory, &pair)?;
        let context = Context {
            qp,
            rx_data: at.rx_data,
            rx_stride: page_bytes as u64,
            slots: pages,
            rx_mkey: RX_KEY.to_be(),
            tx_data: at.tx_data,
            tx_stride: page_bytes as u64,
            tx_mkey: TX_KEY.to_be(),
            frame_bytes: page_bytes as u64,
            ..Context::empty()
        };
        // Nobody has the other end yet.
        let (_, peer) = Wire::pair(1);
        let (nic, peer, hold) = (Mutex::new(None), Mutex::new(peer), Arc::default());
        Ok(Self { memory, made_for, windows, uar, context, pair, nic, peer, hold, _pair: kept })
    }

    /// Puts the struct where a loop reads it; its address there.
    fn keep(memory: &QueueMemory, pair: &[u8]) -> Result<(u64, Kept), Fault> {
        let len = pair.len().next_multiple_of(8);
        Ok(match memory {
            QueueMemory::Host => {
                let kept = bytes(len)?;
                kept.write(0, pair);
                (kept.address(), Kept::Host(kept))
            }
            QueueMemory::Device { ordinal, .. } => {
                let context = Driver::load()?.device(*ordinal)?.context()?;
                let region = MappedRegion::zeroed(&context, len)?;
                region.bytes(0, len)?.write(0, pair);
                (region.device_address(0)?.0, Kept::Device(region))
            }
        })
    }

    fn turn_on(&self) -> Result<(), Fault> {
        let pages = self.context.slots as usize;
        // An answer and a refusal for each page, and as many that the peer has not taken yet.
        let (port, peer) = Wire::pair(4 * pages + 64);
        let window = |bytes: &Bytes, key, remote_write| Registered {
            key,
            base: 0,
            window: bytes.clone(),
            remote_write,
        };
        let memory = Memory::new(vec![
            window(&self.windows.rx_data, RX_KEY, true),
            window(&self.windows.tx_data, TX_KEY, false),
        ]);
        let config = nic::Config { qpn: NUMBER, record: self.made_for.record(), burst: 32 };
        let nic = Nic::new(config, &self.windows, self.uar.clone(), memory, port)
            .map_err(|error| Fault::internal(error.to_string()))?;
        let running = Running::start(nic)
            .map_err(|error| Fault::internal(format!("no thread for the adapter: {error}")))?;
        *lock(&self.peer) = peer;
        *lock(&self.nic) = Some(running);
        Ok(())
    }

    /// What a program is handed.
    pub(super) fn context(&self) -> Context {
        self.context
    }

    /// Number of the key by which the peer writes.
    pub(super) fn rkey(&self) -> u32 {
        u32::from_be(self.context.rx_mkey)
    }

    /// Queues by a context of the program's and the struct, if the context is this adapter's. One of 48 bytes names no response slots:
    /// they are the adapter's.
    pub(super) fn queues(&self, given: &Given) -> Result<UnifiedQueues, Fault> {
        let own = &self.context;
        let rx = |data: u64, stride: u64, slots: u32| {
            [
                ("request slot 0", data, own.rx_data),
                ("the request stride", stride, own.rx_stride),
                ("the number of slots", slots.into(), own.slots.into()),
            ]
        };
        let tx = |data: u64, stride: u64, key: u32| {
            [
                ("response slot 0", data, own.tx_data),
                ("the response stride", stride, own.tx_stride),
                ("the response slots' key", u32::from_be(key).into(), TX_KEY.into()),
            ]
        };
        let (parts, frame_bytes) = match given {
            Given::Of48(c) => {
                let key = ("the request slots' key", u32::from_be(c.rx_ring_mkey).into(), RX_KEY.into());
                let rx = rx(c.rx_ring_data, c.rx_ring_stride_sz, c.rx_ring_stride_num);
                ([&rx[..], &[key]].concat(), c.frame_size)
            }
            Given::Of72(c) => {
                let rx = rx(c.rx_ring_data, c.rx_ring_stride_sz, c.rx_ring_stride_num);
                let tx = tx(c.tx_ring_data, c.tx_ring_stride_sz, c.tx_ring_mkey);
                ([rx, tx].concat(), c.frame_size)
            }
            Given::Own(c) => (
                [rx(c.rx_data, c.rx_stride, c.slots), tx(c.tx_data, c.tx_stride, c.tx_mkey)].concat(),
                c.frame_bytes,
            ),
        };
        if let Some((what, has, wanted)) = parts.into_iter().find(|(_, has, wanted)| has != wanted) {
            return Err(Fault::invalid(format!(
                "the transport context: {what} is {has:#x}, and the adapter's {wanted:#x}"
            )));
        }
        let context = Context { frame_bytes, ..self.context };
        let pair = QpLayout::SDK.read(&self.pair).map_err(|error| Fault::invalid(error.to_string()))?;
        let mut queues =
            UnifiedQueues::new(&context, &pair).map_err(|error| Fault::invalid(error.to_string()))?;
        queues.config.record = self.made_for.record();
        Ok(queues)
    }

    /// The peer's RDMA WRITE WITH IMMEDIATE into a page.
    pub(super) fn write(&self, page: u32, frame: &[u8]) -> Result<(), Fault> {
        if page >= self.context.slots {
            return Err(Fault::invalid(format!("page {page} of {}", self.context.slots)));
        }
        if frame.len() as u64 > self.context.rx_stride {
            return Err(Fault::invalid(format!(
                "{} bytes for a page of {}",
                frame.len(),
                self.context.rx_stride
            )));
        }
        self.hold.check()?;
        let address = u64::from(page) * self.context.rx_stride;
        let message = Message::WriteImm { address, rkey: RX_KEY, immediate: page };
        if lock(&self.peer).send(message, frame) {
            return Ok(());
        }
        Err(Fault::internal("the wire is full: more messages are under way than there are pages"))
    }

    /// The next answer, if one comes within `limit`.
    ///
    /// # Errors
    /// None is there, and whatever worked the queues has ended by itself.
    pub(super) fn receive(&self, limit: Duration) -> Result<Option<Vec<u8>>, Fault> {
        let begin = Instant::now();
        let mut frame = Vec::new();
        loop {
            if lock(&self.peer).receive(&mut frame).is_some() {
                return Ok(Some(frame));
            }
            self.hold.check()?;
            if begin.elapsed() >= limit {
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }

    /// Puts the queue pair into the error state.
    pub(super) fn fail(&self) -> Result<(), Fault> {
        let planted = lock(&self.nic).as_ref().is_some_and(|nic| nic.plant(NicFault::Break));
        if planted { Ok(()) } else { Err(Fault::internal("the adapter's thread has ended")) }
    }

    /// Turns the NIC off.
    ///
    /// # Errors
    /// Its queues are worked.
    pub(super) fn end(&self) -> Result<(), Fault> {
        self.hold.close()?;
        if let Some(nic) = lock(&self.nic).take()
            && nic.stop().is_none()
        {
            return Err(Fault::internal("the adapter's thread has not ended"));
        }
        Ok(())
    }
}

/// A context of the program's.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given {
    Of48(Context48),
    Of72(Context72),
    Own(Context),
}

impl Given {
    /// The struct's address.
    pub(super) fn qp(&self) -> u64 {
        match self {
            Self::Of48(context) => context.gpu_dev_qp,
            Self::Of72(context) => context.gpu_dev_qp,
            Self::Own(context) => context.qp,
        }
    }

    /// The adapter of this library whose struct it names.
    pub(super) fn adapter(&self) -> Option<Arc<Adapter>> {
        ADAPTERS.find(|adapter| adapter.context.qp == self.qp())
    }
}
