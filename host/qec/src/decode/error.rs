//! Errors of matching graphs and decoders.

use crate::QecError;

/// Why a graph could not be built or a syndrome not be decoded.
///
/// A refused syndrome leaves the decoder unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The detector error model contradicts itself.
    #[error(transparent)]
    Model(#[from] QecError),
    /// An error flips more than two detectors, which no edge can express.
    #[error(
        "mechanism {mechanism} flips {count} detectors in one part, and an edge has at most two: decompose it into \
         parts of at most two (`decompose_errors=True` in Stim), or decode by belief propagation"
    )]
    Hyperedge {
        /// Its index in the model.
        mechanism: usize,
        /// The detectors of the offending part.
        count: usize,
    },
    /// A data qubit takes part in more than two checks.
    #[error("column {column} of the check matrix is in {count} rows, and an edge joins at most two")]
    HeavyColumn {
        /// The column.
        column: u32,
        /// The number of rows that contain it.
        count: usize,
    },
    /// A row of a check matrix names a column that does not exist, or a column twice.
    #[error("row {row} of the check matrix names column {column}, which it {problem}")]
    CheckMatrix {
        /// The row.
        row: usize,
        /// The column.
        column: u32,
        /// The fault that was found.
        problem: &'static str,
    },
    /// A list that should have one entry per item has another length.
    #[error("{what}: {found} given, {expected} needed")]
    Length {
        /// The counted items.
        what: &'static str,
        /// The number needed.
        expected: usize,
        /// The number given.
        found: usize,
    },
    /// A mechanism that fires in every shot has an infinite weight.
    #[error(
        "mechanism {mechanism} has probability 1, an infinite weight that would round all others to zero: take it \
         out of the model and flip what it flips in every shot"
    )]
    Certain {
        /// Its index in the model.
        mechanism: usize,
    },
    /// A weight that is infinite or not a number.
    #[error("the edge at detector {node} has weight {weight}: give a finite number")]
    Weight {
        /// One of its ends.
        node: u32,
        /// The weight.
        weight: f64,
    },
    /// Weights so far apart that the small ones would count as zero.
    #[error(
        "weights range from {smallest} to {largest}: the engine keeps 24 bits, so the small ones would become zero; \
         bring them closer together"
    )]
    WeightRange {
        /// The smallest magnitude that is not 0.
        smallest: f64,
        /// The largest magnitude.
        largest: f64,
    },
    /// An edge from a detector to itself.
    #[error("an edge joins detector {node} to itself: such an error flips no detector, leave it out")]
    SelfLoop {
        /// The detector.
        node: u32,
    },
    /// An edge or a syndrome names a detector that does not exist.
    #[error("detector {detector} is out of range: there are {count}")]
    Detector {
        /// The index given.
        detector: u32,
        /// The number of detectors.
        count: u32,
    },
    /// An edge names an observable that does not exist.
    #[error("observable {observable} is out of range: there are {count}")]
    Observable {
        /// The index given.
        observable: u32,
        /// The number of observables.
        count: u32,
    },
    /// Correlated matching was asked for an error that is likelier than not.
    #[error(
        "mechanism {mechanism} has probability {probability}, and correlated matching takes none above 0.5: flip what \
         it flips in every shot and give the probability that it does not happen, or match without correlations"
    )]
    Likely {
        /// Its index in the model.
        mechanism: usize,
        /// Its probability.
        probability: f64,
    },
    /// The matching engine cannot represent the graph.
    #[error(transparent)]
    Graph(#[from] ringcall_matching::MatchingGraphError),
    /// Belief propagation cannot represent the model, or its configuration is out of range.
    #[error(transparent)]
    Relay(#[from] ringcall_bp::BpError),
    /// A detector is listed twice in one syndrome.
    #[error("detector {detector} is listed twice: list each detector that fired once")]
    Duplicate {
        /// The detector.
        detector: u32,
    },
    /// An odd number of detectors fired in a part of the graph from which no edge leads to the boundary.
    #[error(
        "an odd number of detectors fired in the part of the graph with detector {detector}, which has no boundary \
         edge: no set of errors explains that, so the syndrome or the model is wrong"
    )]
    OddParity {
        /// A detector of that part that fired.
        detector: u32,
    },
    /// The graph does not allow the weights of a shot.
    #[error(transparent)]
    Weights(#[from] ringcall_matching::WeightsError),
    /// A measurement whose wrong outcome is no edge of the graph.
    #[error("measurement {measurement} {reason}: nothing can be made of what its read-out says")]
    Measurement {
        /// Its index in the record.
        measurement: u32,
        /// The reason.
        reason: String,
    },
    /// A residual value that is neither 0 nor 1.
    #[error("residual detector {index} is {value}: it must be 0 or 1")]
    Residual {
        /// Its index.
        index: usize,
        /// Its value.
        value: i32,
    },
    /// A decoder from a shared library could not be made, refused a syndrome, or gave an invalid answer.
    #[error("{reason}")]
    Plugin {
        /// The library, and its message.
        reason: String,
    },
    /// The engine refused a syndrome for a reason of its own.
    #[error(
        "the matching engine refused the syndrome ({reason}): please report this with graph and syndrome"
    )]
    Engine {
        /// The engine's message.
        reason: String,
    },
}
