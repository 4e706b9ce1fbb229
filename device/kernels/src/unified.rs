//! The unified kernel: from the NIC's completion to the handler and back to its doorbell, by one block.

use crate::machine::Warps;
use crate::setup::{clear, copy, shared_base, words};
use core::sync::atomic::Ordering;
use ringcall_dispatch::persistent::DeviceTable;
use ringcall_dispatch::table::{Cell, IdIndex};
use ringcall_gpu::ptx;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::{Block, WARP_LANES};
use ringcall_verbs::crew::{Bell, Board, Copying, Crew, layout};
use ringcall_verbs::endpoint::{Config, Reply, Windows};
use ringcall_verbs::layout::wqe::Remote;
use ringcall_verbs::layout::{BLUE_FLAME_BYTES, RECEIVE_WQE_WORDS, cqe, wqe};
use ringcall_verbs::rq::Buffers;
use ringcall_verbs::sq::RecordMode;
use ringcall_verbs::unified::Extent;
use ringcall_wire::launch::DeviceEntry;
use ringcall_wire::unified::{UnifiedParams, control, options};

/// The queue pair that the parameters describe.
pub(crate) fn config(params: &UnifiedParams) -> Config {
    let has = |option| params.options & option != 0;
    let buffers = if has(options::RECEIVE_SENDS) {
        Buffers::Slots { lkey: params.rx_lkey, base: params.rx_base, stride: params.rx_stride }
    } else {
        Buffers::Credits
    };
    let reply = if has(options::REPLY_WRITE) {
        let base = Remote { address: params.remote_base, rkey: params.remote_rkey };
        Reply::WriteImm { base, stride: params.remote_stride }
    } else {
        Reply::Send
    };
    Config {
        qpn: params.qpn,
        slots: params.slots,
        rx_stride: params.rx_stride,
        tx_stride: params.tx_stride,
        tx_lkey: params.tx_lkey,
        tx_base: params.tx_base,
        depth: params.depth,
        buffers,
        sequence: has(options::SEQUENCE),
        reply,
        record: if has(options::NO_RECORD) { RecordMode::NotWritten } else { RecordMode::Written },
    }
}

/// Its memory.
///
/// # Safety
/// `params` is what the host filled: addresses of queues, slots and a control block that outlive the kernel.
pub(crate) unsafe fn windows(params: &UnifiedParams) -> Option<Windows> {
    // SAFETY: the caller's promise.
    let queue = |address, entries: u32, each: usize| unsafe { words(address, entries as usize * each) };
    let record = |address| if address == 0 { Some(None) } else { queue(address, 1, 1).map(Some) };
    let bytes = |address: u64, count: u32, stride: u32| {
        // SAFETY: the caller's promise.
        unsafe { Bytes::from_raw(address as usize as *mut u8, count as usize * stride as usize) }.ok()
    };
    Some(Windows {
        rx_completions: queue(params.rx_completions, params.rx_completion_entries, cqe::WORDS)?,
        rx_completions_record: record(params.rx_completions_record)?,
        receive: queue(params.receive, params.receive_entries, RECEIVE_WQE_WORDS)?,
        tx_completions: queue(params.tx_completions, params.tx_completion_entries, cqe::WORDS)?,
        tx_completions_record: record(params.tx_completions_record)?,
        send: queue(params.send, params.send_entries, wqe::WORDS)?,
        record: queue(params.record, 1, 1)?,
        rx_data: bytes(params.rx_data, params.slots, params.rx_stride)?,
        tx_data: bytes(params.tx_data, params.send_entries, params.tx_stride)?,
        counters: queue(params.control + control::EVENTS as u64 * 8, control::MOST_EVENTS as u32, 1)?,
        shutdown: queue(params.control + control::STOP as u64 * 8, 1, 1)?,
    })
}

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
    let windows = unsafe { windows(params) };
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
    let whole = params.options & options::WHOLE_SLOTS != 0;
    let crew = Crew {
        config: config(params),
        extent: if whole { Extent::Slot } else { Extent::Received },
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
