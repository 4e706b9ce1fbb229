//! Loops on the caller's thread, and loop threads without a dispatcher handle.

use super::{HostThread, Shutdown, Source, Wiring, bad_requests};
use crate::cpu_loop::Dataplane;
use crate::engine::{Engine, Wanted};
use crate::entries::{EntryLayout, Schemas, read_host};
use crate::handles::{Registry, lock};
use crate::host_call::CallCounter;
use crate::layout::{
    cudaq_cpu_dataplane_t, cudaq_dispatcher_config_t, cudaq_function_table_t, cudaq_graph_launch_engine_t,
    cudaq_ringbuffer_t,
};
use crate::raw_ring::copied;
use crate::status::{Fault, attempt, status};
use core::ffi::{c_int, c_void};
use ringcall::external::RingCompat;
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::launch::MAX_SLOTS;
use ringcall_wire::status::DispatchMode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a stop takes at most, unless the program says otherwise.
pub(crate) const STOP: Duration = Duration::from_secs(2);

/// Threads whose handles `cudaq_host_dispatcher_start_thread` returned.
static HANDLES: Registry<Mutex<HostThread>> = Registry::new("host dispatcher");

fn has_graphs(entries: &[FunctionEntry]) -> bool {
    entries.iter().any(|entry| entry.mode() == Ok(DispatchMode::GraphLaunch))
}

/// # Safety
/// `table` is null, or a table of entries of so many bytes.
unsafe fn entries_of(
    table: *const cudaq_function_table_t,
    entry_bytes: usize,
) -> Result<Vec<FunctionEntry>, Fault> {
    let layout = EntryLayout::of_bytes(entry_bytes)?;
    // SAFETY: the caller's promise.
    let table = unsafe { copied(table, "the table") }?;
    // SAFETY: the caller's promise.
    unsafe { read_host(&table, layout, Schemas::Ignored) }
}

/// Checked arguments of these functions.
struct Given {
    config: cudaq_dispatcher_config_t,
    ring: cudaq_ringbuffer_t,
    entries: Vec<FunctionEntry>,
    shutdown: Shutdown,
    counter: CallCounter,
}

impl Given {
    /// # Safety
    /// The header's contract of `cudaq_host_ring_dispatch_loop`.
    unsafe fn new(
        ring: *const cudaq_ringbuffer_t,
        table: *const cudaq_function_table_t,
        entry_bytes: usize,
        config: *const cudaq_dispatcher_config_t,
        shutdown: *mut c_int,
        stats: *mut u64,
    ) -> Result<Self, Fault> {
        // SAFETY: the caller's promise.
        let config = unsafe { copied(config, "the configuration") }?;
        // SAFETY: the caller's promise.
        let ring = unsafe { copied(ring, "the ring") }?;
        // SAFETY: the caller's promise.
        let entries = unsafe { entries_of(table, entry_bytes) }?;
        // SAFETY: the caller's promise.
        let shutdown = unsafe { Shutdown::new(shutdown) }?;
        // SAFETY: the caller's promise.
        let counter = unsafe { CallCounter::new(stats) }?;
        Ok(Self { config, ring, entries, shutdown, counter })
    }

    /// # Errors
    /// The environment's setting for bad requests is invalid.
    fn wiring(self, engine: Option<Arc<Engine>>) -> Result<Wiring, Fault> {
        let Self { config, ring, entries, shutdown, counter } = self;
        let compat = RingCompat {
            any_flag: true,
            shared_ring: config.shared_ring_mode != 0,
            bad_requests: bad_requests(None)?,
        };
        Ok(Wiring {
            source: Source::Ring(ring),
            slots: config.num_slots,
            slot_bytes: config.slot_size,
            entries,
            engine,
            compat,
            shutdown,
            counter,
            stop: STOP,
        })
    }
}

/// The engine of a handle from C, or none.
fn engine_of(
    engine: *const cudaq_graph_launch_engine_t,
    entries: &[FunctionEntry],
) -> Result<Option<Arc<Engine>>, Fault> {
    if !engine.is_null() {
        return crate::engine::api::live(engine).map(Some);
    }
    if has_graphs(entries) {
        return Err(Fault::invalid("the table has GRAPH_LAUNCH entries, and the engine is null"));
    }
    Ok(None)
}

/// Dispatches a ring on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_ring_dispatch_loop(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    config: *const cudaq_dispatcher_config_t,
    engine: *mut cudaq_graph_launch_engine_t,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
) {
    let bytes = EntryLayout::default().bytes();
    // SAFETY: the header's contract.
    unsafe {
        ringcall_host_ring_dispatch_loop(ringbuffer, table, bytes, config, engine, shutdown_flag, stats);
    }
}

/// The same with a table of any layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_host_ring_dispatch_loop(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    entry_bytes: usize,
    config: *const cudaq_dispatcher_config_t,
    engine: *mut cudaq_graph_launch_engine_t,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
) {
    let _ = attempt(|| {
        // SAFETY: the header's contract.
        let given = unsafe { Given::new(ringbuffer, table, entry_bytes, config, shutdown_flag, stats) }?;
        let engine = engine_of(engine, &given.entries)?;
        // SAFETY: the header's contract.
        unsafe { given.wiring(engine)?.build() }?.run(Duration::ZERO)
    });
}

/// Dispatches a transport on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_unified_loop(
    cpu_dataplane: *mut c_void,
    table: *const cudaq_function_table_t,
    engine: *mut cudaq_graph_launch_engine_t,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
) {
    let bytes = EntryLayout::default().bytes();
    // SAFETY: the header's contract.
    unsafe { ringcall_host_unified_loop(cpu_dataplane, table, bytes, engine, shutdown_flag, stats) };
}

/// The same with a table of any layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_host_unified_loop(
    cpu_dataplane: *mut c_void,
    table: *const cudaq_function_table_t,
    entry_bytes: usize,
    engine: *mut cudaq_graph_launch_engine_t,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
) {
    let _ = attempt(|| {
        // SAFETY: the header's contract.
        let plane = unsafe { copied(cpu_dataplane.cast::<cudaq_cpu_dataplane_t>(), "the data plane") }?;
        // SAFETY: the header's contract.
        let entries = unsafe { entries_of(table, entry_bytes) }?;
        let engine = engine_of(engine, &entries)?;
        let slots = engine.as_ref().map_or(MAX_SLOTS, |engine| engine.slots());
        let wiring = Wiring {
            // SAFETY: the header's contract.
            source: Source::Transport(Box::new(unsafe { Dataplane::new(&plane, slots) }?)),
            slots,
            slot_bytes: 0,
            entries,
            engine,
            compat: RingCompat { bad_requests: bad_requests(None)?, ..RingCompat::default() },
            // SAFETY: the header's contract.
            shutdown: unsafe { Shutdown::new(shutdown_flag) }?,
            // SAFETY: the header's contract.
            counter: unsafe { CallCounter::new(stats) }?,
            stop: STOP,
        };
        // SAFETY: the header's contract.
        let host_loop = unsafe { wiring.build() }?;
        let faults = host_loop.faults();
        host_loop.run(Duration::ZERO)?;
        faults.map_or(Ok(()), |faults| faults.none())
    });
}

/// Dispatches a ring on its own thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_dispatcher_start_thread(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    config: *const cudaq_dispatcher_config_t,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
    external_mailbox: *mut *mut c_void,
) -> *mut c_void {
    let bytes = EntryLayout::default().bytes();
    // SAFETY: the header's contract.
    unsafe {
        ringcall_host_dispatcher_start_thread(
            ringbuffer,
            table,
            bytes,
            config,
            shutdown_flag,
            stats,
            external_mailbox,
        )
    }
}

/// The same with a table of any layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_host_dispatcher_start_thread(
    ringbuffer: *const cudaq_ringbuffer_t,
    table: *const cudaq_function_table_t,
    entry_bytes: usize,
    config: *const cudaq_dispatcher_config_t,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
    external_mailbox: *mut *mut c_void,
) -> *mut c_void {
    let handle = attempt(|| {
        // SAFETY: the header's contract.
        let given = unsafe { Given::new(ringbuffer, table, entry_bytes, config, shutdown_flag, stats) }?;
        let device = u32::try_from(given.config.device_id)
            .map_err(|_| Fault::invalid(format!("device_id {} is negative", given.config.device_id)))?;
        let wanted = Wanted {
            ring: &given.ring,
            entries: &given.entries,
            slots: given.config.num_slots,
            slot_bytes: given.config.slot_size,
            device,
            skip_marks: given.config.skip_tx_markers != 0,
            shared: given.config.shared_ring_mode != 0,
            answer_last: false,
            mailbox: external_mailbox,
        };
        // SAFETY: the header's contract.
        let engine = unsafe { wanted.make() }?.map(Arc::new);
        // SAFETY: the header's contract.
        let host_loop = unsafe { given.wiring(engine)?.build() }?;
        Ok(HANDLES.insert(Arc::new(Mutex::new(HostThread::start(host_loop)?))))
    });
    handle.unwrap_or(core::ptr::null_mut())
}

/// Ends a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_dispatcher_stop(handle: *mut c_void) {
    if handle.is_null() {
        return;
    }
    let _ = attempt(|| {
        let known = HANDLES.get(handle)?;
        // A loop that could not be stopped stays with its engine: a later call may succeed.
        lock(&known).stop()?;
        HANDLES.remove(handle).map(drop)
    });
}

/// The consumer reports that a worker is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_dispatcher_release_worker(
    handle: *mut c_void,
    worker_id: c_int,
) -> c_int {
    status(|| {
        let known = HANDLES.get(handle)?;
        let known = lock(&known);
        let engine = known.engine().ok_or_else(|| Fault::invalid("there are no graphs"))?;
        engine.release(worker_id)
    })
}
