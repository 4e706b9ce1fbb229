//! `cudaq_bridge_*`: `cudaq/realtime/daemon/bridge/bridge_interface.h`.
//!
//! # Safety
//! For every function here: pointers are null or as the header says. Handles may be any number.
#![allow(unsafe_code)] // named for it: the border to C
#![allow(clippy::missing_safety_doc)] // the same for all: above

use crate::border::{self, enter, read_args, read_text, write_text};
use crate::handles::Handles;
use crate::layout::{
    CONTEXT_RING_BUFFER, CONTEXT_UNIFIED, CpuDataplane, CudaqFunctionTable, Handle, PROVIDER_EXTERNAL,
    PROVIDER_GPU_ROCE, RingBuffer, UnifiedContext,
};
use crate::loader::{GPU_ROCE_LIBRARY, LIBRARY_VARIABLE};
use crate::{BridgeError, Provider, Refused};
use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

static BRIDGES: Handles<Provider> = Handles::new();

impl From<BridgeError> for Refused {
    fn from(error: BridgeError) -> Self {
        Self { status: error.status(), why: error.to_string() }
    }
}

fn with(handle: Handle, body: impl FnOnce(&Provider) -> Result<(), Refused>) -> c_int {
    enter(|| body(&*find(handle)?))
}

fn find(handle: Handle) -> Result<Arc<Provider>, Refused> {
    BRIDGES.get(handle).ok_or_else(unknown)
}

fn unknown() -> Refused {
    Refused::invalid("no such bridge, or one that was destroyed")
}

/// Checks that an address of the caller's is not null.
fn check_address<T>(out: *mut T, what: &str) -> Result<(), Refused> {
    if out.is_null() {
        return Err(Refused::invalid(format!("the address for {what} is null")));
    }
    if !out.is_aligned() {
        return Err(Refused::invalid(format!("the address for {what} is not aligned")));
    }
    Ok(())
}

/// Writes to an address of the caller's.
///
/// # Safety
/// `out` is null, or a `T` may be written there.
unsafe fn write<T>(out: *mut T, what: &str, value: T) -> Result<(), Refused> {
    check_address(out, what)?;
    // SAFETY: not null, and as promised.
    unsafe { out.write(value) };
    Ok(())
}

unsafe fn create(
    out: *mut Handle,
    library: &str,
    argc: c_int,
    argv: *const *mut c_char,
) -> Result<(), Refused> {
    // Checked before anything is created.
    check_address(out, "the handle")?;
    // SAFETY: the module's contract.
    let args = unsafe { read_args(argc, argv) }?;
    let provider = Provider::load(library, &args)?;
    // SAFETY: the module's contract.
    unsafe { write(out, "the handle", BRIDGES.insert(Arc::new(provider))) }
}

/// Loads a library and makes an instance of its transport.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_bridge_create_from_library(
    out: *mut Handle,
    library: *const c_char,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    enter(|| {
        // SAFETY: the module's contract.
        let library = unsafe { read_text(library, "the library's name") }?;
        // SAFETY: the module's contract.
        unsafe { create(out, &library, argc, argv) }
    })
}

/// The same, with the library that the number `provider` stands for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_bridge_create(
    out: *mut Handle,
    provider: c_int,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    enter(|| {
        let library = match provider {
            PROVIDER_GPU_ROCE => GPU_ROCE_LIBRARY.to_owned(),
            PROVIDER_EXTERNAL => std::env::var(LIBRARY_VARIABLE)
                .map_err(|e| Refused::invalid(format!("{LIBRARY_VARIABLE}: {e}: set it to a library")))?,
            other => return Err(Refused::invalid(format!("provider {other} does not exist"))),
        };
        // SAFETY: the module's contract.
        unsafe { create(out, &library, argc, argv) }
    })
}

/// Destroys the instance.
#[unsafe(no_mangle)]
pub extern "C" fn cudaq_bridge_destroy(handle: Handle) -> c_int {
    enter(|| {
        let provider = BRIDGES.remove(handle).ok_or_else(unknown)?;
        // Another thread may be waiting for its peer indefinitely.
        provider.end_for_good();
        match Arc::into_inner(provider) {
            Some(provider) => Ok(provider.destroy()?),
            // Another thread is in a call, and destroys the instance at its end.
            None => Ok(()),
        }
    })
}

/// Writes the context of the ring or of the unified kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_bridge_get_transport_context(
    handle: Handle,
    kind: c_int,
    out: *mut c_void,
) -> c_int {
    with(handle, |provider| match kind {
        // SAFETY: the module's contract: of this type for this kind.
        CONTEXT_RING_BUFFER => unsafe {
            write(out.cast::<RingBuffer>(), "the ring buffer", provider.ring_buffer()?)
        },
        // SAFETY: as above.
        CONTEXT_UNIFIED => unsafe {
            write(out.cast::<UnifiedContext>(), "the unified context", provider.unified_context()?)
        },
        other => Err(Refused::invalid(format!("context {other} does not exist"))),
    })
}

/// Waits for the peer.
#[unsafe(no_mangle)]
pub extern "C" fn cudaq_bridge_connect(handle: Handle) -> c_int {
    with(handle, |provider| Ok(provider.connect()?))
}

/// Starts moving data.
#[unsafe(no_mangle)]
pub extern "C" fn cudaq_bridge_launch(handle: Handle) -> c_int {
    with(handle, |provider| Ok(provider.launch()?))
}

/// Stops moving data.
#[unsafe(no_mangle)]
pub extern "C" fn cudaq_bridge_disconnect(handle: Handle) -> c_int {
    with(handle, |provider| Ok(provider.disconnect()?))
}

/// The hooks for a loop of one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_bridge_get_cpu_dataplane(handle: Handle, out: *mut CpuDataplane) -> c_int {
    // SAFETY: the module's contract.
    with(handle, |provider| unsafe { write(out, "the data plane", provider.cpu_dataplane()?) })
}

/// Writes the endpoint as one line of `key=value` pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_bridge_get_endpoint_info(
    handle: Handle,
    out: *mut c_char,
    len: usize,
) -> c_int {
    // SAFETY: the module's contract.
    with(handle, |provider| unsafe { write_text(&provider.endpoint_info()?, out, len) })
}

/// Writes the number of slots and the bytes of each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_bridge_get_ring_geometry(
    handle: Handle,
    slots: *mut u32,
    slot_bytes: *mut u32,
) -> c_int {
    with(handle, |provider| {
        let geometry = provider.ring_geometry()?;
        // SAFETY: the module's contract.
        unsafe { write(slots, "the number of slots", geometry.0) }?;
        // SAFETY: the module's contract.
        unsafe { write(slot_bytes, "the slot size", geometry.1) }
    })
}

/// Passes the dispatcher's function table to the provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_bridge_set_function_table(
    handle: Handle,
    table: *const CudaqFunctionTable,
) -> c_int {
    with(handle, |provider| {
        if table.is_null() || !table.is_aligned() {
            return Err(Refused::invalid("the table is null or not aligned"));
        }
        // SAFETY: not null, and the module's contract.
        let table = unsafe { table.read() };
        if table.entries.is_null() || table.count == 0 {
            return Err(Refused::invalid(format!(
                "the table has {} entries at {:p}",
                table.count, table.entries
            )));
        }
        // SAFETY: the module's contract.
        Ok(unsafe { provider.set_function_table(&table) }?)
    })
}

/// Why the last call of this thread failed.
#[unsafe(no_mangle)]
pub extern "C" fn ringcall_bridge_last_error() -> *const c_char {
    border::last_error()
}
