//! Errors of TensorRT, with remedies.

use crate::Version;
use ringcall_cuda::CudaError;
use ringcall_infer::InferError;
use std::path::PathBuf;

/// Why something of TensorRT's could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorRtError {
    /// No library was found.
    #[error(
        "no TensorRT library: install TensorRT from NVIDIA's packages, or set RINGCALL_TENSORRT_LIB to the library or its \
         folder; looked for {}",
        .looked.join(", ")
    )]
    NoLibrary {
        /// The files and names tried, in order.
        looked: Vec<String>,
    },
    /// A library is there and cannot be used.
    #[error("{} cannot be used: {why}", .path.display())]
    LibraryUnusable {
        /// The library.
        path: PathBuf,
        /// The fault that was found.
        why: String,
    },
    /// No headers that fit the library.
    #[error(
        "no headers for {library}: install the package that has NvInfer.h of this version, or set \
         RINGCALL_TENSORRT_INCLUDE to its folder; {}",
        .found.join(", ")
    )]
    NoHeaders {
        /// The library's version.
        library: Version,
        /// The searched folders, and their contents.
        found: Vec<String>,
    },
    /// No C++ compiler.
    #[error(
        "no C++ compiler, which TensorRT's headers need once: install g++ or clang++, or name one in CXX; tried {}",
        .tried.join(", ")
    )]
    NoCompiler {
        /// The commands tried.
        tried: Vec<String>,
    },
    /// The compiler refuses the headers.
    #[error("{compiler} does not compile the shim with the headers in {}: {log}", .headers.display())]
    Compiler {
        /// The command.
        compiler: String,
        /// The folder of the headers.
        headers: PathBuf,
        /// Its first error, or how it ended.
        log: String,
    },
    /// A folder for things kept between runs cannot be used.
    #[error("the cache folder {} cannot be used: {why}; RINGCALL_CACHE names another", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The fault that was found.
        why: String,
    },
    /// TensorRT says no.
    #[error("{doing}: {words}")]
    Refused {
        /// What was being done.
        doing: String,
        /// The library's own words.
        words: String,
    },
    /// This TensorRT, or this part of it, cannot do it.
    #[error("{doing}: {library} cannot: {why}")]
    Unsupported {
        /// What was being done.
        doing: String,
        /// The version.
        library: Version,
        /// Why not.
        why: String,
    },
    /// The file is no model, or one that cannot be used here.
    #[error(transparent)]
    Model(#[from] InferError),
    /// An input's dimension other than the batch is open.
    #[error(
        "`{model}`: dimension {axis} of `{tensor}` is dynamic ({dimension}); only the batch is pinned to 1 by itself. Give \
         this one sizes (BuildOptions::with_symbol, with_axis), or export the model with static shapes"
    )]
    OpenDimension {
        /// The model.
        model: String,
        /// The input.
        tensor: String,
        /// Which dimension, outermost 0.
        axis: usize,
        /// Its symbol, or how it is written.
        dimension: String,
    },
    /// Sizes were given for a dimension that the model does not have, or has with another size, or they are no range.
    #[error("`{model}`: the sizes given for {dimension} do not apply: {why}")]
    Sizes {
        /// The model.
        model: String,
        /// The symbol or axis named.
        dimension: String,
        /// Why.
        why: String,
    },
    /// The CUDA driver refuses.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

impl TensorRtError {
    /// The same as an engine reports it.
    pub(crate) fn into_infer(self, model: &str, stage: &'static str) -> InferError {
        match self {
            Self::Model(error) => error,
            other => InferError::Backend { model: model.to_owned(), stage, reason: other.to_string() },
        }
    }
}
