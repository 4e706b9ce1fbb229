//! A network in an engine that takes any ONNX model.

use super::NetworkFile;
use anyhow::Result;
use ringcall_cuda::driver as cuda;
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer::onnxruntime::{OrtModel, Provider, Runtime};
use ringcall_infer::{InferError, Model, OnnxOptions};
use ringcall_tensorrt::{BuildOptions, Cache, Library, TensorRtError, TensorRtModel};
use std::sync::Arc;

/// Who runs it.
#[derive(Debug, Clone)]
pub(super) enum OnnxEngine {
    /// tract, on the calling thread.
    Cpu,
    /// ONNX Runtime, from its library.
    OnnxRuntime(Runtime, Provider),
    /// TensorRT, from its library, on a device.
    TensorRt(Library, Arc<cuda::Context>),
}

impl OnnxEngine {
    /// With sizes for open dimensions; `None` if there are some without.
    pub(super) fn load(&self, file: &NetworkFile, sizes: &[(&str, usize)]) -> Result<Option<Arc<dyn Model>>> {
        let options = sizes.iter().fold(OnnxOptions::new(), |all, &(name, n)| all.with_symbol(name, n));
        let (name, bytes) = (file.name(), file.bytes());
        let loaded = match self {
            Self::Cpu => OnnxModel::from_bytes(name, bytes, &options).map(shared),
            Self::OnnxRuntime(runtime, provider) => {
                OrtModel::from_bytes(runtime, name, bytes.to_vec(), &options, *provider).map(shared)
            }
            Self::TensorRt(library, context) => {
                let options =
                    sizes.iter().fold(BuildOptions::new(), |all, &(name, n)| all.with_symbol(name, n));
                let cache = Cache::user()?;
                let model = TensorRtModel::load(library, context, name, bytes, &options, Some(&cache));
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
}

fn shared<M: Model + 'static>(model: M) -> Arc<dyn Model> {
    Arc::new(model)
}
