//! Fences. Only the purpose-named barriers of [`crate::barrier`] use them.

use core::arch::asm;

/// Loads before it are ordered before everything after it, towards the whole system.
///
/// `fence.acquire` costs 2 ns on a Hopper where `fence.acq_rel` costs 515, because only the latter waits for stores; it
/// needs PTX 8.6 and sm_90.
#[inline(always)]
pub(crate) fn acquire_sys() {
    #[cfg(target_feature = "sm_90")]
    // SAFETY: a fence; touches nothing.
    unsafe {
        asm!("fence.acquire.sys;", options(nostack));
    }
    #[cfg(not(target_feature = "sm_90"))]
    // SAFETY: a fence; touches nothing.
    unsafe {
        asm!("fence.acq_rel.sys;", options(nostack));
    }
}

/// Everything before it is ordered before stores after it, towards the whole system.
#[inline(always)]
pub(crate) fn release_sys() {
    // SAFETY: a fence; touches nothing.
    unsafe { asm!("fence.acq_rel.sys;", options(nostack)) };
}

/// Both directions, towards the threads of this device.
#[inline(always)]
pub(crate) fn acq_rel_gpu() {
    // SAFETY: a fence; touches nothing.
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack)) };
}
