//! `cudaq_dispatcher_*`.

use super::{Config, DISPATCHERS, Dispatcher, Progress, State, check_functions, check_ring};
use crate::cpu_loop::Dataplane;
use crate::device::{Code, Launch, MOST_WARPS};
use crate::entries::{EntryLayout, Schemas};
use crate::layout::{
    DispatchLaunchFn, UnifiedLaunchFnV1, UnifiedLaunchFnV2, cudaq_cpu_dataplane_t, cudaq_dispatcher_config_t,
    cudaq_function_table_t, cudaq_ringbuffer_t,
};
use crate::manager::MANAGERS;
use crate::raw_ring::{aligned, copied};
use crate::status::{Fault, status};
use core::ffi::{c_char, c_int, c_void};
use ringcall::external::BadRequests;
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::{DispatchMode, DispatchPath, KernelType};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The allowed stop times in ms: a shorter time would not suffice for an orderly end.
const STOP_MS: core::ops::RangeInclusive<u32> = 500..=600_000;

/// Makes a dispatcher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_create(
    mgr: *mut c_void,
    config: *const cudaq_dispatcher_config_t,
    out_dispatcher: *mut *mut c_void,
) -> c_int {
    status(|| {
        let manager = MANAGERS.get(mgr)?;
        aligned(out_dispatcher.cast_const(), 8, "out_dispatcher")?;
        // SAFETY: the header's contract.
        let config = Config::new(&unsafe { copied(config, "the configuration") }?)?;
        let dispatcher = Dispatcher {
            config,
            state: Mutex::new(State::new(manager)),
            progress: Mutex::new(Progress::None),
        };
        let handle = DISPATCHERS.insert(Arc::new(dispatcher));
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_dispatcher.write(handle) };
        Ok(())
    })
}

/// Ends a dispatcher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_destroy(dispatcher: *mut c_void) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.remove(dispatcher)?;
        let (over, stopped) = dispatcher.end();
        if !over {
            // What still runs uses it.
            std::mem::forget(dispatcher);
        }
        stopped
    })
}

/// Sets the ring.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_ringbuffer(
    dispatcher: *mut c_void,
    ringbuffer: *const cudaq_ringbuffer_t,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        // SAFETY: the header's contract.
        let ring = unsafe { copied(ringbuffer, "the ring") }?;
        dispatcher.wire(|config, state| {
            check_ring(config, &ring)?;
            state.ring = Some(ring);
            Ok(())
        })
    })
}

/// Sets the function table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_function_table(
    dispatcher: *mut c_void,
    table: *const cudaq_function_table_t,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        // SAFETY: the header's contract.
        let table = unsafe { copied(table, "the table") }?;
        dispatcher.wire(|_, state| {
            check_functions(&table)?;
            state.table = Some(table);
            Ok(())
        })
    })
}

/// Sets shutdown flag and stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_control(
    dispatcher: *mut c_void,
    shutdown_flag: *mut c_int,
    stats: *mut u64,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        aligned(shutdown_flag.cast_const(), 4, "the shutdown flag")?;
        aligned(stats.cast_const(), 8, "stats")?;
        dispatcher.wire(|_, state| {
            state.control = Some((shutdown_flag, stats));
            Ok(())
        })
    })
}

fn set_launch(
    dispatcher: *mut c_void,
    launch: Option<Launch>,
    fits: impl FnOnce(&Config) -> bool,
) -> Result<(), Fault> {
    let dispatcher = DISPATCHERS.get(dispatcher)?;
    let launch = launch.ok_or_else(|| Fault::invalid("the launch function is null"))?;
    dispatcher.wire(|config, state| {
        if !fits(config) {
            return Err(Fault::invalid("this launch function is not for this kernel type and dispatch path"));
        }
        state.launch = Some(launch);
        state.dataplane = None;
        Ok(())
    })
}

/// Sets the launch function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_launch_fn(
    dispatcher: *mut c_void,
    launch_fn: Option<DispatchLaunchFn>,
) -> c_int {
    let fits = |config: &Config| config.path == DispatchPath::Device && config.kernel != KernelType::Unified;
    status(|| set_launch(dispatcher, launch_fn.map(Launch::Ring), fits))
}

fn unified(config: &Config) -> bool {
    config.kernel == KernelType::Unified
}

/// Sets a unified launch function of the specification's signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_unified_launch(
    dispatcher: *mut c_void,
    unified_launch_fn: Option<UnifiedLaunchFnV1>,
    transport_ctx: *mut c_void,
) -> c_int {
    let launch = unified_launch_fn.filter(|_| !transport_ctx.is_null());
    status(|| set_launch(dispatcher, launch.map(|launch| Launch::UnifiedV1(launch, transport_ctx)), unified))
}

/// Sets a unified launch function of the later signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_unified_launch_v2(
    dispatcher: *mut c_void,
    unified_launch_fn: Option<UnifiedLaunchFnV2>,
    transport_ctx: *mut c_void,
) -> c_int {
    let launch = unified_launch_fn.filter(|_| !transport_ctx.is_null());
    status(|| set_launch(dispatcher, launch.map(|launch| Launch::UnifiedV2(launch, transport_ctx)), unified))
}

/// Sets the transport of a unified dispatcher on the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_cpu_dataplane(
    dispatcher: *mut c_void,
    cpu_dataplane: *mut c_void,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        // SAFETY: the header's contract.
        let plane = unsafe { copied(cpu_dataplane.cast::<cudaq_cpu_dataplane_t>(), "the data plane") }?;
        dispatcher.wire(|config, state| {
            if config.path != DispatchPath::Host || config.kernel != KernelType::Unified {
                return Err(Fault::invalid("a data plane is for UNIFIED on the host path"));
            }
            // SAFETY: made to be checked; nothing is touched.
            drop(unsafe { Dataplane::new(&plane, config.slots.max(1)) }?);
            state.dataplane = Some(plane);
            // The later of the two wirings counts.
            state.launch = None;
            Ok(())
        })
    })
}

/// Sets the mailbox.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_set_mailbox(
    dispatcher: *mut c_void,
    h_mailbox_bank: *mut *mut c_void,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        aligned(h_mailbox_bank.cast_const(), 8, "the mailbox")?;
        dispatcher.wire(|_, state| {
            state.mailbox = h_mailbox_bank;
            Ok(())
        })
    })
}

/// Starts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_start(dispatcher: *mut c_void) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        // SAFETY: the header's contract.
        unsafe { dispatcher.start() }
    })
}

/// Stops.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_stop(dispatcher: *mut c_void) -> c_int {
    status(|| DISPATCHERS.get(dispatcher)?.stop())
}

/// Requests dispatched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatcher_get_processed(
    dispatcher: *mut c_void,
    out_packets: *mut u64,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        aligned(out_packets.cast_const(), 8, "out_packets")?;
        let packets = dispatcher.processed()?;
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_packets.write(packets) };
        Ok(())
    })
}

/// Errors of the transport.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_get_transport_errors(
    dispatcher: *mut c_void,
    out_refused_slots: *mut u64,
    out_failed_sends: *mut u64,
) -> c_int {
    status(|| {
        let faults = DISPATCHERS.get(dispatcher)?.faults()?;
        aligned(out_refused_slots.cast_const(), 8, "out_refused_slots")?;
        aligned(out_failed_sends.cast_const(), 8, "out_failed_sends")?;
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_refused_slots.write(faults.refused_slots()) };
        // SAFETY: as above.
        unsafe { out_failed_sends.write(faults.failed_sends()) };
        Ok(())
    })
}

/// The consumer reports that a worker is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_host_release_worker(dispatcher: *mut c_void, worker_id: c_int) -> c_int {
    status(|| DISPATCHERS.get(dispatcher)?.release_worker(worker_id))
}

/// Sets the layout of tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_entry_bytes(dispatcher: *mut c_void, bytes: usize) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        let layout = EntryLayout::of_bytes(bytes)?;
        dispatcher.wire(|_, state| {
            state.entries = layout;
            Ok(())
        })
    })
}

/// Sets whether requests are checked against the table's schemas.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_check_schemas(
    dispatcher: *mut c_void,
    check: c_int,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        dispatcher.wire(|_, state| {
            state.schemas = if check == 0 { Schemas::Ignored } else { Schemas::Checked };
            Ok(())
        })
    })
}

/// Sets the stop time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_stop_ms(dispatcher: *mut c_void, stop_ms: u32) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        if !STOP_MS.contains(&stop_ms) {
            return Err(Fault::invalid(format!("a stop of {stop_ms} ms: {STOP_MS:?}")));
        }
        dispatcher.wire(|_, state| {
            state.stop = Duration::from_millis(stop_ms.into());
            Ok(())
        })
    })
}

/// Sets what happens to requests for unknown functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_clear_unknown(
    dispatcher: *mut c_void,
    clear: c_int,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        dispatcher.wire(|_, state| {
            state.bad_requests =
                Some(if clear == 0 { BadRequests::Answer } else { BadRequests::DropUnknown });
            Ok(())
        })
    })
}

/// Sets what happens to bad requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_bad_requests(
    dispatcher: *mut c_void,
    bad_requests: c_int,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        let chosen = match bad_requests {
            0 => BadRequests::Answer,
            1 => BadRequests::Drop,
            other => return Err(Fault::invalid(format!("{other} is no ringcall_bad_requests_t"))),
        };
        dispatcher.wire(|_, state| {
            state.bad_requests = Some(chosen);
            Ok(())
        })
    })
}

/// Sets whether a device's warp calls handlers one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_serial_handlers(
    dispatcher: *mut c_void,
    serial: c_int,
) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        dispatcher.wire(|config, state| {
            if config.path == DispatchPath::Host {
                return Err(Fault::invalid("a host dispatcher calls its handlers one at a time in any case"));
            }
            state.serial_handlers = Some(serial != 0);
            Ok(())
        })
    })
}

/// Sets the fewest warps of a device dispatcher's blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_warps(dispatcher: *mut c_void, warps: u32) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        if warps > MOST_WARPS {
            return Err(Fault::invalid(format!("{warps} warps: a block has {MOST_WARPS} at most")));
        }
        dispatcher.wire(|config, state| {
            if config.path == DispatchPath::Host {
                return Err(Fault::invalid("a host dispatcher has no warps"));
            }
            state.warps = Some(warps);
            Ok(())
        })
    })
}

/// Sets whether graphs do anything after their answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_set_answer_last(dispatcher: *mut c_void, last: c_int) -> c_int {
    status(|| {
        let dispatcher = DISPATCHERS.get(dispatcher)?;
        dispatcher.wire(|config, state| {
            if config.path != DispatchPath::Host {
                return Err(Fault::invalid("graphs are launched on the host path"));
            }
            state.answer_last = last != 0;
            Ok(())
        })
    })
}

/// Changes the code of a dispatcher whose kernels are linked when it starts.
fn with_code(
    dispatcher: *mut c_void,
    change: impl FnOnce(&mut Code) -> Result<(), Fault>,
) -> Result<(), Fault> {
    DISPATCHERS.get(dispatcher)?.wire(|config, state| {
        if config.path != DispatchPath::Device || config.kernel == KernelType::Unified {
            return Err(Fault::invalid("modules are for REGULAR and COOPERATIVE on the device path"));
        }
        if config.mode != DispatchMode::DeviceCall {
            return Err(Fault::invalid("functions of modules are DEVICE_CALL"));
        }
        change(&mut state.code)
    })
}

/// Adds device code that the program holds as data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_add_module(
    dispatcher: *mut c_void,
    kind: c_int,
    data: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the header's contract.
    status(|| with_code(dispatcher, |code| unsafe { code.add_module(kind, data, size) }))
}

/// Enters a function of it by its symbol.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_dispatcher_add_function(
    dispatcher: *mut c_void,
    function_id: u32,
    symbol: *const c_char,
    schema: *const HandlerSchema,
) -> c_int {
    // SAFETY: the header's contract.
    status(|| with_code(dispatcher, |code| unsafe { code.add_function(function_id, symbol, schema) }))
}
