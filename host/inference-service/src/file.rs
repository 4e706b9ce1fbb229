//! Models by their path: which library runs a file, and where the engine that is built of it is kept.

use crate::ServiceError;
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer::onnxruntime::{ExecutionProvider, OrtModel, Runtime};
use ringcall_infer::{InferError, Model, OnnxOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who runs a model's file.
#[derive(Debug, Clone)]
pub enum Runner {
    /// The engine that is built in (tract), on the CPU: ONNX files, in builds with the feature `onnx` of `ringcall-infer`.
    BuiltIn,
    /// ONNX Runtime, from its library: ONNX files.
    OnnxRuntime(Runtime, ExecutionProvider),
    /// TensorRT, from its library, on a device: ONNX files, and engines that are built of them (`.engine`, `.plan`).
    #[cfg(feature = "tensorrt")]
    TensorRt(ringcall_tensorrt::Library, Arc<ringcall_cuda::driver::Context>),
}

/// How a model's file is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Sizes of open dimensions, by the names that they have in the file. The batch is 1.
    pub sizes: Vec<(String, usize)>,
    /// TensorRT: where the engine that is built of an ONNX file is kept. An engine that is there is read, also if it was built
    /// of another file; else it is built and written there. `None`: in the user's cache, by what it is built of.
    pub engine_save_path: Option<PathBuf>,
}

/// A name for messages: the file's, without its extension.
fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn unreadable(path: &Path, why: &std::io::Error) -> ServiceError {
    ServiceError::File { path: path.to_owned(), reason: why.to_string() }
}

impl Runner {
    /// Opens the model at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is no model of this runner, has an open dimension without a size, or an engine is to be saved by a
    /// runner that builds none.
    pub fn open(&self, path: &Path, options: &FileOptions) -> Result<Arc<dyn Model>, ServiceError> {
        let name = name_of(path);
        let bytes = std::fs::read(path).map_err(|why| unreadable(path, &why))?;
        #[cfg(feature = "tensorrt")]
        if let Self::TensorRt(library, context) = self {
            return Ok(Arc::new(tensorrt::open(library, context, path, &name, &bytes, options)?));
        }
        self.load(&name, &bytes, options)
    }

    /// The same of an ONNX file's contents.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn load(
        &self,
        name: &str,
        onnx: &[u8],
        options: &FileOptions,
    ) -> Result<Arc<dyn Model>, ServiceError> {
        let FileOptions { sizes, engine_save_path } = options;
        let symbols = sizes.iter().fold(OnnxOptions::new(), |all, (name, n)| all.with_symbol(name, *n));
        let no_engine = || match engine_save_path {
            None => Ok(()),
            Some(path) => Err(ServiceError::File {
                path: path.clone(),
                reason: "an engine is saved by TensorRT alone: the other runners build none".to_owned(),
            }),
        };
        Ok(match self {
            Self::BuiltIn => {
                no_engine()?;
                Arc::new(OnnxModel::from_bytes(name, onnx, &symbols)?)
            }
            Self::OnnxRuntime(runtime, provider) => {
                no_engine()?;
                Arc::new(OrtModel::from_bytes(runtime, name, onnx.to_vec(), &symbols, *provider)?)
            }
            #[cfg(feature = "tensorrt")]
            Self::TensorRt(library, context) => {
                Arc::new(tensorrt::open(library, context, Path::new(name), name, onnx, options)?)
            }
        })
    }

    /// The same, and `None` where the file has open dimensions and no sizes were given.
    ///
    /// # Errors
    /// As [`open`](Self::open), that apart.
    pub fn load_sized(
        &self,
        name: &str,
        onnx: &[u8],
        options: &FileOptions,
    ) -> Result<Option<Arc<dyn Model>>, ServiceError> {
        match self.load(name, onnx, options) {
            Err(ServiceError::Infer(InferError::DynamicDimension { .. })) if options.sizes.is_empty() => {
                Ok(None)
            }
            #[cfg(feature = "tensorrt")]
            Err(ServiceError::TensorRt(why))
                if options.sizes.is_empty()
                    && matches!(*why, ringcall_tensorrt::TensorRtError::OpenDimension { .. }) =>
            {
                Ok(None)
            }
            loaded => loaded.map(Some),
        }
    }
}

#[cfg(feature = "tensorrt")]
pub(crate) mod tensorrt {
    use super::{FileOptions, unreadable};
    use crate::ServiceError;
    use ringcall_cuda::driver::Context;
    use ringcall_tensorrt::{BuildOptions, Builder, Cache, Library, Plan, TensorRtModel};
    use std::path::Path;
    use std::sync::Arc;

    /// Opens an engine, or builds one of an ONNX file.
    pub(crate) fn open(
        library: &Library,
        context: &Arc<Context>,
        path: &Path,
        name: &str,
        bytes: &[u8],
        options: &FileOptions,
    ) -> Result<TensorRtModel, ServiceError> {
        let from_plan = |bytes: Vec<u8>| {
            Ok(TensorRtModel::from_plan(library, context, name, &Plan::from_bytes(bytes), &[])?)
        };
        if path.extension().is_some_and(|extension| extension == "engine" || extension == "plan") {
            return from_plan(bytes.to_vec());
        }
        let build = options
            .sizes
            .iter()
            .fold(BuildOptions::new(), |all, (name, n)| all.with_symbol(name.as_str(), *n));
        let Some(save) = &options.engine_save_path else {
            let cache = Cache::user()?;
            return Ok(TensorRtModel::load(library, context, name, bytes, &build, Some(&cache))?);
        };
        match std::fs::read(save) {
            Ok(kept) => from_plan(kept),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                let plan = Builder::parse(library, name, bytes, &build)?.build()?;
                // Beside it first, so that no other process finds half of it.
                let beside = save.with_extension("part");
                std::fs::write(&beside, plan.as_bytes())
                    .and_then(|()| std::fs::rename(&beside, save))
                    .map_err(|why| unreadable(save, &why))?;
                from_plan(plan.as_bytes().to_vec())
            }
            Err(why) => Err(unreadable(save, &why)),
        }
    }
}
