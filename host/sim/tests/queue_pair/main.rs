//! A dispatcher of warps over a queue pair, simulated by threads: as the unified kernels run it.
#![cfg(not(loom))]

mod graphs;
mod grid;
mod park;
mod plain;
mod rig;
#[path = "../support/mod.rs"]
mod support;
