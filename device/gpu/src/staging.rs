//! A warp's private buffer: where a request is brought before a handler sees it, and where its result is put together.
//!
//! Reads across PCIe take a microsecond each, however many bytes, so a warp fetches a slot once with wide
//! loads and the handler works here. No thread outside the warp knows the buffer (of a grid handler: outside
//! the grid), and its lanes keep apart by the barriers of the code that uses it.

#[cfg(not(target_arch = "nvptx64"))]
use crate::atomic::BlockU64;
#[cfg(not(target_arch = "nvptx64"))]
use core::sync::atomic::Ordering;

/// A staging buffer of whole 64-bit words. On a device it lies in shared or global memory; on the CPU in atomics, since
/// there lanes are threads.
#[derive(Debug, Clone, Copy)]
pub struct StagingBuffer<'a> {
    #[cfg(target_arch = "nvptx64")]
    base: u64,
    #[cfg(target_arch = "nvptx64")]
    words: usize,
    #[cfg(target_arch = "nvptx64")]
    life: core::marker::PhantomData<&'a mut [u64]>,
    #[cfg(not(target_arch = "nvptx64"))]
    words: &'a [BlockU64],
}

#[cfg(target_arch = "nvptx64")]
impl StagingBuffer<'_> {
    /// The buffer of `words` words at `base` (a generic address).
    ///
    /// # Safety
    /// `base` is 16-byte aligned, `words * 8` bytes from it are readable and writable, and for as long as the staging buffer is used
    /// only the threads that share it access them, with barriers between one thread's writes and another's accesses.
    #[must_use]
    #[inline(always)]
    pub unsafe fn from_raw(base: u64, words: usize) -> Self {
        Self { base, words, life: core::marker::PhantomData }
    }

    /// How many words.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.words
    }

    /// Words `first .. first + words` of it, as a buffer of their own; fewer where it ends before. `first` is even.
    #[must_use]
    #[inline(always)]
    pub fn part(&self, first: usize, words: usize) -> Self {
        let left = self.words.saturating_sub(first);
        Self { base: self.base + first as u64 * 8, words: if words < left { words } else { left }, ..*self }
    }

    /// The generic address of byte `offset`.
    #[must_use]
    #[inline(always)]
    pub fn address(&self, offset: usize) -> u64 {
        self.base + offset as u64
    }

    /// Word `index`; 0 past the end.
    #[must_use]
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        if index >= self.words {
            return 0;
        }
        let at = (self.base + index as u64 * 8) as usize as *const u64;
        // SAFETY: inside the buffer, which is the caller's threads' own.
        unsafe { at.read() }
    }

    /// Sets word `index`; nothing past the end.
    #[inline(always)]
    pub fn set_word(&self, index: usize, value: u64) {
        if index < self.words {
            let at = (self.base + index as u64 * 8) as usize as *mut u64;
            // SAFETY: inside the buffer, which is the caller's threads' own.
            unsafe { at.write(value) };
        }
    }

    /// Words `2 * pair` and the next; 0 past the end.
    #[must_use]
    #[inline(always)]
    pub fn pair(&self, pair: usize) -> [u64; 2] {
        if pair * 2 + 2 > self.words {
            return [self.word(pair * 2), self.word(pair * 2 + 1)];
        }
        // SAFETY: inside the buffer, which is the caller's threads' own; 16-byte aligned like its base.
        unsafe { crate::ptx::wide::load_own(self.base + pair as u64 * 16) }
    }

    /// Sets words `2 * pair` and the next; nothing past the end.
    #[inline(always)]
    pub fn set_pair(&self, pair: usize, value: [u64; 2]) {
        if pair * 2 + 2 > self.words {
            self.set_word(pair * 2, value[0]);
            self.set_word(pair * 2 + 1, value[1]);
            return;
        }
        // SAFETY: inside the buffer, which is the caller's threads' own; 16-byte aligned like its base.
        unsafe { crate::ptx::wide::store_own(self.base + pair as u64 * 16, value) };
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl<'a> StagingBuffer<'a> {
    /// The buffer in `words`.
    #[must_use]
    pub fn new(words: &'a [BlockU64]) -> Self {
        Self { words }
    }

    /// How many words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Words `first .. first + words` of it, as a buffer of their own; fewer where it ends before. `first` is even.
    #[must_use]
    pub fn part(&self, first: usize, words: usize) -> Self {
        let part = self.words.get(first..).unwrap_or_default();
        Self { words: &part[..words.min(part.len())] }
    }

    /// Word `index`; 0 past the end.
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Sets word `index`; nothing past the end.
    pub fn set_word(&self, index: usize, value: u64) {
        if let Some(word) = self.words.get(index) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Words `2 * pair` and the next; 0 past the end.
    #[must_use]
    pub fn pair(&self, pair: usize) -> [u64; 2] {
        [self.word(pair * 2), self.word(pair * 2 + 1)]
    }

    /// Sets words `2 * pair` and the next; nothing past the end.
    pub fn set_pair(&self, pair: usize, value: [u64; 2]) {
        self.set_word(pair * 2, value[0]);
        self.set_word(pair * 2 + 1, value[1]);
    }
}

impl StagingBuffer<'_> {
    /// True for a buffer of no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
