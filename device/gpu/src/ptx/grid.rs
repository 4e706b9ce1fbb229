//! A barrier over all threads of a cooperative launch.

use super::ident::{grid_blocks, thread_id};
use super::warp::block_sync;
use crate::atomic::DeviceU64;
use core::sync::atomic::Ordering;

/// Two words of device memory: arrivals and the turn. The kernels' module defines it, so a dispatcher that
/// links its own module has its own barrier; handlers refer to it.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct GridBarrier {
    arrived: DeviceU64,
    turn: DeviceU64,
}

impl GridBarrier {
    /// A barrier that no block waits at.
    #[must_use]
    pub const fn new() -> Self {
        Self { arrived: DeviceU64::new(0), turn: DeviceU64::new(0) }
    }
}

impl Default for GridBarrier {
    fn default() -> Self {
        Self::new()
    }
}

unsafe extern "C" {
    /// Defined once a module by `ringcall-kernels`.
    static ringcall_grid_barrier: GridBarrier;
}

/// Waits until every thread of the grid is here; what they wrote before is visible to all of them after. The
/// launch is cooperative (all blocks run at once), or this would wait indefinitely.
///
/// One thread a block arrives: with an acquire-release count, whose last arrival opens the next turn.
#[inline]
pub fn grid_sync() {
    block_sync();
    if thread_id() == 0 {
        // SAFETY: the symbol is defined by the module that this code is linked with, and only accessed atomically.
        let barrier = unsafe { &ringcall_grid_barrier };
        let turn = barrier.turn.load(Ordering::Relaxed);
        // Acquire-release: everything that the blocks before did is visible to the last one, which passes it on.
        let before = barrier.arrived.fetch_add(1, Ordering::AcqRel);
        if before + 1 == u64::from(grid_blocks()) {
            barrier.arrived.store(0, Ordering::Relaxed);
            // Release: pairs with the acquire load below.
            barrier.turn.store(turn.wrapping_add(1), Ordering::Release);
        } else {
            while barrier.turn.load(Ordering::Acquire) == turn {}
        }
    }
    block_sync();
}
