//! Windows over ring memory at the addresses that a provider returns.
#![allow(unsafe_code)] // named for it: memory that this process does not own

use super::maps::Maps;
use crate::layout::RingBuffer;
use ringcall::Ring;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::{Geometry, RingWindows};
use std::any::Any;
use std::sync::Arc;

type Owner = Arc<dyn Any + Send + Sync>;

/// Checks a ring for a C caller, who may have a device that sees what the host does not.
pub(crate) fn check_either(ring: &RingBuffer) -> Result<(), String> {
    strides(ring)?;
    for (name, device, host) in [
        ("rx_flags", ring.rx_flags.addr(), ring.rx_flags_host.addr()),
        ("tx_flags", ring.tx_flags.addr(), ring.tx_flags_host.addr()),
        ("rx_data", ring.rx_data.addr(), ring.rx_data_host.addr()),
        ("tx_data", ring.tx_data.addr(), ring.tx_data_host.addr()),
    ] {
        if device == 0 && host == 0 {
            return Err(format!("{name} is null, for the device and for the host"));
        }
    }
    Ok(())
}

fn strides(ring: &RingBuffer) -> Result<(u32, u32), String> {
    let stride = |name: &str, bytes: usize| {
        let stride = u32::try_from(bytes).map_err(|_| format!("{name} is {bytes}"))?;
        // One slot at address 0, to check only the stride.
        Geometry::new(1, stride, stride, 0, 0, 0).map_err(|e| format!("{name}: {e}"))?;
        Ok::<_, String>(stride)
    };
    Ok((stride("rx_stride_sz", ring.rx_stride_sz)?, stride("tx_stride_sz", ring.tx_stride_sz)?))
}

/// A part of a ring: its address and length.
struct Part {
    name: &'static str,
    address: u64,
    bytes: u64,
}

impl Part {
    fn new(name: &'static str, address: usize, bytes: u64) -> Self {
        Self { name, address: address as u64, bytes }
    }

    fn check(&self, maps: &Maps) -> Result<(), String> {
        let Self { name, address, bytes } = self;
        if *address == 0 {
            return Err(format!("{name} is null"));
        }
        if !address.is_multiple_of(8) {
            return Err(format!("{name} at {address:#x} is not aligned to 8 bytes"));
        }
        if !maps.writable(*address, *bytes) {
            return Err(format!(
                "{name} is said to be {bytes} bytes at {address:#x}, which cannot be written"
            ));
        }
        Ok(())
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }
}

/// Checks that each part can be written and that no two overlap, except that responses may share their requests' slots.
fn check_parts(parts: &[Part], strides: (u32, u32)) -> Result<(), String> {
    let maps = Maps::read();
    parts.iter().try_for_each(|part| part.check(&maps))?;
    for (index, part) in parts.iter().enumerate() {
        for other in &parts[index + 1..] {
            let in_place = (part.name, other.name) == (RX_DATA, TX_DATA)
                && part.address == other.address
                && strides.0 == strides.1;
            if part.overlaps(other) && !in_place {
                return Err(format!("{} and {} overlap", part.name, other.name));
            }
        }
    }
    Ok(())
}

const RX_DATA: &str = "rx_data_host";
const TX_DATA: &str = "tx_data_host";

fn data_parts(ring: &RingBuffer, slots: u32, (rx_stride, tx_stride): (u32, u32)) -> [Part; 2] {
    let n = u64::from(slots);
    [
        Part::new(RX_DATA, ring.rx_data_host.addr(), n * u64::from(rx_stride)),
        Part::new(TX_DATA, ring.tx_data_host.addr(), n * u64::from(tx_stride)),
    ]
}

fn flags_part(name: &'static str, flags: *mut u64, slots: u32) -> Part {
    Part::new(name, flags.addr(), u64::from(slots) * 8)
}

/// The host's view of a ring, for a dispatcher of this process. `owner` lives as long as the ring.
pub(super) fn host_ring(ring: &RingBuffer, slots: u32, owner: &Owner) -> Result<Ring, String> {
    let (rx_stride, tx_stride) = strides(ring)?;
    Geometry::new(slots, rx_stride, tx_stride, 0, 0, 0).map_err(|e| e.to_string())?;
    let [rx_data, tx_data] = data_parts(ring, slots, (rx_stride, tx_stride));
    let rx_flags = flags_part("rx_flags_host", ring.rx_flags_host, slots);
    let tx_flags = flags_part("tx_flags_host", ring.tx_flags_host, slots);
    check_parts(&[rx_flags, tx_flags, rx_data, tx_data], (rx_stride, tx_stride))?;
    let windows = RingWindows {
        rx_flags: words(ring.rx_flags_host, slots, owner)?,
        tx_flags: words(ring.tx_flags_host, slots, owner)?,
        rx_data: bytes(ring.rx_data_host, slots, rx_stride, owner)?,
        tx_data: bytes(ring.tx_data_host, slots, tx_stride, owner)?,
    };
    let peer = (!ring.rx_data.is_null()).then(|| ring.rx_data.addr() as u64);
    let shared = SharedRing::new(slots, rx_stride, tx_stride, windows, peer).map_err(|e| e.to_string())?;
    Ok(Ring::external(shared))
}

pub(super) struct Slots {
    pub(super) slots: u32,
    pub(super) rx_stride: usize,
    pub(super) tx_stride: usize,
    pub(super) rx: Bytes,
    pub(super) tx: Bytes,
    pub(super) tx_flags: Option<Words>,
}

/// The host's view of a data plane's slots. Request flags are not used, and response flags may be missing.
pub(super) fn slots(ring: &RingBuffer, slots: u32, owner: &Owner) -> Result<Slots, String> {
    let (rx_stride, tx_stride) = strides(ring)?;
    Geometry::new(slots, rx_stride, tx_stride, 0, 0, 0).map_err(|e| e.to_string())?;
    let mut parts = Vec::from(data_parts(ring, slots, (rx_stride, tx_stride)));
    let tx_flags = (!ring.tx_flags_host.is_null()).then_some(ring.tx_flags_host);
    parts.extend(tx_flags.map(|flags| flags_part("tx_flags_host", flags, slots)));
    check_parts(&parts, (rx_stride, tx_stride))?;
    Ok(Slots {
        slots,
        rx_stride: rx_stride as usize,
        tx_stride: tx_stride as usize,
        rx: bytes(ring.rx_data_host, slots, rx_stride, owner)?,
        tx: bytes(ring.tx_data_host, slots, tx_stride, owner)?,
        tx_flags: tx_flags.map(|flags| words(flags, slots, owner)).transpose()?,
    })
}

fn words(base: *mut u64, slots: u32, owner: &Owner) -> Result<Words, String> {
    // SAFETY: mapped and writable, as checked; the provider's as long as its instance lives, which `owner` keeps. Flags are
    // reached by atomic accesses on both sides, by the interface.
    unsafe { Words::from_raw_owned(base, slots as usize, Arc::clone(owner)) }.map_err(|e| e.to_string())
}

fn bytes(base: *mut u8, slots: u32, stride: u32, owner: &Owner) -> Result<Bytes, String> {
    // SAFETY: as above; the holder of the flag has the slot.
    unsafe { Bytes::from_raw_owned(base, slots as usize * stride as usize, Arc::clone(owner)) }
        .map_err(|e| e.to_string())
}
