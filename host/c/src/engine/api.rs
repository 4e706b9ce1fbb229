//! `cudaq_graph_launch_engine_*`.

use super::sweep::write_failure;
use super::{Engine, Wanted};
use crate::entries::{EntryLayout, Schemas, read_host};
use crate::handles::lock;
use crate::layout::{
    cudaq_dispatcher_config_t, cudaq_function_table_t, cudaq_graph_launch_engine_t, cudaq_ringbuffer_t,
};
use crate::raw_ring::copied;
use crate::status::{Fault, attempt, status};
use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use ringcall_protocol::RingMemory;
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::launch::MAX_SLOTS;
use ringcall_wire::status::{CudaqStatus, DispatchMode};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex};

/// Engines whose handles C holds, by the address of their public part.
static LIVE: LazyLock<Mutex<HashMap<usize, Arc<Engine>>>> = LazyLock::new(Mutex::default);

/// The engine of a handle from C.
pub(crate) fn live(engine: *const cudaq_graph_launch_engine_t) -> Result<Arc<Engine>, Fault> {
    let known = lock(&LIVE).get(&engine.addr()).cloned();
    known.ok_or_else(|| Fault::invalid(format!("{engine:p} is no engine, or was destroyed before")))
}

/// Gives C a handle to an engine: the address of its public part.
pub(super) fn enter(engine: Arc<Engine>) -> *mut cudaq_graph_launch_engine_t {
    let public = engine.public();
    lock(&LIVE).insert(public.addr(), engine);
    public
}

struct Choice {
    device: u32,
    slots: u32,
    slot_bytes: u32,
    skip_marks: bool,
    shared: bool,
}

/// # Safety
/// The header's contract of `cudaq_graph_launch_engine_create`.
unsafe fn create(
    ring: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    entry_bytes: usize,
    choice: impl FnOnce() -> Result<Choice, Fault>,
    mailbox: *mut *mut c_void,
    out_status: *mut c_int,
) -> *mut cudaq_graph_launch_engine_t {
    let made = attempt(|| {
        let Choice { device, slots, slot_bytes, skip_marks, shared } = choice()?;
        let layout = EntryLayout::of_bytes(entry_bytes)?;
        // SAFETY: the caller's promise.
        let ring = unsafe { copied(ring, "the ring") }?;
        // SAFETY: the caller's promise.
        let table = unsafe { copied(table, "the table") }?;
        // SAFETY: the caller's promise.
        let entries = unsafe { read_host(&table, layout, Schemas::Ignored) }?;
        let wanted = Wanted {
            ring: &ring,
            entries: &entries,
            slots,
            slot_bytes,
            device,
            skip_marks,
            shared,
            answer_last: false,
            mailbox,
        };
        // SAFETY: the caller's promise.
        unsafe { wanted.make() }
    });
    let (engine, code) = match made {
        Ok(Some(engine)) => (enter(Arc::new(engine)), CudaqStatus::Ok),
        Ok(None) => (core::ptr::null_mut(), CudaqStatus::Ok),
        Err(fault) => (core::ptr::null_mut(), fault.status),
    };
    if !out_status.is_null() {
        // SAFETY: the caller's promise: null, or an int.
        unsafe { out_status.write_unaligned(code.raw() as c_int) };
    }
    engine
}

/// Makes an engine of a table's graphs: the specification's signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_create_v1(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    config: *const cudaq_dispatcher_config_t,
    external_mailbox: *mut *mut c_void,
    out_status: *mut c_int,
) -> *mut cudaq_graph_launch_engine_t {
    let bytes = EntryLayout::default().bytes();
    // SAFETY: the header's contract.
    unsafe {
        ringcall_graph_launch_engine_create(ringbuffer, table, bytes, config, external_mailbox, out_status)
    }
}

/// The same of a table of any layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_graph_launch_engine_create(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    entry_bytes: usize,
    config: *const cudaq_dispatcher_config_t,
    external_mailbox: *mut *mut c_void,
    out_status: *mut c_int,
) -> *mut cudaq_graph_launch_engine_t {
    let choice = || {
        // SAFETY: the header's contract.
        let config = unsafe { copied(config, "the configuration") }?;
        let device = u32::try_from(config.device_id)
            .map_err(|_| Fault::invalid(format!("device_id {} is negative", config.device_id)))?;
        let slots = if config.num_slots == 0 { MAX_SLOTS } else { config.num_slots };
        let skip_marks = config.skip_tx_markers != 0;
        let shared = config.shared_ring_mode != 0;
        Ok(Choice { device, slots, slot_bytes: config.slot_size, skip_marks, shared })
    };
    // SAFETY: the header's contract.
    unsafe { create(ringbuffer, table, entry_bytes, choice, external_mailbox, out_status) }
}

/// Makes an engine of a table's graphs, with the reference's present signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_create(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    skip_tx_markers: c_int,
    external_mailbox: *mut *mut c_void,
    out_status: *mut c_int,
) -> *mut cudaq_graph_launch_engine_t {
    let skip_marks = skip_tx_markers != 0;
    let choice = || Ok(Choice { device: 0, slots: MAX_SLOTS, slot_bytes: 0, skip_marks, shared: false });
    let bytes = EntryLayout::default().bytes();
    // SAFETY: the header's contract.
    unsafe { create(ringbuffer, table, bytes, choice, external_mailbox, out_status) }
}

/// The name that [`cudaq_graph_launch_engine_create`] had in earlier versions of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_create_v2(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    skip_tx_markers: c_int,
    external_mailbox: *mut *mut c_void,
    out_status: *mut c_int,
) -> *mut cudaq_graph_launch_engine_t {
    // SAFETY: the header's contract.
    unsafe {
        cudaq_graph_launch_engine_create(ringbuffer, table, skip_tx_markers, external_mailbox, out_status)
    }
}

/// Ends an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_destroy(engine: *mut cudaq_graph_launch_engine_t) {
    if engine.is_null() {
        return;
    }
    let _ = attempt(|| {
        let engine = live(engine)?;
        // An engine whose end failed stays: a later call may succeed.
        engine.lease.wait_for_loop()?;
        engine.drain()?;
        lock(&LIVE).remove(&engine.public().addr());
        Ok(())
    });
}

fn acquire(engine: *const cudaq_graph_launch_engine_t, function: Option<(u32, u64)>) -> c_int {
    let worker = attempt(|| Ok(live(engine)?.acquire(function)));
    worker.ok().flatten().map_or(-1, |worker| worker as c_int)
}

/// An idle worker: the specification's signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_acquire_v1(
    engine: *const cudaq_graph_launch_engine_t,
    use_function_table: c_int,
    entry: *const FunctionEntry,
    function_id: u32,
    routing_key: u64,
) -> c_int {
    // Reads this byte alone, which all three layouts have at one offset, because the entry may be shorter than the
    // newest layout.
    let mode = entry.cast::<u8>().wrapping_add(offset_of!(FunctionEntry, dispatch_mode));
    // SAFETY: the header's contract: null, or an entry.
    let graph = entry.is_null() || u32::from(unsafe { mode.read() }) == DispatchMode::GraphLaunch.raw();
    let by_function = use_function_table != 0 && graph;
    acquire(engine, by_function.then_some((function_id, routing_key)))
}

/// An idle worker of a function, with the reference's present signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_acquire(
    engine: *const cudaq_graph_launch_engine_t,
    function_id: u32,
    routing_key: u64,
) -> c_int {
    acquire(engine, Some((function_id, routing_key)))
}

/// The name that [`cudaq_graph_launch_engine_acquire`] had in earlier versions of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_acquire_v2(
    engine: *const cudaq_graph_launch_engine_t,
    function_id: u32,
    routing_key: u64,
) -> c_int {
    acquire(engine, Some((function_id, routing_key)))
}

/// Launches a worker for a slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_launch(
    engine: *const cudaq_graph_launch_engine_t,
    worker_id: c_int,
    slot_host: *mut c_void,
    current_slot: usize,
) {
    let _ = attempt(|| {
        let engine = live(engine)?;
        let (Ok(worker), Ok(slot)) = (usize::try_from(worker_id), u32::try_from(current_slot)) else {
            return Err(Fault::invalid(format!("worker {worker_id} for slot {current_slot}")));
        };
        let _call = engine.lease.call()?;
        // SAFETY: C's view lives as long as the engine.
        let ring = unsafe { (*engine.public()).ringbuffer };
        let offset = current_slot.saturating_mul(ring.rx_stride_sz);
        if !slot_host.is_null() && slot_host.addr() != ring.rx_data_host.addr().wrapping_add(offset) {
            return Err(Fault::invalid(format!("{slot_host:p} is not the address of slot {slot}")));
        }
        // SAFETY: the header's contract.
        let launched = unsafe { engine.launch(worker, slot, !engine.skip_marks) };
        launched.inspect_err(|fault| {
            // A request that CUDA refused is answered; a wrong call has changed nothing.
            if fault.status == CudaqStatus::Cuda {
                let mark = ringcall_wire::flag::error(fault.code());
                engine.response_flags().store(current_slot, mark, Ordering::Release);
            }
        })
    });
}

/// Releases workers whose graphs have ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_sweep(engine: *const cudaq_graph_launch_engine_t) {
    let _ = attempt(|| {
        let engine = live(engine)?;
        let _call = engine.lease.call()?;
        engine.sweep(|_| ());
        Ok(())
    });
}

/// Waits for every worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_drain(engine: *const cudaq_graph_launch_engine_t) {
    let _ = attempt(|| live(engine)?.drain());
}

/// Sends the responses of graphs that have ended and releases their workers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_publish_ready(
    engine: *const cudaq_graph_launch_engine_t,
    publish: Option<unsafe extern "C" fn(*mut c_void, u32) -> c_int>,
    ctx: *mut c_void,
) {
    let _ = attempt(|| {
        let engine = live(engine)?;
        let publish = publish.ok_or_else(|| Fault::invalid("publish is null"))?;
        let _call = engine.lease.call()?;
        // SAFETY: C's view lives as long as the engine.
        let ring = unsafe { (*engine.public()).ringbuffer };
        // SAFETY: checked when the engine was made, which keeps the header's contract.
        let ring = unsafe { crate::raw_ring::host_ring(&ring, engine.slots()) }?;
        engine.sweep(|end| {
            if end.failed
                && let Some(slot) = ring.geometry().slot(end.slot)
            {
                write_failure(&ring, slot);
            }
            // SAFETY: the header's contract.
            let _ = unsafe { publish(ctx, end.slot) };
            engine.response_flags().store(end.slot as usize, ringcall_wire::flag::FREE, Ordering::Release);
        });
        Ok(())
    });
}

/// The consumer reports that a worker is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_graph_launch_engine_release_worker(
    engine: *mut cudaq_graph_launch_engine_t,
    worker_id: c_int,
) -> c_int {
    status(|| live(engine)?.release(worker_id))
}

impl Engine {
    /// Workers come back by their end flags, so there is nothing to do but to check.
    pub(crate) fn release(&self, worker: c_int) -> Result<(), Fault> {
        match usize::try_from(worker) {
            Ok(index) if index < self.workers.len() => Ok(()),
            _ => Err(Fault::invalid(format!("there is no worker {worker}"))),
        }
    }
}
