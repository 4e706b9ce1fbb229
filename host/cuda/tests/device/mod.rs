//! A device for a test, and the samples' graph, for every test binary that needs either.
#![allow(dead_code)] // each uses its part

use ringcall_cuda::CudaError;
use ringcall_cuda::dispatcher::{GraphFunction, GraphKernel};
use ringcall_cuda::driver::{Context, Driver, devrt};
use std::sync::{Arc, Mutex, PoisonError};

/// Tests take turns: where one's kernel runs, nobody loads code, and what another drops is not freed.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` on the first device, or says why not.
pub(crate) fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    match Driver::load().and_then(|driver| driver.device(0)?.context()) {
        Err(why @ (CudaError::NoDriver | CudaError::NoDevice | CudaError::DriverUnusable(_))) => {
            eprintln!("skipped: {name}: {why}");
        }
        // A device is here, and the driver layer does not come up on it.
        Err(why) => panic!("{name}: {why}"),
        Ok(context) => {
            let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            test(&context);
            eprintln!("ran: {name}");
        }
    }
}

/// The same, where the device runtime is installed as well: kernels that launch graphs are linked with it.
pub(crate) fn on_device_with_runtime(name: &str, test: impl FnOnce(&Arc<Context>)) {
    match devrt::find() {
        Ok(_) => on_device(name, test),
        Err(why) => eprintln!("skipped: {name}: {}", why.to_string().lines().next().unwrap_or_default()),
    }
}

/// The samples' graph.
pub(crate) fn graph(execs: u32) -> GraphFunction {
    let kernel = |(name, threads): (&str, u32)| GraphKernel { name: name.to_owned(), blocks: 1, threads };
    GraphFunction::new(ringcall_samples::graph::KERNELS.map(kernel).to_vec(), execs)
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
