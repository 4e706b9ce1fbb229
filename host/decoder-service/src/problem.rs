//! Decoding problems: a detector error model and its decoders.

use crate::deadline::{Cancellation, Timed};
use crate::form::WireForm;
use ringcall::wire::bits::packed_len;
use ringcall::wire::schema::HandlerSchema;
use ringcall_qec::QecError;
use ringcall_qec::circuit::{MeasurementLayout, MemoryExperiment};
use ringcall_qec::decode::{
    DecodeError, Decoder, DecoderFactory, DecoderFamily, DecoderOptions, MatchingEngine, ModelDecoders,
    RelayFactory, SliceFactory, WeightedMatching,
};
use ringcall_qec::dem::DetectorErrorModel;
use std::sync::Arc;
use std::time::Duration;

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ProblemError {
    /// The model has no detectors, so there is nothing to decode.
    #[error("the detector error model has no detectors")]
    NoDetectors,
    /// Correlated matching was asked for, and equals plain matching on this model.
    #[error(
        "the detector error model has no correlations to use (errors of several parts, `^` in Stim's format, one of \
         which makes another likelier): decode it by plain matching"
    )]
    NoCorrelations,
    /// Weights come with each shot, and the problem is not decoded by matching.
    #[error("weights of a shot are for matching, which does not decode this model here")]
    NoWeights,
    /// The measurements belong to another experiment.
    #[error("the measurements have {found} detectors, where the detector error model has {expected}")]
    Measurements {
        /// Detectors of the measurements.
        found: usize,
        /// Detectors of the model.
        expected: u32,
    },
    /// The experiment does not exist.
    #[error(transparent)]
    Experiment(#[from] QecError),
    /// The model cannot be decoded.
    #[error("{0}")]
    Decode(#[from] DecodeError),
}

/// A detector error model that can be served.
#[derive(Clone)]
pub struct Problem {
    model: Arc<DetectorErrorModel>,
    decoders: Arc<ModelDecoders>,
    deadline: Option<Duration>,
    cancellation: Option<Cancellation>,
    form: WireForm,
}

impl std::fmt::Debug for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Problem")
            .field("detectors", &self.detectors())
            .field("observables", &self.observables())
            .field("decoder", &self.decoder_name())
            .finish_non_exhaustive()
    }
}

impl Problem {
    /// A problem decoded by minimum-weight perfect matching on the whole model, in one pass.
    ///
    /// # Errors
    /// A model without detectors, with too many observables, or that matching cannot decode.
    pub fn new(model: DetectorErrorModel) -> Result<Self, ProblemError> {
        Self::with_matching(model, Some(MatchingEngine::SparseBlossom))
    }

    /// A problem decoded by this kind of matching. `None` is correlated matching if the model has correlations to use, else plain
    /// matching; [`matching`](Self::matching) says which.
    ///
    /// ```
    /// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
    /// use ringcall_qec::code::Basis;
    /// use ringcall_qec::decode::MatchingEngine;
    /// use ringcall_decoder_service::Problem;
    ///
    /// let noise = CircuitNoise::uniform(0.003);
    /// let experiment = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise };
    /// let problem = Problem::with_matching(experiment.detector_error_model()?, None)?;
    /// assert_eq!(problem.matching(), Some(MatchingEngine::CorrelatedBlossom));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new); [`ProblemError::NoCorrelations`], and [`DecodeError::Likely`] for an error above 0.5, if
    /// correlated matching is asked for.
    pub fn with_matching(
        model: DetectorErrorModel,
        matching: Option<MatchingEngine>,
    ) -> Result<Self, ProblemError> {
        let family = Some(DecoderFamily::Matching);
        Self::with_decoder(model, &DecoderOptions { family, matching, ..DecoderOptions::default() })
    }

    /// A problem decoded as `options` say. If they leave the choice and matching cannot decode the model, the decoder is Relay-BP;
    /// [`decoder_name`](Self::decoder_name) says which it is.
    ///
    /// ```
    /// use ringcall_qec::circuit::{Code, Experiment};
    /// use ringcall_qec::decode::DecoderOptions;
    /// use ringcall_decoder_service::Problem;
    ///
    /// let model = Experiment { p: 0.003, ..Experiment::of(Code::Bb72) }.detector_error_model()?;
    /// let problem = Problem::with_decoder(model, &DecoderOptions::default())?;
    /// assert_eq!((problem.decoder_name(), problem.observables()), ("relay", 12));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`with_matching`](Self::with_matching), and the errors of [`ModelDecoders::new`].
    pub fn with_decoder(model: DetectorErrorModel, options: &DecoderOptions) -> Result<Self, ProblemError> {
        if model.num_detectors == 0 {
            return Err(ProblemError::NoDetectors);
        }
        let decoders = ModelDecoders::new(&model, options)?;
        let found = decoders.matching();
        if found.is_some() && options.matching.is_some_and(|kind| Some(kind) != found) {
            return Err(ProblemError::NoCorrelations);
        }
        Self::decoded_by(model, decoders)
    }

    /// A problem decoded by these decoders, which must be of this model: the only way for a plug-in's decoders.
    ///
    /// ```
    /// use ringcall_decoder_service::Problem;
    /// use ringcall_qec::decode::{MatchingFactory, DecodingGraph, ModelDecoders, ParallelEdges};
    /// use std::sync::Arc;
    ///
    /// let model = ringcall_qec::dem::text::parse("error(0.1) D0\nerror(0.1) D0 L0")?;
    /// let graph = DecodingGraph::from_dem(&model, ParallelEdges::SmallestWeight)?;
    /// let decoders = ModelDecoders::Plugin(Arc::new(MatchingFactory::best(&graph)?));
    /// let problem = Problem::decoded_by(model, decoders)?;
    /// assert_eq!((problem.decoder_name(), problem.matching()), ("plugin", None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A model without detectors.
    pub fn decoded_by(model: DetectorErrorModel, decoders: ModelDecoders) -> Result<Self, ProblemError> {
        if model.num_detectors == 0 {
            return Err(ProblemError::NoDetectors);
        }
        let form = WireForm::new(model.num_detectors, model.num_observables);
        Ok(Self {
            model: Arc::new(model),
            decoders: Arc::new(decoders),
            deadline: None,
            cancellation: None,
            form,
        })
    }

    /// The memory experiment decoded by slices: the checks of each basis in each layer of time separately, by a [`SliceFactory`].
    /// Slices ignore errors of measurement, so this is for residuals of a predecoder.
    ///
    /// ```
    /// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
    /// use ringcall_qec::code::Basis;
    /// use ringcall_decoder_service::Problem;
    ///
    /// let experiment = MemoryExperiment { distance: 7, rounds: 7, basis: Basis::Z, noise: CircuitNoise::uniform(0.003) };
    /// let problem = Problem::by_slices(&experiment)?.with_measurements(&experiment)?.answering_alone();
    /// assert_eq!((problem.decoder_name(), problem.request_bytes(), problem.result_bytes()), ("slices", 2016, 8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The experiment does not exist.
    pub fn by_slices(experiment: &MemoryExperiment) -> Result<Self, ProblemError> {
        let decoders = ModelDecoders::Slices(Box::new(SliceFactory::new(experiment, true)?));
        Self::decoded_by(experiment.detector_error_model()?, decoders)
    }

    /// The same problem with measurements of `experiment` as requests, an `INT32` each, in place of detectors.
    ///
    /// # Errors
    /// The experiment has another number of detectors.
    pub fn with_measurements(self, experiment: &MemoryExperiment) -> Result<Self, ProblemError> {
        let layout = MeasurementLayout::new(experiment)?;
        let (found, expected) = (layout.detectors(), self.detectors());
        if found != expected as usize {
            return Err(ProblemError::Measurements { found, expected });
        }
        let form = self.form.clone().measured(Arc::new(layout));
        Ok(Self { form, ..self })
    }

    /// The same problem with a [`DecodeResponse`](ringcall::wire::qec::DecodeResponse) alone as the answer, without observables.
    #[must_use]
    pub fn answering_alone(self) -> Self {
        let form = self.form.clone().alone();
        Self { form, ..self }
    }

    /// The same problem with a confidence at the end of each answer, a `FLOAT32`
    /// ([`Matched::confidence`](ringcall_qec::decode::Matched::confidence)). [`MatchingEngine::Ensemble`] reports one; for other
    /// decoders it is NaN.
    #[must_use]
    pub fn with_confidence(self) -> Self {
        let form = self.form.clone().confident();
        Self { form, ..self }
    }

    /// The wire form of requests and answers.
    #[must_use]
    pub fn form(&self) -> &WireForm {
        &self.form
    }

    /// The same problem, with matching in one pass; the decoders share these decoders' tables.
    #[must_use]
    pub fn single_pass(&self) -> Self {
        Self { decoders: Arc::new(self.decoders.single_pass()), ..self.clone() }
    }

    /// The same problem with a deadline for each decode, counted from its begin. An answer that was cut off is the best so far,
    /// and is marked ([`DecodeResponse::LATE`](ringcall::wire::qec::DecodeResponse::LATE)).
    #[must_use]
    pub fn with_deadline(self, deadline: Option<Duration>) -> Self {
        Self { deadline, ..self }
    }

    /// The same problem, whose decodes end early once they are cancelled: their answer is then the best so far, and says that it is late.
    /// Matching takes microseconds; without a deadline it comes to its end all the same.
    #[must_use]
    pub fn cancelled_by(self, cancellation: &Cancellation) -> Self {
        Self { cancellation: Some(cancellation.clone()), ..self }
    }

    /// How long a decode may take.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The family of the decoders.
    #[must_use]
    pub fn family(&self) -> DecoderFamily {
        self.decoders.family()
    }

    /// The kind of matching; `None` for other decoders.
    #[must_use]
    pub fn matching(&self) -> Option<MatchingEngine> {
        self.decoders.matching()
    }

    /// The belief propagation decoders; `None` for other decoders.
    #[must_use]
    pub fn relay(&self) -> Option<&RelayFactory> {
        self.decoders.relay()
    }

    /// The decoder's name in reports: `plain`, `correlated`, `relay`, `plugin` or `slices`.
    #[must_use]
    pub fn decoder_name(&self) -> &'static str {
        self.decoders.name()
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

    /// A new decoder, for one worker.
    ///
    /// # Errors
    /// The decoder cannot be made.
    pub fn decoder(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        let decoder = self.decoders.build()?;
        let is_cancelled = self.cancellation.is_some() && self.family() == DecoderFamily::Relay;
        Ok(if self.deadline.is_some() || is_cancelled {
            let cancellation = self.cancellation.clone().unwrap_or_default();
            Box::new(Timed::new(decoder, self.deadline, cancellation))
        } else {
            decoder
        })
    }

    /// A decoder that takes weights with each shot; `None` if the problem is not decoded by matching.
    #[must_use]
    pub fn weighted(&self) -> Option<WeightedMatching> {
        self.decoders.weighted()
    }

    /// The schema of `decode_syndrome` for this model.
    #[must_use]
    pub fn schema(&self) -> HandlerSchema {
        self.form.schema()
    }

    /// Bytes of a request's payload.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        self.form.request_bytes()
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
        self.form.result_bytes()
    }

    /// Bytes of inference output for a request: residual detectors, then the logical frame, both bit-packed.
    #[must_use]
    pub fn inferred_bytes(&self) -> usize {
        packed_len(self.detectors() as usize) + packed_len(self.observables() as usize)
    }
}
