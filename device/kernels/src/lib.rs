//! The dispatch kernels: entry points, and nothing else.
//!
//! Each kernel is a feature of this crate, and a build has exactly one of them: the committed PTX of a kernel holds that
//! kernel and what it calls, and nothing else.
//!
//! | feature | kernel | launched as | serves |
//! |---|---|---|---|
//! | `dispatch` | `ringcall_dispatch` | blocks that share a ring | thread and warp handlers |
//! | `grid` | `ringcall_dispatch_grid` | a cooperative grid | those, and grid handlers |
//! | `ahead` | `ringcall_dispatch_ahead` | a cooperative grid, one block of which serves alone | thread and warp handlers, and grid handlers of the other blocks |
//! | `graph` | `ringcall_dispatch_graph` | the only node of a graph | thread and warp handlers, and graphs |
//! | `unified` | `ringcall_unified` | one block on the queues of a NIC | thread and warp handlers |
//! | `unified-grid` | `ringcall_unified_grid` | a cooperative grid on the queues of a NIC | those, and grid handlers |
//! | `unified-graph` | `ringcall_unified_graph` | the only node of a graph, on the queues of a NIC | thread and warp handlers, and graphs |
//! | `hooks` | `ringcall_unified_hooks` | one thread, on a transport that is linked in | thread handlers |
//! | `floor` | `ringcall_floor` | one thread | a bare flag, sent back: what every figure is compared with |
//! | `transport` | none: `cudaq_dev_*` | | a transport over the queues of a NIC, to be linked with `hooks` |
//!
//! What they do stands in `ringcall_dispatch::persistent`, which runs on a CPU too. Here raw parameters become windows,
//! and addresses become calls. Built for a device this crate is PTX; built for a host it is empty.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(all(target_arch = "nvptx64", not(feature = "transport")), feature(abi_ptx))]
#![cfg_attr(
    all(target_arch = "nvptx64", not(any(feature = "transport", feature = "floor"))),
    feature(asm_experimental_arch, linkage)
)]
#![allow(unsafe_code)] // named for it: see ARCHITECTURE.md, "Where unsafe lives"

#[cfg(all(target_arch = "nvptx64", not(any(feature = "transport", feature = "floor"))))]
pub mod barrier;
#[cfg(all(
    target_arch = "nvptx64",
    any(feature = "dispatch", feature = "grid", feature = "ahead", feature = "graph")
))]
pub mod entry;
#[cfg(all(target_arch = "nvptx64", feature = "floor"))]
pub mod floor;
#[cfg(all(target_arch = "nvptx64", feature = "hooks"))]
pub mod hooks;
#[cfg(all(target_arch = "nvptx64", not(any(feature = "transport", feature = "floor"))))]
#[allow(dead_code)] // each kernel takes its part of it
mod machine;
#[cfg(all(
    target_arch = "nvptx64",
    any(feature = "unified", feature = "unified-grid", feature = "unified-graph", feature = "transport")
))]
mod queues;
#[cfg(all(target_arch = "nvptx64", not(any(feature = "transport", feature = "floor"))))]
#[allow(dead_code)] // each kernel takes its part of it
mod setup;
#[cfg(all(target_arch = "nvptx64", feature = "transport"))]
pub mod transport;
#[cfg(all(
    target_arch = "nvptx64",
    any(feature = "unified", feature = "unified-grid", feature = "unified-graph")
))]
pub mod unified;
#[cfg(all(target_arch = "nvptx64", not(feature = "floor")))]
mod window;

/// Nothing can unwind here; a broken invariant ends the grid, and the host says so.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ringcall_gpu::ptx::trap()
}
