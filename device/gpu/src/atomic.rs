//! 64-bit atomics: the scope in the type, the order at the call.
//!
//! | type | loads, stores | read-modify-write | for |
//! |---|---|---|---|
//! | [`SystemU64`] | yes | [`claim`](SystemU64::claim) only, between agents of one side | flags in mapped memory |
//! | [`DeviceU64`] | yes | yes | idle masks, ledgers, mailboxes between threads of one side |
//! | [`BlockU64`] | yes | yes | hand-off inside a block |
//!
//! On a device each operation is the PTX instruction of its order and scope, spelled out (the compiler's own lowering of a
//! read-modify-write forgets both): `ld.acquire.sys`, `st.release.gpu`, `atom.acq_rel.cta.add.u64` and so on, pinned by a
//! test that reads the PTX.
//!
//! Every type has the size and alignment of a `u64`, so an array of them can lie over mapped memory (not under loom,
//! where the model's own storage takes its place).

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use crate::scope::{BlockScope, DeviceScope, SameSide, Scope, SystemScope};

#[cfg(not(any(loom, target_arch = "nvptx64")))]
use core::sync::atomic::AtomicU64 as Inner;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64 as Inner;

/// A `u64` that agents within the scope `S` may load and store at the same time.
#[cfg_attr(not(loom), repr(transparent))]
pub struct ScopedU64<S: Scope> {
    #[cfg(not(target_arch = "nvptx64"))]
    inner: Inner,
    #[cfg(target_arch = "nvptx64")]
    inner: crate::ptx::cell::Cell<S>,
    #[cfg(loom)]
    turn: Inner,
    scope: PhantomData<fn() -> S>,
}

/// Seen by CPU, GPU and NIC alike: aligned loads and stores only.
pub type SystemU64 = ScopedU64<SystemScope>;
/// Seen by the threads of one side.
pub type DeviceU64 = ScopedU64<DeviceScope>;
/// Seen by the threads of one block.
pub type BlockU64 = ScopedU64<BlockScope>;

impl<S: Scope> ScopedU64<S> {
    /// A new atomic holding `value`.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(value: u64) -> Self {
        #[cfg(not(target_arch = "nvptx64"))]
        let inner = Inner::new(value);
        #[cfg(target_arch = "nvptx64")]
        let inner = crate::ptx::cell::Cell::new(value);
        Self { inner, scope: PhantomData }
    }

    /// A new atomic holding `value`.
    #[cfg(loom)]
    #[must_use]
    pub fn new(value: u64) -> Self {
        Self { inner: Inner::new(value), turn: Inner::new(0), scope: PhantomData }
    }

    /// Under loom, makes all accesses to one word depend on each other when interleavings are chosen.
    ///
    /// Loom 0.7 remembers only the last access to a word, and no load depends on a load: a thread that loads a word and
    /// then stores it hides an earlier load by another thread, and the store is never tried before that load. (The
    /// consumer's release of a slot against the producer's probe is such a pair.) A relaxed read-modify-write of a
    /// second word depends on every access before it and orders no memory.
    #[inline(always)]
    fn touch(&self) {
        #[cfg(loom)]
        self.turn.fetch_add(0, Ordering::Relaxed);
    }

    /// Loads the value. `order` is `Relaxed`, `Acquire` or `SeqCst`.
    #[inline(always)]
    pub fn load(&self, order: Ordering) -> u64 {
        self.touch();
        self.inner.load(order)
    }

    /// Stores `value`. `order` is `Relaxed`, `Release` or `SeqCst`.
    #[inline(always)]
    pub fn store(&self, value: u64, order: Ordering) {
        self.touch();
        self.inner.store(value, order);
    }
}

impl SystemU64 {
    /// Moves the word from `from` to `to` if it still holds `from`; true for the one caller that did.
    ///
    /// The only read-modify-write on a mapped word, and only for agents of *one* side to settle among themselves which
    /// of them takes what the other side published (the ready-flag claim). The other side never does one on this word.
    /// Acquire on success (pairs with the publisher's release store), relaxed on failure, so that a spinning loser adds
    /// no ordering.
    #[inline(always)]
    pub fn claim(&self, from: u64, to: u64) -> bool {
        self.touch();
        self.inner.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl<S: SameSide> ScopedU64<S> {
    /// Adds, wrapping; the value before.
    #[inline(always)]
    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.touch();
        self.inner.fetch_add(value, order)
    }

    /// Sets bits; the value before.
    #[inline(always)]
    pub fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.touch();
        self.inner.fetch_or(bits, order)
    }

    /// Keeps only `bits`; the value before.
    #[inline(always)]
    pub fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.touch();
        self.inner.fetch_and(bits, order)
    }

    /// Stores `value`; the value before.
    #[inline(always)]
    pub fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.touch();
        self.inner.swap(value, order)
    }

    /// Moves from `current` to `new`; the value found otherwise.
    ///
    /// # Errors
    /// The value that was there when it was not `current`.
    #[inline(always)]
    pub fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.touch();
        self.inner.compare_exchange(current, new, success, failure)
    }
}

impl<S: Scope> Default for ScopedU64<S> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<S: Scope> core::fmt::Debug for ScopedU64<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}.{}", self.load(Ordering::Relaxed), S::PTX)
    }
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<SystemU64>() == 8);
    assert!(align_of::<SystemU64>() == 8);
};
