//! Launching the network: the one unsafe step above the driver.

#![allow(unsafe_code)] // named for it: launches sign the contract of the network's kernels

use crate::buffers::Buffers;
use crate::model::Loaded;
use crate::{INPUTS, OUTPUTS};
use half::f16;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    Context, DeviceBuffer, Graph, GraphExec, KernelArgs, Launch, MappedRegion, Module, Stream,
};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Entries of the module.
pub(crate) const NETWORK: &str = "ringcall_predecoder";
const STAGE: &str = "ringcall_predecoder_stage";
/// A run takes microseconds; the kernel itself gives up earlier.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a wait in the kernel may take, in clock cycles: a good half of a second.
pub(crate) const LIMIT_CYCLES: u64 = 1_000_000_000;

/// A captured run: from mapped memory to mapped memory.
#[derive(Debug)]
pub(crate) struct Replay {
    exec: GraphExec,
    stream: Stream,
    mapped: MappedRegion,
    buffers: Buffers,
    _staged: DeviceBuffer,
    _tables: [Arc<DeviceBuffer>; 3],
    input_bytes: usize,
    output_at: usize,
    output_bytes: usize,
}

/// Where the word lies that says which wait ran out.
const FAILED_AT: usize = 0;
const INPUT_AT: usize = 128;

impl Replay {
    /// Makes the graph: the input is copied to the device by a kernel, the network runs, its output leaves for the host.
    /// With a wiring that is bits to bits, without volume to logits.
    pub(crate) fn new(context: &Arc<Context>, module: &Module, loaded: &Loaded) -> Result<Self, CudaError> {
        let (plan, mut params) = (&loaded.plan, loaded.params);
        let (input_bytes, output_bytes) = match &loaded.wired {
            Some(wired) => (wired.request_bytes, wired.answer_bytes),
            None => (plan.cells() * INPUTS * size_of::<f16>(), plan.cells() * OUTPUTS * size_of::<f32>()),
        };
        let input_bytes = input_bytes.next_multiple_of(16);
        let output_at = (INPUT_AT + input_bytes).next_multiple_of(4096);
        let mapped = MappedRegion::zeroed(context, output_at + output_bytes.next_multiple_of(8))?;
        let staged = DeviceBuffer::zeroed(context, input_bytes)?;
        let buffers = loaded.buffers(context)?;
        buffers.fill(&mut params);
        let (from_host, to_host) = (staged.address().0, mapped.device_address(output_at)?.0);
        match loaded.wired {
            Some(_) => (params.bits, params.left) = (from_host, to_host),
            None => (params.input, params.logits) = (from_host, to_host),
        }
        params.failed = mapped.device_address(FAILED_AT)?.0;
        params.limit = LIMIT_CYCLES;

        let stream = Stream::new(context)?;
        let pieces = (input_bytes / 16) as u32;
        let (stage, network) = (module.kernel(STAGE)?, module.kernel(NETWORK)?);
        network.set_dynamic_shared(plan.shared)?;
        let mut graph = Graph::new(context)?;
        let from = mapped.device_address(INPUT_AT)?;
        let args = KernelArgs::new().address(from).address(staged.address()).u32(pieces);
        let copied = graph.add_kernel(&stage, &Launch::linear(pieces.div_ceil(128), 128), &args, &[])?;
        let launch =
            Launch::linear(plan.blocks(), plan.shape.threads()).dynamic_shared(plan.shared).cooperative();
        graph.add_kernel(&network, &launch, &KernelArgs::new().bytes(params.as_bytes()), &[copied])?;
        let exec = graph.instantiate_for_host()?;
        exec.upload(&stream)?;
        stream.synchronize()?;
        Ok(Self {
            exec,
            stream,
            mapped,
            buffers,
            _staged: staged,
            _tables: loaded.tables(),
            input_bytes,
            output_at,
            output_bytes,
        })
    }

    /// One run. `Some` says which wait ran out.
    pub(crate) fn run(&self, input: &[u8], output: &mut [u8]) -> Result<Option<u32>, CudaError> {
        let written = self.mapped.bytes(INPUT_AT, self.input_bytes)?.write(0, input);
        debug_assert!(written && output.len() == self.output_bytes, "the buffers were checked");
        // SAFETY: the kernels' parameters were laid out by `new` for this plan; what they point to lives as long as
        // `self`, and this waits for the end. After an error the stream is not used again before it has ended.
        unsafe { self.exec.launch(&self.stream) }?;
        self.stream.wait(PATIENCE)?;
        let flag = self.mapped.words(FAILED_AT, 1)?;
        let failed = flag.load(0, core::sync::atomic::Ordering::Relaxed) as u32;
        if failed != 0 {
            flag.store(0, 0, core::sync::atomic::Ordering::Relaxed);
            self.buffers.reset()?;
            return Ok(Some(failed));
        }
        let read = self.mapped.bytes(self.output_at, self.output_bytes.next_multiple_of(8))?.read(0, output);
        debug_assert!(read, "the buffers were checked");
        Ok(None)
    }
}
