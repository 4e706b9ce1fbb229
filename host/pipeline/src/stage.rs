//! Traits and types for a user's stages: inference stages, CPU stages, completion handlers.

use ringcall::Status;
use ringcall::wire::function::FunctionId;
use ringcall::wire::header::RequestHeader;
use ringcall::wire::schema::HandlerSchema;
use ringcall::worker::{Deferral, Hook, Job, LaunchFn, ReadySignal, WorkerPort};
use ringcall_gpu::shared::{Bytes, Words};
use std::cell::Cell;

/// One request, as a stage sees it: private copies, checked by the dispatcher.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// The header.
    pub header: &'a RequestHeader,
    /// The payload: `header.arg_len` bytes.
    pub payload: &'a [u8],
}

/// A stage that failed: the status its request is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stage failed: {0}")]
pub struct StageError(pub Status);

/// Inference that runs on the worker's thread (a CPU engine).
pub trait InferenceStage: Send {
    /// Reads the request, writes the output, returns its length in bytes.
    ///
    /// # Errors
    /// The status to answer with. A panic is caught and answered
    /// [`ENGINE_FAILED`](Status::ENGINE_FAILED).
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError>;
}

impl<F> InferenceStage for F
where
    F: FnMut(RequestView<'_>, &mut [u8]) -> Result<usize, StageError> + Send,
{
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
        self(request, output)
    }
}

/// The agent that raises the ready flag of a worker whose inference is launched.
pub enum Raised {
    /// Code of this process, which is given the flag once, before the first launch.
    Host(Box<dyn FnOnce(ReadySignal) + Send>),
    /// A device: the last node of a worker's graph stores 1 in this word, which is 0 and which no other agent reaches, with release
    /// order at system scope.
    Device(Words),
}

/// Checks the output of a launched inference on the worker's thread. An error is the status of the answer.
pub type OutputCheck = Box<dyn FnMut(&[u8]) -> Result<(), StageError> + Send>;

/// How a worker's inference is executed.
pub enum Execution {
    /// On the worker's own thread.
    Inline(Box<dyn InferenceStage>),
    /// Started by the dispatcher (a captured graph on a stream of the worker's); its last node raises the ready flag.
    Launched {
        /// Starts the inference of one job; runs on the dispatcher thread.
        launcher: LaunchFn,
        /// Who raises the ready flag.
        raised: Raised,
        /// Memory into which the device writes the output.
        output: Bytes,
        /// Check of an output. `None`: every output is valid.
        check: Option<OutputCheck>,
    },
}

/// Resources of a worker, which the GPU-stage factory makes once per worker at each start.
pub struct WorkerResources {
    /// Name of the function this worker serves.
    pub function: String,
    /// The function's id, if it is not the hash of the name.
    pub id: Option<FunctionId>,
    /// Its schema; the same for all workers of one function.
    pub schema: HandlerSchema,
    /// How inference is executed.
    pub execution: Execution,
    /// Runs on the dispatcher thread before each launch (staging of input).
    pub pre_launch: Option<Hook>,
    /// Runs on the dispatcher thread after each launch.
    pub post_launch: Option<Hook>,
    /// The most bytes of inference output.
    pub output_bytes: usize,
}

impl WorkerResources {
    /// A worker that runs `stage` on its own thread, with an output of at most `output_bytes`.
    #[must_use]
    pub fn inline(
        function: &str,
        schema: HandlerSchema,
        output_bytes: usize,
        stage: impl InferenceStage + 'static,
    ) -> Self {
        Self {
            function: function.to_owned(),
            id: None,
            schema,
            execution: Execution::Inline(Box::new(stage)),
            pre_launch: None,
            post_launch: None,
            output_bytes,
        }
    }
}

impl std::fmt::Debug for WorkerResources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerResources").field("function", &self.function).finish_non_exhaustive()
    }
}

/// Outcome of a call of a CPU stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageOutcome {
    /// Nothing yet: call again.
    NotReady,
    /// The result is this many bytes of the response buffer.
    Done(usize),
    /// Answered later, through [`StageContext::defer`]; the worker is free at once.
    Deferred,
    /// Answered with this status and no result.
    Failed(Status),
}

/// Arguments of a CPU stage for one inference output.
#[derive(Debug)]
pub struct StageContext<'a> {
    /// The request.
    pub request: RequestView<'a>,
    /// The inference output: as many bytes as it wrote.
    pub output: &'a [u8],
    /// The buffer for the result, as long as a response slot allows.
    pub response: &'a mut [u8],
    pub(crate) port: &'a WorkerPort,
    pub(crate) job: &'a Job,
    /// Set when the right to answer is taken.
    pub(crate) deferred: &'a Cell<bool>,
}

impl StageContext<'_> {
    /// The worker that calls.
    #[must_use]
    pub fn worker(&self) -> u32 {
        self.port.worker()
    }

    /// The ring slot that the request came in.
    #[must_use]
    pub fn origin_slot(&self) -> u32 {
        self.job.ticket.slot.get()
    }

    /// The request's number within its slot: no two requests of one slot have the same number.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.job.ticket.generation
    }

    /// Takes the right to answer this request later, from any thread. The stage then returns [`StageOutcome::Deferred`]; without
    /// this call that outcome is answered [`ABANDONED`](Status::ABANDONED).
    pub fn defer(&self) -> Deferral {
        self.deferred.set(true);
        self.port.defer(self.job)
    }
}

/// CPU work on an inference output (matching). One per worker.
pub trait CpuStage: Send {
    /// Processes the output. Called again while it returns [`StageOutcome::NotReady`].
    ///
    /// A panic is caught and answered [`HANDLER_PANIC`](Status::HANDLER_PANIC).
    fn process(&mut self, context: &mut StageContext<'_>) -> StageOutcome;
}

impl<F: FnMut(&mut StageContext<'_>) -> StageOutcome + Send> CpuStage for F {
    fn process(&mut self, context: &mut StageContext<'_>) -> StageOutcome {
        self(context)
    }
}

/// The end of each part of a request's path: nanoseconds of [`ringcall_gpu::clock`], 0 for parts that the request did
/// not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTimes {
    /// The injector set the flag. 0 on external rings.
    pub submitted: u64,
    /// The dispatcher accepted the request. Not known of a [remote](crate::remote) dispatcher: equal to `submitted`.
    pub accepted: u64,
    /// A worker started on it. With a remote dispatcher equal to `submitted`.
    pub started: u64,
    /// The inference output was there.
    pub inferred: u64,
    /// The CPU stage was done.
    pub processed: u64,
    /// The consumer saw the answer.
    pub harvested: u64,
}

/// A completed request.
#[derive(Debug, Clone, Copy)]
pub struct CompletedRequest<'a> {
    /// The id, all 64 bits.
    pub request_id: u64,
    /// The slot it was in.
    pub slot: u32,
    /// The status of the answer.
    pub status: Status,
    /// The launcher's code, if the launch failed.
    pub error: Option<u16>,
    /// The request's PTP time stamp, as the answer echoes it; 0 on external rings.
    pub ptp_timestamp: u64,
    /// The result; `None` on external rings, where responses belong to the transport.
    pub result: Option<&'a [u8]>,
    /// When each part of the request's path ended.
    pub times: StageTimes,
}

impl CompletedRequest<'_> {
    /// Whether it was answered with success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status.is_ok() && self.error.is_none()
    }
}
