//! Unified kernels over the queues of an adapter, as the wiring example of the CUDA-Q Realtime host API has them: transport contexts, launch
//! functions, and an adapter without hardware.
//!
//! | module | what |
//! |---|---|
//! | `adapter` | queues in memory, a NIC in software, the peer's end of the wire |
//! | `hold` | who works queues, and where in them the last one was |
//! | `host` | the unified loop on a CPU thread |
//! | `device` | the unified kernel of the device archive |
//! | `run` | a loop on the host that a launch function has started, and its end |

mod adapter;
pub(crate) mod api;
mod device;
mod hold;
mod host;
mod run;

use crate::device::{Watcher, beside};
use crate::raw_ring::{aligned, copied};
use crate::status::Fault;
use adapter::{Given, QueueMemory};
use core::ffi::{c_int, c_void};
use device::Found;
use ringcall_rdma::context::{Context, Context48, Context72, MAGIC};
use ringcall_wire::entry::FunctionEntry;
pub(crate) use run::HostRun;

/// Which of the reference's forms a context has that is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// 48 bytes: the specification's launch function.
    Of48,
    /// 72 bytes: the later one.
    Of72,
}

/// What a launch function is given beside the context.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Bytes from one response slot to the next; 0: as the context says.
    tx_stride: usize,
    table: *mut FunctionEntry,
    count: usize,
    shutdown: *mut c_int,
    stats: *mut u64,
}

/// Reads a context.
///
/// # Safety
/// `at` is null, or a context of this form, or one of ours.
unsafe fn given(at: *const c_void, form: Form) -> Result<Given, Fault> {
    aligned(at.cast::<u64>(), 8, "the transport context")?;
    // SAFETY: every form begins with a word.
    if unsafe { copied(at.cast::<u64>(), "the transport context") }? == MAGIC {
        // SAFETY: the caller's promise.
        let own = unsafe { copied(at.cast::<Context>(), "the transport context") }?;
        return own
            .check()
            .map(Given::Own)
            .map_err(|error| Fault::invalid(format!("the transport context: {error}")));
    }
    Ok(match form {
        // SAFETY: the caller's promise.
        Form::Of48 => Given::Of48(unsafe { copied(at.cast::<Context48>(), "the transport context") }?),
        // SAFETY: the caller's promise.
        Form::Of72 => Given::Of72(unsafe { copied(at.cast::<Context72>(), "the transport context") }?),
    })
}

/// What all launch functions do: on the host path a loop over the queues of an adapter of this library, on the device path the kernel that
/// was found in the program, if one was.
///
/// # Safety
/// The header's contract of the launch functions.
unsafe fn launch(
    ctx: *const c_void,
    form: Form,
    asked: &Asked,
    found: Option<Found>,
) -> Result<Watcher, Fault> {
    // SAFETY: the caller's promise.
    let given = unsafe { given(ctx, form) }?;
    let beside = beside();
    let adapter = given.adapter();
    let stride = match given {
        Given::Of48(context) => context.rx_ring_stride_sz,
        Given::Of72(context) => context.tx_ring_stride_sz,
        Given::Own(context) => context.tx_stride,
    };
    if asked.tx_stride != 0 && asked.tx_stride as u64 != stride {
        return Err(Fault::invalid(format!(
            "tx_stride_sz is {}, and the transport context's response stride {stride}",
            asked.tx_stride
        )));
    }
    if !beside.host {
        let found = found.ok_or_else(|| crate::device::not_linked("HSB_launch_unified_dispatch"))?;
        // SAFETY: the caller's promise.
        return unsafe { device::launch(&given, adapter.as_deref(), found, asked, &beside) };
    }
    let Some(adapter) = adapter.filter(|adapter| matches!(adapter.memory, QueueMemory::Host)) else {
        return Err(Fault::invalid(
            "the transport context is not of an adapter of ringcall_hsb_create with device -1: a loop on the host works no other queues",
        ));
    };
    let queues = adapter.queues(&given)?;
    let turn = adapter.hold.begin(&queues)?;
    // SAFETY: the caller's promise.
    unsafe { host::launch(turn, &adapter, &queues, asked, &beside) }
}
