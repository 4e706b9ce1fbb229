//! Fences, named by what they are for. Bare fences are not used anywhere else.

#[cfg(not(target_arch = "nvptx64"))]
use core::sync::atomic::Ordering;

#[cfg(not(any(loom, target_arch = "nvptx64")))]
use core::sync::atomic::fence;
#[cfg(loom)]
use loom::sync::atomic::fence;

/// After relaxed polls saw at least one flag set: everything the flags' writers did before setting them is visible from
/// here on. One fence serves a whole batch of flags.
///
/// Pairs with the release store of the flag (`SharedRing::publish_request`, or the NIC's or the GPU's own release).
#[inline(always)]
pub fn observe_from_peer() {
    #[cfg(not(target_arch = "nvptx64"))]
    fence(Ordering::Acquire);
    #[cfg(target_arch = "nvptx64")]
    crate::ptx::fence::acquire_sys();
}

/// Before relaxed stores that publish: everything done before is visible to a reader that observes them.
#[inline(always)]
pub fn publish_to_peer() {
    #[cfg(not(target_arch = "nvptx64"))]
    fence(Ordering::Release);
    #[cfg(target_arch = "nvptx64")]
    crate::ptx::fence::release_sys();
}

/// Before relaxed stores that other threads of the device observe: everything done before is visible to the
/// agent that does.
#[inline(always)]
pub fn publish_to_grid() {
    #[cfg(not(target_arch = "nvptx64"))]
    fence(Ordering::Release);
    #[cfg(target_arch = "nvptx64")]
    crate::ptx::fence::acq_rel_gpu();
}
