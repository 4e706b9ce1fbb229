//! An ONNX file as a model of an experiment, in the engine of the user's choice.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use ringcall_cuda::driver as cuda;
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer::{InferError, Model, OnnxOptions};
use ringcall_infer_onnxruntime::{OrtModel, Provider, Runtime};
use ringcall_qec::circuit::MemoryExperiment;
use ringcall_service::Predecoder;
use ringcall_tensorrt::{BuildOptions, Cache, Library, Search, TensorRtError, TensorRtModel};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who runs a network, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkArg {
    /// tract, built in
    Cpu,
    /// ONNX Runtime on the CPU, from its shared library
    Onnxruntime,
    /// ONNX Runtime with CUDA, on the first GPU
    OnnxruntimeCuda,
    /// TensorRT on the first GPU, from its shared library, with a shim compiled against its headers
    Tensorrt,
}

/// Who runs it.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    /// tract, on the calling thread.
    Cpu,
    /// ONNX Runtime, from its library.
    OnnxRuntime(Runtime, Provider),
    /// TensorRT, from its library, on a device.
    TensorRt(Library, Arc<cuda::Context>),
}

impl Engine {
    /// Loads what it needs: ONNX Runtime from `onnxruntime`, or from where it usually is.
    pub(crate) fn open(arg: NetworkArg, onnxruntime: Option<&Path>) -> Result<Self> {
        let provider = match arg {
            NetworkArg::Onnxruntime => Provider::Cpu { threads: 1 },
            NetworkArg::OnnxruntimeCuda => Provider::Cuda { device: 0 },
            _ if onnxruntime.is_some() => bail!("--onnxruntime is for --engine onnxruntime"),
            NetworkArg::Cpu => return Ok(Self::Cpu),
            NetworkArg::Tensorrt => {
                let library = Library::open(&Search::new())?;
                return Ok(Self::TensorRt(library, cuda::Driver::load()?.device(0)?.context()?));
            }
        };
        Ok(Self::OnnxRuntime(Runtime::load(onnxruntime)?, provider))
    }
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
            Engine::TensorRt(..) => "tensorrt",
        }
    }

    /// With sizes for open dimensions; `None` if there are some without.
    fn load(&self, sizes: &[(&str, usize)]) -> Result<Option<Arc<dyn Model>>> {
        let options = sizes.iter().fold(OnnxOptions::new(), |all, &(name, n)| all.with_symbol(name, n));
        let loaded = match &self.engine {
            Engine::Cpu => OnnxModel::from_bytes(&self.name, &self.bytes, &options).map(shared),
            Engine::OnnxRuntime(runtime, provider) => {
                OrtModel::from_bytes(runtime, &self.name, self.bytes.clone(), &options, *provider).map(shared)
            }
            Engine::TensorRt(library, context) => {
                let options =
                    sizes.iter().fold(BuildOptions::new(), |all, &(name, n)| all.with_symbol(name, n));
                let cache = Cache::user()?;
                let model =
                    TensorRtModel::load(library, context, &self.name, &self.bytes, &options, Some(&cache));
                return match model {
                    Err(TensorRtError::OpenDimension { .. }) if sizes.is_empty() => Ok(None),
                    model => Ok(Some(shared(model?))),
                };
            }
        };
        match loaded {
            Err(InferError::DynamicDimension { .. }) if sizes.is_empty() => Ok(None),
            model => Ok(Some(model?)),
        }
    }

    /// A network of any size bound to an experiment, where there is one, or one of a single size as it is.
    pub(crate) fn bind(
        &self,
        experiment: Option<&MemoryExperiment>,
        threshold: Option<f32>,
    ) -> Result<Arc<dyn Model>> {
        let bound = || match (self.load(&[])?, experiment) {
            (Some(_), _) if threshold.is_some() => bail!("--threshold: this model has its own built in"),
            (Some(model), _) => Ok(model),
            (None, None) => bail!("a network of any size needs an experiment, whose sizes it is given"),
            (None, Some(experiment)) => {
                let network =
                    self.load(&Predecoder::sizes(experiment))?.context("it has other open sizes")?;
                Ok(shared(Predecoder::new(network, experiment, threshold)?))
            }
        };
        bound().with_context(|| self.path.display().to_string())
    }
}

fn shared<M: Model + 'static>(model: M) -> Arc<dyn Model> {
    Arc::new(model)
}
