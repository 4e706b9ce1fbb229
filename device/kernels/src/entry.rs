//! The entry points of the dispatchers on a ring.

#![allow(unused_imports, dead_code)] // each kernel takes its part of it

use crate::machine::{Caller, GridPoller, Warps, run_grid};
use crate::setup::{Setup, cached_call, refuse, tickets};
use ringcall_dispatcher::ring::grid::{GridCall, GridChannel, Participant};
use ringcall_dispatcher::ring::{BlockDispatcher, Ended, Layout, Machine, Returned};
use ringcall_gpu::ptx;
use ringcall_gpu::team::{self, Warp};
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::launch::DispatchParams;

/// Lanes of a warp.
const LANES: u32 = 32;

/// A block of warps that each serve on their own: those of `workers` that there are, and one that does the maintenance; by all threads of
/// the block. Warp `n` works with `machine(n)`.
///
/// Returns how the calling warp ended; `None` if there is no room.
///
/// # Safety
/// As for [`Setup::new`].
#[inline(always)]
unsafe fn dispatch<M: Machine>(
    params: &DispatchParams,
    [index, blocks, workers]: [u32; 3],
    machine: impl Fn(u32) -> M,
) -> Option<Ended> {
    let warps = ptx::block_threads() / LANES;
    // SAFETY: the caller's promise.
    let Some(setup) = (unsafe { Setup::new(params, index, blocks, workers) }) else {
        refuse(params, index);
        return None;
    };
    let me = ptx::thread_id() / LANES;
    let machine = &machine(me);
    let block = BlockDispatcher {
        ring: &setup.ring,
        partition: setup.partition,
        table: setup.table,
        block_state: setup.block_state,
        serving: setup.serving,
        control: &setup.control,
        saved: &setup.saved,
        workers,
        poller_maintains: warps == 1,
        batch: setup.batch,
        options: setup.options,
        machine,
    };
    let warp = Warp::current();
    if me == 0 {
        block.open(warp);
    }
    ptx::block_sync();
    if me < workers {
        // SAFETY: each warp its own staging buffers.
        let input = unsafe { setup.staging(me, 0) };
        // SAFETY: each warp its own staging buffers.
        let output = unsafe { setup.staging(me, 1) };
        return Some(block.run(warp, me, input, output));
    }
    if me == workers {
        block.run_maintenance(warp, me);
    }
    Some(Ended::Dismissed)
}

/// The same, for a block of the grid that shares the ring with the others.
///
/// # Safety
/// As for [`Setup::new`].
#[inline(always)]
unsafe fn dispatch_partition<M: Machine>(params: &DispatchParams, machine: impl Fn(u32) -> M) {
    let workers = Layout::workers(ptx::block_threads() / LANES);
    // SAFETY: the caller's promise.
    let _ = unsafe { dispatch(params, [ptx::block_id(), ptx::grid_blocks(), workers], machine) };
}

/// The regular dispatcher.
///
/// # Safety
/// `params` as [`Setup::new`] asks for; blocks of whole warps. By value, so that they lie in the constant bank, where they
/// cost no registers.
#[cfg(feature = "dispatch")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_dispatch(params: DispatchParams) {
    let params = &params;
    // SAFETY: the caller's promise.
    unsafe { dispatch_partition(params, |_| Warps { sleep_ns: params.sleep_ns }) };
}

/// The graph-launching dispatcher: one block, the only node of a graph that was instantiated for device launch.
///
/// # Safety
/// As for [`ringcall_dispatch`].
#[cfg(feature = "graph")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_dispatch_graph(params: DispatchParams) {
    let params = &params;
    // SAFETY: the caller's promise.
    unsafe { dispatch_partition(params, |_| crate::machine::Launcher { sleep_ns: params.sleep_ns }) };
}

/// The cooperative dispatcher: warp 0 of block 0 polls, every thread takes part in grid handlers' calls.
///
/// # Safety
/// As for [`ringcall_dispatch`]; a cooperative launch, staging buffers in device memory, and `grid` a zeroed [`GridChannel`].
#[cfg(feature = "grid")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_dispatch_grid(params: DispatchParams) {
    let params = &params;
    // SAFETY: the caller's promise: device memory that outlives the kernel, only accessed atomically.
    let channel = unsafe { &*(params.grid as usize as *const GridChannel) };
    // Where there is no room for it there is none for the poller, which refuses.
    let Some(cached) = cached_call(Layout::CACHED_CALL) else {
        if ptx::block_id() == 0 {
            refuse(params, 0);
        }
        return;
    };
    let port = channel.port(team::Block::current(), cached);
    let (is_pollers_block, polls) = (ptx::block_id() == 0, ptx::block_id() == 0 && ptx::thread_id() < LANES);
    if is_pollers_block {
        // SAFETY: the caller's promise. One worker: the polling warp.
        let setup = unsafe { Setup::new(params, 0, 1, 1) };
        let Some(setup) = setup else {
            if ptx::thread_id() == 0 {
                channel.end();
            }
            refuse(params, 0);
            return;
        };
        if polls {
            let machine = GridPoller { port };
            let block = BlockDispatcher {
                ring: &setup.ring,
                partition: setup.partition,
                table: setup.table,
                block_state: setup.block_state,
                serving: setup.serving,
                control: &setup.control,
                saved: &setup.saved,
                workers: 1,
                poller_maintains: true,
                batch: setup.batch,
                options: setup.options,
                machine: &machine,
            };
            let warp = Warp::current();
            block.open(warp);
            // SAFETY: shared by the grid, in turns that the grid channel keeps apart.
            let input = unsafe { setup.staging(0, 0) };
            // SAFETY: as for `input`.
            let output = unsafe { setup.staging(0, 1) };
            block.run(warp, 0, input, output);
            port.dismiss(warp);
            return;
        }
    }
    let participant = if is_pollers_block { Participant::PollersBlock } else { Participant::Other };
    port.participate(participant, |call| run_call(params, call));
}

/// The cooperative dispatcher with a separate serving block: the blocks before `handler_blocks` take part in
/// grid handlers' calls, the block after them serves, and the other blocks of its cluster have nothing to do.
///
/// # Safety
/// As for [`ringcall_dispatch_grid`].
#[cfg(feature = "ahead")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_dispatch_ahead(params: DispatchParams) {
    let params = &params;
    // SAFETY: the caller's promise: device memory that outlives the kernel, only accessed atomically.
    let channel = unsafe { &*(params.grid as usize as *const GridChannel) };
    let (index, blocks) = (ptx::block_id(), params.handler_blocks);
    if index > blocks {
        return;
    }
    let Some(cached) = cached_call(Layout::CACHED_CALL) else {
        // There is as much room in each block.
        if index == blocks {
            refuse(params, 0);
        }
        return;
    };
    let port = channel.port(team::Block::current(), cached);
    if index < blocks && params.participant != 0 {
        let input = params.scratch + HEADER_BYTES as u64;
        // SAFETY: 1: the host put the address of a participant of this module there, which has a handler's signature. 2: it takes
        // the grid channel and the staging buffers to be where they are. 3: whole blocks come here.
        let _ = unsafe { ptx::call::call(params.participant, params.grid, input, params.staging_bytes, 0) };
        return;
    }
    if index < blocks {
        let participant = if index == 0 { Participant::Reporter } else { Participant::Other };
        port.participate(participant, |call| run_call(params, call));
        return;
    }
    let workers = Layout::callers(ptx::block_threads() / LANES);
    let caller = |staging| Caller { port, tickets: tickets(), blocks, staging, sleep_ns: params.sleep_ns };
    // SAFETY: the caller's promise. The ring is this block's alone; staging buffers are in device memory, a warp's own between its calls.
    let ended = unsafe { dispatch(params, [0, 1, workers], caller) };
    let first = ptx::thread_id() % LANES == 0;
    // One warp polls to the end. Without room, no lane does.
    if first && (ended == Some(Ended::AsPoller) || ended.is_none() && ptx::thread_id() == 0) {
        port.end();
    }
}

/// Runs a grid's call by the calling thread, between the staging buffers that it is for.
#[inline(always)]
fn run_call(params: &DispatchParams, call: GridCall) -> Returned {
    let staging = u64::from(params.staging_bytes);
    let input = params.scratch + HEADER_BYTES as u64 + u64::from(call.staging) * 2 * staging;
    run_grid(call, input, input + staging)
}
