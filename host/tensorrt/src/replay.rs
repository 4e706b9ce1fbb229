//! One run, captured: from mapped memory through TensorRT back to mapped memory.

#![allow(unsafe_code)] // named for it: launches and copies sign the contract of TensorRT's own kernels

use crate::ffi::RawContext;
use crate::{Engine, TensorRtError};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    Context, DeviceAddress, DeviceBuffer, Graph, GraphExec, Lane, Launched, MappedRegion, Stream,
};
use ringcall_infer::TensorSpec;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What TensorRT wants of a tensor's address.
const ALIGNMENT: usize = 256;
/// A run takes micro- or milliseconds; the first one may load code.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where each tensor lies in an engine's memory: all inputs, then all outputs, so that each way takes one copy.
#[derive(Debug)]
pub(crate) struct Layout {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    /// Beginnings of the inputs, then of the outputs.
    offsets: Vec<usize>,
    outputs_at: usize,
    bytes: usize,
}

impl Layout {
    pub(crate) fn new(inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Self {
        let mut offsets = Vec::new();
        let mut bytes = 0;
        let mut place = |specs: &[TensorSpec]| {
            for spec in specs {
                offsets.push(bytes);
                bytes += spec.size_bytes().next_multiple_of(ALIGNMENT);
            }
            bytes
        };
        let (outputs_at, bytes) = (place(&inputs), place(&outputs));
        Self { inputs, outputs, offsets, outputs_at, bytes }
    }

    pub(crate) fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    pub(crate) fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    /// Every tensor with its beginning.
    fn places(&self) -> impl Iterator<Item = (&TensorSpec, usize)> {
        self.inputs.iter().chain(&self.outputs).zip(self.offsets.iter().copied())
    }
}

/// An execution context whose tensors have their shapes and device memory.
struct Bound {
    context: Arc<Context>,
    memory: DeviceBuffer,
    /// Only taken on dropping.
    execution: Option<RawContext>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl Bound {
    fn new(context: &Arc<Context>, engine: &Engine, layout: &Layout) -> Result<Self, TensorRtError> {
        context.make_current()?;
        let memory = DeviceBuffer::zeroed(context, layout.bytes)?;
        let mut execution = RawContext::new(engine.raw())?;
        for spec in &layout.inputs {
            let dims: Vec<i64> = spec.shape.iter().map(|&dim| dim as i64).collect();
            execution.set_input_shape(&spec.name, &dims)?;
        }
        for (spec, offset) in layout.places() {
            let address = memory.address().offset(offset as u64);
            // SAFETY: the layout gives every tensor its size in the buffer, which lives as long as the context.
            unsafe { execution.set_address(&spec.name, address.0) }?;
        }
        Ok(Self { context: Arc::clone(context), memory, execution: Some(execution) })
    }

    /// Puts one run on the stream.
    fn enqueue(&mut self, stream: &Stream) -> Result<(), TensorRtError> {
        self.context.make_current()?;
        match &mut self.execution {
            // SAFETY: the stream lives; `new` gave every tensor its memory.
            Some(execution) => unsafe { execution.enqueue(stream.as_raw()) },
            None => Ok(()),
        }
    }

    /// The first run loads code and sizes TensorRT's own memory, which a capture must not meet.
    fn warm_up(&mut self, stream: &Stream) -> Result<(), TensorRtError> {
        self.enqueue(stream)?;
        Ok(stream.wait(PATIENCE)?)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(execution) = self.execution.take() {
            self.context.discard_later(execution);
        }
    }
}

/// A captured run between mapped host memory at either end.
#[derive(Debug)]
pub(crate) struct Replay {
    // In this order: what is captured, then what it reaches.
    launched: Launched,
    _bound: Bound,
    mapped: MappedRegion,
}

impl Replay {
    pub(crate) fn new(
        context: &Arc<Context>,
        engine: &Engine,
        layout: &Layout,
    ) -> Result<Self, TensorRtError> {
        let lane = Arc::new(Lane::new(context)?);
        let stream = lane.stream();
        let mut bound = Bound::new(context, engine, layout)?;
        bound.warm_up(stream)?;
        let mapped = MappedRegion::zeroed(context, layout.bytes)?;
        let (host, device) = (mapped.device_address(0)?, bound.memory.address());
        let out = layout.outputs_at as u64;
        let graph = stream.capture(|| {
            // SAFETY: both ends have room for the inputs, and live as long as the graph.
            unsafe { stream.copy(device, host, layout.outputs_at) }?;
            bound.enqueue(stream)?;
            // SAFETY: both ends have room for everything, and live as long as the graph.
            unsafe { stream.copy(host.offset(out), device.offset(out), layout.bytes - layout.outputs_at) }?;
            Ok::<(), TensorRtError>(())
        })?;
        Ok(Self {
            launched: Launched::new(graph.instantiate_for_host()?, &lane, PATIENCE)?,
            _bound: bound,
            mapped,
        })
    }

    /// One run; the buffers were checked. After an error the next run waits for what may still be under way.
    pub(crate) fn run(
        &mut self,
        layout: &Layout,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), CudaError> {
        self.launched.settle()?;
        let window = self.mapped.bytes(0, self.mapped.len())?;
        for (input, offset) in inputs.iter().zip(&layout.offsets) {
            let written = window.write(*offset, input);
            debug_assert!(written, "the buffers were checked");
        }
        // SAFETY: TensorRT's kernels and the copies reach the memory that `new` gave them, which is declared after `launched`
        // and is not used before the run has ended: see here and above.
        unsafe { self.launched.run() }?;
        for (output, offset) in outputs.iter_mut().zip(&layout.offsets[layout.inputs.len()..]) {
            let read = window.read(*offset, output);
            debug_assert!(read, "the buffers were checked");
        }
        Ok(())
    }
}

/// Who launches a recorded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The host.
    Host,
    /// A kernel on the device, or the host.
    Device,
}

/// Where a recorded run's tensors lie in device memory, each aligned to 256 bytes and packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    /// In the order of the model's inputs.
    pub inputs: Vec<DeviceAddress>,
    /// In the order of the model's outputs.
    pub outputs: Vec<DeviceAddress>,
}

/// One run as an executable graph, with the memory that it works on. It reads its inputs' device memory and writes its
/// outputs'; the copies are whatever its maker put before and after.
///
/// Launches of one recorded run go one after the other.
#[derive(Debug)]
pub struct Recorded {
    // In this order: what is captured, then what it reaches.
    exec: GraphExec,
    slots: Slots,
    _bound: Bound,
    stream: Stream,
}

impl Recorded {
    pub(crate) fn new(
        context: &Arc<Context>,
        engine: &Engine,
        layout: &Layout,
        side: Side,
        before: impl FnOnce(&Stream, &Slots) -> Result<(), TensorRtError>,
        after: impl FnOnce(&Stream, &Slots) -> Result<(), TensorRtError>,
    ) -> Result<Self, TensorRtError> {
        let stream = Stream::new(context)?;
        let mut bound = Bound::new(context, engine, layout)?;
        bound.warm_up(&stream)?;
        let base = bound.memory.address();
        let mut inputs: Vec<DeviceAddress> =
            layout.offsets.iter().map(|&offset| base.offset(offset as u64)).collect();
        let outputs = inputs.split_off(layout.inputs.len());
        let slots = Slots { inputs, outputs };
        let graph: Graph = stream.capture(|| {
            before(&stream, &slots)?;
            bound.enqueue(&stream)?;
            after(&stream, &slots)
        })?;
        let exec = match side {
            Side::Host => graph.instantiate_for_host()?,
            Side::Device => graph.instantiate_for_device_launch()?,
        };
        exec.upload(&stream)?;
        stream.wait(PATIENCE)?;
        Ok(Self { exec, slots, _bound: bound, stream })
    }

    /// The graph, uploaded; its device handle lives as long as this.
    #[must_use]
    pub fn exec(&self) -> &GraphExec {
        &self.exec
    }

    /// Where its tensors lie.
    #[must_use]
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The stream that it was recorded on, for the host's launches.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_infer::ElementType;

    #[test]
    fn tensors_lie_apart_aligned_and_outputs_behind_inputs() {
        let spec = |name: &str, element, elements: usize| {
            TensorSpec::new(name, element, vec![1, elements]).expect("a tensor")
        };
        let layout = Layout::new(
            vec![spec("a", ElementType::U8, 257), spec("b", ElementType::F32, 1)],
            vec![spec("c", ElementType::I32, 64), spec("d", ElementType::Bool, 1)],
        );
        assert_eq!(layout.offsets, [0, 512, 768, 1024]);
        assert_eq!((layout.outputs_at, layout.bytes), (768, 1280));
        let places: Vec<_> = layout.places().collect();
        for ((spec, offset), next) in places.iter().zip(layout.offsets[1..].iter().chain([&layout.bytes])) {
            assert!(offset % ALIGNMENT == 0 && offset + spec.size_bytes() <= *next, "{spec}");
        }
    }
}
