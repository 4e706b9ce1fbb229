//! Fences, named by what they are for. Bare fences are not used anywhere else.

use core::sync::atomic::Ordering;

#[cfg(not(loom))]
use core::sync::atomic::fence;
#[cfg(loom)]
use loom::sync::atomic::fence;

/// After relaxed polls saw at least one flag set: everything the flags' writers did before setting them is visible from
/// here on. One fence serves a whole batch of flags.
///
/// Pairs with the release store of the flag (`SharedRing::publish_request`, or the NIC's or the GPU's own release).
#[inline(always)]
pub fn observe_from_peer() {
    fence(Ordering::Acquire);
}

/// Before relaxed stores that publish: everything done before is visible to whoever observes them.
#[inline(always)]
pub fn publish_to_peer() {
    fence(Ordering::Release);
}
