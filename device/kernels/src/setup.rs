//! From raw parameters to the views that the dispatch core works on.

use crate::window::words;
use core::sync::atomic::Ordering;
use ringcall_dispatcher::ring::grid::{CachedCall, CallTickets};
use ringcall_dispatcher::ring::{BlockState, DeviceTable, Layout, Partition, RingOptions};
use ringcall_dispatcher::shared_layout::{Needs, SharedLayout};
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::ptx;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::table::{Cell, IdIndex};
use ringcall_wire::launch::{DeviceEntry, DispatchParams, control, options, saved};

core::arch::global_asm!(".extern .shared .align 128 .b8 ringcall_shared[];");

/// The generic address of the block's dynamic shared memory.
#[inline(always)]
pub(crate) fn shared_base() -> u64 {
    let base: u64;
    // SAFETY: takes an address.
    unsafe {
        core::arch::asm!("{{ .reg .u64 a; mov.u64 a, ringcall_shared; cvta.shared.u64 {}, a; }}",
                         out(reg64) base, options(pure, nomem, nostack));
    }
    base
}

/// The cached call of a block at a grid channel, `at` bytes into its dynamic shared memory; `None` if that is too small.
#[inline(always)]
pub(crate) fn cached_call(at: u32) -> Option<&'static CachedCall> {
    let fits = ptx::dynamic_shared_bytes() >= at + CachedCall::BYTES;
    // SAFETY: inside shared memory, which outlives the threads that use it, at a multiple of 16; nothing else lies there, and it
    // is only accessed atomically.
    fits.then(|| unsafe { &*((shared_base() + u64::from(at)) as usize as *const CachedCall) })
}

/// The turns in which the warps of a block that has a [`Setup`] call a grid.
#[inline(always)]
pub(crate) fn tickets() -> &'static CallTickets {
    // SAFETY: inside the shared memory that `Setup::new` has checked and cleared, which outlives the threads that use it, at a
    // multiple of 16; nothing else lies there, and it is only accessed atomically.
    unsafe { &*((shared_base() + u64::from(Layout::QUEUE)) as usize as *const CallTickets) }
}

/// A function table's addresses and numbers, as a kernel's parameters have them.
#[derive(Clone, Copy)]
pub(crate) struct TableSource {
    pub(crate) cells: u64,
    pub(crate) entries: u64,
    pub(crate) cell_count: u32,
    pub(crate) entry_count: u32,
    pub(crate) multiplier: u32,
    pub(crate) shift: u32,
}

/// The [`TableSource`] of any parameters.
macro_rules! table_source {
    ($params:expr) => {
        $crate::setup::TableSource {
            cells: $params.cells,
            entries: $params.entries,
            cell_count: $params.cell_count,
            entry_count: $params.entry_count,
            multiplier: $params.multiplier,
            shift: $params.shift,
        }
    };
}
#[allow(unused_imports)] // the kernels of a ring use it in this module alone
pub(crate) use table_source;

impl TableSource {
    /// Copies the table into the block's shared memory at `base`, if the layout has room for it, all threads together. To be read
    /// after the block's next barrier.
    #[inline(always)]
    pub(crate) fn copy_to(mut self, base: u64, layout: &SharedLayout) -> Self {
        if layout.cells != 0 {
            let [cells, entries] = [layout.cells, layout.entries].map(|offset| base + u64::from(offset));
            copy(cells, self.cells, self.cell_count * size_of::<Cell>() as u32);
            copy(entries, self.entries, self.entry_count * size_of::<DeviceEntry>() as u32);
            (self.cells, self.entries) = (cells, entries);
        }
        self
    }

    /// # Safety
    /// The addresses and numbers are those of a table that is not written while the kernel runs.
    #[inline(always)]
    pub(crate) unsafe fn view(self) -> DeviceTable<'static> {
        // SAFETY: the caller's promise.
        let cells = unsafe {
            core::slice::from_raw_parts(self.cells as usize as *const Cell, self.cell_count as usize)
        };
        // SAFETY: as for the cells.
        let entries = unsafe {
            core::slice::from_raw_parts(
                self.entries as usize as *const DeviceEntry,
                self.entry_count as usize,
            )
        };
        DeviceTable::new(IdIndex::from_parts(self.multiplier, self.shift), cells, entries)
    }
}

/// Everything that one block's warps work with.
pub(crate) struct Setup {
    pub(crate) ring: SharedRing,
    pub(crate) partition: Partition,
    pub(crate) control: Words,
    pub(crate) saved: Words,
    pub(crate) table: DeviceTable<'static>,
    pub(crate) block_state: &'static BlockState,
    pub(crate) serving: &'static [BlockU64],
    pub(crate) options: RingOptions,
    staging: u64,
    staging_bytes: u32,
    pub(crate) batch: u32,
}

impl Setup {
    /// By all threads of the block. `workers` warps will have staging buffers.
    ///
    /// # Safety
    /// `params` is what the host filled for this launch: windows of mapped and device memory that outlive the kernel,
    /// and shared memory of the size that [`Layout::of`] says.
    pub(crate) unsafe fn new(params: &DispatchParams, block: u32, blocks: u32, workers: u32) -> Option<Self> {
        let partition = Partition::of(params.slots, block, blocks);
        let layout = Layout::of(Needs {
            slots: partition.count,
            cells: params.cell_count,
            entries: params.entry_count,
            workers,
            staging_bytes: params.staging_bytes,
            shared_staging: params.scratch == 0,
        });
        if ptx::dynamic_shared_bytes() < layout.shared.bytes {
            return None;
        }
        let base = shared_base();
        let head = layout.serving + partition.count * 8;
        clear(base, head);
        let table = table_source!(params).copy_to(base, &layout.shared);
        ptx::block_sync();

        // SAFETY: cleared above with the cached call, which is a block state's initial state; shared memory outlives the threads that use it.
        let block_state = unsafe { &*(base as usize as *const BlockState) };
        // SAFETY: as for the block state: `count` words, cleared.
        let serving = unsafe {
            core::slice::from_raw_parts(
                (base + u64::from(layout.serving)) as usize as *const BlockU64,
                partition.count as usize,
            )
        };
        // SAFETY: the caller's promise.
        let ring = unsafe { ring(params) }?;
        let staging =
            if params.scratch == 0 { base + u64::from(layout.shared.staging) } else { params.scratch };
        Some(Self {
            ring,
            partition,
            // SAFETY: the caller's promise: one control block for each block.
            control: unsafe {
                words(params.control + u64::from(block) * control::WORDS as u64 * 8, control::WORDS)
            }?,
            // SAFETY: the caller's promise: one area for each block.
            saved: unsafe { words(params.saved + u64::from(block) * saved::WORDS as u64 * 8, saved::WORDS) }?,
            // SAFETY: the caller's promise.
            table: unsafe { table.view() },
            block_state,
            serving,
            options: RingOptions {
                shared_ring: params.options & options::SHARED_RING != 0,
                default_of_several: params.options & options::DEFAULT_OF_SEVERAL != 0,
                skip_marks: params.options & options::SKIP_MARKS != 0,
                drop_bad_requests: params.options & options::DROP_BAD_REQUESTS != 0,
                serial_handlers: params.options & options::SERIAL_HANDLERS != 0,
            },
            staging: staging + scratch_offset(params, block, workers),
            staging_bytes: params.staging_bytes * layout.shared.batch,
            batch: layout.shared.batch,
        })
    }

    /// Generic address of the request staging buffer (0) or response staging buffer (1) of a warp.
    pub(crate) fn staging_address(&self, warp: u32, which: u32) -> u64 {
        self.staging + u64::from(warp * 2 + which) * u64::from(self.staging_bytes)
    }

    /// The request staging buffer (0) or response staging buffer (1) of a warp.
    ///
    /// # Safety
    /// Only the threads of that warp (or, for a grid's poller, of the grid) use it.
    pub(crate) unsafe fn staging(&self, warp: u32, which: u32) -> StagingBuffer<'static> {
        // SAFETY: inside the staging buffers that the layout (or the host, in device memory) made room for; the caller's promise.
        unsafe { StagingBuffer::from_raw(self.staging_address(warp, which), self.staging_bytes as usize / 8) }
    }
}

/// Blocks have their staging buffers one after the other in device memory.
const fn scratch_offset(params: &DispatchParams, block: u32, workers: u32) -> u64 {
    if params.scratch == 0 { 0 } else { block as u64 * workers as u64 * 2 * params.staging_bytes as u64 }
}

/// # Safety
/// As for [`Setup::new`].
unsafe fn ring(params: &DispatchParams) -> Option<SharedRing> {
    let slots = params.slots as usize;
    let bytes = |address: u64, stride: u32| {
        // SAFETY: the caller's promise.
        unsafe { Bytes::from_raw(address as usize as *mut u8, slots * stride as usize) }.ok()
    };
    let windows = RingWindows {
        // SAFETY: the caller's promise.
        rx_flags: unsafe { words(params.rx_flags, slots) }?,
        // SAFETY: the caller's promise.
        tx_flags: unsafe { words(params.tx_flags, slots) }?,
        rx_data: bytes(params.rx_data, params.rx_stride)?,
        tx_data: bytes(params.tx_data, params.tx_stride)?,
    };
    SharedRing::new(params.slots, params.rx_stride, params.tx_stride, windows, Some(params.rx_peer)).ok()
}

/// Clears shared memory, all threads together.
pub(crate) fn clear(base: u64, bytes: u32) {
    let mut word = ptx::thread_id();
    while word < bytes.div_ceil(8) {
        // SAFETY: inside the block's shared memory, which no thread uses yet.
        unsafe { ((base + u64::from(word) * 8) as usize as *mut u64).write(0) };
        word += ptx::block_threads();
    }
}

/// Copies whole words, all threads together.
fn copy(to: u64, from: u64, bytes: u32) {
    let mut word = ptx::thread_id();
    while word < bytes.div_ceil(8) {
        // SAFETY: the host's table: whole words, not written while the kernel runs.
        let value = unsafe { ((from + u64::from(word) * 8) as usize as *const u64).read() };
        // SAFETY: inside the block's shared memory, which no thread uses yet.
        unsafe { ((to + u64::from(word) * 8) as usize as *mut u64).write(value) };
        word += ptx::block_threads();
    }
}

/// The end word of a kernel that could not begin.
pub(crate) fn refuse(params: &DispatchParams, block: u32) {
    let at = params.control + u64::from(block) * control::WORDS as u64 * 8;
    // SAFETY: the host's promise: one control block for each block.
    if let Some(words) = unsafe { words(at, control::WORDS) }
        && ptx::thread_id() == 0
    {
        words.store(control::STATE, control::STATE_FAILED, Ordering::Release);
    }
}
