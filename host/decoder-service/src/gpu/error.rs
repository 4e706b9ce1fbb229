//! Errors of a predecoder on a GPU.

use crate::PredecoderError;
use ringcall_cuda::CudaError;
use ringcall_launch::ring::DeviceError;
use ringcall_predecoder::{GpuError, NetworkError, WiringError};
use ringcall_qec::QecError;

/// Why there is no predecoder on a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuPredecoderError {
    /// No driver, no device, or one that the driver cannot use.
    #[error("no GPU: {0}")]
    NoGpu(CudaError),
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The network is another than the kernels are made for.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The experiment does not exist.
    #[error(transparent)]
    Experiment(#[from] QecError),
    /// There is no threshold.
    #[error(transparent)]
    Predecoder(#[from] PredecoderError),
    /// Detectors and cells do not go together.
    #[error(transparent)]
    Wiring(#[from] WiringError),
    /// The device refuses the network.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The device's dispatcher cannot be made.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The network cannot be an engine of services.
    #[error(transparent)]
    Service(#[from] ringcall_inference_service::ServiceError),
}
