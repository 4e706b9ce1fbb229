//! A model's file, and what computes it.

use crate::TensorSpec;

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecutionProvider {
    /// The CPU, with so many threads a session, the caller's among them; 0 for as many as there are cores.
    Cpu {
        /// Threads.
        threads: usize,
    },
    /// CUDA, on this device. It takes a build of ONNX Runtime with it and the CUDA and cuDNN libraries that it is for;
    /// without them loading a model fails, and nothing falls back to the CPU. 32-bit arithmetic stays that (no TF32).
    Cuda {
        /// The device's number.
        device: i32,
    },
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) provider: ExecutionProvider,
    /// Sizes by symbol, for the session to know.
    pub(crate) symbols: Vec<(String, i64)>,
    pub(crate) inputs: Vec<TensorSpec>,
    pub(crate) outputs: Vec<TensorSpec>,
    pub(crate) metadata: Vec<(String, String)>,
}
