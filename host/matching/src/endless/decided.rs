//! The decided part of a run: the observables flipped so far, the weight, and the number of forced decisions.

use crate::solution::Solution;

/// What is decided of a run.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) observables: Vec<u64>,
    pub(super) grid_weight: i64,
    /// Decisions without a proof of least weight.
    pub(super) forced: u64,
}

impl Decided {
    /// Nothing, with room for so many words of observables.
    pub(super) fn nothing(words: usize) -> Self {
        Self { observables: vec![0; words], grid_weight: 0, forced: 0 }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.observables.fill(0);
        (self.grid_weight, self.forced) = (0, 0);
    }

    /// Becomes the same as `other`, without allocating.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.observables.copy_from_slice(&other.observables);
        (self.grid_weight, self.forced) = (other.grid_weight, other.forced);
    }

    /// Adds the pairs of a solution.
    pub(super) fn add(&mut self, solution: &Solution) {
        self.add_part(solution.grid_weight(), solution.observables());
    }

    /// Adds pairs of this weight that flip these observables.
    pub(super) fn add_part(&mut self, grid_weight: i64, observables: &[u64]) {
        self.grid_weight += grid_weight;
        for (word, flips) in self.observables.iter_mut().zip(observables) {
            *word ^= flips;
        }
    }

    /// The weight, on a grid of this many steps a unit.
    pub(super) fn weight(&self, scale: f64) -> f64 {
        self.grid_weight as f64 / 2.0 / scale
    }
}
