//! The two traits every engine implements.

use std::any::Any;

use crate::{Direction, ElementType, InferError, TensorSpec};

/// A loaded model: shared between workers, makes one engine for each.
///
/// Loading does the slow work (parsing, optimising, building kernels); [`instantiate`](Model::instantiate)
/// only takes what one worker needs for itself.
pub trait Model: Any + Send + Sync {
    /// A name for messages and reports.
    fn name(&self) -> &str;

    /// The inputs, in the order buffers are given.
    fn inputs(&self) -> &[TensorSpec];

    /// The outputs, in the order buffers are given.
    fn outputs(&self) -> &[TensorSpec];

    /// What the model file says about itself, as key and value: thresholds, training noise, and so on.
    fn metadata(&self) -> &[(String, String)] {
        &[]
    }

    /// An engine for one worker.
    ///
    /// # Errors
    /// [`InferError::Backend`] if the engine's own resources cannot be had.
    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError>;
}

/// One worker's view of a model. `run` takes `&mut self`: an engine serves one request at a time and is free to
/// own scratch memory.
pub trait Engine: Any + Send {
    /// The inputs, as [`Model::inputs`].
    fn inputs(&self) -> &[TensorSpec];

    /// The outputs, as [`Model::outputs`].
    fn outputs(&self) -> &[TensorSpec];

    /// Runs the model once, synchronously.
    ///
    /// One packed little-endian buffer per tensor, in declaration order, of any alignment. On success every
    /// output byte was written; on an error the outputs are unspecified and the engine can be used again.
    /// A run depends on its inputs alone.
    ///
    /// # Errors
    /// [`InferError::BufferCount`], [`InferError::BufferSize`] and [`InferError::InvalidBool`] on buffers that do
    /// not fit, before anything ran; [`InferError::Backend`] if the run itself failed.
    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError>;
}

/// Checks buffers against the specs: what every [`Engine::run`] does first. Allocates only on an error.
///
/// # Errors
/// As [`Engine::run`], before the run.
pub fn check_buffers(
    input_specs: &[TensorSpec],
    output_specs: &[TensorSpec],
    inputs: &[&[u8]],
    outputs: &[&mut [u8]],
) -> Result<(), InferError> {
    let count = |direction, expected: usize, got: usize| {
        if expected == got { Ok(()) } else { Err(InferError::BufferCount { direction, expected, got }) }
    };
    let size = |direction, spec: &TensorSpec, got: usize| {
        let expected = spec.size_bytes();
        if expected == got {
            return Ok(());
        }
        Err(InferError::BufferSize { direction, tensor: spec.to_string(), expected, got })
    };
    count(Direction::Input, input_specs.len(), inputs.len())?;
    count(Direction::Output, output_specs.len(), outputs.len())?;
    for (spec, buffer) in output_specs.iter().zip(outputs) {
        size(Direction::Output, spec, buffer.len())?;
    }
    for (spec, buffer) in input_specs.iter().zip(inputs) {
        size(Direction::Input, spec, buffer.len())?;
        if spec.element == ElementType::Bool
            && let Some(index) = buffer.iter().position(|&value| value > 1)
        {
            let (tensor, value) = (spec.name.clone(), buffer[index]);
            return Err(InferError::InvalidBool { tensor, index, value });
        }
    }
    Ok(())
}

/// Checks that no float of the outputs is NaN or infinite: what everything that decides by an output does first, since a
/// comparison with NaN is false and would pass for "nothing found". Allocates only on an error.
///
/// ```
/// use ringcall_infer::{ElementType, InferError, TensorSpec, check_finite};
///
/// let specs = [TensorSpec::new("logits", ElementType::F32, [2])?];
/// let bytes = |logits: [f32; 2]| logits.map(f32::to_le_bytes).concat();
/// assert!(check_finite(&specs, [&bytes([-1.0, 3.5])[..]]).is_ok());
/// let refused = check_finite(&specs, [&bytes([-1.0, f32::NAN])[..]]);
/// assert!(matches!(refused, Err(InferError::NotFinite { index: 1, .. })));
/// # Ok::<(), InferError>(())
/// ```
///
/// # Errors
/// [`InferError::NotFinite`] names the first one.
pub fn check_finite<'a>(
    specs: &[TensorSpec],
    outputs: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), InferError> {
    for (spec, output) in specs.iter().zip(outputs) {
        let bad = match spec.element {
            ElementType::F32 => {
                output.as_chunks().0.iter().position(|bytes| !f32::from_le_bytes(*bytes).is_finite())
            }
            // All bits of the exponent.
            ElementType::F16 => {
                output.as_chunks().0.iter().position(|bytes| u16::from_le_bytes(*bytes) & 0x7C00 == 0x7C00)
            }
            ElementType::I32 | ElementType::I64 | ElementType::U8 | ElementType::Bool => None,
        };
        if let Some(index) = bad {
            return Err(InferError::NotFinite { tensor: spec.name.clone(), index });
        }
    }
    Ok(())
}
