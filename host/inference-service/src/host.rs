//! Both services on the CPU: a model of any runner behind a host dispatcher, answered by itself or handed over to workers.

use crate::workers::{Job, Stage};
use crate::{Bindings, Pick, ServiceError};
use ringcall::thread::{StopFlag, Supervised};
use ringcall::thread_pool::{PoolHandle, PoolOptions, PoolReport, ThreadPool};
use ringcall::worker::{Job as RingJob, WorkerPort, WorkerSpec};
use ringcall::{FunctionId, Wait};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_infer::{ElementType, Engine, Model, TensorSpec, check_finite};
use ringcall_wire::payload::TypeDesc;
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How a service on the CPU is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostServiceOptions {
    /// What a request fills; other inputs are 0.
    pub inputs: Pick,
    /// The tensors that are handed over, or answered. `None`: all of them.
    pub outputs: Option<Pick>,
    /// Of a predecoder: instances, each an engine on its own thread.
    pub instances: u32,
    /// Of a predecoder: the most requests of an instance that wait for a worker, or are at one.
    pub queue_depth: u32,
    /// Of a predecoder: whether an instance whose queue is full takes no request, so that requests wait in the ring. Without it the
    /// instance runs its network all the same, and looks for room afterwards.
    pub gated: bool,
    /// Of a predecoder that is not gated: how often an instance looks for room before it answers
    /// [`BACKPRESSURE`](Status::BACKPRESSURE). It lets other threads run between looks.
    pub poll_limit: u64,
    /// Of a predecoder: core of each worker, in order; workers past the end are not pinned.
    pub worker_cores: Vec<usize>,
}

impl Default for HostServiceOptions {
    /// The first input, all outputs, one instance with a queue of 16, gated, and a million looks.
    fn default() -> Self {
        Self {
            inputs: Pick::First,
            outputs: None,
            instances: 1,
            queue_depth: 16,
            gated: true,
            poll_limit: 1_000_000,
            worker_cores: Vec::new(),
        }
    }
}

/// A model and what of it is served.
#[derive(Clone)]
struct Served {
    model: Arc<dyn Model>,
    inputs: Bindings,
    outputs: Bindings,
}

impl Served {
    fn new(model: Arc<dyn Model>, options: &HostServiceOptions) -> Result<Self, ServiceError> {
        let all = || Pick::names(model.outputs().iter().map(|spec| spec.name.clone()));
        let picked = options.outputs.clone().unwrap_or_else(all);
        let inputs = Bindings::choose(model.name(), "input", model.inputs(), &options.inputs)?;
        let outputs = Bindings::choose(model.name(), "output", model.outputs(), &picked)?;
        Ok(Self { model, inputs, outputs })
    }

    fn run(&self) -> Result<Run, ServiceError> {
        let zeros = |specs: &[TensorSpec]| specs.iter().map(|spec| vec![0; spec.size_bytes()]).collect();
        Ok(Run {
            engine: self.model.instantiate()?,
            ins: zeros(self.model.inputs()),
            outs: zeros(self.model.outputs()),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
        })
    }
}

/// A schema's description of consecutive tensors: their type where there is one, and it is a payload's, else bytes.
fn described(bindings: &Bindings) -> TypeDesc {
    match bindings.bound() {
        [one] => {
            let elements = one.spec.elements() as u32;
            match one.spec.element {
                ElementType::I32 => TypeDesc::array_int32(elements),
                ElementType::F32 => TypeDesc::array_float32(elements),
                _ => TypeDesc::array_uint8(one.bytes as u32),
            }
        }
        _ => TypeDesc::array_uint8(bindings.bytes() as u32),
    }
}

/// One engine between a request's bytes and an answer's.
struct Run {
    engine: Box<dyn Engine>,
    ins: Vec<Vec<u8>>,
    outs: Vec<Vec<u8>>,
    inputs: Bindings,
    outputs: Bindings,
}

impl Run {
    fn run(&mut self, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        if request.len() != self.inputs.bytes() {
            return Err(Status::SCHEMA_MISMATCH);
        }
        let bytes = self.outputs.bytes();
        let result = result.get_mut(..bytes).ok_or(Status::RESULT_TOO_LONG)?;
        for binding in self.inputs.bound() {
            self.ins[binding.index].copy_from_slice(&request[binding.offset..binding.offset + binding.bytes]);
        }
        let ins: Vec<&[u8]> = self.ins.iter().map(Vec::as_slice).collect();
        let mut outs: Vec<&mut [u8]> = self.outs.iter_mut().map(Vec::as_mut_slice).collect();
        let ran = self
            .engine
            .run(&ins, &mut outs)
            .and_then(|()| check_finite(self.engine.outputs(), outs.iter().map(|output| &**output)));
        ran.map_err(|_| Status::ENGINE_FAILED)?;
        result.fill(0);
        for binding in self.outputs.bound() {
            result[binding.offset..binding.offset + binding.bytes].copy_from_slice(&self.outs[binding.index]);
        }
        Ok(bytes)
    }
}

/// The autonomous service on the CPU: a request is the model's inputs, its answer the outputs.
///
/// ```
/// use ringcall::{Client, FunctionTable, HostDispatcher, Ring, RingConfig};
/// use ringcall_infer::{ElementType, Passthrough, TensorSpec};
/// use ringcall_inference_service::{HostDecoderService, HostServiceOptions};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// // In its place: `Runner::BuiltIn.open("model.onnx".as_ref(), &FileOptions::default())?`.
/// let model = Arc::new(Passthrough::new("copy", vec![TensorSpec::new("bits", ElementType::U8, [1, 4])?])?);
/// let service = HostDecoderService::new(model, &HostServiceOptions::default())?;
/// let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: service.slot_bytes() })?;
/// let table = FunctionTable::builder()
///     .host_call_with_schema("decode", service.schema(), service.handler()?)
///     .build(&ring)?;
/// let dispatcher = HostDispatcher::builder(&ring, table).build()?.start()?;
/// let reply = Client::new(&ring).call("decode", &[1, 0, 1, 1], Duration::from_secs(5))?;
/// assert_eq!(reply.result, [1, 0, 1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A service of [several shapes](Self::with_shapes) runs each request through the shape of the request's own length.
#[derive(Clone)]
pub struct HostDecoderService {
    /// By the length of their inputs, shortest first; one at least.
    shapes: Vec<Served>,
}

/// The service on the CPU that hands over: what an instance's network makes of a request waits in the instance's queue for a worker,
/// whose [`Stage`] (matching, say) answers. Workers are a [`ThreadPool`], each with its own stage.
///
/// While an instance's queue is full it takes no request: they stay in the ring. Where that is not wanted
/// ([`HostServiceOptions::gated`]), it waits a bounded time for room, then answers [`BACKPRESSURE`](Status::BACKPRESSURE) and counts.
///
/// ```
/// use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status};
/// use ringcall_infer::{ElementType, Passthrough, TensorSpec};
/// use ringcall_inference_service::{HostPredecoderService, HostServiceOptions, Job, Stage};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let model = Arc::new(Passthrough::new("copy", vec![TensorSpec::new("bits", ElementType::U8, [1, 4])?])?);
/// let service = HostPredecoderService::new(model, &HostServiceOptions::default())?;
/// let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: service.slot_bytes(8) })?;
/// let table = FunctionTable::builder().worker_call("decode", service.schema()).build(&ring)?;
/// let mut builder = HostDispatcher::builder(&ring, table);
/// for spec in service.workers(FunctionId::of("decode")) {
///     builder = builder.worker(spec);
/// }
/// let dispatcher = builder.build()?;
/// let sum = |job: &Job<'_>, result: &mut [u8]| -> Result<usize, Status> {
///     result[0] = job.output.iter().sum();
///     Ok(1)
/// };
/// let running = service.start(dispatcher.ports(), vec![Box::new(sum) as Box<dyn Stage>])?;
/// let dispatcher = dispatcher.start()?;
/// let reply = Client::new(&ring).call("decode", &[1, 0, 1, 1], Duration::from_secs(5))?;
/// assert_eq!(reply.result, [3]);
/// dispatcher.stop(Duration::from_secs(1));
/// assert!(running.stop(Duration::from_secs(1)).is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HostPredecoderService {
    served: Served,
    options: HostServiceOptions,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { model, inputs, outputs } = self;
        f.debug_struct("Served")
            .field("model", &model.name())
            .field("inputs", inputs)
            .field("outputs", outputs)
            .finish()
    }
}

impl std::fmt::Debug for HostDecoderService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostDecoderService").field("shapes", &self.shapes).finish()
    }
}

impl std::fmt::Debug for HostPredecoderService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostPredecoderService").field("served", &self.served).finish_non_exhaustive()
    }
}

impl HostDecoderService {
    /// A service of `model`.
    ///
    /// # Errors
    /// Tensors that are not there.
    pub fn new(model: Arc<dyn Model>, options: &HostServiceOptions) -> Result<Self, ServiceError> {
        Self::with_shapes([model], options)
    }

    /// A service of several shapes of a model, each loaded with other sizes of its open dimensions. A request's length in bytes says
    /// which of them runs; a length that no shape has is answered [`SCHEMA_MISMATCH`](Status::SCHEMA_MISMATCH).
    ///
    /// ```
    /// use ringcall_infer::{ElementType, Model, Passthrough, TensorSpec};
    /// use ringcall_inference_service::{HostDecoderService, HostServiceOptions};
    /// use std::sync::Arc;
    ///
    /// let shape = |bytes| -> Result<Arc<dyn Model>, ringcall_infer::InferError> {
    ///     let bits = TensorSpec::new("bits", ElementType::U8, [1, bytes])?;
    ///     Ok(Arc::new(Passthrough::new("copy", vec![bits])?))
    /// };
    /// let service = HostDecoderService::with_shapes([shape(4)?, shape(9)?], &HostServiceOptions::default())?;
    /// let mut handler = service.handler()?;
    /// let mut result = [0; 9];
    /// assert_eq!((handler(&[1; 4], &mut result), handler(&[1; 9], &mut result)), (Ok(4), Ok(9)));
    /// assert!(handler(&[1; 5], &mut result).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No shape, two that take requests of the same length, or tensors that are not there.
    pub fn with_shapes(
        models: impl IntoIterator<Item = Arc<dyn Model>>,
        options: &HostServiceOptions,
    ) -> Result<Self, ServiceError> {
        let shapes = models.into_iter().map(|model| Served::new(model, options));
        let mut shapes = shapes.collect::<Result<Vec<_>, _>>()?;
        shapes.sort_by_key(|shape| shape.inputs.bytes());
        if shapes.is_empty() {
            return Err(ServiceError::Shape("a service has at least one shape of its model".to_owned()));
        }
        if let Some(pair) = shapes.windows(2).find(|pair| pair[0].inputs.bytes() == pair[1].inputs.bytes()) {
            return Err(ServiceError::Shape(format!(
                "two shapes take requests of {} bytes: a request's length could not choose between them",
                pair[0].inputs.bytes()
            )));
        }
        Ok(Self { shapes })
    }

    /// The tensors of request and answer for each shape, the shortest request first.
    pub fn shapes(&self) -> impl Iterator<Item = [&Bindings; 2]> {
        self.shapes.iter().map(|shape| [&shape.inputs, &shape.outputs])
    }

    /// The schema of its function. Of several shapes it says bytes of any length.
    #[must_use]
    pub fn schema(&self) -> HandlerSchema {
        let [argument, result] = match &self.shapes[..] {
            [only] => [&only.inputs, &only.outputs].map(described),
            _ => [TypeDesc::any_bytes(); 2],
        };
        HandlerSchema::new().arg(argument).result(result)
    }

    /// Bytes of a slot that has room for every request, and for its answer.
    #[must_use]
    pub fn slot_bytes(&self) -> u32 {
        slot_bytes(self.shapes().flatten().map(Bindings::bytes).max().unwrap_or(0))
    }

    /// A handler for a function table, with its own engine for each shape.
    ///
    /// # Errors
    /// The engine's own.
    #[allow(clippy::type_complexity)] // a function of a table, whose type has no name
    pub fn handler(
        &self,
    ) -> Result<impl FnMut(&[u8], &mut [u8]) -> Result<usize, Status> + Send + use<>, ServiceError> {
        let mut runs = self.shapes.iter().map(Served::run).collect::<Result<Vec<_>, _>>()?;
        Ok(move |request: &[u8], result: &mut [u8]| {
            let shape = runs.binary_search_by_key(&request.len(), |run| run.inputs.bytes());
            runs[shape.map_err(|_| Status::SCHEMA_MISMATCH)?].run(request, result)
        })
    }
}

/// Whole cache lines with a header.
fn slot_bytes(most: usize) -> u32 {
    u32::try_from((ringcall_wire::header::HEADER_BYTES + most).next_multiple_of(64)).unwrap_or(u32::MAX)
}

impl HostPredecoderService {
    /// A service of `model`.
    ///
    /// # Errors
    /// Tensors that are not there, no instance, or a queue of no record.
    pub fn new(model: Arc<dyn Model>, options: &HostServiceOptions) -> Result<Self, ServiceError> {
        if options.instances == 0 || options.queue_depth == 0 {
            return Err(ServiceError::Shape(
                "a predecoder has at least one instance, and a queue of at least one record".to_owned(),
            ));
        }
        Ok(Self { served: Served::new(model, options)?, options: options.clone() })
    }

    /// What a request fills.
    #[must_use]
    pub fn inputs(&self) -> &Bindings {
        &self.served.inputs
    }

    /// What is handed over.
    #[must_use]
    pub fn outputs(&self) -> &Bindings {
        &self.served.outputs
    }

    /// The schema of its function: the inputs, and a result of any kind, which is the stages'.
    #[must_use]
    pub fn schema(&self) -> HandlerSchema {
        HandlerSchema::new().arg(described(self.inputs()))
    }

    /// Bytes of a slot that has room for a request, and for an answer of so many bytes.
    #[must_use]
    pub fn slot_bytes(&self, answer: usize) -> u32 {
        slot_bytes(self.inputs().bytes().max(answer))
    }

    /// Its instances, as workers of a host dispatcher for the function that they serve.
    pub fn workers(&self, function: FunctionId) -> impl Iterator<Item = WorkerSpec> + use<> {
        (0..self.options.instances).map(move |_| WorkerSpec::mailbox(function))
    }

    /// Starts a thread for each instance, whose ends of the dispatcher `ports` are, and a worker for each stage.
    ///
    /// # Errors
    /// Another number of ports than instances, no stage, an engine that cannot be had, or a thread that does not start.
    pub fn start(
        &self,
        ports: Vec<WorkerPort>,
        stages: Vec<Box<dyn Stage>>,
    ) -> Result<RunningPredecoder, ServiceError> {
        let HostServiceOptions { instances, queue_depth, gated, poll_limit, worker_cores, .. } =
            &self.options;
        if ports.len() != *instances as usize || stages.is_empty() {
            return Err(ServiceError::Shape(format!(
                "{} ports and {} stages for {instances} instances: give a port for each, and at least one stage",
                ports.len(),
                stages.len()
            )));
        }
        let most = ports.iter().map(|port| port.geometry().result_capacity()).max().unwrap_or(0) as usize;
        let states = stages.into_iter().map(|stage| Worker { stage, result: vec![0; most] }).collect();
        // Instances keep their own queues within their depth, so there is always room.
        let depth = (*instances as usize).saturating_mul(*queue_depth as usize);
        let pool = ThreadPool::start(states, &PoolOptions { cores: worker_cores.clone(), depth })
            .map_err(|reason| ServiceError::Thread { worker: 0, reason })?;
        let counts = Arc::new(HostCounters::default());
        let handle = pool.handle();
        let mut running = RunningPredecoder {
            pool: Some(pool),
            instances: Vec::with_capacity(ports.len()),
            stop: StopFlag::default(),
            counts,
        };
        let wait = Wait::Auto.resolve(ports.len() + 1);
        for (number, port) in (0_u32..).zip(ports) {
            let instance = Instance {
                number,
                run: self.served.run()?,
                queued: Arc::default(),
                depth: u64::from(*queue_depth),
                gated: *gated,
                poll_limit: *poll_limit,
                pool: handle.clone(),
                counts: Arc::clone(&running.counts),
                payload: vec![0; port.geometry().request_capacity() as usize],
                output: vec![0; self.served.outputs.bytes()],
                sequence: 0,
                port,
            };
            let stop = running.stop.clone();
            // Dropping `running` stops the threads that were started before a failure.
            let thread =
                Supervised::start(&format!("predecoder {number}"), None, move || instance.run(&stop, wait))
                    .map_err(|reason| ServiceError::Thread { worker: number as usize, reason })?;
            running.instances.push(thread);
        }
        Ok(running)
    }
}

/// A worker's state.
struct Worker {
    stage: Box<dyn Stage>,
    result: Vec<u8>,
}

impl Worker {
    /// The status and the result to answer with.
    fn finish(&mut self, job: &Job<'_>, counts: &HostCounters) -> (Status, &[u8]) {
        let Self { stage, result } = self;
        let (status, len) = match catch_unwind(AssertUnwindSafe(|| stage.process(job, result))) {
            Ok(Ok(len)) => Status::OK.clamped(len, result.len()),
            Ok(Err(status)) => (status, 0),
            Err(_) => {
                counts.panicked.fetch_add(1, Ordering::Relaxed);
                (Status::HANDLER_PANIC, 0)
            }
        };
        (status, result.get(..len).unwrap_or_default())
    }
}

#[derive(Debug, Default)]
struct HostCounters {
    inferred: DeviceU64,
    engine_failed: DeviceU64,
    refused: DeviceU64,
    panicked: DeviceU64,
    answered: DeviceU64,
    late: DeviceU64,
}

/// Counters of a predecoder on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostStats {
    /// Requests that a network ran on.
    pub inferred: u64,
    /// Requests whose network failed, or that were no input of it.
    pub engine_failed: u64,
    /// Requests that were answered `BACKPRESSURE` since the queue stayed full.
    pub refused: u64,
    /// Stages that panicked.
    pub panicked: u64,
    /// Answers of workers.
    pub answered: u64,
    /// Answers that came after the request had another.
    pub late: u64,
}

/// One instance: an engine on its own thread.
struct Instance {
    number: u32,
    port: WorkerPort,
    run: Run,
    /// Requests that wait for a worker, or are at one.
    queued: Arc<DeviceU64>,
    depth: u64,
    gated: bool,
    poll_limit: u64,
    pool: PoolHandle<Worker>,
    counts: Arc<HostCounters>,
    payload: Vec<u8>,
    output: Vec<u8>,
    sequence: u64,
}

impl Instance {
    fn run(mut self, stop: &StopFlag, wait: Wait) {
        stop.poll_until_set(wait, || {
            // A full queue: requests stay in the ring.
            if self.gated && !self.has_room() {
                return false;
            }
            let Some(job) = self.port.take_job() else { return false };
            self.serve(&job);
            self.port.release();
            true
        });
    }

    fn has_room(&self) -> bool {
        self.queued.load(Ordering::Acquire) < self.depth
    }

    /// Whether there is room within the limit of looks.
    fn finds_room(&self) -> bool {
        for _ in 0..self.poll_limit.max(1) {
            if self.has_room() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    fn serve(&mut self, job: &RingJob) {
        let len = self.port.read_payload(job, &mut self.payload);
        let (run, payload, output) = (&mut self.run, &self.payload[..len], &mut self.output);
        let inferred = catch_unwind(AssertUnwindSafe(|| run.run(payload, output)));
        let status = match inferred {
            Ok(Ok(_)) if self.finds_room() => {
                self.counts.inferred.fetch_add(1, Ordering::Relaxed);
                return self.hand_over(job);
            }
            Ok(Ok(_)) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                Status::BACKPRESSURE
            }
            Ok(Err(status)) => {
                self.counts.engine_failed.fetch_add(1, Ordering::Relaxed);
                status
            }
            Err(_) => {
                self.counts.engine_failed.fetch_add(1, Ordering::Relaxed);
                Status::ENGINE_FAILED
            }
        };
        if self.port.answer(job, status, &[]).is_err() {
            self.counts.late.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn hand_over(&mut self, job: &RingJob) {
        self.queued.fetch_add(1, Ordering::AcqRel);
        let (instance, sequence, header) = (self.number, self.sequence, job.ticket.header);
        self.sequence += 1;
        let (output, deferral) = (self.output.clone(), self.port.defer(job));
        let (queued, counts) = (Arc::clone(&self.queued), Arc::clone(&self.counts));
        let handed = self.pool.execute(move |worker: &mut Worker| {
            let job = Job { instance, sequence, header: &header, output: &output };
            let (status, result) = worker.finish(&job, &counts);
            let count =
                if deferral.complete(status, result).is_ok() { &counts.answered } else { &counts.late };
            count.fetch_add(1, Ordering::Relaxed);
            queued.fetch_add(u64::MAX, Ordering::AcqRel);
        });
        if handed.is_err() {
            // The pool stops: the job was dropped, and its request is answered `ABANDONED`.
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A predecoder that runs.
#[derive(Debug)]
pub struct RunningPredecoder {
    pool: Option<ThreadPool<Worker>>,
    instances: Vec<Supervised<()>>,
    stop: StopFlag,
    counts: Arc<HostCounters>,
}

/// How a predecoder on the CPU ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStopReport {
    /// What was counted.
    pub counts: HostStats,
    /// How its workers ended.
    pub workers: PoolReport,
    /// Instances that did not return in time; their threads were left behind.
    pub stuck: usize,
}

impl HostStopReport {
    /// Whether everything that was begun came to its end.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.workers.is_clean() && self.stuck == 0
    }
}

impl RunningPredecoder {
    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> HostStats {
        let HostCounters { inferred, engine_failed, refused, panicked, answered, late } = &*self.counts;
        let [inferred, engine_failed, refused, panicked, answered, late] =
            [inferred, engine_failed, refused, panicked, answered, late]
                .map(|count| count.load(Ordering::Relaxed));
        HostStats { inferred, engine_failed, refused, panicked, answered, late }
    }

    /// Ends it. Stop the dispatcher first, which waits for requests under way.
    #[must_use]
    pub fn stop(mut self, deadline: Duration) -> HostStopReport {
        let until = Instant::now() + deadline;
        self.stop.set();
        let last = until.max(Instant::now() + ringcall::thread::GRACE_PERIOD);
        let stuck = Supervised::wait_all(&mut self.instances, last).len();
        let pool = self.pool.take();
        let left = until.saturating_duration_since(Instant::now()).max(ringcall::thread::GRACE_PERIOD);
        let workers = pool.map_or_else(PoolReport::default, |pool| pool.stop(left));
        HostStopReport { counts: self.stats(), workers, stuck }
    }
}

impl Drop for RunningPredecoder {
    fn drop(&mut self) {
        self.stop.set();
    }
}
