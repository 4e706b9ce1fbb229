//! The dispatch kernels: entry points, and nothing else.
//!
//! | kernel | launched as | serves |
//! |---|---|---|
//! | `ringcall_dispatch` | blocks that share a ring | thread and warp handlers |
//! | `ringcall_dispatch_grid` | a cooperative grid | those, and grid handlers |
//! | `ringcall_dispatch_graph` (feature `graph`) | the only node of a graph | thread and warp handlers, and graphs |
//! | `ringcall_unified` (feature `unified`) | one block on the queues of a NIC | thread and warp handlers |
//! | `ringcall_floor` | one thread | a bare flag, sent back: what every figure is compared with |
//!
//! What they do stands in `ringcall_dispatch::persistent`, which runs on a CPU too. Here raw parameters become windows,
//! and addresses become calls. Built for a device this crate is PTX; built for a host it is empty.

#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]
#![allow(unsafe_code)] // named for it: see ARCHITECTURE.md, "Where unsafe lives"

#[cfg(target_arch = "nvptx64")]
pub mod entry;
#[cfg(target_arch = "nvptx64")]
pub mod floor;
#[cfg(target_arch = "nvptx64")]
mod machine;
#[cfg(target_arch = "nvptx64")]
mod setup;
#[cfg(all(target_arch = "nvptx64", feature = "unified"))]
pub mod unified;

/// Nothing can unwind here; a broken invariant ends the grid, and the host says so.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ringcall_gpu::ptx::trap()
}
