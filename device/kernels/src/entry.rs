//! The entry points.

use crate::machine::{Leader, Warps, run_grid};
use crate::setup::{Setup, refuse, told};
use ringcall_dispatch::persistent::cooperative::Rally;
use ringcall_dispatch::persistent::{Block, Layout, Machine};
use ringcall_gpu::ptx;
use ringcall_gpu::team::{self, Warp};
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::launch::DispatchParams;

/// Lanes of a warp.
const LANES: u32 = 32;

/// Warps that serve, of a block of `warps`: the last keeps house, unless it is the only one.
const fn workers_of(warps: u32) -> u32 {
    if warps > 1 { warps - 1 } else { 1 }
}

/// A block of warps that each serve on their own.
///
/// # Safety
/// As for [`Setup::new`].
#[inline(always)]
unsafe fn dispatch<M: Machine>(params: &DispatchParams, machine: &M) {
    let (index, blocks) = (ptx::block_id(), ptx::grid_blocks());
    let warps = ptx::block_threads() / LANES;
    let workers = workers_of(warps);
    // SAFETY: the caller's promise.
    let Some(setup) = (unsafe { Setup::new(params, index, blocks, workers) }) else {
        refuse(params, index);
        return;
    };
    let block = Block {
        ring: &setup.ring,
        share: setup.share,
        table: setup.table,
        board: setup.board,
        serving: setup.serving,
        control: &setup.control,
        saved: &setup.saved,
        workers,
        keeps_house: warps == 1,
        options: setup.options,
        machine,
    };
    let me = ptx::thread_id() / LANES;
    let warp = Warp::current();
    if me == 0 {
        block.open(warp);
    }
    ptx::block_sync();
    if me == workers {
        block.keep_house(warp, me);
    } else {
        // SAFETY: each warp its own stages.
        let input = unsafe { setup.stage(me, 0) };
        // SAFETY: each warp its own stages.
        let output = unsafe { setup.stage(me, 1) };
        block.run(warp, me, input, output);
    }
}

/// The regular dispatcher.
///
/// # Safety
/// `params` as [`Setup::new`] asks for; blocks of whole warps. By value, so that they lie in the constant bank, where they
/// cost no registers.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_dispatch(params: DispatchParams) {
    let params = &params;
    // SAFETY: the caller's promise.
    unsafe { dispatch(params, &Warps { nap_ns: params.nap_ns }) };
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
    unsafe { dispatch(params, &crate::machine::Launcher { nap_ns: params.nap_ns }) };
}

/// The cooperative dispatcher: warp 0 of block 0 leads, every thread takes part in grid handlers' calls.
///
/// # Safety
/// As for [`ringcall_dispatch`]; a cooperative launch, stages in device memory, and `grid` a zeroed [`Rally`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_dispatch_grid(params: DispatchParams) {
    let params = &params;
    // SAFETY: the caller's promise: device memory that outlives the kernel, only accessed atomically.
    let rally = unsafe { &*(params.grid as usize as *const Rally) };
    // Where there is no room for it there is none for the leader, which refuses.
    let Some(told) = told(Layout::TOLD) else {
        if ptx::block_id() == 0 {
            refuse(params, 0);
        }
        return;
    };
    let seat = rally.seat(team::Block::current(), told);
    let (home, leads) = (ptx::block_id() == 0, ptx::block_id() == 0 && ptx::thread_id() < LANES);
    if home {
        // SAFETY: the caller's promise. One worker: the leading warp.
        let setup = unsafe { Setup::new(params, 0, 1, 1) };
        let Some(setup) = setup else {
            if ptx::thread_id() == 0 {
                rally.end();
            }
            refuse(params, 0);
            return;
        };
        if leads {
            let machine = Leader { seat };
            let block = Block {
                ring: &setup.ring,
                share: setup.share,
                table: setup.table,
                board: setup.board,
                serving: setup.serving,
                control: &setup.control,
                saved: &setup.saved,
                workers: 1,
                keeps_house: true,
                options: setup.options,
                machine: &machine,
            };
            let warp = Warp::current();
            block.open(warp);
            // SAFETY: shared by the grid, in turns that the rally keeps apart.
            let input = unsafe { setup.stage(0, 0) };
            // SAFETY: as for `input`.
            let output = unsafe { setup.stage(0, 1) };
            block.run(warp, 0, input, output);
            seat.dismiss(warp);
            return;
        }
    }
    let input = params.scratch + HEADER_BYTES as u64;
    let output = input + u64::from(params.stage_bytes);
    seat.follow(home, |call| {
        run_grid(call, input, output);
    });
}
