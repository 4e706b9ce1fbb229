//! Rings and other structs of the caller, which are checked and then copied or read through windows.

use crate::layout::cudaq_ringbuffer_t;
use crate::status::Fault;
use ringcall_gpu::shared::{Bytes, SharedError, Words};
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::{GeometryError, RingWindows};
use ringcall_wire::header::HEADER_BYTES;

impl From<SharedError> for Fault {
    #[cold]
    #[inline(never)]
    fn from(error: SharedError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<GeometryError> for Fault {
    fn from(error: GeometryError) -> Self {
        Self::invalid(error.to_string())
    }
}

/// Copies a struct of the caller's.
///
/// # Safety
/// `at` is null, or points to a `T`.
#[inline(always)]
pub(crate) unsafe fn copied<T: Copy>(at: *const T, what: &str) -> Result<T, Fault> {
    if at.is_null() {
        return Err(misplaced(0, 1, what));
    }
    // SAFETY: the caller's promise; alignment is not asked for.
    Ok(unsafe { at.read_unaligned() })
}

/// Refuses null and misaligned pointers, before anything is written through them.
#[inline(always)]
pub(crate) fn aligned<T>(at: *const T, align: usize, what: &str) -> Result<(), Fault> {
    if at.is_null() || !at.addr().is_multiple_of(align) {
        return Err(misplaced(at.addr(), align, what));
    }
    Ok(())
}

/// An array of the caller's.
///
/// # Safety
/// `at` is null, or `count` of them are there, which are not written while the slice is used.
pub(crate) unsafe fn array<'a, T>(at: *const T, count: usize, what: &str) -> Result<&'a [T], Fault> {
    if count == 0 {
        return Ok(&[]);
    }
    aligned(at, align_of::<T>(), what)?;
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Fault::invalid(format!("{what}: {count} of them are more than memory has")));
    }
    // SAFETY: not null, aligned, no larger than any object, and the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(at, count) })
}

/// Out of the way of calls that are made for every request.
#[cold]
#[inline(never)]
fn misplaced(at: usize, align: usize, what: &str) -> Fault {
    if at == 0 {
        Fault::invalid(format!("{what} is null"))
    } else {
        Fault::invalid(format!("{what} is {at:#x}, which is not {align}-byte aligned"))
    }
}

/// A stride that slots of `slot_bytes` fit, each of whole words.
#[inline(always)]
pub(crate) fn stride(bytes: usize, slot_bytes: u32, what: &str) -> Result<u32, Fault> {
    let possible = (HEADER_BYTES..=1 << 31).contains(&bytes) && bytes.is_multiple_of(8);
    if !possible || bytes < slot_bytes as usize {
        return Err(unfit(bytes, possible, slot_bytes, what));
    }
    Ok(bytes as u32)
}

#[cold]
#[inline(never)]
fn unfit(bytes: usize, possible: bool, slot_bytes: u32, what: &str) -> Fault {
    Fault::invalid(if possible {
        format!("{what} is {bytes}, shorter than slot_size {slot_bytes}")
    } else {
        format!("{what} is {bytes}: a slot is a multiple of 8 bytes, at least {HEADER_BYTES}, at most 2^31")
    })
}

/// Which side's pointers of a ring are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Device,
    Host,
}

/// Checks one view of a ring: pointers, strides, regions that overlap.
pub(crate) fn check(ring: &cudaq_ringbuffer_t, view: View, slots: u32, slot_bytes: u32) -> Result<(), Fault> {
    let rx_stride = stride(ring.rx_stride_sz, slot_bytes, "rx_stride_sz")?;
    let tx_stride = stride(ring.tx_stride_sz, slot_bytes, "tx_stride_sz")?;
    let (flags, data, names) = match view {
        View::Device => (
            [ring.rx_flags, ring.tx_flags],
            [ring.rx_data, ring.tx_data],
            ["rx_flags", "tx_flags", "rx_data", "tx_data"],
        ),
        View::Host => (
            [ring.rx_flags_host, ring.tx_flags_host],
            [ring.rx_data_host, ring.tx_data_host],
            ["rx_flags_host", "tx_flags_host", "rx_data_host", "tx_data_host"],
        ),
    };
    let bytes = [8, 8, u64::from(rx_stride), u64::from(tx_stride)];
    let starts = [flags[0].addr(), flags[1].addr(), data[0].addr(), data[1].addr()].map(|a| a as u64);
    let mut ends = [0; 4];
    for i in 0..4 {
        aligned(starts[i] as usize as *const u8, 8, names[i])?;
        let end = u64::from(slots).checked_mul(bytes[i]).and_then(|length| starts[i].checked_add(length));
        ends[i] =
            end.ok_or_else(|| Fault::invalid(format!("{} wraps around the address space", names[i])))?;
    }
    for i in 0..4 {
        for j in i + 1..4 {
            // Responses may lie in their requests' slots.
            let in_place = (i, j) == (2, 3) && starts[2] == starts[3] && rx_stride == tx_stride;
            if starts[i] < ends[j] && starts[j] < ends[i] && !in_place {
                return Err(Fault::invalid(format!("{} and {} overlap", names[i], names[j])));
            }
        }
    }
    Ok(())
}

/// The ring as this process sees it. Flags may hold the device's addresses of slots as well as the host's.
///
/// # Safety
/// The ring passed [`check`], its memory is there for `slots` slots, and stays until every window is gone.
pub(crate) unsafe fn host_ring(ring: &cudaq_ringbuffer_t, slots: u32) -> Result<SharedRing, Fault> {
    let count = slots as usize;
    // SAFETY: the caller's promise.
    let rx_flags = unsafe { Words::from_raw(ring.rx_flags_host, count) }?;
    // SAFETY: as above.
    let tx_flags = unsafe { Words::from_raw(ring.tx_flags_host, count) }?;
    // SAFETY: as above.
    let windows = unsafe { data_windows(ring, slots, rx_flags, tx_flags) }?;
    let peer = (!ring.rx_data.is_null()).then_some(ring.rx_data.addr() as u64);
    Ok(SharedRing::new(slots, ring.rx_stride_sz as u32, ring.tx_stride_sz as u32, windows, peer)?)
}

/// The windows of a ring whose flags are another owner's.
///
/// # Safety
/// As for [`host_ring`], for the data.
pub(crate) unsafe fn data_windows(
    ring: &cudaq_ringbuffer_t,
    slots: u32,
    rx_flags: Words,
    tx_flags: Words,
) -> Result<RingWindows, Fault> {
    let count = slots as usize;
    // SAFETY: the caller's promise.
    let rx_data = unsafe { Bytes::from_raw(ring.rx_data_host, count.saturating_mul(ring.rx_stride_sz)) }?;
    // SAFETY: the caller's promise.
    let tx_data = unsafe { Bytes::from_raw(ring.tx_data_host, count.saturating_mul(ring.tx_stride_sz)) }?;
    Ok(RingWindows { rx_flags, tx_flags, rx_data, tx_data })
}
