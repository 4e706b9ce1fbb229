//! Structs of the C interface, as a 64-bit machine lays them out. The same offsets are asserted in C and C++
//! (`tests/c_programs/layout.c`, `layout.cpp`). Function entries, schemas and headers are `ringcall-wire`'s; what transports
//! hand out is `ringcall-bridge`'s.

#![allow(non_camel_case_types)] // C's names

use core::ffi::{c_int, c_void};
use core::mem::{align_of, offset_of, size_of};
pub use ringcall_bridge::layout::{
    CpuDataplane as cudaq_cpu_dataplane_t, RingBuffer as cudaq_ringbuffer_t,
    UnifiedContext as cudaq_unified_dispatch_ctx_t,
};
use ringcall_wire::entry::{FunctionEntry, LegacyFunctionEntry, SeedFunctionEntry};
use ringcall_wire::launch::context;

/// `cudaStream_t`.
pub type cudaStream_t = *mut c_void;
/// `cudaGraphExec_t`.
pub type cudaGraphExec_t = *mut c_void;
/// `cudaError_t`.
pub type cudaError_t = c_int;

/// A function on the host: request slot, response slot, bytes of the smaller one.
pub type HostRpcFn = unsafe extern "C" fn(*const c_void, *mut c_void, usize);

/// Launches a dispatch kernel.
pub type DispatchLaunchFn = unsafe extern "C" fn(
    rx_flags: *mut u64,
    tx_flags: *mut u64,
    rx_data: *mut u8,
    tx_data: *mut u8,
    rx_stride_sz: usize,
    tx_stride_sz: usize,
    function_table: *mut FunctionEntry,
    func_count: usize,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
    num_slots: usize,
    num_blocks: u32,
    threads_per_block: u32,
    stream: cudaStream_t,
);

/// Launches a unified kernel: the specification's signature.
pub type UnifiedLaunchFnV1 =
    unsafe extern "C" fn(*mut c_void, *mut FunctionEntry, usize, *mut c_int, *mut u64, cudaStream_t);
/// Launches a unified kernel: the later signature, with `tx_stride_sz`.
pub type UnifiedLaunchFnV2 =
    unsafe extern "C" fn(*mut c_void, usize, *mut FunctionEntry, usize, *mut c_int, *mut u64, cudaStream_t);

/// A worker's hook: user data, the request slot as the device sees it, the worker's stream.
pub type WorkerHook = unsafe extern "C" fn(*mut c_void, *mut c_void, cudaStream_t);

macro_rules! c_structs {
    ($($(#[$doc:meta])* $name:ident, $bytes:literal { $($(#[$fdoc:meta])* $field:ident @ $at:literal: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            pub struct $name { $($(#[$fdoc])* pub $field: $type,)* }

            const _: () = {
                assert!(size_of::<$name>() == $bytes);
                $(assert!(offset_of!($name, $field) == $at);)*
            };
        )*
    };
}

c_structs! {
    /// Choices of a dispatcher. Enumerations are raw numbers until they are checked.
    cudaq_dispatcher_config_t, 44 {
        /// CUDA device.
        device_id @ 0: c_int,
        /// Blocks; 0 for 1.
        num_blocks @ 4: u32,
        /// Threads of a block; 0 for 32.
        threads_per_block @ 8: u32,
        /// Slots of the ring.
        num_slots @ 12: u32,
        /// Bytes of a slot.
        slot_size @ 16: u32,
        /// A label.
        vp_id @ 20: u32,
        /// Raw kernel type.
        kernel_type @ 24: u32,
        /// Raw dispatch mode.
        dispatch_mode @ 28: u32,
        /// Raw dispatch path.
        dispatch_path @ 32: u32,
        /// No in-flight marks.
        skip_tx_markers @ 36: c_int,
        /// Others serve the ring too.
        shared_ring_mode @ 40: c_int,
    }

    /// A function table.
    cudaq_function_table_t, 16 {
        /// Entries, of 168, 176 or 192 bytes.
        entries @ 0: *mut FunctionEntry,
        /// How many.
        count @ 8: u32,
    }

    /// Where a graph finds its request and puts its response.
    GraphIOContext, 40 {
        /// Request slot.
        rx_slot @ 0: u64,
        /// Response slot.
        tx_slot @ 8: u64,
        /// The response's flag.
        tx_flag @ 16: u64,
        /// Its value when the response is there.
        tx_flag_value @ 24: u64,
        /// Bytes of the response slot.
        tx_stride_sz @ 32: u64,
    }

    /// A worker of a graph launch engine.
    cudaq_host_dispatch_worker_t, 64 {
        /// The graph.
        graph_exec @ 0: cudaGraphExec_t,
        /// Its stream.
        stream @ 8: cudaStream_t,
        /// The function it serves.
        function_id @ 16: u32,
        /// Before each launch.
        pre_launch_fn @ 24: Option<WorkerHook>,
        /// Passed on.
        pre_launch_data @ 32: *mut c_void,
        /// After each launch.
        post_launch_fn @ 40: Option<WorkerHook>,
        /// Passed on.
        post_launch_data @ 48: *mut c_void,
        /// Which of several workers of one function.
        routing_key @ 56: u64,
    }

    /// A graph launch engine, as C reads it.
    cudaq_graph_launch_engine_t, 152 {
        /// The ring.
        ringbuffer @ 0: cudaq_ringbuffer_t,
        /// Workers.
        workers @ 80: *mut cudaq_host_dispatch_worker_t,
        /// How many.
        num_workers @ 88: usize,
        /// A bit for each.
        worker_mask @ 96: u64,
        /// One 64-bit atomic: bit i set while worker i is idle.
        idle_mask @ 104: *mut c_void,
        /// The slot that each serves.
        inflight_slot_tags @ 112: *mut c_int,
        /// One pointer a worker.
        h_mailbox_bank @ 120: *mut *mut c_void,
        /// [`GraphIOContext`]s, host.
        io_ctxs_host @ 128: *mut c_void,
        /// [`GraphIOContext`]s, device.
        io_ctxs_dev @ 136: *mut c_void,
        /// No in-flight marks.
        skip_tx_markers @ 144: c_int,
        /// The mailbox is the engine's.
        owns_mailbox @ 148: c_int,
    }
}

const _: () = {
    assert!(size_of::<FunctionEntry>() == 176 && size_of::<SeedFunctionEntry>() == 168);
    assert!(size_of::<LegacyFunctionEntry>() == 192 && align_of::<FunctionEntry>() == 8);
    // The same memory as kernels fill it, by words.
    assert!(offset_of!(GraphIOContext, rx_slot) == context::RX_SLOT * 8);
    assert!(offset_of!(GraphIOContext, tx_slot) == context::TX_SLOT * 8);
    assert!(offset_of!(GraphIOContext, tx_flag) == context::TX_FLAG * 8);
    assert!(offset_of!(GraphIOContext, tx_flag_value) == context::TX_VALUE * 8);
    assert!(offset_of!(GraphIOContext, tx_stride_sz) == context::TX_STRIDE * 8);
    assert!(size_of::<GraphIOContext>() == context::WORDS * 8);
    assert!(align_of::<cudaq_dispatcher_config_t>() == 4 && align_of::<cudaq_ringbuffer_t>() == 8);
};
