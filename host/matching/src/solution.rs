//! Result of a decode.

use thiserror::Error;

/// Two defects that are matched, or one that is matched with the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatchedPair {
    /// A detector.
    pub a: u32,
    /// The detector that `a` is matched with; `None` is the boundary.
    pub b: Option<u32>,
}

/// A minimum-weight correction.
///
/// The solution stays in its decoder, so that nothing is allocated, and is valid until the next decode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Solution {
    pub(crate) observables: Vec<u64>,
    pub(crate) pairs: Vec<MatchedPair>,
    pub(crate) grid_weight: i64,
    pub(crate) weight: f64,
}

impl Solution {
    /// The observables that the correction flips: bit `o % 64` of word `o / 64`. At least one word.
    pub fn observables(&self) -> &[u64] {
        &self.observables
    }

    /// Whether the correction flips observable `o`.
    ///
    /// ```
    /// # let graph = ringcall_matching::GraphBuilder::new().boundary_edge(0, 1.0, &[70])?.build()?;
    /// # let mut decoder = ringcall_matching::MwpmDecoder::new(graph);
    /// let solution = decoder.decode(&[0])?;
    /// assert!(solution.flips(70) && !solution.flips(6) && !solution.flips(1_000_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flips(&self, o: usize) -> bool {
        self.observables.get(o / 64).is_some_and(|w| w >> (o % 64) & 1 == 1)
    }

    /// The sum of the weights of the edges used, in the unit of the weights given (up to rounding to the grid).
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The same sum on the integer grid: see [`MatchingGraph::scale`](crate::MatchingGraph::scale). Always even.
    pub fn grid_weight(&self) -> i64 {
        self.grid_weight
    }

    /// The matched pairs, each once, in no particular (but always the same) order.
    ///
    /// With edges of negative weight, the pairs explain the detectors that remain after all those edges have been used.
    pub fn pairs(&self) -> &[MatchedPair] {
        &self.pairs
    }

    pub(crate) fn clear(&mut self) {
        self.observables.fill(0);
        self.pairs.clear();
        self.grid_weight = 0;
        self.weight = 0.0;
    }
}

/// Why a solution is not proven to be of minimum weight: a defect of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// There is no solution to prove.
    #[error("nothing was decoded, or the last decode failed")]
    NothingSolved,
    /// The regions prove a bound other than the weight of the matching.
    #[error("the matching weighs {weight} but the regions prove only {bound}")]
    Gap {
        /// Grid weight of the matching.
        weight: i64,
        /// Sum of the radii.
        bound: i64,
    },
    /// A region has a negative radius.
    #[error("a region has the radius {radius}")]
    NegativeRadius {
        /// The radius.
        radius: i64,
    },
    /// Two defects are nearer than the radii between them allow.
    #[error("the regions of {from} and {to:?} reach {reach}, but their distance is {dist}")]
    Infeasible {
        /// A detector.
        from: u32,
        /// Another detector, or `None` for the boundary.
        to: Option<u32>,
        /// The radii between them.
        reach: i64,
        /// The length of a path between them.
        dist: i64,
    },
}
