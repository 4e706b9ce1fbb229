//! The dispatchers of a device: what serves the requests of a ring or of a NIC's queue pair.
//!
//! Each dispatcher takes a request, checks it ([`validate`](ringcall_protocol::validate)), finds its function, calls it
//! or launches its graph, and answers. They differ in where requests come from and in how many warps serve them:
//!
//! | module | requests come from | served by |
//! |---|---|---|
//! | [`ring`] | the flags of a ring | the warps of one or several blocks, or a cooperative grid |
//! | [`queue_pair`] | the completions of a NIC's queue pair | the warps of one block, or one thread ([`queue_pair::single`]) |
//! | [`linked`] | transport functions that are linked in | one thread |
//! | [`relay`] | a queue pair, by way of a ring | any dispatcher of a ring, between a receiver and a sender |
//!
//! The kernels over them are in `ringcall-kernels`. The same source runs on a CPU, where threads play the lanes and
//! warps, and under a model checker. Nothing allocates, panics, formats or waits without a bound.

#![cfg_attr(not(any(loom, test)), no_std)]
#![forbid(unsafe_code)]

pub mod linked;
pub mod queue_pair;
pub mod relay;
pub mod ring;
pub mod shared_layout;
