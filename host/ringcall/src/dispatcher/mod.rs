//! The host dispatcher: one thread that polls a ring, checks requests, calls handlers or hands requests to workers,
//! and answers.
//!
//! # What is promised
//! - **Every request is answered or accounted for.** Each kind of rejection has a status; every answer is counted
//!   under its status; a request that a stop could not finish is answered `SHUTTING_DOWN` and counted.
//! - **A busy function stalls no other.** Requests of a function whose workers are all busy wait in that
//!   function's own queue, in order, and the scan continues.
//! - **No allocation, no lock, no system call** on the dispatcher thread between start and stop, except the yields of
//!   [`Wait::Yield`](crate::Wait).
//! - **Workers return by a flag**: a worker sets its idle bit; no CUDA stream is queried.
//!
//! # Life cycle
//! [`HostDispatcher<Wired>`] → [`start`](HostDispatcher::start) → [`HostDispatcher<Running>`] →
//! [`stop`](HostDispatcher::stop) → [`Stopped`], which gives the wired dispatcher back to be started again.
//!
//! A program with its own loop (one thread for transport and dispatch) uses [`HostDispatcher<Stepped>`] instead:
//! [`into_stepper`](HostDispatcher::into_stepper) → [`step`](HostDispatcher::step) →
//! [`finish`](HostDispatcher::finish).

mod answer;
mod halt;
mod malformed;
mod pool;
mod run;
mod scanner;
mod step;

use crate::completion_log::CompletionLog;
use crate::external::{ExternalExecutor, RingCompat};
use crate::pin::PinReport;
use crate::shared::{Control, Shared};
pub use crate::shared::{SlotDump, SlotState, WorkerState};
use crate::table::FunctionTable;
use crate::thread::{GRACE_PERIOD, Supervised};
use crate::worker::{WorkerPort, WorkerSpec};
use crate::{Ring, Wait};
use malformed::MalformedLock;
pub use ringcall_protocol::counters::Snapshot;
use ringcall_wire::counter::Counter;
pub use run::DispatchStep;
use run::Loop;
use scanner::Scanner;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use step::Stepped;

/// Options of a host dispatcher.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// How the thread polls.
    pub wait: Wait,
    /// The core that the thread is pinned to.
    pub core: Option<usize>,
    /// How long a request may be in flight (queued or with a worker) before it is answered `TIMED_OUT` and its slot
    /// freed. A later result is dropped and counted. `None`: no limit.
    pub request_timeout: Option<Duration>,
}

/// Why a dispatcher cannot be built or started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DispatcherError {
    /// A worker serves a function that the table does not have.
    #[error("worker {worker} serves function {id:#010x}, which is not in the table")]
    UnknownFunction {
        /// The worker.
        worker: usize,
        /// The id.
        id: u32,
    },
    /// A worker serves a function that workers do not run.
    #[error("worker {worker} serves `{name}`, which is not entered as a worker call")]
    NotAWorkerCall {
        /// The worker.
        worker: usize,
        /// The function.
        name: String,
    },
    /// The executor of the external functions answers in another ring.
    #[error("the external functions are answered in another ring: make both of the same ring")]
    OtherRing,
    /// The operating system refused a thread.
    #[error("no thread for the dispatcher: {0}")]
    Thread(String),
}

/// Not running.
#[derive(Debug)]
pub struct Wired {
    lp: Box<Loop>,
}

/// Running.
#[derive(Debug)]
pub struct Running {
    thread: Supervised<Box<Loop>>,
    guard: HaltOnDrop,
}

/// A running dispatcher that is dropped without a stop halts: requests in flight are answered `SHUTTING_DOWN`, and
/// its thread ends. The drop does not wait for the thread. After a stop the drop changes nothing.
#[derive(Debug)]
struct HaltOnDrop(Arc<Shared>);

impl Drop for HaltOnDrop {
    fn drop(&mut self) {
        self.0.set_control(Control::Halt);
    }
}

/// A host dispatcher, before or after its thread runs.
#[derive(Debug)]
#[must_use]
pub struct HostDispatcher<State = Wired> {
    shared: Arc<Shared>,
    state: State,
}

/// Builder of a [`HostDispatcher`].
pub struct HostDispatcherBuilder {
    ring: Ring,
    table: FunctionTable,
    workers: Vec<WorkerSpec>,
    options: HostOptions,
    completion_log: Option<CompletionLog>,
    compat: RingCompat,
    executor: Option<Box<dyn ExternalExecutor>>,
    in_order: bool,
}

impl std::fmt::Debug for HostDispatcherBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostDispatcherBuilder")
            .field("table", &self.table)
            .field("workers", &self.workers)
            .field("options", &self.options)
            .field("compat", &self.compat)
            .finish_non_exhaustive()
    }
}

impl HostDispatcherBuilder {
    /// Adds a worker. Workers are numbered from 0 in the order in which they are added. Their number has no limit.
    #[must_use]
    pub fn worker(mut self, spec: WorkerSpec) -> Self {
        self.workers.push(spec);
        self
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// Also records every completion in `log`. A reader must take the events: a slot whose event is unread takes no
    /// new request.
    #[must_use]
    pub fn completion_log(mut self, log: CompletionLog) -> Self {
        self.completion_log = Some(log);
        self
    }

    /// Reads the ring by another library's rules.
    #[must_use]
    pub fn compat(mut self, compat: RingCompat) -> Self {
        self.compat = compat;
        self
    }

    /// Serves inline calls in the order in which the ring's producer wrote their requests, for functions whose calls
    /// depend on earlier calls. The producer takes slots in ring order, and has fewer requests under way than there
    /// are slots.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Sets the executor that starts the functions entered with
    /// [`external_call`](crate::table::TableBuilder::external_call). Without an executor their requests are answered
    /// `NO_WORKER`.
    #[must_use]
    pub fn executor(mut self, executor: Box<dyn ExternalExecutor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// Checks the wiring.
    ///
    /// # Errors
    /// A worker for a function that the table lacks or that workers do not run; an executor that answers in another
    /// ring.
    pub fn build(self) -> Result<HostDispatcher<Wired>, DispatcherError> {
        let Self { ring, table, workers, options, completion_log, compat, mut executor, in_order } = self;
        if let Some(executor) = &mut executor {
            if !executor.is_for(ring.geometry()) {
                return Err(DispatcherError::OtherRing);
            }
            if compat.shared_ring {
                executor.share();
            }
        }
        let flags = workers.iter().map(|spec| spec.ready.clone());
        let shared = Arc::new(Shared::new(ring.shared().clone(), flags, completion_log));
        let mut lp = Box::new(Loop::new(Arc::clone(&shared), table, workers, options)?);
        lp.malformed = compat.shared_ring.then(|| MalformedLock::of(ring.shared()));
        (lp.compat, lp.executor) = (compat, executor);
        if in_order {
            lp.scan = Scanner::in_order(ring.geometry().slots());
        }
        Ok(HostDispatcher { shared, state: Wired { lp } })
    }
}

impl HostDispatcher<Wired> {
    /// Begins to build a dispatcher of `ring`.
    pub fn builder(ring: &Ring, table: FunctionTable) -> HostDispatcherBuilder {
        HostDispatcherBuilder {
            ring: ring.clone(),
            table,
            workers: Vec::new(),
            options: HostOptions::default(),
            completion_log: None,
            compat: RingCompat::default(),
            executor: None,
            in_order: false,
        }
    }

    /// The workers' ports, for the threads that will hold them. Each worker has exactly one port.
    #[must_use]
    pub fn ports(&self) -> Vec<WorkerPort> {
        (0..self.shared.cells.len() as u32).map(|w| WorkerPort::new(Arc::clone(&self.shared), w)).collect()
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(self) -> Result<HostDispatcher<Running>, DispatcherError> {
        let Self { shared, state: Wired { mut lp } } = self;
        shared.set_control(Control::Run);
        let thread = Supervised::start("dispatcher", lp.options.core, move || {
            lp.run();
            lp
        })
        .map_err(|e| DispatcherError::Thread(e.to_string()))?;
        let guard = HaltOnDrop(Arc::clone(&shared));
        Ok(HostDispatcher { shared, state: Running { thread, guard } })
    }
}

impl<State> HostDispatcher<State> {
    /// A snapshot of all counters. Does not block, and does not slow the dispatcher down.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.shared.counters()
    }

    /// What every slot and worker is doing, now.
    #[must_use]
    pub fn dump(&self) -> SlotDump {
        self.shared.dump()
    }

    /// A handle with which any thread can watch the dispatcher.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch { shared: Arc::clone(&self.shared) }
    }
}

/// Reads a dispatcher's counters and slots from any thread, also after it has stopped.
#[derive(Debug, Clone)]
pub struct Watch {
    shared: Arc<Shared>,
}

impl Watch {
    /// All counters, now.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.shared.counters()
    }

    /// What every slot and worker is doing, now.
    #[must_use]
    pub fn dump(&self) -> SlotDump {
        self.shared.dump()
    }
}

/// Report of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// Requests answered between the call and the end.
    pub drained: u64,
    /// Requests answered `SHUTTING_DOWN` because the deadline had passed.
    pub dropped: u64,
    /// The dispatcher thread did not end: it is stuck in an inline call.
    pub stuck: bool,
    /// Slots and workers that were busy when the deadline passed; `None` if every request was finished.
    pub unfinished: Option<SlotDump>,
    /// How long the stop took.
    pub took: Duration,
}

/// A stopped dispatcher.
#[derive(Debug)]
pub struct Stopped {
    /// The report of the stop.
    pub report: StopReport,
    /// The dispatcher, ready to be started again; `None` if its thread is stuck in an inline call that never returns.
    pub dispatcher: Option<HostDispatcher<Wired>>,
}

impl HostDispatcher<Running> {
    /// The result of pinning the thread.
    #[must_use]
    pub fn pin(&self) -> &PinReport {
        self.state.thread.pin()
    }

    /// Takes the requests in the ring, waits until every request in flight is answered, and stops. At the deadline it
    /// answers the remaining requests `SHUTTING_DOWN`. Returns at most half a second after the deadline.
    #[must_use]
    pub fn stop(self, deadline: Duration) -> Stopped {
        let Self { shared, state: Running { mut thread, guard: _guard } } = self;
        let ending = Ending::begin(&shared);
        shared.set_control(Control::Drain);
        let mut unfinished = None;
        let back = thread.wait(deadline).or_else(|_| {
            unfinished = Some(shared.dump());
            shared.set_control(Control::Halt);
            // Answering the remaining requests is bounded work, unless a handler never returns.
            thread.wait(GRACE_PERIOD)
        });
        let report = ending.report(&shared, back.is_err(), unfinished);
        let dispatcher = back.ok().map(|lp| HostDispatcher { shared, state: Wired { lp } });
        Stopped { report, dispatcher }
    }
}

/// A stop under way.
struct Ending {
    begin: Instant,
    before: Snapshot,
}

impl Ending {
    fn begin(shared: &Shared) -> Self {
        Self { begin: Instant::now(), before: shared.counters() }
    }

    fn report(&self, shared: &Shared, stuck: bool, unfinished: Option<SlotDump>) -> StopReport {
        let after = shared.counters();
        let dropped = after.get(Counter::ShuttingDown) - self.before.get(Counter::ShuttingDown);
        let drained = after.answered() - self.before.answered() - dropped;
        StopReport { drained, dropped, stuck, unfinished, took: self.begin.elapsed() }
    }
}
