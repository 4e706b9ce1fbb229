//! The threads of a running pipeline (workers and the consumer): start, quit signals, join with a deadline.

use crate::config::CorePinning;
use crate::consumer::{CompletionHandler, Consumer, IdExtender};
use crate::error::PipelineError;
use crate::state::{Phase, State};
use ringcall::Wait;
use ringcall::completion_log::CompletionLog;
use ringcall::pin::{PinReport, pin_current};
use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long after the deadline a stop waits for threads that have only to read a flag.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// The consumer's state that a restart keeps.
pub(crate) type ConsumerState = (CompletionHandler, IdExtender);

/// The threads of a run.
///
/// Dropping it (a failed start, or a running pipeline that is dropped) refuses submissions and tells its threads to end.
/// After a stop, dropping it does nothing more.
pub(crate) struct ThreadSet {
    state: Arc<State>,
    /// How the threads wait between polls.
    pub(crate) wait: Wait,
    /// The core that each thread runs on.
    pub(crate) pins: Vec<PinReport>,
    /// Not 0: the workers end.
    worker_quit: Arc<DeviceU64>,
    /// Not 0: the consumer ends.
    pub(crate) consumer_quit: Arc<DeviceU64>,
    /// Set to stop the consumer: `consumer_quit` itself, or the flag of the thread that sets `consumer_quit` as it ends.
    last: Arc<DeviceU64>,
    workers: Vec<JoinHandle<()>>,
    consumer: Option<Receiver<ConsumerState>>,
}

impl ThreadSet {
    /// No threads yet.
    pub(crate) fn new(state: &Arc<State>, wait: Wait) -> Self {
        let consumer_quit = Arc::new(DeviceU64::new(0));
        Self {
            state: Arc::clone(state),
            wait,
            pins: Vec::new(),
            worker_quit: Arc::new(DeviceU64::new(0)),
            last: Arc::clone(&consumer_quit),
            consumer_quit,
            workers: Vec::new(),
            consumer: None,
        }
    }

    /// Starts the next worker. `body` gets the flag that tells it to end.
    pub(crate) fn worker(
        &mut self,
        cores: &CorePinning,
        body: impl FnOnce(Arc<DeviceU64>) + Send + 'static,
    ) -> Result<(), PipelineError> {
        let number = self.workers.len();
        let quit = Arc::clone(&self.worker_quit);
        let core = cores.worker_base.map(|base| base + number);
        let handle = self.pinned(format!("worker {number}"), core, move || body(quit))?;
        self.workers.push(handle);
        Ok(())
    }

    /// Starts the consumer.
    pub(crate) fn consumer(
        &mut self,
        cores: &CorePinning,
        log: Option<CompletionLog>,
        (handler, ids): ConsumerState,
    ) -> Result<(), PipelineError> {
        let consumer = Consumer {
            state: Arc::clone(&self.state),
            handler,
            quit: Arc::clone(&self.consumer_quit),
            wait: self.wait,
            log,
            ids,
            result: vec![0; self.state.ring.geometry().result_capacity() as usize],
        };
        let (give_back, back) = mpsc::channel();
        self.pinned("consumer".to_owned(), cores.consumer, move || {
            let _ = give_back.send(consumer.run());
        })?;
        self.consumer = Some(back);
        Ok(())
    }

    /// Lets another thread stop the consumer, which it does once `last` is not 0.
    pub(crate) fn consumer_stopped_by(&mut self, last: Arc<DeviceU64>) {
        self.last = last;
    }

    fn pinned(
        &mut self,
        name: String,
        core: Option<usize>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, PipelineError> {
        let (handle, pin) = spawn(name, core, body)?;
        self.pins.push(pin);
        Ok(handle)
    }

    /// Refuses submissions and waits for the one that may be in progress, which has only stores left to do.
    pub(crate) fn refuse(&self, stop: Stop) {
        self.state.set_phase(Phase::Stopped);
        while self.state.is_submitting() && stop.begin.elapsed() < stop.deadline.max(GRACE_PERIOD) {
            std::thread::yield_now();
        }
    }

    /// Tells the workers to end. Returns the numbers of the workers that do not, because a stage never returns.
    pub(crate) fn stop_workers(&mut self, stop: Stop) -> Vec<u32> {
        self.worker_quit.store(1, Ordering::Release);
        join_until(std::mem::take(&mut self.workers), Instant::now() + GRACE_PERIOD.max(stop.left() / 2))
    }

    /// Tells the consumer, or the thread that stops it, to end.
    pub(crate) fn stop_consumer(&self) {
        self.last.store(1, Ordering::Release);
    }

    /// Waits for the consumer to end. Returns the state that it hands back.
    pub(crate) fn join_consumer(&mut self, stop: Stop) -> Result<ConsumerState, RecvTimeoutError> {
        let back = self.consumer.take().ok_or(RecvTimeoutError::Disconnected)?;
        back.recv_timeout(GRACE_PERIOD.max(stop.left()))
    }
}

impl Drop for ThreadSet {
    fn drop(&mut self) {
        self.state.set_phase(Phase::Stopped);
        self.worker_quit.store(1, Ordering::Release);
        self.stop_consumer();
    }
}

/// A stop in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) begin: Instant,
    pub(crate) deadline: Duration,
}

impl Stop {
    pub(crate) fn begin(deadline: Duration) -> Self {
        Self { begin: Instant::now(), deadline }
    }

    /// The time left until the deadline.
    pub(crate) fn left(self) -> Duration {
        self.deadline.saturating_sub(self.begin.elapsed())
    }
}

/// Starts a named thread, which is pinned before it runs `body`.
pub(crate) fn spawn(
    name: String,
    core: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> Result<(JoinHandle<()>, PinReport), PipelineError> {
    let (pinned, pin) = mpsc::channel();
    let label = name.clone();
    let handle = std::thread::Builder::new()
        .name(format!("ringcall-{}", name.replace(' ', "-")))
        .spawn(move || {
            let _ = pinned.send(pin_current(&label, core));
            body();
        })
        .map_err(|e| PipelineError::Thread(name.clone(), e))?;
    let pin = pin.recv().map_err(|e| PipelineError::Thread(name, std::io::Error::other(e)))?;
    Ok((handle, pin))
}

/// Joins threads that have only to read a flag. Returns the numbers of the threads that had not ended by the deadline. Those
/// are abandoned: each owns its handles, and can answer no request.
pub(crate) fn join_until(threads: Vec<JoinHandle<()>>, deadline: Instant) -> Vec<u32> {
    let stuck = |(number, handle): (usize, JoinHandle<()>)| {
        while !handle.is_finished() {
            if Instant::now() > deadline {
                return Some(number as u32);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let _ = handle.join();
        None
    };
    threads.into_iter().enumerate().filter_map(stuck).collect()
}
