//! A worker thread: takes jobs, runs inference, claims the ready flag, runs the CPU stage, sends the response.

use crate::stage::{
    CpuStage, InferenceStage, OutputCheck, RequestView, StageContext, StageError, StageOutcome, StageTimes,
};
use crate::state::State;
use ringcall::thread::StopFlag;
use ringcall::worker::{Job, WorkerPort};
use ringcall::{Status, Wait};
use ringcall_gpu::clock;
use ringcall_gpu::shared::Bytes;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The memory that holds a worker's inference output.
pub(crate) enum Output {
    /// Written by this thread.
    Inline(Box<dyn InferenceStage>),
    /// Written by a device; copied, and perhaps checked, before the CPU stage reads it.
    Mapped(Bytes, Option<OutputCheck>),
}

pub(crate) struct Worker {
    pub(crate) port: WorkerPort,
    pub(crate) output: Output,
    pub(crate) cpu: Option<Box<dyn CpuStage>>,
    pub(crate) state: Arc<State>,
    pub(crate) stop: StopFlag,
    pub(crate) wait: Wait,
    /// Private copies, as long as the slots and the output.
    pub(crate) payload: Vec<u8>,
    pub(crate) inferred: Vec<u8>,
    pub(crate) response: Vec<u8>,
    /// Time stamps of the current job.
    pub(crate) times: StageTimes,
    pub(crate) inferred_bytes: usize,
    /// The job whose CPU stage is to be called again.
    pub(crate) held: Option<Job>,
}

/// How long a turn stays with a CPU stage that is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Until the stage is ready or its request is answered otherwise: the worker has a thread of its own.
    Whole,
    /// For one call.
    Once,
}

impl Worker {
    /// Runs until `stop` is set.
    pub(crate) fn run(mut self) {
        self.stop.clone().poll_until_set(self.wait, || self.turn(Turn::Whole));
    }

    /// Polls the mailbox and the ready flag, and calls the stages. Returns whether there was a job.
    #[inline]
    pub(crate) fn turn(&mut self, turn: Turn) -> bool {
        let found = self.infer();
        self.process_ready(turn) || found
    }

    /// Takes a job from the mailbox and runs inference on this thread, unless a device runs it. Returns whether there was a job.
    fn infer(&mut self) -> bool {
        let Output::Inline(stage) = &mut self.output else { return false };
        let Some(job) = self.port.take_job() else { return false };
        self.times =
            StageTimes { accepted: job.accepted_ns, started: clock::now_ns(), ..StageTimes::default() };
        let len = self.port.read_payload(&job, &mut self.payload);
        // A timeout or a stop has answered the request: the payload may be bytes of the next request in its slot.
        if self.port.is_completed(&job) {
            self.port.release();
            return true;
        }
        let request = RequestView { header: &job.ticket.header, payload: &self.payload[..len] };
        let output = &mut self.inferred;
        match catch_unwind(AssertUnwindSafe(|| stage.infer(request, output))) {
            Ok(Ok(len)) if len <= self.inferred.len() => {
                self.inferred_bytes = len;
                self.times.inferred = clock::now_ns();
                self.port.signal_ready();
            }
            Ok(Ok(_)) => self.give_up(&job, Status::ENGINE_FAILED),
            Ok(Err(error)) => self.give_up(&job, error.0),
            Err(_) => {
                self.panicked();
                self.give_up(&job, Status::ENGINE_FAILED);
            }
        }
        true
    }

    /// Claims the ready flag and runs the CPU stage on the inference output. Returns whether the flag was raised.
    fn process_ready(&mut self, turn: Turn) -> bool {
        if let Some(job) = self.held.take() {
            self.process(job, turn);
            return true;
        }
        let Some(job) = self.port.claim_ready() else { return false };
        // A stage that reports more bytes than it wrote must not send an earlier request's.
        self.response.fill(0);
        let mut checked = Ok(());
        if let Output::Mapped(window, check) = &mut self.output {
            self.inferred_bytes = self.inferred.len();
            self.times = StageTimes {
                accepted: job.accepted_ns,
                started: job.posted_ns,
                inferred: clock::now_ns(),
                ..StageTimes::default()
            };
            let _ = window.read(0, &mut self.inferred);
            let _ = self.port.read_payload(&job, &mut self.payload);
            // As in `infer`: the payload may be another request's.
            if self.port.is_completed(&job) {
                self.port.release();
                return true;
            }
            if let Some(check) = check {
                let output = &self.inferred;
                checked = catch_unwind(AssertUnwindSafe(|| check(output))).unwrap_or_else(|_| {
                    self.state.counters.panics.fetch_add(1, Ordering::Relaxed);
                    Err(StageError(Status::ENGINE_FAILED))
                });
            }
        }
        match checked {
            Ok(()) => self.process(job, turn),
            Err(StageError(status)) => self.give_up(&job, status),
        }
        true
    }

    /// Runs the CPU stage until it has finished the job, or until a timeout or a stop has answered the request; or holds the job for the
    /// next turn.
    fn process(&mut self, job: Job, turn: Turn) {
        if self.is_finished(&job, turn) {
            self.port.release();
        } else {
            self.held = Some(job);
        }
    }

    fn is_finished(&mut self, job: &Job, turn: Turn) -> bool {
        let inferred = self.inferred_bytes;
        let deferred = Cell::new(false);
        let Some(stage) = &mut self.cpu else {
            // No CPU stage: the inference output is the answer.
            self.times.processed = self.times.inferred;
            write_times(&self.state, &self.port, job, &self.times);
            let _ = self.port.answer(job, Status::OK, &self.inferred[..inferred]);
            return true;
        };
        let mut waiter = self.wait.waiter();
        loop {
            let header = &job.ticket.header;
            let len = (header.arg_len as usize).min(self.payload.len());
            let mut context = StageContext {
                request: RequestView { header, payload: &self.payload[..len] },
                output: &self.inferred[..inferred],
                response: &mut self.response,
                port: &self.port,
                job,
                deferred: &deferred,
            };
            // Before the stage runs: a deferred response may be published before the stage returns.
            write_times(&self.state, &self.port, job, &self.times);
            let outcome = catch_unwind(AssertUnwindSafe(|| stage.process(&mut context)));
            let (status, len) = match outcome {
                Ok(StageOutcome::NotReady) if turn == Turn::Once => return self.port.is_completed(job),
                Ok(StageOutcome::NotReady) => {
                    // Bounded by the request's timeout and by the stop's deadline: both complete it.
                    if waiter.idle().is_multiple_of(64) && self.port.is_completed(job) {
                        return true;
                    }
                    continue;
                }
                Ok(StageOutcome::Deferred) if deferred.get() => return true,
                // The stage deferred without taking a `Deferral`, so nothing could answer the request later.
                Ok(StageOutcome::Deferred) => (Status::ABANDONED, 0),
                Ok(StageOutcome::Done(len)) => Status::OK.clamped(len, self.response.len()),
                Ok(StageOutcome::Failed(status)) => (status, 0),
                Err(_) => {
                    self.panicked();
                    (Status::HANDLER_PANIC, 0)
                }
            };
            self.times.processed = clock::now_ns();
            write_times(&self.state, &self.port, job, &self.times);
            let _ = self.port.answer(job, status, &self.response[..len]);
            return true;
        }
    }

    fn give_up(&self, job: &Job, status: Status) {
        write_times(&self.state, &self.port, job, &self.times);
        let _ = self.port.answer(job, status, &[]);
        self.port.release();
    }

    fn panicked(&self) {
        self.state.counters.panics.fetch_add(1, Ordering::Relaxed);
    }
}

/// Records a job's time stamps, unless the request was answered already: its slot may hold another request by now.
fn write_times(state: &State, port: &WorkerPort, job: &Job, times: &StageTimes) {
    if !port.is_completed(job) {
        state.times.write(job.ticket.slot, times);
    }
}
