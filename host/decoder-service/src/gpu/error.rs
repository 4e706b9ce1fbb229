//! Errors of a GPU predecoder.

use crate::PredecoderError;
use ringcall_cuda::CudaError;
use ringcall_gpu_decoders::predecoder::{GpuError, NetworkError, WiringError};
use ringcall_launch::ring::DeviceError;
use ringcall_qec::QecError;

/// Why a GPU predecoder cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuPredecoderError {
    /// There is no driver, no device, or only a device that the driver cannot use.
    #[error("no GPU: {0}")]
    NoGpu(CudaError),
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The kernels do not support the network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The experiment does not exist.
    #[error(transparent)]
    Experiment(#[from] QecError),
    /// There is no threshold.
    #[error(transparent)]
    Predecoder(#[from] PredecoderError),
    /// Detectors and cells do not match.
    #[error(transparent)]
    Wiring(#[from] WiringError),
    /// The device refuses the network.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The device's dispatcher cannot be made.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Services cannot use the network as an engine.
    #[error(transparent)]
    Service(#[from] ringcall_inference_service::ServiceError),
}
