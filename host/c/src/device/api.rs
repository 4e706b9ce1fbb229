//! Launch helpers, occupancy, dispatch graphs.

use super::ledger::Ledger;
use super::linked::{Asked, Linked, Which, occupancy as occupancy_of};
use super::report;
use crate::layout::{cudaError_t, cudaGraphExec_t, cudaStream_t, cudaq_ringbuffer_t};
use crate::raw_ring::aligned;
use crate::status::{Fault, attempt, cuda_error};
use core::ffi::{c_int, c_ulonglong, c_void};
use ringcall_cuda::driver::Driver;
use ringcall_launch::ring::LinkedGraphs;
use ringcall_wire::entry::FunctionEntry;
use std::sync::Arc;

/// The reason why nothing is launched: handlers are addresses in a module that does not contain these kernels.
pub(crate) fn not_linked(call: &str) -> Fault {
    match Driver::load() {
        Err(error) => error.into(),
        Ok(_) => Fault::unsupported(format!(
            "{call}: the program is not linked with the device archive (nvcc -rdc=true ... -lringcall_device -lringcall), \
             and handlers of another module are never called by address"
        )),
    }
}

fn refuse_launch(call: &str) {
    if let Err(fault) = attempt(|| Err::<(), Fault>(not_linked(call))) {
        report(fault);
    }
}

macro_rules! launch_helper {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)] // the specification's
        pub unsafe extern "C" fn $name(
            _rx_flags: *mut u64,
            _tx_flags: *mut u64,
            _rx_data: *mut u8,
            _tx_data: *mut u8,
            _rx_stride_sz: usize,
            _tx_stride_sz: usize,
            _function_table: *mut FunctionEntry,
            _func_count: usize,
            _shutdown_flag: *mut c_int,
            _stats: *mut u64,
            _num_slots: usize,
            _num_blocks: u32,
            _threads_per_block: u32,
            _stream: cudaStream_t,
        ) {
            refuse_launch(stringify!($name));
        }
    };
}

launch_helper! {
    /// Launches the regular kernel. This version, without the device archive, launches nothing.
    cudaq_launch_dispatch_kernel_regular
}
launch_helper! {
    /// Launches the cooperative kernel. This version, without the device archive, launches nothing.
    cudaq_launch_dispatch_kernel_cooperative
}

/// Blocks of the regular kernel that fit a multiprocessor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatch_kernel_query_occupancy(
    out_blocks: *mut c_int,
    threads_per_block: u32,
) -> cudaError_t {
    // SAFETY: the header's contract.
    unsafe { occupancy(out_blocks, threads_per_block, "cudaq_dispatch_kernel_query_occupancy") }
}

/// Blocks of the cooperative kernel that fit a multiprocessor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatch_kernel_cooperative_query_occupancy(
    out_blocks: *mut c_int,
    threads_per_block: u32,
) -> cudaError_t {
    // SAFETY: the header's contract.
    unsafe { occupancy(out_blocks, threads_per_block, "cudaq_dispatch_kernel_cooperative_query_occupancy") }
}

/// Blocks of a dispatch graph's kernel that fit a multiprocessor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatch_graph_query_occupancy(
    out_blocks: *mut c_int,
    threads_per_block: u32,
) -> cudaError_t {
    // SAFETY: the header's contract.
    unsafe { occupancy(out_blocks, threads_per_block, "ringcall_dispatch_graph_query_occupancy") }
}

/// # Safety
/// `out_blocks` is null, or an int.
unsafe fn occupancy(out_blocks: *mut c_int, threads: u32, call: &str) -> cudaError_t {
    cuda_error(|| {
        aligned(out_blocks.cast_const(), 4, "out_blocks")?;
        // SAFETY: not null, aligned, and the caller's promise.
        unsafe { out_blocks.write(0) };
        if threads == 0 || threads > 1024 {
            return Err(Fault::invalid(format!("{threads} threads a block: 1 to 1024")));
        }
        Err(not_linked(call))
    })
}

/// Sets whether kernels launched from now on leave other dispatchers' requests alone.
#[unsafe(no_mangle)]
pub extern "C" fn cudaq_dispatch_kernel_set_shared_ring_mode(enabled: u32) -> cudaError_t {
    cuda_error(|| {
        super::share_rings(enabled != 0);
        Ok(())
    })
}

macro_rules! create_graph {
    ($(#[$doc:meta])* $name:ident $(, $trigger:ident: $type:ty)?) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)] // the specification's
        pub unsafe extern "C" fn $name(
            _rx_flags: *mut u64,
            _tx_flags: *mut u64,
            _rx_data: *mut u8,
            _tx_data: *mut u8,
            _rx_stride_sz: usize,
            _tx_stride_sz: usize,
            _function_table: *mut FunctionEntry,
            _func_count: usize,
            _graph_io_ctx: *mut c_void,
            _shutdown_flag: *mut c_int,
            _stats: *mut u64,
            _num_slots: usize,
            _num_blocks: u32,
            _threads_per_block: u32,
            $($trigger: $type,)?
            _stream: cudaStream_t,
            out_context: *mut *mut c_void,
        ) -> cudaError_t {
            cuda_error(|| {
                aligned(out_context.cast_const(), 8, "out_context")?;
                Err(not_linked(stringify!($name)))
            })
        }
    };
}

create_graph! {
    /// Makes a dispatch graph, with the reference's present signature. This version, without the device archive,
    /// makes none.
    cudaq_create_dispatch_graph_regular, _trigger_graph: cudaGraphExec_t
}
create_graph! {
    /// The name that [`cudaq_create_dispatch_graph_regular`] had in earlier versions of this library.
    cudaq_create_dispatch_graph_regular_v2, _trigger_graph: cudaGraphExec_t
}
create_graph! {
    /// The specification's signature: without a trigger graph.
    cudaq_create_dispatch_graph_regular_v1
}

/// Dispatch graphs whose handles C holds.
static GRAPHS: Ledger<Linked> = Ledger::new("dispatch graph");

/// Launches a dispatch graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_launch_dispatch_graph(
    context: *mut c_void,
    stream: cudaStream_t,
) -> cudaError_t {
    cuda_error(|| {
        // SAFETY: the header's contract.
        unsafe { GRAPHS.get(context)?.relaunch(stream) }
    })
}

/// Ends a dispatch graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_destroy_dispatch_graph(context: *mut c_void) -> cudaError_t {
    cuda_error(|| {
        GRAPHS.get(context)?.end()?;
        GRAPHS.remove(context).map(drop)
    })
}

/// Statistics of the launches that dispatch graphs of the current device have made by themselves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatch_get_trigger_debug(
    trigger_rc: *mut c_int,
    fires: *mut c_ulonglong,
    tail_relaunches: *mut c_ulonglong,
) -> cudaError_t {
    cuda_error(|| {
        let device = Driver::load()?.current_device()?;
        let so_far = GRAPHS.so_far(device);
        // SAFETY: the header's contract: null, or an int.
        unsafe { give(trigger_rc, so_far.trigger_rc()) };
        for (to, count) in [(fires, so_far.fires()), (tail_relaunches, so_far.relaunches())] {
            // SAFETY: likewise.
            unsafe { give(to, count) };
        }
        Ok(())
    })
}

/// # Safety
/// `to` is null, or a `T`.
unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write_unaligned(value) };
    }
}

/// The device archive's side of the launch helpers: `kernel` is 0 (regular) or 1 (cooperative), and `function` is the
/// result of `cudaGetFuncBySymbol` for it on `device`. Errors are also reported to the dispatcher that launches.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // the specification's
pub unsafe extern "C" fn ringcall_linked_launch(
    kernel: c_int,
    device: c_int,
    function: *mut c_void,
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
) -> cudaError_t {
    let asked = Asked {
        ring: device_ring(rx_flags, tx_flags, rx_data, tx_data, rx_stride_sz, tx_stride_sz),
        table: function_table,
        count: func_count,
        shutdown: shutdown_flag,
        stats,
        slots: num_slots,
        blocks: num_blocks,
        threads: threads_per_block,
        graphs: LinkedGraphs::default(),
    };
    let launched = attempt(|| {
        // SAFETY: the header's contract.
        let linked = unsafe { Linked::new(Which::of(kernel)?, device, function, &asked, stream) }?;
        // SAFETY: the header's contract.
        super::hand_over(unsafe { linked.launch(stream) }?);
        Ok(())
    });
    launched.map_or_else(
        |fault| {
            let code = fault.cuda as cudaError_t;
            report(fault);
            code
        },
        |()| 0,
    )
}

/// The device archive's side of `cudaq_create_dispatch_graph_regular`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // the specification's
pub unsafe extern "C" fn ringcall_linked_graph_create(
    device: c_int,
    function: *mut c_void,
    rx_flags: *mut u64,
    tx_flags: *mut u64,
    rx_data: *mut u8,
    tx_data: *mut u8,
    rx_stride_sz: usize,
    tx_stride_sz: usize,
    function_table: *mut FunctionEntry,
    func_count: usize,
    graph_io_ctx: *mut c_void,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
    num_slots: usize,
    num_blocks: u32,
    threads_per_block: u32,
    trigger_graph: cudaGraphExec_t,
    stream: cudaStream_t,
    out_context: *mut *mut c_void,
) -> cudaError_t {
    let asked = Asked {
        ring: device_ring(rx_flags, tx_flags, rx_data, tx_data, rx_stride_sz, tx_stride_sz),
        table: function_table,
        count: func_count,
        shutdown: shutdown_flag,
        stats,
        slots: num_slots,
        blocks: num_blocks,
        threads: threads_per_block,
        graphs: LinkedGraphs { context: graph_io_ctx.addr() as u64, trigger: trigger_graph.addr() as u64 },
    };
    cuda_error(|| {
        aligned(out_context.cast_const(), 8, "out_context")?;
        // SAFETY: the header's contract.
        let linked = unsafe { Linked::new(Which::Graph, device, function, &asked, stream) }?;
        let handle = GRAPHS.insert(Arc::new(linked));
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_context.write(handle) };
        Ok(())
    })
}

/// The device archive's side of the occupancy queries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_linked_occupancy(
    kernel: c_int,
    device: c_int,
    function: *mut c_void,
    out_blocks: *mut c_int,
    threads_per_block: u32,
) -> cudaError_t {
    cuda_error(|| {
        aligned(out_blocks.cast_const(), 4, "out_blocks")?;
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_blocks.write(0) };
        // SAFETY: the header's contract.
        let blocks = unsafe { occupancy_of(Which::of(kernel)?, device, function, threads_per_block) }?;
        // SAFETY: as above.
        unsafe { out_blocks.write(blocks as c_int) };
        Ok(())
    })
}

fn device_ring(
    rx_flags: *mut u64,
    tx_flags: *mut u64,
    rx_data: *mut u8,
    tx_data: *mut u8,
    rx_stride_sz: usize,
    tx_stride_sz: usize,
) -> cudaq_ringbuffer_t {
    cudaq_ringbuffer_t {
        rx_flags,
        tx_flags,
        rx_data,
        tx_data,
        rx_stride_sz,
        tx_stride_sz,
        rx_flags_host: core::ptr::null_mut(),
        tx_flags_host: core::ptr::null_mut(),
        rx_data_host: core::ptr::null_mut(),
        tx_data_host: core::ptr::null_mut(),
    }
}
