//! An inference engine as a pipeline stage.

use crate::stage::{InferenceStage, RequestView, StageError};
use ringcall::Status;
use ringcall_infer::{Engine, TensorSpec, check_finite};

/// The most inputs, and the most outputs, of an engine in a stage: what a schema can describe (8 arguments).
const MAX_TENSORS: usize = 8;

/// Runs an [`Engine`] on each request. The payload holds the engine's inputs and the output holds its outputs: tightly packed,
/// little-endian, in the order that the engine declares.
///
/// The stage allocates nothing; the engine may.
///
/// ```
/// use ringcall::wire::{header::RequestHeader};
/// use ringcall_infer::{ElementType, Model, Passthrough, TensorSpec};
/// use ringcall_pipeline::{EngineStage, InferenceStage, RequestView};
///
/// let model = Passthrough::new("copy", vec![TensorSpec::new("syndrome", ElementType::U8, vec![1, 4])?])?;
/// let mut stage = EngineStage::new(model.instantiate()?)?;
/// let header = RequestHeader::new(0, 4, 0, 0);
/// let mut output = vec![0; stage.output_bytes()];
/// let n = stage.infer(RequestView { header: &header, payload: &[1, 0, 1, 1] }, &mut output)?;
/// assert_eq!(output[..n], [1, 0, 1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EngineStage {
    engine: Box<dyn Engine>,
    input_bytes: usize,
    output_bytes: usize,
}

/// An engine with more tensors than a stage takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an engine in a pipeline has 1 to {MAX_TENSORS} inputs and outputs; this one has {inputs} and {outputs}"
)]
pub struct TooManyTensors {
    /// Inputs.
    pub inputs: usize,
    /// Outputs.
    pub outputs: usize,
}

fn bytes(specs: &[TensorSpec]) -> usize {
    specs.iter().map(TensorSpec::size_bytes).sum()
}

impl EngineStage {
    /// A stage around `engine`.
    ///
    /// # Errors
    /// More tensors than a stage takes, or none.
    pub fn new(engine: Box<dyn Engine>) -> Result<Self, TooManyTensors> {
        let (inputs, outputs) = (engine.inputs().len(), engine.outputs().len());
        if [inputs, outputs].iter().any(|n| *n == 0 || *n > MAX_TENSORS) {
            return Err(TooManyTensors { inputs, outputs });
        }
        let (input_bytes, output_bytes) = (bytes(engine.inputs()), bytes(engine.outputs()));
        Ok(Self { engine, input_bytes, output_bytes })
    }

    /// Bytes of all inputs.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// Bytes of all outputs.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// Runs the engine on packed inputs into packed outputs.
    ///
    /// # Errors
    /// [`Status::SCHEMA_MISMATCH`] on lengths that are not the engine's, [`Status::ENGINE_FAILED`] if the run fails or an
    /// output holds a float that is NaN or infinite.
    pub fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, StageError> {
        if input.len() != self.input_bytes || output.len() < self.output_bytes {
            return Err(StageError(Status::SCHEMA_MISMATCH));
        }
        let mut inputs: [&[u8]; MAX_TENSORS] = [&[]; MAX_TENSORS];
        let mut rest = input;
        for (tensor, spec) in inputs.iter_mut().zip(self.engine.inputs()) {
            (*tensor, rest) = rest.split_at(spec.size_bytes());
        }
        let mut outputs: [&mut [u8]; MAX_TENSORS] = std::array::from_fn(|_| &mut [][..]);
        let mut rest = output;
        for (tensor, spec) in outputs.iter_mut().zip(self.engine.outputs()) {
            (*tensor, rest) = rest.split_at_mut(spec.size_bytes());
        }
        let (n_in, n_out) = (self.engine.inputs().len(), self.engine.outputs().len());
        self.engine
            .run(&inputs[..n_in], &mut outputs[..n_out])
            .and_then(|()| check_finite(self.engine.outputs(), outputs.iter().map(|output| &**output)))
            .map_err(|_| StageError(Status::ENGINE_FAILED))?;
        Ok(self.output_bytes)
    }
}

impl InferenceStage for EngineStage {
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
        self.run(request.payload, output)
    }
}

impl std::fmt::Debug for EngineStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineStage")
            .field("input_bytes", &self.input_bytes)
            .field("output_bytes", &self.output_bytes)
            .finish_non_exhaustive()
    }
}

/// Several engines as one stage, such as captured shapes of one network: a request's length chooses its engine.
///
/// ```
/// use ringcall::wire::header::RequestHeader;
/// use ringcall_infer::{ElementType, InferError, Model, Passthrough, TensorSpec};
/// use ringcall_pipeline::{InferenceStage, RequestView, ShapedStage};
///
/// let engine = |bytes| {
///     let spec = TensorSpec::new("syndrome", ElementType::U8, vec![1, bytes])?;
///     Passthrough::new("copy", vec![spec])?.instantiate()
/// };
/// let mut stage = ShapedStage::new(vec![engine(8)?, engine(3)?])?;
/// let mut output = vec![0; stage.output_bytes()];
/// for payload in [&[1, 2, 3][..], &[4; 8]] {
///     let header = RequestHeader::new(0, payload.len() as u32, 0, 0);
///     let n = stage.infer(RequestView { header: &header, payload }, &mut output)?;
///     assert_eq!(output[..n], *payload);
/// }
/// let header = RequestHeader::new(0, 5, 0, 0);
/// assert!(stage.infer(RequestView { header: &header, payload: &[0; 5] }, &mut output).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShapedStage {
    /// Ordered by the length of their inputs.
    shapes: Vec<EngineStage>,
}

/// Why engines do not make one [`ShapedStage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapesError {
    /// No engine.
    #[error("a stage of several shapes has one at least")]
    None,
    /// An engine with more tensors than a stage takes.
    #[error(transparent)]
    Tensors(#[from] TooManyTensors),
    /// Two engines whose inputs have this length: a request's length cannot choose between them.
    #[error("two shapes take requests of {0} bytes: a request's length could not choose between them")]
    SameLength(usize),
}

impl ShapedStage {
    /// A stage around `engines`, in any order.
    ///
    /// # Errors
    /// No engine, two whose inputs have the same length, or more tensors than a stage takes.
    pub fn new(engines: impl IntoIterator<Item = Box<dyn Engine>>) -> Result<Self, ShapesError> {
        let mut shapes = engines.into_iter().map(EngineStage::new).collect::<Result<Vec<_>, _>>()?;
        shapes.sort_unstable_by_key(EngineStage::input_bytes);
        let twice = shapes.windows(2).find(|pair| pair[0].input_bytes == pair[1].input_bytes);
        match (shapes.is_empty(), twice) {
            (true, _) => Err(ShapesError::None),
            (_, Some(pair)) => Err(ShapesError::SameLength(pair[0].input_bytes)),
            _ => Ok(Self { shapes }),
        }
    }

    /// The lengths of requests that the stage takes, in bytes, ascending.
    pub fn input_bytes(&self) -> impl Iterator<Item = usize> {
        self.shapes.iter().map(EngineStage::input_bytes)
    }

    /// Bytes of the longest output.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.shapes.iter().map(EngineStage::output_bytes).max().unwrap_or(0)
    }
}

impl InferenceStage for ShapedStage {
    /// [`Status::SCHEMA_MISMATCH`] for a length that no shape has.
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
        let found = self.shapes.binary_search_by_key(&request.payload.len(), EngineStage::input_bytes);
        match found {
            Ok(index) => self.shapes[index].run(request.payload, output),
            Err(_) => Err(StageError(Status::SCHEMA_MISMATCH)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_infer::{ElementType, Model, Passthrough};

    fn engine(bytes: usize) -> Box<dyn Engine> {
        let spec = TensorSpec::new("in", ElementType::U8, vec![1, bytes]).expect("a tensor");
        Passthrough::new("copy", vec![spec]).expect("a model").instantiate().expect("an engine")
    }

    #[test]
    fn shapes_have_lengths_of_their_own() {
        let stage = ShapedStage::new([engine(9), engine(2), engine(30)]).expect("three lengths");
        assert!(stage.input_bytes().eq([2, 9, 30]));
        assert_eq!(stage.output_bytes(), 30);
        assert_eq!(ShapedStage::new([]).err(), Some(ShapesError::None));
        assert_eq!(
            ShapedStage::new([engine(4), engine(7), engine(4)]).err(),
            Some(ShapesError::SameLength(4))
        );
    }
}
