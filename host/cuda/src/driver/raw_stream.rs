//! Raw stream handles.

use super::api::Api;
use super::handle::Handle;
use crate::CudaError;
use core::ffi::c_int;
use cudarc::driver::sys::{CUstream, CUstream_flags_enum, CUstream_st};

/// A stream whose owner destroys it in its context.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawStream(pub(super) Handle<CUstream_st>);

impl RawStream {
    /// A non-blocking stream in the current context.
    pub(super) fn create(api: &Api, priority: c_int) -> Result<Self, CudaError> {
        let flags = CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = core::ptr::null_mut();
        // SAFETY: the driver writes one handle; priorities out of range are clamped.
        let code = unsafe { (api.cuStreamCreateWithPriority)(&raw mut raw, flags, priority) };
        api.check(code, "making a stream")?;
        Ok(Self(Handle(raw)))
    }

    pub(super) fn raw(self) -> CUstream {
        self.0.0
    }

    pub(super) fn synchronize(self, api: &Api) -> Result<(), CudaError> {
        // SAFETY: the owner keeps the stream alive, and made its context current.
        let code = unsafe { (api.cuStreamSynchronize)(self.raw()) };
        api.check(code, "waiting for a stream")
    }

    /// Ends it; the owner does not use it again.
    pub(super) fn destroy(self, api: &Api) {
        // SAFETY: called once, by the owner's drop; pending work ends by itself.
        unsafe { (api.cuStreamDestroy_v2)(self.raw()) };
    }
}
