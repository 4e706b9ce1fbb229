//! The layout of a block's shared memory after the block's own state: a copy of the function table, and the warps' staging buffers.
//!
//! The host sizes the launch with it, and the kernel cuts windows by it.

use ringcall_wire::launch::{DeviceEntry, TableCell};

/// Tables up to this size are copied to shared memory, where a lookup takes 30 ns instead of 300.
const TABLE_LIMIT: u32 = 16 * 1024;

/// The most that the staging buffers of a block take in shared memory for the sake of batches.
const BATCH_BYTES: u32 = 32 * 1024;
/// Requests of a batch, at most: one a lane.
const MAX_BATCH: u32 = 32;

/// What a layout is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Slots of a block's partition of a ring; 0 where there is no ring.
    pub slots: u32,
    /// Cells of the id index.
    pub cells: u32,
    /// Entries of the table.
    pub entries: u32,
    /// Warps that serve.
    pub workers: u32,
    /// Bytes of one staging buffer.
    pub staging_bytes: u32,
    /// Whether the staging buffers are to be in shared memory.
    pub shared_staging: bool,
}

/// Offsets in bytes from the start of shared memory; all multiples of 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLayout {
    /// [`TableCell`]s, copied from device memory; 0 where they stay there.
    pub cells: u32,
    /// [`DeviceEntry`]s, copied from device memory; 0 where they stay there.
    pub entries: u32,
    /// Two staging buffers a warp, each of [`batch`](Self::batch) slots; 0 where they are in device memory.
    pub staging: u32,
    /// Slots that a staging buffer has room for: requests that a warp serves at once, at most. 1 in device memory.
    pub batch: u32,
    /// All of it.
    pub bytes: u32,
}

impl SharedLayout {
    /// The layout for `needs` after the first `head` bytes, a multiple of 16.
    #[must_use]
    pub const fn after(head: u32, needs: Needs) -> Self {
        let mut end = head;
        let cell_bytes = needs.cells.saturating_mul(size_of::<TableCell>() as u32).next_multiple_of(16);
        let entry_bytes = needs.entries.saturating_mul(size_of::<DeviceEntry>() as u32).next_multiple_of(16);
        let mut layout = Self { cells: 0, entries: 0, staging: 0, batch: 1, bytes: 0 };
        if cell_bytes.saturating_add(entry_bytes) <= TABLE_LIMIT {
            layout.cells = end;
            layout.entries = end + cell_bytes;
            end = layout.entries + entry_bytes;
        }
        if needs.shared_staging {
            layout.staging = end.next_multiple_of(128);
            let both = needs.workers.saturating_mul(2).saturating_mul(needs.staging_bytes);
            layout.batch = batch_of(needs.slots, both);
            end = layout.staging.saturating_add(layout.batch.saturating_mul(both));
        }
        layout.bytes = end;
        layout
    }
}

/// Requests that a warp of a block serves at once, at most, of a partition of `slots`, where staging buffers of one slot take `bytes` in all.
const fn batch_of(slots: u32, bytes: u32) -> u32 {
    let fit = match BATCH_BYTES.checked_div(bytes) {
        Some(fit) => fit,
        None => 1,
    };
    let most = if slots < MAX_BATCH { slots } else { MAX_BATCH };
    let batch = if fit < most { fit } else { most };
    if batch == 0 { 1 } else { batch }
}
