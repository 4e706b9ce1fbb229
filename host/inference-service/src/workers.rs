//! Threads that take jobs from queues, finish them, and answer.

use crate::counts::LiveCounts;
use crate::{Queue, QueueStats, ServiceError, WorkerStats};
use ringcall::Wait;
use ringcall::pin::PinReport;
use ringcall::thread::{GRACE_PERIOD, StopFlag, Supervised};
use ringcall_gpu::hint;
use ringcall_protocol::handoff::{Claim, PolledJob};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Arguments of a stage.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Number of the instance that made it: index of its queue.
    pub instance: u32,
    /// Number of the job in its queue.
    pub sequence: u64,
    /// The request's header, as the dispatcher checked it.
    pub header: &'a RequestHeader,
    /// What the network made of it: a copy.
    pub output: &'a [u8],
}

/// The CPU's part of a request: matching, say. One for each worker.
pub trait Stage: Send {
    /// Finishes a job: writes the result, says how long it is. A panic is caught and answered
    /// [`HANDLER_PANIC`](Status::HANDLER_PANIC).
    ///
    /// # Errors
    /// The status to answer with.
    fn process(&mut self, job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status>;
}

impl<F: FnMut(&Job<'_>, &mut [u8]) -> Result<usize, Status> + Send> Stage for F {
    fn process(&mut self, job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status> {
        self(job, result)
    }
}

/// Runs a stage: the status and how many bytes of `result`.
pub(crate) fn run_stage(
    stage: &mut dyn Stage,
    job: &Job<'_>,
    result: &mut [u8],
    counts: &LiveCounts,
) -> (Status, usize) {
    match catch_unwind(AssertUnwindSafe(|| stage.process(job, result))) {
        Ok(Ok(len)) => Status::OK.clamped(len, result.len()),
        Ok(Err(status)) => (status, 0),
        Err(_) => {
            LiveCounts::count(&counts.panicked);
            (Status::HANDLER_PANIC, 0)
        }
    }
}

/// How workers behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Core of each worker, in order; workers past the end are not pinned.
    pub cores: Vec<usize>,
    /// How an idle worker waits.
    pub wait: Wait,
    /// Whether the dispatcher marks requests in flight, which is its default: an answer is then given only while the mark
    /// stands, and counted as late otherwise.
    pub marks: bool,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self { cores: Vec::new(), wait: Wait::Auto, marks: true }
    }
}

/// Threads that go round all queues of a service. Every one of them takes from every queue.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<Supervised<()>>,
}

#[derive(Debug)]
struct Shared {
    queues: Vec<Arc<Queue>>,
    ring: SharedRing,
    counts: LiveCounts,
    /// Workers end once the queues are empty.
    drain: StopFlag,
    /// Workers end after the job that they have.
    halt: StopFlag,
    marks: bool,
}

impl Shared {
    fn halt(&self) {
        self.halt.set();
        self.drain.set();
    }
}

/// How workers ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// What they did.
    pub workers: WorkerStats,
    /// What the queues say.
    pub queues: Vec<QueueStats>,
    /// Jobs that no worker took before the time was up.
    pub left: u64,
    /// Workers whose stage did not return in time; their threads were left behind.
    pub stuck: Vec<usize>,
}

impl StopReport {
    /// Whether every job was taken and every worker came back.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.left == 0 && self.stuck.is_empty() && self.workers.unreleased == 0
    }
}

impl Workers {
    /// Starts one thread for each stage. Answers go to `ring`, which is the dispatcher's.
    ///
    /// # Errors
    /// No stage, no queue, or a thread that the system does not start.
    pub fn start(
        queues: &[Arc<Queue>],
        ring: &SharedRing,
        stages: Vec<Box<dyn Stage>>,
        options: &WorkerOptions,
    ) -> Result<Self, ServiceError> {
        if stages.is_empty() || queues.is_empty() {
            return Err(ServiceError::Shape("workers need at least one stage and one queue".to_owned()));
        }
        let shared = Arc::new(Shared {
            queues: queues.to_vec(),
            ring: ring.clone(),
            counts: LiveCounts::default(),
            drain: StopFlag::default(),
            halt: StopFlag::default(),
            marks: options.marks,
        });
        let wait = options.wait.resolve(stages.len());
        let mut workers = Self { shared, threads: Vec::new() };
        for (index, stage) in stages.into_iter().enumerate() {
            let (shared, core) = (Arc::clone(&workers.shared), options.cores.get(index).copied());
            let body = move || Worker::new(&shared, index, stage).run(wait);
            // Dropping `workers` stops the threads that were started before a failure.
            let thread = Supervised::start(&format!("service worker {index}"), core, body)
                .map_err(|reason| ServiceError::Thread { worker: index, reason })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Where the workers run.
    #[must_use]
    pub fn pins(&self) -> Vec<PinReport> {
        self.threads.iter().map(|thread| thread.pin().clone()).collect()
    }

    /// Their counters so far.
    #[must_use]
    pub fn stats(&self) -> WorkerStats {
        self.shared.counts.snapshot()
    }

    /// Ends them, once the queues are empty or the time is up. Stop the dispatcher first: what it still hands over would be
    /// left.
    #[must_use]
    pub fn stop(mut self, deadline: Duration) -> StopReport {
        let until = Instant::now() + deadline;
        self.shared.drain.set();
        let _busy = Supervised::wait_all(&mut self.threads, until);
        self.shared.halt();
        // A worker that was only busy ends after the job that it has.
        let stuck = Supervised::wait_all(&mut self.threads, Instant::now() + GRACE_PERIOD);
        let queues: Vec<_> = self.shared.queues.iter().map(|queue| queue.stats()).collect();
        let published: u64 = queues.iter().map(|queue| queue.published).sum();
        let workers = self.stats();
        StopReport { left: published.saturating_sub(workers.jobs), workers, queues, stuck }
    }
}

/// Looks at a slot that should be in flight and seems free: the mark and the job were written by different kernels.
const MARK_POLLS: u32 = 20_000;

/// Whether the slot's request is still in flight.
fn is_marked(ring: &SharedRing, slot: SlotIndex) -> bool {
    for _ in 0..MARK_POLLS {
        match ring.tx(slot) {
            flag::IN_FLIGHT => return true,
            flag::FREE => hint::spin(),
            _ => return false,
        }
    }
    false
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.halt();
    }
}

/// One worker's life.
struct Worker<'a> {
    shared: &'a Shared,
    stage: Box<dyn Stage>,
    /// Where the next round begins, so that no queue is always first.
    first: usize,
    output: Vec<u8>,
    result: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, index: usize, stage: Box<dyn Stage>) -> Self {
        let most = shared.queues.iter().map(|queue| queue.shape().output_bytes()).max().unwrap_or(0);
        let capacity = shared.ring.geometry().result_capacity();
        Self {
            shared,
            stage,
            first: index,
            output: vec![0; most as usize],
            result: vec![0; capacity as usize],
        }
    }

    fn run(mut self, wait: Wait) {
        let shared = self.shared;
        shared.drain.poll_until_set(wait, || !shared.halt.is_set() && self.round());
    }

    /// One look at each queue; whether anything was there.
    fn round(&mut self) -> bool {
        let queues = &self.shared.queues;
        let mut found = false;
        self.first = (self.first + 1) % queues.len();
        for turn in 0..queues.len() {
            let instance = (self.first + turn) % queues.len();
            match queues[instance].poll() {
                PolledJob::Empty => continue,
                PolledJob::Job(claim) => self.serve(instance, claim, false),
                PolledJob::Damaged(claim) => self.serve(instance, claim, true),
                PolledJob::Garbage { .. } => LiveCounts::count(&self.shared.counts.garbage),
            }
            found = true;
        }
        found
    }

    fn serve(&mut self, instance: usize, mut claim: Claim, damaged: bool) {
        let (shared, counts) = (self.shared, &self.shared.counts);
        let queue = &shared.queues[instance];
        LiveCounts::count(&counts.jobs);
        let (status, len) = if damaged {
            LiveCounts::count(&counts.damaged);
            (Status::ENGINE_FAILED, 0)
        } else {
            let len = queue.read_output(&claim, &mut self.output);
            let output = self.output.get(..len).unwrap_or_default();
            let header = *claim.header();
            let job = Job { instance: instance as u32, sequence: claim.sequence(), header: &header, output };
            run_stage(&mut *self.stage, &job, &mut self.result, counts)
        };
        if queue.release(&claim).is_err() {
            LiveCounts::count(&counts.unreleased);
        }
        if !claim.has_answer_outstanding() {
            LiveCounts::count(&counts.unowed);
            return;
        }
        let Some(request) = claim.in_flight(shared.ring.geometry()) else {
            LiveCounts::count(&counts.dropped);
            return;
        };
        if shared.marks && !is_marked(&shared.ring, request.slot()) {
            LiveCounts::count(&counts.late);
            return;
        }
        let answered = request.answer(&shared.ring, status, self.result.get(..len).unwrap_or_default());
        LiveCounts::count(&counts.answered);
        if !answered.status.is_ok() {
            LiveCounts::count(&counts.failed);
        }
    }
}
