//! Launching the network: the one unsafe step above the driver.

#![allow(unsafe_code)] // named for it: launches sign the contract of the network's kernels

use crate::buffers::Buffers;
use crate::halves;
use crate::model::Loaded;
use crate::{INPUTS, OUTPUTS};
use half::f16;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    Context, DeviceAddress, DeviceBuffer, Graph, GraphExec, Kernel, KernelArgs, Launch, MappedRegion, Module,
    NodeId, Stream,
};
use ringcall_gpu::shared::Words;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Entries of the module.
pub(crate) const NETWORK: &str = "ringcall_predecoder";
const STAGE: &str = "ringcall_predecoder_stage";
/// A run takes microseconds; the kernel itself gives up earlier.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a wait in the kernel may take, in clock cycles: a good half of a second.
pub(crate) const LIMIT_CYCLES: u64 = 1_000_000_000;
/// Tensors of up to so many bytes cross the bus by a kernel's threads, all at once, larger ones by the copy engines.
pub(crate) const BY_KERNELS: usize = 4096;

/// Where all runs of a model go, one after the other: two at once would each wait for multiprocessors that the other holds.
///
/// The order is the device's: nobody on the host waits for another's run, and the next one begins when the last has ended.
#[derive(Debug)]
pub(crate) struct Lane {
    stream: Stream,
    /// Held while a run and its mark are put on the stream, so that no other run comes between them.
    turn: Mutex<()>,
}

impl Lane {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        Ok(Self { stream: Stream::new(context)?, turn: Mutex::new(()) })
    }
}

/// A captured run: from pinned host memory to pinned host memory, by way of the device's.
#[derive(Debug)]
pub(crate) struct Replay {
    /// A run that did not end in time may still be under way.
    unsettled: bool,
    /// Whether a mark was put behind it.
    marked: bool,
    // In this order: what is launched, then what it reaches.
    exec: GraphExec,
    lane: Arc<Lane>,
    mapped: MappedRegion,
    failed: Words,
    done: Words,
    done_at: DeviceAddress,
    buffers: Buffers,
    _tensors: Tensors,
    _tables: [Arc<DeviceBuffer>; 3],
    /// The input is 32-bit floats, which the network reads as 16-bit ones.
    volume: bool,
    places: Places,
}

/// Tensors in device memory. Bits leave without one.
type Tensors = (DeviceBuffer, Option<DeviceBuffer>);

/// What lies where in the pinned memory.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Places {
    input_bytes: usize,
    output_at: usize,
    output_bytes: usize,
}

/// Where the word lies that says which wait ran out, and the one that says that a run has ended. Each has a line for itself.
const FAILED_AT: usize = 0;
const DONE_AT: usize = 128;
const INPUT_AT: usize = 256;
/// What a thread of the kernel that carries tensors carries.
const PIECE: usize = 16;

impl Places {
    fn new(input_bytes: usize, output_bytes: usize) -> Self {
        // A page of its own: what the device writes shares no line with what it reads.
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
    /// With a wiring that is bits to bits, without volume to logits; those that leave are few, and written by one block.
    pub(crate) fn new(
        context: &Arc<Context>,
        module: &Module,
        loaded: &Loaded,
        lane: &Arc<Lane>,
        by_kernels: usize,
    ) -> Result<Self, CudaError> {
        let (plan, mut params) = (&loaded.plan, loaded.params);
        let places = match &loaded.wired {
            Some(wired) => Places::new(wired.request_bytes, wired.answer_bytes),
            None => Places::new(
                plan.cells() * INPUTS * size_of::<f16>(),
                plan.cells() * OUTPUTS * size_of::<f32>(),
            ),
        };
        let mapped = MappedRegion::zeroed(context, places.bytes())?;
        let (from, to) = (mapped.device_address(INPUT_AT)?, mapped.device_address(places.output_at)?);
        let tensor = |bytes: usize| DeviceBuffer::zeroed(context, bytes.next_multiple_of(PIECE));
        let input = tensor(places.input_bytes)?;
        let output = if loaded.wired.is_some() { None } else { Some(tensor(places.output_bytes)?) };
        let buffers = loaded.buffers(context)?;
        buffers.fill(&mut params);
        match &output {
            None => (params.bits, params.left) = (input.address().0, to.0),
            Some(logits) => (params.input, params.logits) = (input.address().0, logits.address().0),
        }
        params.failed = mapped.device_address(FAILED_AT)?.0;
        params.limit = LIMIT_CYCLES;

        let (stage, network) = (module.kernel(STAGE)?, module.kernel(NETWORK)?);
        network.set_dynamic_shared(plan.shared)?;
        let mut graph = Graph::new(context)?;
        let carry = Carry { stage: &stage, by_kernels };
        let there = carry.add(&mut graph, input.address(), from, places.input_bytes, &[])?;
        let launch =
            Launch::linear(plan.blocks(), plan.shape.threads()).dynamic_shared(plan.shared).cooperative();
        let run =
            graph.add_kernel(&network, &launch, &KernelArgs::new().bytes(params.as_bytes()), &[there])?;
        if let Some(logits) = &output {
            carry.add(&mut graph, to, logits.address(), places.output_bytes, &[run])?;
        }
        let exec = graph.instantiate_for_host()?;
        // Not on the lane: others' runs may be there.
        let stream = Stream::new(context)?;
        exec.upload(&stream)?;
        stream.synchronize()?;
        Ok(Self {
            unsettled: false,
            marked: false,
            exec,
            lane: Arc::clone(lane),
            failed: mapped.words(FAILED_AT, 1)?,
            done: mapped.words(DONE_AT, 1)?,
            done_at: mapped.device_address(DONE_AT)?,
            mapped,
            buffers,
            _tensors: (input, output),
            _tables: loaded.tables(),
            volume: loaded.wired.is_none(),
            places,
        })
    }

    /// One run. `Some` says which wait ran out.
    pub(crate) fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<Option<u32>, CudaError> {
        self.settle()?;
        let Places { input_bytes, output_at, output_bytes } = self.places;
        // SAFETY: no run of this engine is under way, and nothing else reaches these bytes.
        let staged = unsafe { self.mapped.exclusive(INPUT_AT, input_bytes) }?;
        if self.volume {
            halves::round(input, staged);
        } else {
            staged.copy_from_slice(input);
        }
        self.done.store(0, 0, Ordering::Release);
        self.unsettled = true;
        self.marked = false;
        self.start()?;
        self.marked = true;
        self.lane.stream.wait_for_word(&self.done, 0, PATIENCE)?;
        self.unsettled = false;
        let failed = self.failed.load(0, Ordering::Relaxed) as u32;
        if failed != 0 {
            self.failed.store(0, 0, Ordering::Relaxed);
            self.buffers.reset()?;
            return Ok(Some(failed));
        }
        // SAFETY: the run has ended: its mark is put there after everything that it wrote.
        output.copy_from_slice(unsafe { self.mapped.exclusive(output_at, output_bytes) }?);
        Ok(None)
    }

    /// Waits for a run that was given up: it may still read the input. By its own mark, if there is one behind it: others may
    /// keep the lane busy for ever.
    fn settle(&mut self) -> Result<(), CudaError> {
        if !self.unsettled {
            return Ok(());
        }
        if self.marked {
            self.lane.stream.wait_for_word(&self.done, 0, PATIENCE)?;
        } else {
            self.lane.stream.wait(PATIENCE)?;
        }
        if self.failed.load(0, Ordering::Relaxed) != 0 {
            self.failed.store(0, 0, Ordering::Relaxed);
            self.buffers.reset()?;
        }
        self.unsettled = false;
        Ok(())
    }

    /// Puts a run and its mark on the lane.
    fn start(&self) -> Result<(), CudaError> {
        let Lane { stream, turn } = &*self.lane;
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the kernels' parameters were laid out by `new` for this plan; what they and the copies point to lives as
        // long as `self`, and `run` and `drop` wait for the end before it is used or freed.
        unsafe { self.exec.launch(stream) }?;
        // SAFETY: an aligned word of mapped memory, which lives likewise and is reached by `done` alone.
        unsafe { stream.write_word_after(self.done_at, 1) }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if self.settle().is_err() {
            // A run without an end: what it reaches, and freeing it would wait for, is never freed.
            std::mem::forget(self.lane.stream.context().hold_frees());
        }
    }
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
            let places = Places::new(input, output);
            prop_assert!(places.output_at >= INPUT_AT + input.next_multiple_of(PIECE));
            prop_assert!(places.output_at.is_multiple_of(4096) && INPUT_AT.is_multiple_of(PIECE));
            prop_assert!(places.bytes() >= places.output_at + output);
            prop_assert_eq!((places.bytes() - places.output_at) % PIECE, 0);
        }
    }
}
