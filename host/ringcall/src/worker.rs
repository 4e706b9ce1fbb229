//! Worker ports: the worker's side of a dispatcher's worker pool.
//!
//! The dispatcher claims a worker in the idle mask and gives it a [`Job`]; the worker releases itself when it is
//! done. [`Start`] says how the work is started: a thread of this process finds the job in its mailbox, or the
//! dispatcher launches work (a CUDA graph) whose end raises the worker's ready flag. In both cases one thread holds
//! the [`WorkerPort`] and answers.

pub use crate::shared::Late;
use crate::shared::Shared;
use ringcall_gpu::shared::Words;
use ringcall_protocol::ledger::{Phase, Ticket};
pub use ringcall_protocol::mailbox::Job;
use ringcall_protocol::{Geometry, RingMemory, SharedRing};
use ringcall_wire::counter::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::status::Status;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// Arguments of a launch or a hook.
#[derive(Debug)]
pub struct LaunchContext<'a> {
    /// The job.
    pub job: &'a Job,
    /// The worker that gets the job.
    pub worker: u32,
    pub(crate) ring: &'a SharedRing,
}

impl LaunchContext<'_> {
    /// The request slot's address as the device sees it: the source of a DMA copy. Never dereferenced here.
    #[must_use]
    pub fn slot_address(&self) -> u64 {
        self.ring.geometry().peer_request_address(self.job.ticket.slot)
    }

    /// Copies the payload's first bytes into `out`. Returns how many: at most the payload's length.
    pub fn read_payload(&self, out: &mut [u8]) -> usize {
        read_payload(self.ring, self.job, out)
    }
}

/// A launch that failed. The request is answered with the error mark `0xDEAD…code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("launch failed with code {code}")]
pub struct LaunchError {
    /// The launcher's own code (a CUDA error's number).
    pub code: u16,
}

/// Runs on the dispatcher thread before or after a launch. Must not block. If one panics before a launch, the request
/// is answered [`HANDLER_PANIC`](Status::HANDLER_PANIC) and nothing is launched.
pub type Hook = Box<dyn FnMut(&LaunchContext<'_>) + Send>;

/// Starts a job on the dispatcher thread. Must not block. A launch that fails or panics must have started nothing,
/// since the worker gets the next job at once.
pub type LaunchFn = Box<dyn FnMut(&LaunchContext<'_>) -> Result<(), LaunchError> + Send>;

/// How a worker's work is started.
pub enum Start {
    /// The worker's own thread takes the job from its mailbox.
    Mailbox,
    /// The dispatcher starts the work, whose end raises the ready flag.
    Launch(LaunchFn),
}

/// One worker, as the dispatcher knows it.
pub struct WorkerSpec {
    /// The function it serves.
    pub function: FunctionId,
    /// How its work is started.
    pub start: Start,
    /// Before each launch (staging of input).
    pub pre_launch: Option<Hook>,
    /// After each launch that succeeded.
    pub post_launch: Option<Hook>,
    /// The worker's ready flag, if a device raises it: a word that is 0 and that the device alone writes. The last
    /// store of a run is [`READY`](ringcall_protocol::ready::READY), with release order at system scope. `None`: a
    /// word of the dispatcher.
    pub ready: Option<Words>,
}

impl WorkerSpec {
    /// A worker whose own thread takes jobs for `function`.
    #[must_use]
    pub fn mailbox(function: FunctionId) -> Self {
        Self { function, start: Start::Mailbox, pre_launch: None, post_launch: None, ready: None }
    }
}

impl std::fmt::Debug for WorkerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = match self.start {
            Start::Mailbox => "mailbox",
            Start::Launch(_) => "launch",
        };
        f.debug_struct("WorkerSpec").field("function", &self.function).field("start", &start).finish()
    }
}

fn read_payload(ring: &SharedRing, job: &Job, out: &mut [u8]) -> usize {
    // The header is the dispatcher's checked copy, so its length fits the slot.
    let len = (job.ticket.header.arg_len.min(ring.geometry().request_capacity()) as usize).min(out.len());
    ring.read_payload(job.ticket.slot, &mut out[..len]);
    len
}

/// The port of one worker, which one thread holds. `Send`.
#[derive(Debug)]
pub struct WorkerPort {
    shared: Arc<Shared>,
    worker: u32,
    /// One thread at a time: mailbox and counters have one reader and one writer.
    _not_sync: PhantomData<Cell<()>>,
}

impl WorkerPort {
    pub(crate) fn new(shared: Arc<Shared>, worker: u32) -> Self {
        Self { shared, worker, _not_sync: PhantomData }
    }

    /// The worker's number.
    #[must_use]
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// The ring's shape.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.shared.ring.geometry()
    }

    fn cell(&self) -> &crate::shared::Cell {
        &self.shared.cells[self.worker as usize]
    }

    /// Takes the job from the mailbox, if there is one. For [`Start::Mailbox`].
    #[inline]
    #[must_use]
    pub fn take_job(&self) -> Option<Job> {
        self.cell().mailbox.take(self.geometry())
    }

    /// Raises this worker's ready flag: its output is complete.
    #[inline]
    pub fn signal_ready(&self) {
        if let Some(flag) = self.shared.ready(self.worker) {
            flag.signal();
        }
    }

    /// A handle that raises this worker's ready flag from another thread, such as a thread that simulates a GPU.
    #[must_use]
    pub fn signal(&self) -> ReadySignal {
        ReadySignal { shared: Arc::clone(&self.shared), worker: self.worker }
    }

    /// Claims the raised ready flag and returns its job.
    #[inline]
    #[must_use]
    pub fn claim_ready(&self) -> Option<Job> {
        let flag = self.shared.ready(self.worker)?;
        if !flag.claim() {
            return None;
        }
        // For launched workers, whose jobs no thread took, the mailbox is emptied here. The origin tag stays.
        let _ = self.cell().mailbox.take(self.geometry());
        self.cell().mailbox.tag(self.geometry())
    }

    /// Copies the payload's first bytes into `out`. Returns how many.
    #[inline]
    pub fn read_payload(&self, job: &Job, out: &mut [u8]) -> usize {
        read_payload(&self.shared.ring, job, out)
    }

    /// Answers. The worker stays claimed until [`release`](Self::release).
    ///
    /// # Errors
    /// [`Late`] if the request was answered before.
    #[inline]
    pub fn answer(&self, job: &Job, status: Status, result: &[u8]) -> Result<(), Late> {
        self.shared.complete(&job.ticket, Some(&self.cell().bank), status, result)
    }

    /// Sets the error mark.
    ///
    /// # Errors
    /// [`Late`] if the request was answered before.
    pub fn fail(&self, job: &Job, status: Status, code: u16) -> Result<(), Late> {
        self.shared.complete_error(&job.ticket, &self.cell().bank, status, code)
    }

    /// Whether another agent has answered this job meanwhile.
    #[must_use]
    pub fn is_completed(&self, job: &Job) -> bool {
        self.shared
            .ledger()
            .snapshot(job.ticket.slot)
            .is_none_or(|entry| entry.generation != job.ticket.generation || entry.phase == Phase::Completed)
    }

    /// Hands the job's answer to the holder of the [`Deferral`]; the worker can be released at once.
    pub fn defer(&self, job: &Job) -> Deferral {
        let _ = self.shared.ledger().advance(&job.ticket, Phase::Deferred, None);
        Deferral { shared: Arc::clone(&self.shared), ticket: job.ticket, open: true }
    }

    /// Returns the worker to idle: lowers the ready flag, then sets the worker's idle bit. Called once for each job.
    #[inline]
    pub fn release(&self) {
        if let Some(flag) = self.shared.ready(self.worker) {
            flag.release();
        }
        self.shared.idle().release(self.worker);
    }

    /// Counts in this worker's bank.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.cell().bank.count(counter);
    }
}

/// Raises one worker's ready flag. `Clone`, from any thread.
#[derive(Debug, Clone)]
pub struct ReadySignal {
    shared: Arc<Shared>,
    worker: u32,
}

impl ReadySignal {
    /// The output is complete.
    pub fn raise(&self) {
        if let Some(flag) = self.shared.ready(self.worker) {
            flag.signal();
        }
    }
}

/// The right to answer a request later, from any thread. If it is dropped without an answer, it answers
/// [`ABANDONED`](Status::ABANDONED), so that the client does not wait indefinitely.
#[derive(Debug)]
#[must_use = "a deferred request must be completed, or it is answered ABANDONED"]
pub struct Deferral {
    shared: Arc<Shared>,
    ticket: Ticket,
    open: bool,
}

impl Deferral {
    /// The slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.ticket.slot.get()
    }

    /// Answers with `status` and `result`.
    ///
    /// # Errors
    /// [`Late`] if the request was answered before.
    pub fn complete(mut self, status: Status, result: &[u8]) -> Result<(), Late> {
        self.open = false;
        self.shared.complete(&self.ticket, None, status, result)
    }
}

impl Drop for Deferral {
    fn drop(&mut self) {
        if self.open {
            let _ = self.shared.complete(&self.ticket, None, Status::ABANDONED, &[]);
        }
    }
}
