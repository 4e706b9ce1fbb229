//! Queue pairs of a NIC for a kernel: addresses from the caller, or queues in mapped memory.

use super::claim::{Claim, Claimed};
use crate::ring::DeviceError;
use ringcall_cuda::driver::{Context, MappedRegion};
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_gpu::shared::Words;
use ringcall_mlx5::CompletionQueue;
use ringcall_mlx5::endpoint::{Config, Windows};
use ringcall_mlx5::layout::{BLUE_FLAME_BYTES, RECEIVE_WQE_BYTES, cqe, wqe};
use ringcall_wire::unified::UnifiedParams;
use std::any::Any;
use std::sync::Arc;

/// A queue pair that a device can reach. Cheap to clone.
///
/// One dispatcher or [transport](super::QueueContext) uses it, however many handles there are, since it alone knows
/// its position in the queues, from one start to the next.
#[derive(Clone)]
pub struct QueuePair {
    pub(crate) context: Arc<Context>,
    pub(crate) config: Config,
    pub(super) copying: Copying,
    /// Of this struct, only addresses and numbers of entries are used.
    pub(crate) addresses: UnifiedParams,
    pub(super) claim: Claim,
    pub(super) _owner: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuePair").field("config", &self.config).field("copying", &self.copying).finish()
    }
}

impl QueuePair {
    /// Claims the queue pair for a dispatcher or a transport.
    pub(crate) fn claim(&self) -> Result<Claimed, DeviceError> {
        self.claim.take("the queue pair has a dispatcher already, or had one")
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Device addresses of queues, doorbell record, doorbell register and slots, and their numbers of entries.
    #[must_use]
    pub fn addresses(&self) -> &UnifiedParams {
        &self.addresses
    }

    /// A queue pair that the caller made (for example by DevX). Of `addresses`, the addresses and numbers of entries
    /// of queues, record, register and slots are used, and `rx_base`; the other fields come from `config`.
    ///
    /// # Safety
    /// 1. Everything that `addresses` names is memory (or a register) that the context's device may read and write, of the
    ///    size that its entries, the slots and the strides say, until `owner` is dropped.
    /// 2. The receive side's completion queue has been prepared, and no other agent uses these queues.
    #[allow(unsafe_code)] // the contract is the caller's to sign
    pub unsafe fn from_raw(
        context: &Arc<Context>,
        config: Config,
        copying: Copying,
        addresses: UnifiedParams,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let claim = Claim::default();
        Self { context: Arc::clone(context), config, copying, addresses, claim, _owner: owner }
    }
}

/// Sizes of queues in mapped memory.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The queue pair. Strides are multiples of 16.
    pub config: Config,
    /// Entries of the receive queue, a power of two.
    pub receive: u32,
    /// Entries of the send queue, a power of two.
    pub send: u32,
    /// Entries of each completion queue, a power of two.
    pub completions: u32,
    /// Whether the kernel writes the records that tell the NIC which completions it has read.
    pub consumer_records: bool,
    /// How requests are copied to the BlueFlame buffer.
    pub copying: Copying,
}

/// A queue pair in pinned host memory that the device uses in place, for an emulated NIC.
#[derive(Debug, Clone)]
pub struct MappedQueues {
    pair: QueuePair,
    windows: Windows,
    uar: Words,
}

/// Pinned memory, split into pages: each part begins on its own page.
struct Cutter<'a> {
    context: &'a Arc<Context>,
    regions: Vec<MappedRegion>,
}

impl Cutter<'_> {
    fn region(&mut self, bytes: usize) -> Result<(u64, MappedRegion), DeviceError> {
        let region = MappedRegion::zeroed(self.context, bytes)?;
        self.regions.push(region.clone());
        Ok((region.device_address(0)?.0, region))
    }

    fn words(&mut self, bytes: usize) -> Result<(u64, Words), DeviceError> {
        let (address, region) = self.region(bytes)?;
        Ok((address, region.words(0, bytes / 8)?))
    }
}

impl MappedQueues {
    /// Allocates the queue pair and prepares its completion queues.
    ///
    /// # Errors
    /// No memory to pin, or a device that cannot map host memory.
    pub fn allocate(context: &Arc<Context>, shape: Shape) -> Result<Self, DeviceError> {
        let Shape { config, receive, send, completions, consumer_records, copying } = shape;
        let mut cut = Cutter { context, regions: Vec::new() };
        let cq = completions as usize * cqe::BYTES;
        let (rx_cq, rx_completions) = cut.words(cq)?;
        let (tx_cq, tx_completions) = cut.words(cq)?;
        let (rq, receives) = cut.words(receive as usize * RECEIVE_WQE_BYTES)?;
        let (sq, sends) = cut.words(send as usize * wqe::BYTES)?;
        let (record_at, record) = cut.words(8)?;
        let (uar_at, uar) = cut.words(BLUE_FLAME_BYTES)?;
        let mut record_of = || -> Result<(u64, Option<Words>), DeviceError> {
            if !consumer_records {
                return Ok((0, None));
            }
            let (at, words) = cut.words(8)?;
            Ok((at, Some(words)))
        };
        let (rx_record_at, rx_record) = record_of()?;
        let (tx_record_at, tx_record) = record_of()?;
        let rx_bytes = config.slots as usize * config.rx_stride as usize;
        let tx_bytes = send as usize * config.tx_stride as usize;
        let (rx_at, rx_region) = cut.region(rx_bytes)?;
        let (tx_at, tx_region) = cut.region(tx_bytes)?;
        let (_, counters) = cut.words(8)?;
        let windows = Windows {
            rx_completions,
            rx_completions_record: rx_record,
            receive: receives,
            tx_completions,
            tx_completions_record: tx_record,
            send: sends,
            record,
            rx_data: rx_region.bytes(0, rx_bytes)?,
            tx_data: tx_region.bytes(0, tx_bytes)?,
            shutdown: counters.clone(),
            counters,
        };
        CompletionQueue::prepare(&windows.rx_completions);
        CompletionQueue::prepare(&windows.tx_completions);
        let addresses = UnifiedParams {
            rx_completions: rx_cq,
            rx_completions_record: rx_record_at,
            receive: rq,
            tx_completions: tx_cq,
            tx_completions_record: tx_record_at,
            send: sq,
            record: record_at,
            uar: uar_at,
            rx_data: rx_at,
            tx_data: tx_at,
            rx_completion_entries: completions,
            receive_entries: receive,
            tx_completion_entries: completions,
            send_entries: send,
            ..UnifiedParams::default()
        };
        let owner = Arc::new(cut.regions);
        let (context, claim) = (Arc::clone(context), Claim::default());
        let pair = QueuePair { context, config, copying, addresses, claim, _owner: owner };
        Ok(Self { pair, windows, uar })
    }

    /// The queue pair, for a dispatcher.
    #[must_use]
    pub fn pair(&self) -> &QueuePair {
        &self.pair
    }

    /// The queue pair that `config` and `addresses` describe, as an adapter handed them out. Every address and length
    /// must be this queue pair's, so that values from a transport context can be used without an unsafe promise of
    /// the caller.
    ///
    /// # Errors
    /// The first value that differs from this queue pair's.
    pub fn pair_of(&self, config: Config, addresses: &UnifiedParams) -> Result<QueuePair, DeviceError> {
        let own = &self.pair.addresses;
        let each = |a: &UnifiedParams, c: &Config| {
            [
                [a.rx_completions, a.rx_completion_entries.into()],
                [a.receive, a.receive_entries.into()],
                [a.tx_completions, a.tx_completion_entries.into()],
                [a.send, a.send_entries.into()],
                [a.record, 1],
                [a.uar, 1],
                [a.rx_data, u64::from(c.slots) << 32 | u64::from(c.rx_stride)],
                [a.tx_data, u64::from(c.tx_stride)],
            ]
        };
        let [here, there] = [each(own, &self.pair.config), each(addresses, &config)];
        const PARTS: [&str; 8] = [
            "the receive completions",
            "the receive queue",
            "the send completions",
            "the send queue",
            "the doorbell record",
            "the doorbell register",
            "the request slots",
            "the response slots",
        ];
        let other =
            PARTS.into_iter().zip(here.into_iter().zip(there)).find(|(_, (here, there))| here != there);
        if let Some((what, (_, [address, _]))) = other {
            return Err(DeviceError::Shape(format!("{what} at {address:#x} are not this queue pair's")));
        }
        let addresses = UnifiedParams {
            rx_completions_record: own.rx_completions_record,
            tx_completions_record: own.tx_completions_record,
            ..*addresses
        };
        Ok(QueuePair { config, addresses, ..self.pair.clone() })
    }

    /// The queues as the host sees them, for a NIC. Their counters and stop word are not used.
    #[must_use]
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The doorbell register as the host sees it.
    #[must_use]
    pub fn uar(&self) -> &Words {
        &self.uar
    }
}
