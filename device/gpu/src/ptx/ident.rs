//! Special registers: indices and sizes of thread, block and grid.

use core::arch::asm;

macro_rules! special_register {
    ($($(#[$doc:meta])* $name:ident = $register:literal;)*) => {
        $($(#[$doc])*
        #[must_use]
        #[inline(always)]
        pub fn $name() -> u32 {
            let value: u32;
            // SAFETY: reads a special register that never changes while the thread runs.
            unsafe {
                asm!(concat!("mov.u32 {}, %", $register, ";"), out(reg32) value, options(pure, nomem, nostack));
            }
            value
        })*
    };
}

special_register! {
    /// The lane within its warp, 0 to 31.
    lane_id = "laneid";
    /// The thread within its block (x).
    thread_id = "tid.x";
    /// Threads of a block (x).
    block_threads = "ntid.x";
    /// The block within its grid (x).
    block_id = "ctaid.x";
    /// Blocks of the grid (x).
    grid_blocks = "nctaid.x";
    /// Bytes of dynamic shared memory that the launch gave the block.
    dynamic_shared_bytes = "dynamic_smem_size";
}
