//! Exact minimum-weight perfect matching for error-correction graphs, free of allocation per decode.
//!
//! A *matching graph* has a node per detector and an edge per error mechanism: a mechanism that flips two detectors joins them,
//! one that flips a single detector joins it to the boundary. Given the detectors that fired (the *defects*), the decoder finds a
//! set of edges of least total weight that explains them, and reports the logical observables that those edges flip. Every answer
//! is optimal on the integer grid of weights (a sliding window's, within the window).
//!
//! ```
//! use ringcall_matching::{GraphBuilder, MwpmDecoder};
//!
//! // Weights are log-likelihood ratios, ln((1 - p) / p).
//! let w = |p: f64| ((1.0 - p) / p).ln();
//! let mut b = GraphBuilder::new();
//! b.boundary_edge(0, w(0.01), &[0])?;
//! b.edge(0, 1, w(0.02), &[])?.edge(1, 2, w(0.02), &[])?;
//! b.boundary_edge(2, w(0.01), &[])?;
//!
//! let mut decoder = MwpmDecoder::new(b.build()?);
//! let solution = decoder.decode(&[0, 1])?;
//! assert_eq!(solution.pairs().len(), 1);
//! assert!(!solution.flips(0));
//! assert!((solution.weight() - w(0.02)).abs() < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`GraphBuilder`] and [`CheckMatrix`] make a [`MatchingGraph`]; a [`MergeStrategy`] merges parallel edges.
//! - [`MwpmDecoder`] decodes on it. A decoder is `Send`; clones share the tables of the graph, so each thread can have its own.
//! - [`DecoderConfig::correlations`] turns on a second pass, in which edges that share an error with those found in the first are
//!   lighter; [`GraphBuilder::error`] takes such errors, as a detector error model lists them.
//! - [`EnsembleDecoder`] combines several matchings of a shot by the likelihood of their errors, and reports its confidence.
//! - [`WeightedDecoder`] takes other weights of some edges with each shot.
//! - [`StreamingDecoder`] takes a syndrome round by round; [`ParallelDecoder`] divides one among cores. [`EndlessDecoder`]
//!   decodes runs of any length round by round, [`SharedEndlessDecoder`] on several cores; [`SlidingDecoder`] does so by the
//!   overlapping recovery method.
//! - [`Solution`] is the result; [`MwpmDecoder::correction`] adds the edges, [`MwpmDecoder::verify`] a proof of optimality.
//!
//! # Units and ranges
//! Weights are finite and of magnitude up to [`MAX_WEIGHT`]. They are decoded on a grid of even integers (see
//! [`MatchingGraph::scale`]), the same grid that PyMatching 2 uses, so that weights compare exactly. Negative weights are
//! allowed. Detectors and observables are numbered from zero.
//!
//! # Method
//! The sparse blossom algorithm (Higgott and Gidney, arXiv:2303.15933), with regions that are numbers instead of sets of nodes:
//! the distances between near nodes, and to the boundary, are computed once per graph, and a defect scans its list of near nodes
//! no further than its region could reach. Defects that clearly belong to their nearest neighbour are matched without any event.
//! On small graphs few defects are matched by a table and dynamic programming. The second pass of correlated matching starts from
//! the regions of the first, gives up those that overlap across lighter edges, and searches the graph from their defects as they
//! grow anew.
//!
//! | step | file |
//! |---|---|
//! | graph, merged edges, integer weights | `builder.rs`, `graph.rs` |
//! | distances and near lists | `metric/` |
//! | regions that grow, collide and form blossoms | `blossom/` |
//! | few defects, by table | `small.rs` |
//! | which edges are lighter in the second pass, and by how much | `correlated/mod.rs`, `joint.rs` |
//! | likelihood of corrections, odds of the answer | `ensemble/` |
//! | runs without end, windows, several cores | `endless/`, `sliding.rs`, `parallel.rs` |
//! | proofs of optimality | `blossom/verify.rs` |
//!
//! # Memory and time
//! Tables take up to 256 bytes for each 16 near nodes of each detector ([`DecoderConfig::near_entries`]), at most 256 MiB or one
//! such chunk a detector, and are made in [`MwpmDecoder::new`]. Decoding allocates nothing: all state is sized by the graph. (The
//! list of pairs of defects is sized for eight per detector, and so is that of nodes searched in a second pass. A graph denser
//! than any code's makes these lists grow once, to a size that they keep.)
#![forbid(unsafe_code)]

mod bits;
mod blossom;
mod builder;
mod check_matrix;
mod correlated;
mod decoder;
mod endless;
mod ensemble;
mod error;
mod graph;
mod input;
mod integers;
mod layers;
mod metric;
mod pair_path;
mod parallel;
mod paths;
mod queue;
mod readout;
mod rounds;
mod sliding;
mod small;
mod solution;
mod streaming;
mod weighted;
mod weights;

pub use bits::set_bits;
pub use builder::{ErrorPart, GraphBuilder, MAX_OBSERVABLES, MergeStrategy};
pub use check_matrix::CheckMatrix;
pub use decoder::{DecoderConfig, MwpmDecoder, Progress};
pub use endless::{EndlessConfig, EndlessDecoder, EndlessRun, SharedEndlessConfig, SharedEndlessDecoder};
pub use ensemble::{Decision, EnsembleConfig, EnsembleDecoder, ErrorTable};
pub use error::{
    BatchError, EdgeName, MatchingError, MatchingGraphError, RoundsError, SlidingError, WeightsError,
};
pub use graph::{Edge, MAX_DETECTORS, MatchingGraph};
pub use integers::{IntegerHasher, IntegerState};
pub use parallel::{ParallelConfig, ParallelDecoder};
pub use sliding::{SlidingConfig, SlidingDecoder};
pub use solution::{CertificateError, MatchedPair, Solution};
pub use streaming::StreamingDecoder;
pub use weighted::WeightedDecoder;
pub use weights::{MAX_WEIGHT, merge_independent};
