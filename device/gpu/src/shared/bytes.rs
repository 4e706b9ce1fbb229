//! A window of bytes, reached 64 bits at a time.

use super::{SharedError, Words};
use core::sync::atomic::Ordering;

/// A window of bytes (slot data) in shared memory, whose length is a multiple of 8.
///
/// Accesses are relaxed 64-bit loads and stores of aligned words: they order nothing by themselves. A writer publishes
/// with a release store of a flag afterwards, a reader observes the flag first. Each access returns whether it lay
/// inside the window; outside, it does nothing.
#[derive(Clone, Debug)]
pub struct Bytes {
    words: Words,
}

impl Bytes {
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) fn over(words: Words) -> Self {
        Self { words }
    }

    /// A window over `len` bytes of memory that another agent owns.
    ///
    /// # Safety
    /// As for [`Words::from_raw`], with `len` bytes.
    ///
    /// # Errors
    /// A null or misaligned pointer, or a length that is no multiple of 8.
    #[cfg(not(loom))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(always))]
    pub unsafe fn from_raw(base: *mut u8, len: usize) -> Result<Self, SharedError> {
        let (base, len) = Self::as_words(base, len)?;
        // SAFETY: the caller's promise, for the same bytes.
        let words = unsafe { Words::from_raw(base, len) }?;
        Ok(Self { words })
    }

    /// A window over `len` bytes of memory that lives as long as `owner`, which the window and its clones keep.
    ///
    /// # Safety
    /// As for [`Words::from_raw_owned`], with `len` bytes.
    ///
    /// # Errors
    /// A null or misaligned pointer, or a length that is no multiple of 8.
    #[cfg(not(any(loom, target_arch = "nvptx64")))]
    pub unsafe fn from_raw_owned(
        base: *mut u8,
        len: usize,
        owner: std::sync::Arc<dyn core::any::Any + Send + Sync>,
    ) -> Result<Self, SharedError> {
        let (base, len) = Self::as_words(base, len)?;
        // SAFETY: the caller's promise, for the same bytes.
        let words = unsafe { Words::from_raw_owned(base, len, owner) }?;
        Ok(Self { words })
    }

    /// `len` bytes at `base` as whole, aligned words.
    #[cfg(not(loom))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(always))]
    fn as_words(base: *mut u8, len: usize) -> Result<(*mut u64, usize), SharedError> {
        if !len.is_multiple_of(8) {
            return Err(SharedError::Misaligned { value: len });
        }
        if !base.addr().is_multiple_of(8) {
            return Err(SharedError::Misaligned { value: base.addr() });
        }
        #[allow(clippy::cast_ptr_alignment)] // checked on the line above
        let base = base.cast::<u64>();
        Ok((base, len / 8))
    }

    /// Length in bytes.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.words.len() * 8
    }

    /// True for a window of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.words.address()
    }

    /// A smaller window: `len` bytes from `offset`, both multiples of 8.
    ///
    /// # Errors
    /// Misaligned or out of bounds.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Self, SharedError> {
        for value in [offset, len] {
            if !value.is_multiple_of(8) {
                return Err(SharedError::Misaligned { value });
            }
        }
        let end = offset.saturating_add(len);
        if end > self.len() {
            return Err(SharedError::OutOfBounds { end, len: self.len() });
        }
        Ok(Self { words: self.words.window(offset / 8, len / 8) })
    }

    /// Reads `out.len()` bytes from `offset` (a multiple of 8). False if they do not all lie inside.
    #[inline]
    #[must_use]
    pub fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        if !self.holds(offset, out.len()) {
            return false;
        }
        let mut index = offset / 8;
        // Sixteen bytes are one store: a reader that reads the copy at once, perhaps in vectors, is served
        // from the store buffer.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let out = {
            let (pairs, rest) = out.as_chunks_mut::<16>();
            for pair in pairs {
                let [low, high] = [0, 1].map(|i| self.words.load(index + i, Ordering::Relaxed));
                store_pair(pair, low, high);
                index += 2;
            }
            rest
        };
        let mut chunks = out.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&self.words.load(index, Ordering::Relaxed).to_ne_bytes());
            index += 1;
        }
        let tail = chunks.into_remainder();
        if !tail.is_empty() {
            let word = self.words.load(index, Ordering::Relaxed).to_ne_bytes();
            tail.copy_from_slice(&word[..tail.len()]);
        }
        true
    }

    /// Writes `data` at `offset` (a multiple of 8). False, and nothing written, if it does not fit.
    ///
    /// A last partial word is read, merged and written back: the bytes after the data, up to the next multiple of 8,
    /// must belong to the same writer (they do: slots are multiples of 8 long).
    #[inline]
    pub fn write(&self, offset: usize, data: &[u8]) -> bool {
        if !self.holds(offset, data.len()) {
            return false;
        }
        let mut index = offset / 8;
        let mut chunks = data.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.words.store(index, u64::from_ne_bytes(word), Ordering::Relaxed);
            index += 1;
        }
        let tail = chunks.remainder();
        if !tail.is_empty() {
            let mut word = self.words.load(index, Ordering::Relaxed).to_ne_bytes();
            word[..tail.len()].copy_from_slice(tail);
            self.words.store(index, u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        true
    }

    /// Reads `N` little-endian words from `offset` (a multiple of 8); `None` if they do not all lie inside.
    #[inline(always)]
    #[must_use]
    pub fn read_words<const N: usize>(&self, offset: usize) -> Option<[u64; N]> {
        if !self.holds(offset, N * 8) {
            return None;
        }
        Some(core::array::from_fn(|i| u64::from_le(self.words.load(offset / 8 + i, Ordering::Relaxed))))
    }

    /// Writes little-endian words at `offset` (a multiple of 8). False, and nothing written, if they do not fit.
    #[inline(always)]
    pub fn write_words<const N: usize>(&self, offset: usize, words: [u64; N]) -> bool {
        if !self.holds(offset, N * 8) {
            return false;
        }
        for (i, word) in words.into_iter().enumerate() {
            self.words.store(offset / 8 + i, word.to_le(), Ordering::Relaxed);
        }
        true
    }

    /// The bytes as 64-bit words.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Asks for the first lines of `offset ..`, to be read soon. Changes nothing.
    #[inline(always)]
    pub fn prefetch_read(&self, offset: usize) {
        if let Some(word) = self.words.get(offset / 8) {
            crate::hint::prefetch_read(core::ptr::from_ref(word).cast());
        }
    }

    /// Asks for the first line of `offset ..` with ownership, to be written soon. Changes nothing.
    #[inline(always)]
    pub fn prefetch_write(&self, offset: usize) {
        self.words.prefetch_write(offset / 8);
    }

    #[inline(always)]
    fn holds(&self, offset: usize, len: usize) -> bool {
        debug_assert!(offset.is_multiple_of(8), "offset {offset}");
        offset.is_multiple_of(8) && offset.checked_add(len).is_some_and(|end| end <= self.len())
    }
}

/// Two words into private memory in one store.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn store_pair(to: &mut [u8; 16], low: u64, high: u64) {
    use core::arch::x86_64::{_mm_set_epi64x, _mm_storeu_si128};
    // SAFETY: every 64-bit processor has SSE2.
    let pair = unsafe { _mm_set_epi64x(high.cast_signed(), low.cast_signed()) };
    // SAFETY: as long as the pair, and any alignment will do.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), pair) };
}
