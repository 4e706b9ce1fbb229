//! ONNX models on the CPU, in pure Rust, through [tract](https://github.com/sonos/tract).
//!
//! [`OnnxModel`] loads a file, pins its shapes, optimises the graph for this CPU and shares the result; an engine
//! runs it on one thread, the caller's. Outputs equal those of ONNX Runtime bit for bit where the graph is
//! integer or only adds in one order, and within rounding elsewhere.
//!
//! **It allocates.** tract takes memory for every intermediate tensor of every run. Use it where milliseconds
//! are at stake (a network on a CPU costs that anyway), not on a path that must not allocate.
//!
//! **Shapes.** An engine has static shapes. Dimension 0 of an input is the batch and becomes 1 where the file
//! leaves it open (a symbol, a 0, a -1, nothing at all). Any other open dimension needs a size in
//! [`OnnxOptions`]: a fully convolutional network can then serve any distance and number of rounds.
//!
//! **Limits.** Operators as in tract 0.23 (operator sets 9 to 18 are what it is tested against; newer ones load if
//! their operators are known; older ones are refused); no sparse initialisers, no string tensors, no model-local
//! functions. Element types of inputs and outputs as in [`ElementType`](crate::ElementType).
//!
//! **Damaged files** are an error. What tract itself would answer with a panic is caught and reported as an error
//! too (the panic message still appears on standard error); a program built with `panic = "abort"` loses that.

mod engine;
mod load;
mod proto;

use std::path::Path;
use std::sync::Arc;

use tract_onnx::prelude::TypedSimplePlan;

use crate::{Engine, InferError, Model, TensorSpec};

pub use crate::OnnxOptions;

/// Whether this build has the engine.
pub const BUILT_IN: bool = true;

/// A network from an ONNX file, ready to run on the CPU.
///
/// ```
/// use ringcall_infer::{Model, onnx::{OnnxModel, OnnxOptions}};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fully_convolutional.onnx");
/// // Detectors in, logits out, for any distance and any number of rounds.
/// let options = OnnxOptions::new().with_symbol("rounds", 5).with_symbol("height", 4).with_symbol("width", 4);
/// let model = OnnxModel::load(path, &options)?;
/// assert_eq!(model.inputs()[0].to_string(), "detectors: f32[1, 4, 5, 4, 4]");
///
/// let mut engine = model.instantiate()?; // one per worker
/// let detectors = vec![0u8; model.inputs()[0].size_bytes()];
/// let mut logits = vec![0u8; model.outputs()[0].size_bytes()];
/// engine.run(&[&detectors], &mut [&mut logits])?;
/// # Ok::<(), ringcall_infer::InferError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OnnxModel {
    loaded: Arc<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    name: String,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    metadata: Vec<(String, String)>,
    plan: Arc<TypedSimplePlan>,
}

impl OnnxModel {
    /// Loads a file; the model is named after it. Data in its own files is looked for beside it.
    ///
    /// # Errors
    /// [`InferError::Io`], [`InferError::Malformed`], [`InferError::DynamicDimension`],
    /// [`InferError::UnusedDimension`], [`InferError::UnsupportedOperators`],
    /// [`InferError::UnsupportedElement`], [`InferError::InvalidSpec`], or [`InferError::Backend`] where tract
    /// refuses the graph.
    pub fn load(path: impl AsRef<Path>, options: &OnnxOptions) -> Result<Self, InferError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| InferError::Io { path: path.to_owned(), source })?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let folder = path.parent().and_then(Path::to_str);
        Ok(Self { loaded: Arc::new(load::load(&name, &bytes, folder, options)?) })
    }

    /// Loads a model from memory; one that keeps its data in its own files cannot be.
    ///
    /// # Errors
    /// As [`load`](OnnxModel::load).
    pub fn from_bytes(name: &str, bytes: &[u8], options: &OnnxOptions) -> Result<Self, InferError> {
        Ok(Self { loaded: Arc::new(load::load(name, bytes, None, options)?) })
    }
}

impl Model for OnnxModel {
    fn name(&self) -> &str {
        &self.loaded.name
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.loaded.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.loaded.outputs
    }

    fn metadata(&self) -> &[(String, String)] {
        &self.loaded.metadata
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        Ok(Box::new(engine::OnnxEngine::new(Arc::clone(&self.loaded))?))
    }
}
