//! Baseline echo: the time of a bare flag from the host to the device and back.

use super::DeviceError;
use super::launch::launch_baseline;
use super::modules::Modules;
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, DeferFrees, MappedRegion, Stream};
use ringcall_gpu::shared::Words;
use std::sync::Arc;
use std::time::Duration;

/// The value that ends the echo.
const STOP: u64 = u64::MAX;

/// One thread of the device that echoes a flag whenever it changes. No dispatcher can answer faster, so figures are
/// compared with this echo.
#[derive(Debug)]
pub struct BaselineEcho {
    there: Words,
    back: Words,
    stream: Stream,
    _hold: DeferFrees,
}

impl BaselineEcho {
    /// Starts the echo.
    ///
    /// # Errors
    /// As for [`DeviceDispatcher::start`](super::DeviceDispatcher::start).
    pub fn start(context: &Arc<Context>) -> Result<Self, DeviceError> {
        let module = Modules::new().load_baseline(context)?;
        let (there, back) = (MappedRegion::zeroed(context, 8)?, MappedRegion::zeroed(context, 8)?);
        let stream = Stream::new(context)?;
        let hold = context.hold_frees();
        launch_baseline(&module, &stream, there.device_address(0)?, back.device_address(0)?)?;
        Ok(Self { there: there.words(0, 1)?, back: back.words(0, 1)?, stream, _hold: hold })
    }

    /// Sends a value, which must differ from 0, from the last value and from `u64::MAX`.
    #[inline]
    pub fn send(&self, value: u64) {
        self.there.store(0, value, Ordering::Release);
    }

    /// The last value that came back.
    #[inline]
    #[must_use]
    pub fn received(&self) -> u64 {
        self.back.load(0, Ordering::Acquire)
    }
}

impl Drop for BaselineEcho {
    fn drop(&mut self) {
        self.send(STOP);
        // The echo ends at its next poll. If the device is gone there is nothing to wait for.
        let _ = self.stream.wait(Duration::from_secs(1));
    }
}
