//! Graphs from errors, one by one, or from a check matrix with priors and observables.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::error::BpError;
use crate::graph::{BpGraph, MAX_CHECKS, MAX_COLUMN_CHECKS, MAX_EDGES, MAX_ERRORS, MAX_OBSERVABLES, Tables};
use crate::layout::Layout;
use crate::lists::Lists;

/// Collects errors, and makes a [`BpGraph`] of them.
///
/// ```
/// use ringcall_bp::BpGraphBuilder;
///
/// // A repetition code of three bits: two checks, and the first bit is the observable.
/// let mut builder = BpGraphBuilder::new(2, 1);
/// builder.error(0.01, &[0], &[0])?.error(0.01, &[0, 1], &[])?.error(0.01, &[1], &[])?;
/// let graph = builder.build()?;
/// assert_eq!((graph.num_columns(), graph.num_edges()), (3, 4));
/// assert_eq!(graph.priors(), [37, 37, 37]); // 8 ln 99 = 36.8
/// # Ok::<(), ringcall_bp::BpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct BpGraphBuilder {
    checks: u32,
    observables: u32,
    probabilities: Vec<f64>,
    error_checks: Lists,
    error_observables: Lists,
    /// One error's indices: sorted, pairs cancelled.
    odd: Vec<u32>,
}

impl BpGraphBuilder {
    /// A builder of a graph with this many checks and observables, numbered from 0.
    pub fn new(checks: u32, observables: u32) -> Self {
        Self {
            checks,
            observables,
            probabilities: Vec::new(),
            error_checks: Lists::new(),
            error_observables: Lists::new(),
            odd: Vec::new(),
        }
    }

    /// Adds an error that happens with a probability and flips these checks and observables.
    ///
    /// An index that is listed twice cancels, as two flips do. The graph leaves out an error of probability 0, and an error that
    /// flips no check, since no syndrome shows it. At probability 1/2 the prior is 1, the smallest prior. A refused error leaves
    /// the builder unchanged.
    ///
    /// # Errors
    /// [`BpError::Probability`] for a probability outside 0 to 1/2, indices out of range, [`BpError::ColumnTooLong`] above
    /// [`MAX_COLUMN_CHECKS`], and [`BpError::TooLarge`] for too many errors or flips.
    pub fn error(
        &mut self,
        probability: f64,
        checks: &[u32],
        observables: &[u32],
    ) -> Result<&mut Self, BpError> {
        if !(0.0..=0.5).contains(&probability) {
            return Err(BpError::Probability { probability });
        }
        if let Some(&check) = checks.iter().find(|&&check| check >= self.checks) {
            return Err(BpError::CheckOutOfRange { check, checks: self.checks });
        }
        if let Some(&observable) = observables.iter().find(|&&o| o >= self.observables) {
            return Err(BpError::ObservableOutOfRange { observable, observables: self.observables });
        }
        if self.probabilities.len() >= MAX_ERRORS {
            return Err(BpError::TooLarge { what: "errors", limit: MAX_ERRORS });
        }
        odd_ones(checks, &mut self.odd);
        if self.odd.len() > MAX_COLUMN_CHECKS {
            return Err(BpError::ColumnTooLong { checks: self.odd.len(), limit: MAX_COLUMN_CHECKS });
        }
        if self.error_checks.total() + self.odd.len() > MAX_EDGES
            || self.error_observables.total() + observables.len() > MAX_EDGES
        {
            return Err(BpError::TooLarge { what: "flips of checks or observables", limit: MAX_EDGES });
        }
        self.error_checks.push(&self.odd);
        odd_ones(observables, &mut self.odd);
        self.error_observables.push(&self.odd);
        self.probabilities.push(probability);
        Ok(self)
    }

    /// Builds the graph. Errors that flip the same checks and the same observables become one column, whose probability is that
    /// of an odd number of them: p₁(1 - p₂) + p₂(1 - p₁). Errors that flip the same checks and different observables stay
    /// separate columns.
    ///
    /// # Errors
    /// [`BpError::TooLarge`] if there are more than [`MAX_CHECKS`] checks or [`MAX_OBSERVABLES`] observables, or if the tables
    /// would take more than 2²⁸ messages.
    pub fn build(&self) -> Result<BpGraph, BpError> {
        if self.checks > MAX_CHECKS {
            return Err(BpError::TooLarge { what: "checks", limit: MAX_CHECKS as usize });
        }
        if self.observables > MAX_OBSERVABLES {
            return Err(BpError::TooLarge { what: "observables", limit: MAX_OBSERVABLES as usize });
        }
        let mut known: BTreeMap<(&[u32], &[u32]), u32> = BTreeMap::new();
        let mut column_checks = Lists::new();
        let mut column_observables = Lists::new();
        let mut probabilities: Vec<f64> = Vec::new();
        let mut column_of = Vec::with_capacity(self.probabilities.len());
        for (error, &p) in self.probabilities.iter().enumerate() {
            let key = (self.error_checks.get(error), self.error_observables.get(error));
            if p == 0.0 || key.0.is_empty() {
                column_of.push(u32::MAX);
                continue;
            }
            let column = *known.entry(key).or_insert(probabilities.len() as u32);
            column_of.push(column);
            if let Some(q) = probabilities.get_mut(column as usize) {
                *q = *q * (1.0 - p) + p * (1.0 - *q);
            } else {
                probabilities.push(p);
                column_checks.push(key.0);
                column_observables.push(key.1);
            }
        }
        let priors: Vec<u8> = probabilities.iter().map(|&p| prior(p)).collect();
        let mut check_degrees = vec![0u32; self.checks as usize];
        for column in 0..column_checks.len() {
            for &check in column_checks.get(column) {
                check_degrees[check as usize] += 1;
            }
        }
        let layout = Layout::new(&column_checks, &check_degrees)?;
        Ok(BpGraph {
            tables: Tables {
                checks: self.checks,
                observables: self.observables,
                column_checks,
                column_observables,
                probabilities,
                priors,
                column_of,
                check_degrees,
                layout,
            }
            .into(),
        })
    }
}

/// The indices that are listed an odd number of times, in ascending order.
fn odd_ones(list: &[u32], out: &mut Vec<u32>) {
    out.clear();
    out.extend_from_slice(list);
    out.sort_unstable();
    let mut kept = 0;
    for at in 0..out.len() {
        if kept > 0 && out[kept - 1] == out[at] {
            kept -= 1;
        } else {
            out[kept] = out[at];
            kept += 1;
        }
    }
    out.truncate(kept);
}

/// 8 ln((1 - p)/p) to the nearest integer, 1 to 127, for 0 < p ≤ 1/2.
fn prior(p: f64) -> u8 {
    libm::round(8.0 * libm::log((1.0 - p) / p)).clamp(1.0, 127.0) as u8
}

/// A binary check matrix with the probability of each column and the observables that it flips, all as sparse rows.
///
/// ```
/// use ringcall_bp::BpMatrix;
///
/// // A repetition code of three bits, whose first bit is the observable.
/// let graph = BpMatrix {
///     probabilities: &[0.01; 3],
///     checks: &[&[0, 1][..], &[1, 2]],
///     observables: &[&[0][..]],
/// }
/// .build()?;
/// assert_eq!(graph.column_checks(1), [0, 1]);
/// # Ok::<(), ringcall_bp::BpError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct BpMatrix<'a, R> {
    /// The probability of each column.
    pub probabilities: &'a [f64],
    /// For each check, the columns that flip it. A column that is listed twice cancels.
    pub checks: &'a [R],
    /// For each observable, the columns that flip it. A column that is listed twice cancels.
    pub observables: &'a [R],
}

impl<R: AsRef<[u32]>> BpMatrix<'_, R> {
    /// Builds the graph by the rules of [`BpGraphBuilder::error`] and [`BpGraphBuilder::build`].
    ///
    /// # Errors
    /// Those of [`BpGraphBuilder`], and [`BpError::ColumnOutOfRange`] for a row that names a column without a probability.
    pub fn build(&self) -> Result<BpGraph, BpError> {
        let columns = self.probabilities.len();
        if self.checks.len() > MAX_CHECKS as usize {
            return Err(BpError::TooLarge { what: "checks", limit: MAX_CHECKS as usize });
        }
        if self.observables.len() > MAX_OBSERVABLES as usize {
            return Err(BpError::TooLarge { what: "observables", limit: MAX_OBSERVABLES as usize });
        }
        if columns > MAX_ERRORS {
            return Err(BpError::TooLarge { what: "errors", limit: MAX_ERRORS });
        }
        let checks = transpose(self.checks, columns)?;
        let observables = transpose(self.observables, columns)?;
        let mut builder = BpGraphBuilder::new(self.checks.len() as u32, self.observables.len() as u32);
        for (column, &probability) in self.probabilities.iter().enumerate() {
            builder.error(probability, checks.get(column), observables.get(column))?;
        }
        builder.build()
    }
}

/// For each column, the rows that name it.
fn transpose<R: AsRef<[u32]>>(rows: &[R], columns: usize) -> Result<Lists, BpError> {
    let mut total = 0usize;
    let mut counts = vec![0u32; columns];
    for row in rows {
        let row = row.as_ref();
        total = total.saturating_add(row.len());
        if total > MAX_EDGES {
            return Err(BpError::TooLarge { what: "flips of checks or observables", limit: MAX_EDGES });
        }
        for &column in row {
            let count =
                counts.get_mut(column as usize).ok_or(BpError::ColumnOutOfRange { column, columns })?;
            *count += 1;
        }
    }
    let mut lists = Lists::with_counts(&counts);
    for (index, row) in rows.iter().enumerate() {
        for &column in row.as_ref() {
            let left = &mut counts[column as usize];
            lists.set_from_end(column as usize, *left, index as u32);
            *left -= 1;
        }
    }
    Ok(lists)
}
