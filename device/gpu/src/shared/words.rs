//! A window of 64-bit words.

#[cfg(not(target_arch = "nvptx64"))]
use super::storage::Storage;
use crate::atomic::SystemU64;
use core::sync::atomic::Ordering;
#[cfg(not(target_arch = "nvptx64"))]
use std::sync::Arc;

/// A window of 64-bit words (flags) in shared memory. Cheap to clone; keeps its [`Region`](super::Region), or
/// another owner of the memory, alive.
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

    /// Loads words `index` and `index + 1`, relaxed: one 16-byte access on a device where the address allows it. Words past
    /// the end read 0.
    #[must_use]
    #[inline(always)]
    pub fn load_pair(&self, index: usize) -> [u64; 2] {
        #[cfg(target_arch = "nvptx64")]
        if let Some(at) = self.pair_address(index) {
            // SAFETY: inside the window and aligned.
            return unsafe { crate::ptx::wide::load_peer(at) };
        }
        core::array::from_fn(|i| self.get(index + i).map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    /// Stores words `index` and `index + 1`, relaxed: one 16-byte access on a device where the address allows it. Nothing
    /// past the end.
    #[inline(always)]
    pub fn store_pair(&self, index: usize, value: [u64; 2]) {
        #[cfg(target_arch = "nvptx64")]
        if let Some(at) = self.pair_address(index) {
            // SAFETY: inside the window and aligned.
            return unsafe { crate::ptx::wide::store_peer(at, value) };
        }
        for (i, value) in value.into_iter().enumerate() {
            if let Some(word) = self.get(index + i) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// One burst of loads, relaxed: this lane's pairs `lane` and `lane + lanes` of the `pairs` pairs from word `first` on (0
    /// after them), and in lane 0 the word `beside`, where one is given (0 elsewhere). On a device a warp pays one round
    /// trip for all of it.
    #[must_use]
    #[inline(always)]
    pub fn load_burst(
        &self,
        first: usize,
        [lane, lanes]: [u32; 2],
        pairs: u32,
        beside: Option<(&Self, usize)>,
    ) -> ([[u64; 2]; 2], u64) {
        #[cfg(target_arch = "nvptx64")]
        {
            let at = self.address() + first as u64 * 8;
            if first + pairs as usize * 2 <= self.len && at.is_multiple_of(16) {
                let word = match beside {
                    Some((words, index)) if index < words.len => words.address() + index as u64 * 8,
                    _ => 0,
                };
                // SAFETY: inside the windows; aligned; address 0 stands for no word.
                return unsafe { crate::ptx::wide::load_burst(at, lane, pairs, word) };
            }
        }
        let pair =
            |index: u32| if index < pairs { self.load_pair(first + index as usize * 2) } else { [0; 2] };
        let word = match beside {
            Some((words, index)) if lane == 0 => {
                words.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
            }
            _ => 0,
        };
        ([pair(lane), pair(lane + lanes)], word)
    }

    /// Two pairs of this lane's own in one burst, relaxed: of each window that is given, the words `index` and `index + 1` (0
    /// past the end, and where none is given). On a device neither load waits for the other.
    #[must_use]
    #[inline(always)]
    pub fn load_two(first: Option<(&Self, usize)>, second: Option<(&Self, usize)>) -> [[u64; 2]; 2] {
        #[cfg(target_arch = "nvptx64")]
        {
            // 0 stands for no pair; one that does not lie on a boundary of 16 bytes takes the long way.
            let address = |pair: Option<(&Self, usize)>| match pair {
                None => Some(0),
                Some((words, index)) => words.pair_address(index),
            };
            if let (Some(first), Some(second)) = (address(first), address(second)) {
                // SAFETY: each is 0, or inside its window and aligned.
                return unsafe { crate::ptx::wide::load_two(first, second) };
            }
        }
        [first, second].map(|pair| pair.map_or([0; 2], |(words, index)| words.load_pair(index)))
    }

    /// Stores word `index`, relaxed, as a device's register wants it: one transaction. Nothing past the end.
    #[inline(always)]
    pub fn store_register(&self, index: usize, value: u64) {
        #[cfg(target_arch = "nvptx64")]
        if index < self.len {
            let at = self.address() + index as u64 * 8;
            // SAFETY: inside the window, whose words are aligned.
            unsafe { crate::ptx::wide::store_register(at, value) };
        }
        #[cfg(not(target_arch = "nvptx64"))]
        self.store(index, value, Ordering::Relaxed);
    }

    /// Where words `index` and `index + 1` lie, if both are in the window and 16-byte aligned.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn pair_address(&self, index: usize) -> Option<u64> {
        let at = self.address() + index as u64 * 8;
        (index + 2 <= self.len && at.is_multiple_of(16)).then_some(at)
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
    #[cfg(not(target_arch = "nvptx64"))]
    use super::{Arc, Storage};
    use super::{SystemU64, Words};
    #[cfg(not(target_arch = "nvptx64"))]
    use core::any::Any;
    use core::ptr::NonNull;

    /// What a window keeps alive; `None` for memory that the creator of the window vouches for.
    #[cfg(not(target_arch = "nvptx64"))]
    type Owner = Option<Arc<dyn Any + Send + Sync>>;
    /// A device owns no memory: its windows lie over what the host mapped for it.
    #[cfg(target_arch = "nvptx64")]
    type Owner = Option<core::convert::Infallible>;

    #[derive(Clone, Debug)]
    pub(crate) struct Imp {
        base: NonNull<SystemU64>,
        _owner: Owner,
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
        #[cfg(not(target_arch = "nvptx64"))]
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

        /// A window over `len` words of memory that another agent owns.
        ///
        /// # Safety
        /// 1. `base .. base + len * 8` is readable and writable by this process, from any thread, for as long as this
        ///    window or a clone of it lives.
        /// 2. While it lives no Rust reference to that memory exists, and every access by Rust code is atomic.
        ///
        /// # Errors
        /// A null or misaligned pointer, or a length beyond the address space.
        #[cfg_attr(not(target_arch = "nvptx64"), inline(always))]
        pub unsafe fn from_raw(base: *mut u64, len: usize) -> Result<Self, SharedError> {
            Self::over_raw(base, len, None)
        }

        /// A window over `len` words of memory that lives as long as `owner`, which the window and its clones keep.
        ///
        /// # Safety
        /// 1. `base .. base + len * 8` is readable and writable by this process, from any thread, until `owner` is
        ///    dropped.
        /// 2. While the window or a clone of it lives no Rust reference to that memory exists, and every access by
        ///    Rust code is atomic.
        ///
        /// # Errors
        /// A null or misaligned pointer, or a length beyond the address space.
        #[cfg(not(target_arch = "nvptx64"))]
        pub unsafe fn from_raw_owned(
            base: *mut u64,
            len: usize,
            owner: Arc<dyn Any + Send + Sync>,
        ) -> Result<Self, SharedError> {
            Self::over_raw(base, len, Some(owner))
        }

        #[cfg_attr(not(target_arch = "nvptx64"), inline(always))]
        fn over_raw(base: *mut u64, len: usize, owner: Owner) -> Result<Self, SharedError> {
            let base = NonNull::new(base).ok_or(SharedError::Null)?.cast::<SystemU64>();
            if !base.is_aligned() {
                return Err(SharedError::Misaligned { value: base.addr().get() });
            }
            let end = len.checked_mul(8).and_then(|bytes| base.addr().get().checked_add(bytes));
            if end.is_none() {
                return Err(SharedError::OutOfBounds { end: usize::MAX, len });
            }
            Ok(Self { imp: Imp { base, _owner: owner }, len })
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Arc, Ordering, Words};
    use crate::shared::Bytes;
    use core::any::Any;

    #[test]
    fn a_window_keeps_its_owner_until_the_last_clone_is_gone() {
        let mut memory = Box::new([0_u64; 8]);
        let base = memory.as_mut_ptr();
        let owner = Arc::new(());
        let keeper = || Arc::<()>::clone(&owner) as Arc<dyn Any + Send + Sync>;
        // SAFETY: the array outlives both windows, and is reached through them alone.
        let words = unsafe { Words::from_raw_owned(base, 8, keeper()) }.expect("aligned");
        // SAFETY: as above.
        let bytes = unsafe { Bytes::from_raw_owned(base.cast(), 64, keeper()) }.expect("aligned");
        words.store(1, 7, Ordering::Relaxed);
        assert_eq!(bytes.read_words(8), Some([7]));
        let slice = bytes.slice(8, 8).expect("inside");
        drop((words, bytes));
        assert_eq!(Arc::strong_count(&owner), 2, "the slice keeps it");
        drop(slice);
        assert_eq!(Arc::strong_count(&owner), 1);
        drop(memory);
    }
}
