//! `cpu_roce_*`: `cudaq/realtime/cpu_transport/roce_wrapper.h`.
//!
//! # Safety
//! For every function here: pointers are null or as the header says. Handles may be any number.
#![allow(unsafe_code)] // named for it: the border to C
#![allow(clippy::missing_safety_doc)] // the same for all: above

use super::yes;
use crate::Refused;
use crate::border::{enter, read_text};
use crate::handles::Handles;
use crate::roce_transceiver::{RoceTransceiver, RoceTransceiverOptions, Role, SendVerb};
use core::ffi::{c_char, c_int, c_uint, c_void};
use ringcall_protocol::RingMemory;
use ringcall_protocol::ring::RingWindows;
use ringcall_rdma::verbs::RemoteQueuePair;
use std::net::Ipv4Addr;
use std::sync::Arc;

static TRANSCEIVERS: Handles<Named> = Handles::new();

/// A transceiver, and the peer that the caller named when creating it.
#[derive(Debug)]
struct Named {
    transceiver: RoceTransceiver,
    qp: u32,
    peer: Option<Ipv4Addr>,
    key: u32,
}

fn find(handle: *mut c_void) -> Result<Arc<Named>, Refused> {
    TRANSCEIVERS.get(handle).ok_or_else(|| Refused::invalid("no such transceiver, or one that was destroyed"))
}

/// # Safety
/// `text` is null or ends in a NUL.
unsafe fn address(text: *const c_char, what: &str) -> Result<Ipv4Addr, Refused> {
    // SAFETY: as promised.
    let text = unsafe { read_text(text, what) }?;
    text.parse().map_err(|_| Refused::invalid(format!("{what} is {text}, which is no IPv4 address")))
}

fn role(flags: [(c_int, Role); 4]) -> Result<Role, Refused> {
    let mut set = flags.into_iter().filter(|&(flag, _)| flag != 0).map(|(_, role)| role);
    match (set.next(), set.next()) {
        (role, None) => Ok(role.unwrap_or_default()),
        _ => Err(Refused::invalid("of forward, rx_only, tx_only and unified one at most is not 0")),
    }
}

fn size(value: usize, what: &str) -> Result<u32, Refused> {
    u32::try_from(value).map_err(|_| Refused::invalid(format!("{what} is {value}")))
}

/// Creates a transceiver whose device is not yet open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_roce_create_transceiver(
    device_name: *const c_char,
    ib_port: c_int,
    tx_ibv_qp: c_uint,
    frame_size: usize,
    page_size: usize,
    num_pages: c_uint,
    peer_ip: *const c_char,
    forward: c_int,
    rx_only: c_int,
    tx_only: c_int,
    unified: c_int,
    tx_mode: c_int,
    peer_rx_base_addr: u64,
    peer_rx_rkey: u32,
) -> *mut c_void {
    let mut handle = std::ptr::null_mut();
    enter(|| {
        // SAFETY: the module's contract.
        let device = unsafe { read_text(device_name, "device_name") }?;
        if ib_port != 1 {
            return Err(Refused::unsupported(format!(
                "ib_port is {ib_port}: a RoCE device's port 1 is served"
            )));
        }
        let peer = if peer_ip.is_null() {
            None
        } else {
            // SAFETY: the module's contract.
            match unsafe { read_text(peer_ip, "peer_ip") }?.as_str() {
                "" => None,
                // SAFETY: as above.
                _ => Some(unsafe { address(peer_ip, "peer_ip") }?),
            }
        };
        let verb = match tx_mode {
            0 => SendVerb::Send,
            1 => SendVerb::Write { base: peer_rx_base_addr },
            other => return Err(Refused::invalid(format!("tx_mode is {other}, which is no verb"))),
        };
        let transceiver = RoceTransceiver::new(RoceTransceiverOptions {
            device,
            ip: None,
            slots: num_pages,
            slot_bytes: size(page_size, "page_size")?,
            frame_bytes: size(frame_size, "frame_size")?,
            role: role([
                (forward, Role::Forward),
                (rx_only, Role::ReceiveOnly),
                (tx_only, Role::SendOnly),
                (unified, Role::Unified),
            ])?,
            verb,
        })?;
        handle = TRANSCEIVERS.insert(Arc::new(Named { transceiver, qp: tx_ibv_qp, peer, key: peer_rx_rkey }));
        Ok(())
    });
    handle
}

/// Closes and frees the transceiver.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_destroy_transceiver(handle: *mut c_void) {
    enter(|| {
        // Closed at once, so the device is free for others after this call.
        if let Some(named) = TRANSCEIVERS.remove(handle) {
            named.transceiver.close();
        }
        Ok(())
    });
}

/// Chooses the device's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_roce_set_local_ip(handle: *mut c_void, local_ip: *const c_char) {
    enter(|| {
        let named = find(handle)?;
        // SAFETY: the module's contract.
        named.transceiver.set_local_ip(unsafe { address(local_ip, "local_ip") }?)
    });
}

/// Opens, connects and starts, for a peer that was named at creation.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_start(handle: *mut c_void) -> c_int {
    yes(|| {
        let named = find(handle)?;
        let ip = named.peer.ok_or_else(|| Refused::invalid("no peer_ip was given: set up, then connect"))?;
        named.transceiver.setup()?;
        named.transceiver.connect(RemoteQueuePair { qp: named.qp, ip }, named.key)
    })
}

/// Opens the device.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_setup(handle: *mut c_void) -> c_int {
    yes(|| find(handle)?.transceiver.setup())
}

/// Connects the queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_roce_connect(
    handle: *mut c_void,
    peer_qp: c_uint,
    peer_ip: *const c_char,
    peer_rx_rkey: u32,
) -> c_int {
    yes(|| {
        let named = find(handle)?;
        // SAFETY: the module's contract.
        let ip = unsafe { address(peer_ip, "peer_ip") }?;
        named.transceiver.connect(RemoteQueuePair { qp: peer_qp, ip }, peer_rx_rkey)
    })
}

/// Moves slots until the transceiver is closed.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_blocking_monitor(handle: *mut c_void) {
    enter(|| find(handle)?.transceiver.monitor());
}

/// Stops moving slots.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_close(handle: *mut c_void) {
    enter(|| {
        find(handle)?.transceiver.close();
        Ok(())
    });
}

/// Writes the slot of a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cpu_roce_rx_poll(handle: *mut c_void, out_slot: *mut u32) -> c_int {
    let mut found = None;
    enter(|| {
        if out_slot.is_null() {
            return Err(Refused::invalid("the address for the slot is null"));
        }
        found = find(handle)?.transceiver.rx_poll()?;
        Ok(())
    });
    if let Some(index) = found {
        // SAFETY: not null, which was checked before anything was taken; the module's contract.
        unsafe { out_slot.write(index) };
    }
    c_int::from(found.is_some())
}

/// Sends a response slot.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_tx_publish(handle: *mut c_void, slot: u32) -> c_int {
    yes(|| find(handle)?.transceiver.tx_publish(slot))
}

fn get<T: Default>(handle: *mut c_void, of: impl FnOnce(&RoceTransceiver) -> Result<T, Refused>) -> T {
    let mut value = T::default();
    enter(|| {
        value = of(&find(handle)?.transceiver)?;
        Ok(())
    });
    value
}

fn side(of: &RoceTransceiver) -> Result<(u32, u32), Refused> {
    of.side().ok_or_else(|| Refused::invalid("the device is not open: set it up first"))
}

fn ring<T>(handle: *mut c_void, of: impl FnOnce(&RingWindows) -> u64) -> *mut T {
    let address = get(handle, |transceiver| Ok(of(&transceiver.ring().windows())));
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// The queue pair's number.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_qp_number(handle: *mut c_void) -> u32 {
    get(handle, |transceiver| Ok(side(transceiver)?.0))
}

/// The key to the window.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_rkey(handle: *mut c_void) -> u32 {
    get(handle, |transceiver| Ok(side(transceiver)?.1))
}

/// The address from which slots of the window count.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_buffer_addr(handle: *mut c_void) -> u64 {
    // The window's first address is 0. A wrong handle sets the thread's error.
    get(handle, |_| Ok(0))
}

/// Address of the messages.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_rx_ring_data_addr(handle: *mut c_void) -> *mut c_void {
    ring(handle, |windows| windows.rx_data.address())
}

/// Address of the messages' flags.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_rx_ring_flag_addr(handle: *mut c_void) -> *mut u64 {
    ring(handle, |windows| windows.rx_flags.address())
}

/// Address of the responses.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_tx_ring_data_addr(handle: *mut c_void) -> *mut c_void {
    ring(handle, |windows| windows.tx_data.address())
}

/// Address of the responses' flags.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_tx_ring_flag_addr(handle: *mut c_void) -> *mut u64 {
    ring(handle, |windows| windows.tx_flags.address())
}

/// Bytes of a slot.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_page_size(handle: *mut c_void) -> usize {
    get(handle, |transceiver| Ok(transceiver.ring().geometry().rx_stride() as usize))
}

/// Number of slots.
#[unsafe(no_mangle)]
pub extern "C" fn cpu_roce_get_num_pages(handle: *mut c_void) -> c_uint {
    get(handle, |transceiver| Ok(transceiver.ring().geometry().slots()))
}
