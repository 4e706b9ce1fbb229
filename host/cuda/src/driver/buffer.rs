//! Device memory.

use super::frees::DeferredFree;
use super::{Context, DeviceAddress, Stream};
use crate::CudaError;
use cudarc::driver::sys::CUmemRangeHandleType;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

/// Zeroed device memory, freed on drop. A caller that passes its address to a kernel keeps the buffer until the
/// kernel has ended.
#[derive(Debug)]
pub struct DeviceBuffer {
    context: Arc<Context>,
    address: DeviceAddress,
    len: usize,
}

impl DeviceBuffer {
    /// Allocates `bytes`, at least one, all zero.
    ///
    /// # Errors
    /// The device is out of memory, or the context is dead.
    pub fn zeroed(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        let len = bytes.max(1);
        let api = context.enter()?;
        let mut address = DeviceAddress(0);
        // SAFETY: the driver writes one address.
        let code = unsafe { (api.cuMemAlloc_v2)(&raw mut address.0, len) };
        api.check(code, format_args!("allocating {len} bytes of device memory"))?;
        // From here on the buffer frees itself.
        let buffer = Self { context: Arc::clone(context), address, len };
        buffer.fill(0)?;
        Ok(buffer)
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a buffer has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address of its first byte; at least 256-byte aligned.
    #[must_use]
    pub fn address(&self) -> DeviceAddress {
        self.address
    }

    /// Exports its first bytes, as many whole pages of 4096 bytes as there are, as a dmabuf: a file by which an adapter's driver
    /// (`ibv_reg_dmabuf_mr`) reaches the device's memory. Closing the file frees nothing.
    ///
    /// # Errors
    /// A buffer shorter than a page; a driver or a device that exports no memory so: closed kernel modules, no
    /// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`, memory that does not begin on a page.
    pub fn export_dmabuf(&self) -> Result<OwnedFd, CudaError> {
        const PAGE: usize = 4096;
        let len = self.len / PAGE * PAGE;
        let api = self.context.enter()?;
        let mut file: i32 = -1;
        let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        // SAFETY: the driver writes an int: the range lies in this allocation, or is empty and refused.
        let code = unsafe {
            (api.cuMemGetHandleForAddressRange)((&raw mut file).cast(), self.address.0, len, kind, 0)
        };
        api.check(code, format_args!("exporting {len} bytes of device memory as a dmabuf"))?;
        // SAFETY: a file descriptor that the driver has just opened for this caller.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// Sets every byte to `value`, and waits until that is done.
    ///
    /// # Errors
    /// The context is dead.
    pub fn fill(&self, value: u8) -> Result<(), CudaError> {
        let api = self.context.enter()?;
        let stream = self.context.copies();
        // SAFETY: the whole allocation, which lives as long as `self`; waited for below.
        let code = unsafe { (api.cuMemsetD8Async)(self.address.0, value, self.len, stream.raw()) };
        api.check(code, "filling device memory")?;
        stream.synchronize(api)
    }

    /// Sets every byte to `value` in the order of `stream`, after the work that is on it and before later
    /// work. Does not wait.
    ///
    /// # Errors
    /// What the driver says.
    pub fn fill_in_order(&self, value: u8, stream: &Stream) -> Result<(), CudaError> {
        let api = self.context.enter()?;
        // SAFETY: the whole allocation; freeing it waits for what was begun before.
        let code = unsafe { (api.cuMemsetD8Async)(self.address.0, value, self.len, stream.raw()) };
        api.check(code, "filling device memory")
    }

    /// Writes a word at byte `offset` in the order of `stream`, without a kernel, so it works while other kernels
    /// occupy the device. Does not wait.
    ///
    /// # Errors
    /// It is not inside, or not at a multiple of 8, or what the driver says.
    pub fn write_word_in_order(&self, offset: usize, value: u64, stream: &Stream) -> Result<(), CudaError> {
        let to = self.inside(offset, size_of::<u64>())?;
        if !to.0.is_multiple_of(8) {
            let (len, size) = (size_of::<u64>(), self.len);
            return Err(CudaError::OutOfBounds { what: "aligned device memory", offset, len, size });
        }
        let api = self.context.enter()?;
        // SAFETY: an aligned word of the allocation; freeing it waits for what was begun before.
        let code = unsafe { (api.cuStreamWriteValue64_v2)(stream.raw(), to.0, value, 0) };
        api.check(code, "writing a word of device memory")
    }

    /// Copies `data` to byte `offset`, and waits until it is there.
    ///
    /// A kernel that runs meanwhile may see any part of the data: the caller must order them.
    ///
    /// # Errors
    /// It does not fit, or the context is dead.
    pub fn write_from(&self, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        let to = self.inside(offset, data.len())?;
        let api = self.context.enter()?;
        let stream = self.context.copies();
        // SAFETY: both ends hold `data.len()` bytes; `data` is borrowed until the copy has been waited for.
        let code =
            unsafe { (api.cuMemcpyHtoDAsync_v2)(to.0, data.as_ptr().cast(), data.len(), stream.raw()) };
        api.check(code, format_args!("copying {} bytes to the device", data.len()))?;
        stream.synchronize(api)
    }

    /// Copies the bytes from `offset` on into `out`, and waits until they are there.
    ///
    /// # Errors
    /// They do not all lie inside, or the context is dead.
    pub fn read_into(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        let from = self.inside(offset, out.len())?;
        let api = self.context.enter()?;
        let stream = self.context.copies();
        // SAFETY: both ends hold `out.len()` bytes; `out` is borrowed until the copy has been waited for.
        let code =
            unsafe { (api.cuMemcpyDtoHAsync_v2)(out.as_mut_ptr().cast(), from.0, out.len(), stream.raw()) };
        api.check(code, format_args!("copying {} bytes from the device", out.len()))?;
        stream.synchronize(api)
    }

    fn inside(&self, offset: usize, len: usize) -> Result<DeviceAddress, CudaError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(CudaError::OutOfBounds { what: "device memory", offset, len, size: self.len });
        }
        Ok(self.address.offset(offset as u64))
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        self.context.discard(DeferredFree::Device(self.address.0));
    }
}
