//! Relay-BP on a device: the whole decode, for the host's dispatcher or the device's own.

use crate::gpu::GpuDispatcher;
use crate::{Inference, Problem};
use ringcall_bp::kernel::{KernelError, SHAPES, Tables, check_config};
use ringcall_bp::{BpConfig, BpGraph};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_gpu_decoders::relay_bp::{Bounds, GpuError, GpuModel, GridHandler};
use ringcall_launch::ring::DeviceError;
use std::sync::Arc;

/// Why a problem cannot be decoded by Relay-BP on a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuRelayError {
    /// The problem is decoded by matching.
    #[error("the problem is decoded by matching, not by Relay-BP")]
    Matching,
    /// The model has an error of probability above one half.
    #[error(
        "the model has an error of a probability above 0.5, which the GPU's Relay-BP does not take: flip what it flips in every shot and \
         give the probability that it does not happen"
    )]
    LikelyError,
    /// The kernel does not support this graph.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no driver, no device, or only a device that the driver cannot use.
    #[error("no GPU: {0}")]
    NoGpu(CudaError),
    /// The device refuses the decoder.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The device's dispatcher cannot be made.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A problem's Relay-BP on a device.
///
/// ```no_run
/// use ringcall_gpu_decoders::relay_bp::Bounds;
/// use ringcall_decoder_service::gpu::GpuRelay;
/// use ringcall_decoder_service::{Pace, Problem, Service, ServiceConfig, ShotSource};
/// use ringcall_qec::circuit::{Code, Experiment};
/// use ringcall_qec::decode::DecoderOptions;
/// use std::time::Duration;
///
/// let model = Experiment { p: 0.003, ..Experiment::of(Code::Bb144) }.detector_error_model()?;
/// let problem = Problem::with_decoder(model, &DecoderOptions::default())?;
/// let relay = GpuRelay::new(&problem, Bounds::default())?;
/// let config = ServiceConfig::default();
/// let service = Service::start_remote_decoder(&problem, relay.dispatchers(config.slots, 1)?, config)?;
/// let pace = Pace { requests: Some(10_000), duration: None, interval: Duration::from_micros(100) };
/// let summary = service.drive(ShotSource::sampled(&problem, 1)?, pace, &mut |_| true)?;
/// assert_eq!(summary.lost(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GpuRelay {
    graph: BpGraph,
    config: BpConfig,
    bounds: Bounds,
    context: Arc<Context>,
}

impl GpuRelay {
    /// Makes the decoder on the first device. A problem that the kernel does not support is refused even without a device.
    ///
    /// # Errors
    /// The problem is not decoded by Relay-BP, the kernel does not support it, or there is no device.
    pub fn new(problem: &Problem, bounds: Bounds) -> Result<Self, GpuRelayError> {
        let (graph, config) = Self::accepted(problem)?;
        let context =
            Driver::load().and_then(|driver| driver.device(0)?.context()).map_err(GpuRelayError::NoGpu)?;
        Ok(Self { graph, config, bounds, context })
    }

    fn accepted(problem: &Problem) -> Result<(BpGraph, BpConfig), GpuRelayError> {
        let factory = problem.relay().ok_or(GpuRelayError::Matching)?;
        if factory.has_likely_errors() {
            return Err(GpuRelayError::LikelyError);
        }
        check_config(factory.graph(), factory.config())?;
        Tables::choose(factory.graph(), &SHAPES)?;
        Ok((factory.graph().clone(), factory.config().clone()))
    }

    /// The decoder's device.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Decoding for the host's dispatcher: a captured graph for each worker. The graphs take turns on the device.
    ///
    /// # Errors
    /// The device cannot run the kernel: see [`GpuModel::new`].
    pub fn inference(&self) -> Result<Inference, GpuRelayError> {
        let model = GpuModel::new(&self.graph, &self.config, &self.context, self.bounds)?;
        Ok(Inference::Decoder(Arc::new(model)))
    }

    /// Decoding as a grid handler, for a dispatcher of the device over the caller's ring.
    ///
    /// # Errors
    /// The device cannot run the kernel: see [`GridHandler::new`].
    pub fn handler(&self) -> Result<GridHandler, GpuRelayError> {
        Ok(GridHandler::new(&self.graph, &self.config, &self.context, self.bounds)?)
    }

    /// The device's own dispatchers, over a ring of `slots` slots: `kernels` kernels, each for an equal part of the slots.
    /// Requests go to each in turn.
    ///
    /// # Errors
    /// The device does not run this many at once (see [`GridHandler::several`]), it maps no memory, or the number of slots does
    /// not divide into whole sectors of four flags.
    pub fn dispatchers(&self, slots: u32, kernels: u32) -> Result<GpuDispatcher, GpuRelayError> {
        let handlers = GridHandler::several(&self.graph, &self.config, &self.context, self.bounds, kernels)?;
        Ok(GpuDispatcher::new(handlers, &self.context, slots)?)
    }
}
