//! One worker's session.

use crate::onnxruntime::file::Loaded;
use crate::onnxruntime::tensor::{self, read, write};
use crate::{Engine, InferError, TensorSpec, check_buffers};
use ort::session::{Session, SessionInputValue};
use ort::value::DynTensor;
use std::borrow::Cow;
use std::sync::Arc;

/// A session, and its inputs' tensors on the host.
pub(crate) struct OrtEngine<L> {
    session: Session,
    inputs: Vec<(String, DynTensor)>,
    loaded: L,
}

impl OrtEngine<()> {
    pub(crate) fn new(session: Session, loaded: &Loaded) -> Result<Self, InferError> {
        let tensor = |spec: &TensorSpec| Ok((spec.name.clone(), tensor::zeroed(spec)?));
        let inputs = loaded.inputs.iter().map(tensor).collect::<ort::Result<_>>();
        let inputs = inputs.map_err(|error| loaded.backend("allocating inputs", &error))?;
        Ok(Self { session, inputs, loaded: () })
    }

    /// The shapes of the outputs of one run.
    pub(crate) fn shapes(mut self) -> ort::Result<Vec<Vec<usize>>> {
        let outputs = self.session.run(views(&self.inputs))?;
        let shape = |value: &ort::value::DynValue| {
            let shape = value.dtype().tensor_shape().map(|shape| shape.to_vec()).unwrap_or_default();
            shape.into_iter().map(|size| usize::try_from(size).unwrap_or(0)).collect()
        };
        Ok(outputs.values().map(|value| shape(&value)).collect())
    }

    pub(crate) fn of(self, loaded: Arc<Loaded>) -> OrtEngine<Arc<Loaded>> {
        OrtEngine { session: self.session, inputs: self.inputs, loaded }
    }
}

fn views(inputs: &[(String, DynTensor)]) -> Vec<(Cow<'_, str>, SessionInputValue<'_>)> {
    inputs.iter().map(|(name, tensor)| (Cow::from(name.as_str()), SessionInputValue::from(tensor))).collect()
}

impl Engine for OrtEngine<Arc<Loaded>> {
    fn inputs(&self) -> &[TensorSpec] {
        &self.loaded.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.loaded.outputs
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        let loaded = &*self.loaded;
        check_buffers(&loaded.inputs, &loaded.outputs, inputs, outputs)?;
        let failed = |error: ort::Error| loaded.backend("running", &error);
        for ((spec, (_, tensor)), bytes) in loaded.inputs.iter().zip(&mut self.inputs).zip(inputs) {
            write(tensor, spec.element, bytes).map_err(failed)?;
        }
        let results = self.session.run(views(&self.inputs)).map_err(failed)?;
        for (spec, output) in loaded.outputs.iter().zip(outputs) {
            let value = results
                .get(&spec.name)
                .ok_or_else(|| failed(ort::Error::new(format!("`{}` did not come out", spec.name))))?;
            read(value, spec, output).map_err(failed)?;
        }
        Ok(())
    }
}
