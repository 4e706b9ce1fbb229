//! The producer's and the consumer's side of a ring, a slot at a time.

use crate::layout::cudaq_ringbuffer_t;
use crate::raw_ring::{aligned, copied, stride};
use crate::status::{Fault, attempt, status};
use core::ffi::{c_int, c_void};
use core::mem::ManuallyDrop;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_wire::flag::{self, TxState, TxStatus};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader};
use std::sync::atomic::Ordering;

/// One flag of a slot. The window owns nothing that would have to be dropped, and without that it is a pointer in a register.
///
/// # Safety
/// `flags` is null, or has a word for slot `slot`.
#[inline(always)]
unsafe fn word(flags: *mut u64, slot: u32, what: &str) -> Result<ManuallyDrop<Words>, Fault> {
    aligned(flags.cast_const(), 8, what)?;
    // SAFETY: the caller's promise; the window lives for one access.
    Ok(ManuallyDrop::new(unsafe { Words::from_raw(flags.wrapping_add(slot as usize), 1) }?))
}

/// The ring that the caller means, and its request stride.
///
/// # Safety
/// `ring` is null, or points to a ring.
#[inline(always)]
unsafe fn ring_of(ring: *const cudaq_ringbuffer_t) -> Result<(cudaq_ringbuffer_t, usize), Fault> {
    // SAFETY: the caller's promise.
    let ring = unsafe { copied(ring, "the ring") }?;
    let stride = stride(ring.rx_stride_sz, 0, "rx_stride_sz")? as usize;
    Ok((ring, stride))
}

#[inline(always)]
fn slot_address(ring: &cudaq_ringbuffer_t, slot: u32, stride: usize) -> Result<*mut u8, Fault> {
    aligned(ring.rx_data_host.cast_const(), 8, "rx_data_host")?;
    let offset = (slot as usize).checked_mul(stride);
    offset
        .and_then(|offset| ring.rx_data_host.addr().checked_add(offset).map(|_| offset))
        .map(|offset| ring.rx_data_host.wrapping_add(offset))
        .ok_or_else(|| too_far(slot))
}

#[cold]
#[inline(never)]
fn too_far(slot: u32) -> Fault {
    Fault::invalid(format!("slot {slot} is beyond the address space"))
}

#[cold]
#[inline(never)]
fn bad_payload(bytes: u32, room: usize) -> Fault {
    Fault::invalid(if bytes as usize > room {
        format!("a payload of {bytes} bytes does not fit a slot that takes {room}")
    } else {
        "the payload is null".to_owned()
    })
}

/// Writes a request into a slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_ringbuffer_write_rpc_request(
    rb: *const cudaq_ringbuffer_t,
    slot_idx: u32,
    function_id: u32,
    payload: *const c_void,
    payload_len: u32,
    request_id: u32,
    ptp_timestamp: u64,
) -> c_int {
    status(|| {
        // SAFETY: the header's contract.
        let (ring, stride) = unsafe { ring_of(rb) }?;
        let at = slot_address(&ring, slot_idx, stride)?;
        let room = stride - HEADER_BYTES;
        if payload_len as usize > room || (payload.is_null() && payload_len > 0) {
            return Err(bad_payload(payload_len, room));
        }
        let payload = if payload_len == 0 {
            &[]
        } else {
            // SAFETY: the header's contract: so many bytes are there, and they are not written meanwhile.
            unsafe { core::slice::from_raw_parts(payload.cast::<u8>(), payload_len as usize) }
        };
        // SAFETY: the header's contract: the slot is the ring's and the caller's to write; the window lives for this call.
        let slot = ManuallyDrop::new(unsafe { Bytes::from_raw(at, stride) }?);
        slot.write_words(
            0,
            RequestHeader::new(function_id, payload_len, request_id, ptp_timestamp).to_words(),
        );
        slot.write(HEADER_BYTES, payload);
        Ok(())
    })
}

/// Sets a slot's request flag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_ringbuffer_signal_slot(rb: *const cudaq_ringbuffer_t, slot_idx: u32) {
    let _ = attempt(|| {
        // SAFETY: the header's contract.
        let (ring, stride) = unsafe { ring_of(rb) }?;
        let at = slot_address(&ring, slot_idx, stride)?;
        // SAFETY: the header's contract.
        let flag = unsafe { word(ring.rx_flags_host, slot_idx, "rx_flags_host") }?;
        // Release: pairs with the dispatcher's `RingMemory::observe`.
        flag.store(0, at.addr() as u64, Ordering::Release);
        Ok(())
    });
}

/// How a slot's response stands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_ringbuffer_poll_tx_flag(
    rb: *const cudaq_ringbuffer_t,
    slot_idx: u32,
    out_cuda_error: *mut c_int,
) -> c_int {
    let state = attempt(|| {
        // SAFETY: the header's contract.
        let ring = unsafe { copied(rb, "the ring") }?;
        // SAFETY: the header's contract.
        let flag = unsafe { word(ring.tx_flags_host, slot_idx, "tx_flags_host") }?;
        // Acquire: pairs with `RingMemory::publish_tx`.
        Ok(TxState::decode(flag.load(0, Ordering::Acquire)))
    });
    let state = state.unwrap_or(TxState::Empty);
    if let (TxState::Error(code), false) = (state, out_cuda_error.is_null()) {
        // SAFETY: the header's contract: null or an int of the caller's.
        unsafe { out_cuda_error.write_unaligned(c_int::from(code)) };
    }
    state.status().raw() as c_int
}

/// Whether a slot can take a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_ringbuffer_slot_available(
    rb: *const cudaq_ringbuffer_t,
    slot_idx: u32,
) -> c_int {
    let free = attempt(|| {
        // SAFETY: the header's contract.
        let ring = unsafe { copied(rb, "the ring") }?;
        // SAFETY: the header's contract.
        let rx = unsafe { word(ring.rx_flags_host, slot_idx, "rx_flags_host") }?;
        // SAFETY: the header's contract.
        let tx = unsafe { word(ring.tx_flags_host, slot_idx, "tx_flags_host") }?;
        // Request flag first: see `Vacant::probe`, with which the dispatcher's side pairs.
        let free = rx.load(0, Ordering::Acquire) == flag::FREE && tx.load(0, Ordering::Acquire) == flag::FREE;
        Ok(free)
    });
    c_int::from(free.unwrap_or(false))
}

/// Frees a slot whose response was read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_ringbuffer_clear_slot(rb: *const cudaq_ringbuffer_t, slot_idx: u32) {
    let _ = attempt(|| {
        // SAFETY: the header's contract.
        let ring = unsafe { copied(rb, "the ring") }?;
        // SAFETY: the header's contract.
        let flag = unsafe { word(ring.tx_flags_host, slot_idx, "tx_flags_host") }?;
        // Release: pairs with the acquire of the producer that finds the slot vacant.
        flag.store(0, flag::FREE, Ordering::Release);
        Ok(())
    });
}

const _: () = assert!(TxStatus::Ready.raw() == 3);
