//! A network in our own kernels, on the first GPU.

use super::NetworkFile;
use anyhow::{Context, Result};
use ringcall_cuda::driver as cuda;
use ringcall_decoder_service::gpu::{GpuPredecoder, GpuPredecoderError};
use ringcall_predecoder::Network;
use ringcall_qec::circuit::MemoryExperiment;
use std::sync::Arc;

/// A network that the kernels are made for, and the device that it is for.
#[derive(Debug, Clone)]
pub(crate) struct OnGpu {
    name: String,
    network: Network,
    context: Arc<cuda::Context>,
}

impl OnGpu {
    /// The network first: another one than the kernels are made for is refused without a device, too.
    pub(crate) fn open(file: &NetworkFile) -> Result<Self> {
        let network = Network::from_onnx(file.bytes()).with_context(|| file.to_string())?;
        Self::with(file, network)
    }

    /// A network for the device's dispatcher, which has one kernel.
    pub(crate) fn open_for_dispatcher(file: &NetworkFile) -> Result<Self> {
        let network = Network::from_onnx(file.bytes()).with_context(|| file.to_string())?;
        network.check_one_kernel().with_context(|| file.to_string())?;
        Self::with(file, network)
    }

    fn with(file: &NetworkFile, network: Network) -> Result<Self> {
        let context = cuda::Driver::load()
            .and_then(|driver| driver.device(0)?.context())
            .map_err(GpuPredecoderError::NoGpu)
            .context("--engine gpu needs a GPU (`ringcall doctor` says what is missing)")?;
        Ok(Self { name: file.name().to_owned(), network, context })
    }

    /// Bound to an experiment.
    pub(crate) fn bind(
        &self,
        experiment: &MemoryExperiment,
        threshold: Option<f32>,
    ) -> Result<GpuPredecoder> {
        Ok(GpuPredecoder::new(&self.name, self.network.clone(), experiment, threshold, &self.context)?)
    }
}
