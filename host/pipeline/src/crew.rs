//! The threads of a run, whoever dispatches: workers and the consumer; how they start, and how they are sent home.

use crate::config::CorePinning;
use crate::consumer::{CompletionHandler, Consumer, IdExtender};
use crate::error::PipelineError;
use crate::state::{Phase, State};
use ringcall::Wait;
use ringcall::notice::NoticeBoard;
use ringcall::pin::{PinReport, pin_current};
use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long after the deadline a stop waits for threads that have only to look at a flag.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// What a consumer keeps for the next run.
pub(crate) type Kept = (CompletionHandler, IdExtender);

/// The threads of a run.
///
/// Dropped, by a start that fails or a running pipeline that is not stopped, it refuses submissions and lets its threads end
/// as soon as the stages let them. After a stop that changes nothing.
pub(crate) struct Crew {
    state: Arc<State>,
    /// How all of them wait.
    pub(crate) wait: Wait,
    /// Where each thread runs.
    pub(crate) pins: Vec<PinReport>,
    /// Not 0: the workers are to end.
    worker_quit: Arc<DeviceU64>,
    /// Not 0: the consumer is to end.
    pub(crate) consumer_quit: Arc<DeviceU64>,
    /// Not 0: whoever sends the consumer home is to do so, itself if nobody else is.
    last: Arc<DeviceU64>,
    workers: Vec<JoinHandle<()>>,
    consumer: Option<Receiver<Kept>>,
}

impl Crew {
    /// Nobody yet.
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

    /// Starts the next worker, which is given the word that tells it to end.
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
        board: Option<NoticeBoard>,
        (handler, ids): Kept,
    ) -> Result<(), PipelineError> {
        let consumer = Consumer {
            state: Arc::clone(&self.state),
            handler,
            quit: Arc::clone(&self.consumer_quit),
            wait: self.wait,
            board,
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

    /// From here on another thread sends the consumer home, once `last` is not 0.
    pub(crate) fn is_sent_home_by(&mut self, last: Arc<DeviceU64>) {
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

    /// Refuses submissions. One that had seen the pipeline running is let through to its end: then nothing more comes.
    /// Whatever the deadline: it has only stores to do.
    pub(crate) fn refuse(&self, stop: Stop) {
        self.state.set_phase(Phase::Stopped);
        while self.state.is_submitting() && stop.begin.elapsed() < stop.deadline.max(GRACE) {
            std::thread::yield_now();
        }
    }

    /// Tells the workers to end, which have only to see it unless a stage never returns; the numbers of those that do not.
    pub(crate) fn dismiss_workers(&mut self, stop: Stop) -> Vec<u32> {
        self.worker_quit.store(1, Ordering::Release);
        join_until(std::mem::take(&mut self.workers), Instant::now() + GRACE.max(stop.left() / 2))
    }

    /// Lets the consumer be sent home.
    pub(crate) fn dismiss_consumer(&self) {
        self.last.store(1, Ordering::Release);
    }

    /// What the consumer gives back as it ends.
    pub(crate) fn await_consumer(&mut self, stop: Stop) -> Result<Kept, RecvTimeoutError> {
        let back = self.consumer.take().ok_or(RecvTimeoutError::Disconnected)?;
        back.recv_timeout(GRACE.max(stop.left()))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.state.set_phase(Phase::Stopped);
        self.worker_quit.store(1, Ordering::Release);
        self.dismiss_consumer();
    }
}

/// A stop that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) begin: Instant,
    pub(crate) deadline: Duration,
}

impl Stop {
    pub(crate) fn begin(deadline: Duration) -> Self {
        Self { begin: Instant::now(), deadline }
    }

    /// What is left of its time.
    pub(crate) fn left(self) -> Duration {
        self.deadline.saturating_sub(self.begin.elapsed())
    }
}

/// A named thread, pinned before it does anything.
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

/// Joins threads that have only to look at a flag; the numbers of those that had not ended by then. These are left behind:
/// each holds its own handles, and can answer nothing.
pub(crate) fn join_until(threads: Vec<JoinHandle<()>>, patience: Instant) -> Vec<u32> {
    let stuck = |(number, handle): (usize, JoinHandle<()>)| {
        while !handle.is_finished() {
            if Instant::now() > patience {
                return Some(number as u32);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let _ = handle.join();
        None
    };
    threads.into_iter().enumerate().filter_map(stuck).collect()
}
