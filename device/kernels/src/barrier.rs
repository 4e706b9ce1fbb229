//! What grid handlers refer to.

use ringcall_gpu::ptx::GridBarrier;

/// The barrier of this module's cooperative grid; `ringcall_gpu::ptx::grid_sync` refers to it.
#[unsafe(no_mangle)]
pub static ringcall_grid_barrier: GridBarrier = GridBarrier::new();
