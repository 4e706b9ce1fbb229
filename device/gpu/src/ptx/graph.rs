//! Launching graphs from the device: the symbols of `libcudadevrt`, without its headers.
//!
//! Only kernels that launch use this module: a module that names `cudaGraphLaunch` links only with `libcudadevrt.a`.

use core::arch::asm;

/// An executable graph that was instantiated for device launch, as its handle's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct GraphExec(pub u64);

/// The named streams that take device launches (`cuda_device_runtime_api.h`).
mod stream {
    /// Runs once the launching graph and all its children have ended.
    pub(super) const TAIL_LAUNCH: u64 = 0x0100_0000_0000_0000;
    /// Runs at once; part of the launching graph's execution.
    pub(super) const FIRE_AND_FORGET: u64 = 0x0200_0000_0000_0000;
}

unsafe extern "C" {
    fn cudaGraphLaunch(exec: u64, stream: u64) -> i32;
}

/// The graph that this kernel runs in; `None` for a kernel that was launched on its own.
#[must_use]
#[inline(always)]
pub fn current() -> Option<GraphExec> {
    let handle: u64;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u64 {}, %current_graph_exec;", out(reg64) handle, options(nomem, nostack)) };
    (handle != 0).then_some(GraphExec(handle))
}

/// Launches a child, which starts at once. What this thread wrote before is visible to the child.
///
/// One execution of a graph can launch 120 children in its life; the next launch is an error.
///
/// # Errors
/// The CUDA error code.
///
/// # Safety
/// `exec` was instantiated for device launch and uploaded, still exists, and is not running now.
#[inline(always)]
pub unsafe fn fire_and_forget(exec: GraphExec) -> Result<(), i32> {
    crate::ptx::fence::acq_rel_gpu();
    // SAFETY: the caller's promise.
    let code = unsafe { cudaGraphLaunch(exec.0, stream::FIRE_AND_FORGET) };
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Launches this kernel's own graph (or another) for the time when it and all its children have ended.
///
/// # Errors
/// The CUDA error code.
///
/// # Safety
/// As for [`fire_and_forget`], but `exec` may be the running graph itself; one tail launch of itself an execution.
#[inline(always)]
pub unsafe fn tail_launch(exec: GraphExec) -> Result<(), i32> {
    crate::ptx::fence::acq_rel_gpu();
    // SAFETY: the caller's promise.
    let code = unsafe { cudaGraphLaunch(exec.0, stream::TAIL_LAUNCH) };
    if code == 0 { Ok(()) } else { Err(code) }
}
