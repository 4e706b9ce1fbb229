//! The memory of a region: zeroed pages, or the objects of a model.

use super::SharedError;

#[cfg(not(loom))]
pub(crate) use real::Storage;

#[cfg(not(loom))]
mod real {
    use super::SharedError;
    use crate::atomic::SystemU64;
    use core::alloc::Layout;
    use core::ptr::NonNull;

    /// Page alignment: flags of different rings never share a line, and a region can be handed to a pinning call whole.
    const PAGE: usize = 4096;

    /// Zeroed pages from the allocator.
    #[derive(Debug)]
    pub(crate) struct Storage {
        base: NonNull<SystemU64>,
        layout: Layout,
    }

    // SAFETY: the memory is reached only through atomic loads and stores of `SystemU64`, which is `Sync`.
    unsafe impl Send for Storage {}
    // SAFETY: as for `Send`: shared access is atomic access.
    unsafe impl Sync for Storage {}

    impl Storage {
        pub(crate) fn zeroed(bytes: usize) -> Result<Self, SharedError> {
            let refused = SharedError::OutOfMemory { bytes };
            let len = bytes.max(1).checked_next_multiple_of(PAGE).ok_or(refused)?;
            let layout = Layout::from_size_align(len, PAGE).map_err(|_| refused)?;
            // SAFETY: the layout's size is at least one page, so not zero.
            let base = unsafe { std::alloc::alloc_zeroed(layout) };
            #[allow(clippy::cast_ptr_alignment)] // the layout asked for a page's alignment
            let base = NonNull::new(base.cast::<SystemU64>()).ok_or(refused)?;
            Ok(Self { base, layout })
        }

        pub(crate) fn len(&self) -> usize {
            self.layout.size()
        }

        pub(crate) fn word_at(&self, offset: usize) -> NonNull<SystemU64> {
            debug_assert!(offset <= self.len());
            // SAFETY: callers check the window against `len` first, so the offset stays inside the allocation (or
            // one past its end, for an empty window).
            unsafe { self.base.byte_add(offset) }
        }
    }

    impl Drop for Storage {
        fn drop(&mut self) {
            // SAFETY: `base` came from `alloc_zeroed` with this layout, and is freed once: windows hold the `Arc`.
            unsafe { std::alloc::dealloc(self.base.as_ptr().cast(), self.layout) };
        }
    }
}

#[cfg(loom)]
pub(crate) use model::Storage;

#[cfg(loom)]
mod model {
    use super::SharedError;
    use crate::atomic::SystemU64;

    /// Loom's atomics have a size of their own, so the model keeps a list of them; no page rounding, since each word is
    /// a model object.
    #[derive(Debug)]
    pub(crate) struct Storage {
        words: Vec<SystemU64>,
    }

    impl Storage {
        pub(crate) fn zeroed(bytes: usize) -> Result<Self, SharedError> {
            Ok(Self { words: (0..bytes.div_ceil(8).max(1)).map(|_| SystemU64::new(0)).collect() })
        }

        pub(crate) fn len(&self) -> usize {
            self.words.len() * 8
        }

        pub(crate) fn words(&self) -> &[SystemU64] {
            &self.words
        }
    }
}
