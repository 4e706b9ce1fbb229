//! Belief propagation in integers for error-correction graphs: min-sum with memory, in relayed legs.
//!
//! A *Tanner graph* has a check per detector and a column per error mechanism, which flips any number of checks. The decoder
//! passes messages between checks and columns until the columns that it decides for explain the checks that fired (the
//! *defects*), and reports the logical observables that those columns flip. Unlike matching, belief propagation takes errors that
//! flip more than two checks: bivariate bicycle and other qLDPC codes, colour codes, surface codes with X and Z errors together.
//!
//! ```
//! use ringcall_bp::{BpConfig, BpDecoder, BpGraphBuilder};
//!
//! // Three checks; the second error flips them all.
//! let mut builder = BpGraphBuilder::new(3, 1);
//! builder.error(0.01, &[0], &[])?.error(0.001, &[0, 1, 2], &[0])?.error(0.01, &[2], &[])?;
//! let graph = builder.build()?;
//!
//! let mut decoder = BpDecoder::new(&graph, &BpConfig::relay())?;
//! let mut observables = vec![0; graph.observable_bytes()];
//! let outcome = decoder.decode(&[0, 1, 2], &mut observables)?;
//! assert!(outcome.converged);
//! assert_eq!(decoder.error(), [1]);
//! assert_eq!(observables, [1]);
//! # Ok::<(), ringcall_bp::BpError>(())
//! ```
//!
//! - [`BpGraphBuilder`] and [`BpMatrix`] make a [`BpGraph`].
//! - [`BpConfig`] chooses Relay-BP, plain min-sum or damped min-sum, the iterations, the number of solutions, lanes that race,
//!   and [`OrderedStatistics`] for decodes that do not converge.
//! - [`BpDecoder::decode`] decodes; [`BpDecoder::error`] and [`BpDecoder::marginals`] describe the last decode.
//!
//! # Method
//! Min-sum belief propagation with disordered memory, whose legs relay their marginals (Müller et al., arXiv:2506.01779). All
//! numbers are integers of fixed width, so any other machine that follows `docs/design/0024-belief-propagation-in-integers.md`
//! has the same answers to the bit, whatever the order of additions.
//!
//! | step | file |
//! |---|---|
//! | graph, merged columns, priors | `builder.rs`, `graph.rs` |
//! | memory layout of messages | `layout.rs` |
//! | one iteration | `iterate.rs` |
//! | memory strengths | `config.rs` |
//! | legs, convergence, solutions | `decoder.rs` |
//! | ordered statistics, for decodes that do not converge | `ordered.rs` |
//! | tables of the kernel for GPUs | [`kernel`] |
//!
//! # Memory and time
//! A graph takes some 20 bytes an edge and a decoder 5. Ordered statistics take one more bit for each pair of checks.
//! [`BpDecoder::new`] allocates all of it. A decode ends when it converges, after the configured iterations, or when the caller
//! of [`BpDecoder::decode_while`] ends it. A defect that no column flips ends a decode at once.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod builder;
mod config;
mod decoder;
mod error;
mod graph;
mod iterate;
pub mod kernel;
mod layout;
mod lists;
mod ordered;

pub use builder::{BpGraphBuilder, BpMatrix};
pub use config::{BpConfig, OrderedStatistics, UNIT};
pub use decoder::{BpDecoder, BpOutcome};
pub use error::BpError;
pub use graph::{
    BpGraph, MAX_CHECKS, MAX_COLUMN_CHECKS, MAX_EDGES, MAX_ERRORS, MAX_OBSERVABLES, MAX_ORDERED_CHECKS,
};
