//! The three functions of a transport, over the queues of a NIC.
//!
//! Its context is a [`UnifiedParams`] in memory that the device reads: queues, slots, register, options;
//! `control`, a separate control block for events and cursors; `scratch`, [`TRANSPORT_STATE_BYTES`] of zeroed
//! device memory, where the queues' state stays from one start to the next. The session is that state and the
//! stop word.

use crate::queues;
use crate::window::words;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use ringcall_dispatcher::linked::Polled;
use ringcall_dispatcher::linked::queue_pair::Transport;
use ringcall_gpu::shared::Words;
use ringcall_mlx5::Register;
use ringcall_mlx5::layout::BLUE_FLAME_BYTES;
use ringcall_wire::unified::{
    RX_READY, RX_SHUTDOWN, SESSION_ALIGN, SESSION_BYTES, TRANSPORT_STATE_BYTES, UnifiedParams, control,
};

/// What stays from one start to the next.
#[repr(C, align(16))]
struct State {
    /// Whether the rest is there: 0 as the host made it.
    opened: u64,
    control: Words,
    transport: Transport<Register>,
}

/// What lies in the storage of a session.
#[repr(C)]
struct Session {
    state: *mut State,
    /// The aligned word that holds the stop word.
    stop: Words,
    /// Where in it.
    shift: u32,
}

const _: () = assert!(size_of::<State>() <= TRANSPORT_STATE_BYTES && align_of::<State>() == 16);
const _: () = assert!(size_of::<Session>() <= SESSION_BYTES && align_of::<Session>() <= SESSION_ALIGN);

/// Opens the queues, or continues with them.
///
/// # Safety
/// `storage` is [`SESSION_BYTES`] long and aligned to [`SESSION_ALIGN`]; `ctx` a context as the module says, that only one
/// session at a time is attached to; `shutdown` an int in mapped memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dev_transport_attach(
    storage: *mut c_void,
    ctx: *mut c_void,
    shutdown: *mut c_int,
) -> *mut c_void {
    if storage.is_null() || ctx.is_null() || shutdown.is_null() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    let params = unsafe { &*ctx.cast::<UnifiedParams>() };
    let state = params.scratch as usize as *mut State;
    if state.is_null() || !state.is_aligned() {
        return null_mut();
    }
    let at = shutdown.addr() as u64;
    // SAFETY: the caller's promise. The whole word lies where the int does: memory is mapped by pages.
    let Some(stop) = (unsafe { words(at & !7, 1) }) else { return null_mut() };
    // SAFETY: the host's promise: as long as a state, and zero before the first start.
    if unsafe { (*state).opened } == 0 {
        // SAFETY: the caller's promise.
        let opened = unsafe { open(params) };
        let Some((control, transport)) = opened else { return null_mut() };
        // SAFETY: as above; nothing is there that would have to be dropped.
        unsafe { state.write(State { opened: 1, control, transport }) };
    }
    let session = storage.cast::<Session>();
    // SAFETY: the caller's promise, and the sizes above.
    unsafe { session.write(Session { state, stop, shift: (at & 4) as u32 * 8 }) };
    storage
}

/// # Safety
/// As for [`cudaq_dev_transport_attach`].
unsafe fn open(params: &UnifiedParams) -> Option<(Words, Transport<Register>)> {
    // SAFETY: the caller's promise.
    let control = unsafe { words(params.control, control::WORDS) }?;
    // SAFETY: the caller's promise.
    let uar = unsafe { words(params.uar, BLUE_FLAME_BYTES / 8) }?;
    // SAFETY: the caller's promise.
    let windows = unsafe { queues::windows(params) }?;
    let bell = Register::new(uar).ok()?;
    let transport = Transport::new(queues::config(params), queues::extent(params), windows, bell).ok()?;
    Some((control, transport))
}

/// Waits for a request and room for its response.
///
/// # Safety
/// `session` is what [`cudaq_dev_transport_attach`] gave, in the same kernel; the others are writable, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dev_rx_poll(
    session: *mut c_void,
    request: *mut *mut c_void,
    response: *mut *mut c_void,
) -> c_int {
    if session.is_null() || request.is_null() || response.is_null() {
        return RX_SHUTDOWN;
    }
    // SAFETY: the caller's promise: one thread has the session.
    let session = unsafe { &*session.cast::<Session>() };
    // SAFETY: as for the session.
    let state = unsafe { &mut *session.state };
    let stop = || u64::from((session.stop.load(0, Ordering::Relaxed) >> session.shift) as u32);
    let (to, from) = match state.transport.poll(stop, || ()) {
        Polled::Ready { request, response } => (request.address(), response.address()),
        Polled::Unusable => (0, 0),
        Polled::Shutdown | Polled::Unknown => {
            state.transport.report(&state.control);
            return RX_SHUTDOWN;
        }
    };
    // SAFETY: the caller's promise.
    unsafe { request.write(to as usize as *mut c_void) };
    // SAFETY: the caller's promise.
    unsafe { response.write(from as usize as *mut c_void) };
    RX_READY
}

/// Sends the response that lies at `response`, as long as its header says.
///
/// # Safety
/// As for [`cudaq_dev_rx_poll`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dev_tx_publish(session: *mut c_void, response: *mut c_void) {
    if session.is_null() {
        return;
    }
    // SAFETY: the caller's promise: one thread has the session.
    let session = unsafe { &*session.cast::<Session>() };
    // SAFETY: as for the session.
    let state = unsafe { &mut *session.state };
    state.transport.publish(response.addr() as u64);
}
