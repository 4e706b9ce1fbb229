//! Graphs that a host launches, run by run, and how it waits for each.

use super::{Context, DeviceAddress, GraphExec, MappedRegion, Stream};
use crate::CudaError;
use ringcall_gpu::shared::Words;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where runs go, one after the other: of all engines of a model, if each run fills the device and two at once would wait for
/// multiprocessors that the other holds; or of one engine.
///
/// The order is the device's: no host thread waits for another's run, and the next one begins when the last
/// has ended.
#[derive(Debug)]
pub struct SharedStream {
    stream: Stream,
    /// Held while a run and its mark are put on the stream, so that no other run comes between them.
    turn: Mutex<()>,
}

impl SharedStream {
    /// Without runs.
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

/// How the last run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It has ended, or there was none.
    Over,
    /// It may be under way, and no mark may be after it.
    Started,
    /// It may be under way, and a mark is after it.
    Marked,
}

/// A graph that one thread runs again and again.
///
/// Each run has a mark after it, a word that the device writes, which is waited for: by looking at memory,
/// never longer than its timeout, and regardless of other runs on the stream. A run that does not end in
/// time is waited for once more before the next one, or before this is dropped; if it has no end, nothing in
/// its context is freed any more, since freeing would wait for it, and what it reaches stays. So the agent
/// that owns what the graph reaches declares it after this.
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
        // Not on the shared stream: others' runs may be there.
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

    /// One run, to its end; after one that was given up, waits for that first.
    ///
    /// # Safety
    /// As for [`GraphExec::launch`]. What the graph reaches lives as long as `self` and, if dropping that
    /// postpones frees, until then; and no other agent reaches it from here until this or
    /// [`settle`](Self::settle) returns `Ok`.
    ///
    /// # Errors
    /// [`CudaError::TimedOut`]: it may still be under way. Or the driver refuses, or the run fails.
    pub unsafe fn run(&mut self) -> Result<(), CudaError> {
        self.settle()?;
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
        self.settle()
    }

    /// Waits for a run that was given up, if there is one: it may still read its inputs.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn settle(&mut self) -> Result<(), CudaError> {
        let SharedStream { stream, .. } = &*self.stream;
        match self.last {
            Last::Over => return Ok(()),
            Last::Started => stream.wait(self.timeout)?,
            // Others may keep the stream busy indefinitely.
            Last::Marked => stream.wait_for_word(&self.done, 0, self.timeout)?,
        }
        self.last = Last::Over;
        Ok(())
    }
}

impl Drop for RepeatedGraph {
    fn drop(&mut self) {
        if self.settle().is_err() {
            std::mem::forget(self.stream.stream.context().hold_frees());
        }
    }
}
