//! Relay-BP as a model between bytes, whose engines replay a captured graph.

use crate::relay_bp::launch::Replay;
use crate::relay_bp::loaded::Loaded;
use crate::relay_bp::{AnswerLayout, Bounds, CancelFlag, GpuError};
use ringcall_bp::{BpConfig, BpGraph};
use ringcall_cuda::driver::{Context, SharedStream};
use ringcall_infer::{ElementType, Engine, InferError, Model, TensorSpec, check_buffers};
use std::sync::Arc;

/// Relay-BP on a device, as a [`Model`]: input `bits`, a request's bytes; output `answer`, laid out as [`AnswerLayout`] says.
///
/// Runs of all its engines go one after the other, in the order in which they were started. Each engine has its own memory,
/// and its thread waits for its own run alone.
///
/// ```no_run
/// use ringcall_bp::{BpConfig, BpGraphBuilder};
/// use ringcall_gpu_decoders::relay_bp::{Bounds, GpuModel};
/// use ringcall_cuda::driver::Driver;
/// use ringcall_infer::Model;
///
/// let mut builder = BpGraphBuilder::new(2, 1);
/// builder.error(0.01, &[0], &[0])?.error(0.01, &[0, 1], &[])?.error(0.01, &[1], &[])?;
/// let context = Driver::load()?.device(0)?.context()?;
/// let model = GpuModel::new(&builder.build()?, &BpConfig::relay(), &context, Bounds::default())?;
/// let mut answer = vec![0; model.layout().bytes()];
/// model.instantiate()?.run(&[&[0b01]], &mut [&mut answer])?;
/// assert_eq!(model.layout().read(&answer).map(|answer| answer.observables), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GpuModel {
    shared: Arc<Shared>,
}

/// What the engines of a model share.
#[derive(Debug)]
struct Shared {
    inputs: [TensorSpec; 1],
    outputs: [TensorSpec; 1],
    loaded: Arc<Loaded>,
    stream: Arc<SharedStream>,
}

const NAME: &str = "relay";

impl GpuModel {
    /// Puts the graph's tables on the device of `context`.
    ///
    /// # Errors
    /// A graph, a configuration or a device that the kernel is not for, more lanes than the device runs at once, or the driver refuses.
    pub fn new(
        graph: &BpGraph,
        config: &BpConfig,
        context: &Arc<Context>,
        bounds: Bounds,
    ) -> Result<Self, GpuError> {
        let loaded = Arc::new(Loaded::new(graph, config, context, bounds, [0, 0])?);
        let bytes = |name, n: usize| TensorSpec::new(name, ElementType::U8, [1, n]);
        let inputs = [bytes("bits", loaded.request_bytes())?];
        let outputs = [bytes("answer", loaded.answer_bytes())?];
        let stream = Arc::new(SharedStream::new(context)?);
        Ok(Self { shared: Arc::new(Shared { inputs, outputs, loaded, stream }) })
    }

    /// The kernel's shape.
    #[must_use]
    pub fn shape(&self) -> &'static ringcall_bp::kernel::KernelShape {
        self.shared.loaded.shape
    }

    /// The flag that ends the decodes of all its engines.
    #[must_use]
    pub fn cancel_flag(&self) -> &CancelFlag {
        &self.shared.loaded.cancel
    }

    /// Where the parts of a whole answer lie.
    #[must_use]
    pub fn layout(&self) -> AnswerLayout {
        self.shared.loaded.layout
    }
}

impl Model for GpuModel {
    fn name(&self) -> &str {
        NAME
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.shared.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.shared.outputs
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        let shared = Arc::clone(&self.shared);
        let replay = Replay::new(&shared.loaded, &shared.stream)
            .map_err(|why| failed("making an engine", why.to_string()))?;
        Ok(Box::new(GpuEngine { shared, replay }))
    }
}

fn failed(stage: &'static str, reason: String) -> InferError {
    InferError::Backend { model: NAME.to_owned(), stage, reason }
}

/// One worker's graph and memory.
#[derive(Debug)]
struct GpuEngine {
    shared: Arc<Shared>,
    replay: Replay,
}

impl Engine for GpuEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.shared.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.shared.outputs
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        check_buffers(&self.shared.inputs, &self.shared.outputs, inputs, outputs)?;
        let ([input], [output]) = (inputs, outputs) else { return Ok(()) }; // checked
        self.replay.run(input, output).map_err(|why| failed("running", why.to_string()))?;
        if output.iter().all(|&byte| byte == 0xFF) {
            return Err(failed("running", "a bit is set past the request's last detector".to_owned()));
        }
        Ok(())
    }
}
