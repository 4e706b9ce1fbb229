//! Idle strategy of a transceiver's thread.

use ringcall::wait::Waiter;
use ringcall_gpu::{clock, hint};
use ringcall_transport::IdleStrategy;
use std::time::Duration;

/// The longest time that the thread blocks: responses come through memory, and nothing would wake it.
pub(crate) const SLEEP: Duration = Duration::from_micros(50);

/// Empty turns before the thread blocks if only a datagram can come.
const TURNS: u32 = 64;
/// Empty turns before the thread blocks while a response is due.
const TURNS_WHILE_DUE: u32 = 20_000;
/// A longer yield has gone to a thread that polls without a pause; a sleep returns the core sooner.
const LONG_YIELD_NS: u64 = 4 * SLEEP.as_nanos() as u64;
/// Sleeps after a long yield before the next yield.
const SLEEPS: u32 = 1000;

/// Polls, yields to other threads, and says when to block: soon if only a datagram can come or yields take longer than
/// sleeps, late while a response is due.
#[derive(Debug)]
pub(crate) struct IdlePolicy {
    waiter: Waiter,
    turns: u32,
    sleeps: u32,
}

impl IdlePolicy {
    pub(crate) fn new() -> Self {
        Self { waiter: IdleStrategy::default().wait.waiter(), turns: 0, sleeps: 0 }
    }

    /// Called after a turn that found work.
    pub(crate) fn reset(&mut self) {
        self.waiter.reset();
        self.turns = 0;
    }

    /// Called after a turn that found no work. Returns whether to block now, for at most a [`SLEEP`].
    pub(crate) fn blocks(&mut self, is_due: impl FnOnce() -> bool) -> bool {
        self.turns = self.turns.saturating_add(1);
        if self.sleeps == 0 {
            let begin = clock::now_ns();
            self.waiter.idle();
            self.yielded(clock::now_ns().saturating_sub(begin));
            return self.turns >= TURNS_WHILE_DUE || (self.turns >= TURNS && !is_due());
        }
        if self.turns < TURNS {
            hint::spin();
            return false;
        }
        self.sleeps -= 1;
        true
    }

    fn yielded(&mut self, took_ns: u64) {
        if took_ns > LONG_YIELD_NS {
            self.sleeps = SLEEPS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_response_that_is_due_keeps_the_thread_from_blocking() {
        for (is_due, turns) in [(false, TURNS), (true, TURNS_WHILE_DUE)] {
            let mut idle = IdlePolicy::new();
            idle.turns = turns - 2;
            assert!(!idle.blocks(|| is_due));
            // As if no other thread needed the core.
            idle.sleeps = 0;
            assert!(idle.blocks(|| is_due));
        }
    }

    #[test]
    fn a_long_yield_makes_sleeps_of_the_next_ones() {
        let mut idle = IdlePolicy::new();
        idle.yielded(LONG_YIELD_NS + 1);
        for _ in 0..SLEEPS {
            idle.reset();
            let turns = (1..).find(|_| idle.blocks(|| true));
            assert_eq!(turns, Some(TURNS));
        }
        assert_eq!(idle.sleeps, 0, "then yields are tried again");
    }
}
