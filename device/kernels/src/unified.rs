//! The unified kernels: from the NIC's completion to the handler and back to its doorbell.

use crate::queues;
#[cfg(feature = "unified-grid")]
use crate::setup::cached_call;
use crate::setup::{clear, shared_base, table_source};
use crate::window::words;
use core::sync::atomic::Ordering;
use ringcall_dispatcher::queue_pair::{
    Bell, Copying, Graphs, QueuePairBlockState, QueuePairDispatcher, layout,
};
use ringcall_dispatcher::ring::grid::CachedCall;
use ringcall_dispatcher::ring::{DeviceTable, Machine};
use ringcall_dispatcher::shared_layout::Needs;
use ringcall_gpu::ptx;
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::WARP_LANES;
use ringcall_mlx5::endpoint::Windows;
use ringcall_mlx5::layout::BLUE_FLAME_BYTES;
use ringcall_wire::unified::{UnifiedParams, control, options};

/// The end word of a kernel that could not begin.
fn refuse(control: &Words) {
    if ptx::thread_id() == 0 {
        control.store(control::STATE, control::STATE_FAILED, Ordering::Release);
    }
}

/// What the threads of a block work with.
struct Setup {
    windows: Windows,
    bell: Bell,
    control: Words,
    block_state: &'static QueuePairBlockState,
    table: DeviceTable<'static>,
    staging: u64,
}

impl Setup {
    /// By all threads of the block, `warps` warps of which have staging buffers. `None`: it cannot begin, and the host was told.
    ///
    /// # Safety
    /// `params` as the host fills them for this launch: queues, tables and a control block that outlive the kernel, and
    /// dynamic shared memory as [`layout::of`] says.
    #[inline(always)]
    unsafe fn new(params: &UnifiedParams, warps: u32) -> Option<Self> {
        // SAFETY: the caller's promise.
        let control = unsafe { words(params.control, control::WORDS) }?;
        let layout = layout::of(Needs {
            slots: 0,
            cells: params.cell_count,
            entries: params.entry_count,
            workers: warps,
            staging_bytes: params.staging_bytes,
            shared_staging: params.scratch == 0,
        });
        // SAFETY: the caller's promise.
        let windows = unsafe { queues::windows(params) };
        // SAFETY: the caller's promise.
        let uar = unsafe { words(params.uar, BLUE_FLAME_BYTES / 8) };
        let copying = match params.options & (options::BLUE_FLAME | options::BLUE_FLAME_FIRST_WORD_LAST) {
            0 => Copying::Not,
            options::BLUE_FLAME => Copying::Whole,
            _ => Copying::FirstWordLast,
        };
        let bell = uar.and_then(|uar| Bell::new(uar, copying).ok());
        let (Some(windows), Some(bell)) = (windows, bell) else {
            refuse(&control);
            return None;
        };
        if ptx::dynamic_shared_bytes() < layout.bytes {
            refuse(&control);
            return None;
        }
        let base = shared_base();
        clear(base, layout::CACHED_CALL + CachedCall::BYTES);
        let table = table_source!(params).copy_to(base, &layout);
        ptx::block_sync();
        // SAFETY: cleared above with the cached call, which is a block state's initial state; shared memory outlives the threads that use it.
        let block_state = unsafe { &*(base as usize as *const QueuePairBlockState) };
        let staging = if params.scratch == 0 { base + u64::from(layout.staging) } else { params.scratch };
        // SAFETY: the caller's promise, or the copy made above.
        let table = unsafe { table.view() };
        Some(Self { windows, bell, control, block_state, table, staging })
    }

    #[inline(always)]
    fn dispatcher<'a, M: Machine>(
        &'a self,
        params: &UnifiedParams,
        machine: &'a M,
        graphs: Option<&'a Graphs>,
        warps: u32,
    ) -> QueuePairDispatcher<'a, M> {
        QueuePairDispatcher {
            config: queues::config(params),
            extent: queues::extent(params),
            windows: &self.windows,
            bell: &self.bell,
            table: self.table,
            block_state: self.block_state,
            control: &self.control,
            graphs,
            machine,
            warps,
        }
    }

    /// The request staging buffer (0) or response staging buffer (1) of a warp.
    ///
    /// # Safety
    /// Only the threads of that warp (or, for a grid's poller, of the grid) use it.
    #[inline(always)]
    unsafe fn staging(&self, params: &UnifiedParams, warp: u32, which: u32) -> StagingBuffer<'static> {
        let at = self.staging + u64::from(warp * 2 + which) * u64::from(params.staging_bytes);
        // SAFETY: inside the staging buffers that the layout (or the host, in device memory) made room for; the caller's promise.
        unsafe { StagingBuffer::from_raw(at, params.staging_bytes as usize / 8) }
    }
}

/// A block of warps that work one queue pair.
///
/// # Safety
/// As for [`Setup::new`].
#[cfg(not(feature = "unified-grid"))]
#[inline(always)]
unsafe fn run_block<M: Machine>(params: &UnifiedParams, machine: &M, graphs: Option<&Graphs>) {
    let warps = ptx::block_threads() / WARP_LANES;
    // SAFETY: the caller's promise.
    let Some(setup) = (unsafe { Setup::new(params, warps) }) else { return };
    let me = ptx::thread_id() / WARP_LANES;
    // SAFETY: each warp its own.
    let input = unsafe { setup.staging(params, me, 0) };
    // SAFETY: each warp its own.
    let output = unsafe { setup.staging(params, me, 1) };
    setup.dispatcher(params, machine, graphs, warps).run(ringcall_gpu::team::Block::current(), input, output);
}

/// The unified dispatcher: one block of whole warps works one queue pair.
///
/// # Safety
/// As for [`Setup::new`].
#[cfg(feature = "unified")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_unified(params: UnifiedParams) {
    // SAFETY: the caller's promise.
    unsafe { run_block(&params, &crate::machine::Warps { sleep_ns: 0 }, None) };
}

/// The unified dispatcher that launches graphs: one block, the only node of a graph that was instantiated for device launch.
///
/// # Safety
/// As for [`Setup::new`]; `saved` and `pending` are device memory of the sizes that their layouts say, zeroed before the first
/// start.
#[cfg(feature = "unified-graph")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_unified_graph(params: UnifiedParams) {
    use ringcall_dispatcher::queue_pair::{PendingTable, Plan};
    use ringcall_wire::launch::saved;
    /// Between two tries of a launch.
    const SLEEP_NS: u32 = 40;
    let params = &params;
    let plan = Plan::new(params.execs, params.slots, params.rx_stride, params.tx_stride);
    // SAFETY: the caller's promise.
    let pending = unsafe { words(params.pending, plan.words()) }
        .and_then(|memory| PendingTable::new(memory, plan).ok());
    // SAFETY: the caller's promise.
    let saved = unsafe { words(params.saved, saved::WORDS) };
    // SAFETY: the caller's promise.
    let control = unsafe { words(params.control, control::WORDS) };
    let (Some(pending), Some(saved)) = (pending, saved) else {
        if let Some(control) = control {
            refuse(&control);
        }
        return;
    };
    let graphs = Graphs { pending, saved };
    // SAFETY: the caller's promise.
    unsafe { run_block(params, &crate::machine::Launcher { sleep_ns: SLEEP_NS }, Some(&graphs)) };
}

/// The unified dispatcher of a cooperative grid: warp 0 of block 0 works the queue pair, every thread takes part in grid
/// handlers' calls.
///
/// # Safety
/// As for [`Setup::new`]; a cooperative launch, staging buffers in device memory, and `grid` a zeroed grid channel.
#[cfg(feature = "unified-grid")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_unified_grid(params: UnifiedParams) {
    use crate::machine::{GridPoller, run_grid};
    use ringcall_dispatcher::ring::grid::{GridChannel, Participant};
    use ringcall_gpu::team::{Block, Warp};
    use ringcall_wire::header::HEADER_BYTES;
    let params = &params;
    // SAFETY: the caller's promise: device memory that outlives the kernel, only accessed atomically.
    let channel = unsafe { &*(params.grid as usize as *const GridChannel) };
    let is_pollers_block = ptx::block_id() == 0;
    // Where there is no room for it there is none for the poller, which refuses.
    let Some(cached) = cached_call(layout::CACHED_CALL) else {
        // SAFETY: the caller's promise.
        if is_pollers_block && let Some(control) = unsafe { words(params.control, control::WORDS) } {
            refuse(&control);
        }
        return;
    };
    let port = channel.port(Block::current(), cached);
    if is_pollers_block {
        // SAFETY: the caller's promise. One warp has staging buffers: the polling one.
        let Some(setup) = (unsafe { Setup::new(params, 1) }) else {
            if ptx::thread_id() == 0 {
                channel.end();
            }
            return;
        };
        if ptx::thread_id() < WARP_LANES {
            let (machine, warp) = (GridPoller { port }, Warp::current());
            // SAFETY: shared by the grid, in turns that the grid channel keeps apart.
            let input = unsafe { setup.staging(params, 0, 0) };
            // SAFETY: as for `input`.
            let output = unsafe { setup.staging(params, 0, 1) };
            setup.dispatcher(params, &machine, None, 1).run_alone(warp, input, output);
            port.dismiss(warp);
            return;
        }
    }
    let input = params.scratch + HEADER_BYTES as u64;
    let output = input + u64::from(params.staging_bytes);
    let participant = if is_pollers_block { Participant::PollersBlock } else { Participant::Other };
    port.participate(participant, |call| run_grid(call, input, output));
}
