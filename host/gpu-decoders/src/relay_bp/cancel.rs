//! Cancel flag of decodes: a word of device memory that the kernel reads every eighth iteration.

use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceAddress, DeviceBuffer, Priority, Stream};
use std::sync::Arc;

/// Ends decodes of one handler or model: the one under way, and those that begin while it is raised. Each is answered
/// all the same: [`Cancelled`](crate::relay_bp::Ended::Cancelled) with the best guess, or as ever if it converges in its first iterations. Any thread
/// may raise and lower it, and what was asked for last holds.
///
/// The word lies in device memory, where a look at it takes no time from the bus that requests come over; the driver writes it, within
/// some microseconds.
#[derive(Debug, Clone)]
pub struct CancelFlag {
    word: Arc<DeviceBuffer>,
    stream: Arc<Stream>,
}

impl CancelFlag {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        let word = Arc::new(DeviceBuffer::zeroed(context, 64)?);
        // In no queue of the device with a kernel that stays.
        let stream = Arc::new(Stream::with_priority(context, Priority::Highest)?);
        Ok(Self { word, stream })
    }

    /// Where the device reads it.
    pub(crate) fn address(&self) -> DeviceAddress {
        self.word.address()
    }

    /// Ends decodes from now on. Does not wait.
    ///
    /// # Errors
    /// The context is dead.
    pub fn raise(&self) -> Result<(), CudaError> {
        self.word.write_word_in_order(0, 1, &self.stream)
    }

    /// Lets decodes run again. Does not wait.
    ///
    /// # Errors
    /// The context is dead.
    pub fn lower(&self) -> Result<(), CudaError> {
        self.word.write_word_in_order(0, 0, &self.stream)
    }

    /// Waits until what was asked for before holds.
    ///
    /// # Errors
    /// The context is dead.
    pub fn finish(&self) -> Result<(), CudaError> {
        self.stream.synchronize()
    }
}
