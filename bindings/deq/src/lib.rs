//! Microsoft's `deq` decoder interface (crate `deq-decoder-abi`, version 1 of the binary interface), both ways.
//!
//! - As a shared library, `libringcall_deq.so` is a plug-in for deq: minimum-weight perfect matching with
//!   `ringcall-matching`, plain or correlated, with probabilities that a request sets, losses and observables.
//! - As a Rust crate, it loads such libraries, ours or another's, as decoders of a detector error model (feature `host`).
//!
//! The plug-in within is [`HypergraphDecoder`], which needs no C:
//!
//! ```
//! use ringcall_deq::{Config, Hypergraph, HypergraphDecoder, NO_LOSS};
//!
//! // Three errors on two detectors: the left boundary, the edge between them, the right boundary.
//! let graph = Hypergraph::new(2, &[0.01, 0.02, 0.01], &[0, 1, 3, 4], &[0, 0, 1, 1], None)?;
//! let mut decoder = HypergraphDecoder::new(&graph, Config::default())?;
//! // Syndromes are packed with the most significant bit first: detector 0 is bit 7 of byte 0.
//! assert_eq!(decoder.decode(&[0b1100_0000], &[], NO_LOSS)?, [1]);
//! // In this shot the edge between them cannot have been crossed.
//! let without = [ringcall_deq::EdgeReweight { edge: 1, probability: 0.0 }];
//! assert_eq!(decoder.decode(&[0b1100_0000], &without, NO_LOSS)?, [0, 2]);
//! # Ok::<(), ringcall_deq::Refusal>(())
//! ```
//!
//! | step | file |
//! |---|---|
//! | the hypergraph as a host hands it over, checked | `hypergraph.rs` |
//! | errors as edges, and what an edge weighs | `edges.rs`; errors of more than two detectors: `split.rs` |
//! | a request: probabilities, losses (`loss.rs`), the answer | `decoder.rs` |
//! | options | `config.rs` |
//! | C functions; pointers of the host's | `exports/mod.rs`; `exports/views.rs` |
//! | loading a library; a decoder out of it | `host/library.rs`; `host/decoder.rs` |

mod config;
mod decoder;
mod edges;
mod exports;
#[cfg(feature = "host")]
pub mod host;
mod hypergraph;
mod loss;
mod rows;
mod split;

pub use config::{Config, Hyperedges, Matching};
pub use decoder::HypergraphDecoder;
pub use deq_decoder_abi::interface::DeqDecoderEdgeReweight as EdgeReweight;
pub use hypergraph::Hypergraph;
pub use loss::{LossSite, LossSites, NO_LOSS};

/// Why a graph or a request is refused.
///
/// A refused request leaves the decoder as it was: the next decode is right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An argument breaks the rules of the interface.
    #[error("{0}")]
    Argument(String),
    /// The arguments are as they should be, and there is no answer to them.
    #[error("{0}")]
    Failed(String),
}
