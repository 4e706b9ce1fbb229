//! Matching after a hand-off: the workers' stage for a network's output from a service's queue.

use crate::{Problem, ResidualDecoder, pack_elements};
use ringcall::Status;
use ringcall::wire::bits::{BitView, packed_len};
use ringcall_infer::{ElementType, TensorSpec, check_finite};
use ringcall_inference_service::{Binding, Bindings, Job, Stage};
use ringcall_qec::decode::DecodeError;

/// Why a service's output cannot be matched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandoffError {
    /// The service hands over tensors other than residual and frame of this problem.
    #[error("handed over is {found}, where {expected} is matched")]
    Outputs {
        /// The tensors.
        found: String,
        /// What the problem needs.
        expected: String,
    },
    /// The decoder cannot be made.
    #[error(transparent)]
    Decoder(#[from] DecodeError),
}

/// Matching, as the CPU's part of an [`AiPredecoderService`](ringcall_inference_service::AiPredecoderService): takes residual
/// detectors and logical frame from a record of the queue, and answers with a result of `decode_syndrome`, whose observables are
/// `frame XOR matching(residual)`. An empty residual is not matched. Each worker has its own stage.
///
/// ```no_run
/// use ringcall::{RingConfig, wire::names::DECODE_SYNDROME};
/// use ringcall_inference_service::{AiPredecoderService, ServiceOptions, Stage, WorkerOptions, Workers};
/// use ringcall_launch::ring::{DeviceDispatcher, Functions, KernelKind, MappedRing, Modules};
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// use ringcall_decoder_service::Problem;
/// use ringcall_decoder_service::gpu::{GpuPredecoder, MatchingStage};
///
/// let noise = CircuitNoise::uniform(0.003);
/// let experiment = MemoryExperiment { distance: 7, rounds: 7, basis: Basis::Z, noise };
/// let predecoder = GpuPredecoder::load("training/models/predecoder_3x128_int8.onnx", &experiment, None)?;
/// let problem = Problem::new(experiment.detector_error_model()?)?;
/// let (instances, depth) = (2, 16);
/// let options = ServiceOptions { instances, ..ServiceOptions::default() };
/// let service = AiPredecoderService::new(&predecoder.engine(instances)?, depth, &options)?;
/// let config = RingConfig { slots: 32, slot_bytes: service.slot_bytes() };
/// let ring = MappedRing::allocate(predecoder.context(), config)?;
/// let stage = || Ok(Box::new(MatchingStage::packed(&problem, service.outputs())?) as Box<dyn Stage>);
/// let stages = (0..4).map(|_| stage()).collect::<Result<_, Box<dyn std::error::Error>>>()?;
/// let functions = service.function(Functions::new(), DECODE_SYNDROME);
/// let graphs = ringcall_launch::ring::DispatcherOptions::new(KernelKind::graph());
/// let dispatcher = DeviceDispatcher::wire(&ring, functions, Modules::new(), graphs)?.start()?;
/// let workers = Workers::start(service.queues(), ring.ring().shared(), stages, &WorkerOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MatchingStage {
    decoder: ResidualDecoder,
    detectors: usize,
    observables: usize,
    layout: Layout,
}

/// The layout of residual and frame in a record.
#[derive(Debug)]
enum Layout {
    /// Bit-packed, as matching takes them.
    Packed,
    /// Tensors of one element a bit, and the buffer in which they are packed.
    Elements { residual: Binding, frame: Option<Binding>, packed: Vec<u8> },
}

impl MatchingStage {
    /// For a service that hands over residual and frame bit-packed, one after the other in one tensor, as a
    /// [wired](ringcall_inference_service::PredecoderEngine::wired) network writes them.
    ///
    /// # Errors
    /// Other outputs, or a decoder that cannot be made.
    pub fn packed(problem: &Problem, outputs: &Bindings) -> Result<Self, HandoffError> {
        let bytes = problem.inferred_bytes();
        match outputs.bound() {
            [Binding { spec, .. }] if spec.element == ElementType::U8 && spec.elements() == bytes => {
                Self::new(problem, Layout::Packed)
            }
            other => Err(refused(other, format!("u8 of {bytes} bytes of bits"))),
        }
    }

    /// For a service that hands over a tensor of residual detectors, an element a detector, and perhaps one of the logical frame,
    /// an element an observable: a network with its corrections built in, for example from TensorRT. An element is set if it is
    /// not 0, or above one half.
    ///
    /// # Errors
    /// Other outputs, or a decoder that cannot be made.
    pub fn elements(problem: &Problem, outputs: &Bindings) -> Result<Self, HandoffError> {
        let [detectors, observables] = [problem.detectors(), problem.observables()].map(|n| n as usize);
        let (residual, frame) = match outputs.bound() {
            [residual] => (residual, None),
            [residual, frame] if frame.spec.elements() == observables => (residual, Some(frame.clone())),
            other => return Err(unmatched(other, detectors, observables)),
        };
        if residual.spec.elements() != detectors {
            return Err(unmatched(outputs.bound(), detectors, observables));
        }
        let packed = vec![0; problem.inferred_bytes()];
        Self::new(problem, Layout::Elements { residual: residual.clone(), frame, packed })
    }

    fn new(problem: &Problem, layout: Layout) -> Result<Self, HandoffError> {
        let [detectors, observables] = [problem.detectors(), problem.observables()].map(|n| n as usize);
        Ok(Self { decoder: ResidualDecoder::new(problem)?, detectors, observables, layout })
    }
}

fn unmatched(found: &[Binding], detectors: usize, observables: usize) -> HandoffError {
    let expected =
        format!("{detectors} residual detectors, and a frame of {observables} observables if there is one,");
    refused(found, expected)
}

fn refused(found: &[Binding], expected: String) -> HandoffError {
    let shown: Vec<_> = found.iter().map(|binding| TensorSpec::to_string(&binding.spec)).collect();
    HandoffError::Outputs { found: shown.join(", "), expected }
}

impl Stage for MatchingStage {
    fn process(&mut self, job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status> {
        let split = packed_len(self.detectors);
        match &mut self.layout {
            Layout::Packed => {
                let (residual, frame) = job.output.split_at_checked(split).ok_or(Status::ENGINE_FAILED)?;
                // No decision reaches the padding: bits set there came with the request, unless the device gave up, which the
                // frame's padding shows.
                let sound = BitView::new(frame, self.observables).is_ok();
                if sound && BitView::new(residual, self.detectors).is_err() {
                    return Err(Status::BAD_PAYLOAD);
                }
                self.decoder.decode(job.output, result)
            }
            Layout::Elements { residual, frame, packed } => {
                packed.fill(0);
                let (left, flips) = packed.split_at_mut(split);
                pack(job.output, residual, left)?;
                if let Some(frame) = frame {
                    pack(job.output, frame, flips)?;
                }
                self.decoder.decode(packed, result)
            }
        }
    }
}

/// One tensor of a record.
fn pack(record: &[u8], binding: &Binding, packed: &mut [u8]) -> Result<(), Status> {
    let Binding { spec, offset, bytes, .. } = binding;
    let tensor = record.get(*offset..offset + bytes).ok_or(Status::ENGINE_FAILED)?;
    check_finite(std::slice::from_ref(spec), [tensor]).map_err(|_| Status::ENGINE_FAILED)?;
    pack_elements(tensor, spec.element, spec.elements(), packed);
    Ok(())
}
