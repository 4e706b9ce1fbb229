//! One run, captured: from mapped memory through TensorRT back to mapped memory.

#![allow(unsafe_code)] // named for it: launches and copies sign the contract of TensorRT's own kernels

use crate::ffi::RawContext;
use crate::{Engine, TensorRtError};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    Context, DeviceAddress, DeviceBuffer, MappedRegion, RepeatedGraph, SharedStream, Stream,
};
use ringcall_infer::TensorSpec;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What TensorRT wants of a tensor's address.
const ALIGNMENT: usize = 256;
/// A run takes micro- or milliseconds; the first one may load code.
const TIMEOUT: Duration = Duration::from_secs(10);

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
        let mut append = |specs: &[TensorSpec]| {
            for spec in specs {
                offsets.push(bytes);
                bytes += spec.size_bytes().next_multiple_of(ALIGNMENT);
            }
            bytes
        };
        let (outputs_at, bytes) = (append(&inputs), append(&outputs));
        Self { inputs, outputs, offsets, outputs_at, bytes }
    }

    pub(crate) fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    pub(crate) fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    /// Every tensor with its offset.
    fn tensors(&self) -> impl Iterator<Item = (&TensorSpec, usize)> {
        self.inputs.iter().chain(&self.outputs).zip(self.offsets.iter().copied())
    }
}

/// The questions to an execution context before its first run.
trait Bind {
    fn set_input_shape(&mut self, name: &str, dims: &[i64]) -> Result<(), TensorRtError>;

    /// # Safety
    /// Device memory of the tensor's size, which outlives every run of this context.
    unsafe fn set_address(&mut self, name: &str, address: u64) -> Result<(), TensorRtError>;
}

impl Bind for RawContext {
    fn set_input_shape(&mut self, name: &str, dims: &[i64]) -> Result<(), TensorRtError> {
        RawContext::set_input_shape(self, name, dims)
    }

    unsafe fn set_address(&mut self, name: &str, address: u64) -> Result<(), TensorRtError> {
        // SAFETY: the caller's promise.
        unsafe { RawContext::set_address(self, name, address) }
    }
}

/// Gives every input its shape, then every tensor its memory, by name.
///
/// # Safety
/// At each address, in the layout's order, lies device memory of the tensor's size, which outlives every run of this context.
unsafe fn bind(
    execution: &mut impl Bind,
    layout: &Layout,
    addresses: &[DeviceAddress],
) -> Result<(), TensorRtError> {
    for spec in &layout.inputs {
        let dims: Vec<i64> = spec.shape.iter().map(|&dim| dim as i64).collect();
        execution.set_input_shape(&spec.name, &dims)?;
    }
    for ((spec, _), address) in layout.tensors().zip(addresses) {
        if !address.0.is_multiple_of(ALIGNMENT as u64) {
            return Err(TensorRtError::Refused {
                doing: format!("giving `{}` its memory", spec.name),
                words: format!("{:#x} is no multiple of {ALIGNMENT}", address.0),
            });
        }
        // SAFETY: the caller's promise.
        unsafe { execution.set_address(&spec.name, address.0) }?;
    }
    Ok(())
}

/// An execution context whose tensors have their shapes and device memory.
pub(crate) struct Bound {
    context: Arc<Context>,
    /// All tensors in one, or one for each.
    memory: Vec<DeviceBuffer>,
    /// Only taken on dropping. It is for one thread at a time, which `&mut` says here; the lock is never held.
    execution: Mutex<Option<RawContext>>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl Bound {
    /// With all tensors in one buffer, as the layout has them.
    fn joined(context: &Arc<Context>, engine: &Engine, layout: &Layout) -> Result<Self, TensorRtError> {
        let memory = DeviceBuffer::zeroed(context, layout.bytes)?;
        let at = |&offset: &usize| memory.address().offset(offset as u64);
        let addresses: Vec<_> = layout.offsets.iter().map(at).collect();
        Self::new(context, engine, layout, vec![memory], &addresses)
    }

    /// With a buffer for each tensor, inputs first: as long as the tensor, in whole steps of its alignment.
    pub(crate) fn apart(
        context: &Arc<Context>,
        engine: &Engine,
        layout: &Layout,
    ) -> Result<Self, TensorRtError> {
        let buffer = |(spec, _): (&TensorSpec, usize)| {
            DeviceBuffer::zeroed(context, spec.size_bytes().next_multiple_of(ALIGNMENT))
        };
        let memory: Vec<_> = layout.tensors().map(buffer).collect::<Result<_, _>>()?;
        let addresses: Vec<_> = memory.iter().map(DeviceBuffer::address).collect();
        Self::new(context, engine, layout, memory, &addresses)
    }

    /// Each address with room for its tensor in `memory`.
    fn new(
        context: &Arc<Context>,
        engine: &Engine,
        layout: &Layout,
        memory: Vec<DeviceBuffer>,
        addresses: &[DeviceAddress],
    ) -> Result<Self, TensorRtError> {
        context.make_current()?;
        let mut execution = RawContext::new(engine.raw())?;
        // SAFETY: both callers give every tensor its size in the buffers, which live as long as the context.
        unsafe { bind(&mut execution, layout, addresses) }?;
        Ok(Self { context: Arc::clone(context), memory, execution: Mutex::new(Some(execution)) })
    }

    /// The buffers.
    pub(crate) fn memory(&self) -> &[DeviceBuffer] {
        &self.memory
    }

    fn execution(&mut self) -> &mut Option<RawContext> {
        self.execution.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one run on the stream.
    pub(crate) fn enqueue(&mut self, stream: &Stream) -> Result<(), TensorRtError> {
        self.context.make_current()?;
        match self.execution() {
            // SAFETY: the stream lives; `new` gave every tensor its memory.
            Some(execution) => unsafe { execution.enqueue(stream.as_raw()) },
            None => Ok(()),
        }
    }

    /// The first run loads code and sizes TensorRT's own memory, which a capture must not meet.
    pub(crate) fn warm_up(&mut self, stream: &Stream) -> Result<(), TensorRtError> {
        self.enqueue(stream)?;
        Ok(stream.wait(TIMEOUT)?)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(execution) = self.execution().take() {
            self.context.discard_later(execution);
        }
    }
}

/// A captured run between mapped host memory at either end.
#[derive(Debug)]
pub(crate) struct Replay {
    // In this order: the captured graph, then the memory that it reaches.
    launched: RepeatedGraph,
    _bound: Bound,
    mapped: MappedRegion,
}

impl Replay {
    pub(crate) fn new(
        context: &Arc<Context>,
        engine: &Engine,
        layout: &Layout,
    ) -> Result<Self, TensorRtError> {
        let shared = Arc::new(SharedStream::new(context)?);
        let stream = shared.stream();
        let mut bound = Bound::joined(context, engine, layout)?;
        bound.warm_up(stream)?;
        let mapped = MappedRegion::zeroed(context, layout.bytes)?;
        let (host, device) = (mapped.device_address(0)?, bound.memory[0].address());
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
            launched: RepeatedGraph::new(graph.instantiate_for_host()?, &shared, TIMEOUT)?,
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
        self.launched.finish()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_infer::ElementType;

    #[test]
    fn tensors_lie_apart_aligned_and_outputs_after_inputs() {
        let spec = |name: &str, element, elements: usize| {
            TensorSpec::new(name, element, vec![1, elements]).expect("a tensor")
        };
        let layout = Layout::new(
            vec![spec("a", ElementType::U8, 257), spec("b", ElementType::F32, 1)],
            vec![spec("c", ElementType::I32, 64), spec("d", ElementType::Bool, 1)],
        );
        assert_eq!(layout.offsets, [0, 512, 768, 1024]);
        assert_eq!((layout.outputs_at, layout.bytes), (768, 1280));
        let tensors: Vec<_> = layout.tensors().collect();
        for ((spec, offset), next) in tensors.iter().zip(layout.offsets[1..].iter().chain([&layout.bytes])) {
            assert!(offset % ALIGNMENT == 0 && offset + spec.size_bytes() <= *next, "{spec}");
        }
    }

    /// Notes what it is asked, and refuses one name.
    #[derive(Default)]
    struct Noted {
        shapes: Vec<(String, Vec<i64>)>,
        addresses: Vec<(String, u64)>,
        refused: &'static str,
    }

    impl Noted {
        fn says(&self, name: &str) -> Result<(), TensorRtError> {
            let refused = || TensorRtError::Refused { doing: name.to_owned(), words: "no".to_owned() };
            if name == self.refused { Err(refused()) } else { Ok(()) }
        }
    }

    impl Bind for Noted {
        fn set_input_shape(&mut self, name: &str, dims: &[i64]) -> Result<(), TensorRtError> {
            assert!(self.addresses.is_empty(), "shapes come first");
            self.shapes.push((name.to_owned(), dims.to_vec()));
            self.says(name)
        }

        unsafe fn set_address(&mut self, name: &str, address: u64) -> Result<(), TensorRtError> {
            self.addresses.push((name.to_owned(), address));
            self.says(name)
        }
    }

    #[test]
    fn tensors_are_bound_by_name() {
        let spec =
            |name: &str, element, shape: &[usize]| TensorSpec::new(name, element, shape).expect("a tensor");
        let layout = Layout::new(
            vec![spec("detectors", ElementType::I32, &[1, 336]), spec("bias", ElementType::F16, &[1, 4, 3])],
            vec![spec("residual", ElementType::U8, &[1, 336]), spec("frame", ElementType::Bool, &[1, 1])],
        );
        let at = [0x7000, 0x1000, 0x2100, 0x4000].map(DeviceAddress);
        let mut noted = Noted::default();
        // SAFETY: nothing is run.
        unsafe { bind(&mut noted, &layout, &at) }.expect("bound");
        let named = |name: &str, dims: &[i64]| (name.to_owned(), dims.to_vec());
        assert_eq!(noted.shapes, [named("detectors", &[1, 336]), named("bias", &[1, 4, 3])]);
        let named = |name: &str, at: u64| (name.to_owned(), at);
        let all = [
            named("detectors", 0x7000),
            named("bias", 0x1000),
            named("residual", 0x2100),
            named("frame", 0x4000),
        ];
        assert_eq!(noted.addresses, all);
        for refused in ["bias", "frame"] {
            let mut noted = Noted { refused, ..Noted::default() };
            // SAFETY: as above.
            let why = unsafe { bind(&mut noted, &layout, &at) }.expect_err("refused").to_string();
            assert_eq!(why, format!("{refused}: no"));
        }
        let odd = [0x7000, 0x1000, 0x2180, 0x4000].map(DeviceAddress);
        // SAFETY: as above.
        let why = unsafe { bind(&mut Noted::default(), &layout, &odd) }.expect_err("refused").to_string();
        assert!(why.contains("`residual`") && why.contains("0x2180"), "{why}");
    }
}
