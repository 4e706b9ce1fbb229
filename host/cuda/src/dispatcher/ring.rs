//! Rings in pinned host memory that the device polls in place.

use super::DeviceError;
use crate::driver::{Context, MappedRegion};
use ringcall::{Ring, RingConfig};
use ringcall_dispatch::ring::RingWindows;
use ringcall_dispatch::{Geometry, SharedRing};
use std::sync::Arc;

/// A ring in mapped memory: the NIC-free transport. Producer and consumer are threads of the host
/// ([`Client`](ringcall::Client)), the dispatcher is a kernel.
#[derive(Debug, Clone)]
pub struct MappedRing {
    context: Arc<Context>,
    ring: Ring,
    addresses: Addresses,
}

/// The ring as the device sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) rx_flags: u64,
    pub(super) tx_flags: u64,
    pub(super) rx_data: u64,
    pub(super) tx_data: u64,
}

impl MappedRing {
    /// Allocates a ring: requests and responses in slots of their own, flags on pages of their own.
    ///
    /// # Errors
    /// An impossible shape, no memory to pin, or a device that cannot map host memory.
    pub fn allocate(context: &Arc<Context>, config: RingConfig) -> Result<Self, DeviceError> {
        let RingConfig { slots, slot_bytes } = config;
        Geometry::new(slots, slot_bytes, slot_bytes, 0, 0, 0)?;
        let count = slots as usize;
        let data = count * slot_bytes as usize;
        let region = |bytes| MappedRegion::zeroed(context, bytes);
        let (rx_flags, tx_flags) = (region(count * 8)?, region(count * 8)?);
        let (rx_data, tx_data) = (region(data)?, region(data)?);
        let addresses = Addresses {
            rx_flags: rx_flags.device_address(0)?.0,
            tx_flags: tx_flags.device_address(0)?.0,
            rx_data: rx_data.device_address(0)?.0,
            tx_data: tx_data.device_address(0)?.0,
        };
        let windows = RingWindows {
            rx_flags: rx_flags.words(0, count)?,
            tx_flags: tx_flags.words(0, count)?,
            rx_data: rx_data.bytes(0, data)?,
            tx_data: tx_data.bytes(0, data)?,
        };
        let shared = SharedRing::new(slots, slot_bytes, slot_bytes, windows, Some(addresses.rx_data))?;
        Ok(Self { context: Arc::clone(context), ring: Ring::external(shared), addresses })
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

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }
}
