//! The unified kernel over a transport that it is linked with: three functions receive and send, in Rust, C++ or anything else
//! whose compiler makes PTX.

use crate::machine::Warps;
use crate::setup::{shared_base, table_source};
use crate::window::words;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use ringcall_dispatcher::linked::{Hooked, Hooks, Polled};
use ringcall_gpu::ptx;
use ringcall_gpu::shared::Bytes;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_wire::unified::{RX_READY, RX_SHUTDOWN, SESSION_ALIGN, SESSION_BYTES, UnifiedParams, control};

unsafe extern "C" {
    /// Makes a session in `storage`, of the transport that `ctx` describes; null if it cannot.
    fn cudaq_dev_transport_attach(
        storage: *mut c_void,
        ctx: *mut c_void,
        shutdown: *mut c_int,
    ) -> *mut c_void;
    /// Waits for a request, or for the shutdown word.
    fn cudaq_dev_rx_poll(
        session: *mut c_void,
        request: *mut *mut c_void,
        response: *mut *mut c_void,
    ) -> c_int;
    /// Sends the response.
    fn cudaq_dev_tx_publish(session: *mut c_void, response: *mut c_void);
}

/// What the transport has to itself.
#[repr(C, align(16))]
struct Storage([u64; SESSION_BYTES / 8]);

const _: () = assert!(align_of::<Storage>() == SESSION_ALIGN && size_of::<Storage>() == SESSION_BYTES);

/// A session of the transport that is linked in.
struct Linked {
    session: *mut c_void,
    request_bytes: u32,
    response_bytes: u32,
}

impl Hooks for Linked {
    #[inline(always)]
    fn poll(&mut self) -> Polled {
        let (mut request, mut response) = (null_mut(), null_mut());
        // SAFETY: the session is what the transport made; the host's promise is that this is a transport.
        let said = unsafe { cudaq_dev_rx_poll(self.session, &raw mut request, &raw mut response) };
        match said {
            RX_READY => (),
            RX_SHUTDOWN => return Polled::Shutdown,
            _ => return Polled::Unknown,
        }
        // SAFETY: the host's promise: requests and responses of this transport are frames of that size, ours until published.
        let request = unsafe { Bytes::from_raw(request.cast(), self.request_bytes as usize) };
        // SAFETY: as for the request.
        let response = unsafe { Bytes::from_raw(response.cast(), self.response_bytes as usize) };
        match (request, response) {
            (Ok(request), Ok(response)) => Polled::Ready { request, response },
            _ => Polled::Unusable,
        }
    }

    #[inline(always)]
    fn publish(&mut self, response: &Bytes) {
        // SAFETY: the session is the transport's, and the address one that it gave.
        unsafe { cudaq_dev_tx_publish(self.session, response.address() as usize as *mut c_void) };
    }
}

/// The unified dispatcher of one thread, over a transport that is linked in.
///
/// Of the parameters it reads the table, the control block, the context, the strides (bytes of a frame), and where the staging buffers
/// are.
///
/// # Safety
/// `params` as the host fills them for this launch: a table, a control block and a context that outlive the kernel, in the
/// transport's own terms; dynamic shared memory for two staging buffers, or scratch; one thread.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_unified_hooks(params: UnifiedParams) {
    let params = &params;
    // SAFETY: the caller's promise.
    let Some(control) = (unsafe { words(params.control, control::WORDS) }) else { return };
    let refuse = || control.store(control::STATE, control::STATE_FAILED, Ordering::Release);
    let in_shared = params.scratch == 0;
    if in_shared && ptx::dynamic_shared_bytes() < 2 * params.staging_bytes {
        return refuse();
    }
    let mut storage = Storage([0; SESSION_BYTES / 8]);
    let context = params.context as usize as *mut c_void;
    let shutdown = (params.control as usize + control::STOP * 8) as *mut c_int;
    // SAFETY: storage of the interface's size and alignment, which outlives the session; a stop word whose lower half, by
    // which it is never 0 when the whole is not, is an int.
    let session = unsafe { cudaq_dev_transport_attach((&raw mut storage).cast(), context, shutdown) };
    if session.is_null() {
        return refuse();
    }
    // SAFETY: the caller's promise.
    let table = unsafe { table_source!(params).view() };
    let hooked = Hooked {
        table,
        control: &control,
        machine: &Warps { sleep_ns: 0 },
        response_bytes: params.tx_stride,
    };
    let base = if in_shared { shared_base() } else { params.scratch };
    let staging = |which: u32| {
        let at = base + u64::from(which) * u64::from(params.staging_bytes);
        // SAFETY: inside the memory that the host made room in; one thread.
        unsafe { StagingBuffer::from_raw(at, params.staging_bytes as usize / 8) }
    };
    let mut linked = Linked { session, request_bytes: params.rx_stride, response_bytes: params.tx_stride };
    hooked.run(&mut linked, staging(0), staging(1));
}
