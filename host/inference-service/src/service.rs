//! Both services: a network's instances, and how dispatchers get them.

use crate::nodes::Nodes;
use crate::{Bindings, Capturable, HostWorker, Queue, QueueStats, ServiceError, ServiceOptions};
use ringcall_cuda::driver::Context;
use ringcall_launch::ring::{Functions, GraphFunction, GraphNodes};
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::schema::HandlerSchema;
use std::ops::Deref;
use std::sync::Arc;

/// What both services have in common.
#[derive(Debug)]
pub struct Service {
    nodes: Arc<Nodes>,
    context: Arc<Context>,
}

impl Service {
    fn new(
        engine: &dyn Capturable,
        options: &ServiceOptions,
        depth: Option<u32>,
    ) -> Result<Self, ServiceError> {
        let nodes = Arc::new(Nodes::new(engine, options, depth)?);
        Ok(Self { nodes, context: Arc::clone(engine.context()) })
    }

    /// What a request fills.
    #[must_use]
    pub fn inputs(&self) -> &Bindings {
        &self.nodes.inputs
    }

    /// The tensors that are handed over, or answered.
    #[must_use]
    pub fn outputs(&self) -> &Bindings {
        &self.nodes.outputs
    }

    /// How many instances there are.
    #[must_use]
    pub fn instances(&self) -> u32 {
        self.nodes.instances.len() as u32
    }

    /// Bytes of a slot that has room for a request, and for all outputs as an answer.
    #[must_use]
    pub fn slot_bytes(&self) -> u32 {
        let most = self.inputs().bytes().max(self.outputs().bytes());
        (most + HEADER_BYTES).next_multiple_of(64) as u32
    }

    /// The service's graphs, one executable an instance, as a function of a device dispatcher that launches graphs. Once for
    /// each service.
    #[must_use]
    pub fn graph(&self) -> GraphFunction {
        GraphFunction::composed(self.shared_nodes(), self.instances())
    }

    /// Adds [`graph`](Self::graph) under a name.
    #[must_use]
    pub fn function(&self, functions: Functions, name: &str) -> Functions {
        functions.graph(name, HandlerSchema::new(), self.graph())
    }

    /// Instance `index` as a worker of a host dispatcher. Once for each instance.
    ///
    /// # Errors
    /// An instance that is not there or in use, or the driver refuses.
    pub fn host_worker(&self, index: u32) -> Result<HostWorker, ServiceError> {
        let instance = self.nodes.instances.get(index as usize);
        let queue = instance.and_then(|instance| instance.queue.clone());
        let most = self.inputs().bytes().max(self.outputs().bytes());
        let capacity = most.next_multiple_of(128) as u32;
        let nodes: Arc<dyn GraphNodes> = self.shared_nodes();
        HostWorker::new(&self.context, &nodes, index, queue, capacity)
    }

    /// Fills an input of every instance: an auxiliary one, which no request fills. While no request is under way.
    ///
    /// # Errors
    /// No such input, data of another length, or the context is dead.
    pub fn write_input(&self, engine: &dyn Capturable, name: &str, data: &[u8]) -> Result<(), ServiceError> {
        let specs = engine.inputs();
        let known = || specs.iter().map(|spec| format!("`{}`", spec.name)).collect::<Vec<_>>().join(", ");
        let missing = || ServiceError::NoTensor {
            engine: self.nodes.engine.clone(),
            what: "input",
            name: name.to_owned(),
            known: known(),
        };
        let index = specs.iter().position(|spec| spec.name == name).ok_or_else(missing)?;
        let expected = specs[index].size_bytes();
        if data.len() != expected {
            return Err(ServiceError::Length { name: name.to_owned(), found: data.len(), expected });
        }
        for instance in &self.nodes.instances {
            instance.captured.input(index).ok_or_else(missing)?.write_from(0, data)?;
        }
        Ok(())
    }

    fn shared_nodes(&self) -> Arc<Nodes> {
        Arc::clone(&self.nodes)
    }
}

/// The autonomous service: a request is answered by the graph itself, with the outputs.
///
/// ```no_run
/// use ringcall::RingConfig;
/// use ringcall_inference_service::{AiDecoderService, ServiceOptions, PassThrough};
/// use ringcall_launch::ring::{DeviceDispatcher, Functions, KernelKind, MappedRing, Modules};
/// use ringcall_cuda::driver::Driver;
/// use ringcall_infer::{ElementType, TensorSpec};
///
/// let context = Driver::load()?.device(0)?.context()?;
/// let engine = PassThrough::new(&context, vec![TensorSpec::new("bits", ElementType::U8, [1, 256])?]);
/// let service = AiDecoderService::new(&engine, &ServiceOptions { instances: 4, ..ServiceOptions::default() })?;
/// let ring = MappedRing::allocate(&context, RingConfig { slots: 16, slot_bytes: service.slot_bytes() })?;
/// let functions = service.function(Functions::new(), "decode");
/// let options = ringcall_launch::ring::DispatcherOptions::new(KernelKind::graph());
/// let dispatcher = DeviceDispatcher::wire(&ring, functions, Modules::new(), options)?.start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AiDecoderService(Service);

impl AiDecoderService {
    /// A service of `engine`.
    ///
    /// # Errors
    /// Tensors that are not there, more instances than the engine allows, or no memory.
    pub fn new(engine: &dyn Capturable, options: &ServiceOptions) -> Result<Self, ServiceError> {
        Ok(Self(Service::new(engine, options, None)?))
    }

    /// A service of the model at `path` on the device of `context`, by TensorRT: an ONNX file, of which an engine is built, or an
    /// engine (`.engine`, `.plan`). With [`FileOptions::engine_save_path`](crate::FileOptions) the engine that is built is kept there.
    ///
    /// # Errors
    /// As [`new`](Self::new); the file cannot be read, or TensorRT refuses it.
    #[cfg(feature = "tensorrt")]
    pub fn open(
        library: &ringcall_tensorrt::Library,
        context: &Arc<Context>,
        path: &std::path::Path,
        file: &crate::FileOptions,
        options: &ServiceOptions,
    ) -> Result<Self, ServiceError> {
        Self::new(&opened(library, context, path, file)?, options)
    }
}

#[cfg(feature = "tensorrt")]
fn opened(
    library: &ringcall_tensorrt::Library,
    context: &Arc<Context>,
    path: &std::path::Path,
    file: &crate::FileOptions,
) -> Result<ringcall_tensorrt::TensorRtModel, ServiceError> {
    let bytes = std::fs::read(path)
        .map_err(|why| ServiceError::File { path: path.to_owned(), reason: why.to_string() })?;
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    crate::file::tensorrt::open(library, context, path, &name, &bytes, file)
}

impl Deref for AiDecoderService {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.0
    }
}

/// The service that hands over: what the network makes of a request goes into its instance's queue, and a
/// [worker](crate::Workers) answers.
///
/// ```no_run
/// use ringcall::RingConfig;
/// use ringcall_inference_service::{AiPredecoderService, Job, ServiceOptions, PassThrough, WorkerOptions, Workers};
/// use ringcall_launch::ring::{DeviceDispatcher, Functions, KernelKind, MappedRing, Modules};
/// use ringcall_cuda::driver::Driver;
/// use ringcall_infer::{ElementType, TensorSpec};
/// use std::time::Duration;
///
/// let context = Driver::load()?.device(0)?.context()?;
/// let engine = PassThrough::new(&context, vec![TensorSpec::new("bits", ElementType::U8, [1, 256])?]);
/// let service = AiPredecoderService::new(&engine, 16, &ServiceOptions::default())?;
/// let ring = MappedRing::allocate(&context, RingConfig { slots: 16, slot_bytes: service.slot_bytes() })?;
/// let functions = service.function(Functions::new(), "decode");
/// let options = ringcall_launch::ring::DispatcherOptions::new(KernelKind::graph());
/// let dispatcher = DeviceDispatcher::wire(&ring, functions, Modules::new(), options)?.start()?;
/// let stage = |job: &Job<'_>, result: &mut [u8]| {
///     result[0] = job.output.iter().fold(0, |sum, bit| sum ^ bit); // the decoder's work
///     Ok(1)
/// };
/// let workers =
///     Workers::start(service.queues(), ring.ring().shared(), vec![Box::new(stage)], &WorkerOptions::default())?;
/// // … requests …
/// dispatcher.stop(Duration::from_secs(1));
/// let report = workers.stop(Duration::from_secs(1));
/// assert!(report.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AiPredecoderService {
    service: Service,
    queues: Vec<Arc<Queue>>,
}

impl AiPredecoderService {
    /// A service of `engine`, with queues of `depth` records.
    ///
    /// # Errors
    /// Tensors that are not there, more instances than the engine allows, a depth that cannot be, or no memory.
    pub fn new(engine: &dyn Capturable, depth: u32, options: &ServiceOptions) -> Result<Self, ServiceError> {
        let service = Service::new(engine, options, Some(depth))?;
        let queues = service.nodes.instances.iter().filter_map(|instance| instance.queue.clone()).collect();
        Ok(Self { service, queues })
    }

    /// Records of a queue by default.
    pub const QUEUE_DEPTH: u32 = 16;

    /// A service of the model at `path` on the device of `context`, by TensorRT, with queues of
    /// [`QUEUE_DEPTH`](Self::QUEUE_DEPTH) records: see [`AiDecoderService::open`].
    ///
    /// # Errors
    /// As [`AiDecoderService::open`].
    #[cfg(feature = "tensorrt")]
    pub fn open(
        library: &ringcall_tensorrt::Library,
        context: &Arc<Context>,
        path: &std::path::Path,
        file: &crate::FileOptions,
        options: &ServiceOptions,
    ) -> Result<Self, ServiceError> {
        Self::new(&opened(library, context, path, file)?, Self::QUEUE_DEPTH, options)
    }

    /// The queues, one an instance.
    #[must_use]
    pub fn queues(&self) -> &[Arc<Queue>] {
        &self.queues
    }

    /// The queues' counts.
    #[must_use]
    pub fn stats(&self) -> Vec<QueueStats> {
        self.queues.iter().map(|queue| queue.stats()).collect()
    }
}

impl Deref for AiPredecoderService {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}
