//! Tanner graphs: merged error columns with integer priors, checks and observables.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::layout::Layout;
use crate::lists::Lists;

/// The largest number of checks.
pub const MAX_CHECKS: u32 = 1 << 24;
/// The largest number of observables.
pub const MAX_OBSERVABLES: u32 = 1 << 16;
/// The largest number of errors that a builder takes.
pub const MAX_ERRORS: usize = 1 << 24;
/// The largest number of checks that all errors together flip.
pub const MAX_EDGES: usize = 1 << 27;
/// The largest number of checks that one error flips: the sum of that many messages of ±127 fits 16 bits.
pub const MAX_COLUMN_CHECKS: usize = 250;

/// The largest number of checks with [`OrderedStatistics`](crate::OrderedStatistics), whose tables then take 128 MiB.
pub const MAX_ORDERED_CHECKS: usize = 1 << 15;

/// A Tanner graph, which decoders share.
///
/// A *column* is an error, or several errors that flip the same checks and the same observables, merged. Columns are numbered by
/// the first error of each, in the order in which the builder got the errors. Clones share the graph's tables.
#[derive(Debug, Clone)]
pub struct BpGraph {
    pub(crate) tables: Arc<Tables>,
}

#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) checks: u32,
    pub(crate) observables: u32,
    /// Checks of each column, in ascending order.
    pub(crate) column_checks: Lists,
    pub(crate) column_observables: Lists,
    pub(crate) probabilities: Vec<f64>,
    pub(crate) priors: Vec<u8>,
    /// The column of each error, in the builder's order; `u32::MAX` for an error that was left out.
    pub(crate) column_of: Vec<u32>,
    /// The number of columns of each check.
    pub(crate) check_degrees: Vec<u32>,
    pub(crate) layout: Layout,
}

impl BpGraph {
    /// The number of checks.
    pub fn num_checks(&self) -> usize {
        self.tables.checks as usize
    }

    /// The number of columns.
    pub fn num_columns(&self) -> usize {
        self.tables.priors.len()
    }

    /// The number of observables.
    pub fn num_observables(&self) -> usize {
        self.tables.observables as usize
    }

    /// The number of ones in the check matrix.
    pub fn num_edges(&self) -> usize {
        self.tables.column_checks.total()
    }

    /// The number of bytes of the observables, eight a byte: the length of the buffer for `decode`.
    pub fn observable_bytes(&self) -> usize {
        self.num_observables().div_ceil(8)
    }

    /// The checks that a column flips, in ascending order.
    ///
    /// # Panics
    /// If there is no such column, as an index of a slice does.
    pub fn column_checks(&self, column: usize) -> &[u32] {
        self.tables.column_checks.get(column)
    }

    /// The observables that a column flips, in ascending order.
    ///
    /// # Panics
    /// If there is no such column, as an index of a slice does.
    pub fn column_observables(&self, column: usize) -> &[u32] {
        self.tables.column_observables.get(column)
    }

    /// The probability of each column; for merged errors, that an odd number of them happens.
    pub fn probabilities(&self) -> &[f64] {
        &self.tables.probabilities
    }

    /// The prior of each column: 8 ln((1 - p)/p) to the nearest integer, at least 1 and at most 127.
    pub fn priors(&self) -> &[u8] {
        &self.tables.priors
    }

    /// The column of the builder's error number `error`, from 0; `None` if the graph leaves the error out, because it has
    /// probability 0 or flips no check.
    pub fn column_of(&self, error: usize) -> Option<u32> {
        self.tables.column_of.get(error).copied().filter(|&column| column != u32::MAX)
    }
}
