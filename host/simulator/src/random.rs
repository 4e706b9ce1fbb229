//! Random numbers from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of numbers: the same for the same seed, on every machine.
#[derive(Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Another stream, which goes on apart from this one.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 up to `end`, without it; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // A multiplication in place of a division: the bias is below 2^-40 for the small ends that are asked for.
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// An index below `end`.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// From `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True so many times in a thousand.
    pub(crate) fn chance(&mut self, per_thousand: u64) -> bool {
        self.below(1000) < per_thousand
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
