//! Decoding: which observables were most likely flipped, given the detectors that fired.
//!
//! * [`DecodingGraph`]: errors as weighted edges between detectors, from a detector error model or a check matrix;
//! * [`MatchingDecoder`]: minimum-weight perfect matching on such a graph, over a whole experiment in space and time;
//! * [`WeightedMatching`]: the same with other weights for some edges of each shot, which [`ReadoutWeights`] finds;
//! * [`RelayDecoder`]: belief propagation in relayed legs, for errors that flip any number of detectors;
//! * [`ModelDecoders`]: one or the other, by choice or as the model needs;
//! * [`SliceDecoder`]: matching of each layer of a residual syndrome separately, counting corrections; [`SliceFactory`] makes
//!   such decoders for memory experiments;
//! * [`Registry`] and [`get`]: decoders by name, ours and a program's own;
//! * [`Decoder`] and [`DecoderFactory`]: the interface of any decoder to a pipeline, one decoder per worker;
//! * [`ShotDecoder`]: any decoder, for shots in packed bits;
//! * [`BatchDecoder`]: from the text of a model to the predictions of a batch of shots, in three lines.
//!
//! Every input is checked before an engine sees it. Decoding allocates nothing, except in an ensemble, whose lists grow as its
//! shots need.
//!
//! ```
//! use ringcall_qec::decode::{Decoder, MatchingDecoder};
//!
//! // Three data qubits in a row with two checks; an error on the last flips the observable.
//! let model = ringcall_qec::dem::text::parse("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0")?;
//! let mut decoder = MatchingDecoder::from_dem(&model)?;
//! let mut observables = [0u8];
//! let matched = decoder.decode(&[1], &mut observables)?;
//! assert_eq!((observables, matched.corrections), ([1], 1));
//! assert!((matched.weight - 9f64.ln()).abs() < 1e-6);
//!
//! assert!(decoder.decode(&[7], &mut observables).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod choice;
mod error;
mod graph;
mod matching;
mod registry;
mod relay;
mod shot;
mod slices;
mod weighted;

pub use batch::BatchDecoder;
pub use choice::{DecoderFamily, DecoderOptions, ModelDecoders};
pub use error::DecodeError;
pub use graph::{DecodingGraph, GraphEdge, ParallelEdges};
pub use matching::{MatchingDecoder, MatchingFactory};
pub use registry::{Constructor, DecoderInput, Param, Params, Registry, get};
pub use relay::{RelayDecoder, RelayFactory};
pub use ringcall_bp::{BpConfig, OrderedStatistics, UNIT as MEMORY_UNIT};
pub use shot::ShotDecoder;
pub use slices::{SliceDecoder, SliceFactory, SlicesResponse};
pub use weighted::{ReadoutWeights, WeightedMatching};

/// The result of a decode, besides the observables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matched {
    /// The weight of the correction: the sum of `ln((1 - p) / p)` over its errors.
    pub weight: f64,
    /// The number of errors in the correction if all edges of the graph have the same positive weight (as those of a check matrix
    /// without weights), else the number of matched pairs, counting a match with the boundary as one. For belief propagation, the
    /// number of errors in the correction.
    pub corrections: u32,
    /// Whether the correction explains the syndrome. Matching always does; belief propagation may run out of iterations, and then
    /// gives its best guess.
    pub converged: bool,
    /// Whether the decode was cut off ([`Decoder::decode_until`]): the answer is then the best so far.
    pub late: bool,
    /// The natural logarithm of the odds that the observables are right, if the decoder reports them, as
    /// [`MatchingEngine::Ensemble`] does. Infinite if it saw no alternative.
    pub confidence: Option<f64>,
}

/// A decoder. It may keep scratch memory, so each worker has its own.
pub trait Decoder: Send {
    /// Detectors are `0..num_detectors`.
    fn num_detectors(&self) -> u32;

    /// Observables are `0..num_observables`.
    fn num_observables(&self) -> u32;

    /// Decodes one syndrome.
    ///
    /// `defects` are the detectors that fired, each once, in any order. The observables predicted to be flipped are
    /// written to `observables`, `ceil(num_observables / 8)` bytes, least significant bit first.
    ///
    /// # Errors
    /// [`DecodeError`] for a syndrome that is malformed or that no set of errors explains. `observables` is
    /// unspecified then, and the next decode is unaffected.
    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError>;

    /// As [`decode`](Self::decode), until `expired` returns true; then the best answer so far, marked [`late`](Matched::late). A
    /// decoder that cannot be cut off finishes, and calls `expired` then.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn decode_until(
        &mut self,
        defects: &[u32],
        observables: &mut [u8],
        expired: &mut dyn FnMut() -> bool,
    ) -> Result<Matched, DecodeError> {
        let matched = self.decode(defects, observables)?;
        Ok(Matched { late: expired(), ..matched })
    }
}

/// Makes identical decoders, one for each worker.
pub trait DecoderFactory: Send + Sync {
    /// Makes a decoder.
    ///
    /// # Errors
    /// [`DecodeError`] if this kind of decoder cannot decode the model.
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError>;
}

/// The method of matching.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MatchingEngine {
    /// `ringcall-matching`: sparse blossom. Exact, and free of allocation per decode.
    #[default]
    SparseBlossom,
    /// Correlated matching, as PyMatching does it with `enable_correlations=True`: the same engine twice, the second time with
    /// lower weights for edges that share an error with those found first. More accurate and slower if errors of the model have
    /// several parts; equal to one pass on graphs without a model.
    CorrelatedBlossom,
    /// Correlated matching as the first of several matchings of a shot, put together by the likelihood of the errors that they stand
    /// for ([`ringcall_matching::EnsembleDecoder`]): fewer errors than correlated matching, at up to twice its time, with a
    /// [`confidence`](Matched::confidence). For whole shots: streams, windows and weights of a shot are matched without.
    Ensemble,
}

impl MatchingEngine {
    /// The engine's name in options and reports: `plain`, `correlated` or `ensemble`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SparseBlossom => "plain",
            Self::CorrelatedBlossom => "correlated",
            Self::Ensemble => "ensemble",
        }
    }

    /// Whether the engine uses errors of several parts.
    #[must_use]
    pub const fn minds_correlations(self) -> bool {
        !matches!(self, Self::SparseBlossom)
    }
}
