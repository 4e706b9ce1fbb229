//! A barrier between the threads that play a team.

use crate::atomic::DeviceU64;
use crate::hint;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Bits of [`SpinBarrier::fate`].
const LEFT: u64 = 1;
const PANICKED: u64 = 2;

/// A reusable barrier for a fixed number of threads, which knows when one of them will never come.
///
/// Threads poll with [`hint::spin`], in which those of a team yield. What a thread did before it waited is visible to every thread after the wait.
#[derive(Debug)]
pub struct SpinBarrier {
    threads: u64,
    /// Threads that wait in this generation. Reset by the last of them.
    arrived: DeviceU64,
    /// How often the barrier has opened. Written by the last thread to arrive.
    generation: DeviceU64,
    /// What became of threads that wait no more.
    fate: DeviceU64,
}

/// Why a barrier will never open again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A thread ended its work although the others still wait.
    Left,
    /// A thread panicked.
    Panicked,
}

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Left => {
                "a thread of the team returned while others wait for it: every thread has to reach every sync, \
                 shuffle, vote and sum"
            }
            Self::Panicked => "another thread of the team panicked",
        })
    }
}

impl core::error::Error for Broken {}

impl SpinBarrier {
    /// A barrier that opens whenever `threads` threads wait.
    #[must_use]
    pub fn new(threads: u32) -> Self {
        Self {
            threads: threads.into(),
            arrived: DeviceU64::new(0),
            generation: DeviceU64::new(0),
            fate: DeviceU64::new(0),
        }
    }

    /// Waits until all threads do.
    ///
    /// # Errors
    /// One of them has [left](Self::leave) and will not come.
    pub fn wait(&self) -> Result<(), Broken> {
        // No thread opens this generation before the calling thread has arrived, so the value cannot be an
        // old one: this thread acquired it when it left the barrier last.
        let generation = self.generation.load(Relaxed);
        if let Some(broken) = self.broken() {
            return Err(broken);
        }
        // Each arrival hands on what the earlier ones released; the last one has acquired them all.
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.threads {
            self.arrived.store(0, Relaxed);
            // Pairs with the acquire in `opened`: everybody's work, and the reset of `arrived`.
            self.generation.store(generation + 1, Release);
            return Ok(());
        }
        while !self.opened(generation) {
            if let Some(broken) = self.broken() {
                // A thread that passed this barrier and left after it has seen the new generation before.
                return if self.opened(generation) { Ok(()) } else { Err(broken) };
            }
            hint::spin();
        }
        Ok(())
    }

    /// The calling thread will wait here no more, because it `panicked` or is done. Threads that wait for it
    /// are told.
    pub fn leave(&self, panicked: bool) {
        // Pairs with the acquire in `broken`: the generation that this thread has seen open.
        self.fate.fetch_or(if panicked { PANICKED } else { LEFT }, Release);
    }

    fn opened(&self, generation: u64) -> bool {
        self.generation.load(Acquire) != generation
    }

    fn broken(&self) -> Option<Broken> {
        match self.fate.load(Acquire) {
            0 => None,
            fate if fate & PANICKED != 0 => Some(Broken::Panicked),
            _ => Some(Broken::Left),
        }
    }
}
