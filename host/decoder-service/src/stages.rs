//! The two stages of a decode: inference on the detectors, and decoding of the residual.

use crate::residual::{ResidualDecoder, pack_elements};
use crate::trace::range;
use crate::{Problem, WireForm};
use ringcall::wire::bits::{BitView, packed_len};
use ringcall::worker::Hook;
use ringcall::{Ring, Status};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_infer::{ElementType, InferError, Model, TensorSpec};
use ringcall_pipeline::remote::RemoteStage;
use ringcall_pipeline::{
    BoxError, CpuStage, EngineStage, Execution, InferenceStage, RequestView, StageContext, StageError,
    StageOutcome,
};
use ringcall_qec::decode::DecodeError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The inference before matching.
///
/// A model takes the detectors as its one input, an element a detector, and gives the residual detectors as its first output, an
/// element a detector; a second output, if there is one, is the logical frame, an element an observable. The answer is `frame XOR
/// matching(residual)`. Integers and booleans count as set if they are not 0, floats if they are above one half.
///
/// If requests are [measurements](Problem::with_measurements), a model with an `i32` input for each of them gets the request as
/// it is; every other model gets the detectors of the measurements.
#[derive(Clone)]
pub enum Inference {
    /// None: matching gets the detectors as they came.
    None,
    /// A network.
    Model(Arc<dyn Model>),
    /// A network between bits: its input is a request's bytes as they are (`u8[1, ceil(detectors / 8)]`), its output the residual
    /// and the logical frame, bit-packed one after the other, in whole bytes each.
    Packed(Arc<dyn Model>),
    /// A whole decoder: its input is a request's bytes as they are (`u8[1, ceil(detectors / 8)]`), its output begins with a
    /// result of `decode_syndrome`.
    Decoder(Arc<dyn Model>),
    /// A network between bits, as [`Packed`](Self::Packed), in graphs that the dispatcher launches and that raise the workers'
    /// ready flags.
    Launched(Arc<dyn LaunchedInference>),
}

/// Inference that the dispatcher launches, made for each worker at each start: graphs whose last nodes raise the workers' ready flags.
pub trait LaunchedInference: Send + Sync {
    /// A name for messages.
    fn name(&self) -> &str;

    /// Bytes of a request, and of the output of inference.
    fn bytes(&self) -> [usize; 2];

    /// The ring that must hold the requests, if launches read them in its slots; `None`: any ring.
    fn ring(&self) -> Option<Ring> {
        None
    }

    /// The hook before each of a worker's launches, and how its inference is executed.
    ///
    /// # Errors
    /// A device that refuses.
    fn worker(&self, worker: u32) -> Result<(Hook, Execution), BoxError>;
}

impl std::fmt::Debug for Inference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Model(model) => write!(f, "Model({})", model.name()),
            Self::Packed(model) => write!(f, "Packed({})", model.name()),
            Self::Decoder(model) => write!(f, "Decoder({})", model.name()),
            Self::Launched(lanes) => write!(f, "Launched({})", lanes.name()),
        }
    }
}

/// Why a model does not fit a problem.
#[derive(Debug, thiserror::Error)]
pub enum InferenceError {
    /// A tensor has the wrong number of elements, or there are too many tensors.
    #[error("model `{model}` does not fit: {reason}")]
    Shape {
        /// The model.
        model: String,
        /// The expected and the found tensors.
        reason: String,
    },
    /// The engine's own error.
    #[error("model `{model}`: {source}")]
    Engine {
        /// The model.
        model: String,
        /// The engine's error.
        source: InferError,
    },
}

impl Inference {
    /// Checks that the model's tensors fit the problem.
    ///
    /// # Errors
    /// The tensors do not fit.
    pub fn check(&self, problem: &Problem) -> Result<(), InferenceError> {
        if let Self::Launched(lanes) = self {
            let expected = [problem.request_bytes(), problem.inferred_bytes()];
            if lanes.bytes() == expected {
                return Ok(());
            }
            let ([found_in, found_out], [bytes_in, bytes_out]) = (lanes.bytes(), expected);
            return Err(InferenceError::Shape {
                model: lanes.name().to_owned(),
                reason: format!(
                    "its graphs take {found_in} bytes and leave {found_out}, where {bytes_in} bytes of bits go in and {bytes_out} come out"
                ),
            });
        }
        let (Self::Model(model) | Self::Packed(model) | Self::Decoder(model)) = self else { return Ok(()) };
        let shape = |reason: String| InferenceError::Shape { model: model.name().to_owned(), reason };
        let (inputs, outputs) = (model.inputs(), model.outputs());
        let packed = match self {
            Self::Packed(_) => Some(problem.inferred_bytes()..=problem.inferred_bytes()),
            Self::Decoder(_) => Some(problem.result_bytes()..=usize::MAX),
            Self::None | Self::Model(_) | Self::Launched(_) => None,
        };
        if let Some(left) = packed {
            let bytes = [packed_len(problem.detectors() as usize), *left.start()];
            let length = |specs: &[TensorSpec]| match specs {
                [spec] if spec.element == ElementType::U8 => Some(spec.elements()),
                _ => None,
            };
            if length(inputs) == Some(bytes[0]) && length(outputs).is_some_and(|bytes| left.contains(&bytes))
            {
                return Ok(());
            }
            let shown: Vec<_> = inputs.iter().chain(outputs).map(ToString::to_string).collect();
            return Err(shape(format!(
                "it has {}, where {} bytes of bits go in and {} come out",
                shown.join(", "),
                bytes[0],
                bytes[1]
            )));
        }
        if inputs.len() != 1 || outputs.is_empty() || outputs.len() > 2 {
            return Err(shape(format!(
                "it has {} inputs and {} outputs, where one input (detectors) and one or two outputs (residual \
                 detectors, logical frame) are served",
                inputs.len(),
                outputs.len()
            )));
        }
        let expect = |spec: &TensorSpec, what: &str, n: u32| {
            if spec.elements() == n as usize {
                return Ok(());
            }
            Err(shape(format!("{spec} has {} elements where the problem has {n} {what}", spec.elements())))
        };
        if !takes_measurements(problem.form(), &inputs[0]) {
            expect(&inputs[0], "detectors", problem.detectors())?;
        }
        expect(&outputs[0], "detectors", problem.detectors())?;
        outputs.get(1).map_or(Ok(()), |frame| expect(frame, "observables", problem.observables()))
    }

    /// Bytes of output for a request.
    pub(crate) fn output_bytes(&self, problem: &Problem) -> usize {
        match self {
            Self::Decoder(model) => model.outputs().iter().map(TensorSpec::size_bytes).sum(),
            _ => problem.inferred_bytes(),
        }
    }

    /// The hook before each launch of one worker, if any, and how its inference is executed.
    pub(crate) fn execution(
        &self,
        problem: &Problem,
        worker: u32,
    ) -> Result<(Option<Hook>, Execution), BoxError> {
        match self {
            Self::Launched(lanes) => {
                let (hook, execution) = lanes.worker(worker)?;
                Ok((Some(hook), execution))
            }
            inline => Ok((None, Execution::Inline(Box::new(Named(inline.stage(problem)?))))),
        }
    }

    /// Makes a stage for one worker's thread.
    pub(crate) fn stage(&self, problem: &Problem) -> Result<Box<dyn InferenceStage>, InferenceError> {
        match self {
            Self::Launched(lanes) => Err(InferenceError::Shape {
                model: lanes.name().to_owned(),
                reason: "its graphs are launched by the dispatcher".to_owned(),
            }),
            Self::None => {
                let (form, bytes) = (problem.form().clone(), packed_len(problem.detectors() as usize));
                Ok(Box::new(move |request: RequestView<'_>, output: &mut [u8]| {
                    let (residual, frame) = output.split_at_mut(bytes.min(output.len()));
                    form.detectors(request.payload, residual).map_err(StageError)?;
                    frame.fill(0);
                    Ok(residual.len() + frame.len())
                }))
            }
            Self::Model(model) | Self::Packed(model) | Self::Decoder(model) => {
                self.check(problem)?;
                let named = |source| InferenceError::Engine { model: model.name().to_owned(), source };
                let engine = model.instantiate().map_err(named)?;
                let stage = EngineStage::new(engine).map_err(|e| InferenceError::Shape {
                    model: model.name().to_owned(),
                    reason: e.to_string(),
                })?;
                let form = problem.form().clone();
                let bits = vec![0; packed_len(problem.detectors() as usize)];
                if let Self::Packed(_) | Self::Decoder(_) = self {
                    if form.measurements().is_none() {
                        return Ok(Box::new(stage));
                    }
                    let (mut stage, mut bits) = (stage, bits);
                    return Ok(Box::new(move |request: RequestView<'_>, output: &mut [u8]| {
                        form.detectors(request.payload, &mut bits).map_err(StageError)?;
                        stage.run(&bits, output)
                    }));
                }
                let input = &model.inputs()[0];
                Ok(Box::new(ModelStage {
                    raw: takes_measurements(&form, input),
                    form,
                    bits,
                    input: vec![0; stage.input_bytes()],
                    output: vec![0; stage.output_bytes()],
                    input_type: input.element,
                    outputs: model.outputs().to_vec(),
                    detectors: problem.detectors() as usize,
                    observables: problem.observables() as usize,
                    stage,
                }))
            }
        }
    }
}

/// A stage with a name for profilers.
struct Named(Box<dyn InferenceStage>);

impl InferenceStage for Named {
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
        let _range = range(c"inference");
        self.0.infer(request, output)
    }
}

/// Whether the input takes a request as it is.
fn takes_measurements(form: &WireForm, input: &TensorSpec) -> bool {
    input.element == ElementType::I32
        && form.measurements().is_some_and(|layout| layout.measurements() == input.elements())
}

/// An engine with conversions from a request, and to bit-packed residual and frame.
struct ModelStage {
    stage: EngineStage,
    form: WireForm,
    /// Whether the engine's input is the request as it is.
    raw: bool,
    /// The detectors of a request.
    bits: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
    input_type: ElementType,
    outputs: Vec<TensorSpec>,
    detectors: usize,
    observables: usize,
}

impl InferenceStage for ModelStage {
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
        self.form.detectors(request.payload, &mut self.bits).map_err(StageError)?;
        if self.raw {
            self.stage.run(request.payload, &mut self.output)?;
        } else {
            let bits =
                BitView::new(&self.bits, self.detectors).map_err(|_| StageError(Status::BAD_PAYLOAD))?;
            write_elements(bits, self.input_type, &mut self.input);
            self.stage.run(&self.input, &mut self.output)?;
        }
        output.fill(0);
        let (residual, frame) = output.split_at_mut(packed_len(self.detectors));
        let (first, second) = self.output.split_at(self.outputs[0].size_bytes());
        pack_elements(first, self.outputs[0].element, self.detectors, residual);
        if let Some(spec) = self.outputs.get(1) {
            pack_elements(second, spec.element, self.observables, frame);
        }
        Ok(residual.len() + frame.len())
    }
}

/// One element a bit, 0 or 1 in the tensor's type.
fn write_elements(bits: BitView<'_>, element: ElementType, out: &mut [u8]) {
    out.fill(0);
    let size = element.size_bytes();
    let one: &[u8] = match element {
        ElementType::F32 => &1.0_f32.to_le_bytes(),
        ElementType::F16 => &0x3C00_u16.to_le_bytes(),
        ElementType::I32 => &1_i32.to_le_bytes(),
        ElementType::I64 => &1_i64.to_le_bytes(),
        ElementType::U8 | ElementType::Bool => &[1],
    };
    for index in bits.ones() {
        if let Some(place) = out.get_mut(index * size..(index + 1) * size) {
            place.copy_from_slice(one);
        }
    }
}

/// Detectors before and after inference, counted by one worker.
#[derive(Debug, Default)]
pub(crate) struct Density {
    pub(crate) before: DeviceU64,
    pub(crate) after: DeviceU64,
    pub(crate) requests: DeviceU64,
    /// Requests whose residual was empty.
    pub(crate) empty: DeviceU64,
}

impl Density {
    /// Counts a request with `fired` detectors and `left` residual detectors.
    fn count(&self, fired: usize, left: usize) {
        self.before.fetch_add(fired as u64, Ordering::Relaxed);
        self.after.fetch_add(left as u64, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        if left == 0 {
            self.empty.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The last stage: decodes the residual or, if an engine has decoded the request, checks the engine's answer and passes it on.
pub(crate) struct LastStage {
    /// `None` if an engine has decoded.
    decoder: Option<ResidualDecoder>,
    form: WireForm,
    /// The detectors of a request.
    bits: Vec<u8>,
    density: Arc<Density>,
}

impl LastStage {
    pub(crate) fn new(problem: &Problem, decoded: bool, density: Arc<Density>) -> Result<Self, DecodeError> {
        let decoder = if decoded { None } else { Some(ResidualDecoder::new(problem)?) };
        let bits = vec![0; packed_len(problem.detectors() as usize)];
        Ok(Self { decoder, form: problem.form().clone(), bits, density })
    }

    /// Turns a request's payload and the output of inference into an answer.
    fn answer(&mut self, payload: &[u8], inferred: &[u8], out: &mut [u8]) -> Result<usize, Status> {
        let _range = range(if self.decoder.is_some() { c"matching" } else { c"answer" });
        // Padding is checked on the way in: a request must match its schema.
        let fired = self.form.detectors(payload, &mut self.bits)?;
        let (len, left) = match &mut self.decoder {
            Some(decoder) => {
                let len = decoder.decode(inferred, out)?;
                (len, decoder.left())
            }
            None => (self.pass_on(inferred, out)?, fired),
        };
        self.density.count(fired, left);
        Ok(len)
    }

    /// Copies an engine's answer if it begins with a result of `decode_syndrome`. The answer is not trusted.
    fn pass_on(&self, answered: &[u8], out: &mut [u8]) -> Result<usize, Status> {
        let result = answered.get(..self.form.result_bytes()).ok_or(Status::ENGINE_FAILED)?;
        self.form.read_result(result).ok_or(Status::ENGINE_FAILED)?;
        out.get_mut(..result.len()).ok_or(Status::RESULT_TOO_LONG)?.copy_from_slice(result);
        Ok(result.len())
    }
}

impl CpuStage for LastStage {
    fn process(&mut self, context: &mut StageContext<'_>) -> StageOutcome {
        match self.answer(context.request.payload, context.output, context.response) {
            Ok(len) => StageOutcome::Done(len),
            Err(status) => StageOutcome::Failed(status),
        }
    }
}

impl RemoteStage for LastStage {
    fn process(
        &mut self,
        request: RequestView<'_>,
        output: &[u8],
        response: &mut [u8],
    ) -> Result<usize, StageError> {
        self.answer(request.payload, output, response).map_err(StageError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_type_go_there_and_back() {
        let packed = [0b1010_0110, 0b0000_0101];
        let bits = BitView::new(&packed, 11).expect("padding is 0");
        for element in ElementType::ALL {
            let mut tensor = vec![0xFF; 11 * element.size_bytes()];
            write_elements(bits, element, &mut tensor);
            let mut back = [0; 2];
            pack_elements(&tensor, element, 11, &mut back);
            assert_eq!(back, packed, "{}", element.name());
        }
    }
}
