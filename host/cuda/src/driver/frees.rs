//! Frees, immediate or postponed until no persistent kernel runs.

use super::api::{Api, SUCCESS};
use super::handle::Handle;
use core::ffi::c_void;
use cudarc::driver::sys::{CUdeviceptr, CUgraphExec_st, CUmod_st};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// An object that its last owner returns to the driver.
#[derive(Debug)]
pub(super) enum DeferredFree {
    /// Of `cuMemAlloc`.
    Device(CUdeviceptr),
    /// Of `cuMemHostAlloc`.
    Host(Handle<c_void>),
    /// Of `cuMemHostRegister`, with what keeps the memory alive until then.
    Registration(Handle<c_void>, Arc<dyn Any + Send + Sync>),
    Module(Handle<CUmod_st>),
    GraphExec(Handle<CUgraphExec_st>),
    /// An object of another library, whose drop frees memory or code in the context.
    Owned(Box<dyn Any + Send>),
}

impl DeferredFree {
    /// Returns the object. The driver's result is ignored: in a dead context nothing can be freed.
    pub(super) fn free(self, api: &Api) {
        match self {
            // SAFETY: allocated by the driver, handed here once by its last owner, in whose context we are.
            Self::Device(address) => unsafe { (api.cuMemFree_v2)(address) },
            // SAFETY: as above.
            Self::Host(base) => unsafe { (api.cuMemFreeHost)(base.0) },
            // SAFETY: registered once, unregistered once; the owner dropped after it keeps the memory until then.
            Self::Registration(base, _owner) => unsafe { (api.cuMemHostUnregister)(base.0) },
            // SAFETY: as above; kernels of the module held it.
            Self::Module(module) => unsafe { (api.cuModuleUnload)(module.0) },
            // SAFETY: as above.
            Self::GraphExec(exec) => unsafe { (api.cuGraphExecDestroy)(exec.0) },
            Self::Owned(owned) => {
                drop(owned);
                SUCCESS
            }
        };
    }
}

/// Postponed frees, and how many holds postpone them.
#[derive(Debug, Default)]
pub(super) struct Frees {
    postponed: Mutex<Postponed>,
}

#[derive(Debug, Default)]
struct Postponed {
    holds: usize,
    garbage: Vec<DeferredFree>,
}

impl Frees {
    /// Adds a hold.
    pub(super) fn hold(&self) {
        self.locked(|postponed| postponed.holds += 1);
    }

    /// Ends a hold. Returns the objects to free now, in the order in which they were dropped.
    pub(super) fn release(&self) -> Vec<DeferredFree> {
        self.locked(|postponed| {
            postponed.holds = postponed.holds.saturating_sub(1);
            if postponed.holds == 0 { std::mem::take(&mut postponed.garbage) } else { Vec::new() }
        })
    }

    /// Keeps `garbage` while there is a hold; otherwise returns it, to be freed now.
    pub(super) fn postpone(&self, garbage: DeferredFree) -> Option<DeferredFree> {
        self.locked(|postponed| {
            if postponed.holds == 0 {
                return Some(garbage);
            }
            postponed.garbage.push(garbage);
            None
        })
    }

    /// Whether there is a hold.
    pub(super) fn held(&self) -> bool {
        self.locked(|postponed| postponed.holds != 0)
    }

    fn locked<R>(&self, change: impl FnOnce(&mut Postponed) -> R) -> R {
        // Nothing in here panics; a poisoned list is still a list.
        change(&mut self.postponed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(garbage: &[DeferredFree]) -> Vec<u64> {
        garbage.iter().map(|one| if let DeferredFree::Device(address) = one { *address } else { 0 }).collect()
    }

    #[test]
    fn without_a_hold_everything_is_freed_at_once() {
        let frees = Frees::default();
        assert!(matches!(frees.postpone(DeferredFree::Device(7)), Some(DeferredFree::Device(7))));
        assert!(frees.release().is_empty());
    }

    #[test]
    fn with_holds_everything_waits_for_the_last_one_and_keeps_its_order() {
        let frees = Frees::default();
        frees.hold();
        assert!(frees.postpone(DeferredFree::Device(1)).is_none());
        frees.hold();
        assert!(frees.postpone(DeferredFree::Device(2)).is_none());
        assert!(frees.release().is_empty(), "one hold is left");
        assert!(frees.postpone(DeferredFree::Device(3)).is_none());
        assert_eq!(addresses(&frees.release()), [1, 2, 3]);
        assert!(frees.postpone(DeferredFree::Device(4)).is_some(), "free again");
    }
}
