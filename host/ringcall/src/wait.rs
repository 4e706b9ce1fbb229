//! How a thread waits for a flag.

use ringcall_gpu::hint;

/// What a polling thread does while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Polls without pause: lowest latency, one core a thread.
    Spin,
    /// Polls, and lets another thread run after so many empty turns: for machines with fewer cores than threads.
    Yield {
        /// Empty turns before the first yield.
        spins: u32,
    },
    /// [`Spin`](Self::Spin) where every thread has a core, [`Yield`](Self::Yield) where not.
    #[default]
    Auto,
}

impl Wait {
    /// Decides [`Auto`](Self::Auto) for a program of `threads` polling threads on the cores this process may use.
    #[must_use]
    pub fn resolve(self, threads: usize) -> Self {
        match self {
            Self::Auto => {
                let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                if threads <= cores { Self::Spin } else { Self::Yield { spins: 64 } }
            }
            decided => decided,
        }
    }

    /// A waiter that follows this strategy.
    #[must_use]
    pub fn waiter(self) -> Waiter {
        let spins = match self {
            Self::Spin => u32::MAX,
            Self::Yield { spins } => spins,
            Self::Auto => 64,
        };
        Waiter { spins, empty: 0 }
    }
}

/// The state of one waiting thread.
#[derive(Debug, Clone)]
pub struct Waiter {
    spins: u32,
    empty: u32,
}

impl Waiter {
    /// There was something to do.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.empty = 0;
    }

    /// There was nothing to do. Returns how many times in a row, saturating.
    #[inline(always)]
    pub fn idle(&mut self) -> u32 {
        self.empty = self.empty.saturating_add(1);
        if self.empty > self.spins {
            std::thread::yield_now();
        } else {
            hint::spin();
        }
        self.empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_spins_only_while_every_thread_has_a_core() {
        assert_eq!(Wait::Auto.resolve(1), Wait::Spin);
        assert!(matches!(Wait::Auto.resolve(100_000), Wait::Yield { .. }));
        assert_eq!(Wait::Spin.resolve(100_000), Wait::Spin);
    }

    #[test]
    fn a_waiter_counts_empty_turns_and_forgets_them() {
        let mut waiter = Wait::Yield { spins: 1 }.waiter();
        assert_eq!((waiter.idle(), waiter.idle(), waiter.idle()), (1, 2, 3));
        waiter.reset();
        assert_eq!(waiter.idle(), 1);
    }
}
