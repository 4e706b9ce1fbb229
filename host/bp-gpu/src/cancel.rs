//! The flag that ends decodes: a word of mapped host memory that the kernel looks at every eighth iteration.

use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceAddress, MappedRegion};
use ringcall_gpu::shared::Words;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Ends decodes of one handler or model: the one under way, and those that begin while it is raised. Each is answered
/// all the same: [`Cancelled`](crate::Ended::Cancelled) with the best guess, or as ever if it converges in its first iterations. Any thread
/// may raise and lower it.
#[derive(Clone)]
pub struct CancelFlag {
    word: Words,
    region: Arc<MappedRegion>,
}

impl fmt::Debug for CancelFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelFlag").field("raised", &self.is_raised()).finish_non_exhaustive()
    }
}

impl CancelFlag {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        let region = MappedRegion::zeroed(context, 64)?;
        Ok(Self { word: region.words(0, 1)?, region: Arc::new(region) })
    }

    /// Where the device reads it.
    pub(crate) fn address(&self) -> Result<DeviceAddress, CudaError> {
        self.region.device_address(0)
    }

    /// Ends decodes from now on.
    pub fn raise(&self) {
        // Relaxed: the word says all that there is to know.
        self.word.store(0, 1, Ordering::Relaxed);
    }

    /// Lets decodes run again.
    pub fn lower(&self) {
        self.word.store(0, 0, Ordering::Relaxed);
    }

    /// Whether it is raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.word.load(0, Ordering::Relaxed) != 0
    }
}
