//! The persistent dispatcher on a CPU: threads simulate the lanes and warps of a block, another is the producer.
//!
//! The code is the one that a kernel runs. No test asserts a time; every wait has a limit, after which it fails with what
//! the ring, the mailboxes and the control block hold.
#![cfg(not(loom))]

mod batch;
mod client;
mod device;
mod draining;
mod foreign;
mod garbage;
mod graphs;
mod grid;
mod harness;
mod lone;
mod park;
mod program;
mod refusals;
mod serve;
mod share;
mod slots;
mod stop;
