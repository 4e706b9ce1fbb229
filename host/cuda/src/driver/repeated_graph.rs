//! Repeated graphs: graphs that the host runs again and again, with a bounded wait for each run.

use super::{Context, DeviceAddress, GraphExec, MappedRegion, Stream};
use crate::CudaError;
use ringcall_gpu::shared::Words;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A stream that runs share, one after the other. All engines of a model share a stream if each run fills the device,
/// since two runs at once would wait for each other's multiprocessors.
///
/// The device keeps the order: no host thread waits for another thread's run, and the next run begins when the last
/// has ended.
#[derive(Debug)]
pub struct SharedStream {
    stream: Stream,
    /// Held while a run and its mark are put on the stream, so that no other run comes between them.
    turn: Mutex<()>,
}

impl SharedStream {
    /// A stream without runs.
    ///
    /// # Errors
    /// The context is dead, or the device is out of memory.
    pub fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        Ok(Self { stream: Stream::new(context)?, turn: Mutex::new(()) })
    }

    /// The stream that runs are put on.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// State of the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It has ended, or there was none.
    Over,
    /// It may be in progress, and its mark may be missing.
    Started,
    /// It may be in progress, and its mark follows.
    Marked,
}

/// A graph that one thread runs again and again.
///
/// After each run the device writes a mark, a word in memory. The host polls the mark, at most until its timeout,
/// regardless of other runs on the stream. If a run does not end in time, the host waits for it once more before the
/// next run or before this object is dropped. If the run never ends, nothing in its context is freed any more, since
/// freeing would wait for it, and the memory that it uses stays. So an owner of the graph's memory declares that
/// memory after this field.
#[derive(Debug)]
pub struct RepeatedGraph {
    last: Last,
    // In this order: the launched graph, then the memory that it reaches.
    exec: GraphExec,
    stream: Arc<SharedStream>,
    done: Words,
    done_at: DeviceAddress,
    _mark: MappedRegion,
    timeout: Duration,
}

impl RepeatedGraph {
    /// Uploads the graph, to be run on `stream`; no wait takes longer than `timeout`.
    ///
    /// # Errors
    /// No memory, or the driver refuses.
    pub fn new(exec: GraphExec, stream: &Arc<SharedStream>, timeout: Duration) -> Result<Self, CudaError> {
        let context = stream.stream.context();
        let mark = MappedRegion::zeroed(context, size_of::<u64>())?;
        // Not on the shared stream, on which other runs may be queued.
        let own = Stream::new(context)?;
        exec.upload(&own)?;
        own.wait(timeout)?;
        Ok(Self {
            last: Last::Over,
            exec,
            stream: Arc::clone(stream),
            done: mark.words(0, 1)?,
            done_at: mark.device_address(0)?,
            _mark: mark,
            timeout,
        })
    }

    /// Runs the graph and waits for the end. If the last run was given up, waits for that run first.
    ///
    /// # Safety
    /// As for [`GraphExec::launch`]. The memory that the graph uses lives as long as `self`, and longer if dropping
    /// `self` postpones frees. No other agent accesses this memory from here until this function or
    /// [`finish`](Self::finish) returns `Ok`.
    ///
    /// # Errors
    /// [`CudaError::TimedOut`]: the run may still be in progress. Or the driver refuses, or the run fails.
    pub unsafe fn run(&mut self) -> Result<(), CudaError> {
        self.finish()?;
        self.done.store(0, 0, Ordering::Release);
        self.last = Last::Started;
        {
            let _turn = self.stream.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller's promise.
            unsafe { self.exec.launch(&self.stream.stream) }?;
            // SAFETY: an aligned word of mapped memory, which lives as long as `self` and is reached by `done` alone.
            unsafe { self.stream.stream.write_word_after(self.done_at, 1) }?;
        }
        self.last = Last::Marked;
        self.finish()
    }

    /// Waits for a run that was given up, if there is one: it may still read its inputs.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn finish(&mut self) -> Result<(), CudaError> {
        let SharedStream { stream, .. } = &*self.stream;
        match self.last {
            Last::Over => return Ok(()),
            Last::Started => stream.wait(self.timeout)?,
            // Other runs may keep the stream busy indefinitely.
            Last::Marked => stream.wait_for_word(&self.done, 0, self.timeout)?,
        }
        self.last = Last::Over;
        Ok(())
    }
}

impl Drop for RepeatedGraph {
    fn drop(&mut self) {
        if self.finish().is_err() {
            std::mem::forget(self.stream.stream.context().hold_frees());
        }
    }
}
