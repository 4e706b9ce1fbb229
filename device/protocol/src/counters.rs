//! Live counters: readable at any time, by anybody who maps them, without stopping what counts.
//!
//! Every bank has one writer, so counting is a load and a store, with no read-modify-write: the same on a device that
//! counts in mapped memory. Several writers have a bank each, and a reader adds them up.

use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::{DeviceU64, SystemU64};
use ringcall_wire::counter::Counter;
use ringcall_wire::status::Status;

/// Statuses with which a dispatcher answers before any handler sees a request.
const REJECTIONS: [Status; 6] = [
    Status::BAD_FLAG,
    Status::BAD_MAGIC,
    Status::ARG_TOO_LONG,
    Status::UNKNOWN_FUNCTION,
    Status::WRONG_MODE,
    Status::SCHEMA_MISMATCH,
];

/// The words of one writer's counters.
#[derive(Debug)]
#[repr(align(128))]
pub struct Bank([SystemU64; Counter::COUNT]);

impl Default for Bank {
    fn default() -> Self {
        Self(core::array::from_fn(|_| SystemU64::new(0)))
    }
}

impl Bank {
    /// Counts one. Only by the bank's writer.
    #[inline(always)]
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `n`. Only by the bank's writer.
    #[inline(always)]
    pub fn add(&self, counter: Counter, n: u64) {
        let word = &self.0[counter as usize];
        word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }
}

/// Counters for writers that come and go (deferred completions from any thread): read-modify-write, so for agents of
/// one side only.
#[derive(Debug)]
#[repr(align(128))]
pub struct CommonBank([DeviceU64; Counter::COUNT]);

impl Default for CommonBank {
    fn default() -> Self {
        Self(core::array::from_fn(|_| DeviceU64::new(0)))
    }
}

impl CommonBank {
    /// Counts one. By anybody of this side.
    #[inline(always)]
    pub fn count(&self, counter: Counter) {
        self.0[counter as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// All counters at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot([u64; Counter::COUNT]);

impl Default for Snapshot {
    fn default() -> Self {
        Self([0; Counter::COUNT])
    }
}

impl Snapshot {
    /// Counts that were read elsewhere, by index.
    #[must_use]
    pub const fn from_counts(counts: [u64; Counter::COUNT]) -> Self {
        Self(counts)
    }

    /// Adds a bank's counts.
    pub fn absorb(&mut self, bank: &Bank) {
        for (sum, word) in self.0.iter_mut().zip(&bank.0) {
            *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
    }

    /// Adds a common bank's counts.
    pub fn absorb_common(&mut self, bank: &CommonBank) {
        for (sum, word) in self.0.iter_mut().zip(&bank.0) {
            *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
    }

    /// Requests that were answered, with any status: each answer is counted under its status, once.
    #[must_use]
    pub fn answered(&self) -> u64 {
        let statuses = ringcall_wire::status::ALL.iter().map(|&(status, ..)| status);
        let others = self.get(Counter::HandlerErrors) + self.get(Counter::UnknownStatus);
        others + statuses.map(|status| self.get(Counter::of_status(status))).sum::<u64>()
    }

    /// One count.
    #[must_use]
    pub const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// The requests answered with a status of the dispatcher's own before any handler saw them.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        REJECTIONS.iter().map(|&status| self.get(Counter::of_status(status))).sum()
    }

    /// Every counter that is not zero, with its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Counter::ALL.iter().map(|&c| (c.name(), self.get(c))).filter(|&(_, n)| n != 0)
    }
}
