//! The storage of a scoped atomic on the device.

use crate::scope::Access;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;

/// A word that is only reached through the instructions of the scope `S`.
#[repr(transparent)]
pub(crate) struct Cell<S> {
    word: UnsafeCell<u64>,
    scope: PhantomData<fn() -> S>,
}

// SAFETY: every access is one atomic instruction.
unsafe impl<S> Sync for Cell<S> {}

impl<S> Cell<S> {
    pub(crate) const fn new(value: u64) -> Self {
        Self { word: UnsafeCell::new(value), scope: PhantomData }
    }
}

impl<S: Access> Cell<S> {
    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        // SAFETY: the cell's own word.
        unsafe { S::load(self.word.get(), order) }
    }

    #[inline(always)]
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        // SAFETY: the cell's own word.
        unsafe { S::store(self.word.get(), value, order) };
    }

    #[inline(always)]
    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        // SAFETY: the cell's own word.
        unsafe { S::add(self.word.get(), value, order) }
    }

    #[inline(always)]
    pub(crate) fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        // SAFETY: the cell's own word.
        unsafe { S::or(self.word.get(), bits, order) }
    }

    #[inline(always)]
    pub(crate) fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        // SAFETY: the cell's own word.
        unsafe { S::and(self.word.get(), bits, order) }
    }

    #[inline(always)]
    pub(crate) fn swap(&self, value: u64, order: Ordering) -> u64 {
        // SAFETY: the cell's own word.
        unsafe { S::swap(self.word.get(), value, order) }
    }

    #[inline(always)]
    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        // One instruction has one order: the stronger of the two that can be asked for.
        let order = match (success, failure) {
            (_, Ordering::SeqCst) => Ordering::SeqCst,
            (Ordering::Relaxed, Ordering::Acquire) => Ordering::Acquire,
            (Ordering::Release, Ordering::Acquire) => Ordering::AcqRel,
            (success, _) => success,
        };
        // SAFETY: the cell's own word.
        let found = unsafe { S::exchange(self.word.get(), current, new, order) };
        if found == current { Ok(found) } else { Err(found) }
    }
}
