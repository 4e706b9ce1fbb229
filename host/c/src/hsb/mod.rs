//! Unified kernels over the queues of an adapter, as the wiring example of the CUDA-Q Realtime host API has them: transport contexts, launch
//! functions, and an adapter without hardware.
//!
//! | module | what |
//! |---|---|
//! | `adapter` | queues in memory, a NIC in software, the peer's end of the wire |
//! | `hold` | who works queues, and where in them the last one was |
//! | `host` | the unified loop on a CPU thread |
//! | `device` | the kernels of the device archive: the unified one, or three |
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
use adapter::{For, Given, QueueMemory};
use core::ffi::{c_int, c_void};
use device::{Found, Kernels};
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
    kernels: Kernels<()>,
    found: Option<Found>,
) -> Result<Watcher, Fault> {
    if let Some(found) = &found {
        found.check()?;
    }
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
    if let Kernels::Three(_) = kernels {
        if beside.host {
            return Err(Fault::unsupported(
                "three kernels run on a device: a loop on the host is HSB_launch_unified_dispatch",
            ));
        }
        if adapter.as_ref().is_none_or(|adapter| adapter.made_for != For::Three) {
            return Err(Fault::invalid(
                "the transport context is not of an adapter of ringcall_hsb_create_for_three: receiver and sender would both write one \
                 doorbell record",
            ));
        }
    }
    if !beside.host {
        let found = found.ok_or_else(|| crate::device::not_linked(kernels.launch_function()))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use adapter::{ADAPTERS, Adapter};
    use std::sync::Arc;

    fn asked(tx_stride: usize) -> Asked {
        let none = core::ptr::null_mut();
        Asked {
            tx_stride,
            table: none,
            count: 0,
            shutdown: core::ptr::null_mut(),
            stats: core::ptr::null_mut(),
        }
    }

    /// Why three kernels of which `null` is missing are not launched with `ctx`.
    fn refused(ctx: *const c_void, tx_stride: usize, null: Option<usize>) -> String {
        let there = core::ptr::dangling_mut::<c_void>();
        let kernels = core::array::from_fn(|at| if null == Some(at) { core::ptr::null_mut() } else { there });
        let found = Found { device: 0, kernels: Kernels::Three(kernels) };
        let which = Kernels::Three([(); 3]);
        // SAFETY: the context is null or ours, and refused before anything else is read.
        let refused = unsafe { launch(ctx, Form::Of48, &asked(tx_stride), which, Some(found)) };
        refused.err().map(|fault| fault.why).unwrap_or_default()
    }

    #[test]
    fn three_kernels_are_launched_with_all_of_them_and_queues_made_for_them() {
        let adapter = Arc::new(Adapter::still(128, 4, None, For::Unified).expect("memory"));
        let context = adapter.context();
        let handle = ADAPTERS.insert(Arc::clone(&adapter));
        let ctx = (&raw const context).cast();
        for (at, name) in
            ["ringcall_relay_receive", "ringcall_dispatch", "ringcall_relay_send"].into_iter().enumerate()
        {
            let why = refused(ctx, 0, Some(at));
            assert!(why.contains(name) && why.contains("null"), "{why}");
        }
        let why = refused(core::ptr::null(), 0, None);
        assert!(why.contains("the transport context"), "{why}");
        let why = refused(ctx, 64, None);
        assert!(why.contains("tx_stride_sz is 64"), "{why}");
        let why = refused(ctx, 0, None);
        assert!(why.contains("not of an adapter of ringcall_hsb_create_for_three"), "{why}");
        ADAPTERS.remove(handle).expect("it was there");
    }

    #[test]
    fn sizes_of_queues_for_three_kernels_are_refused_by_name() {
        let refused = |page, pages, device| {
            Adapter::still(page, pages, device, For::Three).err().map(|fault| fault.why).unwrap_or_default()
        };
        for (pages, word) in [(0, "0 pages"), (3, "3 pages"), (8192, "8192 pages")] {
            let why = refused(128, pages, Some(0));
            assert!(why.contains(word) && why.contains("a power of two"), "{why}");
        }
        for page in [0, 32, 136, 1 << 17] {
            let why = refused(page, 4, Some(0));
            assert!(why.contains(&format!("a page of {page} bytes")), "{why}");
        }
        assert!(refused(128, 4, None).contains("three kernels run on a device"));
    }
}
