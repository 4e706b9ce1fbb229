//! Handles for C: numbers in the shape of pointers, which are never dereferenced. Each is given out once, so an unknown
//! or released handle is recognised.

use core::ffi::c_void;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

#[derive(Debug)]
pub(crate) struct Handles<T>(LazyLock<RwLock<Entries<T>>>);

#[derive(Debug)]
struct Entries<T> {
    next: usize,
    live: HashMap<usize, Arc<T>>,
}

/// The distance between two handles: none is 0, and small offsets from a handle give no other.
const STEP: usize = 0x10;

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self(LazyLock::new(|| RwLock::new(Entries { next: STEP, live: HashMap::new() })))
    }

    pub(crate) fn insert(&self, value: Arc<T>) -> *mut c_void {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let handle = entries.next;
        entries.next += STEP;
        entries.live.insert(handle, value);
        std::ptr::without_provenance_mut(handle)
    }

    pub(crate) fn get(&self, handle: *mut c_void) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).live.get(&handle.addr()).cloned()
    }

    pub(crate) fn remove(&self, handle: *mut c_void) -> Option<Arc<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).live.remove(&handle.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_until_it_is_given_back_and_never_again() {
        let handles = Handles::new();
        let (a, b) = (handles.insert(Arc::new(1)), handles.insert(Arc::new(2)));
        assert_eq!((handles.get(a).as_deref(), handles.get(b).as_deref()), (Some(&1), Some(&2)));
        assert_eq!(handles.remove(a).as_deref(), Some(&1));
        assert!(handles.remove(a).is_none() && handles.get(a).is_none());
        assert_ne!(handles.insert(Arc::new(3)), a);
        assert!(handles.get(std::ptr::null_mut()).is_none());
    }
}
