//! Handles that cannot dangle: each is a number in the shape of a pointer and is given out once.

use crate::status::Fault;
use ringcall_gpu::atomic::DeviceU64;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Steps of 16 from an address that nothing is mapped at, so that a handle looks like a pointer and is none.
const STEP: u64 = 16;
const FIRST: u64 = 0x1000;

/// The live handles of one kind.
pub(crate) struct Registry<T> {
    what: &'static str,
    live: OnceLock<Mutex<HashMap<u64, Arc<T>>>>,
}

fn fresh() -> u64 {
    static NEXT: OnceLock<DeviceU64> = OnceLock::new();
    NEXT.get_or_init(|| DeviceU64::new(FIRST)).fetch_add(STEP, Ordering::Relaxed)
}

impl<T> Registry<T> {
    pub(crate) const fn new(what: &'static str) -> Self {
        Self { what, live: OnceLock::new() }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<u64, Arc<T>>> {
        self.live.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, value: Arc<T>) -> *mut c_void {
        let handle = fresh();
        self.live().insert(handle, value);
        handle as usize as *mut c_void
    }

    pub(crate) fn get(&self, handle: *const c_void) -> Result<Arc<T>, Fault> {
        self.live().get(&(handle as usize as u64)).cloned().ok_or_else(|| self.unknown(handle))
    }

    pub(crate) fn remove(&self, handle: *const c_void) -> Result<Arc<T>, Fault> {
        self.live().remove(&(handle as usize as u64)).ok_or_else(|| self.unknown(handle))
    }

    /// Looks at every one, under the lock: `look` returns soon, and keeps nothing alive.
    pub(crate) fn for_each(&self, visit: impl FnMut(&T)) {
        self.live().values().map(Arc::as_ref).for_each(visit);
    }

    /// The first that `is` says yes to, under the lock.
    pub(crate) fn find(&self, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.live().values().find(|value| is(value)).cloned()
    }

    fn unknown(&self, handle: *const c_void) -> Fault {
        let what = self.what;
        if handle.is_null() {
            Fault::invalid(format!("the {what} is null"))
        } else {
            Fault::invalid(format!("{handle:p} is no {what}, or was destroyed before"))
        }
    }
}

/// A lock that a panic elsewhere does not take away.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
