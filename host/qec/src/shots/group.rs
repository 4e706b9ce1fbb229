//! The 64 shots of a group of `ptb64`: a word for each bit of a row.

use super::Shot;

/// Shots of a group.
pub(super) const SHOTS: usize = 64;

/// A group that is read from or gathered.
#[derive(Debug, Default)]
pub(super) struct Group {
    words: Vec<u64>,
    /// The shots given out, or taken in.
    pub(super) used: usize,
}

impl Group {
    /// For rows of `width` bits; given out entirely.
    pub(super) fn new(width: usize) -> Self {
        Self { words: vec![0; width], used: SHOTS }
    }

    /// Begins a group that is gathered.
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        self.used = 0;
    }

    /// Takes the words of a group over from a file's bytes, eight for each bit.
    pub(super) fn load(&mut self, bytes: &[u8]) {
        for (word, bytes) in self.words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.used = 0;
    }

    /// The words as a file has them.
    pub(super) fn store(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// The next shot, if one is left.
    pub(super) fn take(&mut self, shot: &mut Shot) -> bool {
        if self.used == SHOTS {
            return false;
        }
        shot.clear();
        let mut words = self.words.iter();
        for bits in [&mut shot.measurements, &mut shot.detectors, &mut shot.observables] {
            for (index, word) in (0..bits.len()).zip(words.by_ref()) {
                if word >> self.used & 1 == 1 {
                    bits.toggle(index);
                }
            }
        }
        self.used += 1;
        true
    }

    /// Adds a shot.
    pub(super) fn add(&mut self, shot: &Shot) {
        let mut offset = 0;
        for bits in [&shot.measurements, &shot.detectors, &shot.observables] {
            for one in bits.iter_ones() {
                self.words[offset + one as usize] |= 1 << self.used;
            }
            offset += bits.len() as usize;
        }
        self.used += 1;
    }
}
