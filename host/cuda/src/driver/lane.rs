//! Worker's lane: a graph that one worker of a dispatcher runs repeatedly, and whose last node raises the worker's
//! ready flag.

use super::{
    Context, DeviceAddress, DeviceBuffer, Graph, GraphExec, Image, Kernel, KernelArgs, Launch, Linker,
    MappedRegion, Module, NodeId, Stream,
};
use crate::CudaError;
use ringcall_gpu::shared::{Bytes, SharedError, Words};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The nodes at both ends of a lane's graph; `kernels-cu/lane/lane.cu` is their source.
const PTX: &str = include_str!("../../../../kernels-cu/ptx/lane.ptx");
const BEGIN: &str = "ringcall_lane_begin";
const END: &str = "ringcall_lane_end";
/// Bytes that one thread of these kernels copies at once.
const PIECE: usize = 16;
/// Threads of a block.
const THREADS: u32 = 256;
/// A run takes microseconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Offsets of words and tensors in the mapped memory: each word has its own cache line, and input and output are on
/// different pages.
const READY_AT: usize = 0;
const ENDED_AT: usize = 128;
const PAGE: usize = 4096;

/// How a tensor crosses the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// By a kernel of the graph, whose threads load or store the whole tensor at once.
    Kernel,
    /// By the device's copy engines (`cudaMemcpyAsync`), as a node of the graph.
    CopyEngine,
    /// By the device's copy engines, in a copy that a hook puts on the stream before the graph ([`Lane::fetch`]). For
    /// inputs alone; outputs use [`CopyEngine`](Self::CopyEngine).
    Hook,
}

impl Carrier {
    /// The most bytes that a kernel copies faster than a copy engine: in `bench copies` kernels are 13 us faster at
    /// 64 KiB and as fast at 256 KiB.
    const BY_KERNEL: usize = 128 << 10;

    /// The faster carrier for this many bytes, in or out.
    #[must_use]
    pub fn fastest(bytes: usize) -> Self {
        if bytes <= Self::BY_KERNEL { Self::Kernel } else { Self::CopyEngine }
    }
}

/// Device memory of a lane's input and output, padded to whole pieces of 16 bytes.
#[derive(Debug, Clone, Copy)]
pub struct LaneEnds {
    /// The input tensor.
    pub input: DeviceAddress,
    /// Its length in bytes.
    pub input_bytes: usize,
    /// How the input is copied there.
    pub input_by: Carrier,
    /// The output tensor.
    pub output: DeviceAddress,
    /// Its length in bytes.
    pub output_bytes: usize,
    /// How the output is copied out.
    pub output_by: Carrier,
}

/// The kernels at both ends of lanes, loaded once for all of them.
#[derive(Debug, Clone)]
pub struct LaneKernels {
    begin: Kernel,
    end: Kernel,
}

impl LaneKernels {
    /// Loads the kernels.
    ///
    /// # Errors
    /// A device older than compute capability 8.0, or the driver refuses.
    pub fn load(context: &Arc<Context>) -> Result<Self, CudaError> {
        let image: Image = Linker::new(context.device().capability()).ptx("lanes", PTX)?.link(context)?;
        let module = Module::load(context, &image)?;
        Ok(Self { begin: module.kernel(BEGIN)?, end: module.kernel(END)? })
    }

    /// Adds a copy of `bytes` bytes by a kernel's threads, all at once, after the nodes `after`. Both ends are device memory or mapped
    /// host memory with room for whole pieces of 16 bytes, and must live as long as the graph and every executable made of it.
    ///
    /// # Errors
    /// A node of another graph, or the driver refuses.
    pub fn add_copy(
        &self,
        graph: &mut Graph,
        to: DeviceAddress,
        from: DeviceAddress,
        bytes: usize,
        after: &[NodeId],
    ) -> Result<NodeId, CudaError> {
        let pieces = pieces(bytes);
        let launch = Launch::linear(pieces.div_ceil(THREADS), THREADS);
        graph.add_kernel(
            &self.begin,
            &launch,
            &KernelArgs::new().address(from).address(to).u32(pieces),
            after,
        )
    }
}

/// One worker's graph on a stream: it copies the input from mapped memory, runs the caller's nodes, and copies the
/// output to mapped memory. Its last node then sets the worker's ready flag to 1 with release order at system scope.
///
/// A dispatcher's thread fills the input and [launches](Self::launch). A worker polls the flag, reads the output, and
/// clears the flag. No thread waits for the stream. Several lanes may share a stream, which runs them one after the
/// other.
///
/// A lane may have a graph for each of several shapes. Each launch chooses one, for example by its request's length
/// ([`shape_of`](Self::shape_of)). The graphs share input, output and flag.
#[derive(Debug)]
pub struct Lane {
    // In this order: the launched graphs, then the memory that they reach.
    shapes: Vec<LaneShape>,
    kernels: LaneKernels,
    stream: Arc<Stream>,
    ready: Words,
    ended: Words,
    input: Bytes,
    output: Bytes,
    started: u64,
    /// The memory that a hook's copies read.
    source: Option<MappedRegion>,
    runs: DeviceBuffer,
    mapped: MappedRegion,
}

/// One graph of a lane.
#[derive(Debug)]
struct LaneShape {
    // In this order: the launched graph, then the memory that it reaches.
    exec: GraphExec,
    input: DeviceAddress,
    input_bytes: usize,
    _keeps: Box<dyn Keep>,
}

/// The memory that a graph uses.
trait Keep: Any + Send + Sync {}
impl<T: Any + Send + Sync> Keep for T {}
impl std::fmt::Debug for dyn Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what the graph reaches")
    }
}

impl Lane {
    /// A lane of one shape: see [`add`](Self::add).
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    ///
    /// # Errors
    /// No memory, or the driver refuses.
    pub unsafe fn new<E: From<CudaError>>(
        kernels: &LaneKernels,
        stream: &Arc<Stream>,
        ends: LaneEnds,
        keeps: impl Any + Send + Sync,
        body: impl FnOnce(&mut Graph, &[NodeId]) -> Result<Vec<NodeId>, E>,
    ) -> Result<Self, E> {
        let mut lane = Self::with_room(kernels, stream, [ends.input_bytes, ends.output_bytes])?;
        // SAFETY: the caller's promise.
        unsafe { lane.add(ends, keeps, body) }?;
        Ok(lane)
    }

    /// A lane without shapes, with room for an input and an output of this many bytes.
    ///
    /// # Errors
    /// No memory, or the driver refuses.
    pub fn with_room(
        kernels: &LaneKernels,
        stream: &Arc<Stream>,
        [input_bytes, output_bytes]: [usize; 2],
    ) -> Result<Self, CudaError> {
        let context = stream.context();
        let output_at = PAGE + input_bytes.next_multiple_of(PAGE);
        let mapped = MappedRegion::zeroed(context, output_at + output_bytes.next_multiple_of(PAGE))?;
        Ok(Self {
            shapes: Vec::new(),
            kernels: kernels.clone(),
            stream: Arc::clone(stream),
            ready: mapped.words(READY_AT, 1)?,
            ended: mapped.words(ENDED_AT, 1)?,
            input: mapped.bytes(PAGE, input_bytes.next_multiple_of(8))?,
            output: mapped.bytes(output_at, output_bytes.next_multiple_of(8))?,
            started: 0,
            source: None,
            runs: DeviceBuffer::zeroed(context, 8)?,
            mapped,
        })
    }

    /// Captures the graph of another shape. `body` adds the nodes between the two ends, after the nodes that it is
    /// given, and returns the last nodes, for which the end waits. `keeps` owns the memory of these nodes. Returns
    /// the shape's number, from 0.
    ///
    /// # Safety
    /// The contract of each kernel that `body` adds holds at every launch, for every input, and while other lanes of the
    /// stream's device run. `ends` lie in memory that `keeps` owns, with room for whole pieces of 16 bytes, and which no other agent
    /// reaches while the lane runs.
    ///
    /// # Errors
    /// More bytes than the lane has room for, no memory, or the driver refuses.
    pub unsafe fn add<E: From<CudaError>>(
        &mut self,
        ends: LaneEnds,
        keeps: impl Any + Send + Sync,
        body: impl FnOnce(&mut Graph, &[NodeId]) -> Result<Vec<NodeId>, E>,
    ) -> Result<usize, E> {
        for (end, len) in [(ends.input_bytes, self.input.len()), (ends.output_bytes, self.output.len())] {
            if end > len {
                return Err(CudaError::from(SharedError::OutOfBounds { end, len }).into());
            }
        }
        let context = self.stream.context();
        let from = self.mapped.device_address(PAGE)?;
        let to = self.mapped.device_address(self.mapped.len() - self.output.len().next_multiple_of(PAGE))?;
        let mut graph = Graph::new(context)?;
        let first = match ends.input_by {
            Carrier::Hook => None,
            _ if ends.input_bytes == 0 => None,
            Carrier::CopyEngine => Some(graph.add_copy(ends.input, from, ends.input_bytes, &[])?),
            Carrier::Kernel => {
                Some(self.kernels.add_copy(&mut graph, ends.input, from, ends.input_bytes, &[])?)
            }
        };
        let mut last = body(&mut graph, first.as_slice())?;
        let mut carried = 0;
        match ends.output_by {
            Carrier::Kernel => carried = pieces(ends.output_bytes),
            _ if ends.output_bytes == 0 => (),
            Carrier::CopyEngine | Carrier::Hook => {
                last = vec![graph.add_copy(to, ends.output, ends.output_bytes, &last)?];
            }
        }
        let args = KernelArgs::new()
            .address(ends.output)
            .address(to)
            .u32(carried)
            .address(self.runs.address())
            .address(self.mapped.device_address(ENDED_AT)?)
            .address(self.mapped.device_address(READY_AT)?);
        graph.add_kernel(&self.kernels.end, &Launch::linear(1, THREADS), &args, &last)?;

        let exec = graph.instantiate_for_host()?;
        // Not on the lane's stream, on which runs of other lanes may be queued.
        let own = Stream::new(context)?;
        exec.upload(&own)?;
        own.wait(TIMEOUT)?;
        let (input, input_bytes) = (ends.input, ends.input_bytes);
        self.shapes.push(LaneShape { exec, input, input_bytes, _keeps: Box::new(keeps) });
        Ok(self.shapes.len() - 1)
    }

    /// The shape whose input has this many bytes.
    #[must_use]
    pub fn shape_of(&self, input_bytes: usize) -> Option<usize> {
        self.shapes.iter().position(|shape| shape.input_bytes == input_bytes)
    }

    /// A lane without nodes of the caller, whose output is its input, to measure the time around a graph's work.
    ///
    /// # Errors
    /// More bytes than the tensor has, no memory, or the driver refuses.
    pub fn echo(
        kernels: &LaneKernels,
        stream: &Arc<Stream>,
        tensor: &Arc<DeviceBuffer>,
        bytes: usize,
        [input_by, output_by]: [Carrier; 2],
    ) -> Result<Self, CudaError> {
        let len = tensor.len();
        if bytes.next_multiple_of(PIECE) > len {
            return Err(SharedError::OutOfBounds { end: bytes.next_multiple_of(PIECE), len }.into());
        }
        let (input, output) = (tensor.address(), tensor.address());
        let ends = LaneEnds { input, input_bytes: bytes, input_by, output, output_bytes: bytes, output_by };
        // SAFETY: no kernel is added; the tensor has room for whole pieces, and is kept.
        unsafe { Self::new(kernels, stream, ends, Arc::clone(tensor), |_, after| Ok(after.to_vec())) }
    }

    /// A lane whose work is a copy on the device, by a kernel's threads of 16 bytes each: the output begins with the
    /// input, and its other bytes are 0. In place of a network it measures the time around the network.
    ///
    /// # Errors
    /// A shorter output than input, no memory, or the driver refuses.
    pub fn copying(
        kernels: &LaneKernels,
        stream: &Arc<Stream>,
        [input_bytes, output_bytes]: [usize; 2],
        [input_by, output_by]: [Carrier; 2],
    ) -> Result<Self, CudaError> {
        if input_bytes > output_bytes {
            return Err(SharedError::OutOfBounds { end: input_bytes, len: output_bytes }.into());
        }
        let tensor =
            |bytes: usize| DeviceBuffer::zeroed(stream.context(), bytes.next_multiple_of(PIECE).max(PIECE));
        let (input, output) = (tensor(input_bytes)?, tensor(output_bytes)?);
        let ends = LaneEnds {
            input: input.address(),
            input_bytes,
            input_by,
            output: output.address(),
            output_bytes,
            output_by,
        };
        let (from, to) = (ends.input, ends.output);
        // SAFETY: the one kernel copies whole pieces between the two tensors, which are zeroed up to whole pieces and kept.
        unsafe {
            Self::new(kernels, stream, ends, (input, output), |graph, after| {
                Ok(vec![kernels.add_copy(graph, to, from, input_bytes, after)?])
            })
        }
    }

    /// Memory for the next run's input, to be written while no run is in progress. Not read with [`Carrier::Hook`].
    #[must_use]
    pub fn input(&self) -> &Bytes {
        &self.input
    }

    /// Memory of a run's output after [`ready`](Self::ready) is 1: its bytes, up to the next multiple of 8.
    #[must_use]
    pub fn output(&self) -> &Bytes {
        &self.output
    }

    /// The ready flag, which the graph's last node sets to 1. The thread that takes the output clears it before the
    /// next launch.
    #[must_use]
    pub fn ready(&self) -> &Words {
        &self.ready
    }

    /// The stream of the runs. Work that a hook puts on it comes before the run.
    #[must_use]
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Whether a run is in progress.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.ended.load(0, Ordering::Acquire) != self.started
    }

    /// Puts a copy of `bytes` bytes on the stream, from `offset` in mapped memory to the input tensor of a shape, for the run of that shape
    /// that is launched next: `cudaMemcpyAsync` in a hook, for [`Carrier::Hook`].
    ///
    /// # Errors
    /// A run is under way, no such shape, more bytes than its input has or than there are in `from`, or the driver refuses.
    pub fn fetch(
        &mut self,
        shape: usize,
        from: &MappedRegion,
        offset: usize,
        bytes: usize,
    ) -> Result<(), CudaError> {
        if self.is_running() {
            return Err(busy());
        }
        let to = self.shapes.get(shape).ok_or_else(|| no_shape(shape))?;
        let most = to.input_bytes.min(from.len().saturating_sub(offset));
        if bytes > most {
            return Err(SharedError::OutOfBounds { end: bytes, len: most }.into());
        }
        let address = from.device_address(offset)?;
        self.source = Some(from.clone());
        // SAFETY: `bytes` bytes lie in the region, which is kept, and fit the input, which no run uses: a later one comes after the copy.
        unsafe { self.stream.copy(to.input, address, bytes) }
    }

    /// Puts a run of a shape on the stream, and returns without waiting for it.
    ///
    /// # Errors
    /// The last run is still in progress, there is no such shape, the driver refuses, or the context is dead. Then
    /// nothing was started.
    pub fn launch(&mut self, shape: usize) -> Result<(), CudaError> {
        if self.is_running() {
            return Err(busy());
        }
        let shape = self.shapes.get(shape).ok_or_else(|| no_shape(shape))?;
        // SAFETY: the promise of `add`: the kernels' contracts, on memory that this keeps; no run of this lane is under way.
        unsafe { shape.exec.launch(&self.stream) }?;
        self.started += 1;
        Ok(())
    }
}

fn no_shape(shape: usize) -> CudaError {
    CudaError::Graph(format!("it has no shape {shape}"))
}

fn busy() -> CudaError {
    CudaError::Graph("a run of it is under way".to_owned())
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

impl Drop for Lane {
    /// Waits for a run in progress. If the run does not end, nothing in its context is freed any more.
    fn drop(&mut self) {
        if (self.is_running() || self.source.is_some()) && self.stream.wait(TIMEOUT).is_err() {
            std::mem::forget(self.stream.context().hold_frees());
        }
    }
}
