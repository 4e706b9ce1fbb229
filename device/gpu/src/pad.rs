//! Values kept on cache lines of their own.

/// Keeps `T` on its own pair of cache lines (128 bytes: adjacent-line prefetch pulls lines in pairs on x86-64), so that
/// two threads writing neighbouring values do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> core::ops::Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> core::ops::DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
