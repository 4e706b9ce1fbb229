//! Networks before matching, in the engine that the user chose.

mod file;
mod gpu;
mod onnx;

pub(crate) use file::{COMMITTED, COMMITTED_NAME, NetworkFile};
pub(crate) use gpu::OnGpu;

use crate::usage::{Misuse, misuse};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use onnx::OnnxEngine;
use ringcall_cuda::driver as cuda;
use ringcall_decoder_service::{Inference, Predecoder};
use ringcall_infer::Model;
use ringcall_infer::onnx::BUILT_IN;
use ringcall_infer::onnxruntime::{ExecutionProvider, Runtime};
use ringcall_inference_service::Runner;
use ringcall_qec::circuit::MemoryExperiment;
use ringcall_tensorrt::{Library, Search};
use std::path::Path;
use std::sync::Arc;

/// The engine of a network, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkArg {
    /// tract, in builds with the feature `onnx`
    Cpu,
    /// Our own kernels on the first GPU (compute capability 9.0), for predecoders of up to 16 convolutions and 512 channels
    Gpu,
    /// ONNX Runtime on the CPU, from its shared library
    Onnxruntime,
    /// ONNX Runtime with CUDA, on the first GPU
    OnnxruntimeCuda,
    /// TensorRT on the first GPU, from its shared library, with a shim compiled against its headers
    Tensorrt,
}

impl NetworkArg {
    /// The engine's name in a state: the counts of one engine are not another's.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Onnxruntime => "onnxruntime on the CPU",
            Self::OnnxruntimeCuda => "onnxruntime with CUDA",
            Self::Tensorrt => "tensorrt",
        }
    }
}

enum Engine {
    /// An engine that runs any ONNX model.
    Onnx(OnnxEngine),
    Gpu(Box<OnGpu>),
}

pub(crate) struct Network {
    file: NetworkFile,
    engine: Engine,
}

pub(crate) struct Bound {
    pub(crate) inference: Inference,
    /// The logit above which the network decides for an error; `None` if the model contains its threshold.
    pub(crate) threshold: Option<f32>,
}

impl Bound {
    fn model(model: Arc<dyn Model>, threshold: Option<f32>) -> Self {
        Self { inference: Inference::Model(model), threshold }
    }
}

impl Network {
    /// Loads the engine: ONNX Runtime from `onnxruntime`, or from its usual place.
    pub(crate) fn open(file: NetworkFile, arg: NetworkArg, onnxruntime: Option<&Path>) -> Result<Self> {
        Self::open_saving(file, arg, onnxruntime, None)
    }

    /// The same, with a path at which TensorRT's engine is kept.
    pub(crate) fn open_saving(
        file: NetworkFile,
        arg: NetworkArg,
        onnxruntime: Option<&Path>,
        engine_save_path: Option<&Path>,
    ) -> Result<Self> {
        if engine_save_path.is_some() && arg != NetworkArg::Tensorrt {
            bail!(Misuse("--engine-save-path is for --engine tensorrt, which builds an engine".to_owned()));
        }
        if file.engine().is_some() && arg != NetworkArg::Tensorrt {
            bail!(Misuse(format!("{file} is an engine of TensorRT: give --engine tensorrt")));
        }
        if let (Some(engine), true) = (file.engine(), engine_save_path.is_some()) {
            let text =
                format!("--engine-save-path does not apply to {}, which is built already", engine.display());
            bail!(Misuse(text));
        }
        let runtime =
            |provider| Ok::<_, anyhow::Error>(Runner::OnnxRuntime(Runtime::load(onnxruntime)?, provider));
        let runner = match arg {
            NetworkArg::Onnxruntime => runtime(ExecutionProvider::Cpu { threads: 1 })?,
            NetworkArg::OnnxruntimeCuda => runtime(ExecutionProvider::Cuda { device: 0 })?,
            _ if onnxruntime.is_some() => {
                bail!(Misuse("--onnxruntime is for --engine onnxruntime and onnxruntime-cuda".to_owned()))
            }
            NetworkArg::Cpu if !BUILT_IN => {
                bail!(Misuse(
                    "--engine cpu: this build has no ONNX engine; add `--features onnx` to cargo's".into()
                ))
            }
            NetworkArg::Cpu => Runner::BuiltIn,
            NetworkArg::Tensorrt => {
                let library = Library::open(&Search::new())?;
                Runner::TensorRt(library, cuda::Driver::load()?.device(0)?.context()?)
            }
            NetworkArg::Gpu => {
                let engine = Engine::Gpu(Box::new(OnGpu::open(&file)?));
                return Ok(Self { file, engine });
            }
        };
        let engine = OnnxEngine { runner, engine_save_path: engine_save_path.map(Path::to_owned) };
        Ok(Self { file, engine: Engine::Onnx(engine) })
    }

    /// The network with sizes of its open dimensions.
    pub(crate) fn sized(&self, sizes: &[(String, usize)]) -> Result<Arc<dyn Model>> {
        let refused = |why: &dyn std::fmt::Display| Misuse(format!("--sizes: {}: {why}", self.file));
        match &self.engine {
            Engine::Onnx(_) if self.file.engine().is_some() => {
                bail!(refused(&"an engine that is built has its sizes"))
            }
            Engine::Onnx(engine) => {
                let model = engine.load(&self.file, sizes).map_err(|why| refused(&format!("{why:#}")))?;
                Ok(model.ok_or_else(|| refused(&"it has other open sizes"))?)
            }
            Engine::Gpu(_) => bail!(refused(&"--engine gpu takes those of an experiment")),
        }
    }

    /// The network unchanged if it has only one size; `None` if an experiment determines its size.
    pub(crate) fn alone(&self) -> Result<Option<Arc<dyn Model>>> {
        match &self.engine {
            Engine::Onnx(engine) => {
                engine.load::<&str>(&self.file, &[]).with_context(|| self.file.to_string())
            }
            Engine::Gpu(_) => Ok(None),
        }
    }

    /// Refuses an experiment other than the one for which the network says it was exported.
    ///
    /// # Errors
    /// [`Misuse`].
    pub(crate) fn check(&self, experiment: &MemoryExperiment) -> Result<()> {
        Predecoder::check_experiment(self.file.name(), &self.file.metadata(), experiment).map_err(misuse)
    }

    /// The network of any size bound to the experiment, if there is one; a network of one size unchanged, unless it
    /// says that it was exported for another experiment.
    pub(crate) fn bind(
        &self,
        experiment: Option<&MemoryExperiment>,
        threshold: Option<f32>,
    ) -> Result<Bound> {
        experiment.map_or(Ok(()), |experiment| self.check(experiment))?;
        let any_size = || {
            experiment
                .ok_or_else(|| misuse("a network of any size needs an experiment, whose sizes it is given"))
        };
        let bound = || match &self.engine {
            Engine::Gpu(gpu) => {
                let predecoder = gpu.bind(any_size()?, threshold)?;
                Ok(Bound { inference: predecoder.inference()?, threshold: Some(predecoder.threshold()) })
            }
            Engine::Onnx(engine) => match engine.load::<&str>(&self.file, &[])? {
                Some(_) if threshold.is_some() => {
                    bail!(Misuse(
                        "--threshold does not apply to this model, which has its own built in".to_owned()
                    ))
                }
                Some(model) => Ok(Bound::model(model, None)),
                None => {
                    let experiment = any_size()?;
                    let network = engine
                        .load(&self.file, &Predecoder::sizes(experiment))?
                        .context("it has other open sizes")?;
                    let predecoder = Predecoder::new(network, experiment, threshold)?;
                    let threshold = Some(predecoder.threshold());
                    Ok(Bound::model(Arc::new(predecoder), threshold))
                }
            },
        };
        bound().with_context(|| self.file.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_tells_engines_apart() {
        let mut labels: Vec<_> = NetworkArg::value_variants().iter().map(|arg| arg.label()).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), NetworkArg::value_variants().len());
    }
}
