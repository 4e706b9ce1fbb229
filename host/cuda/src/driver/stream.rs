//! CUDA streams: order among device work.

use super::Context;
use super::api::{NOT_READY, SUCCESS};
use super::handle::Handle;
use super::raw_stream::RawStream;
use crate::CudaError;
use core::ffi::c_void;
use cudarc::driver::sys::CUstream;
use ringcall_gpu::hint;
use ringcall_gpu::shared::Words;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Which stream's blocks go first where several wait for a multiprocessor. Running blocks are never interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// The lowest there is; the driver's default.
    #[default]
    Lowest,
    /// The highest the device has.
    Highest,
}

/// State of the work on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamState {
    /// Everything is done.
    Ready,
    /// Something still runs or waits.
    Busy,
    /// Something failed; see [`CudaError::is_sticky`].
    Failed(CudaError),
}

/// A stream that never waits for the legacy default stream, nor makes it wait (non-blocking).
///
/// Dropping it does not wait: work on it continues to its end.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    raw: RawStream,
    /// Destroyed with this object.
    owned: bool,
}

impl Stream {
    /// A stream of default priority.
    ///
    /// # Errors
    /// The context is dead, or the device is out of memory.
    pub fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        Self::with_priority(context, Priority::Lowest)
    }

    /// A stream of the given priority.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_priority(context: &Arc<Context>, priority: Priority) -> Result<Self, CudaError> {
        let api = context.enter()?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the driver writes two ints.
        let code = unsafe { (api.cuCtxGetStreamPriorityRange)(&raw mut least, &raw mut greatest) };
        api.check(code, "asking for the range of stream priorities")?;
        let number = match priority {
            Priority::Lowest => least,
            Priority::Highest => greatest,
        };
        Ok(Self { context: Arc::clone(context), raw: RawStream::create(api, number)?, owned: true })
    }

    /// A caller's stream (`cudaStream_t`), which is not destroyed with this object.
    ///
    /// # Safety
    /// `raw` is a stream of `context` that lives as long as this.
    #[must_use]
    pub unsafe fn borrowed(context: &Arc<Context>, raw: *mut c_void) -> Self {
        Self { context: Arc::clone(context), raw: RawStream(Handle(raw.cast())), owned: false }
    }

    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Waits, without limit, until all work on it is done. Not for a stream that a persistent kernel runs on, unless
    /// that was told to stop: see [`wait`](Self::wait).
    ///
    /// # Errors
    /// Something on it failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.raw.synchronize(self.context.enter()?)
    }

    /// State of the work on it. Does not wait.
    #[must_use]
    pub fn query(&self) -> StreamState {
        let api = match self.context.enter() {
            Ok(api) => api,
            Err(error) => return StreamState::Failed(error),
        };
        // SAFETY: the stream lives as long as `self`.
        match unsafe { (api.cuStreamQuery)(self.raw()) } {
            SUCCESS => StreamState::Ready,
            NOT_READY => StreamState::Busy,
            code => match api.check(code, "work on a stream") {
                Ok(()) => StreamState::Ready,
                Err(error) => StreamState::Failed(error),
            },
        }
    }

    /// Waits at most `limit` until all work on it is done.
    ///
    /// # Errors
    /// [`CudaError::TimedOut`] when it is still busy then, or something on it failed.
    pub fn wait(&self, limit: Duration) -> Result<(), CudaError> {
        /// Turns of spinning before the thread starts to sleep between polls.
        const SPINS: u32 = 256;
        const SLEEP: Duration = Duration::from_micros(50);
        let begin = Instant::now();
        let mut turns = 0_u32;
        loop {
            match self.query() {
                StreamState::Ready => return Ok(()),
                StreamState::Failed(error) => return Err(error),
                StreamState::Busy if begin.elapsed() >= limit => return Err(CudaError::TimedOut(limit)),
                StreamState::Busy if turns < SPINS => hint::spin(),
                StreamState::Busy => std::thread::sleep(SLEEP),
            }
            turns = turns.saturating_add(1);
        }
    }

    /// Waits at most `limit` until word `index` is no longer 0. The word is written in the order of this stream
    /// ([`write_word_after`](Self::write_word_after)), or by a kernel on it. Later work on the stream is not awaited.
    ///
    /// It polls memory, and queries the stream only now and then for errors, which is cheaper for host and device
    /// than [`wait`](Self::wait).
    ///
    /// # Errors
    /// [`CudaError::TimedOut`] when the word is still 0 then, or something on the stream failed.
    pub fn wait_for_word(&self, words: &Words, index: usize, limit: Duration) -> Result<(), CudaError> {
        /// Polls before the thread yields its core: some hundred microseconds.
        const SPINS: u32 = 8192;
        /// Polls between two checks of the clock and the stream.
        const ROUND: u32 = 1024;
        let begin = Instant::now();
        let mut turns = 0_u32;
        // Acquire: pairs with the device's fence before the word, which is written after all other writes of the
        // work.
        while words.load(index, Ordering::Acquire) == 0 {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(ROUND) {
                if let StreamState::Failed(error) = self.query() {
                    return Err(error);
                }
                if begin.elapsed() >= limit {
                    return Err(CudaError::TimedOut(limit));
                }
            }
            if turns < SPINS { hint::spin() } else { std::thread::yield_now() }
        }
        Ok(())
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw.raw()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(api) = self.context.enter()
        {
            self.raw.destroy(api);
        }
    }
}
