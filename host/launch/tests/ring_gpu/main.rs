//! The device dispatcher on a real device. Without one, each test is skipped with one line that says why.
//!
//! `RINGCALL_GARBAGE_REQUESTS` and `RINGCALL_GRAPH_LAUNCHES` say how long two of the tests run.

mod cooperative;
#[path = "../device/mod.rs"]
mod device;
mod dropping;
mod garbage;
mod graphs;
mod linking;
mod regular;
mod rig;
mod ring_graphs;
mod sharing;
mod statuses;
mod stopping;
