//! Simulated hardware: the far end of a ring or a wire, in software.
//!
//! | module | simulates |
//! |---|---|
//! | [`nic`] | an mlx5 adapter over mapped memory: its queues, its completions, and their faults |
//! | [`socket_nic`] | an adapter on a UDP socket, with a service over its queues |
//! | [`fpga`] | a sensor bridge: an FPGA that sends requests by RoCE v2 and checks the answers |

#![forbid(unsafe_code)]

#[cfg(not(loom))]
pub mod fpga;
pub mod nic;
#[cfg(not(loom))]
pub mod socket_nic;
