//! Predecoder networks in Ringcall's kernels on the first GPU.

use super::NetworkFile;
use anyhow::{Context, Result};
use ringcall_cuda::driver as cuda;
use ringcall_decoder_service::gpu::{GpuPredecoder, GpuPredecoderError};
use ringcall_gpu_decoders::predecoder::Network;
use ringcall_qec::circuit::MemoryExperiment;
use std::sync::Arc;

/// A network that suits the kernels, and the device.
#[derive(Debug, Clone)]
pub(crate) struct OnGpu {
    name: String,
    network: Network,
    context: Arc<cuda::Context>,
}

impl OnGpu {
    /// The network is read first, so that an unsuitable one is refused even without a device.
    pub(crate) fn open(file: &NetworkFile) -> Result<Self> {
        let network = Network::from_onnx(file.bytes()).with_context(|| file.to_string())?;
        Self::with(file, network)
    }

    /// A network for the device's dispatcher, which runs it as one kernel.
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

    pub(crate) fn bind(
        &self,
        experiment: &MemoryExperiment,
        threshold: Option<f32>,
    ) -> Result<GpuPredecoder> {
        Ok(GpuPredecoder::new(&self.name, self.network.clone(), experiment, threshold, &self.context)?)
    }
}
