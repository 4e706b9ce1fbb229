//! Device dispatchers, from the host: linked with their handlers, launched, watched and stopped.
//!
//! The modules are those of `ringcall-dispatcher`, seen from the host:
//!
//! | module | launches |
//! |---|---|
//! | [`ring`] | the dispatchers of a ring in mapped memory, and graphs for its requests |
//! | [`queue_pair`] | the unified dispatcher of a NIC's queue pair, and of linked transport functions |
//! | [`relay`] | three kernels: a receiver that fills a ring from a queue pair, a dispatcher of the ring, and a sender of its answers |
//!
//! The crate builds and starts on any machine; without a GPU, the driver's functions return an error that
//! names the missing part ([`ringcall_cuda`]).

#![deny(unsafe_code)]

pub mod queue_pair;
pub mod relay;
pub mod ring;
