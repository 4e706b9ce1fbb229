//! A grid.

use super::{Block, Stride, machine};

/// One thread's view of its grid: all threads of a cooperative launch.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    pub(super) position: machine::Position<'a>,
}

impl<'a> Grid<'a> {
    /// The calling thread's grid. The launch is cooperative (all blocks resident), and all threads of the grid have to
    /// call it, and every collective after it.
    #[cfg(target_arch = "nvptx64")]
    #[must_use]
    #[inline(always)]
    pub fn current() -> Self {
        Self { position: machine::Position::current() }
    }

    /// A grid of the calling thread alone.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn single() -> Self {
        Self { position: machine::Position::single() }
    }

    /// This thread's block, from 0.
    #[must_use]
    #[inline(always)]
    pub fn block(&self) -> u32 {
        self.position.block()
    }

    /// How many blocks the grid has.
    #[must_use]
    #[inline(always)]
    pub fn blocks(&self) -> u32 {
        self.position.blocks()
    }

    /// This thread's index in its block, from 0.
    #[must_use]
    #[inline(always)]
    pub fn thread(&self) -> u32 {
        self.as_block().thread()
    }

    /// How many threads each block has.
    #[must_use]
    #[inline(always)]
    pub fn threads(&self) -> u32 {
        self.as_block().threads()
    }

    /// This thread's index in the grid, from 0: block by block.
    #[must_use]
    #[inline(always)]
    pub fn rank(&self) -> u32 {
        self.block().wrapping_mul(self.threads()).wrapping_add(self.thread())
    }

    /// How many threads the grid has.
    #[must_use]
    #[inline(always)]
    pub fn size(&self) -> u32 {
        self.blocks().wrapping_mul(self.threads())
    }

    /// This thread's share of `0..len`: rank, rank + size, and so on.
    #[must_use]
    #[inline(always)]
    pub fn stride(&self, len: usize) -> Stride {
        Stride::new(self.rank(), self.size(), len)
    }

    /// Waits for all threads of the grid. What a thread wrote before is visible to all of them after.
    #[inline(always)]
    pub fn sync(&self) {
        self.position.sync();
    }

    /// This thread's block.
    #[must_use]
    #[inline(always)]
    pub fn as_block(&self) -> Block<'a> {
        Block { thread: self.position.thread() }
    }
}
