//! Launching a decode as a graph: the one unsafe step above the driver.

#![allow(unsafe_code)] // named for it: launches sign the contract of the Relay-BP kernel

use crate::relay_bp::loaded::{KERNEL, Loaded, RunMemory, STAGE};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    DeviceBuffer, Graph, KernelArgs, Launch, MappedRegion, RepeatedGraph, SharedStream,
};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// A run takes a microsecond an iteration; this is for each of them, and for the launch.
const ITERATION_TIMEOUT: Duration = Duration::from_micros(20);
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that a thread of the copying kernel copies.
const PIECE: usize = 16;

/// A captured decode: from pinned host memory to pinned host memory.
#[derive(Debug)]
pub(crate) struct Replay {
    // In this order: the launched graph, then the memory that it reaches.
    launched: RepeatedGraph,
    mapped: MappedRegion,
    _memory: RunMemory,
    _request: DeviceBuffer,
    answer_at: usize,
}

impl Replay {
    /// Makes the graph: the request goes to the device, where every block reads it; the answer is written to the host's memory.
    pub(crate) fn new(loaded: &Arc<Loaded>, stream: &Arc<SharedStream>) -> Result<Self, CudaError> {
        let request_bytes = loaded.request_bytes().next_multiple_of(PIECE);
        // A separate page: what the device writes shares no line with what it reads.
        let answer_at = request_bytes.next_multiple_of(4096);
        let mapped = MappedRegion::zeroed(&loaded.context, answer_at + loaded.answer_bytes())?;
        let request = DeviceBuffer::zeroed(&loaded.context, request_bytes)?;
        let (memory, mut params) = RunMemory::new(loaded)?;
        params.request = request.address().0;
        params.answer = mapped.device_address(answer_at)?.0;

        let (stage, kernel) = (loaded.module.kernel(STAGE)?, loaded.module.kernel(KERNEL)?);
        kernel.set_dynamic_shared(loaded.shared_bytes())?;
        let mut graph = Graph::new(&loaded.context)?;
        let pieces = (request_bytes / PIECE) as u32;
        let args =
            KernelArgs::new().address(mapped.device_address(0)?).address(request.address()).u32(pieces);
        let there = graph.add_kernel(&stage, &Launch::linear(pieces.div_ceil(128), 128), &args, &[])?;
        let launch = Launch::linear(loaded.blocks(), loaded.shape.threads)
            .dynamic_shared(loaded.shared_bytes())
            .cluster(loaded.shape.blocks);
        graph.add_kernel(&kernel, &launch, &KernelArgs::new().bytes(params.as_bytes()), &[there])?;
        let config = &loaded.config;
        let iterations =
            config.first_iterations.saturating_add(config.legs.saturating_mul(config.leg_iterations));
        let timeout = LAUNCH_TIMEOUT + ITERATION_TIMEOUT * iterations.min(config.max_iterations);
        Ok(Self {
            launched: RepeatedGraph::new(graph.instantiate_for_host()?, stream, timeout)?,
            mapped,
            _memory: memory,
            _request: request,
            answer_at,
        })
    }

    /// One run.
    pub(crate) fn run(&mut self, request: &[u8], answer: &mut [u8]) -> Result<(), CudaError> {
        self.launched.finish()?;
        // SAFETY: no run of this engine is under way, and nothing else reaches these bytes.
        let staged = unsafe { self.mapped.exclusive(0, request.len()) }?;
        staged.copy_from_slice(request);
        // SAFETY: the kernels' parameters were laid out by `new` for this graph; what they point to is declared after `launched`,
        // and is not used before the run has ended: see here and above.
        unsafe { self.launched.run() }?;
        // SAFETY: the run has ended: its mark is put there after everything that it wrote.
        answer.copy_from_slice(unsafe { self.mapped.exclusive(self.answer_at, answer.len()) }?);
        Ok(())
    }
}
