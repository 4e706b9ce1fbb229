//! Where things lie in a block's shared memory. The host sizes the launch with it, the kernel cuts windows by it.

use super::BlockState;
use super::grid::{CachedCall, CallTickets};
use ringcall_wire::launch::{DeviceEntry, TableCell};

/// Offsets in bytes from the start of shared memory, where the block state is; all multiples of 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// One word a slot of the partition.
    pub serving: u32,
    /// [`TableCell`]s, copied from device memory; 0 where they stay there.
    pub cells: u32,
    /// [`DeviceEntry`]s, copied from device memory; 0 where they stay there.
    pub entries: u32,
    /// Two stages a warp; 0 where they are in device memory.
    pub stages: u32,
    /// All of it.
    pub bytes: u32,
}

/// Tables up to this size are copied to shared memory, where a lookup takes 30 ns instead of 300.
const TABLE_LIMIT: u32 = 16 * 1024;

/// What a layout is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Slots of a block's partition.
    pub slots: u32,
    /// Cells of the id index.
    pub cells: u32,
    /// Entries of the table.
    pub entries: u32,
    /// Warps that serve.
    pub workers: u32,
    /// Bytes of one stage.
    pub stage_bytes: u32,
    /// Whether the stages are to be in shared memory.
    pub shared_stages: bool,
}

impl Layout {
    /// The offset of a grid block's cached call, whatever else the block needs.
    pub const CACHED_CALL: u32 = (size_of::<BlockState>() as u32).next_multiple_of(16);
    /// Bytes that a block needs which only runs a grid's calls, a multiple of 128.
    pub const FOLLOWER: u32 = (Self::CACHED_CALL + CachedCall::BYTES).next_multiple_of(128);
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
        let mut end = serving + (needs.slots * 8).next_multiple_of(16);
        let cell_bytes = (needs.cells.saturating_mul(size_of::<TableCell>() as u32)).next_multiple_of(16);
        let entry_bytes =
            (needs.entries.saturating_mul(size_of::<DeviceEntry>() as u32)).next_multiple_of(16);
        let (mut cells, mut entries) = (0, 0);
        if cell_bytes.saturating_add(entry_bytes) <= TABLE_LIMIT {
            cells = end;
            entries = cells + cell_bytes;
            end = entries + entry_bytes;
        }
        let mut stages = 0;
        if needs.shared_stages {
            stages = end.next_multiple_of(128);
            end = stages + 2 * needs.workers * needs.stage_bytes;
        }
        Self { serving, cells, entries, stages, bytes: end }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_overlaps(slots in 1_u32..=4096, functions in 0_u32..2000, workers in 1_u32..32, stage in 1_u32..200) {
            let needs = Needs {
                slots, cells: functions * 2, entries: functions, workers, stage_bytes: stage * 16, shared_stages: true,
            };
            let layout = Layout::of(needs);
            prop_assert!(Layout::CACHED_CALL as usize >= size_of::<BlockState>());
            prop_assert!(Layout::QUEUE as usize >= Layout::CACHED_CALL as usize + size_of::<CachedCall>());
            prop_assert!(layout.serving as usize >= Layout::QUEUE as usize + size_of::<CallTickets>());
            let after_serving = layout.serving + slots * 8;
            if layout.cells != 0 {
                prop_assert!(layout.cells >= after_serving);
                prop_assert!(layout.entries >= layout.cells + needs.cells * 8);
                prop_assert!(layout.stages >= layout.entries + functions * 48);
            }
            prop_assert!(layout.stages >= after_serving);
            prop_assert_eq!(layout.bytes, layout.stages + 2 * workers * stage * 16);
            for offset in [Layout::CACHED_CALL, layout.serving, layout.cells, layout.entries, layout.stages] {
                prop_assert!(offset.is_multiple_of(16));
            }
        }
    }
}
