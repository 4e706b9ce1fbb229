//! Building a matching graph from a parity check matrix.

use crate::builder::{GraphBuilder, MergeStrategy};
use crate::error::MatchingGraphError;
use crate::graph::MAX_DETECTORS;
use crate::graph::MatchingGraph;

/// A binary check matrix with the cost and the observables of each column, all as sparse rows.
///
/// Column `j` is an error mechanism: it flips the detectors and the observables whose rows name `j`. A column with two detectors
/// is an edge between them, a column with one an edge to the boundary.
///
/// ```
/// use ringcall_matching::{CheckMatrix, MwpmDecoder};
///
/// // A repetition code of four bits, whose first bit is the observable.
/// let graph = CheckMatrix {
///     columns: 4,
///     checks: &[&[0, 1][..], &[1, 2], &[2, 3]],
///     observables: &[&[0][..]],
///     weights: None,
///     probabilities: None,
/// }
/// .build()?;
/// let mut decoder = MwpmDecoder::new(graph);
/// assert_eq!(decoder.decode(&[0])?.observables(), [1]);
/// assert_eq!(decoder.decode(&[1, 2])?.observables(), [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CheckMatrix<'a, R> {
    /// Number of columns.
    pub columns: usize,
    /// For each detector, the columns that flip it, each once.
    pub checks: &'a [R],
    /// For each observable, the columns that flip it, each once.
    pub observables: &'a [R],
    /// Weight of each column; 1 where absent.
    pub weights: Option<&'a [f64]>,
    /// Error probability of each column, used where parallel columns are merged as independent.
    pub probabilities: Option<&'a [f64]>,
}

impl<R: AsRef<[u32]>> CheckMatrix<'_, R> {
    /// Builds the graph; of parallel columns the one of smallest weight stays.
    pub fn build(&self) -> Result<MatchingGraph, MatchingGraphError> {
        self.build_merged(MergeStrategy::SmallestWeight)
    }

    /// Builds the graph, with a strategy for parallel columns.
    pub fn build_merged(&self, merge: MergeStrategy) -> Result<MatchingGraph, MatchingGraphError> {
        if self.checks.len() > MAX_DETECTORS as usize {
            return Err(MatchingGraphError::TooLarge {
                what: "the number of checks",
                limit: MAX_DETECTORS.into(),
            });
        }
        for (what, slice) in [("weights", self.weights), ("probabilities", self.probabilities)] {
            if let Some(found) = slice.map(<[f64]>::len).filter(|&n| n != self.columns) {
                return Err(MatchingGraphError::Length { what, found, expected: self.columns });
            }
        }
        let detectors = transpose(self.checks, self.columns)?;
        let observables = transpose(self.observables, self.columns)?;
        let mut builder = GraphBuilder::new();
        builder.ensure_detectors(self.checks.len()).ensure_observables(self.observables.len());
        for (column, (ends, flips)) in detectors.iter().zip(&observables).enumerate() {
            let (u, v) = match ends[..] {
                [u] => (u, None),
                [u, v] => (u, Some(v)),
                _ => return Err(MatchingGraphError::ColumnWeight { column, ones: ends.len() }),
            };
            let weight = self.weights.map_or(1.0, |w| w[column]);
            let probability = self.probabilities.map(|p| p[column]);
            builder.merge_edge(u, v, weight, flips, probability, merge)?;
        }
        builder.build()
    }
}

/// For each column, the rows that name it.
fn transpose<R: AsRef<[u32]>>(rows: &[R], columns: usize) -> Result<Vec<Vec<u32>>, MatchingGraphError> {
    let mut out = vec![Vec::new(); columns];
    for (row, list) in rows.iter().enumerate() {
        for &column in list.as_ref() {
            let Some(rows) = out.get_mut(column as usize) else {
                return Err(MatchingGraphError::ColumnOutOfRange { column, columns });
            };
            if rows.last() == Some(&(row as u32)) {
                return Err(MatchingGraphError::RepeatedColumn { row, column });
            }
            rows.push(row as u32);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix<'a>(checks: &'a [&'a [u32]], columns: usize) -> CheckMatrix<'a, &'a [u32]> {
        CheckMatrix { columns, checks, observables: &[], weights: None, probabilities: None }
    }

    #[test]
    fn columns_must_be_edges() {
        let three: [&[u32]; 3] = [&[0], &[0], &[0]];
        assert_eq!(
            matrix(&three, 1).build().unwrap_err(),
            MatchingGraphError::ColumnWeight { column: 0, ones: 3 }
        );
        let none: [&[u32]; 1] = [&[0]];
        assert_eq!(
            matrix(&none, 2).build().unwrap_err(),
            MatchingGraphError::ColumnWeight { column: 1, ones: 0 }
        );
    }

    #[test]
    fn rows_are_checked() {
        let far: [&[u32]; 1] = [&[7]];
        assert!(matches!(
            matrix(&far, 2).build(),
            Err(MatchingGraphError::ColumnOutOfRange { column: 7, .. })
        ));
        let twice: [&[u32]; 1] = [&[1, 1]];
        assert!(matches!(
            matrix(&twice, 2).build(),
            Err(MatchingGraphError::RepeatedColumn { row: 0, column: 1 })
        ));
        let one: [&[u32]; 1] = [&[0]];
        let short = CheckMatrix { weights: Some(&[]), ..matrix(&one, 1) };
        assert!(matches!(
            short.build(),
            Err(MatchingGraphError::Length { what: "weights", found: 0, expected: 1 })
        ));
    }

    #[test]
    fn parallel_columns_keep_the_lighter() {
        let rows: [&[u32]; 2] = [&[0, 1], &[0, 1]];
        let flips: [&[u32]; 2] = [&[0], &[1]];
        let m = CheckMatrix {
            columns: 2,
            checks: &rows,
            observables: &flips,
            weights: Some(&[2.0, 1.0]),
            probabilities: None,
        };
        let graph = m.build().unwrap();
        assert_eq!(graph.num_edges(), 1);
        assert_eq!(graph.edges()[0].observables, [1]);
        assert!(matches!(
            m.build_merged(MergeStrategy::Disallow),
            Err(MatchingGraphError::ParallelEdge { .. })
        ));
    }
}
