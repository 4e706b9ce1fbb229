//! CUDA driver API for persistent kernels: memory, streams, linking, launches, graphs.
//!
//! The module knows CUDA and no protocol. These rules hold in all of it:
//!
//! - **Nothing uses the legacy default stream.** An operation on that stream would wait for a running persistent
//!   kernel, that is, indefinitely. Copies and memsets go through non-blocking streams.
//! - **Allocate, link and load before a persistent kernel starts**: the driver may wait for running kernels to do it.
//! - **Freeing can wait for running kernels** (`cuMemFree`, `cuMemFreeHost`, unloading). While a persistent
//!   kernel runs, hold a [`DeferFrees`]: objects dropped meanwhile are freed when the hold ends.
//! - **Memory that the device may write is never behind `&` or `&mut`**: host windows are
//!   [`Words`](ringcall_gpu::shared::Words) and [`Bytes`](ringcall_gpu::shared::Bytes). The exception is staging
//!   memory while no work on the device uses it: the caller of [`MappedRegion::exclusive`] promises that.
//! - **Modules load eagerly**: a kernel loaded at its first launch could wait for the running one.
//! - Handles may be used from any thread; each call makes its context current for the calling thread first.
//!
//! | what | type |
//! |---|---|
//! | driver and devices | [`Driver`], [`Device`], [`Context`] |
//! | memory | [`MappedRegion`], [`HostRegistration`], [`DeviceBuffer`], [`DeviceAddress`] |
//! | order | [`Stream`] |
//! | code | [`Linker`], [`Image`], [`Module`], [`Kernel`], [`devrt`] |
//! | work | [`Launch`], [`KernelArgs`], [`Graph`], [`GraphExec`]; one that is run again and again, [`RepeatedGraph`]; one that a dispatcher launches and that raises a flag, [`Lane`]; what another library does, by [`Stream::capture`] |

mod address;
mod api;
mod buffer;
mod capture;
mod context;
mod defer_frees;
mod device;
pub mod devrt;
mod foreign;
mod frees;
mod graph;
mod handle;
mod kernel;
mod lane;
mod launch;
mod link_input;
mod link_log;
mod linker;
mod load;
mod mapped;
mod module;
mod nodes;
mod raw_stream;
mod registered;
mod repeated_graph;
mod stream;
mod weak_cache;

pub use address::DeviceAddress;
pub use buffer::DeviceBuffer;
pub use context::Context;
pub use defer_frees::DeferFrees;
pub use device::Device;
pub use graph::{Graph, GraphExec, NodeId};
pub use kernel::{Kernel, KernelAttributes};
pub use lane::{Carrier, Lane, LaneEnds, LaneKernels};
pub use launch::{KernelArgs, Launch};
pub use linker::{Image, Linker, Optimisation};
pub use load::Driver;
pub use mapped::MappedRegion;
pub use module::Module;
pub use registered::HostRegistration;
pub use repeated_graph::{RepeatedGraph, SharedStream};
pub use stream::{Priority, Stream, StreamState};
