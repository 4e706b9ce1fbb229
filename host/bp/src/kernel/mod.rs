//! Tables of the Relay-BP kernel for GPUs: which block has which checks and columns, and where each message lies.
//!
//! The kernel (`kernels-cu/relay`) is compiled in a few [`KernelShape`]s, each of which decodes any graph that fits. A cluster of
//! [`KernelShape::blocks`] blocks decodes one shot. A block has a run of checks and every column that touches one of them, so each
//! block at a border computes the border's columns. Checks of other blocks that such columns touch are the block's *halo*.
//!
//! ```
//! use ringcall_bp::kernel::{SHAPES, Tables, check_config};
//! use ringcall_bp::{BpConfig, BpGraphBuilder};
//!
//! let mut builder = BpGraphBuilder::new(3, 1);
//! builder.error(0.01, &[0], &[0])?.error(0.001, &[0, 1, 2], &[])?.error(0.01, &[2], &[])?;
//! let graph = builder.build()?;
//! check_config(&graph, &BpConfig::relay())?;
//! let tables = Tables::choose(&graph, &SHAPES)?;
//! assert_eq!((tables.shape().name, tables.checks()), ("bb72_8", 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | contents | file |
//! |---|---|
//! | checks, columns and messages of each block | `cut.rs` |
//! | the arrays as the kernel reads them | `tables.rs` |

mod cut;
mod tables;

use crate::config::BpConfig;
use crate::error::BpError;
use crate::graph::BpGraph;
use core::fmt;
pub use tables::{BlockTables, Tables};

/// The most observables that the kernel reports.
pub const MAX_OBSERVABLES: usize = 32;
/// The most checks that a column flips in the kernel: the sum of that many messages of ±127 is exact in half precision.
pub const MAX_COLUMN_CHECKS: usize = 8;
/// The largest magnitude of a memory strength, in 128ths, for which products with differences of ±638 round exactly in half
/// precision.
pub const MAX_MEMORY: i16 = 102;
/// The most iterations of all legs together: the kernel finds the winner of a race by 26 bits of them.
pub const MAX_ITERATIONS: u64 = (1 << 26) - 1;

/// A shape that the kernel is compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelShape {
    /// Its name in `kernels-cu/relay/shapes.h`.
    pub name: &'static str,
    /// Blocks of a cluster, which decodes one shot.
    pub blocks: u32,
    /// Threads of a block, a multiple of 32.
    pub threads: u32,
    /// Threads of a check.
    pub split: u32,
    /// Positions for states of checks in a block, its own and the halo's, one of which stays empty; a power of two.
    pub positions: u32,
    /// The most checks of a column in each pass. In a pass each thread of a block computes two columns.
    pub passes: &'static [u32],
}

impl KernelShape {
    /// Checks of one column, summed over all passes.
    #[must_use]
    pub fn degree_sum(&self) -> u32 {
        self.passes.iter().sum()
    }

    /// Whether threads keep the positions of messages and states in separate registers.
    #[must_use]
    pub fn keeps_slots(&self) -> bool {
        self.degree_sum() <= 12
    }

    /// Words between rows of messages. Where slots are kept, the stride lets the threads of a check read different banks.
    #[must_use]
    pub fn stride(&self) -> u32 {
        if self.keeps_slots() { self.positions + 32 / self.split % 32 } else { self.positions }
    }

    /// Bytes of shared memory that a block takes, for rows of `rows` words.
    #[must_use]
    pub fn shared_bytes(&self, rows: u32) -> u32 {
        let slots = if self.keeps_slots() { 0 } else { self.degree_sum() * self.threads };
        4 * ((rows + 1) * self.stride() + 2 * self.positions + slots + 2 * self.blocks + 64)
    }
}

const fn shape(
    name: &'static str,
    [blocks, threads, split, positions]: [u32; 4],
    passes: &'static [u32],
) -> KernelShape {
    KernelShape { name, blocks, threads, split, positions, passes }
}

/// The shapes that a host chooses from, in order.
pub const SHAPES: [KernelShape; 5] = [
    shape("bb72_8", [8, 352, 4, 256], &[6]),
    shape("bb144_16n", [16, 320, 2, 512], &[6, 3]),
    shape("bb144_8", [8, 480, 2, 512], &[6, 3]),
    shape("wide_16", [16, 512, 2, 1024], &[6, 6, 3, 3]),
    shape("deep_16", [16, 512, 2, 256], &[8, 8, 4, 4, 4, 4]),
];

/// Further shapes, for the kernel's own benchmark.
pub const MEASURED: [KernelShape; 8] = [
    shape("bb72_1", [1, 576, 2, 256], &[6, 3]),
    shape("bb72_1s", [1, 256, 1, 256], &[6, 4, 3, 3, 3]),
    shape("bb72_8n", [8, 192, 4, 256], &[6, 3]),
    shape("bb72_4", [4, 352, 4, 256], &[6, 3]),
    shape("bb144_1", [1, 1024, 1, 1024], &[6, 4, 3, 3, 3]),
    shape("bb144_4", [4, 512, 1, 512], &[6, 3, 3]),
    shape("bb144_8w", [8, 928, 4, 512], &[6]),
    shape("bb144_16", [16, 608, 4, 512], &[6]),
];

/// Why the kernel cannot decode a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// A configuration that the decoder does not support, or that the kernel's arithmetic cannot represent.
    Config {
        /// The supported values.
        what: &'static str,
    },
    /// The graph exceeds a limit of every shape.
    TooMany {
        /// The quantity.
        what: &'static str,
        /// Its value.
        found: usize,
        /// Its limit.
        limit: usize,
    },
    /// The graph does not fit a shape.
    NoRoom {
        /// The shape.
        shape: &'static str,
        /// The quantity that is too large.
        what: &'static str,
        /// Its value.
        found: usize,
        /// Its limit.
        limit: usize,
    },
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { what } => write!(f, "the GPU's Relay-BP does not take this configuration: {what}"),
            Self::TooMany { what, found, limit } => {
                write!(f, "the GPU's Relay-BP takes at most {limit} {what}, and the graph has {found}")
            }
            Self::NoRoom { shape, what, found, limit } => write!(
                f,
                "the graph does not fit the GPU's Relay-BP: the last shape that was tried, {shape}, has room for {limit} {what}, and \
                 {found} are needed"
            ),
        }
    }
}

impl core::error::Error for KernelError {}

/// Refuses a graph or a configuration that no shape of the kernel can decode.
///
/// # Errors
/// [`KernelError::Config`] for damping, for memory strengths beyond [`MAX_MEMORY`], for more than [`MAX_ITERATIONS`] iterations,
/// and for a configuration that [`BpDecoder::new`](crate::BpDecoder::new) refuses; [`KernelError::TooMany`] for more than
/// [`MAX_OBSERVABLES`] observables, and for a column of more than [`MAX_COLUMN_CHECKS`] checks.
pub fn check_config(graph: &BpGraph, config: &BpConfig) -> Result<(), KernelError> {
    let what = match config.checked() {
        Err(BpError::Config { what }) => Some(what),
        Err(_) => Some("the CPU's decoder refuses it"),
        Ok(_) => None,
    };
    let strengths = [config.first_memory, config.memory.0, config.memory.1];
    let iterations =
        u64::from(config.first_iterations) + u64::from(config.legs) * u64::from(config.leg_iterations);
    let iterations = iterations.min(u64::from(config.max_iterations)) + u64::from(config.lane_delay);
    let what = what.or(if config.damping != 0 {
        Some("`damping` is 0")
    } else if config.ordered_statistics.is_some() {
        Some("`ordered_statistics` are for a CPU")
    } else if strengths.iter().any(|strength| strength.unsigned_abs() > MAX_MEMORY.unsigned_abs()) {
        Some("`first_memory` and `memory` are -102 to 102")
    } else if iterations > MAX_ITERATIONS {
        Some("all legs and `lane_delay` together are at most 67,108,863 iterations")
    } else {
        None
    });
    if let Some(what) = what {
        return Err(KernelError::Config { what });
    }
    let longest = (0..graph.num_columns()).map(|column| graph.column_checks(column).len()).max().unwrap_or(0);
    for (what, found, limit) in [
        ("observables", graph.num_observables(), MAX_OBSERVABLES),
        ("checks of one column", longest, MAX_COLUMN_CHECKS),
    ] {
        if found > limit {
            return Err(KernelError::TooMany { what, found, limit });
        }
    }
    Ok(())
}
