//! Launching the network: the one unsafe step above the driver.

#![allow(unsafe_code)] // named for it: launches sign the contract of the network's kernels

use crate::predecoder::buffers::Buffers;
use crate::predecoder::captured::GpuRun;
use crate::predecoder::halves;
use crate::predecoder::kernels::{Kernels, LIMIT_CYCLES, NETWORK};
use crate::predecoder::loaded::GpuError;
use crate::predecoder::loaded::Loaded;
use crate::predecoder::{INPUTS, OUTPUTS};
use half::f16;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    Carrier, Context, DeviceAddress, DeviceBuffer, Graph, Kernel, KernelArgs, Lane, LaneEnds, LaneKernels,
    Launch, MappedRegion, Module, NodeId, RepeatedGraph, SharedStream,
};
use ringcall_gpu::shared::Words;
use ringcall_infer::{ElementType, TensorSpec};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Another entry of the module that has all layers.
const STAGE: &str = "ringcall_predecoder_stage";
/// A run takes microseconds; the kernel itself gives up earlier.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Tensors of up to so many bytes cross the bus by a kernel's threads, all at once, larger ones by the copy engines: on an H100 kernels were
/// faster at d = 3, 7, 13 and 31, where 477 kB come out.
pub(crate) const BY_KERNELS: usize = 512 << 10;

/// A captured run: from pinned host memory to pinned host memory, by way of the device's.
#[derive(Debug)]
pub(crate) struct Replay {
    // In this order: the launched graph, then the memory that it reaches.
    launched: RepeatedGraph,
    mapped: MappedRegion,
    failed: Words,
    reached: Reached,
    /// The input is 32-bit floats, which the network reads as 16-bit ones.
    volume: bool,
    regions: Regions,
}

/// The device memory that a run reaches.
#[derive(Debug)]
enum Reached {
    /// Of the one kernel that has all layers: what it works on, input and output, and what its parameters point to.
    Fused { buffers: Buffers, _tensors: [DeviceBuffer; 2], _tables: [Arc<DeviceBuffer>; 3] },
    /// Of a kernel for each layer.
    Layers { _run: Box<GpuRun> },
}

/// The layout of the pinned memory.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Regions {
    input_bytes: usize,
    output_at: usize,
    output_bytes: usize,
}

/// Where the word lies that says which wait ran out, on a line for itself.
const FAILED_AT: usize = 0;
const INPUT_AT: usize = 128;
/// Bytes that a thread of the copying kernel copies.
const PIECE: usize = 16;

impl Regions {
    fn new(input_bytes: usize, output_bytes: usize) -> Self {
        // A separate page: what the device writes shares no line with what it reads.
        let output_at = (INPUT_AT + input_bytes.next_multiple_of(PIECE)).next_multiple_of(4096);
        Self { input_bytes, output_at, output_bytes }
    }

    /// With room for whole pieces.
    fn bytes(&self) -> usize {
        self.output_at + self.output_bytes.next_multiple_of(PIECE)
    }
}

impl Replay {
    /// Makes the graph: the input goes to the device, the network runs from device memory to device memory, its output leaves
    /// for the host. The network itself touches every value many times, or in small pieces, which is not for the bus.
    ///
    /// With a wiring that is bits to bits, without volume to logits.
    pub(crate) fn new(
        context: &Arc<Context>,
        kernels: &Kernels,
        specs: [&[TensorSpec]; 2],
        stream: &Arc<SharedStream>,
        by_kernels: usize,
    ) -> Result<Self, GpuError> {
        match kernels {
            Kernels::Fused(module, loaded) => Ok(Self::fused(context, module, loaded, stream, by_kernels)?),
            Kernels::Layers(_) => {
                let run = GpuRun::new(context, kernels, specs[0], specs[1])?;
                Self::layers(context, run, stream, by_kernels)
            }
        }
    }

    fn layers(
        context: &Arc<Context>,
        run: GpuRun,
        stream: &Arc<SharedStream>,
        by_kernels: usize,
    ) -> Result<Self, GpuError> {
        let regions = Regions::new(bytes(run.inputs()), bytes(run.outputs()));
        let mapped = MappedRegion::zeroed(context, regions.bytes())?;
        let (from, to) = (mapped.device_address(INPUT_AT)?, mapped.device_address(regions.output_at)?);
        let kernels = LaneKernels::load(context)?;
        let mut graph = Graph::new(context)?;
        let carry = |to, from, bytes, after: &[NodeId], graph: &mut Graph| match bytes > by_kernels {
            true => graph.add_copy(to, from, bytes, after),
            false => kernels.add_copy(graph, to, from, bytes, after),
        };
        let there = carry(run.input().address(), from, regions.input_bytes, &[], &mut graph)?;
        let last = run.add_to(&mut graph, &[there])?;
        carry(to, run.output().address(), regions.output_bytes, &[last], &mut graph)?;
        Ok(Self {
            launched: RepeatedGraph::new(graph.instantiate_for_host()?, stream, TIMEOUT)?,
            failed: mapped.words(FAILED_AT, 1)?,
            mapped,
            volume: run.inputs().iter().all(|spec| spec.element == ElementType::F16),
            reached: Reached::Layers { _run: Box::new(run) },
            regions,
        })
    }

    fn fused(
        context: &Arc<Context>,
        module: &Module,
        loaded: &Loaded,
        stream: &Arc<SharedStream>,
        by_kernels: usize,
    ) -> Result<Self, CudaError> {
        let (plan, mut params) = (&loaded.plan, loaded.params);
        let regions = match &loaded.wired {
            Some(wired) => Regions::new(wired.request_bytes, wired.answer_bytes),
            None => Regions::new(
                plan.cells() * INPUTS * size_of::<f16>(),
                plan.cells() * OUTPUTS * size_of::<f32>(),
            ),
        };
        let mapped = MappedRegion::zeroed(context, regions.bytes())?;
        let (from, to) = (mapped.device_address(INPUT_AT)?, mapped.device_address(regions.output_at)?);
        let tensor = |bytes: usize| DeviceBuffer::zeroed(context, bytes.next_multiple_of(PIECE));
        let input = tensor(regions.input_bytes)?;
        let output = tensor(regions.output_bytes)?;
        let buffers = loaded.buffers(context)?;
        buffers.fill(&mut params);
        let ends = [input.address().0, output.address().0];
        match &loaded.wired {
            Some(_) => [params.bits, params.left] = ends,
            None => [params.input, params.logits] = ends,
        }
        params.failed = mapped.device_address(FAILED_AT)?.0;
        params.limit = LIMIT_CYCLES;

        let (stage, network) = (module.kernel(STAGE)?, module.kernel(NETWORK)?);
        network.set_dynamic_shared(plan.shared)?;
        let mut graph = Graph::new(context)?;
        let carry = Carry { stage: &stage, by_kernels };
        let there = carry.add(&mut graph, input.address(), from, regions.input_bytes, &[])?;
        let launch =
            Launch::linear(plan.blocks(), plan.shape.threads()).dynamic_shared(plan.shared).cooperative();
        let run =
            graph.add_kernel(&network, &launch, &KernelArgs::new().bytes(params.as_bytes()), &[there])?;
        carry.add(&mut graph, to, output.address(), regions.output_bytes, &[run])?;
        Ok(Self {
            launched: RepeatedGraph::new(graph.instantiate_for_host()?, stream, TIMEOUT)?,
            failed: mapped.words(FAILED_AT, 1)?,
            mapped,
            reached: Reached::Fused { buffers, _tensors: [input, output], _tables: loaded.tables() },
            volume: loaded.wired.is_none(),
            regions,
        })
    }

    /// One run. `Some` says which wait ran out.
    pub(crate) fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<Option<u32>, CudaError> {
        self.launched.finish()?;
        // A run that was given up may have left a failure word.
        self.failed()?;
        let Regions { input_bytes, output_at, output_bytes } = self.regions;
        // SAFETY: no run of this engine is under way, and nothing else reaches these bytes.
        let staged = unsafe { self.mapped.exclusive(INPUT_AT, input_bytes) }?;
        if self.volume {
            halves::round(input, staged);
        } else {
            staged.copy_from_slice(input);
        }
        // SAFETY: the kernels' parameters were laid out by `new` for this plan; what they and the copies point to is declared
        // after `launched`, and is not used before the run has ended: see here and above.
        unsafe { self.launched.run() }?;
        if let Some(failed) = self.failed()? {
            return Ok(Some(failed));
        }
        // SAFETY: the run has ended: its mark is put there after everything that it wrote.
        output.copy_from_slice(unsafe { self.mapped.exclusive(output_at, output_bytes) }?);
        Ok(None)
    }

    /// Which wait of the last run ran out, if one did: it leaves its counters anywhere.
    fn failed(&self) -> Result<Option<u32>, CudaError> {
        let failed = self.failed.load(0, Ordering::Relaxed) as u32;
        if failed == 0 {
            return Ok(None);
        }
        if let Reached::Fused { buffers, .. } = &self.reached {
            buffers.reset()?;
        }
        self.failed.store(0, 0, Ordering::Relaxed);
        Ok(Some(failed))
    }
}

/// A run's nodes as one more shape of a lane. `model` owns what the run's kernels point to.
pub(crate) fn add_to_lane(
    run: &Arc<GpuRun>,
    model: impl Any + Send + Sync,
    lane: &mut Lane,
    by: Option<[Carrier; 2]>,
) -> Result<(), GpuError> {
    let (input_bytes, output_bytes) = (bytes(run.inputs()), bytes(run.outputs()));
    let [input_by, output_by] = by.unwrap_or([input_bytes, output_bytes].map(Carrier::fastest));
    let ends = LaneEnds {
        input: run.input().address(),
        input_bytes,
        input_by,
        output: run.output().address(),
        output_bytes,
        output_by,
    };
    let keeps = (Arc::clone(run), model);
    let body = |graph: &mut Graph, after: &[NodeId]| Ok::<_, CudaError>(vec![run.add_to(graph, after)?]);
    // SAFETY: the run's parameters were laid out for its tensors and its model, which `keeps` owns; both tensors have room for whole
    // pieces, and this lane alone has the run. The kernel stays inside of them for every input.
    unsafe { lane.add(ends, keeps, body) }?;
    Ok(())
}

/// Bytes of all tensors.
pub(crate) fn bytes(specs: &[TensorSpec]) -> usize {
    specs.iter().map(TensorSpec::size_bytes).sum()
}

/// How tensors cross the bus.
struct Carry<'a> {
    stage: &'a Kernel,
    by_kernels: usize,
}

impl Carry<'_> {
    /// Both ends have room for whole pieces.
    fn add(
        &self,
        graph: &mut Graph,
        to: DeviceAddress,
        from: DeviceAddress,
        bytes: usize,
        after: &[NodeId],
    ) -> Result<NodeId, CudaError> {
        if bytes > self.by_kernels {
            return graph.add_copy(to, from, bytes, after);
        }
        let pieces = bytes.div_ceil(PIECE) as u32;
        let args = KernelArgs::new().address(from).address(to).u32(pieces);
        graph.add_kernel(self.stage, &Launch::linear(pieces.div_ceil(128), 128), &args, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_each_side_writes_lies_apart(input in 1_usize..300_000, output in 1_usize..500_000) {
            let regions = Regions::new(input, output);
            prop_assert!(regions.output_at >= INPUT_AT + input.next_multiple_of(PIECE));
            prop_assert!(regions.output_at.is_multiple_of(4096) && INPUT_AT.is_multiple_of(PIECE));
            prop_assert!(regions.bytes() >= regions.output_at + output);
            prop_assert_eq!((regions.bytes() - regions.output_at) % PIECE, 0);
        }
    }
}
