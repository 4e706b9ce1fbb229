//! Errors of inference, with remedies.

use std::fmt;
use std::path::PathBuf;

/// Which side of a model a buffer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read by the engine.
    Input,
    /// Written by the engine.
    Output,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// Why bytes are no ONNX file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// They cannot be decoded.
    #[error("{0}; the file is cut short, or not ONNX")]
    NotOnnx(String),
    /// Nothing is computed.
    #[error("it contains no graph; the file is empty, cut short, or not ONNX")]
    NoGraph,
}

impl FileError {
    /// As an error of this model.
    #[must_use]
    pub fn of(self, model: &str) -> InferError {
        InferError::Malformed { model: model.to_owned(), reason: self.to_string() }
    }
}

/// Everything loading or running a model can report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// The number of buffers differs from the number of tensors.
    #[error("the model has {expected} {direction} tensor(s), {got} buffer(s) were given")]
    BufferCount {
        /// Inputs or outputs.
        direction: Direction,
        /// Tensors of the model.
        expected: usize,
        /// Buffers given.
        got: usize,
    },
    /// A buffer's length differs from the tensor's.
    #[error("{direction} `{tensor}` takes {expected} bytes, the buffer has {got}")]
    BufferSize {
        /// Inputs or outputs.
        direction: Direction,
        /// The tensor, with type and shape.
        tensor: String,
        /// Bytes of the tensor.
        expected: usize,
        /// Bytes of the buffer.
        got: usize,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("input `{tensor}`: element {index} is {value}, a boolean is 0 or 1")]
    InvalidBool {
        /// The tensor.
        tensor: String,
        /// Position of the first offender.
        index: usize,
        /// Its value.
        value: u8,
    },
    /// A float that is NaN or infinite, which decides nothing.
    #[error("output `{tensor}`: element {index} is not a finite number")]
    NotFinite {
        /// The tensor.
        tensor: String,
        /// Position of the first offender.
        index: usize,
    },
    /// A tensor that cannot be described: see the reason.
    #[error("tensor `{name}` cannot be used: {reason}")]
    InvalidSpec {
        /// The tensor.
        name: String,
        /// The fault that was found.
        reason: String,
    },
    /// The file could not be read.
    #[error("cannot read the model {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes are no model, or a damaged one.
    #[error("`{model}` is no usable ONNX model: {reason}")]
    Malformed {
        /// The model.
        model: String,
        /// The fault that was found.
        reason: String,
    },
    /// A dimension other than the batch is not static.
    #[error(
        "`{model}`: dimension {axis} of `{tensor}` is dynamic ({dimension}); only the batch is pinned to 1 by \
         itself. Give this one a size (OnnxOptions::with_symbol, with_axis), or export the model with static shapes"
    )]
    DynamicDimension {
        /// The model.
        model: String,
        /// The tensor.
        tensor: String,
        /// Which dimension, outermost 0.
        axis: usize,
        /// Its symbol, or how it is written.
        dimension: String,
    },
    /// A size was given for a dimension that the model does not have, or has with another size.
    #[error("`{model}`: the size given for {dimension} does not apply: {reason}")]
    UnusedDimension {
        /// The model.
        model: String,
        /// The symbol or axis named.
        dimension: String,
        /// Why, and what there is.
        reason: String,
    },
    /// Operators that the engine does not have.
    #[error("`{model}` uses operators this engine does not have: {operators}")]
    UnsupportedOperators {
        /// The model.
        model: String,
        /// The operators, each with the first node that uses it.
        operators: String,
    },
    /// An input or output type that is not an [`ElementType`](crate::ElementType).
    #[error("`{model}`: `{tensor}` is {found}; supported are f32, f16, i32, i64, u8 and bool")]
    UnsupportedElement {
        /// The model.
        model: String,
        /// The tensor.
        tensor: String,
        /// What it is.
        found: String,
    },
    /// This build has no engine that runs ONNX models on the CPU.
    #[error("`{model}`: this build has no engine that runs ONNX models on the CPU; it is the feature `onnx`")]
    NotBuiltIn {
        /// The model.
        model: String,
    },
    /// The engine could not build or run the model.
    #[error("`{model}`: {stage} failed: {reason}")]
    Backend {
        /// The model.
        model: String,
        /// What was being done.
        stage: &'static str,
        /// The engine's own words.
        reason: String,
    },
}
