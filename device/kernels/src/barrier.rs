//! What grid handlers refer to.

use ringcall_gpu::ptx::GridBarrier;

/// The barrier of this module's cooperative grid; `ringcall_gpu::ptx::grid_sync` refers to it.
///
/// Weak, since a program may link several of our kernels into one module, each with this definition.
#[linkage = "weak"]
#[unsafe(no_mangle)]
pub static ringcall_grid_barrier: GridBarrier = GridBarrier::new();
