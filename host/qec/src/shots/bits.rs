//! A row of bits of fixed length, packed least significant bit first into 64-bit words.

/// A row of bits of fixed length.
///
/// Bit `i` is bit `i % 64` of word `i / 64`, so the words in little-endian byte order are the row of Stim's `b8`
/// format. Bits past the end are always 0.
///
/// ```
/// use ringcall_qec::shots::BitRow;
/// let mut bits = BitRow::new(70);
/// bits.set(3, true);
/// bits.flip(69);
/// assert_eq!(bits.iter_ones().collect::<Vec<_>>(), [3, 69]);
/// assert_eq!(bits.get(70), None);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct BitRow {
    words: Vec<u64>,
    len: u32,
}

impl BitRow {
    /// `len` bits, all 0.
    pub fn new(len: u32) -> Self {
        Self { words: vec![0; (len as usize).div_ceil(64)], len }
    }

    /// The number of bits.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no bits at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The packed words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Bit `index`, or `None` past the end.
    pub fn get(&self, index: u32) -> Option<bool> {
        (index < self.len).then(|| self.words[index as usize / 64] >> (index % 64) & 1 == 1)
    }

    /// Sets bit `index` and returns what it was, or does nothing and returns `None` past the end.
    pub fn set(&mut self, index: u32, value: bool) -> Option<bool> {
        let old = self.get(index)?;
        if old != value {
            self.toggle(index);
        }
        Some(old)
    }

    /// Flips bit `index` and returns what it is now, or does nothing and returns `None` past the end.
    pub fn flip(&mut self, index: u32) -> Option<bool> {
        let old = self.get(index)?;
        self.toggle(index);
        Some(!old)
    }

    /// Flips a bit that the caller knows to exist.
    #[inline]
    pub(crate) fn toggle(&mut self, index: u32) {
        self.words[index as usize / 64] ^= 1 << (index % 64);
    }

    /// Sets every bit to 0.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The number of ones.
    pub fn count_ones(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The indices of the ones, ascending. A word of zeros costs one comparison.
    pub fn iter_ones(&self) -> Ones<'_> {
        Ones { words: &self.words, at: 0, current: self.words.first().copied().unwrap_or(0) }
    }

    /// Replaces the content of `indices` by the indices of the ones, ascending. Allocates nothing if the capacity suffices, as a
    /// capacity of [`len`](Self::len) always does.
    pub fn ones_into(&self, indices: &mut Vec<u32>) {
        indices.clear();
        indices.extend(self.iter_ones());
    }

    /// The byte at `index` of the row in `b8` order.
    fn byte(&self, index: usize) -> u8 {
        self.words[index / 8].to_le_bytes()[index % 8]
    }

    /// The row as `ceil(len / 8)` bytes, least significant bit first.
    pub fn iter_bytes(&self) -> impl ExactSizeIterator<Item = u8> + '_ {
        (0..(self.len as usize).div_ceil(8)).map(|index| self.byte(index))
    }

    /// Reads the row from `bytes`, starting at bit `offset` of them. They must hold that many bits.
    pub(crate) fn load(&mut self, bytes: &[u8], offset: usize) {
        let (first, shift) = (offset / 8, offset % 8);
        let at = |index: usize| u64::from(bytes.get(first + index).copied().unwrap_or(0));
        for (position, word) in self.words.iter_mut().enumerate() {
            let low = (0..8).fold(0, |sum, index| sum | at(position * 8 + index) << (8 * index));
            *word = if shift == 0 { low } else { low >> shift | at(position * 8 + 8) << (64 - shift) };
        }
        if let Some(last) = self.words.last_mut().filter(|_| !self.len.is_multiple_of(64)) {
            *last &= (1 << (self.len % 64)) - 1;
        }
    }

    /// Adds (by `or`) the row to `bytes`, starting at bit `offset` of them. They must have room for it.
    pub(crate) fn store(&self, bytes: &mut [u8], offset: usize) {
        let (first, shift) = (offset / 8, offset % 8);
        for (index, byte) in self.iter_bytes().enumerate() {
            bytes[first + index] |= byte << shift;
            // The remaining bits go to the next byte, which exists unless they are padding.
            let carried = u16::from(byte) << shift >> 8;
            if carried != 0 {
                bytes[first + index + 1] |= carried as u8;
            }
        }
    }
}

impl std::fmt::Debug for BitRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bits({} of {}: ", self.count_ones(), self.len)?;
        f.debug_list().entries(self.iter_ones()).finish()?;
        f.write_str(")")
    }
}

/// The indices of the ones of a [`BitRow`], ascending.
#[derive(Debug, Clone)]
pub struct Ones<'a> {
    words: &'a [u64],
    at: usize,
    current: u64,
}

impl Iterator for Ones<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.current == 0 {
            self.at += 1;
            self.current = *self.words.get(self.at)?;
        }
        let bit = self.current.trailing_zeros();
        self.current &= self.current - 1;
        Some(self.at as u32 * 64 + bit)
    }
}
