//! Memory that an adapter reads and writes: whole pages, and never a reference into them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Zeroed memory at a page's boundary. Peers write it at any time, so it is copied in and out, and never borrowed.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone, and is reached through its methods.
unsafe impl Send for Memory {}

/// Of every machine that has RDMA adapters, or a multiple.
const PAGE_BYTES: usize = 4096;

impl Memory {
    /// So many bytes, one at least; `None` for more than an address space has.
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

    /// Copies out. What a peer writes at the same time may be there in part: its requests are checked like any other's.
    ///
    /// # Panics
    /// The range is outside of the memory: a defect of the caller.
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

    /// Copies in.
    ///
    /// # Panics
    /// The range is outside of the memory: a defect of the caller.
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
