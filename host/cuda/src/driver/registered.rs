//! Registered host memory: memory of the caller that is pinned and mapped into the device.

use super::api::Api;
use super::frees::DeferredFree;
use super::handle::Handle;
use super::{Context, DeviceAddress};
use crate::CudaError;
use core::ffi::c_void;
use cudarc::driver::sys::{
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_IOMEMORY, CU_MEMHOSTREGISTER_PORTABLE,
};
use ringcall_gpu::shared::SharedError;
use std::any::Any;
use std::sync::Arc;

/// Foreign host memory (a ring that a C caller or a NIC's driver allocated), pinned and mapped into the device until
/// this is dropped.
#[derive(Debug)]
pub struct HostRegistration {
    context: Arc<Context>,
    base: Handle<c_void>,
    device: DeviceAddress,
    len: usize,
    /// On drop the owner is kept with the postponed unregistration, so that the memory outlives it.
    owner: Arc<dyn Any + Send + Sync>,
}

impl HostRegistration {
    /// Pins and maps the `len` bytes at `base`.
    ///
    /// Whole pages are pinned: memory that shares its first or last page with other registered memory is refused by
    /// the driver.
    ///
    /// # Safety
    /// `base .. base + len` is mapped and writable in this process, and stays so until `owner` is dropped. (With an
    /// owner that owns nothing, such as `Arc::new(())`: until this registration and every
    /// [`DeferFrees`](super::DeferFrees) of the context are gone.)
    ///
    /// # Errors
    /// A null pointer or no bytes, memory that cannot be pinned or is registered already, or a dead context.
    pub unsafe fn register(
        context: &Arc<Context>,
        base: *mut u8,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, CudaError> {
        // SAFETY: the caller's promise.
        unsafe { Self::registered(context, base, len, 0, "host memory", owner) }
    }

    /// The same for registers of another device that are mapped into this process: the doorbell page (UAR) of an adapter.
    ///
    /// # Safety
    /// As for [`register`](Self::register); `base .. base + len` is an I/O mapping, whose every store the device may make.
    ///
    /// # Errors
    /// As for [`register`](Self::register): memory that is no I/O mapping is refused, and every mapping where the driver or the kernel
    /// does not let a device reach another (no `nvidia-peermem` or open kernel modules, an IOMMU in the way).
    pub unsafe fn register_io(
        context: &Arc<Context>,
        base: *mut u8,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, CudaError> {
        let what = "another device's registers (CU_MEMHOSTREGISTER_IOMEMORY)";
        // SAFETY: the caller's promise.
        unsafe { Self::registered(context, base, len, CU_MEMHOSTREGISTER_IOMEMORY, what, owner) }
    }

    /// # Safety
    /// As for [`register`](Self::register).
    unsafe fn registered(
        context: &Arc<Context>,
        base: *mut u8,
        len: usize,
        kind: u32,
        what: &str,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, CudaError> {
        if base.is_null() {
            return Err(SharedError::Null.into());
        }
        let api = context.enter()?;
        let base = base.cast::<c_void>();
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | kind;
        // SAFETY: the caller's promise: the memory is there, and stays until it is unregistered.
        let code = unsafe { (api.cuMemHostRegister_v2)(base, len, flags) };
        api.check(code, format_args!("registering {len} bytes of {what}"))?;
        let device = device_address(api, base).inspect_err(|_| {
            // SAFETY: registered above, and not handed out.
            unsafe { (api.cuMemHostUnregister)(base) };
        })?;
        Ok(Self { context: Arc::clone(context), base: Handle(base), device, len, owner })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: the driver refuses to register nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of byte `offset` as the device sees it. It need not be the host's.
    ///
    /// # Errors
    /// Out of bounds; one past the end is allowed.
    pub fn device_address(&self, offset: usize) -> Result<DeviceAddress, CudaError> {
        if offset > self.len {
            return Err(SharedError::OutOfBounds { end: offset, len: self.len }.into());
        }
        Ok(self.device.offset(offset as u64))
    }
}

fn device_address(api: &Api, base: *mut c_void) -> Result<DeviceAddress, CudaError> {
    let mut device = DeviceAddress(0);
    // SAFETY: the driver writes one address, of memory that is registered.
    let code = unsafe { (api.cuMemHostGetDevicePointer_v2)(&raw mut device.0, base, 0) };
    api.check(code, "mapping registered host memory into the device")?;
    Ok(device)
}

impl Drop for HostRegistration {
    fn drop(&mut self) {
        self.context.discard(DeferredFree::Registration(self.base, Arc::clone(&self.owner)));
    }
}
