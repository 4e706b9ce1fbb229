//! The kernels of Ringcall: entry points of the dispatchers, the two ends of inference graphs, sample handlers, and probes.
//!
//! Each row is a feature of this crate, and a build for a device has exactly one of them: the committed PTX of a kernel
//! holds that kernel and the functions that it calls.
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
//! | `relay` | `ringcall_relay_receive`, `ringcall_relay_send` | one warp each, around a dispatcher of a ring | requests from the queues of a NIC into the ring, answers from the ring to them |
//! | `floor` | `ringcall_floor` | one thread | a bare flag, sent back: what every figure is compared with |
//! | `transport` | none: `cudaq_dev_*` | | a transport over the queues of a NIC, to be linked with `hooks` |
//! | [`inference`] | `ringcall_gateway_*`, `ringcall_predecoder_*` | the first and the last node of a graph | a request into tensors, tensors into an answer |
//! | [`samples`] | `ringcall_sample_*`, `rpc_*` | nodes of a graph, handlers | requests of tests, benchmarks and examples |
//! | `probes`, `graph-probes` | none: `probe_*` | | each primitive of `ringcall-gpu` alone, for a test that reads its PTX |
//!
//! The dispatchers themselves are in `ringcall-dispatcher`, which runs on a CPU too. Here raw parameters become windows,
//! and addresses become calls. Built for a host this crate has [`inference`] and [`samples`] alone.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    all(
        target_arch = "nvptx64",
        not(any(feature = "transport", feature = "probes", feature = "graph-probes"))
    ),
    feature(abi_ptx)
)]
#![cfg_attr(
    all(
        target_arch = "nvptx64",
        any(
            feature = "dispatch",
            feature = "grid",
            feature = "ahead",
            feature = "graph",
            feature = "unified",
            feature = "unified-grid",
            feature = "unified-graph",
            feature = "hooks"
        )
    ),
    feature(asm_experimental_arch, linkage)
)]
#![cfg_attr(all(target_arch = "nvptx64", feature = "relay"), feature(asm_experimental_arch))]
#![allow(unsafe_code)] // named for it: see ARCHITECTURE.md, "Where unsafe lives"

#[cfg(all(
    target_arch = "nvptx64",
    any(
        feature = "dispatch",
        feature = "grid",
        feature = "ahead",
        feature = "graph",
        feature = "unified",
        feature = "unified-grid",
        feature = "unified-graph",
        feature = "hooks"
    )
))]
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
#[cfg(any(not(target_arch = "nvptx64"), feature = "inference"))]
pub mod inference;
#[cfg(all(
    target_arch = "nvptx64",
    any(
        feature = "dispatch",
        feature = "grid",
        feature = "ahead",
        feature = "graph",
        feature = "unified",
        feature = "unified-grid",
        feature = "unified-graph",
        feature = "hooks"
    )
))]
#[allow(dead_code)] // each kernel takes its part of it
mod machine;
#[cfg(all(target_arch = "nvptx64", any(feature = "probes", feature = "graph-probes")))]
mod probes;
#[cfg(all(
    target_arch = "nvptx64",
    any(
        feature = "unified",
        feature = "unified-grid",
        feature = "unified-graph",
        feature = "transport",
        feature = "relay"
    )
))]
mod queues;
#[cfg(all(target_arch = "nvptx64", feature = "relay"))]
pub mod relay;
#[cfg(any(not(target_arch = "nvptx64"), feature = "samples"))]
pub mod samples;
#[cfg(all(
    target_arch = "nvptx64",
    any(
        feature = "dispatch",
        feature = "grid",
        feature = "ahead",
        feature = "graph",
        feature = "unified",
        feature = "unified-grid",
        feature = "unified-graph",
        feature = "hooks",
        feature = "relay"
    )
))]
#[allow(dead_code)] // each kernel takes its part of it
mod setup;
#[cfg(all(target_arch = "nvptx64", feature = "transport"))]
pub mod transport;
#[cfg(all(
    target_arch = "nvptx64",
    any(feature = "unified", feature = "unified-grid", feature = "unified-graph")
))]
pub mod unified;
#[cfg(all(
    target_arch = "nvptx64",
    not(any(
        feature = "floor",
        feature = "inference",
        feature = "samples",
        feature = "probes",
        feature = "graph-probes"
    ))
))]
mod window;

/// Nothing can unwind here; a broken invariant ends the grid, and the host says so.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ringcall_gpu::ptx::trap()
}
