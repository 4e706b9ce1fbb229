//! Handles and addresses of a C program: its streams, its graphs, its memory.

use super::{Context, DeviceAddress, Stream};
use crate::CudaError;
use core::ffi::c_void;
use cudarc::driver::sys::{CUgraphExec, CUgraphInstantiate_flags_enum};

impl Stream {
    /// The driver's name for it (`cudaStream_t`), for C code that runs while it lives.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw().cast()
    }

    /// Starts a caller's executable graph on this stream, and returns without waiting for it.
    ///
    /// # Safety
    /// `exec` is a live `cudaGraphExec_t` of this stream's device, and the memory its kernels reach stays
    /// mapped until it has ended. No other launch of it is under way on another stream.
    ///
    /// # Errors
    /// The driver refuses, or the context is dead.
    pub unsafe fn launch_foreign_graph(&self, exec: *mut c_void) -> Result<(), CudaError> {
        let api = self.context().enter()?;
        let exec: CUgraphExec = exec.cast();
        // SAFETY: the caller's promise.
        let code = unsafe { (api.cuGraphLaunch)(exec, self.raw()) };
        api.check(code, "launching a graph")
    }

    /// Writes `value` to the word at `address` after all earlier work on this stream has ended. An agent that sees
    /// the value also sees the writes of that work.
    ///
    /// # Safety
    /// `address` is 8-byte aligned memory that the device can write until then, which Rust code reaches through atomics
    /// alone.
    ///
    /// # Errors
    /// The driver refuses, or the context is dead.
    pub unsafe fn write_word_after(&self, address: DeviceAddress, value: u64) -> Result<(), CudaError> {
        let api = self.context().enter()?;
        // SAFETY: the caller's promise; flags 0: with a fence before the write.
        let code = unsafe { (api.cuStreamWriteValue64_v2)(self.raw(), address.0, value, 0) };
        api.check(code, "putting a write on a stream")
    }
}

impl Context {
    /// Whether a caller's executable graph was instantiated for launches from the device.
    ///
    /// # Safety
    /// `exec` is a live `cudaGraphExec_t`.
    ///
    /// # Errors
    /// The driver refuses, or the context is dead.
    pub unsafe fn is_device_launchable(&self, exec: *mut c_void) -> Result<bool, CudaError> {
        let api = self.enter()?;
        let (exec, mut flags): (CUgraphExec, _) = (exec.cast(), 0);
        // SAFETY: the caller's promise; the driver writes one number.
        let code = unsafe { (api.cuGraphExecGetFlags)(exec, &raw mut flags) };
        api.check(code, "asking what a graph was instantiated for")?;
        let device_launch = CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0;
        Ok(flags & u64::from(device_launch) != 0)
    }

    /// Copies `out.len()` bytes from `address`, on the host or the device, past running work.
    ///
    /// # Safety
    /// This many bytes are at the address, in memory that CUDA knows or that this process can read.
    ///
    /// # Errors
    /// The driver refuses the address, or the context is dead.
    pub unsafe fn read_foreign(&self, address: u64, out: &mut [u8]) -> Result<(), CudaError> {
        let api = self.enter()?;
        let to = out.as_mut_ptr() as u64;
        // SAFETY: the caller's promise; `out` is borrowed until the copy has been waited for.
        let code = unsafe { (api.cuMemcpyAsync)(to, address, out.len(), self.copies().raw()) };
        api.check(code, format_args!("copying {} bytes from {address:#x}", out.len()))?;
        self.copies().synchronize(api)
    }

    /// Copies `data` to `address`, on the host or the device, past running work.
    ///
    /// # Safety
    /// This many bytes may be written at the address, and Rust code accesses them through atomics or copies alone.
    ///
    /// # Errors
    /// The driver refuses the address, or the context is dead.
    pub unsafe fn write_foreign(&self, address: u64, data: &[u8]) -> Result<(), CudaError> {
        let api = self.enter()?;
        let from = data.as_ptr() as u64;
        // SAFETY: the caller's promise; `data` is borrowed until the copy has been waited for.
        let code = unsafe { (api.cuMemcpyAsync)(address, from, data.len(), self.copies().raw()) };
        api.check(code, format_args!("copying {} bytes to {address:#x}", data.len()))?;
        self.copies().synchronize(api)
    }
}
