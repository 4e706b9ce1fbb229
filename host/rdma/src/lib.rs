//! RDMA adapters: queue pairs and transport contexts for kernels that talk to a sensor bridge without the CPU.
//!
//! | module | content |
//! |---|---|
//! | [`context`] | the struct with which a unified kernel is launched: the reference's two forms, and one that names its size |
//! | [`command`] | the commands that create queues and make a queue pair ready, as bytes |
//! | [`devx`] | those commands, sent to an adapter through rdma-core, which is loaded at run time |
//! | [`neighbour`] | a peer's Ethernet address, which a queue pair of [`devx`] needs |
//! | [`verbs`] | a queue pair of any adapter with its memory and completions, through libibverbs, which is loaded at run time |
//! | [`unified`] | a checked context with its queue pair, for a unified kernel or loop |
//! | [`doca`] | a DOCA SDK's queue pair on a device, read by the offsets of the installed headers |
//!
//! [`verbs`] is tested on Linux's software adapter. The other modules have not run with an adapter: commands and
//! layouts are tested as bytes, and without an adapter [`devx`] returns an error that says so.

#![deny(unsafe_code)]

pub mod command;
pub mod context;
pub mod devx;
pub mod doca;
pub mod neighbour;
pub mod unified;
pub mod verbs;
