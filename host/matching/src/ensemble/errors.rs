//! Errors of a model: the edges that each crosses, and its cost.

use std::collections::HashMap;

use crate::error::MatchingGraphError;
use crate::weights::merge_independent;

/// The errors of a model: which edges of a matching graph each crosses, and its log-likelihood ratio.
///
/// Edges are named by their index among [`MatchingGraph::edges`](crate::MatchingGraph::edges). Errors that cross the same edges
/// are one: an odd number of them happened.
///
/// ```
/// use ringcall_matching::ErrorTable;
///
/// let errors = ErrorTable::new(3, [(0.01, &[0, 1][..]), (0.02, &[2]), (0.01, &[1, 0])])?;
/// assert_eq!(errors.len(), 2);
/// assert!(ErrorTable::new(3, [(0.01, &[3][..])]).is_err());
/// # Ok::<(), ringcall_matching::MatchingGraphError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ErrorTable {
    costs: Vec<f64>,
    /// Where the edges of each error begin, with one more entry at the end.
    parts_at: Vec<u32>,
    parts: Vec<u32>,
    /// Where the errors of each edge begin, with one more entry at the end.
    errors_at: Vec<u32>,
    errors: Vec<u32>,
}

impl ErrorTable {
    /// A table of errors, each with its probability and the edges that it crosses, on a graph of `edges` edges. Errors of
    /// probability 0, and errors that cross no edge an odd number of times, are left out.
    ///
    /// # Errors
    /// A probability outside `0..=0.5`, or an edge that does not exist.
    pub fn new<'a>(
        edges: usize,
        errors: impl IntoIterator<Item = (f64, &'a [u32])>,
    ) -> Result<Self, MatchingGraphError> {
        let mut found: HashMap<Vec<u32>, f64> = HashMap::new();
        for (probability, crossed) in errors {
            if !(0.0..=0.5).contains(&probability) {
                return Err(MatchingGraphError::ErrorProbability { probability });
            }
            if let Some(&edge) = crossed.iter().find(|&&edge| edge as usize >= edges) {
                return Err(MatchingGraphError::NoSuchEdge { edge, edges });
            }
            let mut crossed = crossed.to_vec();
            crossed.sort_unstable();
            crate::bits::cancel_pairs(&mut crossed);
            if probability > 0.0 && !crossed.is_empty() {
                let cost = ((1.0 - probability) / probability).ln();
                found.entry(crossed).and_modify(|all| *all = merge_independent(*all, cost)).or_insert(cost);
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        // The table must not depend on the order of a hash map.
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut table = Self { parts_at: vec![0], errors_at: vec![0; edges + 1], ..Self::default() };
        for (crossed, cost) in &found {
            table.costs.push(*cost);
            table.parts.extend_from_slice(crossed);
            table.parts_at.push(table.parts.len() as u32);
            crossed.iter().for_each(|&edge| table.errors_at[edge as usize + 1] += 1);
        }
        for edge in 0..edges {
            table.errors_at[edge + 1] += table.errors_at[edge];
        }
        let mut at = table.errors_at.clone();
        table.errors = vec![0; table.parts.len()];
        for (error, (crossed, _)) in (0..).zip(&found) {
            for &edge in crossed {
                table.errors[at[edge as usize] as usize] = error;
                at[edge as usize] += 1;
            }
        }
        Ok(table)
    }

    /// The number of errors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.costs.len()
    }

    /// Whether there are no errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.costs.is_empty()
    }

    /// The number of edges of the graph.
    pub(super) fn edges(&self) -> usize {
        self.errors_at.len() - 1
    }

    /// The errors that cross an edge.
    pub(super) fn of(&self, edge: u32) -> &[u32] {
        let edge = edge as usize;
        &self.errors[self.errors_at[edge] as usize..self.errors_at[edge + 1] as usize]
    }

    /// The edges that an error crosses, sorted.
    pub(super) fn parts(&self, error: u32) -> &[u32] {
        let error = error as usize;
        &self.parts[self.parts_at[error] as usize..self.parts_at[error + 1] as usize]
    }

    /// The log-likelihood ratio of an error, at least 0.
    pub(super) fn cost(&self, error: u32) -> f64 {
        self.costs[error as usize]
    }
}
