//! The decoders of a decoding server, built from their configurations.

use super::arguments::{Method, Rounds};
use super::config::DecoderConfig;
use super::error::ConfigError;
use super::split;
use super::stream::{Stream, Unexplained, pack};
use crate::deadline::{Cancellation, Timed};
use ringcall_matching::{
    CheckMatrix, EndlessConfig, MatchingGraph, MwpmDecoder, SlidingConfig, SlidingDecoder,
};
use ringcall_qec::decode::{
    Decoder, DecoderFactory, DecoderOptions, DecodingGraph, Matched, MatchingDecoder, MatchingEngine,
    ModelDecoders, ParallelEdges, RelayFactory,
};

/// The most rounds at a run's end that windows get together.
const MAX_TAIL: usize = 8;

/// A decoder and its algorithm.
pub(super) enum Engine {
    Matching(Box<MwpmDecoder>),
    Sliding(Box<Windows>),
    /// Runs of any length, which are decoded round by round.
    Endless(Box<Stream>),
    /// Correlated matching.
    Model(Box<dyn Decoder>),
    /// Belief propagation, which a deadline or a stop cuts off.
    Relay(Timed),
}

/// How a decode that has corrections ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    /// The corrections explain the syndrome.
    Explained,
    /// Belief propagation found nothing that explains the syndrome: the corrections are its best guess.
    Unconverged,
    /// The decode was cut off: the corrections are the best found so far.
    Late,
}

impl From<Matched> for Decoded {
    fn from(matched: Matched) -> Self {
        match (matched.late, matched.converged) {
            (true, _) => Self::Late,
            (false, false) => Self::Unconverged,
            (false, true) => Self::Explained,
        }
    }
}

impl Engine {
    /// # Errors
    /// The faults that only building shows, with the line of the decoder.
    pub(super) fn new(config: &DecoderConfig) -> Result<Self, ConfigError> {
        match &config.method {
            Method::Matching { correlated: true, .. } => {
                let model =
                    split::into_edges(config.model()).map_err(|why| config.refuse("H_sparse", why))?;
                let options = DecoderOptions {
                    matching: Some(MatchingEngine::CorrelatedBlossom),
                    ..DecoderOptions::default()
                };
                let decoders = ModelDecoders::new(&model, &options);
                let decoder = decoders.and_then(|decoders| decoders.build());
                decoder.map(Self::Model).map_err(|why| config.refuse("H_sparse", why))
            }
            Method::Matching { .. } => Ok(Self::Matching(Box::new(MwpmDecoder::new(graph(config)?)))),
            &Method::Sliding { correlated, window, step, rounds, .. } => {
                let sliding = SlidingConfig { window: window as usize, commit: step as usize };
                let windows = Windows::new(&graph(config)?, rounds, sliding, correlated, config.detectors());
                windows
                    .map(|windows| Self::Sliding(Box::new(windows)))
                    .map_err(|why| config.refuse("decoder_custom_args", why))
            }
            &Method::Endless { correlated, margin, rounds, cores, .. } => {
                let mut endless = EndlessConfig::default();
                (endless.margin, endless.correlations) = (margin as usize, correlated);
                endless.observables_only = true;
                Stream::new(config, &graph(config)?, rounds, &endless, cores)
                    .map(|stream| Self::Endless(Box::new(stream)))
                    .map_err(|why| config.refuse("decoder_custom_args", why))
            }
            Method::Relay { config: settings, deadline } => {
                let factory = RelayFactory::new(&config.model(), settings);
                let decoder = factory.and_then(|factory| factory.build());
                let decoder = decoder.map_err(|why| config.refuse("H_sparse", why))?;
                Ok(Self::Relay(Timed::new(decoder, *deadline, Cancellation::default())))
            }
        }
    }

    /// Decodes detectors that fired, in ascending order, into observables packed in bits.
    pub(super) fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Decoded, Unexplained> {
        match self {
            Self::Matching(decoder) => {
                let solution = decoder.decode(defects).map_err(|_| Unexplained)?;
                pack(solution.observables(), observables);
            }
            Self::Sliding(windows) => pack(windows.decode(defects)?, observables),
            Self::Endless(_) => return Err(Unexplained),
            Self::Model(decoder) => {
                return decoder.decode(defects, observables).map(Decoded::from).map_err(|_| Unexplained);
            }
            Self::Relay(decoder) => {
                return decoder.decode(defects, observables).map(Decoded::from).map_err(|_| Unexplained);
            }
        }
        Ok(Decoded::Explained)
    }
}

/// The matching graph of H and O; every column is one edge, or with correlations several.
fn graph(config: &DecoderConfig) -> Result<MatchingGraph, ConfigError> {
    if config.is_correlated() {
        let model = split::into_edges(config.model()).map_err(|why| config.refuse("H_sparse", why))?;
        let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent);
        let decoder = graph.and_then(|graph| MatchingDecoder::new(&graph, MatchingEngine::CorrelatedBlossom));
        return Ok(decoder.map_err(|why| config.refuse("H_sparse", why))?.engine().graph().clone());
    }
    let (Method::Matching { merge, .. } | Method::Sliding { merge, .. } | Method::Endless { merge, .. }) =
        config.method
    else {
        return Err(config.refuse("type", "this is no matching"));
    };
    let weights =
        config.priors.as_ref().map(|priors| priors.iter().map(|p| ((1.0 - p) / p).ln()).collect::<Vec<_>>());
    let matrix = CheckMatrix {
        columns: config.errors(),
        checks: &config.checks,
        observables: &config.observables,
        weights: weights.as_deref(),
        probabilities: config.priors.as_deref(),
    };
    matrix.build_merged(merge).map_err(|why| config.refuse("H_sparse", why))
}

/// Windows over the rounds of a volume.
pub(super) struct Windows {
    decoder: SlidingDecoder,
    /// The first detector of each round, and at the end the number of detectors.
    starts: Vec<u32>,
    /// Positions of defects within their rounds.
    positions: Vec<u32>,
}

impl Windows {
    fn new(
        graph: &MatchingGraph,
        rounds: Rounds,
        sliding: SlidingConfig,
        correlated: bool,
        detectors: usize,
    ) -> Result<Self, String> {
        let detectors = detectors as u32;
        let starts = rounds.starts(detectors);
        let count = starts.len() - 1;
        let of = Rounds::of_detectors(&starts);
        let decoder = if correlated {
            SlidingDecoder::with_correlations(graph, &of, sliding)
        } else {
            SlidingDecoder::new(graph, &of, sliding)
        };
        let decoder = decoder.map_err(|why| why.to_string())?;
        if count < decoder.least_rounds() || decoder.tail_rounds() > MAX_TAIL {
            return Err(format!(
                "{count} rounds, {} of them a tail: windows of {} rounds need {} rounds at least and a tail of {MAX_TAIL} at \
                 most; decode by `pymatching`",
                decoder.tail_rounds(),
                sliding.window,
                decoder.least_rounds()
            ));
        }
        Ok(Self { decoder, starts, positions: Vec::with_capacity(detectors as usize) })
    }

    fn decode(&mut self, defects: &[u32]) -> Result<&[u64], Unexplained> {
        let Self { decoder, starts, positions } = self;
        decoder.restart();
        positions.clear();
        let rounds = starts.len() - 1;
        let first_of_tail = rounds - decoder.tail_rounds();
        let mut from = 0;
        // The end of each tail round's defects among the positions.
        let mut ends = [0; MAX_TAIL];
        for (round, bounds) in starts.windows(2).enumerate() {
            let begin = positions.len();
            while let Some(&defect) = defects.get(from).filter(|&&defect| defect < bounds[1]) {
                positions.push(defect - bounds[0]);
                from += 1;
            }
            match round.checked_sub(first_of_tail) {
                None => {
                    decoder.push_round(&positions[begin..]).map_err(|_| Unexplained)?;
                }
                Some(i) => ends[i] = positions.len(),
            }
        }
        let tail = rounds - first_of_tail;
        let mut begin =
            positions.len() - defects.iter().filter(|&&defect| defect >= starts[first_of_tail]).count();
        let mut parts: [&[u32]; MAX_TAIL] = [&[]; MAX_TAIL];
        for (part, &end) in parts.iter_mut().zip(&ends[..tail]) {
            *part = &positions[begin..end];
            begin = end;
        }
        decoder.finish(&parts[..tail]).map_err(|_| Unexplained)
    }
}
