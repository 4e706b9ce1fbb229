//! Rings that this process owns, and rings that a caller mapped.

use ringcall_gpu::shared::{Region, SharedError};
use ringcall_protocol::ring::{GeometryError, RingWindows};
use ringcall_protocol::{Geometry, RingMemory, SharedRing};

/// The shape of a ring to allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingConfig {
    /// The number of slots, which is the most requests in flight at once.
    pub slots: u32,
    /// Bytes of a slot, header included: a multiple of 8, at least 24.
    pub slot_bytes: u32,
}

impl Default for RingConfig {
    /// 32 slots of 16 KiB: the defaults of the reference's pipeline, enough for d = 13 with 32-bit measurements.
    fn default() -> Self {
        Self { slots: 32, slot_bytes: 16 * 1024 }
    }
}

/// Why a ring could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The shape is impossible.
    #[error("impossible ring: {0}")]
    Geometry(#[from] GeometryError),
    /// The memory could not be allocated.
    #[error("ring memory: {0}")]
    Memory(#[from] SharedError),
}

/// Addresses of a ring's request data, as seen by this process and by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingBases {
    /// Address of request slot 0 in this process.
    pub rx_host: u64,
    /// Address of request slot 0 as the producer (device, NIC) sees it; without such a producer the same address.
    pub rx_peer: u64,
}

/// A ring. Cheap to clone: a handle that keeps the memory alive.
#[derive(Debug, Clone)]
pub struct Ring {
    shared: SharedRing,
    external: bool,
}

impl Ring {
    /// Allocates a ring in this process's memory: requests and responses in separate slots.
    ///
    /// # Errors
    /// An impossible shape, or no memory.
    pub fn allocate(config: RingConfig) -> Result<Self, RingError> {
        let RingConfig { slots, slot_bytes } = config;
        // Checked before any memory is asked for.
        Geometry::new(slots, slot_bytes, slot_bytes, 0, 0, 0)?;
        let flags = slots as usize * 8;
        let data = slots as usize * slot_bytes as usize;
        let windows = RingWindows {
            // One region each: flags that different agents write never share a cache line, and flags share none with
            // data.
            rx_flags: Region::zeroed(flags)?.words(0, slots as usize)?,
            tx_flags: Region::zeroed(flags)?.words(0, slots as usize)?,
            rx_data: Region::zeroed(data)?.bytes(0, data)?,
            tx_data: Region::zeroed(data)?.bytes(0, data)?,
        };
        let shared = SharedRing::new(slots, slot_bytes, slot_bytes, windows, None)?;
        Ok(Self { shared, external: false })
    }

    /// A ring whose memory and producer are outside of this process (a NIC, an FPGA emulator, a C caller).
    ///
    /// The windows carry the promise that the memory stays valid: making them from raw pointers is the unsafe step
    /// ([`Words::from_raw`](ringcall_gpu::shared::Words::from_raw)).
    #[must_use]
    pub fn external(shared: SharedRing) -> Self {
        Self { shared, external: true }
    }

    /// A ring over the caller's memory, such as memory that a device maps. Its producer and its consumer are threads
    /// of this process.
    ///
    /// The windows carry the same promise as for [`external`](Self::external).
    #[must_use]
    pub fn over(shared: SharedRing) -> Self {
        Self { shared, external: false }
    }

    /// Whether the producer is outside of this process.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.external
    }

    /// The protocol's view of the ring.
    #[must_use]
    pub fn shared(&self) -> &SharedRing {
        &self.shared
    }

    /// The ring's shape.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.shared.geometry()
    }

    /// Base addresses of the request data.
    #[must_use]
    pub fn bases(&self) -> RingBases {
        let geometry = self.geometry();
        geometry.slot(0).map_or(RingBases { rx_host: 0, rx_peer: 0 }, |first| RingBases {
            rx_host: geometry.request_address(first),
            rx_peer: geometry.peer_request_address(first),
        })
    }
}
