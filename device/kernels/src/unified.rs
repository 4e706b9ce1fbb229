//! The unified kernel: from the NIC's completion to the handler and back to its doorbell, by one block.

use crate::machine::Warps;
use crate::queues;
use crate::setup::{clear, copy, shared_base};
use crate::window::words;
use core::sync::atomic::Ordering;
use ringcall_dispatch::persistent::DeviceTable;
use ringcall_dispatch::table::{Cell, IdIndex};
use ringcall_gpu::ptx;
use ringcall_gpu::shared::Words;
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::{Block, WARP_LANES};
use ringcall_verbs::crew::{Bell, Board, Copying, Crew, layout};
use ringcall_verbs::layout::BLUE_FLAME_BYTES;
use ringcall_wire::launch::DeviceEntry;
use ringcall_wire::unified::{UnifiedParams, control, options};

/// The end word of a kernel that could not begin.
fn refuse(control: &Words) {
    if ptx::thread_id() == 0 {
        control.store(control::STATE, control::STATE_FAILED, Ordering::Release);
    }
}

/// The unified dispatcher: one block of whole warps works one queue pair.
///
/// # Safety
/// `params` as the host fills them for this launch: queues, tables and a control block that outlive the kernel, and dynamic
/// shared memory as [`layout::of`] says.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_unified(params: UnifiedParams) {
    let params = &params;
    // SAFETY: the caller's promise.
    let Some(control) = (unsafe { words(params.control, control::WORDS) }) else { return };
    let warps = ptx::block_threads() / WARP_LANES;
    let place =
        layout::of(params.cell_count, params.entry_count, warps, params.stage_bytes, params.scratch == 0);
    // SAFETY: the caller's promise.
    let windows = unsafe { queues::windows(params) };
    // SAFETY: the caller's promise.
    let uar = unsafe { words(params.uar, BLUE_FLAME_BYTES / 8) };
    let copying = match params.options & (options::BLUE_FLAME | options::BLUE_FLAME_STAGED) {
        0 => Copying::Not,
        options::BLUE_FLAME => Copying::Whole,
        _ => Copying::Staged,
    };
    let bell = uar.and_then(|uar| Bell::new(uar, copying).ok());
    let (Some(windows), Some(bell)) = (windows, bell) else { return refuse(&control) };
    if ptx::dynamic_shared_bytes() < place.bytes {
        return refuse(&control);
    }
    let base = shared_base();
    clear(base, size_of::<Board>() as u32);
    let (mut cells, mut entries) = (params.cells, params.entries);
    if place.cells != 0 {
        copy(base + u64::from(place.cells), cells, params.cell_count * size_of::<Cell>() as u32);
        copy(base + u64::from(place.entries), entries, params.entry_count * size_of::<DeviceEntry>() as u32);
        cells = base + u64::from(place.cells);
        entries = base + u64::from(place.entries);
    }
    ptx::block_sync();
    // SAFETY: cleared above, which is a board's initial state; shared memory outlives the threads that use it.
    let board = unsafe { &*(base as usize as *const Board) };
    // SAFETY: the caller's promise, or the copy made above; nobody writes them while the kernel runs.
    let cells =
        unsafe { core::slice::from_raw_parts(cells as usize as *const Cell, params.cell_count as usize) };
    // SAFETY: as for the cells.
    let entries = unsafe {
        core::slice::from_raw_parts(entries as usize as *const DeviceEntry, params.entry_count as usize)
    };
    let index = IdIndex::from_parts(params.multiplier, params.shift);
    let crew = Crew {
        config: queues::config(params),
        extent: queues::extent(params),
        windows: &windows,
        bell: &bell,
        table: DeviceTable::new(index, cells, entries),
        board,
        control: &control,
        machine: &Warps { nap_ns: 0 },
        warps,
    };
    let stages = if params.scratch == 0 { base + u64::from(place.stages) } else { params.scratch };
    let me = ptx::thread_id() / WARP_LANES;
    let stage = |which: u32| {
        let at = stages + u64::from(me * 2 + which) * u64::from(params.stage_bytes);
        // SAFETY: inside the stages that the layout (or the host, in device memory) made room for; this warp's own.
        unsafe { Stage::from_raw(at, params.stage_bytes as usize / 8) }
    };
    crew.run(Block::current(), stage(0), stage(1));
}
