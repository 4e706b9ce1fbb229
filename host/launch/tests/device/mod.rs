//! A device for a test, and the samples' graph.
#![allow(dead_code, unused_imports)] // each test binary uses its part

#[path = "../../../cuda/tests/device/mod.rs"]
mod cuda;

pub(crate) use cuda::{on_device, on_device_with_runtime};
use ringcall_launch::ring::{GraphFunction, GraphKernel};

/// The samples' graph.
pub(crate) fn graph(execs: u32) -> GraphFunction {
    let kernel = |(name, threads): (&str, u32)| GraphKernel { name: name.to_owned(), blocks: 1, threads };
    GraphFunction::new(ringcall_kernels::samples::graph::KERNELS.map(kernel).to_vec(), execs)
}

/// A graph of `execs` executables, all of which wait for the word at `address`, which the test keeps.
pub(crate) fn waiting(execs: u32, address: u64) -> GraphFunction {
    let words = vec![address; execs as usize];
    // SAFETY: a word of mapped memory, whose owner is dropped after the dispatchers with this graph.
    #[allow(unsafe_code)]
    unsafe {
        graph(execs).credits(&words)
    }
}
