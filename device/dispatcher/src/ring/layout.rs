//! The layout of the shared memory of a block that serves a ring.

use super::BlockState;
use super::grid::{CachedCall, CallTickets};
use crate::shared_layout::{Needs, SharedLayout};

/// Offsets in bytes from the start of shared memory, where the block state is; all multiples of 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// One word a slot of the partition.
    pub serving: u32,
    /// The function table and the staging buffers.
    pub shared: SharedLayout,
}

impl Layout {
    /// The offset of a grid block's cached call, whatever else the block needs.
    pub const CACHED_CALL: u32 = (size_of::<BlockState>() as u32).next_multiple_of(16);
    /// Bytes that a block needs which only runs a grid's calls, a multiple of 128.
    pub const PARTICIPANT: u32 = (Self::CACHED_CALL + CachedCall::BYTES).next_multiple_of(128);
    /// Where a block that calls a grid has its warps' turns.
    pub const QUEUE: u32 = Self::CACHED_CALL + CachedCall::BYTES;

    /// Warps that serve, of a block of `warps` that does nothing else: the last does the maintenance, unless it is the only one.
    #[must_use]
    pub const fn workers(warps: u32) -> u32 {
        if warps > 1 { warps - 1 } else { 1 }
    }

    /// The same in a block that calls a grid: two to prepare a request and publish an answer beside the call
    /// that runs, one that polls, and one more. Further warps have nothing to do.
    #[must_use]
    pub const fn callers(warps: u32) -> u32 {
        let workers = Self::workers(warps);
        if workers < 4 { workers } else { 4 }
    }

    /// The layout for `needs`.
    #[must_use]
    pub const fn of(needs: Needs) -> Self {
        let serving = Self::QUEUE + CallTickets::BYTES;
        let head = serving + (needs.slots * 8).next_multiple_of(16);
        Self { serving, shared: SharedLayout::after(head, needs) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_overlaps(slots in 1_u32..=4096, functions in 0_u32..2000, workers in 1_u32..32, staging in 1_u32..200) {
            let needs = Needs {
                slots, cells: functions * 2, entries: functions, workers, staging_bytes: staging * 16, shared_staging: true,
            };
            let layout = Layout::of(needs);
            prop_assert!(Layout::CACHED_CALL as usize >= size_of::<BlockState>());
            prop_assert!(Layout::QUEUE as usize >= Layout::CACHED_CALL as usize + size_of::<CachedCall>());
            prop_assert!(layout.serving as usize >= Layout::QUEUE as usize + size_of::<CallTickets>());
            let (serving, layout) = (layout.serving, layout.shared);
            let after_serving = serving + slots * 8;
            if layout.cells != 0 {
                prop_assert!(layout.cells >= after_serving);
                prop_assert!(layout.entries >= layout.cells + needs.cells * 8);
                prop_assert!(layout.staging >= layout.entries + functions * 48);
            }
            prop_assert!(layout.staging >= after_serving);
            prop_assert_eq!(layout.bytes, layout.staging + 2 * workers * staging * 16 * layout.batch);
            prop_assert!((1..=32).contains(&layout.batch) && (layout.batch == 1 || layout.bytes - layout.staging <= 32 << 10));
            for offset in [Layout::CACHED_CALL, serving, layout.cells, layout.entries, layout.staging] {
                prop_assert!(offset.is_multiple_of(16));
            }
        }
    }
}
