//! The driver's opaque handles.

/// A handle that the driver gave out: opaque, and usable from any thread.
#[derive(Debug)]
pub(super) struct Handle<T>(pub(super) *mut T);

// SAFETY: the pointer is a name that only the driver follows, and the driver's interface is thread-safe.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}
