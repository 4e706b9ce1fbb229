//! `cpu_udp_*`: `cudaq/realtime/cpu_transport/udp_wrapper.h`.
//!
//! # Safety
//! For every function here: pointers are null or as the header says. Handles may be any number.
#![allow(unsafe_code)] // named for it: the border to C
#![allow(clippy::missing_safety_doc)] // the same for all: above

use super::yes;
use crate::Refused;
use crate::border::{enter, read_text};
use crate::handles::Handles;
use crate::transceiver::Transceiver;
use core::ffi::{c_char, c_int, c_uint, c_void};
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::{Geometry, RingWindows};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;

static TRANSCEIVERS: Handles<Transceiver> = Handles::new();

fn find(handle: *mut c_void) -> Result<Arc<Transceiver>, Refused> {
    TRANSCEIVERS.get(handle).ok_or_else(|| Refused::invalid("no such transceiver, or one that was destroyed"))
}

fn make(body: impl FnOnce() -> Result<Transceiver, Refused>) -> *mut c_void {
    let mut handle = std::ptr::null_mut();
    enter(|| {
        handle = TRANSCEIVERS.insert(Arc::new(body()?));
        Ok(())
    });
    handle
}

fn bytes_of(page_size: usize) -> Result<u32, Refused> {
    u32::try_from(page_size).map_err(|_| Refused::invalid(format!("page_size is {page_size}")))
}

/// Creates a transceiver with rings of its own.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_create_transceiver(page_size: usize, num_pages: c_uint) -> *mut c_void {
    make(|| Transceiver::new(num_pages, bytes_of(page_size)?))
}

/// Creates a transceiver over the caller's rings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_udp_create_transceiver_ext(
    page_size: usize,
    num_pages: c_uint,
    rx_flags: *mut u64,
    tx_flags: *mut u64,
    rx_data: *mut u8,
    tx_data: *mut u8,
) -> *mut c_void {
    make(|| {
        let stride = bytes_of(page_size)?;
        let invalid = |e: &dyn std::fmt::Display| Refused::invalid(e.to_string());
        Geometry::new(num_pages, stride, stride, 0, 0, 0).map_err(|e| invalid(&e))?;
        let (slots, bytes) = (num_pages as usize, num_pages as usize * page_size);
        let windows = RingWindows {
            // SAFETY: the module's contract, for each.
            rx_flags: unsafe { Words::from_raw(rx_flags, slots) }.map_err(|e| invalid(&e))?,
            // SAFETY: as above.
            tx_flags: unsafe { Words::from_raw(tx_flags, slots) }.map_err(|e| invalid(&e))?,
            // SAFETY: as above.
            rx_data: unsafe { Bytes::from_raw(rx_data, bytes) }.map_err(|e| invalid(&e))?,
            // SAFETY: as above.
            tx_data: unsafe { Bytes::from_raw(tx_data, bytes) }.map_err(|e| invalid(&e))?,
        };
        for words in [&windows.rx_flags, &windows.tx_flags, windows.rx_data.words(), windows.tx_data.words()]
        {
            (0..words.len()).for_each(|index| words.store(index, 0, Ordering::Release));
        }
        let ring = SharedRing::new(num_pages, stride, stride, windows, None).map_err(|e| invalid(&e))?;
        Ok(Transceiver::over(ring))
    })
}

/// Closes and frees the transceiver.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_destroy_transceiver(handle: *mut c_void) {
    enter(|| {
        // Closed at once, since the rings may be the caller's.
        if let Some(transceiver) = TRANSCEIVERS.remove(handle) {
            transceiver.close();
        }
        Ok(())
    });
}

/// Binds the service's end on 127.0.0.1.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_bind(handle: *mut c_void, port: u16) -> c_int {
    yes(|| find(handle)?.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

/// Binds the service's end on an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_udp_bind_to(handle: *mut c_void, host: *const c_char, port: u16) -> c_int {
    yes(|| {
        let transceiver = find(handle)?;
        if host.is_null() {
            return transceiver.bind(resolve("", port)?);
        }
        // SAFETY: the module's contract.
        let host = unsafe { read_text(host, "host") }?;
        transceiver.bind(resolve(&host, port)?)
    })
}

/// Connects the caller's end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_udp_connect(handle: *mut c_void, host: *const c_char, port: u16) -> c_int {
    yes(|| {
        let transceiver = find(handle)?;
        // SAFETY: the module's contract.
        let host = unsafe { read_text(host, "host") }?;
        transceiver.connect(resolve(&host, port)?)
    })
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, Refused> {
    if host.is_empty() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let found = (host, port).to_socket_addrs().map_err(|e| Refused::invalid(format!("{host}: {e}")))?;
    // The reference speaks IPv4 only.
    let found: Vec<_> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| Refused::invalid(format!("{host}: no address")))
}

/// The local port.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_get_port(handle: *mut c_void) -> u16 {
    let mut port = 0;
    enter(|| {
        port = find(handle)?.address().map_or(0, |address| address.port());
        Ok(())
    });
    port
}

/// Starts moving datagrams.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_start(handle: *mut c_void) -> c_int {
    yes(|| find(handle)?.start())
}

/// Stops moving datagrams.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_close(handle: *mut c_void) {
    enter(|| {
        find(handle)?.close();
        Ok(())
    });
}

/// Sets whether the user polls instead of a thread.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_set_unified(handle: *mut c_void, unified: c_int) -> c_int {
    yes(|| find(handle)?.set_unified(unified != 0))
}

/// Writes the slot of a datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_udp_rx_poll(handle: *mut c_void, slot: *mut u32) -> c_int {
    let mut found = None;
    enter(|| {
        if slot.is_null() {
            return Err(Refused::invalid("the address for the slot is null"));
        }
        found = find(handle)?.rx_poll();
        Ok(())
    });
    if let Some(index) = found {
        // SAFETY: not null, which was checked before anything was taken; the module's contract.
        unsafe { slot.write(index) };
    }
    c_int::from(found.is_some())
}

/// Sends a response slot.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_tx_publish(handle: *mut c_void, slot: u32) -> c_int {
    yes(|| find(handle)?.tx_publish(slot))
}

fn address(handle: *mut c_void, of: impl FnOnce(&RingWindows) -> u64) -> u64 {
    let mut address = 0;
    enter(|| {
        address = of(&find(handle)?.ring().windows());
        Ok(())
    });
    address
}

/// Address of the request flags.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_get_rx_ring_flag_addr(handle: *mut c_void) -> u64 {
    address(handle, |windows| windows.rx_flags.address())
}

/// Address of the requests.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_get_rx_ring_data_addr(handle: *mut c_void) -> u64 {
    address(handle, |windows| windows.rx_data.address())
}

/// Address of the response flags.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_get_tx_ring_flag_addr(handle: *mut c_void) -> u64 {
    address(handle, |windows| windows.tx_flags.address())
}

/// Address of the responses.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_udp_get_tx_ring_data_addr(handle: *mut c_void) -> u64 {
    address(handle, |windows| windows.tx_data.address())
}
