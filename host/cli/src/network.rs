//! An ONNX file as a model of an experiment, in the engine of the user's choice.

use anyhow::{Context, Result, bail};
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer::{InferError, Model, OnnxOptions};
use ringcall_infer_onnxruntime::{OrtModel, Provider, Runtime};
use ringcall_qec::circuit::MemoryExperiment;
use ringcall_service::Predecoder;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What computes.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    /// tract, on the calling thread.
    Cpu,
    /// ONNX Runtime, from its library.
    OnnxRuntime(Runtime, Provider),
}

/// An ONNX file, read once.
pub(crate) struct Network {
    path: PathBuf,
    name: String,
    bytes: Vec<u8>,
    engine: Engine,
}

impl Network {
    pub(crate) fn read(path: &Path, engine: Engine) -> Result<Self> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read the model {}", path.display()))?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { path: path.to_owned(), name, bytes, engine })
    }

    /// Its file's name, length and checksum: what tells it from other files, wherever it lies.
    pub(crate) fn fingerprint(&self) -> String {
        format!("{} ({} bytes, crc32 {:08x})", self.name, self.bytes.len(), crc32fast::hash(&self.bytes))
    }

    /// The engine, as a state or a report names it.
    pub(crate) fn engine(&self) -> &'static str {
        match self.engine {
            Engine::Cpu => "cpu",
            Engine::OnnxRuntime(_, Provider::Cpu { .. }) => "onnxruntime on the CPU",
            Engine::OnnxRuntime(..) => "onnxruntime with CUDA",
        }
    }

    fn load(&self, options: &OnnxOptions) -> Result<Arc<dyn Model>, InferError> {
        Ok(match &self.engine {
            Engine::Cpu => Arc::new(OnnxModel::from_bytes(&self.name, &self.bytes, options)?),
            Engine::OnnxRuntime(runtime, provider) => {
                Arc::new(OrtModel::from_bytes(runtime, &self.name, self.bytes.clone(), options, *provider)?)
            }
        })
    }

    /// A network of any size bound to an experiment, or one of a single size as it is.
    pub(crate) fn bind(
        &self,
        experiment: &MemoryExperiment,
        threshold: Option<f32>,
    ) -> Result<Arc<dyn Model>> {
        let bound = || match self.load(&OnnxOptions::new()) {
            Err(InferError::DynamicDimension { .. }) => {
                let sizes = Predecoder::sizes(experiment);
                let options =
                    sizes.into_iter().fold(OnnxOptions::new(), |all, (name, n)| all.with_symbol(name, n));
                let predecoder: Arc<dyn Model> =
                    Arc::new(Predecoder::new(self.load(&options)?, experiment, threshold)?);
                Ok(predecoder)
            }
            Ok(_) if threshold.is_some() => bail!("--threshold: this model has its own built in"),
            model => Ok(model?),
        };
        bound().with_context(|| self.path.display().to_string())
    }
}
