//! Streams of a worker's graphs, which run in order. Tests simulate a stream.

use crate::layout::{cudaGraphExec_t, cudaStream_t};
use crate::status::{CUDA_UNKNOWN, Fault};
use core::fmt::Debug;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{DeviceAddress, Stream};
use ringcall_launch::ring::worker_pool::WorkerStream;

pub(super) trait GraphStream: Debug + Send + Sync {
    /// `cudaStream_t`, for hooks.
    fn raw(&self) -> cudaStream_t;

    /// Starts a graph and returns.
    ///
    /// # Safety
    /// As for [`Stream::launch_foreign_graph`].
    unsafe fn launch(&self, exec: cudaGraphExec_t) -> Result<(), CudaError>;

    /// Writes a word when everything before has ended.
    ///
    /// # Safety
    /// As for [`Stream::write_word_after`].
    unsafe fn write_after(&self, address: DeviceAddress, value: u64) -> Result<(), CudaError>;

    /// How all that was put on it stands: a call of the driver.
    fn state(&self) -> WorkerStream;
}

impl GraphStream for Stream {
    fn raw(&self) -> cudaStream_t {
        self.as_raw()
    }

    unsafe fn launch(&self, exec: cudaGraphExec_t) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_foreign_graph(exec) }
    }

    unsafe fn write_after(&self, address: DeviceAddress, value: u64) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.write_word_after(address, value) }
    }

    fn state(&self) -> WorkerStream {
        self.query().into()
    }
}

impl Fault {
    /// CUDA's number, as an error mark holds it.
    pub(super) fn code(&self) -> u16 {
        u16::try_from(self.cuda).unwrap_or(CUDA_UNKNOWN as u16)
    }
}
