//! No network at all: what everything around it costs.

use std::sync::Arc;

use crate::{ElementType, Engine, InferError, Model, TensorSpec, check_buffers};

/// A model that copies its inputs to its outputs, without allocating.
///
/// It stands where a network would stand when rings, dispatch and matching are to be measured alone. Its shapes
/// can be those of a real model ([`shaped_like`](Passthrough::shaped_like)), so that the same bytes move.
///
/// Output `i` takes the leading bytes of input `i`; an output that is left over, or has no input, or would
/// turn bytes that are not booleans into booleans, is 0.
#[derive(Clone, Debug)]
pub struct Passthrough {
    name: String,
    tensors: Arc<Tensors>,
}

#[derive(Debug)]
struct Tensors {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl Passthrough {
    /// Outputs equal to the inputs, in name, type and shape.
    ///
    /// # Errors
    /// [`InferError::InvalidSpec`] if there is no tensor, two of one name, or one that cannot be.
    pub fn new(name: impl Into<String>, tensors: Vec<TensorSpec>) -> Result<Self, InferError> {
        Self::with_outputs(name, tensors.clone(), tensors)
    }

    /// Different inputs and outputs.
    ///
    /// # Errors
    /// [`InferError::InvalidSpec`] if a side has no tensor, two of one name, or one that cannot be.
    pub fn with_outputs(
        name: impl Into<String>,
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
    ) -> Result<Self, InferError> {
        let name = name.into();
        for side in [&inputs, &outputs] {
            side.iter().try_for_each(TensorSpec::validate)?;
            if side.is_empty() {
                return Err(InferError::InvalidSpec {
                    name,
                    reason: "a model needs inputs and outputs".into(),
                });
            }
            if let Some((i, twice)) =
                side.iter().enumerate().find(|(i, s)| side[..*i].iter().any(|earlier| earlier.name == s.name))
            {
                let reason = format!("tensor {i} has the name of an earlier one");
                return Err(InferError::InvalidSpec { name: twice.name.clone(), reason });
            }
        }
        Ok(Self { name, tensors: Arc::new(Tensors { inputs, outputs }) })
    }

    /// The shapes of another model, and none of its work.
    ///
    /// # Errors
    /// As [`with_outputs`](Passthrough::with_outputs), if that model breaks its contract.
    pub fn shaped_like(model: &dyn Model) -> Result<Self, InferError> {
        let name = format!("passthrough({})", model.name());
        Self::with_outputs(name, model.inputs().to_vec(), model.outputs().to_vec())
    }
}

impl Model for Passthrough {
    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.tensors.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors.outputs
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        Ok(Box::new(PassthroughEngine { tensors: Arc::clone(&self.tensors) }))
    }
}

struct PassthroughEngine {
    tensors: Arc<Tensors>,
}

impl Engine for PassthroughEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.tensors.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors.outputs
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        let Tensors { inputs: input_specs, outputs: output_specs } = &*self.tensors;
        check_buffers(input_specs, output_specs, inputs, outputs)?;
        for (i, output) in outputs.iter_mut().enumerate() {
            let source = match input_specs.get(i).map(|spec| spec.element) {
                Some(ElementType::Bool) => inputs[i],
                Some(_) if output_specs[i].element != ElementType::Bool => inputs[i],
                _ => &[],
            };
            let copied = source.len().min(output.len());
            output[..copied].copy_from_slice(&source[..copied]);
            output[copied..].fill(0);
        }
        Ok(())
    }
}
