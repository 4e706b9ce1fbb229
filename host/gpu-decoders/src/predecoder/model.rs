//! A network on a device, and its engines.

use crate::predecoder::captured::GpuRun;
use crate::predecoder::kernels::Kernels;
use crate::predecoder::launch::{self, BY_KERNELS, Replay};
use crate::predecoder::loaded::GpuError;
use crate::predecoder::{INPUTS, Network, OUTPUTS, Shape, Share, Wiring};
use ringcall_cuda::driver::{Carrier, Context, Lane, LaneKernels, SharedStream, Stream};
use ringcall_infer::{ElementType, Engine, InferError, Model, TensorSpec, check_buffers};
use std::sync::Arc;

/// The network on a device, for one volume.
///
/// Of [`new`](Self::new): input `volume`, `f32[1, 4, layers, d, d]`, of values 0, 0.5 and 1; output `logits`,
/// of the same shape, to the bit what every other engine makes of the network. Values in between are rounded
/// to 16 bits, and what becomes of them is no other agent's. Of [`wired`](Self::wired): input `bits`, the
/// bytes of a request, output `left`, those of an answer, as [`Wiring`] has them.
///
/// Runs of all its engines go one after the other, in the order in which they were started: one run fills the
/// device. Each engine has its own memory, and its thread waits for its own run alone. A run is one launch of
/// a graph: the input goes from pinned host memory to the device, the network works in device memory, the
/// output comes back.
///
/// ```no_run
/// use ringcall_cuda::driver::Driver;
/// use ringcall_infer::Model;
/// use ringcall_gpu_decoders::predecoder::{GpuModel, Network};
///
/// let network = Network::from_onnx(&std::fs::read("predecoder_3x128_int8.onnx")?)?;
/// let context = Driver::load()?.device(0)?.context()?;
/// let model = GpuModel::new("predecoder", &network, &context, 13, 13)?;
/// let mut engine = model.instantiate()?;
/// let volume = vec![0; model.inputs()[0].size_bytes()];
/// let mut logits = vec![0; model.outputs()[0].size_bytes()];
/// engine.run(&[&volume], &mut [&mut logits])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct GpuModel {
    shared: Arc<Shared>,
    metadata: Vec<(String, String)>,
    by_kernels: usize,
}

/// What the engines of a model share.
#[derive(Debug)]
struct Shared {
    name: String,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    context: Arc<Context>,
    kernels: Kernels,
    stream: Arc<SharedStream>,
}

impl GpuModel {
    /// Puts `network` on the device of `context`, for `layers` layers of `d` by `d` cells.
    ///
    /// # Errors
    /// Another device than the kernels are for, a volume that no shape of the kernel has room for, or the driver refuses.
    pub fn new(
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        d: u32,
        layers: u32,
    ) -> Result<Self, GpuError> {
        Self::on(Share::WHOLE, name, network, context, d, layers)
    }

    /// The same on a share of the device.
    ///
    /// # Errors
    /// As for [`new`](Self::new), of the share.
    pub fn on(
        share: Share,
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        d: u32,
        layers: u32,
    ) -> Result<Self, GpuError> {
        let kernels = Kernels::load(share, network, context, [d, layers], None)?;
        let shape = |channels| vec![1, channels, layers as usize, d as usize, d as usize];
        let inputs = vec![TensorSpec::new("volume", ElementType::F32, shape(INPUTS))?];
        let outputs = vec![TensorSpec::new("logits", ElementType::F32, shape(OUTPUTS))?];
        Self::around(name, network, context, kernels, inputs, outputs)
    }

    /// The same between bits: as few bytes as possible cross the bus, and decisions are applied on the device.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn wired(
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        wiring: &Wiring,
    ) -> Result<Self, GpuError> {
        Self::wired_on(Share::WHOLE, name, network, context, wiring)
    }

    /// The same on a share of the device.
    ///
    /// # Errors
    /// As for [`new`](Self::new), of the share.
    pub fn wired_on(
        share: Share,
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        wiring: &Wiring,
    ) -> Result<Self, GpuError> {
        let volume = [wiring.d, wiring.layers];
        let kernels = Kernels::load(share, network, context, volume, Some(wiring))?;
        let bytes = |name, n| TensorSpec::new(name, ElementType::U8, [1, n]);
        let inputs = vec![bytes("bits", wiring.request_bytes())?];
        let outputs = vec![bytes("left", wiring.answer_bytes())?];
        Self::around(name, network, context, kernels, inputs, outputs)
    }

    fn around(
        name: &str,
        network: &Network,
        context: &Arc<Context>,
        kernels: Kernels,
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
    ) -> Result<Self, GpuError> {
        let shared = Shared {
            name: name.to_owned(),
            inputs,
            outputs,
            context: Arc::clone(context),
            kernels,
            stream: Arc::new(SharedStream::new(context)?),
        };
        Ok(Self { shared: Arc::new(shared), metadata: network.metadata().to_vec(), by_kernels: BY_KERNELS })
    }

    /// The same, for engines whose tensors cross the bus by a kernel of the graph where they have up to `bytes` bytes, and by
    /// the device's copy engines where they have more: `0` and `usize::MAX` are always one of them. Which is faster is the
    /// machine's; what comes out is the same. Without this the bound is 512 KiB.
    #[must_use]
    pub fn carried_by_kernels(mut self, bytes: usize) -> Self {
        self.by_kernels = bytes;
        self
    }

    /// Whether a block of the kernel gave up a wait, so that an answer of a [wired](Self::wired) model is none.
    #[must_use]
    pub fn gave_up(answer: &[u8]) -> bool {
        // The frame's byte has bits beside the frame: `GAVE_UP` in `kernels-cu/predecoder/bits.h`.
        answer.last().is_none_or(|&frame| frame > 1)
    }

    /// The device that it is on.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    /// A run with its own tensors.
    ///
    /// # Errors
    /// No memory, or the driver refuses.
    pub fn run_between_tensors(&self) -> Result<GpuRun, GpuError> {
        let Shared { context, kernels, inputs, outputs, .. } = &*self.shared;
        GpuRun::new(context, kernels, inputs, outputs)
    }

    /// One worker's graph on a stream, for a dispatcher to launch: the network between the two ends of a [`Lane`], which raises the
    /// worker's ready flag. The run is there to be [reset](GpuRun::reset) after an answer that a block [gave up](Self::gave_up).
    ///
    /// Lanes on one stream take turns. Of lanes on several streams each stream needs a [share](crate::predecoder::Share) of the device to itself.
    /// `by` says how input and output cross the bus; without it the faster way by size is taken.
    ///
    /// # Errors
    /// No memory, or the driver refuses.
    pub fn lane(
        &self,
        kernels: &LaneKernels,
        stream: &Arc<Stream>,
        by: Option<[Carrier; 2]>,
    ) -> Result<(Lane, Arc<GpuRun>), GpuError> {
        let bytes = [self.inputs(), self.outputs()].map(launch::bytes);
        let mut lane = Lane::with_room(kernels, stream, bytes)?;
        let run = self.add_to_lane(&mut lane, by)?;
        Ok((lane, run))
    }

    /// The network as one more shape of a lane, whose number is the lane's next: of several volumes of one network, or of several
    /// networks, a request's length may choose.
    ///
    /// # Errors
    /// More bytes than the lane has room for, no memory, or the driver refuses.
    pub fn add_to_lane(&self, lane: &mut Lane, by: Option<[Carrier; 2]>) -> Result<Arc<GpuRun>, GpuError> {
        let run = Arc::new(self.run_between_tensors()?);
        launch::add_to_lane(&run, self.clone(), lane, by)?;
        Ok(run)
    }

    /// How the work of one kernel that has all layers is spread over the device; `None` where each layer has a launch.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        match &self.shared.kernels {
            Kernels::Fused(_, loaded) => Some(loaded.plan.shape),
            Kernels::Layers(_) => None,
        }
    }
}

impl Model for GpuModel {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.shared.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.shared.outputs
    }

    fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        let shared = Arc::clone(&self.shared);
        let replay = Replay::new(
            &shared.context,
            &shared.kernels,
            [&shared.inputs, &shared.outputs],
            &shared.stream,
            self.by_kernels,
        )
        .map_err(|why| shared.failed("making an engine", why.to_string()))?;
        Ok(Box::new(GpuEngine { shared, replay }))
    }
}

impl Shared {
    fn failed(&self, stage: &'static str, reason: String) -> InferError {
        InferError::Backend { model: self.name.clone(), stage, reason }
    }
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
        let shared = &*self.shared;
        check_buffers(&shared.inputs, &shared.outputs, inputs, outputs)?;
        let ([input], [output]) = (inputs, outputs) else { return Ok(()) }; // checked
        match self.replay.run(input, output) {
            Ok(None) => Ok(()),
            Ok(Some(which)) => Err(shared.failed("running", format!("wait {which} of the kernel ran out"))),
            Err(why) => Err(shared.failed("running", why.to_string())),
        }
    }
}
