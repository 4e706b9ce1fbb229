//! Launching the dispatchers of a device: linked with their handlers, started, watched and stopped by the host.
//!
//! The modules are those of `ringcall-dispatcher`, seen from the host:
//!
//! | module | launches |
//! |---|---|
//! | [`ring`] | the dispatchers of a ring in mapped memory, and graphs for its requests |
//! | [`queue_pair`] | the unified dispatcher of a NIC's queue pair, and of linked transport functions |
//! | [`relay`] | three kernels: a dispatcher of a ring between one that fills it from a queue pair and one that sends its answers |
//!
//! The crate builds and starts on any machine; without a GPU, the driver's functions return an error that
//! names the missing part ([`ringcall_cuda`]).

#![deny(unsafe_code)]

pub mod queue_pair;
pub mod relay;
pub mod ring;
