//! What is decoded: a detector error model, and decoders for it.

use ringcall::wire::bits::packed_len;
use ringcall::wire::qec::decode_syndrome_schema;
use ringcall::wire::schema::HandlerSchema;
use ringcall_qec::decode::{DecodeError, DecoderFactory, MatchingFactory};
use ringcall_qec::dem::DetectorErrorModel;
use std::sync::Arc;

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ProblemError {
    /// It has no detectors: there is nothing to decode.
    #[error("the detector error model has no detectors")]
    NoDetectors,
    /// It has more observables than a response carries.
    #[error("the detector error model has {0} observables; at most 64 are served")]
    TooManyObservables(u32),
    /// It cannot be decoded.
    #[error("{0}")]
    Decode(#[from] DecodeError),
}

/// A detector error model that can be served.
#[derive(Clone)]
pub struct Problem {
    model: Arc<DetectorErrorModel>,
    decoders: Arc<dyn DecoderFactory>,
}

impl std::fmt::Debug for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Problem")
            .field("detectors", &self.detectors())
            .field("observables", &self.observables())
            .finish_non_exhaustive()
    }
}

impl Problem {
    /// A problem decoded by minimum-weight perfect matching on the whole model.
    ///
    /// # Errors
    /// A model without detectors, with too many observables, or that is no matching problem.
    pub fn new(model: DetectorErrorModel) -> Result<Self, ProblemError> {
        if model.num_detectors == 0 {
            return Err(ProblemError::NoDetectors);
        }
        if model.num_observables > 64 {
            return Err(ProblemError::TooManyObservables(model.num_observables));
        }
        let decoders = Arc::new(MatchingFactory::from_dem(&model)?);
        Ok(Self { model: Arc::new(model), decoders })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &DetectorErrorModel {
        &self.model
    }

    /// Detectors in a request.
    #[must_use]
    pub fn detectors(&self) -> u32 {
        self.model.num_detectors
    }

    /// Observables in a response.
    #[must_use]
    pub fn observables(&self) -> u32 {
        self.model.num_observables
    }

    /// One decoder a worker.
    pub(crate) fn decoders(&self) -> &Arc<dyn DecoderFactory> {
        &self.decoders
    }

    /// The schema of `decode_syndrome` for this model.
    #[must_use]
    pub fn schema(&self) -> HandlerSchema {
        decode_syndrome_schema(self.detectors(), self.observables())
    }

    /// Bytes of a request's payload.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        packed_len(self.detectors() as usize)
    }

    /// Bytes of a slot that takes both request and response: a multiple of a cache line.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        let bytes = self.request_bytes().max(self.result_bytes());
        (ringcall::wire::header::HEADER_BYTES + bytes).next_multiple_of(64)
    }

    /// Bytes of a response's result.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        packed_len(self.observables() as usize) + ringcall::wire::qec::DecodeResponse::BYTES
    }

    /// Bytes that inference leaves of a request: residual detectors, then the logical frame, both bit-packed.
    #[must_use]
    pub fn inferred_bytes(&self) -> usize {
        self.request_bytes() + packed_len(self.observables() as usize)
    }
}
