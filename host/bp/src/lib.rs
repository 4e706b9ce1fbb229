//! Belief propagation in integers for error-correction graphs: min-sum with memory, in relayed legs.
//!
//! A *Tanner graph* has a check per detector and a column per error mechanism, which flips any number of checks. The decoder passes
//! messages between checks and columns until the columns it holds for wrong explain the checks that fired (the *defects*), and
//! says which logical observables those columns flip. Unlike matching, it takes errors that flip more than two checks: bivariate
//! bicycle and other qLDPC codes, colour codes, surface codes with X and Z errors together.
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
//! - [`BpConfig`] chooses Relay-BP, plain min-sum or damped min-sum, the iterations, the number of solutions, lanes that race, and
//!   [`OrderedStatistics`] behind what did not converge.
//! - [`BpDecoder::decode`] decodes; [`BpDecoder::error`] and [`BpDecoder::marginals`] say more about the last decode.
//!
//! # Method Min-sum belief propagation with disordered memory, whose legs relay their marginals (Müller et al., arXiv:2506.01779). All numbers are integers of fixed width, so any other machine that follows `docs/design/0024-belief-propagation-in-integers.md` has the same answers to the bit, in any order of additions.
//!
//! | step | file |
//! |---|---|
//! | graph, merged columns, priors | `builder.rs`, `graph.rs` |
//! | which messages lie side by side | `layout.rs` |
//! | one iteration | `iterate.rs` |
//! | memory strengths | `config.rs` |
//! | legs, convergence, solutions | `decoder.rs` |
//! | ordered statistics, where nothing converged | `ordered.rs` |
//! | tables of the kernel for GPUs | [`kernel`] |
//!
//! # Memory and time
//! A graph takes some 20 bytes an edge and a decoder 5, and [`BpDecoder::new`] allocates all of it; ordered statistics take a bit for each pair of checks more. A decode ends after the
//! iterations of its configuration at the latest, or when [`BpDecoder::decode_while`] is told to end it. A check that fired and that
//! no column flips ends a decode at once.
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
