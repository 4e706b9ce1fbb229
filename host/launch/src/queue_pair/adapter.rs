//! The queue pair of an RDMA adapter for a kernel: queues and slots in memory that adapter and device both reach, and the adapter's
//! doorbell page mapped into the device.
//!
//! Where a driver does not let one device reach the other, each step has its own error ([`AdapterError`]). Only the checks of sizes
//! and addresses were run: no adapter has met the other steps.

#![allow(unsafe_code)] // named for it: memory that an adapter writes, and its registers

use super::QueuePair;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, HostRegistration, MappedRegion};
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_gpu::shared::{Region, SharedError, Words};
use ringcall_mlx5::CompletionQueue;
use ringcall_mlx5::layout::cqe;
use ringcall_rdma::command::{ConnectionService, Path};
use ringcall_rdma::context;
use ringcall_rdma::devx::{self, DevxError, Memory, QueuePairLayout, RegisteredSlots};
use ringcall_rdma::unified::{QueuesError, UnifiedQueues};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where queues, doorbell records and slots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueMemory {
    /// In the device's memory, which the adapter reaches by a dmabuf.
    Device,
    /// In pinned memory of the host, which the device maps.
    Host,
}

/// Why a kernel gets no queue pair of an adapter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The device has no memory for the queues and slots, or cannot map the host's.
    #[error("memory for an adapter's queues and slots: {0}")]
    Memory(CudaError),
    /// The device's memory cannot be given to an adapter.
    #[error(
        "the GPU's memory cannot be given to the adapter: {0}; this needs a dmabuf, and the driver's open kernel modules, or queues in \
         the host's memory"
    )]
    Dmabuf(CudaError),
    /// The adapter's registers cannot be mapped into the device.
    #[error(
        "the GPU cannot ring the adapter's doorbell: {0}; the driver maps another device's registers with its parameter \
         NVreg_RegistryDwords=\"PeerMappingOverride=1;\", and for root"
    )]
    Doorbell(CudaError),
    /// The adapter, or rdma-core, refuses.
    #[error(transparent)]
    Adapter(#[from] DevxError),
    /// The queues that were made do not suit a kernel.
    #[error(transparent)]
    Queues(#[from] QueuesError),
}

impl From<SharedError> for AdapterError {
    fn from(error: SharedError) -> Self {
        Self::Memory(error.into())
    }
}

/// Sizes of an adapter's queue pair.
#[derive(Debug, Clone, Copy)]
pub struct AdapterShape {
    /// Slots for requests and for responses, and entries of each queue: a power of two from 4 to 4096.
    pub slots: u32,
    /// Bytes of a slot: a multiple of 16.
    pub stride: u32,
    /// Where queues, doorbell records and slots are.
    pub memory: QueueMemory,
}

/// A page of the GPU's memory and of the adapter's registers.
const PAGE: usize = 4096;
/// CUDA allocates a piece of this size by itself rather than from a pool: such memory begins on a page.
const GRANULE: usize = 2 << 20;

/// Where each part lies in one piece of memory, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    layout: QueuePairLayout,
    rx: usize,
    tx: usize,
    /// Bytes of the slots of one direction.
    slots: usize,
    bytes: usize,
}

impl Parts {
    fn of(shape: &AdapterShape) -> Result<Self, DevxError> {
        let log = shape.slots.checked_ilog2().unwrap_or(0) as u8;
        let layout = QueuePairLayout::of(log, log)?;
        let slots = shape.slots as usize * shape.stride as usize;
        let rx = layout.bytes;
        let tx = (rx + slots).next_multiple_of(PAGE);
        Ok(Self { layout, rx, tx, slots, bytes: (tx + slots).next_multiple_of(PAGE) })
    }
}

/// Memory that both devices reach.
#[derive(Debug)]
enum Shared {
    Device(DeviceBuffer, OwnedFd),
    Host(MappedRegion, Words),
}

impl Shared {
    /// Allocates the memory. Its completions are those of an adapter that has written none.
    fn new(context: &Arc<Context>, parts: &Parts, memory: QueueMemory) -> Result<Self, AdapterError> {
        let layout = &parts.layout;
        let completions = [
            (layout.receive_completions, cqe::BYTES << layout.log_receive),
            (layout.send_completions, cqe::BYTES << layout.log_send),
        ];
        match memory {
            QueueMemory::Host => {
                let region = MappedRegion::zeroed(context, parts.bytes).map_err(AdapterError::Memory)?;
                let words = |at, bytes: usize| region.words(at, bytes / 8).map_err(AdapterError::Memory);
                for (at, bytes) in completions {
                    CompletionQueue::prepare(&words(at, bytes)?);
                }
                let all = words(0, parts.bytes)?;
                Ok(Self::Host(region, all))
            }
            QueueMemory::Device => {
                let bytes = parts.bytes.next_multiple_of(GRANULE);
                let buffer = DeviceBuffer::zeroed(context, bytes).map_err(AdapterError::Memory)?;
                for (at, bytes) in completions {
                    buffer.write_from(at, &never_written(bytes)?).map_err(AdapterError::Memory)?;
                }
                let file = buffer.export_dmabuf().map_err(AdapterError::Dmabuf)?;
                Ok(Self::Device(buffer, file))
            }
        }
    }

    /// The memory from byte `at` on, as the adapter's driver takes it.
    fn from(&self, at: usize) -> Memory<'_> {
        match self {
            Self::Device(_, file) => Memory::Dmabuf(file.as_fd(), at as u64),
            Self::Host(_, words) => {
                Memory::Host(core::ptr::without_provenance_mut(words.address() as usize + at))
            }
        }
    }

    /// The address at which the device sees the memory.
    fn address(&self) -> Result<u64, AdapterError> {
        match self {
            Self::Device(buffer, _) => Ok(buffer.address().0),
            Self::Host(region, _) => Ok(region.device_address(0).map_err(AdapterError::Memory)?.0),
        }
    }
}

/// Completions, as many bytes of them, that no adapter has written.
fn never_written(bytes: usize) -> Result<Vec<u8>, SharedError> {
    let words = Region::zeroed(bytes)?.words(0, bytes / 8)?;
    CompletionQueue::prepare(&words);
    Ok((0..words.len()).flat_map(|index| words.load(index, Ordering::Relaxed).to_ne_bytes()).collect())
}

/// The objects of the adapter. They are dropped in this order: keys and queues before their memory.
#[derive(Debug)]
struct Held {
    rx: RegisteredSlots,
    _tx: RegisteredSlots,
    pair: devx::QueuePair,
    _memory: Shared,
}

/// A queue pair of an adapter, with queues that a device reaches.
#[derive(Debug, Clone)]
pub struct AdapterPair {
    pair: QueuePair,
    held: Arc<Held>,
}

impl AdapterPair {
    /// Makes the queue pair on `adapter` for kernels on `context`'s device. It receives once it is [connected](Self::connect).
    ///
    /// # Errors
    /// The driver or the adapter refuses a step; the error names the step.
    pub fn create(
        context: &Arc<Context>,
        adapter: &Arc<devx::Device>,
        shape: &AdapterShape,
    ) -> Result<Self, AdapterError> {
        let parts = Parts::of(shape)?;
        let memory = Shared::new(context, &parts, shape.memory)?;
        let at = memory.address()?;
        // SAFETY: the memory has as many bytes as the layout says, and is dropped after the queue pair.
        let pair = unsafe {
            devx::QueuePair::create(adapter, ConnectionService::Unreliable, parts.layout, memory.from(0))
        }?;
        // SAFETY: as above, and the memory is dropped after the keys.
        let rx = unsafe { pair.register_slots(memory.from(parts.rx), parts.slots) }?;
        // SAFETY: as above.
        let tx = unsafe { pair.register_slots(memory.from(parts.tx), parts.slots) }?;
        let stated = context::Context {
            qp: at,
            rx_data: at + parts.rx as u64,
            rx_stride: shape.stride.into(),
            slots: shape.slots,
            rx_mkey: rx.rkey().to_be(),
            tx_data: at + parts.tx as u64,
            tx_stride: shape.stride.into(),
            tx_mkey: tx.lkey().to_be(),
            frame_bytes: shape.stride.into(),
            ..context::Context::empty()
        };
        let held = Arc::new(Held { rx, _tx: tx, pair, _memory: memory });
        let register = held.pair.register().as_ptr();
        let (page, offset) = (register.map_addr(|at| at & !(PAGE - 1)), register.addr() & (PAGE - 1));
        // SAFETY: the page of the queue pair's doorbell, which is mapped as long as the queue pair is there; the kernel rings it as
        // the adapter asks for.
        let doorbell = unsafe { HostRegistration::register_io(context, page, PAGE, held.clone()) }
            .map_err(AdapterError::Doorbell)?;
        let rung = doorbell.device_address(offset).map_err(AdapterError::Doorbell)?.0;
        let queues = UnifiedQueues::of_devx(&stated, &parts.layout, at, held.pair.number(), rung)?;
        queues.check_device(context.device().ordinal(), |address| context.device_of(address))?;
        // The owner holds the memory, too, so the registration is dropped before it.
        let owner = Arc::new((doorbell, Arc::clone(&held)));
        // SAFETY: queues, record and slots are `held`'s, of the size that the layout and the shape say, and the register is mapped; the
        // completions are prepared, and no other code has their addresses.
        let pair =
            unsafe { QueuePair::from_raw(context, queues.config, Copying::Not, queues.addresses, owner) };
        Ok(Self { pair, held })
    }

    /// The queue pair, as a dispatcher takes it.
    #[must_use]
    pub fn pair(&self) -> &QueuePair {
        &self.pair
    }

    /// The adapter's number of the queue pair.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.held.pair.number()
    }

    /// The key with which the peer writes requests, at addresses from 0.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.held.rx.rkey()
    }

    /// Connects the queue pair with its peer, until it is ready to send.
    ///
    /// # Errors
    /// The adapter refuses.
    pub fn connect(&self, path: &Path) -> Result<(), AdapterError> {
        Ok(self.held.pair.connect(path, 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(slots: u32) -> AdapterShape {
        AdapterShape { slots, stride: 1008, memory: QueueMemory::Device }
    }

    #[test]
    fn queues_and_slots_begin_pages_and_do_not_overlap() {
        for log in 2..=12 {
            let parts = Parts::of(&shape(1 << log)).expect("a size");
            assert!([parts.rx, parts.tx, parts.bytes].iter().all(|at| at.is_multiple_of(PAGE)), "{parts:?}");
            assert!(parts.layout.bytes <= parts.rx && parts.rx + parts.slots <= parts.tx, "{parts:?}");
            assert!(parts.tx + parts.slots <= parts.bytes, "{parts:?}");
        }
        assert!(matches!(Parts::of(&shape(2)), Err(DevxError::Size(1))));
        assert!(matches!(Parts::of(&shape(0)), Err(DevxError::Size(0))));
    }

    #[test]
    fn completions_for_a_device_are_those_that_an_adapter_never_wrote() {
        let bytes = never_written(4 * cqe::BYTES).expect("memory");
        let words = Region::zeroed(bytes.len()).expect("memory").words(0, bytes.len() / 8).expect("words");
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            words.store(index, u64::from_ne_bytes(word.try_into().expect("8 bytes")), Ordering::Relaxed);
        }
        let mut queue = CompletionQueue::new(words, None).expect("a queue");
        assert_eq!(queue.poll(), None, "nothing has come");
    }

    #[test]
    fn what_a_driver_refuses_says_what_would_do() {
        let refused = || CudaError::TimedOut(std::time::Duration::ZERO);
        let says = |error: AdapterError, words: &str| {
            let text = error.to_string();
            assert!(text.contains(words) && !text.contains('\n'), "{text}");
        };
        says(AdapterError::Dmabuf(refused()), "open kernel modules");
        says(AdapterError::Dmabuf(refused()), "the host's memory");
        says(AdapterError::Doorbell(refused()), "PeerMappingOverride=1");
        says(AdapterError::Memory(refused()), "queues and slots");
        says(DevxError::Size(1).into(), "a queue of 2^1");
    }
}
