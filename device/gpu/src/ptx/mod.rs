//! The device's own instructions. Only on `nvptx64`.
//!
//! Everything here is one instruction or a fixed pair, written as inline assembly where the compiler's own lowering is
//! missing or wrong: its read-modify-writes lose order and scope, and it has no scope narrower than the system. What
//! each function becomes is pinned by the probes of `device/kernels`, whose PTX is committed and read by a test.

pub(crate) mod atomic;
pub mod call;
pub(crate) mod cell;
pub(crate) mod fence;
pub mod graph;
mod grid;
mod ident;
mod time;
mod warp;
pub mod wide;

pub use grid::{GridBarrier, grid_sync};
pub use ident::{block_id, block_threads, dynamic_shared_bytes, grid_blocks, lane_id, thread_id};
pub use time::{clock_cycles, global_timer_ns, nanosleep};
pub use warp::{ballot, block_sync, shuffle_idx_u32, shuffle_xor_u32, warp_sync};

use core::arch::asm;

/// Ends the whole grid with an error that the host sees as a failed launch. For panics alone: there is no unwinding on
/// a device, and a thread that went on after a broken invariant could answer with anything.
#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: `trap` ends the grid; nothing runs after it.
    unsafe { asm!("trap;", options(noreturn, nostack)) }
}
