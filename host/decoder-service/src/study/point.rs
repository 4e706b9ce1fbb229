//! One point of a study, and the seeds of its shots.

use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::sample::derived_seed;

/// A memory experiment under uniform circuit noise. It displays as its name in a state: `d7/r7/z/p0.003`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Code distance, odd, at least 3.
    pub distance: u32,
    /// Rounds of syndrome extraction.
    pub rounds: u32,
    /// Memory basis.
    pub basis: Basis,
    /// Each of the four rates of [`CircuitNoise`].
    pub p: f64,
}

impl Point {
    /// The experiment.
    #[must_use]
    pub fn experiment(&self) -> MemoryExperiment {
        let Self { distance, rounds, basis, p } = *self;
        MemoryExperiment { distance, rounds, basis, noise: CircuitNoise::uniform(p) }
    }

    /// The seed of one batch: its shots are the first ones of `Sampler::new(&model, seed)`, regardless of the
    /// study's other points.
    #[must_use]
    pub fn seed(&self, seed: u64, batch: u64) -> u64 {
        let basis = match self.basis {
            Basis::X => 0,
            Basis::Z => 1,
        };
        derived_seed(seed, &[self.distance.into(), self.rounds.into(), basis, self.p.to_bits(), batch])
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let basis = match self.basis {
            Basis::X => 'x',
            Basis::Z => 'z',
        };
        // The shortest decimal that is this number: two points have one name only if they are equal.
        write!(f, "d{}/r{}/{basis}/p{}", self.distance, self.rounds, self.p)
    }
}
