//! A loop on the host that a launch function has started.

use crate::device::{Beside, Order, Watcher, call_launch, launch_unified};
use crate::handles::lock;
use crate::host_loop::Shutdown;
use crate::raw_ring::aligned;
use crate::status::Fault;
use ringcall_gpu::shared::Words;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a thread is given to end after its loop has, however little of the stop time is left.
const NOTICE: Duration = Duration::from_millis(500);

/// A loop that runs, or has run.
#[derive(Debug)]
pub(crate) struct HostRun {
    shutdown: Shutdown,
    stats: Words,
    stop: Duration,
    watcher: Mutex<Watcher>,
}

impl HostRun {
    /// # Safety
    /// The header's contract of `cudaq_dispatcher_start`, and the launch function's own.
    pub(crate) unsafe fn start(order: &Order<'_>) -> Result<Self, Fault> {
        // SAFETY: the caller's promise.
        let shutdown = unsafe { Shutdown::new(order.shutdown) }?;
        if shutdown.is_set() {
            return Err(Fault::invalid("the shutdown flag is set: clear it before a start"));
        }
        aligned(order.stats.cast_const(), 8, "stats")?;
        // SAFETY: just checked, and the caller's promise.
        let stats = unsafe { Words::from_raw(order.stats, 1) }?;
        stats.store(0, 0, Ordering::Relaxed);
        let beside = Beside { host: true, ..Beside::of(order) };
        // SAFETY: the caller's promise.
        let (mut watchers, fault) =
            call_launch(beside, || unsafe { launch_unified(order, core::ptr::null_mut()) });
        let watcher = match (watchers.pop(), fault) {
            (Some(watcher), None) => watcher,
            (None, Some(fault)) => return Err(fault),
            (None, None) => {
                return Err(Fault::invalid(
                    "the launch function has started no loop on the host: HSB_launch_unified_dispatch does",
                ));
            }
            (Some(watcher), Some(fault)) => {
                shutdown.set();
                let _ = watcher.wait(order.stop);
                return Err(fault);
            }
        };
        Ok(Self { shutdown, stats, stop: order.stop, watcher: Mutex::new(watcher) })
    }

    /// Sets the flag and waits for the loop; what was counted, and what went wrong in the loop.
    ///
    /// # Errors
    /// It has not ended.
    pub(crate) fn stop(&self) -> Result<(u64, Option<Fault>), Fault> {
        self.shutdown.set();
        let begin = Instant::now();
        let watcher = lock(&self.watcher);
        if !watcher.wait((self.stop + NOTICE).saturating_sub(begin.elapsed())) {
            return Err(Fault::internal(format!(
                "the loop did not end within {:?}: a handler does not return",
                self.stop
            )));
        }
        Ok((self.count(), watcher.fault()))
    }

    fn count(&self) -> u64 {
        self.stats.load(0, Ordering::Relaxed)
    }

    /// What the loop has counted.
    ///
    /// # Errors
    /// It has ended by itself.
    pub(crate) fn processed(&self) -> Result<u64, Fault> {
        let fault = self.watcher.try_lock().ok().and_then(|watcher| watcher.fault());
        fault.map_or_else(|| Ok(self.count()), Err)
    }
}
