//! Side information: data on a shot besides its detectors, and decoding with it.

use crate::problem::{Problem, ProblemError};
use crate::residual::converged;
use ringcall::Status;
use ringcall::wire::bits::packed_len;
use ringcall::wire::header::HEADER_BYTES;
use ringcall::wire::names::{DECODE_READOUT, DECODE_WEIGHTED};
use ringcall::wire::qec::{DecodeResponse, write_decode_result};
use ringcall::wire::readout::Readout;
use ringcall::wire::schema::HandlerSchema;
use ringcall::wire::weighted::{
    decode_readout_schema, decode_weighted_schema, read_readout_request, read_weighted_request,
};
use ringcall_gpu::clock;
use ringcall_pipeline::{CpuStage, StageContext, StageOutcome};
use ringcall_qec::decode::{DecodeError, ReadoutWeights, WeightedMatching};
use std::time::Duration;

/// The side information of requests.
#[derive(Debug, Clone)]
pub enum SideInformation {
    /// `decode_weighted`: other weights for some edges.
    Weights {
        /// The most weights of a request.
        most: u32,
    },
    /// `decode_readout`: confidences or levels of the measurements.
    Readout {
        /// Their encoding.
        readout: Readout,
        /// The edge of each measurement.
        weights: ReadoutWeights,
    },
}

impl SideInformation {
    /// The function that takes this side information.
    #[must_use]
    pub const fn function(&self) -> &'static str {
        match self {
            Self::Weights { .. } => DECODE_WEIGHTED,
            Self::Readout { .. } => DECODE_READOUT,
        }
    }

    /// The function's schema.
    #[must_use]
    pub fn schema(&self, problem: &Problem) -> HandlerSchema {
        let (detectors, observables) = (problem.detectors(), problem.observables());
        match self {
            Self::Weights { most } => decode_weighted_schema(detectors, observables, *most),
            Self::Readout { readout, weights } => {
                decode_readout_schema(detectors, observables, *readout, weights.measurements())
            }
        }
    }

    /// Bytes of a slot that takes both request and response: a multiple of a cache line.
    #[must_use]
    pub fn slot_bytes(&self, problem: &Problem) -> usize {
        let request = self.schema(problem).args_bytes().unwrap_or(u32::MAX) as usize;
        HEADER_BYTES.saturating_add(request.max(problem.result_bytes())).next_multiple_of(64)
    }
}

/// Matching with side information: from the payload of a `decode_weighted` or `decode_readout` to its result.
///
/// It makes one pass, exact on the shot's weights, and allocates nothing per request. As a [`CpuStage`] it is the last stage of a
/// pipeline whose function has the [`schema`](Self::schema); the stage ignores the output of inference.
///
/// ```
/// use ringcall::Status;
/// use ringcall::wire::qec::read_decode_result;
/// use ringcall::wire::weighted::write_weighted_request;
/// use ringcall_decoder_service::{Problem, SideDecoder, SideInformation};
///
/// let model = "error(0.1) D0\nerror(0.1) D0 D1\nerror(0.05) D1 L0";
/// let problem = Problem::new(ringcall_qec::dem::text::parse(model)?)?;
/// let mut decoder = SideDecoder::new(&problem, SideInformation::Weights { most: 2 })?;
/// let schema = *decoder.schema();
/// let (mut request, mut result) = ([0; 21], [0; 9]);
/// // Detector 0 fired, and errors 1 and 2 are likelier than the model says.
/// let len = write_weighted_request(&schema, &mut request, &[0b01], &[(1, 0.25), (2, 0.0)])?;
/// assert_eq!(decoder.answer(&request[..len], &mut result), Ok(9));
/// assert!(read_decode_result(&schema, &result)?.0.ones().eq([0]));
///
/// // An edge that does not exist, and a weight that is NaN.
/// write_weighted_request(&schema, &mut request, &[0b01], &[(9, 0.25)])?;
/// assert_eq!(decoder.answer(&request[..len], &mut result), Err(Status::BAD_PAYLOAD));
/// write_weighted_request(&schema, &mut request, &[0b01], &[(1, f32::NAN)])?;
/// assert_eq!(decoder.answer(&request[..len], &mut result), Err(Status::BAD_PAYLOAD));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SideDecoder {
    schema: HandlerSchema,
    side: SideInformation,
    decoder: WeightedMatching,
    deadline: Option<Duration>,
    defects: Vec<u32>,
    weights: Vec<(u32, f64)>,
    observables: Vec<u8>,
}

impl SideDecoder {
    /// Makes a decoder on the tables of the problem's decoders.
    ///
    /// # Errors
    /// [`ProblemError::NoWeights`]: the problem is not decoded by matching.
    pub fn new(problem: &Problem, side: SideInformation) -> Result<Self, ProblemError> {
        let room = match &side {
            SideInformation::Weights { most } => *most as usize,
            SideInformation::Readout { .. } => 0,
        };
        Ok(Self {
            schema: side.schema(problem),
            side,
            decoder: problem.weighted().ok_or(ProblemError::NoWeights)?,
            deadline: problem.deadline(),
            defects: Vec::with_capacity(problem.detectors() as usize),
            weights: Vec::with_capacity(room),
            observables: vec![0; packed_len(problem.observables() as usize)],
        })
    }

    /// The schema of the decoder's function.
    #[must_use]
    pub const fn schema(&self) -> &HandlerSchema {
        &self.schema
    }

    /// The decoder's side information.
    #[must_use]
    pub const fn side(&self) -> &SideInformation {
        &self.side
    }

    /// Takes the arguments of its function, and writes the result. Returns the result's length. An answer that exceeded the
    /// problem's deadline is marked so, and is complete.
    ///
    /// # Errors
    /// [`Status::BAD_PAYLOAD`] for more weights than fit, an edge that does not exist or is listed twice, a weight that is NaN or
    /// out of range, a code that is not a level, and set padding; [`Status::SCHEMA_MISMATCH`] for another length;
    /// [`Status::ENGINE_FAILED`] for a syndrome that no errors explain; [`Status::RESULT_TOO_LONG`] if `result` is too short.
    pub fn answer(&mut self, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        let begin = self.deadline.map(|_| clock::now_ns());
        let Self { schema, side, decoder, defects, weights, observables, .. } = self;
        let (detectors, weights) = match side {
            SideInformation::Weights { .. } => {
                let (detectors, given) =
                    read_weighted_request(schema, request).map_err(|error| error.status())?;
                weights.clear();
                weights.extend(given.iter().map(|(edge, weight)| (edge, f64::from(weight))));
                (detectors, &**weights)
            }
            SideInformation::Readout { readout, weights } => {
                let (detectors, view) =
                    read_readout_request(schema, *readout, request).map_err(|error| error.status())?;
                weights.clear();
                // A u32 counts the measurements.
                view.doubts(|measurement, ratio| weights.doubt(measurement as u32, f64::from(ratio)));
                (detectors, weights.weights())
            }
        };
        defects.clear();
        defects.extend(detectors.ones().map(|index| index as u32));
        let mut matched = decoder.decode(defects, weights, observables).map_err(|error| match error {
            DecodeError::Weights(_) => Status::BAD_PAYLOAD,
            _ => Status::ENGINE_FAILED,
        })?;
        matched.late = begin.zip(self.deadline).is_some_and(|(begin, deadline)| {
            u128::from(clock::now_ns().saturating_sub(begin)) >= deadline.as_nanos()
        });
        let outcome = DecodeResponse {
            total_corrections: i32::try_from(matched.corrections).unwrap_or(i32::MAX),
            converged: converged(&matched),
        };
        write_decode_result(schema, result, observables, outcome).map_err(|_| Status::RESULT_TOO_LONG)
    }
}

impl CpuStage for SideDecoder {
    fn process(&mut self, context: &mut StageContext<'_>) -> StageOutcome {
        match self.answer(context.request.payload, context.response) {
            Ok(len) => StageOutcome::Done(len),
            Err(status) => StageOutcome::Failed(status),
        }
    }
}
