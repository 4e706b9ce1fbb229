//! TensorRT as an inference engine: plans from ONNX files, a cache of them, engines over captured CUDA graphs.
//!
//! TensorRT's interface is C++, and its classes differ from release to release. So a small shim (`shim/`) is
//! compiled on the machine that runs it, against the headers that the user has, when a library is opened for
//! the first time; from then on it is kept. Nothing of NVIDIA's is needed to build this crate, nor handed out
//! with it: library and headers are the user's own, and a missing part is said in one line.
//!
//! | what | type |
//! |---|---|
//! | where library and headers are | [`Search`] |
//! | a library: TensorRT 10 or 11, its lean runtime, or TensorRT-RTX 1 | [`Library`] |
//! | from ONNX to a plan | [`Builder`], [`BuildOptions`], [`Plan`] |
//! | plans kept by what they were made of | [`Cache`] |
//! | from a plan to an engine | [`Runtime`], [`Engine`] |
//! | an engine as a [`Model`](ringcall_infer::Model) like any other | [`TensorRtModel`] |
//! | one run as part of another graph, of a service say | [`TensorRtRun`] |
//!
//! What was run where is in `docs/tensorrt.md`: execution was not, for want of a library that runs on the GPU at hand.
//!
//! ```no_run
//! use ringcall_cuda::driver::Driver;
//! use ringcall_infer::Model;
//! use ringcall_tensorrt::{BuildOptions, Cache, Library, Search, TensorRtModel};
//!
//! let library = Library::open(&Search::new())?;
//! let context = Driver::load()?.device(0)?.context()?;
//! let onnx = std::fs::read("predecoder.onnx")?;
//! let options = BuildOptions::new().with_symbol("rounds", 13);
//! let model = TensorRtModel::load(&library, &context, "predecoder", &onnx, &options, Some(&Cache::user()?))?;
//! let mut engine = model.instantiate()?; // one per worker: its own context, memory and graph
//! let inputs: Vec<Vec<u8>> = model.inputs().iter().map(|spec| vec![0; spec.size_bytes()]).collect();
//! let mut outputs: Vec<Vec<u8>> = model.outputs().iter().map(|spec| vec![0; spec.size_bytes()]).collect();
//! let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
//! let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
//! engine.run(&inputs, &mut outputs)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod builder;
mod cache;
mod captured;
mod engine;
mod error;
mod ffi;
mod folder;
mod library;
mod model;
mod onnx;
mod options;
mod replay;
mod search;
mod shim;
mod tensors;
mod version;

pub use builder::{Builder, Plan};
pub use cache::{Cache, Cached, Found, Gpu};
pub use captured::TensorRtRun;
pub use engine::{Engine, Runtime};
pub use error::TensorRtError;
pub use ffi::{Message, Severity};
pub use library::Library;
pub use model::TensorRtModel;
pub use options::{BuildOptions, Precision, Sizes};
pub use search::{INCLUDE_VARIABLE, LIBRARY_VARIABLE, Search};
pub use tensors::TensorInfo;
pub use version::{Product, Version};
