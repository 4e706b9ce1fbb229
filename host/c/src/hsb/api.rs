//! `ringcall_hsb.h`.

use super::adapter::{ADAPTERS, Adapter, For};
use super::device::{Found, Kernels};
use super::{Asked, Form, launch};
use crate::device::{hand_over, report};
use crate::layout::cudaStream_t;
use crate::raw_ring::{aligned, array};
use crate::status::{Fault, attempt, status};
use core::ffi::{c_int, c_void};
use ringcall_rdma::context::Context;
use ringcall_wire::entry::FunctionEntry;
use std::sync::Arc;
use std::time::Duration;

/// # Safety
/// The header's contract of `ringcall_hsb_create` and `ringcall_hsb_create_for_three`.
unsafe fn create(
    made_for: For,
    page_size: usize,
    num_pages: u32,
    device_id: c_int,
    out_transceiver: *mut *mut c_void,
) -> c_int {
    status(|| {
        aligned(out_transceiver.cast_const(), 8, "out_transceiver")?;
        let device = match device_id {
            -1 => None,
            id => Some(u32::try_from(id).map_err(|_| Fault::invalid(format!("there is no device {id}")))?),
        };
        let handle = ADAPTERS.insert(Arc::new(Adapter::new(page_size, num_pages, device, made_for)?));
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_transceiver.write(handle) };
        Ok(())
    })
}

/// Makes an adapter without hardware, and its peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_create(
    page_size: usize,
    num_pages: u32,
    device_id: c_int,
    out_transceiver: *mut *mut c_void,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe { create(For::Unified, page_size, num_pages, device_id, out_transceiver) }
}

/// Makes one whose queues three kernels work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_create_for_three(
    page_size: usize,
    num_pages: u32,
    device_id: c_int,
    out_transceiver: *mut *mut c_void,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe { create(For::Three, page_size, num_pages, device_id, out_transceiver) }
}

/// Ends an adapter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_destroy(transceiver: *mut c_void) -> c_int {
    status(|| {
        ADAPTERS.get(transceiver)?.end()?;
        ADAPTERS.remove(transceiver).map(drop)
    })
}

/// The adapter's context, in the form that says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_get_context(
    transceiver: *mut c_void,
    out_context: *mut Context,
) -> c_int {
    status(|| {
        let adapter = ADAPTERS.get(transceiver)?;
        aligned(out_context.cast_const(), 8, "out_context")?;
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_context.write(adapter.context()) };
        Ok(())
    })
}

/// The peer writes a request into a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_write(
    transceiver: *mut c_void,
    page: u32,
    frame: *const c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        let adapter = ADAPTERS.get(transceiver)?;
        // SAFETY: the header's contract.
        adapter.write(page, unsafe { array(frame.cast::<u8>(), bytes, "the frame") }?)
    })
}

/// The peer takes an answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_receive(
    transceiver: *mut c_void,
    frame: *mut c_void,
    capacity: usize,
    timeout_ms: u32,
    out_bytes: *mut usize,
) -> c_int {
    status(|| {
        let adapter = ADAPTERS.get(transceiver)?;
        aligned(out_bytes.cast_const(), 8, "out_bytes")?;
        aligned(frame.cast_const(), 1, "the frame")?;
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_bytes.write(0) };
        let Some(answer) = adapter.receive(Duration::from_millis(timeout_ms.into()))? else { return Ok(()) };
        if answer.len() > capacity {
            return Err(Fault::invalid(format!(
                "an answer of {} bytes does not fit {capacity}, and is lost",
                answer.len()
            )));
        }
        // SAFETY: the header's contract: so many bytes are there.
        unsafe { frame.cast::<u8>().copy_from_nonoverlapping(answer.as_ptr(), answer.len()) };
        // SAFETY: as above.
        unsafe { out_bytes.write(answer.len()) };
        Ok(())
    })
}

/// Breaks the queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_break(transceiver: *mut c_void) -> c_int {
    status(|| ADAPTERS.get(transceiver)?.fail())
}

/// What a getter says of an adapter; 0 without one, and why is left for `ringcall_last_error`.
fn of<T: Default>(transceiver: *mut c_void, what: impl FnOnce(&Adapter) -> T) -> T {
    attempt(|| ADAPTERS.get(transceiver).map(|adapter| what(&adapter))).unwrap_or_default()
}

/// Where the queue pair's struct is.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the specification's
pub unsafe extern "C" fn HSB_get_gpu_dev_qp(transceiver: *mut c_void) -> *mut c_void {
    core::ptr::without_provenance_mut(of(transceiver, |adapter| adapter.context().qp as usize))
}

/// Where request slot 0 is.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the specification's
pub unsafe extern "C" fn HSB_get_rx_ring_data_addr(transceiver: *mut c_void) -> *mut u8 {
    core::ptr::without_provenance_mut(of(transceiver, |adapter| adapter.context().rx_data as usize))
}

/// Bytes of a page.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the specification's
pub unsafe extern "C" fn HSB_get_page_size(transceiver: *mut c_void) -> usize {
    of(transceiver, |adapter| adapter.context().rx_stride as usize)
}

/// Key of the request slots, as a number.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the specification's
pub unsafe extern "C" fn HSB_get_rkey(transceiver: *mut c_void) -> u32 {
    of(transceiver, Adapter::rkey)
}

/// How many pages.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the specification's
pub unsafe extern "C" fn HSB_get_num_pages(transceiver: *mut c_void) -> u32 {
    of(transceiver, |adapter| adapter.context().slots)
}

/// Launches, and leaves the rest to the dispatcher that is being started on this thread. A launch function returns nothing: why it launched
/// nothing is reported.
///
/// # Safety
/// The header's contract of the launch functions.
unsafe fn launch_for(
    ctx: *mut c_void,
    form: Form,
    asked: &Asked,
    kernels: Kernels<()>,
    found: Option<Found>,
) -> c_int {
    // SAFETY: the caller's promise.
    match attempt(|| unsafe { launch(ctx, form, asked, kernels, found) }) {
        Ok(watcher) => {
            hand_over(watcher);
            0
        }
        Err(fault) => {
            let code = fault.cuda as c_int;
            report(fault);
            code
        }
    }
}

/// Launches a unified loop: the specification's signature.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the specification's
pub unsafe extern "C" fn HSB_launch_unified_dispatch(
    transport_ctx: *mut c_void,
    function_table: *mut FunctionEntry,
    func_count: usize,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
    _stream: cudaStream_t,
) {
    let asked =
        Asked { tx_stride: 0, table: function_table, count: func_count, shutdown: shutdown_flag, stats };
    // SAFETY: the header's contract.
    unsafe { launch_for(transport_ctx, Form::Of48, &asked, Kernels::Unified(()), None) };
}

/// Launches a unified loop: the later signature.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the specification's
pub unsafe extern "C" fn HSB_launch_unified_dispatch_v2(
    transport_ctx: *mut c_void,
    tx_stride_sz: usize,
    function_table: *mut FunctionEntry,
    func_count: usize,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
    _stream: cudaStream_t,
) {
    let asked = Asked {
        tx_stride: tx_stride_sz,
        table: function_table,
        count: func_count,
        shutdown: shutdown_flag,
        stats,
    };
    // SAFETY: the header's contract.
    unsafe { launch_for(transport_ctx, Form::Of72, &asked, Kernels::Unified(()), None) };
}

/// The device archive's side of the two: `later` is not 0 for the later one, `function` what `cudaGetFuncBySymbol` gives for the program's
/// unified kernel on `device`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // the specification's
pub unsafe extern "C" fn ringcall_linked_unified(
    later: c_int,
    device: c_int,
    function: *mut c_void,
    transport_ctx: *mut c_void,
    tx_stride_sz: usize,
    function_table: *mut FunctionEntry,
    func_count: usize,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
) -> c_int {
    let form = if later == 0 { Form::Of48 } else { Form::Of72 };
    let asked = Asked {
        tx_stride: tx_stride_sz,
        table: function_table,
        count: func_count,
        shutdown: shutdown_flag,
        stats,
    };
    let found = Found { device, kernels: Kernels::Unified(function) };
    // SAFETY: the header's contract.
    unsafe { launch_for(transport_ctx, form, &asked, Kernels::Unified(()), Some(found)) }
}

/// Launches a receiver, a dispatcher and a sender, with the specification's signature of a unified loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_hsb_launch_three_dispatch(
    transport_ctx: *mut c_void,
    function_table: *mut FunctionEntry,
    func_count: usize,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
    _stream: cudaStream_t,
) {
    let asked =
        Asked { tx_stride: 0, table: function_table, count: func_count, shutdown: shutdown_flag, stats };
    // SAFETY: the header's contract.
    unsafe { launch_for(transport_ctx, Form::Of48, &asked, Kernels::Three([(); 3]), None) };
}

/// The device archive's side of it: the functions are what `cudaGetFuncBySymbol` gives for the program's kernels on `device`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // the specification's
pub unsafe extern "C" fn ringcall_linked_three(
    device: c_int,
    receive: *mut c_void,
    dispatch: *mut c_void,
    send: *mut c_void,
    transport_ctx: *mut c_void,
    function_table: *mut FunctionEntry,
    func_count: usize,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
) -> c_int {
    let asked =
        Asked { tx_stride: 0, table: function_table, count: func_count, shutdown: shutdown_flag, stats };
    let found = Found { device, kernels: Kernels::Three([receive, dispatch, send]) };
    // SAFETY: the header's contract.
    unsafe { launch_for(transport_ctx, Form::Of48, &asked, Kernels::Three([(); 3]), Some(found)) }
}
