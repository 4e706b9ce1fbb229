//! Layout of the bridge interface: its structures and numbers, byte by byte (CUDA-Q Realtime host API; x86-64 and
//! AArch64 Linux). `include/cudaq/realtime/daemon/bridge/bridge_interface.h` declares the same in C; a test compiles
//! the header and compares.
//!
//! Enumerations are passed as [`c_int`]: a number from outside is not a Rust `enum` until it is checked.

use core::ffi::{c_char, c_int, c_void};
use core::mem::{align_of, offset_of, size_of};

/// The newest version of the interface that this crate knows.
pub const INTERFACE_VERSION: c_int = 3;

/// The function that a library exports: [`GetInterface`].
pub const GET_INTERFACE: &str = "cudaq_realtime_get_bridge_interface";

/// Number of the context of a ring buffer: [`RingBuffer`].
pub const CONTEXT_RING_BUFFER: c_int = 0;
/// Number of the context of a unified kernel: [`UnifiedContext`].
pub const CONTEXT_UNIFIED: c_int = 1;

/// `cudaq_rx_status_t`: a request is there.
pub const RX_READY: c_int = 0;
/// `cudaq_rx_status_t`: no request is there.
pub const RX_EMPTY: c_int = 1;

/// `cudaq_realtime_transport_provider_t`: the library that comes with the API.
pub const PROVIDER_GPU_ROCE: c_int = 0;
/// `cudaq_realtime_transport_provider_t`: the library that `CUDAQ_REALTIME_BRIDGE_LIB` names.
pub const PROVIDER_EXTERNAL: c_int = 1;

/// A provider's instance: opaque.
pub type Handle = *mut c_void;

/// `cudaq_ringbuffer_t`: four arrays, as the device and as the host see them. Flags are one 64-bit word a slot.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RingBuffer {
    /// Request flags, device's address.
    pub rx_flags: *mut u64,
    /// Response flags, device's address.
    pub tx_flags: *mut u64,
    /// Requests, device's address.
    pub rx_data: *mut u8,
    /// Responses, device's address.
    pub tx_data: *mut u8,
    /// Bytes from one request slot to the next.
    pub rx_stride_sz: usize,
    /// Bytes from one response slot to the next.
    pub tx_stride_sz: usize,
    /// Request flags, host's address.
    pub rx_flags_host: *mut u64,
    /// Response flags, host's address.
    pub tx_flags_host: *mut u64,
    /// Requests, host's address.
    pub rx_data_host: *mut u8,
    /// Responses, host's address.
    pub tx_data_host: *mut u8,
}

impl RingBuffer {
    /// All zero, for a callee to fill.
    pub const EMPTY: Self = Self {
        rx_flags: core::ptr::null_mut(),
        tx_flags: core::ptr::null_mut(),
        rx_data: core::ptr::null_mut(),
        tx_data: core::ptr::null_mut(),
        rx_stride_sz: 0,
        tx_stride_sz: 0,
        rx_flags_host: core::ptr::null_mut(),
        tx_flags_host: core::ptr::null_mut(),
        rx_data_host: core::ptr::null_mut(),
        tx_data_host: core::ptr::null_mut(),
    };
}

/// A launch function whose signature this crate does not need.
pub type OpaqueFn = unsafe extern "C" fn();

/// `cudaq_unified_dispatch_ctx_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UnifiedContext {
    /// `cudaq_unified_launch_fn_t`. Provider and dispatcher agree on its signature.
    pub launch_fn: Option<OpaqueFn>,
    /// The launch function's argument.
    pub transport_ctx: *mut c_void,
}

impl UnifiedContext {
    /// All zero, for a callee to fill.
    pub const EMPTY: Self = Self { launch_fn: None, transport_ctx: core::ptr::null_mut() };
}

/// `cudaq_cpu_rx_poll_fn_t`: [`RX_READY`] and a slot, or [`RX_EMPTY`]; never blocks.
pub type RxPoll = unsafe extern "C" fn(ctx: *mut c_void, slot: *mut u32) -> c_int;
/// `cudaq_cpu_tx_publish_fn_t`: sends the response in a slot, in any order; a C status.
pub type TxPublish = unsafe extern "C" fn(ctx: *mut c_void, slot: u32) -> c_int;

/// `cudaq_cpu_dataplane_t`: a transport driven by one thread of its user.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CpuDataplane {
    /// The hooks' first argument.
    pub ctx: *mut c_void,
    /// The slots: host addresses and strides are set.
    pub ring: RingBuffer,
    /// Takes a request.
    pub rx_poll: Option<RxPoll>,
    /// Sends an answer.
    pub tx_publish: Option<TxPublish>,
}

impl CpuDataplane {
    /// All zero, for a callee to fill.
    pub const EMPTY: Self =
        Self { ctx: core::ptr::null_mut(), ring: RingBuffer::EMPTY, rx_poll: None, tx_publish: None };
}

/// `create`: creates an instance from arguments. It ignores unknown arguments.
pub type Create = unsafe extern "C" fn(handle: *mut Handle, argc: c_int, argv: *mut *mut c_char) -> c_int;
/// `destroy`, `connect`, `launch`, `disconnect`.
pub type OnHandle = unsafe extern "C" fn(handle: Handle) -> c_int;
/// `get_transport_context`: fills a [`RingBuffer`] or a [`UnifiedContext`].
pub type GetContext = unsafe extern "C" fn(handle: Handle, kind: c_int, out: *mut c_void) -> c_int;
/// `get_cpu_dataplane`.
pub type GetDataplane = unsafe extern "C" fn(handle: Handle, out: *mut CpuDataplane) -> c_int;
/// `get_endpoint_info`: one line of `key=value` pairs and a NUL, available right after `create`.
pub type GetText = unsafe extern "C" fn(handle: Handle, out: *mut c_char, len: usize) -> c_int;
/// `get_ring_geometry`.
pub type GetGeometry = unsafe extern "C" fn(handle: Handle, slots: *mut u32, slot_bytes: *mut u32) -> c_int;

/// `set_function_table`: the dispatcher's `cudaq_function_entry_t`s and their number. This only registers them: the
/// provider calls none.
pub type SetTable = unsafe extern "C" fn(handle: Handle, entries: *mut c_void, count: usize) -> c_int;

/// `cudaq_function_table_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CudaqFunctionTable {
    /// `cudaq_function_entry_t`s of the size with which the program was compiled.
    pub entries: *mut c_void,
    /// The number of entries.
    pub count: u32,
}

/// `cudaq_realtime_bridge_interface_t`, version 1.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct InterfaceV1 {
    /// The version for which the library was built.
    pub version: c_int,
    /// Creates an instance.
    pub create: Option<Create>,
    /// Destroys an instance.
    pub destroy: Option<OnHandle>,
    /// Returns where requests and responses are.
    pub get_transport_context: Option<GetContext>,
    /// Waits for a peer, if the provider needs one.
    pub connect: Option<OnHandle>,
    /// Starts moving data.
    pub launch: Option<OnHandle>,
    /// Stops moving data.
    pub disconnect: Option<OnHandle>,
}

/// `cudaq_realtime_bridge_interface_t`, version 2.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct InterfaceV2 {
    /// The members of version 1.
    pub v1: InterfaceV1,
    /// Returns the hooks for a loop of the user's.
    pub get_cpu_dataplane: Option<GetDataplane>,
    /// Returns the instance's address.
    pub get_endpoint_info: Option<GetText>,
    /// Returns the number of slots and the bytes of each.
    pub get_ring_geometry: Option<GetGeometry>,
}

/// `cudaq_realtime_bridge_interface_t`, version 3.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Interface {
    /// The members of version 2.
    pub v2: InterfaceV2,
    /// Takes the dispatcher's function table; null in a provider that needs none.
    pub set_function_table: Option<SetTable>,
}

/// The type of [`GET_INTERFACE`].
pub type GetInterface = unsafe extern "C" fn() -> *const Interface;

macro_rules! layout {
    ($type:ty: $size:literal, $align:literal { $($field:ident $(. $inner:ident)?: $offset:literal),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<$type>() == $size && align_of::<$type>() == $align);
            $(assert!(offset_of!($type, $field $(. $inner)?) == $offset);)*
        };
    };
}

layout!(RingBuffer: 80, 8 {
    rx_flags: 0, tx_flags: 8, rx_data: 16, tx_data: 24, rx_stride_sz: 32, tx_stride_sz: 40,
    rx_flags_host: 48, tx_flags_host: 56, rx_data_host: 64, tx_data_host: 72,
});
layout!(UnifiedContext: 16, 8 { launch_fn: 0, transport_ctx: 8 });
layout!(CpuDataplane: 104, 8 { ctx: 0, ring: 8, rx_poll: 88, tx_publish: 96 });
layout!(InterfaceV1: 56, 8 {
    version: 0, create: 8, destroy: 16, get_transport_context: 24, connect: 32, launch: 40, disconnect: 48,
});
layout!(InterfaceV2: 80, 8 {
    v1.version: 0, v1.disconnect: 48, get_cpu_dataplane: 56, get_endpoint_info: 64, get_ring_geometry: 72,
});
layout!(Interface: 88, 8 { v2: 0, set_function_table: 80 });
layout!(CudaqFunctionTable: 16, 8 { entries: 0, count: 8 });
