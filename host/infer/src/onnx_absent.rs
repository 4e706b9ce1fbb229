//! ONNX models on the CPU, in a build without the engine that runs them: every file is refused, with a line that says so.
//!
//! The engine is the feature `onnx`. Programs need no `cfg`: names and types are those of the engine.

use std::convert::Infallible;
use std::path::Path;

use crate::{Engine, InferError, Model, TensorSpec};

pub use crate::OnnxOptions;

/// Whether this build has the engine.
pub const BUILT_IN: bool = false;

/// A network from an ONNX file, of which there is none in this build.
#[derive(Clone, Debug)]
pub struct OnnxModel {
    none: Infallible,
}

impl OnnxModel {
    /// Refuses the file.
    ///
    /// # Errors
    /// [`InferError::NotBuiltIn`], always.
    pub fn load(path: impl AsRef<Path>, _options: &OnnxOptions) -> Result<Self, InferError> {
        Err(InferError::NotBuiltIn { model: path.as_ref().display().to_string() })
    }

    /// Refuses the bytes.
    ///
    /// # Errors
    /// [`InferError::NotBuiltIn`], always.
    pub fn from_bytes(name: &str, _bytes: &[u8], _options: &OnnxOptions) -> Result<Self, InferError> {
        Err(InferError::NotBuiltIn { model: name.to_owned() })
    }
}

impl Model for OnnxModel {
    fn name(&self) -> &str {
        match self.none {}
    }

    fn inputs(&self) -> &[TensorSpec] {
        match self.none {}
    }

    fn outputs(&self) -> &[TensorSpec] {
        match self.none {}
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        match self.none {}
    }
}
