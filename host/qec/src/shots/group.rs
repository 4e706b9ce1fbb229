//! The 64 shots of a `ptb64` group: a word for each bit of a row.

use super::Shot;

/// The number of shots of a group.
pub(super) const SHOTS: usize = 64;

/// A group that is read from or gathered.
#[derive(Debug, Default)]
pub(super) struct Group {
    words: Vec<u64>,
    /// The number of shots given out, or gathered.
    pub(super) used: usize,
}

impl Group {
    /// A group for rows of `width` bits, with no shot left to give out.
    pub(super) fn new(width: usize) -> Self {
        Self { words: vec![0; width], used: SHOTS }
    }

    /// Begins to gather a group.
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

    /// The words in the form of a file.
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
