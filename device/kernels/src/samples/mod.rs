//! Handlers and graph kernels that tests, benchmarks and examples call.
//!
//! | function | kind | what it does |
//! |---|---|---|
//! | `rpc_increment` | thread | adds 1 to every byte, eight at a time |
//! | `rpc_increment_bytes` | warp | adds 1 to every byte, one at a time, each lane every 32nd |
//! | `rpc_increment_bytes_alone` | thread | the same by one thread |
//! | `rpc_increment_warp` | warp | adds 1 to every byte, eight at a time |
//! | `rpc_increment_grid` | grid | the same, each thread of the grid its share |
//! | `rpc_grid_mirror` | grid | two steps with a barrier of the grid between them |
//! | `rpc_mock_decode` | thread | a typed one: 128 detectors, a correction |
//! | `rpc_spin` | thread | takes as many nanoseconds as it is told |
//! | `rpc_refuse` | thread | answers with a status of the handler's own choice |
//! | `rpc_overclaim` | thread | claims a longer result than fits |
//! | `rpc_trigger` | thread | asks for its follow-up graph |
//!
//! The graphs ([`graph`]), one of three kernels and one of a single kernel, add 1 to every byte too, so that every path can be
//! checked the same way.

pub mod graph;
pub mod handlers;
pub mod mailbox;

/// The committed PTX: compute capability and text.
#[cfg(not(target_arch = "nvptx64"))]
pub static PTX: &[(u32, &str)] = &[(80, include_str!("../../ptx/samples.sm_80.ptx"))];
