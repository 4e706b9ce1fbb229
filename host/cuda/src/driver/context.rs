//! A device's primary context.

use super::Device;
use super::api::Api;
use super::frees::Frees;
use super::handle::Handle;
use super::raw_stream::RawStream;
use super::weak_cache::WeakCache;
use crate::CudaError;
use cudarc::driver::sys::{CUctx_st, CUpointer_attribute};
use std::sync::Arc;

/// A device's primary context, held until the last handle to an object in it is gone.
#[derive(Debug)]
pub struct Context {
    device: Device,
    raw: Handle<CUctx_st>,
    /// The stream for copies and memsets. The legacy stream is never used, because it waits for every kernel.
    copies: RawStream,
    frees: Frees,
}

/// The contexts of this process, by their devices' numbers. A hold on frees has to reach every handle of its
/// device: freeing waits for the device's kernels, including other owners' kernels.
static CONTEXTS: WeakCache<Context> = WeakCache::new();

impl Context {
    /// The device's context: the context that this process holds already, or a new one.
    pub(super) fn of(device: Device) -> Result<Arc<Self>, CudaError> {
        // The driver counts who retains the primary context, so that a new one may be retained before the last handle to the one
        // before has given it back.
        CONTEXTS.get_or_make(device.ordinal(), || Self::retain(device))
    }

    fn retain(device: Device) -> Result<Self, CudaError> {
        let api = device.driver().api();
        let mut raw = core::ptr::null_mut();
        // SAFETY: the driver writes one handle; the device was opened.
        let code = unsafe { (api.cuDevicePrimaryCtxRetain)(&raw mut raw, device.raw()) };
        api.check(code, format_args!("making the context of device {}", device.ordinal()))?;
        let copies = enter(api, raw).and_then(|()| RawStream::create(api, 0));
        match copies {
            Ok(copies) => Ok(Self { device, raw: Handle(raw), copies, frees: Frees::default() }),
            Err(error) => {
                // SAFETY: gives back what was retained above; nothing was made in it.
                unsafe { (api.cuDevicePrimaryCtxRelease_v2)(device.raw()) };
                Err(error)
            }
        }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The device whose memory contains an address, if CUDA knows the address in this process: device memory, and
    /// host memory pinned for a device.
    #[must_use]
    pub fn device_of(&self, address: u64) -> Option<u32> {
        let api = self.enter().ok()?;
        let mut ordinal: i32 = -1;
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: the driver writes an int. An address that is nobody's is an error of its, not a fault.
        let code = unsafe { (api.cuPointerGetAttribute)((&raw mut ordinal).cast(), attribute, address) };
        api.check(code, "asking whose memory an address is in").ok()?;
        u32::try_from(ordinal).ok()
    }

    /// Makes this the calling thread's current context. Every call of this crate does so by itself; only code that
    /// calls CUDA directly needs this function. Costs two look-ups of a thread-local value, if it is current already.
    ///
    /// # Errors
    /// The context is dead.
    pub fn make_current(&self) -> Result<(), CudaError> {
        enter(self.api(), self.raw.0)
    }

    pub(super) fn api(&self) -> &'static Api {
        self.device.driver().api()
    }

    /// The table, after making the context current.
    pub(super) fn enter(&self) -> Result<&'static Api, CudaError> {
        self.make_current()?;
        Ok(self.api())
    }

    pub(super) fn copies(&self) -> RawStream {
        self.copies
    }

    pub(super) fn frees(&self) -> &Frees {
        &self.frees
    }
}

impl Device {
    /// Its context: memory, streams and modules live in it. Each process has one for each device (the primary
    /// context), shared with other users of CUDA in the process; it ends with its last user. While a handle to it
    /// exists, every call returns the same context, so that a [hold on frees](Context::hold_frees) reaches every
    /// user.
    ///
    /// # Errors
    /// The driver refuses: the device is in exclusive use, or out of memory.
    pub fn context(&self) -> Result<Arc<Context>, CudaError> {
        Context::of(*self)
    }
}

fn enter(api: &Api, context: *mut CUctx_st) -> Result<(), CudaError> {
    let mut current = core::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    let code = unsafe { (api.cuCtxGetCurrent)(&raw mut current) };
    api.check(code, "asking for the current context")?;
    if current == context {
        return Ok(());
    }
    // SAFETY: the context is retained for as long as its owner lives, and the owner calls this.
    let code = unsafe { (api.cuCtxSetCurrent)(context) };
    api.check(code, "making a context current")
}

impl Drop for Context {
    fn drop(&mut self) {
        // A hold keeps the context alive, so here no hold and no postponed free is left.
        let api = self.api();
        if self.make_current().is_ok() {
            self.copies.destroy(api);
        }
        // SAFETY: retained once, in `retain`; every object made in it held the context and is gone.
        unsafe { (api.cuDevicePrimaryCtxRelease_v2)(self.device.raw()) };
    }
}
