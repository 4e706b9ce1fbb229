//! Errors of graphs and of requests to decode.

use thiserror::Error;

/// Why a matching graph could not be built.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum MatchingGraphError {
    /// A detector index is not below the largest supported index.
    #[error("detector {detector} is out of range: at most {limit} detectors are supported")]
    DetectorOutOfRange {
        /// The index given.
        detector: u32,
        /// One past the largest index supported.
        limit: u32,
    },
    /// An observable index is not below the largest supported index.
    #[error("observable {observable} is out of range: at most {limit} observables are supported")]
    ObservableOutOfRange {
        /// The index given.
        observable: u32,
        /// One past the largest index supported.
        limit: u32,
    },
    /// A weight is NaN or infinite.
    #[error(
        "the weight {weight} of edge {edge} is not finite; leave out mechanisms of probability 0, and give those of probability 1 a large finite weight"
    )]
    WeightNotFinite {
        /// The edge in question, for the message.
        edge: EdgeName,
        /// The weight given.
        weight: f64,
    },
    /// A weight is larger than the grid allows.
    #[error("the weight {weight} of edge {edge} is too large: its magnitude must not exceed {max}")]
    WeightTooLarge {
        /// The edge in question, for the message.
        edge: EdgeName,
        /// The weight given.
        weight: f64,
        /// The largest magnitude allowed.
        max: f64,
    },
    /// No grid has room for a weight of this magnitude.
    #[error("there is no room for weights of magnitude {weight}: it must be above 0 and at most {max}")]
    Room {
        /// The magnitude asked for.
        weight: f64,
        /// The largest magnitude allowed.
        max: f64,
    },
    /// A probability is outside 0 to 1.
    #[error("the error probability {probability} of edge {edge} is not between 0 and 1")]
    BadProbability {
        /// The edge in question, for the message.
        edge: EdgeName,
        /// The probability given.
        probability: f64,
    },
    /// The probability of an error is outside 0 to 0.5.
    #[error(
        "the error probability {probability} is not between 0 and 0.5, as correlated errors need it: of an error that is likelier than not, flip what it flips in every shot and give the probability that it does not happen"
    )]
    ErrorProbability {
        /// The probability given.
        probability: f64,
    },
    /// A part of an error is not an edge.
    #[error(
        "part {part} of the error flips {detectors} detectors, and an edge has one or two: decompose errors into such parts (`decompose_errors=True` in Stim)"
    )]
    PartSize {
        /// Its index in the error.
        part: usize,
        /// How many detectors it flips.
        detectors: usize,
    },
    /// An edge is named that does not exist.
    #[error("edge {edge} was not added: there are {edges} edges so far")]
    NoSuchEdge {
        /// The index given.
        edge: u32,
        /// How many edges there are.
        edges: usize,
    },
    /// An error with several parts shares an edge that was given a negative weight.
    #[error(
        "edge {edge} has a negative weight and is part of a correlated error: weights that change their sign are not supported"
    )]
    CorrelatedNegative {
        /// The edge in question.
        edge: EdgeName,
    },
    /// Two edges join the same detectors and the merge strategy forbids it.
    #[error(
        "edge {edge} is already in the graph; choose a merge strategy other than `Disallow` to combine them"
    )]
    ParallelEdge {
        /// The edge in question.
        edge: EdgeName,
    },
    /// A column of a check matrix touches no detector, or more than two.
    #[error("column {column} of the check matrix has {ones} ones; matching needs one or two")]
    ColumnWeight {
        /// The column in question.
        column: usize,
        /// How many rows it touches.
        ones: usize,
    },
    /// A row names a column that does not exist.
    #[error("a row names column {column}, but the matrix has {columns} columns")]
    ColumnOutOfRange {
        /// The column named.
        column: u32,
        /// How many there are.
        columns: usize,
    },
    /// A row names the same column twice.
    #[error("row {row} names column {column} twice")]
    RepeatedColumn {
        /// The row in question.
        row: usize,
        /// The column that is named twice.
        column: u32,
    },
    /// A per-column slice has the wrong length.
    #[error("`{what}` has {found} entries, but the matrix has {expected} columns")]
    Length {
        /// The slice.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The number of columns.
        expected: usize,
    },
    /// The graph has more edges or detectors than 32-bit indices can name.
    #[error("the graph is too large: {what} would exceed {limit}")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// Its limit.
        limit: u64,
    },
}

/// How an edge is named in a message: two detectors, or one and the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeName {
    /// The first end.
    pub u: u32,
    /// The second end; `None` is the boundary.
    pub v: Option<u32>,
}

impl std::fmt::Display for EdgeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.v {
            Some(v) => write!(f, "({}, {v})", self.u),
            None => write!(f, "({}, boundary)", self.u),
        }
    }
}

/// Why a list of defects could not be decoded. A [`MwpmDecoder`](crate::MwpmDecoder) is unaffected afterwards; a decoder that takes a
/// syndrome in parts keeps the parts that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MatchingError {
    /// A defect names a detector that the graph does not have.
    #[error("defect {defect} is out of range: the graph has {detectors} detectors")]
    DefectOutOfRange {
        /// The index given.
        defect: u32,
        /// How many detectors there are.
        detectors: usize,
    },
    /// A defect is listed twice.
    #[error("defect {defect} is listed twice")]
    DuplicateDefect {
        /// The index given twice.
        defect: u32,
    },
    /// No set of edges explains the defects.
    #[error(
        "no correction exists: the connected part of the graph that holds detector {detector} has no boundary and an odd number of defects"
    )]
    OddParity {
        /// One of the defects in that part.
        detector: u32,
    },
    /// A bit-packed syndrome is too short, or has bits set past the last detector.
    #[error("the bit-packed syndrome of {words} words does not fit {detectors} detectors")]
    SyndromeLength {
        /// How many 64-bit words were given.
        words: usize,
        /// How many detectors there are.
        detectors: usize,
    },
    /// A defect was given with another round than its own.
    #[error("defect {defect} belongs to round {round}, but the next round is {expected}")]
    WrongRound {
        /// The index given.
        defect: u32,
        /// Its round.
        round: u32,
        /// The round that comes next.
        expected: usize,
    },
    /// The offsets of a batch do not describe its defect list.
    #[error(
        "the shot would end at {end}, after {start}, in a list of {defects} defects: offsets must not fall, and must stay within the list"
    )]
    Offsets {
        /// Where the shot would begin.
        start: usize,
        /// Where it would end.
        end: usize,
        /// Length of the defect list.
        defects: usize,
    },
}

/// Why a shot with its own weights could not be decoded. The decoder is unaffected afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A weight is given for an edge that the graph does not have.
    #[error("a weight is given for edge {edge}, but the graph has {edges} edges")]
    NoSuchEdge {
        /// The index given.
        edge: u32,
        /// How many edges there are.
        edges: usize,
    },
    /// A weight is not a number, negative, or too large for the grid.
    #[error("the weight of edge {edge} is {weight}: it must be from 0 to {most}")]
    OutOfRange {
        /// The edge.
        edge: u32,
        /// The weight given.
        weight: f64,
        /// The largest weight that there may be.
        most: f64,
    },
    /// Two weights are given for one edge.
    #[error("two weights are given for edge {edge}")]
    Twice {
        /// The edge.
        edge: u32,
    },
    /// A weight is given for an edge whose weight in the graph is negative.
    #[error("the weight of edge {edge} is negative in the graph, and cannot be another for a shot")]
    Negative {
        /// The edge.
        edge: u32,
    },
    /// The defects cannot be decoded.
    #[error(transparent)]
    Decode(#[from] MatchingError),
}

/// Why detectors could not be assigned to rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RoundsError {
    /// There must be one round for each detector.
    #[error("rounds are given for {found} detectors, but the graph has {expected}")]
    Length {
        /// How many were given.
        found: usize,
        /// How many detectors there are.
        expected: usize,
    },
    /// A thread could not be started.
    #[error("a thread could not be started: {kind}")]
    Thread {
        /// The operating system's reason.
        kind: std::io::ErrorKind,
    },
    /// The tables would be too large.
    #[error("{rounds} rounds are too many for a graph of {detectors} detectors")]
    TooMany {
        /// The number of rounds.
        rounds: usize,
        /// The number of detectors.
        detectors: usize,
    },
}

/// Why a sliding window cannot be made, or a round not be taken.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SlidingError {
    /// The detectors could not be assigned to rounds.
    #[error(transparent)]
    Rounds(#[from] RoundsError),
    /// No two neighbouring rounds of the graph are alike, so that it cannot be continued.
    #[error("no two neighbouring rounds of the graph are alike: give that of a run with a few more rounds")]
    NotPeriodic,
    /// The window cannot move on by that many rounds.
    #[error(
        "a window of {window} rounds cannot move on by {commit}: at least 1, fewer than the window has, and few enough to index"
    )]
    Window {
        /// Rounds looked at together.
        window: usize,
        /// Rounds decided at a time.
        commit: usize,
    },
    /// An edge could lead from a decided round past the window.
    #[error(
        "a window of {window} rounds that moves on by {commit} is too narrow for edges over {reach} rounds: they must end within it"
    )]
    Reach {
        /// Rounds looked at together.
        window: usize,
        /// Rounds decided at a time.
        commit: usize,
        /// How many rounds apart the ends of an edge are, at most.
        reach: usize,
    },
    /// A part of the window has no boundary, so a defect there may wait for ever.
    #[error(
        "a part of the graph has no boundary within a window of {window} rounds: decode it with SlidingDecoder"
    )]
    NoBoundary {
        /// Rounds looked at together.
        window: usize,
    },
    /// The graph has edges of negative weight.
    #[error("a sliding window cannot be had on a graph with edges of negative weight")]
    Negative,
    /// The defects of a round are not strictly increasing positions among its detectors.
    #[error(
        "the defects of round {round} are not strictly increasing, or name more than its {detectors} detectors"
    )]
    Defect {
        /// The round.
        round: usize,
        /// How many detectors it has.
        detectors: u32,
    },
    /// The number of last rounds is not that of the graph's tail.
    #[error("a run ends with {expected} rounds, but {found} were given")]
    Tail {
        /// How many were given.
        found: usize,
        /// How many there are.
        expected: usize,
    },
    /// The run is shorter than a window and the rounds at its ends.
    #[error(
        "a run of {rounds} rounds is too short for this window, which needs {least}: decode it as a whole"
    )]
    TooShort {
        /// The rounds given.
        rounds: usize,
        /// The fewest that there can be.
        least: usize,
    },
    /// The graph of a window could not be built.
    #[error(transparent)]
    Build(#[from] MatchingGraphError),
    /// A window could not be decoded.
    #[error(transparent)]
    Decode(#[from] MatchingError),
}

/// The shot of a batch that could not be decoded, and why. The shots before it were decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("shot {shot} of the batch: {source}")]
pub struct BatchError {
    /// Its number, from zero.
    pub shot: usize,
    /// The error.
    pub source: MatchingError,
}
