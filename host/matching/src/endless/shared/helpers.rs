//! Threads that match windows of a run, which they take from one queue.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::SharedEndlessConfig;
use super::plan::Plan;
use super::window::Work;
use crate::error::{RoundsError, SlidingError};
use crate::parallel::pause;

/// Threads that match windows, and the caller's ends of their channels.
#[derive(Debug)]
pub(super) struct Helpers {
    /// `None` tells the helpers to end.
    pub(super) to: Option<SyncSender<Box<Work>>>,
    /// Windows that no thread has begun, at most as many as there are helpers. A free thread, the caller's too, takes the oldest window.
    pub(super) waiting: Arc<Mutex<Receiver<Box<Work>>>>,
    pub(super) solved: Receiver<Box<Work>>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) lost: usize,
}

impl Helpers {
    pub(super) fn new(
        plan: &Arc<Plan>,
        config: &SharedEndlessConfig,
        on_start: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Self, SlidingError> {
        let on_start = Arc::new(on_start);
        let count = config.cores.get() - 1;
        let (to, waiting) = sync_channel(count);
        // Room for all windows that wait and that are being matched, and for one more.
        let (outbox, solved) = sync_channel(2 * count + 1);
        let to = (count > 0).then_some(to);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut helpers = Self { to, waiting, solved, threads: Vec::with_capacity(count), lost: 0 };
        for k in 1..=count {
            let (plan, on_start, spin) = (Arc::clone(plan), Arc::clone(&on_start), config.spin);
            let (waiting, outbox) = (Arc::clone(&helpers.waiting), outbox.clone());
            let thread = std::thread::Builder::new()
                .name(format!("endless-{k}"))
                .spawn(move || {
                    on_start(k);
                    help(&waiting, &outbox, &plan, spin);
                })
                .map_err(|error| RoundsError::Thread { kind: error.kind() })?;
            helpers.threads.push(thread);
        }
        Ok(helpers)
    }

    /// Gives a window to the next free helper. Returns it if there is none, or if a window waits for each.
    pub(super) fn give(&self, work: Box<Work>) -> Result<(), Box<Work>> {
        let Some(to) = &self.to else { return Err(work) };
        to.try_send(work).map_err(|(TrySendError::Full(work) | TrySendError::Disconnected(work))| work)
    }

    /// Counts threads that have panicked.
    pub(super) fn count_lost(&mut self) {
        while let Some(k) = self.threads.iter().position(JoinHandle::is_finished) {
            self.lost += usize::from(self.threads.swap_remove(k).join().is_err());
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        drop(self.to.take());
        for thread in self.threads.drain(..) {
            // The caller solved the window of a helper that panicked.
            let _ = thread.join();
        }
    }
}

/// Takes the oldest window that no thread has begun.
pub(super) fn take_waiting(waiting: &Mutex<Receiver<Box<Work>>>) -> Result<Box<Work>, TryRecvError> {
    match waiting.try_lock() {
        Ok(waiting) => waiting.try_recv(),
        Err(TryLockError::Poisoned(waiting)) => waiting.into_inner().try_recv(),
        // Another thread is taking one, or sleeps until there is one.
        Err(TryLockError::WouldBlock) => Err(TryRecvError::Empty),
    }
}

/// The body of a helper thread, which ends with its channels.
fn help(waiting: &Mutex<Receiver<Box<Work>>>, outbox: &SyncSender<Box<Work>>, plan: &Plan, spin: Duration) {
    while let Some(mut work) = next(waiting, spin) {
        work.solve(plan);
        if outbox.send(work).is_err() {
            return;
        }
    }
}

/// Polls for work, then sleeps until work comes; `None` when the channel is closed.
fn next(waiting: &Mutex<Receiver<Box<Work>>>, spin: Duration) -> Option<Box<Work>> {
    let begin = Instant::now();
    let mut turns = 0;
    loop {
        match take_waiting(waiting) {
            Ok(work) => return Some(work),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if turns % 256 == 255 && begin.elapsed() > spin => {
                // Others that sleep wait for the lock.
                return waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
            }
            Err(TryRecvError::Empty) => pause(&mut turns),
        }
    }
}
