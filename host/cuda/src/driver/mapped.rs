//! Pinned host memory that the device reads and writes in place.

use super::frees::DeferredFree;
use super::handle::Handle;
use super::{Context, DeviceAddress};
use crate::CudaError;
use core::ffi::c_void;
use cudarc::driver::sys::{CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE};
use ringcall_gpu::shared::{Bytes, SharedError, Words};
use std::any::Any;
use std::sync::Arc;

/// Whole pages, so that flags of different rings never share a line.
const PAGE: usize = 4096;

/// Zeroed, page-aligned, pinned host memory, mapped into the device. Cheap to clone. Its windows keep it alive; a
/// caller that passes its addresses to a kernel must keep it alive, too.
#[derive(Debug, Clone)]
pub struct MappedRegion {
    allocation: Arc<Allocation>,
    /// Where the region begins in the allocation, and its length; whole pages.
    start: usize,
    len: usize,
}

#[derive(Debug)]
struct Allocation {
    context: Arc<Context>,
    base: Handle<c_void>,
    device: DeviceAddress,
}

impl Allocation {
    /// Allocates `len` zeroed, mapped bytes at any address.
    fn new(context: &Arc<Context>, len: usize) -> Result<Self, CudaError> {
        let api = context.enter()?;
        let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        let mut base = core::ptr::null_mut();
        // SAFETY: the driver writes one pointer.
        let code = unsafe { (api.cuMemHostAlloc)(&raw mut base, len, flags) };
        api.check(code, format_args!("pinning {len} bytes of host memory"))?;
        // From here on the allocation frees itself.
        let mut allocation =
            Self { context: Arc::clone(context), base: Handle(base), device: DeviceAddress(0) };
        // SAFETY: `len` bytes were allocated, and no other agent knows of them yet.
        unsafe { base.cast::<u8>().write_bytes(0, len) };
        // SAFETY: the driver writes one address, of memory it has just mapped.
        let code = unsafe { (api.cuMemHostGetDevicePointer_v2)(&raw mut allocation.device.0, base, 0) };
        api.check(code, "mapping pinned host memory into the device")?;
        Ok(allocation)
    }

    /// Bytes to the first page that begins in it.
    fn start(&self) -> usize {
        self.base.0.addr().wrapping_neg() % PAGE
    }
}

impl MappedRegion {
    /// Allocates `bytes`, rounded up to whole pages, all zero.
    ///
    /// # Errors
    /// The device cannot map host memory, no memory is left to pin, or the context is dead.
    pub fn zeroed(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        let len = bytes.max(1).checked_next_multiple_of(PAGE).ok_or(SharedError::OutOfMemory { bytes })?;
        let allocation = Allocation::new(context, len)?;
        // The driver may place a small allocation anywhere in a page, so a larger one that contains a whole page is
        // allocated then.
        let allocation = match allocation.start() {
            0 => allocation,
            _ => Allocation::new(context, len.checked_add(PAGE).ok_or(SharedError::OutOfMemory { bytes })?)?,
        };
        Ok(Self { start: allocation.start(), len, allocation: Arc::new(allocation) })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a region has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A host window of `count` words, starting `offset` bytes in.
    ///
    /// # Errors
    /// Misaligned or out of bounds.
    pub fn words(&self, offset: usize, count: usize) -> Result<Words, CudaError> {
        let base = self.inside(offset, count.saturating_mul(8))?;
        #[allow(clippy::cast_ptr_alignment)] // `from_raw_owned` checks it
        let base = base.cast::<u64>();
        // SAFETY: inside the allocation, which the owner keeps; Rust code reaches it through windows alone.
        Ok(unsafe { Words::from_raw_owned(base, count, self.owner()) }?)
    }

    /// A host window of `len` bytes, starting `offset` bytes in; both multiples of 8.
    ///
    /// # Errors
    /// Misaligned or out of bounds.
    pub fn bytes(&self, offset: usize, len: usize) -> Result<Bytes, CudaError> {
        let base = self.inside(offset, len)?;
        // SAFETY: as for `words`.
        Ok(unsafe { Bytes::from_raw_owned(base, len, self.owner()) }?)
    }

    /// `len` bytes from byte `offset` on, as ordinary memory, for copies of whole tensors, which take several times
    /// as long word by word.
    ///
    /// # Safety
    /// Until the slice is used for the last time, nothing else reads or writes these bytes: no work on the device, no window,
    /// no clone of this region. Work that the device does later is started after that.
    ///
    /// # Errors
    /// Out of bounds.
    pub unsafe fn exclusive(&mut self, offset: usize, len: usize) -> Result<&mut [u8], CudaError> {
        let base = self.inside(offset, len)?;
        // SAFETY: inside the allocation, zeroed when it was made, and the caller's alone by its promise.
        Ok(unsafe { core::slice::from_raw_parts_mut(base, len) })
    }

    /// The address of byte `offset` as the device sees it.
    ///
    /// # Errors
    /// Out of bounds; one past the end is allowed.
    pub fn device_address(&self, offset: usize) -> Result<DeviceAddress, CudaError> {
        self.inside(offset, 0)?;
        Ok(self.allocation.device.offset((self.start + offset) as u64))
    }

    fn inside(&self, offset: usize, len: usize) -> Result<*mut u8, SharedError> {
        let end = offset.saturating_add(len);
        if end > self.len() {
            return Err(SharedError::OutOfBounds { end, len: self.len() });
        }
        Ok(self.allocation.base.0.cast::<u8>().wrapping_add(self.start + offset))
    }

    fn owner(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::<Allocation>::clone(&self.allocation)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.context.discard(DeferredFree::Host(self.base));
    }
}
