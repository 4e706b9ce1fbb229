//! ONNX models in ONNX Runtime, on the CPU or by CUDA.
//!
//! Nothing of ONNX Runtime is needed to build: its shared library is loaded when [`Runtime::load`] is called, from a path,
//! from where `ORT_DYLIB_PATH` says, or by its name from where the system looks. Any build from 1.17 on will do, as in the
//! releases of ONNX Runtime or in the Python packages `onnxruntime` and `onnxruntime-gpu` (`capi/libonnxruntime.so.*`).
//! A process has one: a second path is refused.
//!
//! An [`OrtModel`] is a [`Model`](crate::Model) like any other, with the shapes pinned as those of
//! [`OnnxOptions`](crate::OnnxOptions) say; a size of 0 in a file, which other engines take for an open one,
//! is refused. Each engine has its own session. A run takes memory inside ONNX Runtime, for outputs.
//!
//! ```no_run
//! use ringcall_infer::{Model, OnnxOptions};
//! use ringcall_infer::onnxruntime::{OrtModel, ExecutionProvider, Runtime};
//!
//! let runtime = Runtime::load(None)?;
//! let options = OnnxOptions::new().with_symbol("layers", 8).with_symbol("height", 7).with_symbol("width", 7);
//! let model = OrtModel::load(&runtime, "predecoder_3x128.onnx", &options, ExecutionProvider::Cpu { threads: 1 })?;
//! let mut engine = model.instantiate()?;
//! let volume = vec![0; model.inputs()[0].size_bytes()];
//! let mut logits = vec![0; model.outputs()[0].size_bytes()];
//! engine.run(&[&volume], &mut [&mut logits])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod engine;
mod file;
mod model;
mod runtime;
mod tensor;

pub use file::ExecutionProvider;
pub use model::OrtModel;
pub use runtime::{LIBRARY_VARIABLE, OLDEST_MINOR, Runtime, RuntimeError};
