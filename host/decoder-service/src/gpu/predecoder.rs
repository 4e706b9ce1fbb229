//! A network bound to an experiment, on a device.

use crate::gpu::{Copies, GpuDispatcher, GpuLanes, GpuPredecoderError};
use crate::{Inference, Predecoder};
use ringcall::RingConfig;
use ringcall::wire::header::HEADER_BYTES;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_gpu_decoders::predecoder::{GpuModel, GridHandler, Network, Share, Wiring};
use ringcall_inference_service::{AiDecoderService, PredecoderEngine, ServiceOptions};
use ringcall_launch::ring::MappedRing;
use ringcall_qec::circuit::MemoryExperiment;
use ringcall_qec::predecoder::PredecoderVolume;
use std::path::Path;
use std::sync::Arc;

/// The cell of each detector in the network's input, and the detectors and the logical frame that each decision flips.
///
/// # Errors
/// An experiment out of range, or a threshold that is not finite.
///
/// ```
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// let noise = CircuitNoise::uniform(0.003);
/// let experiment = MemoryExperiment { distance: 13, rounds: 13, basis: Basis::Z, noise };
/// let wiring = ringcall_decoder_service::gpu::wiring(&experiment, 0.5)?;
/// assert_eq!((wiring.bits(), wiring.request_bytes(), wiring.answer_bytes()), (2184, 273, 274));
/// # Ok::<(), ringcall_decoder_service::gpu::GpuPredecoderError>(())
/// ```
pub fn wiring(experiment: &MemoryExperiment, threshold: f32) -> Result<Wiring, GpuPredecoderError> {
    let MemoryExperiment { distance, rounds, basis, .. } = *experiment;
    let volume = PredecoderVolume::new(distance, rounds, basis)?;
    let flipped_by = |detector: usize| volume.residual_cells(detector);
    let wiring = Wiring::new(
        distance,
        rounds + 1,
        volume.maps(),
        volume.places(),
        flipped_by,
        volume.frame_cells(),
        threshold,
    )?;
    Ok(wiring)
}

/// A network for one memory experiment, on a device: for the host's dispatcher or the device's own.
///
/// ```no_run
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// use ringcall_decoder_service::{Pace, Problem, Service, ServiceConfig, ShotSource};
/// use ringcall_decoder_service::gpu::GpuPredecoder;
/// use std::time::Duration;
///
/// let noise = CircuitNoise::uniform(0.003);
/// let experiment = MemoryExperiment { distance: 13, rounds: 13, basis: Basis::Z, noise };
/// let predecoder = GpuPredecoder::load("training/models/predecoder_3x128_int8.onnx", &experiment, None)?;
/// let problem = Problem::new(experiment.detector_error_model()?)?;
/// let config = ServiceConfig { workers: 4, ..ServiceConfig::default() };
/// let service = Service::start_remote(&problem, predecoder.dispatcher(config.slots)?, config)?;
/// let pace = Pace { requests: Some(10_000), duration: None, interval: Duration::from_micros(30) };
/// let summary = service.drive(ShotSource::sampled(&problem, 1)?, pace, &mut |_| true)?;
/// assert_eq!(summary.lost(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GpuPredecoder {
    name: String,
    network: Network,
    wiring: Wiring,
    threshold: f32,
    context: Arc<Context>,
}

impl GpuPredecoder {
    /// The network of an ONNX file, on the first device.
    ///
    /// # Errors
    /// No device, and as [`new`](Self::new).
    pub fn load(
        path: impl AsRef<Path>,
        experiment: &MemoryExperiment,
        threshold: Option<f32>,
    ) -> Result<Self, GpuPredecoderError> {
        let path = path.as_ref();
        let named = |source| GpuPredecoderError::File { path: path.display().to_string(), source };
        let network = Network::from_onnx(&std::fs::read(path).map_err(named)?)?;
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let context = Driver::load()
            .and_then(|driver| driver.device(0)?.context())
            .map_err(GpuPredecoderError::NoGpu)?;
        Self::new(&name, network, experiment, threshold, &context)
    }

    /// Binds a network to an experiment. Without a given threshold, the network's metadata supplies the one of the nearest noise
    /// and distance.
    ///
    /// # Errors
    /// The experiment is out of range, or there is no threshold.
    pub fn new(
        name: &str,
        network: Network,
        experiment: &MemoryExperiment,
        threshold: Option<f32>,
        context: &Arc<Context>,
    ) -> Result<Self, GpuPredecoderError> {
        let threshold = Predecoder::threshold_of(name, network.metadata(), experiment, threshold)?;
        let wiring = wiring(experiment, threshold)?;
        Ok(Self { name: name.to_owned(), network, wiring, threshold, context: Arc::clone(context) })
    }

    /// The threshold in use.
    #[must_use]
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    /// The network's device.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// An engine for [services](ringcall_inference_service), of `instances` instances at once: bit-packed detectors in, residual
    /// and logical frame bit-packed out, for [`MatchingStage`](crate::gpu::MatchingStage). Each instance has an equal part of the
    /// device.
    ///
    /// # Errors
    /// A part of the device cannot run the network: see [`GpuModel::new`].
    pub fn engine(&self, instances: u32) -> Result<PredecoderEngine, GpuPredecoderError> {
        Ok(PredecoderEngine::wired(&self.name, &self.network, &self.context, &self.wiring, instances)?)
    }

    /// Inference for the host's dispatcher: a captured graph for each worker. The graphs take turns on the device.
    ///
    /// # Errors
    /// The device cannot run the network: see [`GpuModel::new`].
    pub fn inference(&self) -> Result<Inference, GpuPredecoderError> {
        let model = GpuModel::wired(&self.name, &self.network, &self.context, &self.wiring)?;
        Ok(Inference::Packed(Arc::new(model)))
    }

    /// Inference for the host's dispatcher, which launches a worker's graph on the worker's stream; the graph's last node raises
    /// the worker's ready flag. Each of `streams` streams has an equal part of the device, so that as many graphs run at once;
    /// workers are assigned to streams in turn. `slots` is the number of the ring's slots, which [`Copies::Hook`] needs.
    ///
    /// # Errors
    /// A part of the device cannot run the network (see [`GpuModel::new`]), or the device maps no memory.
    pub fn launched(
        &self,
        streams: u32,
        copies: Copies,
        slots: u32,
    ) -> Result<Inference, GpuPredecoderError> {
        let share = Share::WHOLE.one_of(streams.max(1));
        let model = GpuModel::wired_on(share, &self.name, &self.network, &self.context, &self.wiring)?;
        self.over_lanes(GpuLanes::new(model, streams, copies)?, copies, slots)
    }

    /// As [`launched`](Self::launched), with a copy in the network's place: detectors come back unchanged, and no frame flips.
    /// This times everything around the network.
    ///
    /// # Errors
    /// The driver refuses, or the device maps no memory.
    pub fn launched_without(
        &self,
        streams: u32,
        copies: Copies,
        slots: u32,
    ) -> Result<Inference, GpuPredecoderError> {
        let bytes = [self.wiring.request_bytes(), self.wiring.answer_bytes()];
        self.over_lanes(GpuLanes::without_network(&self.context, bytes, streams, copies)?, copies, slots)
    }

    fn over_lanes(
        &self,
        mut lanes: GpuLanes,
        copies: Copies,
        slots: u32,
    ) -> Result<Inference, GpuPredecoderError> {
        if copies == Copies::Hook {
            let slot_bytes = HEADER_BYTES + self.wiring.answer_bytes().max(self.wiring.request_bytes()) + 64;
            let slot_bytes = u32::try_from(slot_bytes.next_multiple_of(8)).unwrap_or(u32::MAX);
            lanes = lanes.over(&MappedRing::allocate(&self.context, RingConfig { slots, slot_bytes })?);
        }
        Ok(Inference::Launched(Arc::new(lanes)))
    }

    /// The device's own dispatcher, over a ring of `slots` slots. It has the whole device while it runs.
    ///
    /// # Errors
    /// The device cannot run the network (see [`GpuModel::new`]), or the device maps no memory.
    pub fn dispatcher(&self, slots: u32) -> Result<GpuDispatcher, GpuPredecoderError> {
        self.dispatchers(slots, 1)
    }

    /// The same in `kernels` kernels, each on an equal part of the device and for an equal part of the slots. Requests go to each
    /// in turn: more requests per second, each of which takes longer. At small distances one kernel leaves most of the device
    /// idle.
    ///
    /// # Errors
    /// As for [`dispatcher`](Self::dispatcher), for a part of the device; and a number of slots that does not divide into whole
    /// sectors of four flags.
    pub fn dispatchers(&self, slots: u32, kernels: u32) -> Result<GpuDispatcher, GpuPredecoderError> {
        let handlers = GridHandler::several(&self.network, &self.context, &self.wiring, kernels)?;
        Ok(GpuDispatcher::new(handlers, &self.context, slots)?)
    }

    /// The device's own dispatcher, which launches a graph of the network for each request: a dispatch graph over a ring of
    /// `slots` slots, and `instances` graphs at once, each on an equal part of the device.
    ///
    /// # Errors
    /// A part of the device cannot run the network (see [`GpuModel::new`]), `libcudadevrt.a` for device launches is missing, or
    /// the device maps no memory.
    pub fn graph_dispatcher(&self, slots: u32, instances: u32) -> Result<GpuDispatcher, GpuPredecoderError> {
        let options = ServiceOptions { instances, ..ServiceOptions::default() };
        let service = AiDecoderService::new(&self.engine(instances)?, &options)?;
        Ok(GpuDispatcher::new(vec![service], &self.context, slots)?)
    }
}
