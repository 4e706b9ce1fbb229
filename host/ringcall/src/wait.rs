//! Wait strategies of a polling thread: spin or yield.

use ringcall_gpu::{clock, hint};

/// Turns of a polling loop between two checks of the clock and of the stop flag, since each check costs as much as a
/// turn.
pub const TURNS_PER_CHECK: u32 = 64;

/// What a polling thread does while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Polls without pause: lowest latency, one core a thread.
    Spin,
    /// Polls, and yields to other threads after so many empty turns: for machines with fewer cores than threads.
    /// While no other thread wants the core, it yields more and more rarely (down to every 50 us), so that yielding
    /// costs next to nothing on a core of one's own.
    Yield {
        /// Empty turns before the first yield.
        spins: u32,
    },
    /// [`Spin`](Self::Spin) if every thread has a core, else [`Yield`](Self::Yield).
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
        Waiter { spins, spin_limit: spins, left: spins, empty: 0, last_ns: 0 }
    }
}

/// About how long the empty turns between two yields take on a thread that has its core to itself. A yield takes less
/// than a fiftieth of that time.
const GAP_NS: u64 = 50_000;
/// A yield that returns sooner found no other thread to run, since two switches between threads take longer.
const ALONE_NS: u64 = 1000;

/// The state of one waiting thread.
#[derive(Debug, Clone)]
pub struct Waiter {
    /// The configured number of empty turns; [`u32::MAX`]: never yields.
    spins: u32,
    /// Empty turns before the next yield, as adapted after the last yield.
    spin_limit: u32,
    /// Empty turns left before the next yield.
    left: u32,
    empty: u32,
    /// When the last yield ended.
    last_ns: u64,
}

impl Waiter {
    /// There was something to do.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.empty = 0;
        self.left = self.spin_limit;
    }

    /// There was nothing to do. Returns how many times in a row, saturating.
    #[inline(always)]
    pub fn idle(&mut self) -> u32 {
        self.empty = self.empty.saturating_add(1);
        if self.left > 0 {
            self.left -= 1;
            hint::spin();
        } else {
            self.give_way();
        }
        self.empty
    }

    #[cold]
    #[inline(never)]
    fn give_way(&mut self) {
        if self.spins == u32::MAX {
            self.left = u32::MAX;
            return;
        }
        // How long turns take is known from the second yield in a row.
        let is_first = self.empty == self.spin_limit.saturating_add(1);
        let begin = clock::now_ns();
        let gap_ns = (!is_first).then(|| begin.saturating_sub(self.last_ns));
        std::thread::yield_now();
        self.last_ns = clock::now_ns();
        self.yielded(self.last_ns.saturating_sub(begin), gap_ns);
    }

    /// Adapts to how long a yield and the empty turns before it took.
    fn yielded(&mut self, took_ns: u64, gap_ns: Option<u64>) {
        if took_ns >= ALONE_NS {
            // Another thread needs the core: it gets the core after every turn, until there is something to do.
            self.spin_limit = self.spins;
            self.left = 0;
            return;
        }
        match gap_ns {
            Some(gap_ns) if gap_ns < GAP_NS / 2 => self.spin_limit = self.spin_limit.max(1).saturating_mul(2),
            Some(gap_ns) if gap_ns > GAP_NS * 2 => self.spin_limit = (self.spin_limit / 2).max(self.spins),
            _ => (),
        }
        self.left = self.spin_limit;
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

    #[test]
    fn whoever_is_alone_on_its_core_yields_rarely() {
        let mut waiter = Wait::Yield { spins: 16 }.waiter();
        waiter.yielded(ALONE_NS / 2, None);
        assert_eq!(waiter.left, 16, "how long a turn takes is not known yet");
        let mut after = |took_ns, gap_ns| {
            waiter.yielded(took_ns, Some(gap_ns));
            (waiter.left, waiter.spin_limit)
        };
        assert_eq!(after(ALONE_NS / 2, 1_000), (32, 32));
        assert_eq!(after(ALONE_NS / 2, 2_000), (64, 64));
        assert_eq!(after(ALONE_NS / 2, GAP_NS), (64, 64), "that is it");
        assert_eq!(after(ALONE_NS / 2, 3 * GAP_NS), (32, 32), "turns take longer than they did");
        assert_eq!(after(ALONE_NS, 1_000), (0, 16), "not alone: at every turn");
        waiter.reset();
        assert_eq!(waiter.left, 16, "as asked for");
    }

    #[test]
    fn the_spin_limit_has_its_bounds() {
        let mut waiter = Wait::Yield { spins: 0 }.waiter();
        waiter.yielded(0, Some(0));
        assert_eq!(waiter.left, 2);
        let mut waiter = Wait::Yield { spins: 10_000 }.waiter();
        waiter.yielded(0, Some(u64::MAX));
        assert_eq!(waiter.left, 10_000, "never fewer than asked for");
        let mut waiter = Wait::Spin.waiter();
        waiter.left = 0;
        assert_eq!(waiter.idle(), 1);
        assert_eq!(waiter.left, u32::MAX, "without a yield");
    }

    #[test]
    fn the_first_yield_in_a_row_says_nothing_of_turns() {
        let mut waiter = Wait::Yield { spins: 2 }.waiter();
        for _ in 0..3 {
            for _ in 0..2 {
                waiter.idle();
            }
            assert_eq!(waiter.left, 0);
            waiter.last_ns = clock::now_ns();
            waiter.idle();
            assert!(waiter.spin_limit == 2, "{waiter:?}");
            waiter.reset();
        }
    }
}
