//! A block.

use super::{Stride, Warp, machine};

/// One thread's view of its block: the threads that share a multiprocessor and its barrier.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pub(super) thread: machine::Thread<'a>,
}

impl<'a> Block<'a> {
    /// The calling thread's block. All threads of the block have to call it, and every collective after it; the block
    /// has a multiple of 32 threads, so that its warps are whole.
    #[cfg(target_arch = "nvptx64")]
    #[must_use]
    #[inline(always)]
    pub fn current() -> Self {
        Self { thread: machine::Thread::current() }
    }

    /// A block of the calling thread alone.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn single() -> Self {
        Self { thread: machine::Thread::single() }
    }

    /// This thread's index in the block, from 0.
    #[must_use]
    #[inline(always)]
    pub fn thread(&self) -> u32 {
        self.thread.index()
    }

    /// How many threads the block has.
    #[must_use]
    #[inline(always)]
    pub fn threads(&self) -> u32 {
        self.thread.count()
    }

    /// This thread's warp: 32 threads with neighbouring indices. (On a CPU the last one of a block may have fewer.)
    #[must_use]
    #[inline(always)]
    pub fn warp(&self) -> Warp<'a> {
        Warp { lane: self.thread.lane() }
    }

    /// Waits for all threads of the block. What a thread wrote before is visible to all of them after.
    #[inline(always)]
    pub fn sync(&self) {
        self.thread.sync();
    }

    /// This thread's share of `0..len`: thread, thread + threads, and so on.
    #[must_use]
    #[inline(always)]
    pub fn stride(&self, len: usize) -> Stride {
        Stride::new(self.thread(), self.threads(), len)
    }
}
