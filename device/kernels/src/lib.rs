//! The dispatch kernels: entry points, and nothing else.
//!
//! | kernel | launched as | serves |
//! |---|---|---|
//! | `ringcall_dispatch` | blocks that share a ring | thread and warp handlers |
//! | `ringcall_dispatch_grid` | a cooperative grid | those, and grid handlers |
//! | `ringcall_dispatch_ahead` | a cooperative grid, one block of which serves alone | thread and warp handlers, and grid handlers of the other blocks |
//! | `ringcall_dispatch_graph` (feature `graph`) | the only node of a graph | thread and warp handlers, and graphs |
//! | `ringcall_unified` (feature `unified`) | one block on the queues of a NIC | thread and warp handlers |
//! | `ringcall_unified_grid` (feature `unified-grid`) | a cooperative grid on the queues of a NIC | those, and grid handlers |
//! | `ringcall_unified_graph` (feature `unified-graph`) | the only node of a graph, on the queues of a NIC | thread and warp handlers, and graphs |
//! | `ringcall_unified_hooks` (feature `hooks`) | one thread, on a transport that is linked in | thread handlers |
//! | `ringcall_floor` | one thread | a bare flag, sent back: what every figure is compared with |
//!
//! With the feature `transport` the crate is no kernel but such a transport: `cudaq_dev_*` over the queues of a NIC.
//!
//! What they do stands in `ringcall_dispatch::persistent`, which runs on a CPU too. Here raw parameters become windows,
//! and addresses become calls. Built for a device this crate is PTX; built for a host it is empty.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    all(target_arch = "nvptx64", not(feature = "transport")),
    feature(abi_ptx, asm_experimental_arch)
)]
#![allow(unsafe_code)] // named for it: see ARCHITECTURE.md, "Where unsafe lives"

#[cfg(all(target_arch = "nvptx64", not(feature = "transport")))]
pub mod barrier;
#[cfg(all(
    target_arch = "nvptx64",
    not(any(feature = "transport", feature = "unified-grid", feature = "unified-graph"))
))]
pub mod entry;
#[cfg(all(
    target_arch = "nvptx64",
    not(any(feature = "transport", feature = "unified-grid", feature = "unified-graph"))
))]
pub mod floor;
#[cfg(all(target_arch = "nvptx64", feature = "hooks"))]
pub mod hooks;
#[cfg(all(target_arch = "nvptx64", not(feature = "transport")))]
#[cfg_attr(
    any(feature = "unified-grid", feature = "unified-graph"),
    allow(dead_code) // one kernel takes its part of it
)]
mod machine;
#[cfg(all(target_arch = "nvptx64", any(feature = "unified", feature = "transport")))]
mod queues;
#[cfg(all(target_arch = "nvptx64", not(feature = "transport")))]
#[cfg_attr(
    any(feature = "unified-grid", feature = "unified-graph"),
    allow(dead_code) // one kernel takes its part of it
)]
mod setup;
#[cfg(all(target_arch = "nvptx64", feature = "transport"))]
pub mod transport;
#[cfg(all(target_arch = "nvptx64", feature = "unified"))]
pub mod unified;
#[cfg(target_arch = "nvptx64")]
mod window;

/// Nothing can unwind here; a broken invariant ends the grid, and the host says so.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ringcall_gpu::ptx::trap()
}
