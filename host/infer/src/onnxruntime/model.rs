//! A file, its tensors, and sessions of it.

use crate::onnxruntime::Runtime;
use crate::onnxruntime::engine::OrtEngine;
use crate::onnxruntime::file::{ExecutionProvider, Loaded};
use crate::onnxruntime::tensor::element_type;
use crate::pin::{self, Declared, Dimension};
use crate::{Engine, InferError, Model, OnnxOptions, TensorSpec};
use ort::ep::CUDA;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::{Outlet, ValueType};
use std::path::Path;
use std::sync::Arc;

/// A network from an ONNX file, in ONNX Runtime.
#[derive(Debug, Clone)]
pub struct OrtModel {
    loaded: Arc<Loaded>,
}

impl OrtModel {
    /// Loads a file; the model is named after it. Data in its own files cannot be had.
    ///
    /// # Errors
    /// [`InferError::Io`]; [`InferError::DynamicDimension`], [`InferError::UnusedDimension`],
    /// [`InferError::UnsupportedElement`], [`InferError::InvalidSpec`] for its tensors; [`InferError::Backend`] where ONNX
    /// Runtime refuses it, or the provider is not to be had.
    pub fn load(
        runtime: &Runtime,
        path: impl AsRef<Path>,
        options: &OnnxOptions,
        provider: ExecutionProvider,
    ) -> Result<Self, InferError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| InferError::Io { path: path.to_owned(), source })?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        Self::from_bytes(runtime, &name, bytes, options, provider)
    }

    /// Loads a model from memory.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_bytes(
        _loaded: &Runtime,
        name: &str,
        bytes: Vec<u8>,
        options: &OnnxOptions,
        provider: ExecutionProvider,
    ) -> Result<Self, InferError> {
        let backend = |stage| {
            move |error: ort::Error| InferError::Backend {
                model: name.to_owned(),
                stage,
                reason: error.to_string(),
            }
        };
        // Once as it is, for what it declares; from then on with its sizes.
        let session = builder(ExecutionProvider::Cpu { threads: 1 }, &[])
            .and_then(|b| Ok(b.with_optimization_level(GraphOptimizationLevel::Disable)?))
            .and_then(|mut b| b.commit_from_memory(&bytes))
            .map_err(backend("reading the file"))?;
        let inputs =
            session.inputs().iter().map(|outlet| declared(name, outlet)).collect::<Result<_, _>>()?;
        let inputs = pin::inputs(name, inputs, options)?;
        let metadata = metadata(&session).map_err(backend("reading the metadata"))?;
        let symbols = symbols(&session, &inputs);
        drop(session);

        let mut loaded =
            Loaded { name: name.to_owned(), bytes, provider, symbols, inputs, outputs: Vec::new(), metadata };
        let session = loaded.session()?;
        // A run determines the sizes that a file leaves open in an output: shapes that depend on data are not to be
        // had.
        let outputs = session.outputs().iter().map(|outlet| declared(name, outlet));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let fixed = |output: &Declared| {
            let size = |dimension: &Dimension| match dimension {
                Dimension::Fixed(size) => Some(*size),
                Dimension::Open(_) => None,
            };
            output.dimensions.iter().map(size).collect::<Option<Vec<usize>>>()
        };
        let shapes = match outputs.iter().map(fixed).collect::<Option<Vec<_>>>() {
            Some(shapes) => shapes,
            None => OrtEngine::new(session, &loaded)?.shapes().map_err(backend("a first run"))?,
        };
        loaded.outputs = outputs
            .into_iter()
            .zip(shapes)
            .map(|(output, shape)| TensorSpec::new(output.name, output.element, shape))
            .collect::<Result<_, _>>()?;
        Ok(Self { loaded: Arc::new(loaded) })
    }
}

impl Loaded {
    /// A session for one engine.
    fn session(&self) -> Result<Session, InferError> {
        builder(self.provider, &self.symbols)
            .and_then(|mut builder| builder.commit_from_memory(&self.bytes))
            .map_err(|error| self.backend("making a session", &error))
    }

    pub(crate) fn backend(&self, stage: &'static str, error: &ort::Error) -> InferError {
        InferError::Backend { model: self.name.clone(), stage, reason: error.to_string() }
    }
}

fn builder(provider: ExecutionProvider, symbols: &[(String, i64)]) -> ort::Result<SessionBuilder> {
    let mut builder = Session::builder()?.with_log_level(ort::logging::LogLevel::Error)?;
    builder = match provider {
        ExecutionProvider::Cpu { threads } => builder.with_intra_threads(threads)?,
        ExecutionProvider::Cuda { device } => {
            let cuda = CUDA::default().with_device_id(device).with_tf32(false);
            builder.with_intra_threads(1)?.with_execution_providers([cuda.build().error_on_failure()])?
        }
    };
    for (symbol, size) in symbols {
        builder = builder.with_dimension_override(symbol, *size)?;
    }
    Ok(builder)
}

/// A session's description of a tensor.
fn declared(model: &str, outlet: &Outlet) -> Result<Declared, InferError> {
    let unsupported = |found: String| InferError::UnsupportedElement {
        model: model.to_owned(),
        tensor: outlet.name().to_owned(),
        found,
    };
    let ValueType::Tensor { ty, shape, dimension_symbols } = outlet.dtype() else {
        return Err(unsupported("no tensor".to_owned()));
    };
    let element = element_type(*ty).ok_or_else(|| unsupported(ty.to_string()))?;
    let symbols = dimension_symbols.iter().map(String::as_str).chain(std::iter::repeat(""));
    let dimensions = shape.iter().zip(symbols).map(|(&size, symbol)| Dimension::new(size, symbol)).collect();
    Ok(Declared { name: outlet.name().to_owned(), element, dimensions })
}

/// The size of every symbol of the inputs.
fn symbols(session: &Session, specs: &[TensorSpec]) -> Vec<(String, i64)> {
    let mut found: Vec<(String, i64)> = Vec::new();
    for (outlet, spec) in session.inputs().iter().zip(specs) {
        let ValueType::Tensor { dimension_symbols, .. } = outlet.dtype() else { continue };
        for (symbol, &size) in
            dimension_symbols.iter().zip(&spec.shape).filter(|(symbol, _)| !symbol.is_empty())
        {
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            match found.iter().find(|(known, _)| known == symbol) {
                // Given by axis, and differently: it is no symbol's size then.
                Some((_, other)) if *other != size => found.retain(|(known, _)| known != symbol),
                Some(_) => {}
                None => found.push((symbol.clone(), size)),
            }
        }
    }
    found
}

fn metadata(session: &Session) -> ort::Result<Vec<(String, String)>> {
    let metadata = session.metadata()?;
    let mut entries: Vec<(String, String)> = metadata
        .custom_keys()?
        .into_iter()
        .filter_map(|key| metadata.custom(&key).map(|value| (key, value)))
        .collect();
    // It comes out of a hash map.
    entries.sort_unstable();
    Ok(entries)
}

impl Model for OrtModel {
    fn name(&self) -> &str {
        &self.loaded.name
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.loaded.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.loaded.outputs
    }

    fn metadata(&self) -> &[(String, String)] {
        &self.loaded.metadata
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        Ok(Box::new(OrtEngine::new(self.loaded.session()?, &self.loaded)?.of(Arc::clone(&self.loaded))))
    }
}
