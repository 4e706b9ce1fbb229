//! One worker's running state of a plan.

use std::sync::Arc;

use tract_onnx::prelude::*;

use super::Loaded;
use super::load::{datum_type, guarded};
use crate::{Engine, InferError, TensorSpec, check_buffers};

pub(super) struct OnnxEngine {
    loaded: Arc<Loaded>,
    /// Taken out for a run and put back after a good one, so that a failed run cannot leave half a turn behind.
    state: Option<TypedSimpleState>,
}

impl OnnxEngine {
    pub(super) fn new(loaded: Arc<Loaded>) -> Result<Self, InferError> {
        let state = Some(spawn(&loaded)?);
        Ok(Self { loaded, state })
    }
}

fn spawn(loaded: &Loaded) -> Result<TypedSimpleState, InferError> {
    guarded(&loaded.name, "making an engine", || loaded.plan.spawn())
}

fn run(
    loaded: &Loaded,
    state: &mut TypedSimpleState,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> TractResult<()> {
    let mut values = tvec![];
    for (spec, bytes) in loaded.inputs.iter().zip(inputs) {
        let mut tensor = Tensor::zero_dt(datum_type(spec.element), &spec.shape)?;
        tensor.try_as_plain_ram_mut()?.as_bytes_mut().copy_from_slice(bytes);
        values.push(tensor.into_tvalue());
    }
    let results = state.run(values)?;
    for (i, (spec, output)) in loaded.outputs.iter().zip(outputs).enumerate() {
        let result = &results[i];
        if result.datum_type() != datum_type(spec.element) || result.shape() != spec.shape {
            return Err(TractError::msg(format!("`{}` came out as {result:?}, not as {spec}", spec.name)));
        }
        output.copy_from_slice(result.try_as_plain_ram()?.as_bytes());
    }
    Ok(())
}

impl Engine for OnnxEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.loaded.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.loaded.outputs
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        let loaded = &*self.loaded;
        check_buffers(&loaded.inputs, &loaded.outputs, inputs, outputs)?;
        let mut state = match self.state.take() {
            Some(state) => state,
            None => spawn(loaded)?,
        };
        guarded(&loaded.name, "running", || run(loaded, &mut state, inputs, outputs))?;
        self.state = Some(state);
        Ok(())
    }
}
