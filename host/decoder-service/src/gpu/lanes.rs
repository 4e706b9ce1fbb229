//! A network's graphs for the host dispatcher: a worker's stream, its hook, and the ready flag that the graph raises.

use crate::LaunchedInference;
use crate::gpu::GpuPredecoderError;
use crate::trace::range;
use ringcall::worker::{Hook, LaunchContext, LaunchError, LaunchFn};
use ringcall::{Ring, Status};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Carrier, Context, Lane, LaneKernels, Stream};
use ringcall_gpu_decoders::predecoder::{GpuError, GpuModel, GpuRun};
use ringcall_infer::{Model, TensorSpec};
use ringcall_launch::ring::MappedRing;
use ringcall_pipeline::{BoxError, Execution, OutputCheck, Raised, StageError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a request's bits reach the device, and how an answer's bits leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copies {
    /// By nodes of the graph, whichever are faster for the number of bytes; the hook stages the payload in mapped memory.
    #[default]
    Fastest,
    /// By kernels of the graph, which load and store.
    Kernels,
    /// By copy engines, as nodes of the graph.
    CopyEngines,
    /// The request by `cudaMemcpyAsync` in the hook, directly from the ring's slot, in memory that the device maps; the answer by
    /// a copy engine, as a node of the graph.
    Hook,
}

impl Copies {
    fn carriers(self) -> Option<[Carrier; 2]> {
        match self {
            Self::Fastest => None,
            Self::Kernels => Some([Carrier::Kernel; 2]),
            Self::CopyEngines => Some([Carrier::CopyEngine; 2]),
            Self::Hook => Some([Carrier::Hook, Carrier::CopyEngine]),
        }
    }
}

/// Graphs of a network for the workers of a host dispatcher. The dispatcher launches each graph on its worker's stream; the
/// graph's last node raises the worker's ready flag, and no thread waits for a stream.
#[derive(Debug)]
pub struct GpuLanes {
    work: Work,
    kernels: LaneKernels,
    /// Streams with equal parts of the device. Worker `i` has stream `i` modulo their number.
    streams: Vec<Arc<Stream>>,
    copies: Copies,
    ring: Option<MappedRing>,
}

/// The part of a graph between the two copies.
#[derive(Debug)]
enum Work {
    Network(GpuModel),
    /// A copy in the network's place, of this many bytes of a request and of an answer; the answer's other bytes stay 0.
    Copy([usize; 2]),
}

impl GpuLanes {
    /// Graphs of a model on `streams` equal parts of its device.
    pub(crate) fn new(model: GpuModel, streams: u32, copies: Copies) -> Result<Self, GpuPredecoderError> {
        let context = Arc::clone(model.context());
        Self::around(Work::Network(model), &context, streams, copies)
    }

    /// Graphs with a copy in the network's place, to time everything around the network.
    pub(crate) fn without_network(
        context: &Arc<Context>,
        bytes: [usize; 2],
        streams: u32,
        copies: Copies,
    ) -> Result<Self, GpuPredecoderError> {
        Self::around(Work::Copy(bytes), context, streams, copies)
    }

    fn around(
        work: Work,
        context: &Arc<Context>,
        streams: u32,
        copies: Copies,
    ) -> Result<Self, GpuPredecoderError> {
        let stream = |_| Ok::<_, CudaError>(Arc::new(Stream::new(context)?));
        let streams = (0..streams.max(1)).map(stream).collect::<Result<_, _>>();
        let loaded = streams.and_then(|streams| Ok((streams, LaneKernels::load(context)?)));
        let (streams, kernels) = loaded.map_err(GpuError::from)?;
        Ok(Self { work, kernels, streams, copies, ring: None })
    }

    /// A graph on a stream, and the run to reset if a block of the network may give up.
    fn lane(&self, stream: &Arc<Stream>) -> Result<(Lane, Option<Arc<GpuRun>>), GpuError> {
        let by = self.copies.carriers();
        match &self.work {
            Work::Network(model) => {
                let (lane, run) = model.lane(&self.kernels, stream, by)?;
                Ok((lane, Some(run)))
            }
            Work::Copy(bytes) => {
                let by = by.unwrap_or_else(|| bytes.map(Carrier::fastest));
                Ok((Lane::copying(&self.kernels, stream, *bytes, by)?, None))
            }
        }
    }

    /// Reads requests in the slots of this ring, for [`Copies::Hook`].
    pub(crate) fn over(mut self, ring: &MappedRing) -> Self {
        self.ring = Some(ring.clone());
        self
    }
}

impl LaunchedInference for GpuLanes {
    fn name(&self) -> &str {
        match &self.work {
            Work::Network(model) => model.name(),
            Work::Copy(_) => "a copy on the GPU",
        }
    }

    fn bytes(&self) -> [usize; 2] {
        match &self.work {
            Work::Network(model) => {
                [model.inputs(), model.outputs()].map(|specs| specs.iter().map(TensorSpec::size_bytes).sum())
            }
            Work::Copy(bytes) => *bytes,
        }
    }

    fn ring(&self) -> Option<Ring> {
        self.ring.as_ref().map(|ring| Ring::over(ring.ring().shared().clone()))
    }

    fn worker(&self, worker: u32) -> Result<(Hook, Execution), BoxError> {
        let stream = &self.streams[worker as usize % self.streams.len()];
        let (lane, run) = self.lane(stream)?;
        let (ready, output) = (lane.ready().clone(), lane.output().clone());
        let [request_bytes, answer_bytes] = self.bytes();
        let staged = Arc::new(Mutex::new(Staged { lane, input: Err(UNSTAGED) }));
        let launched = Arc::clone(&staged);
        let launcher: LaunchFn = Box::new(move |_| {
            let _range = range(c"launch");
            let mut staged = lock(&launched);
            std::mem::replace(&mut staged.input, Err(UNSTAGED))?;
            staged.lane.launch(0).map_err(|why| code(&why))
        });
        let hook = match &self.ring {
            Some(ring) => from_slot(staged, ring.clone(), request_bytes),
            None => by_the_host(staged, request_bytes),
        };
        let check = run.map(|run| -> OutputCheck {
            Box::new(move |answer| {
                if !answer.get(..answer_bytes).is_none_or(GpuModel::gave_up) {
                    return Ok(());
                }
                // Resets the run for the next request. If even that fails, the next launch reports it.
                let _ = run.reset();
                Err(StageError(Status::ENGINE_FAILED))
            })
        });
        let raised = Raised::Device(ready);
        Ok((hook, Execution::Launched { launcher, raised, output, check }))
    }
}

/// A worker's graph, and whether the next run's input is staged: a hook cannot fail, but the launch after it can.
struct Staged {
    lane: Lane,
    input: Result<(), LaunchError>,
}

/// Copies the payload to the memory that the graph's first node reads.
fn by_the_host(staged: Arc<Mutex<Staged>>, bytes: usize) -> Hook {
    let mut payload = vec![0; bytes];
    Box::new(move |context: &LaunchContext<'_>| {
        let _range = range(c"staging");
        let whole = context.read_payload(&mut payload) == payload.len();
        let mut staged = lock(&staged);
        let written = whole && staged.lane.input().write(0, &payload);
        staged.input = if written { Ok(()) } else { Err(UNSTAGED) };
    })
}

/// Copies the payload from its slot, on the worker's stream.
fn from_slot(staged: Arc<Mutex<Staged>>, ring: MappedRing, bytes: usize) -> Hook {
    Box::new(move |context: &LaunchContext<'_>| {
        let _range = range(c"copy from the slot");
        let (region, offset) = ring.payload(context.job.ticket.slot);
        let mut staged = lock(&staged);
        staged.input = staged.lane.fetch(0, region, offset, bytes).map_err(|why| code(&why));
    })
}

fn lock(staged: &Mutex<Staged>) -> MutexGuard<'_, Staged> {
    staged.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver's error number as an error mark.
fn code(why: &CudaError) -> LaunchError {
    let number = why.code().and_then(|code| u16::try_from(code.code).ok());
    number.map_or(UNKNOWN, |code| LaunchError { code })
}

/// `CUDA_ERROR_UNKNOWN`.
const UNKNOWN: LaunchError = LaunchError { code: 999 };
/// `CUDA_ERROR_INVALID_VALUE`: no input.
const UNSTAGED: LaunchError = LaunchError { code: 1 };
