//! RDMA adapters: queue pairs and transport contexts for kernels that talk to a sensor bridge without the CPU.
//!
//! | module | what |
//! |---|---|
//! | [`context`] | the opaque struct that a unified kernel is launched with: the reference's two forms, and one that says its size |
//! | [`command`] | the commands that make queues and take a queue pair to ready, as bytes |
//! | [`devx`] | rdma-core, loaded at run time: those commands sent to an adapter |
//! | [`neighbour`] | the Ethernet address of a peer, which a queue pair of [`devx`] is told |
//! | [`verbs`] | libibverbs, loaded at run time: a queue pair of any adapter, with its memory and completions |
//! | [`unified`] | a context and its queue pair, checked, as a unified kernel or loop is told of it |
//! | [`doca`] | a DOCA SDK's queue pair on a device, read by the offsets of the headers that are installed |
//!
//! [`verbs`] is tested on Linux's software adapter. Nothing else here has met an adapter: commands and layouts are tested as
//! bytes, and without an adapter [`devx`] says so.

#![deny(unsafe_code)]

pub mod command;
pub mod context;
pub mod devx;
pub mod doca;
pub mod neighbour;
pub mod unified;
pub mod verbs;
