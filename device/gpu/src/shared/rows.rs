//! Rows of equal length in a window.

use super::Words;
#[cfg(not(target_arch = "nvptx64"))]
use core::sync::atomic::Ordering;

/// Rows of equal length, one after the other from a window's start: each a whole number of pairs of words,
/// on a boundary of 16 bytes. A bound that is checked once for all rows is not checked again for each access.
///
/// Accesses are relaxed, as those of [`Bytes`](super::Bytes).
#[derive(Debug, Clone)]
pub struct Rows {
    words: Words,
    rows: u32,
    pairs: u32,
}

impl Rows {
    /// `rows` rows of `row_bytes` bytes; `None` where they do not fit the window, or do not lie on boundaries of 16 bytes.
    #[must_use]
    #[inline(always)]
    pub fn of(words: &Words, rows: u32, row_bytes: u32) -> Option<Self> {
        let fits = rows as usize * (row_bytes as usize / 8) <= words.len();
        let aligned = row_bytes.is_multiple_of(16) && words.address().is_multiple_of(16);
        (fits && aligned).then(|| Self { words: words.clone(), rows, pairs: row_bytes / 16 })
    }

    /// Pairs of a row.
    #[must_use]
    #[inline(always)]
    pub fn pairs(&self) -> u32 {
        self.pairs
    }

    /// One burst over a row of at most `2 * lanes` pairs: this lane's pairs `lane` and `lane + lanes` of it (0 after them, and
    /// past the last row), and in lane 0 word `beside.1` of `beside.0` (0 elsewhere, and past the end). On a device a warp pays
    /// one round trip for all of it.
    #[must_use]
    #[inline(always)]
    pub fn load_burst(
        &self,
        row: u32,
        [lane, lanes]: [u32; 2],
        beside: (&Words, usize),
    ) -> ([[u64; 2]; 2], u64) {
        if row >= self.rows {
            return ([[0; 2]; 2], 0);
        }
        #[cfg(target_arch = "nvptx64")]
        {
            let _ = lanes;
            let at = self.words.address() + u64::from(row) * u64::from(self.pairs) * 16;
            let (words, index) = beside;
            let word = if index < words.len() { words.address() + index as u64 * 8 } else { 0 };
            // SAFETY: a whole row of the window, aligned; the word is inside its window, and address 0 stands for none.
            unsafe { crate::ptx::wide::load_burst(at, lane, self.pairs, word) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let pair = |pair: u32| {
                if pair < self.pairs { self.words.load_pair(self.at(row, pair)) } else { [0; 2] }
            };
            let word = if lane == 0 {
                beside.0.get(beside.1).map_or(0, |word| word.load(Ordering::Relaxed))
            } else {
                0
            };
            ([pair(lane), pair(lane + lanes)], word)
        }
    }

    /// Where a pair of a row lies; nowhere past the row's end, and past the last row.
    #[must_use]
    #[inline(always)]
    pub fn pair(&self, row: u32, pair: u32) -> Pair<'_> {
        let there = row < self.rows && pair < self.pairs;
        let at = u64::from(row) * u64::from(self.pairs) + u64::from(pair);
        #[cfg(target_arch = "nvptx64")]
        {
            let address = if there { self.words.address() + at * 16 } else { 0 };
            Pair { address, life: core::marker::PhantomData }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        Pair { source: there.then_some((&self.words, at as usize * 2)) }
    }

    /// Stores a pair of a row; nothing past the row's end, or past the last row.
    #[inline(always)]
    pub fn store_pair(&self, row: u32, pair: u32, value: [u64; 2]) {
        if row >= self.rows || pair >= self.pairs {
            return;
        }
        #[cfg(target_arch = "nvptx64")]
        {
            let at = self.words.address() + (u64::from(row) * u64::from(self.pairs) + u64::from(pair)) * 16;
            // SAFETY: inside the window and aligned.
            unsafe { crate::ptx::wide::store_peer(at, value) };
        }
        #[cfg(not(target_arch = "nvptx64"))]
        self.words.store_pair(self.at(row, pair), value);
    }

    /// The first word of a pair.
    #[cfg(not(target_arch = "nvptx64"))]
    fn at(&self, row: u32, pair: u32) -> usize {
        (row as usize * self.pairs as usize + pair as usize) * 2
    }
}

/// Where a pair of a [row](Rows::pair) lies, worked out before it is to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// 0 for nowhere.
    #[cfg(target_arch = "nvptx64")]
    address: u64,
    #[cfg(target_arch = "nvptx64")]
    life: core::marker::PhantomData<&'a Words>,
    #[cfg(not(target_arch = "nvptx64"))]
    source: Option<(&'a Words, usize)>,
}

impl Pair<'_> {
    /// Two pairs in one burst, relaxed; what lies nowhere is 0. On a device neither load waits for the other.
    #[must_use]
    #[inline(always)]
    pub fn load_two(first: Self, second: Self) -> [[u64; 2]; 2] {
        // SAFETY: each is inside its window and aligned, or 0, which stands for none.
        #[cfg(target_arch = "nvptx64")]
        return unsafe { crate::ptx::wide::load_two(first.address, second.address) };
        #[cfg(not(target_arch = "nvptx64"))]
        [first, second].map(|pair| pair.source.map_or([0; 2], |(words, index)| words.load_pair(index)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Region;
    use super::*;

    #[test]
    fn rows_are_what_lies_in_the_window() {
        let region = Region::zeroed(4096).expect("memory");
        let words = region.words(0, 24).expect("inside");
        for (index, word) in (0..24).zip(100..) {
            words.store(index, word, Ordering::Relaxed);
        }
        let rows = Rows::of(&words, 3, 64).expect("fits");
        let beside = (&words, 1);
        assert_eq!(rows.load_burst(2, [0, 2], beside), ([[116, 117], [120, 121]], 101));
        assert_eq!(rows.load_burst(2, [1, 2], beside), ([[118, 119], [122, 123]], 0));
        assert_eq!(rows.load_burst(2, [3, 4], beside), ([[122, 123], [0, 0]], 0));
        assert_eq!(rows.load_burst(0, [0, 32], (&words, 24)), ([[100, 101], [0, 0]], 0));
        assert_eq!(rows.load_burst(3, [0, 2], beside), ([[0, 0], [0, 0]], 0));
        let other = Rows::of(&words, 1, 32).expect("fits");
        assert_eq!(Pair::load_two(rows.pair(1, 3), other.pair(0, 1)), [[114, 115], [102, 103]]);
        assert_eq!(Pair::load_two(rows.pair(2, 4), other.pair(1, 0)), [[0, 0], [0, 0]]);
        rows.store_pair(1, 3, [1, 2]);
        rows.store_pair(1, 4, [3, 4]);
        rows.store_pair(3, 0, [5, 6]);
        let stored: Vec<u64> = (13..18).map(|index| words.load(index, Ordering::Relaxed)).collect();
        assert_eq!(stored, [113, 1, 2, 116, 117]);
    }

    #[test]
    fn rows_that_do_not_fit_are_none() {
        let region = Region::zeroed(4096).expect("memory");
        let words = region.words(0, 24).expect("inside");
        assert!(Rows::of(&words, 4, 64).is_none());
        assert!(Rows::of(&words, 1, 40).is_none());
        assert!(Rows::of(&region.words(8, 8).expect("inside"), 1, 64).is_none());
    }
}
