//! Inference engines behind one trait: ONNX on the CPU, pass-through.
//!
//! A [`Model`] is loaded once and shared; each worker takes its own [`Engine`] from it and calls
//! [`Engine::run`] on packed bytes. Everything about the tensors is fixed when the model is loaded: names,
//! element types and static shapes ([`TensorSpec`]), with the batch pinned to 1. So a caller sizes its buffers
//! once and the hot path only moves bytes.
//!
//! | engine | feature | allocates per run | for |
//! |---|---|---|---|
//! | [`onnx::OnnxModel`] | `onnx`; without it every file is refused | yes, inside tract | networks without a GPU, and the reference for other engines |
//! | [`Passthrough`] | always | no | measuring everything around the network |
//!
//! An engine of your own implements [`Model`] and [`Engine`] and calls [`check_buffers`] first in `run`; the
//! feature `testing` has the `conformance` suite that every engine here passes. One that reads ONNX files gives open
//! dimensions their sizes as the others do, by [`pin::inputs`], and looks into them, if it must, with `onnx_file` (a feature). A model that can do more than
//! run on host memory (record itself into a CUDA graph, say) offers that on its own type, and a caller reaches it
//! with `(model as &dyn Any).downcast_ref::<ThatModel>()`: [`Model`] and [`Engine`] are [`Any`](std::any::Any).
//!
//! # Buffers
//!
//! Bytes, tightly packed, row-major, little-endian, in the order of [`Model::inputs`] and [`Model::outputs`];
//! any alignment. A boolean is one byte, 0 or 1, and another value is refused. Engines do not inspect floats: NaN and
//! infinities go through the network, and what decides by an output calls [`check_finite`] first.
//!
//! ```
//! use ringcall_infer::{ElementType, Model, Passthrough, TensorSpec};
//!
//! let model = Passthrough::new("echo", vec![TensorSpec::new("measurements", ElementType::I32, [1, 72, 7])?])?;
//! let mut engine = model.instantiate()?;
//! let request = vec![1u8; model.inputs()[0].size_bytes()];
//! let mut answer = vec![0u8; model.outputs()[0].size_bytes()];
//! engine.run(&[&request], &mut [&mut answer])?;
//! assert_eq!(request, answer);
//! # Ok::<(), ringcall_infer::InferError>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("buffers are little-endian and are handed to the engines as they are");

#[cfg(feature = "testing")]
pub mod conformance;
mod engine;
mod error;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(not(feature = "onnx"))]
#[path = "onnx_absent.rs"]
pub mod onnx;
#[cfg(feature = "onnx-file")]
pub mod onnx_file;
#[cfg(feature = "onnxruntime")]
pub mod onnxruntime;
mod options;
mod passthrough;
pub mod pin;
mod tensor;

pub use engine::{Engine, Model, check_buffers, check_finite};
pub use error::{Direction, FileError, InferError};
pub use options::OnnxOptions;
pub use passthrough::Passthrough;
pub use tensor::{ElementType, MAX_TENSOR_BYTES, TensorSpec};
