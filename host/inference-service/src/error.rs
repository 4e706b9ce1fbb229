//! Errors of creating a service.

use ringcall_cuda::CudaError;
use ringcall_infer::InferError;
use ringcall_launch::ring::DeviceError;

/// Why a service cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The device's side of the service.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The engine's tensors.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// The engine itself.
    #[error("engine `{engine}`: {reason}")]
    Engine {
        /// Its name.
        engine: String,
        /// What it says.
        reason: String,
    },
    /// A model's file, or the engine that is built of it.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the system says, or why it is not used.
        reason: String,
    },
    /// TensorRT.
    #[cfg(feature = "tensorrt")]
    #[error(transparent)]
    TensorRt(Box<ringcall_tensorrt::TensorRtError>),
    /// A name that no tensor has.
    #[error("engine `{engine}` has no {what} `{name}`; it has {known}")]
    NoTensor {
        /// The engine.
        engine: String,
        /// `input` or `output`.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// One tensor chosen twice.
    #[error("{what} `{name}` of engine `{engine}` is chosen twice")]
    Twice {
        /// The engine.
        engine: String,
        /// `input` or `output`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No tensor, or more than a request or an answer can have.
    #[error("{count} {what}s of engine `{engine}` are chosen; a service has 1 to {max}", max = ringcall_wire::handoff::MAX_TENSORS)]
    HowMany {
        /// The engine.
        engine: String,
        /// `input` or `output`.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// Data of another length than the tensor's.
    #[error("{found} bytes for tensor `{name}`, which has {expected}")]
    Length {
        /// The tensor.
        name: String,
        /// Given.
        found: usize,
        /// The tensor's.
        expected: usize,
    },
    /// More instances than may run at once.
    #[error("{instances} instances of engine `{engine}`, of which {most} may run at the same time")]
    Instances {
        /// The engine.
        engine: String,
        /// Asked for.
        instances: u32,
        /// The engine's limit.
        most: u32,
    },
    /// A combination that cannot be.
    #[error("{0}")]
    Shape(String),
    /// A thread that did not start.
    #[error("starting worker {worker}: {reason}")]
    Thread {
        /// Which.
        worker: usize,
        /// What the system says.
        reason: std::io::Error,
    },
}

#[cfg(feature = "tensorrt")]
impl From<ringcall_tensorrt::TensorRtError> for ServiceError {
    fn from(why: ringcall_tensorrt::TensorRtError) -> Self {
        Self::TensorRt(Box::new(why))
    }
}
