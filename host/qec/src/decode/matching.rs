//! The matching decoder: `ringcall-matching` on a graph, with this crate's errors.

use ringcall_matching::{
    DecoderConfig, EnsembleConfig, EnsembleDecoder, ErrorTable, GraphBuilder, MAX_WEIGHT, MergeStrategy,
    MwpmDecoder, Progress, Solution,
};

use super::{DecodeError, Decoder, DecoderFactory, DecodingGraph, Matched, MatchingEngine, ParallelEdges};
use crate::dem::DetectorErrorModel;

/// Minimum-weight perfect matching on a [`DecodingGraph`].
///
/// Weights are rounded to whole steps as PyMatching does: the largest in magnitude becomes `2^24 - 1` steps, and
/// whole weights are kept as they are. Clones share the graph's tables.
///
/// ```
/// use ringcall_qec::decode::{Decoder, MatchingDecoder, MatchingEngine, DecodingGraph, ParallelEdges};
///
/// // One error crosses two edges. The pair 2, 3 alone is explained without the observable; with 0, 1 it is not.
/// let model = ringcall_qec::dem::text::parse(
///     "error(0.01) D0 D1 ^ D2 D3 L0
///      error(0.012) D2
///      error(0.495) D3
///      error(0.001) D0
///      error(0.001) D1",
/// )?;
/// let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
/// let mut decoder = MatchingDecoder::new(&graph, MatchingEngine::CorrelatedBlossom)?;
/// let mut observables = [0u8];
/// decoder.decode(&[2, 3], &mut observables)?;
/// assert_eq!(observables, [0]);
/// decoder.decode(&[0, 1, 2, 3], &mut observables)?;
/// assert_eq!(observables, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MatchingDecoder {
    decoder: MwpmDecoder,
    /// The grid weight that all edges share, if there is one and it is not 0.
    uniform: Option<i64>,
    /// The decision by likelihood, for [`MatchingEngine::Ensemble`].
    ensemble: Option<Box<EnsembleDecoder>>,
}

impl MatchingDecoder {
    /// Makes a decoder with the default engine on the graph of `model`, loaded as by PyMatching.
    ///
    /// # Errors
    /// As [`DecodingGraph::from_dem`] and [`new`](Self::new).
    pub fn from_dem(model: &DetectorErrorModel) -> Result<Self, DecodeError> {
        let graph = DecodingGraph::from_dem(model, ParallelEdges::Independent)?;
        Self::new(&graph, MatchingEngine::default())
    }

    /// Makes a decoder with this engine on this graph.
    ///
    /// # Errors
    /// [`DecodeError::WeightRange`] for weights too far apart, [`DecodeError::Graph`] for a graph that is too large,
    /// [`DecodeError::Likely`] for an error above 0.5 if the engine uses correlations.
    pub fn new(graph: &DecodingGraph, engine: MatchingEngine) -> Result<Self, DecodeError> {
        Self::with(graph, engine, false)
    }

    /// Makes a decoder for the observables alone. Parts of the graph that cannot affect an observable, such as the checks of the
    /// other basis of a memory experiment, are left out, which halves the work of plain matching of such an experiment.
    /// [`Matched`] then describes the other parts alone. An ensemble weighs the likelihood of all errors, and leaves nothing out.
    ///
    /// ```
    /// use ringcall_qec::decode::{Decoder, MatchingDecoder, MatchingEngine, DecodingGraph, ParallelEdges};
    /// # let model = ringcall_qec::dem::text::parse("error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\nerror(0.1) D2")?;
    /// let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
    /// let mut decoder = MatchingDecoder::for_observables(&graph, MatchingEngine::SparseBlossom)?;
    /// let mut observables = [0u8];
    /// // Detector 2 is unrelated to any observable.
    /// assert_eq!(decoder.decode(&[0, 2], &mut observables)?.corrections, 1);
    /// assert_eq!(observables, [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_observables(graph: &DecodingGraph, engine: MatchingEngine) -> Result<Self, DecodeError> {
        Self::with(graph, engine, engine != MatchingEngine::Ensemble)
    }

    fn with(
        graph: &DecodingGraph,
        engine: MatchingEngine,
        observables_only: bool,
    ) -> Result<Self, DecodeError> {
        check_range(graph)?;
        let mut builder = GraphBuilder::new();
        builder.ensure_detectors(graph.num_detectors() as usize);
        builder.ensure_observables(graph.num_observables() as usize);
        for edge in graph.edges() {
            let (u, v, strategy) = (edge.node, edge.other, MergeStrategy::Disallow);
            builder.merge_edge(u, v, edge.weight, &edge.observables, None, strategy)?;
        }
        let mut config = DecoderConfig::default();
        config.correlations = engine.minds_correlations();
        config.observables_only = observables_only;
        if config.correlations {
            for error in graph.errors() {
                let (mechanism, probability) = (error.mechanism, error.probability);
                if probability > 0.5 {
                    return Err(DecodeError::Likely { mechanism, probability });
                }
                builder.correlate(probability, &error.edges)?;
            }
        }
        let built = builder.build()?;
        let uniform = graph
            .edges()
            .first()
            .map(|first| first.weight)
            .filter(|&weight| weight > 0.0 && graph.edges().iter().all(|edge| edge.weight == weight))
            .map(|_| built.grid_weight(0));
        let decoder = MwpmDecoder::with_config(built, &config);
        let decides = engine == MatchingEngine::Ensemble && decoder.makes_second_pass();
        let ensemble = if decides {
            let errors = graph.errors().iter().map(|error| (error.probability, &error.edges[..]));
            let table = ErrorTable::new(decoder.graph().num_edges(), errors)?;
            Some(Box::new(EnsembleDecoder::new(decoder.clone(), table, EnsembleConfig::default())))
        } else {
            None
        };
        Ok(Self { decoder, uniform, ensemble })
    }

    /// The engine: decoders that take a syndrome in parts share its tables.
    pub fn engine(&self) -> &MwpmDecoder {
        &self.decoder
    }

    /// The engine in use. It is [`MatchingEngine::SparseBlossom`] unless another was asked for and the model has correlations to
    /// use: errors of several parts, one of which makes another likelier.
    pub fn kind(&self) -> MatchingEngine {
        if self.ensemble.is_some() {
            MatchingEngine::Ensemble
        } else if self.decoder.makes_second_pass() {
            MatchingEngine::CorrelatedBlossom
        } else {
            MatchingEngine::SparseBlossom
        }
    }

    /// The grid weight of every edge of a correction, if all are equal. Lowered weights are not all equal.
    fn uniform(&self) -> Option<i64> {
        self.uniform.filter(|_| !self.decoder.makes_second_pass())
    }

    /// Checks the length of the buffer for observables.
    fn check(&self, observables: &[u8]) -> Result<(), DecodeError> {
        let (expected, found) = ((self.num_observables() as usize).div_ceil(8), observables.len());
        if found == expected {
            return Ok(());
        }
        Err(DecodeError::Length { what: "bytes for observables", expected, found })
    }

    /// Decodes by the ensemble.
    fn decide(
        &mut self,
        defects: &[u32],
        observables: &mut [u8],
        expired: Option<&mut dyn FnMut() -> bool>,
    ) -> Result<Matched, DecodeError> {
        let count = self.decoder.graph().num_detectors() as u32;
        let Some(ensemble) = &mut self.ensemble else {
            return Err(DecodeError::Engine { reason: "no ensemble".to_owned() });
        };
        let decided = match expired {
            Some(expired) => ensemble.decode_until(defects, expired),
            None => ensemble.decode(defects).map(|decision| (decision, Progress::Done)),
        };
        let (decision, progress) = decided.map_err(|error| refusal(error, count))?;
        copy_words(decision.observables(), observables);
        let confidence = Some(decision.confidence());
        let solution = ensemble.solution();
        Ok(Matched {
            weight: solution.weight(),
            corrections: solution.pairs().len() as u32,
            converged: progress != Progress::Part { explained: false },
            late: progress != Progress::Done,
            confidence,
        })
    }

    /// The step to which weights are rounded: the weight of every matching is a whole multiple of it.
    pub fn weight_step(&self) -> f64 {
        1.0 / (2.0 * self.decoder.graph().scale())
    }
}

/// Checks that no weight would vanish next to others.
fn check_range(graph: &DecodingGraph) -> Result<(), DecodeError> {
    let magnitudes = || graph.edges().iter().map(|edge| edge.weight.abs());
    let largest = magnitudes().fold(0.0, f64::max);
    if largest <= MAX_WEIGHT && magnitudes().all(|weight| weight.fract() == 0.0) {
        return Ok(());
    }
    let scale = MAX_WEIGHT / largest;
    // No weight of a probability exceeds 745, and steps of 745 / 2^24 are fine for any of them. Larger weights come from the
    // user, and losing one is a wrong answer.
    let smallest = magnitudes().filter(|&weight| weight > 0.0).fold(f64::INFINITY, f64::min);
    if !scale.is_normal() || (largest > 1000.0 && smallest * scale < 0.5) {
        return Err(DecodeError::WeightRange { smallest, largest });
    }
    Ok(())
}

impl Decoder for MatchingDecoder {
    fn num_detectors(&self) -> u32 {
        self.decoder.graph().num_detectors() as u32
    }

    fn num_observables(&self) -> u32 {
        self.decoder.graph().num_observables() as u32
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        self.check(observables)?;
        let count = self.num_detectors();
        if self.ensemble.is_some() {
            return self.decide(defects, observables, None);
        }
        let uniform = self.uniform();
        let solution = self.decoder.decode(defects).map_err(|error| refusal(error, count))?;
        Ok(matched(solution, uniform, observables))
    }

    fn decode_until(
        &mut self,
        defects: &[u32],
        observables: &mut [u8],
        expired: &mut dyn FnMut() -> bool,
    ) -> Result<Matched, DecodeError> {
        self.check(observables)?;
        let count = self.num_detectors();
        if self.ensemble.is_some() {
            return self.decide(defects, observables, Some(expired));
        }
        let uniform = self.uniform();
        let (solution, progress) =
            self.decoder.decode_until(defects, expired).map_err(|error| refusal(error, count))?;
        let converged = progress != Progress::Part { explained: false };
        Ok(Matched { converged, late: progress != Progress::Done, ..matched(solution, uniform, observables) })
    }
}

/// The result of a solution, with its observables as bytes.
pub(super) fn matched(solution: &Solution, uniform: Option<i64>, observables: &mut [u8]) -> Matched {
    copy_words(solution.observables(), observables);
    let corrections = match uniform {
        Some(step) => u32::try_from(solution.grid_weight() / step).unwrap_or(u32::MAX),
        None => solution.pairs().len() as u32,
    };
    Matched { weight: solution.weight(), corrections, converged: true, late: false, confidence: None }
}

/// Observables as bytes.
fn copy_words(words: &[u64], observables: &mut [u8]) {
    for (bytes, word) in observables.chunks_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

pub(super) fn refusal(error: ringcall_matching::MatchingError, count: u32) -> DecodeError {
    use ringcall_matching::MatchingError as Theirs;
    match error {
        Theirs::DefectOutOfRange { defect: detector, .. } => DecodeError::Detector { detector, count },
        Theirs::DuplicateDefect { defect: detector } => DecodeError::Duplicate { detector },
        Theirs::OddParity { detector } => DecodeError::OddParity { detector },
        other => DecodeError::Engine { reason: other.to_string() },
    }
}

impl std::fmt::Debug for MatchingDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let graph = self.decoder.graph();
        f.debug_struct("MatchingDecoder")
            .field("num_detectors", &graph.num_detectors())
            .field("num_observables", &graph.num_observables())
            .field("edges", &graph.num_edges())
            .field("correlations", &graph.num_correlations())
            .finish_non_exhaustive()
    }
}

/// Makes [`MatchingDecoder`]s on one graph. All share the graph's tables, which the factory makes once.
#[derive(Debug, Clone)]
pub struct MatchingFactory {
    prototype: MatchingDecoder,
}

impl MatchingFactory {
    /// Decoders with the default engine on the graph of `model`, loaded as by PyMatching.
    ///
    /// # Errors
    /// As [`MatchingDecoder::from_dem`].
    pub fn from_dem(model: &DetectorErrorModel) -> Result<Self, DecodeError> {
        Ok(Self { prototype: MatchingDecoder::from_dem(model)? })
    }

    /// Decoders with this engine on this graph.
    ///
    /// # Errors
    /// As [`MatchingDecoder::new`].
    pub fn new(graph: &DecodingGraph, engine: MatchingEngine) -> Result<Self, DecodeError> {
        Ok(Self { prototype: MatchingDecoder::new(graph, engine)? })
    }

    /// Decoders by correlated matching if the graph's model has correlations to use, else by plain matching: [`kind`](Self::kind)
    /// says which.
    ///
    /// ```
    /// use ringcall_qec::decode::{MatchingEngine, MatchingFactory, DecodingGraph, ParallelEdges};
    /// # let kind = |text: &str| -> Result<MatchingEngine, Box<dyn std::error::Error>> {
    /// #     let model = ringcall_qec::dem::text::parse(text)?;
    /// let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
    /// # Ok(
    /// MatchingFactory::best(&graph)?.kind()
    /// # )};
    /// # let single = "error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0";
    /// # assert_eq!(kind(single)?, MatchingEngine::SparseBlossom);
    /// # assert_eq!(kind("error(0.1) D0 ^ D1\nerror(0.2) D0")?, MatchingEngine::CorrelatedBlossom);
    /// # // Correlated matching takes no error that is likelier than not.
    /// # assert_eq!(kind("error(0.6) D0 ^ D1")?, MatchingEngine::SparseBlossom);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new) for plain matching.
    pub fn best(graph: &DecodingGraph) -> Result<Self, DecodeError> {
        Ok(Self { prototype: best_of(|engine| MatchingDecoder::new(graph, engine))? })
    }

    /// Decoders as of [`MatchingDecoder::for_observables`] with this engine; `None` chooses as [`best`](Self::best).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_observables(
        graph: &DecodingGraph,
        engine: Option<MatchingEngine>,
    ) -> Result<Self, DecodeError> {
        let make = |engine| MatchingDecoder::for_observables(graph, engine);
        Ok(Self { prototype: engine.map_or_else(|| best_of(make), make)? })
    }

    /// Decoders in one pass, which share these decoders' tables.
    #[must_use]
    pub fn single_pass(&self) -> Self {
        let MatchingDecoder { decoder, uniform, .. } = &self.prototype;
        let prototype = MatchingDecoder { decoder: decoder.single_pass(), uniform: *uniform, ensemble: None };
        Self { prototype }
    }

    /// The decoder that others are cloned from.
    pub(super) fn prototype(&self) -> &MatchingDecoder {
        &self.prototype
    }

    /// The engine of the decoders, as [`MatchingDecoder::kind`].
    pub fn kind(&self) -> MatchingEngine {
        self.prototype.kind()
    }
}

/// Correlated matching, or plain matching if an error is too likely for correlations.
fn best_of(
    make: impl Fn(MatchingEngine) -> Result<MatchingDecoder, DecodeError>,
) -> Result<MatchingDecoder, DecodeError> {
    match make(MatchingEngine::CorrelatedBlossom) {
        Err(DecodeError::Likely { .. }) => make(MatchingEngine::SparseBlossom),
        made => made,
    }
}

impl DecoderFactory for MatchingFactory {
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        Ok(Box::new(self.prototype.clone()))
    }
}
