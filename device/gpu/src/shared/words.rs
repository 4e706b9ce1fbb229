//! A window of 64-bit words.

use super::region::Storage;
use crate::atomic::SystemU64;
use core::sync::atomic::Ordering;
use std::sync::Arc;

/// A window of 64-bit words (flags) in shared memory. Cheap to clone; keeps its [`Region`](super::Region) alive.
#[derive(Clone, Debug)]
pub struct Words {
    imp: Imp,
    len: usize,
}

impl Words {
    /// How many words.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a window of no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The word at `index`, or `None` past the end.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&SystemU64> {
        if index < self.len { Some(self.imp.at(index)) } else { None }
    }

    /// Loads word `index`; 0 past the end (a flag that is not there is never set).
    #[must_use]
    #[inline(always)]
    pub fn load(&self, index: usize, order: Ordering) -> u64 {
        debug_assert!(index < self.len, "word {index} of {}", self.len);
        self.get(index).map_or(0, |word| word.load(order))
    }

    /// Stores word `index`; nothing past the end.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u64, order: Ordering) {
        debug_assert!(index < self.len, "word {index} of {}", self.len);
        if let Some(word) = self.get(index) {
            word.store(value, order);
        }
    }

    /// Loads the eight words `group * 8 ..` relaxed, as one cache line's worth of flags; words past the end read 0.
    #[must_use]
    #[inline(always)]
    pub fn load_group(&self, group: usize) -> [u64; 8] {
        let first = group * 8;
        if first + 8 <= self.len {
            core::array::from_fn(|i| self.imp.at(first + i).load(Ordering::Relaxed))
        } else {
            core::array::from_fn(|i| self.get(first + i).map_or(0, |word| word.load(Ordering::Relaxed)))
        }
    }

    /// Asks for word `index` with ownership, to be written soon. Changes nothing.
    #[inline(always)]
    pub fn prefetch_write(&self, index: usize) {
        if let Some(word) = self.get(index) {
            crate::hint::prefetch_write(core::ptr::from_ref(word).cast());
        }
    }
}

#[cfg(not(loom))]
pub(crate) use real::Imp;

#[cfg(not(loom))]
mod real {
    use super::super::SharedError;
    use super::{Arc, Storage, SystemU64, Words};
    use core::ptr::NonNull;

    #[derive(Clone, Debug)]
    pub(crate) struct Imp {
        base: NonNull<SystemU64>,
        /// Keeps an owned region alive; `None` for memory that the creator of the window vouches for.
        _owner: Option<Arc<Storage>>,
    }

    // SAFETY: the words are reached only through atomic loads and stores; the owner is `Send + Sync`, and for foreign
    // memory `from_raw` demands that it may be accessed from any thread.
    unsafe impl Send for Imp {}
    // SAFETY: as for `Send`.
    unsafe impl Sync for Imp {}

    impl Imp {
        #[inline(always)]
        pub(super) fn at(&self, index: usize) -> &SystemU64 {
            // SAFETY: callers pass an index below `len`, and the window was checked to lie inside its memory.
            let word = unsafe { self.base.add(index) };
            // SAFETY: aligned, alive (owner, or the promise of `from_raw`), and only ever accessed atomically.
            unsafe { word.as_ref() }
        }
    }

    impl Words {
        pub(crate) fn in_region(storage: Arc<Storage>, offset: usize, len: usize) -> Self {
            let base = storage.word_at(offset);
            Self { imp: Imp { base, _owner: Some(storage) }, len }
        }

        /// Words `first .. first + len` of this window; the caller has checked that they lie inside.
        pub(crate) fn window(&self, first: usize, len: usize) -> Self {
            debug_assert!(first + len <= self.len);
            // SAFETY: checked by the caller to lie inside this window.
            let base = unsafe { self.imp.base.add(first) };
            Self { imp: Imp { base, _owner: self.imp._owner.clone() }, len }
        }

        /// A window over `len` words of memory that somebody else owns.
        ///
        /// # Safety
        /// 1. `base .. base + len * 8` is readable and writable by this process, from any thread, for as long as this
        ///    window or a clone of it lives.
        /// 2. While it lives no Rust reference to that memory exists, and every access by Rust code is atomic.
        ///
        /// # Errors
        /// A null or misaligned pointer, or a length beyond the address space.
        pub unsafe fn from_raw(base: *mut u64, len: usize) -> Result<Self, SharedError> {
            let base = NonNull::new(base).ok_or(SharedError::Null)?.cast::<SystemU64>();
            if !base.is_aligned() {
                return Err(SharedError::Misaligned { value: base.addr().get() });
            }
            let end = len.checked_mul(8).and_then(|bytes| base.addr().get().checked_add(bytes));
            if end.is_none() {
                return Err(SharedError::OutOfBounds { end: usize::MAX, len });
            }
            Ok(Self { imp: Imp { base, _owner: None }, len })
        }

        /// The address of the first word.
        #[must_use]
        pub fn address(&self) -> u64 {
            self.imp.base.addr().get() as u64
        }
    }
}

#[cfg(loom)]
pub(crate) use model::Imp;

#[cfg(loom)]
mod model {
    use super::{Arc, Storage, SystemU64, Words};

    #[derive(Clone, Debug)]
    pub(crate) struct Imp {
        storage: Arc<Storage>,
        first: usize,
    }

    impl Imp {
        pub(super) fn at(&self, index: usize) -> &SystemU64 {
            &self.storage.words()[self.first + index]
        }
    }

    impl Words {
        pub(crate) fn in_region(storage: Arc<Storage>, offset: usize, len: usize) -> Self {
            Self { imp: Imp { storage, first: offset / 8 }, len }
        }

        pub(crate) fn window(&self, first: usize, len: usize) -> Self {
            let storage = Arc::clone(&self.imp.storage);
            Self { imp: Imp { storage, first: self.imp.first + first }, len }
        }

        /// A made-up address that differs from word to word, so that flag values mean something in a model.
        #[must_use]
        pub fn address(&self) -> u64 {
            0x10_0000 + (self.imp.first as u64) * 8
        }
    }
}
