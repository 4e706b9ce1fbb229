//! The threads of a running pipeline (workers and the consumer): start, quit signals, join with a deadline.

use crate::config::CorePinning;
use crate::consumer::{CompletionHandler, Consumer, IdExtender};
use crate::error::PipelineError;
use crate::state::{Phase, State};
use ringcall::Wait;
use ringcall::completion_log::CompletionLog;
use ringcall::pin::PinReport;
use ringcall::thread::{GRACE_PERIOD, StopFlag, Supervised, Unfinished};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    stop_workers: StopFlag,
    pub(crate) stop_consumer: StopFlag,
    /// Set to stop the consumer: `stop_consumer` itself, or the flag of the thread that sets `stop_consumer` as it ends.
    last: StopFlag,
    workers: Vec<Supervised<()>>,
    consumer: Option<Supervised<ConsumerState>>,
}

impl ThreadSet {
    /// No threads yet.
    pub(crate) fn new(state: &Arc<State>, wait: Wait) -> Self {
        let stop_consumer = StopFlag::default();
        Self {
            state: Arc::clone(state),
            wait,
            pins: Vec::new(),
            stop_workers: StopFlag::default(),
            last: stop_consumer.clone(),
            stop_consumer,
            workers: Vec::new(),
            consumer: None,
        }
    }

    /// Starts the next worker. `body` gets the flag that tells it to end.
    pub(crate) fn worker(
        &mut self,
        cores: &CorePinning,
        body: impl FnOnce(StopFlag) + Send + 'static,
    ) -> Result<(), PipelineError> {
        let number = self.workers.len();
        let stop = self.stop_workers.clone();
        let core = cores.worker_base.map(|base| base + number);
        let worker = self.pinned(&format!("worker {number}"), core, move || body(stop))?;
        self.workers.push(worker);
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
            stop: self.stop_consumer.clone(),
            wait: self.wait,
            log,
            ids,
            result: vec![0; self.state.ring.geometry().result_capacity() as usize],
        };
        self.consumer = Some(self.pinned("consumer", cores.consumer, move || consumer.run())?);
        Ok(())
    }

    /// Lets another thread stop the consumer, which that thread does once `last` is set.
    pub(crate) fn consumer_stopped_by(&mut self, last: StopFlag) {
        self.last = last;
    }

    fn pinned<T: Send + 'static>(
        &mut self,
        name: &str,
        core: Option<usize>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Supervised<T>, PipelineError> {
        let thread = spawn(name, core, body)?;
        self.pins.push(thread.pin().clone());
        Ok(thread)
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
        self.stop_workers.set();
        let deadline = Instant::now() + GRACE_PERIOD.max(stop.left() / 2);
        let mut workers = std::mem::take(&mut self.workers);
        Supervised::wait_all(&mut workers, deadline).into_iter().map(|number| number as u32).collect()
    }

    /// Tells the consumer, or the thread that stops it, to end.
    pub(crate) fn stop_consumer(&self) {
        self.last.set();
    }

    /// Waits for the consumer to end. Returns the state that it hands back.
    pub(crate) fn join_consumer(&mut self, stop: Stop) -> Result<ConsumerState, Unfinished> {
        let mut consumer = self.consumer.take().ok_or(Unfinished::Panicked)?;
        consumer.wait(GRACE_PERIOD.max(stop.left()))
    }
}

impl Drop for ThreadSet {
    fn drop(&mut self) {
        self.state.set_phase(Phase::Stopped);
        self.stop_workers.set();
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
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    core: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<Supervised<T>, PipelineError> {
    Supervised::start(name, core, body).map_err(|e| PipelineError::Thread(name.to_owned(), e))
}
