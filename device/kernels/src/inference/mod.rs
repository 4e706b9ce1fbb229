//! The kernels at both ends of an AI service's graph.
//!
//! ```text
//!   mailbox ──► input kernel ──► tensors ──► inference ──► tensors ──► output kernel ──► answer, or a record of a queue
//! ```
//! Each takes two addresses: the mailbox that the dispatcher filled ([`ringcall_wire::launch::io`]), and what the instance
//! knows ([`ringcall_wire::handoff::instance`]).
//!
//! | kernel | where | what it does |
//! |---|---|---|
//! | `ringcall_gateway_input` | autonomous graphs | checks the length, copies the payload into the input tensors |
//! | `ringcall_gateway_output` | autonomous graphs | copies the output tensors into the response slot and answers |
//! | `ringcall_predecoder_input` | graphs that hand over | the same as the gateway's, after a bounded wait for a free record |
//! | `ringcall_predecoder_output` | graphs that hand over | copies the output tensors into the record and hands it over |
//!
//! Where copy nodes move the data, the flags of the instance say so, and a kernel is left with its checks or
//! its signal: it wants one warp. A request that cannot be served (its length, no free record, a failed
//! inference) is answered by the output kernel with its status and counted; nothing is dropped.
//!
//! What the kernels do is in [`input`] and [`output`], which run on a CPU too; the entry points turn addresses into windows.

#[cfg(target_arch = "nvptx64")]
pub mod entry;
pub mod input;
pub mod instance;
pub mod output;

pub use instance::{Instance, Memory};

/// Threads of a block that copies: as many as hide the latency of the bus.
pub const COPY_THREADS: u32 = 512;
/// Threads of a block that only checks or signals.
pub const SIGNAL_THREADS: u32 = 32;

/// The kernels that a graph begins and ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Name of the first kernel.
    pub input: &'static str,
    /// Name of the last.
    pub output: &'static str,
}

/// Of a graph that answers by itself.
pub const GATEWAY: Ends = Ends { input: "ringcall_gateway_input", output: "ringcall_gateway_output" };
/// Of a graph that hands over to the CPU.
pub const PREDECODER: Ends =
    Ends { input: "ringcall_predecoder_input", output: "ringcall_predecoder_output" };

/// The committed PTX: compute capability and text.
#[cfg(not(target_arch = "nvptx64"))]
pub static PTX: &[(u32, &str)] = &[(80, include_str!("../../ptx/inference.sm_80.ptx"))];
