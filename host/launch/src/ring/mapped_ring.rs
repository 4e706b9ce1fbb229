//! Mapped rings: rings in pinned host memory that the device polls in place.

use super::DeviceError;
use ringcall::{Ring, RingConfig};
use ringcall_cuda::driver::{Context, MappedRegion};
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::{Geometry, SharedRing, SlotIndex};
use ringcall_wire::header::HEADER_BYTES;
use std::any::Any;
use std::sync::Arc;

/// Flags of one sector.
const SECTOR: u32 = 4;

/// A ring in mapped memory, for use without a NIC. Producer and consumer are threads of the host
/// ([`Client`](ringcall::Client)), the dispatcher is a kernel.
#[derive(Debug, Clone)]
pub struct MappedRing {
    context: Arc<Context>,
    ring: Ring,
    pub(super) addresses: Addresses,
    memory: Arc<Memory>,
    /// The first of its slots in that memory.
    first: u32,
}

/// A ring's memory, which the ring's parts share.
#[derive(Debug)]
struct Memory {
    rx_flags: MappedRegion,
    tx_flags: MappedRegion,
    rx_data: MappedRegion,
    tx_data: MappedRegion,
}

/// The ring as the device sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) rx_flags: u64,
    pub(crate) tx_flags: u64,
    pub(crate) rx_data: u64,
    pub(crate) tx_data: u64,
}

/// The ring of a dispatcher, in mapped memory or elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct DeviceRing {
    pub(crate) context: Arc<Context>,
    pub(crate) geometry: Geometry,
    pub(crate) addresses: Addresses,
    /// Address of request slot 0 as producers write it into flags, if it differs from the device's address.
    pub(crate) rx_peer: u64,
    /// The host's view of the ring, if it has one.
    pub(crate) host: Option<Ring>,
    /// Keeps the ring's memory alive.
    pub(crate) _owner: Arc<dyn Any + Send + Sync>,
}

impl From<&MappedRing> for DeviceRing {
    fn from(ring: &MappedRing) -> Self {
        Self {
            context: Arc::clone(&ring.context),
            geometry: *ring.ring.geometry(),
            addresses: ring.addresses,
            rx_peer: ring.ring.bases().rx_host,
            host: Some(ring.ring.clone()),
            _owner: Arc::new(ring.clone()),
        }
    }
}

impl MappedRing {
    /// Allocates a ring with separate slots for requests and responses, and with flags on separate pages.
    ///
    /// # Errors
    /// An impossible shape, no memory to pin, or a device that cannot map host memory.
    pub fn allocate(context: &Arc<Context>, config: RingConfig) -> Result<Self, DeviceError> {
        let RingConfig { slots, slot_bytes } = config;
        Geometry::new(slots, slot_bytes, slot_bytes, 0, 0, 0)?;
        let (flags, data) = (slots as usize * 8, slots as usize * slot_bytes as usize);
        let region = |bytes| MappedRegion::zeroed(context, bytes);
        let memory = Memory {
            rx_flags: region(flags)?,
            tx_flags: region(flags)?,
            rx_data: region(data)?,
            tx_data: region(data)?,
        };
        Self::over(context, Arc::new(memory), 0, slots, slot_bytes)
    }

    /// A ring over some of the slots of the memory.
    fn over(
        context: &Arc<Context>,
        memory: Arc<Memory>,
        first: u32,
        slots: u32,
        slot_bytes: u32,
    ) -> Result<Self, DeviceError> {
        let count = slots as usize;
        let (flags, data) = (first as usize * 8, first as usize * slot_bytes as usize);
        let addresses = Addresses {
            rx_flags: memory.rx_flags.device_address(flags)?.0,
            tx_flags: memory.tx_flags.device_address(flags)?.0,
            rx_data: memory.rx_data.device_address(data)?.0,
            tx_data: memory.tx_data.device_address(data)?.0,
        };
        let windows = RingWindows {
            rx_flags: memory.rx_flags.words(flags, count)?,
            tx_flags: memory.tx_flags.words(flags, count)?,
            rx_data: memory.rx_data.bytes(data, count * slot_bytes as usize)?,
            tx_data: memory.tx_data.bytes(data, count * slot_bytes as usize)?,
        };
        let shared = SharedRing::new(slots, slot_bytes, slot_bytes, windows, Some(addresses.rx_data))?;
        Ok(Self { context: Arc::clone(context), ring: Ring::external(shared), addresses, memory, first })
    }

    /// Splits the ring's slots into `parts` rings over the same memory, in order and of equal length: slot `i` of
    /// part `k` is slot `k * (slots / parts) + i` of this ring. So several dispatchers can each serve a part of the
    /// ring, which producer and consumer see as one.
    ///
    /// # Errors
    /// [`DeviceError::Shape`] for no parts, or for parts that are not whole sectors of four flags (the reads of a
    /// sector by several dispatchers would queue).
    pub fn parts(&self, parts: u32) -> Result<Vec<Self>, DeviceError> {
        let geometry = self.ring.geometry();
        let (slots, each) = (geometry.slots(), geometry.slots().checked_div(parts).unwrap_or(0));
        if each == 0 || each * parts != slots || (parts > 1 && !each.is_multiple_of(SECTOR)) {
            return Err(DeviceError::Shape(format!(
                "{slots} slots do not make {parts} equal parts of whole sectors of {SECTOR} flags"
            )));
        }
        let part = |k| {
            let memory = Arc::clone(&self.memory);
            Self::over(&self.context, memory, self.first + k * each, each, geometry.rx_stride())
        };
        (0..parts).map(part).collect()
    }

    /// The ring as the host sees it.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The context whose device maps it.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The memory of a request's payload, and the offset in it, for copies by the device.
    #[must_use]
    pub fn payload(&self, slot: SlotIndex) -> (&MappedRegion, usize) {
        let stride = self.ring.geometry().rx_stride() as usize;
        (&self.memory.rx_data, (self.first as usize + slot.as_usize()) * stride + HEADER_BYTES)
    }
}
