//! Idle strategies of a transport's thread.

use crate::UnifiedTransport;
use ringcall::Wait;
use ringcall::thread::STOP_CHECK_INTERVAL;
use ringcall::wait::TURNS_PER_CHECK;
use ringcall::wait::Waiter;
use std::time::{Duration, Instant};

/// How a transport's thread idles: it polls, then yields to other threads, and at last blocks until a datagram comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleStrategy {
    /// How the thread polls. By default it yields after 16 empty turns, since each turn is a system call; on a machine
    /// with a core for every polling thread [`Wait::Spin`] is faster.
    pub wait: Wait,
    /// How long the thread polls without result before it blocks in `poll`, which a datagram ends at once. It never
    /// blocks while an answer is due: answers come through memory, and nothing would wake the thread. `None` never
    /// blocks. Default: 50 ms.
    pub block_after: Option<Duration>,
}

impl Default for IdleStrategy {
    fn default() -> Self {
        Self { wait: Wait::Yield { spins: 16 }, block_after: Some(Duration::from_millis(50)) }
    }
}

#[derive(Debug)]
pub(crate) struct Idler {
    waiter: Waiter,
    block_after: Option<Duration>,
    since: Option<Instant>,
}

impl Idler {
    pub(crate) fn new(idle: &IdleStrategy) -> Self {
        Self { waiter: idle.wait.waiter(), block_after: idle.block_after, since: None }
    }

    /// Called after a turn that found work.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.waiter.reset();
        self.since = None;
    }

    /// Called after a turn that found no work.
    #[inline]
    pub(crate) fn idle(&mut self, link: &mut dyn UnifiedTransport) {
        let turns = self.waiter.idle();
        let Some(block_after) = self.block_after else { return };
        if turns.is_multiple_of(TURNS_PER_CHECK) || turns == u32::MAX {
            let since = *self.since.get_or_insert_with(Instant::now);
            if since.elapsed() >= block_after {
                let _ = link.doze(STOP_CHECK_INTERVAL);
            }
        }
    }
}
