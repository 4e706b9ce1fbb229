//! An owned, zeroed, page-aligned stretch of shared memory.

use super::storage::Storage;
use super::{Bytes, SharedError, Words};
use std::sync::Arc;

/// An owned stretch of zeroed shared memory, from which windows are cut.
#[derive(Debug, Clone)]
pub struct Region {
    storage: Arc<Storage>,
}

impl Region {
    /// Allocates `bytes` (rounded up to whole pages), all zero.
    ///
    /// # Errors
    /// [`SharedError::OutOfMemory`] when the allocator refuses, or for a length beyond the address space.
    pub fn zeroed(bytes: usize) -> Result<Self, SharedError> {
        Ok(Self { storage: Arc::new(Storage::zeroed(bytes)?) })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.storage.len()
    }

    /// Never: a region has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A window of `count` words starting `offset` bytes in.
    ///
    /// # Errors
    /// Misaligned or out of bounds.
    pub fn words(&self, offset: usize, count: usize) -> Result<Words, SharedError> {
        self.check(offset, count.checked_mul(8))?;
        Ok(Words::in_region(Arc::clone(&self.storage), offset, count))
    }

    /// A window of `len` bytes starting `offset` bytes in.
    ///
    /// # Errors
    /// Misaligned or out of bounds.
    pub fn bytes(&self, offset: usize, len: usize) -> Result<Bytes, SharedError> {
        if !len.is_multiple_of(8) {
            return Err(SharedError::Misaligned { value: len });
        }
        Ok(Bytes::over(self.words(offset, len / 8)?))
    }

    fn check(&self, offset: usize, len: Option<usize>) -> Result<(), SharedError> {
        if !offset.is_multiple_of(8) {
            return Err(SharedError::Misaligned { value: offset });
        }
        let end = len.and_then(|len| offset.checked_add(len)).unwrap_or(usize::MAX);
        if end > self.len() {
            return Err(SharedError::OutOfBounds { end, len: self.len() });
        }
        Ok(())
    }
}
