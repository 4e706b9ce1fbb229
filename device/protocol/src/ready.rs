//! The ready flag of a worker: 0 idle, 1 ready (inference finished), 2 being processed.
//!
//! The inference side (a GPU's signal node, or a CPU engine) stores 1; of all threads that poll, exactly one claims it.

use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::SystemU64;

/// Nothing to fetch.
pub const IDLE: u64 = 0;
/// The output is there.
pub const READY: u64 = 1;
/// Somebody is processing it.
pub const PROCESSING: u64 = 2;

/// A view of one ready flag.
#[derive(Debug, Clone, Copy)]
pub struct ReadyFlag<'a>(&'a SystemU64);

impl<'a> ReadyFlag<'a> {
    /// The flag in `word`.
    #[must_use]
    pub const fn new(word: &'a SystemU64) -> Self {
        Self(word)
    }

    /// The output is complete. Release: pairs with [`claim`](Self::claim).
    #[inline(always)]
    pub fn signal(&self) {
        self.0.store(READY, Ordering::Release);
    }

    /// Takes the output, if it is there and no other thread took it.
    ///
    /// The load first keeps a polling loop on a shared line: a compare-exchange that fails takes the cache
    /// line away from the worker that is about to signal.
    #[inline(always)]
    #[must_use]
    pub fn claim(&self) -> bool {
        self.0.load(Ordering::Relaxed) == READY && self.0.claim(READY, PROCESSING)
    }

    /// The output may be overwritten. Release: what was read from it was read before.
    #[inline(always)]
    pub fn release(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    /// The state. A snapshot.
    #[must_use]
    pub fn state(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
