//! Hashing of small integer keys, such as the two ends of an edge: randomly seeded, and faster than the standard library's.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes [`IntegerHasher`]s. Each map has its own seed, so no list of edges collides in every map.
///
/// ```
/// use ringcall_matching::IntegerState;
/// let mut index = std::collections::HashMap::with_hasher(IntegerState::default());
/// index.insert((3u32, Some(5u32)), "an edge");
/// assert_eq!(index.get(&(3, Some(5))), Some(&"an edge"));
/// ```
#[derive(Debug, Clone)]
pub struct IntegerState {
    seed: u64,
    factor: u64,
}

impl Default for IntegerState {
    fn default() -> Self {
        let random = RandomState::new();
        // Odd, so that multiplication loses no bits.
        Self { seed: random.hash_one(0u8), factor: random.hash_one(1u8) | 1 }
    }
}

impl BuildHasher for IntegerState {
    type Hasher = IntegerHasher;

    fn build_hasher(&self) -> IntegerHasher {
        IntegerHasher { state: self.seed, factor: self.factor }
    }
}

/// Folds each integer in by a 128-bit product.
#[derive(Debug, Clone)]
pub struct IntegerHasher {
    state: u64,
    factor: u64,
}

impl Hasher for IntegerHasher {
    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.state ^ value) * u128::from(self.factor);
        self.state = (product as u64) ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    /// The discriminant of an `Option`.
    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn edges_of_a_grid_spread_over_all_bits() {
        let state = IntegerState::default();
        let keys = || (0..4096u32).flat_map(|u| [(u, Some(u + 1)), (u, Some(u + 64)), (u, None)]);
        let hashes: HashSet<u64> = keys().map(|key| state.hash_one(key)).collect();
        assert_eq!(hashes.len(), 3 * 4096);
        // Twelve per value of the low and of the high bits are expected; sixty is far beyond chance.
        for bits in [|hash: u64| hash % 1024, |hash: u64| hash >> 54] {
            let mut counts = [0; 1024];
            keys().for_each(|key| counts[bits(state.hash_one(key)) as usize] += 1);
            assert!(counts.iter().all(|&count| count < 60), "{counts:?}");
        }
        assert_ne!(state.hash_one(1u32), IntegerState::default().hash_one(1u32), "seeded");
    }
}
