//! Page-aligned memory that an adapter reads and writes, accessed without references into it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Zeroed memory that begins at a page boundary. Peers may write it at any time, so its bytes are copied in and out,
/// never borrowed.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone, and is reached through its methods.
unsafe impl Send for Memory {}

/// The page size of every machine with RDMA adapters, or a multiple of it.
const PAGE_BYTES: usize = 4096;

impl Memory {
    /// Allocates `bytes`, at least one. `None` if an address space cannot hold them.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), PAGE_BYTES).ok()?;
        // SAFETY: the layout has a size of at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Some(Self { start, layout })
    }

    pub(super) const fn bytes(&self) -> usize {
        self.layout.size()
    }

    pub(super) const fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Copies bytes out. If a peer writes them at the same time, the copy may be torn; requests are checked for that
    /// like any others.
    ///
    /// # Panics
    /// The range is outside the memory, which is a defect of the caller.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(
            offset.checked_add(out.len()).is_some_and(|end| end <= self.bytes()),
            "outside of the memory"
        );
        // SAFETY: the range is inside.
        let start = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: the range is inside, and `out` is another object's.
        unsafe { start.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// The range is outside the memory, which is a defect of the caller.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(
            offset.checked_add(bytes.len()).is_some_and(|end| end <= self.bytes()),
            "outside of the memory"
        );
        // SAFETY: the range is inside.
        let start = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: the range is inside, and `bytes` is another object's.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    pub(super) fn clear(&mut self) {
        // SAFETY: all of it is this value's.
        unsafe { self.start.as_ptr().write_bytes(0, self.bytes()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
