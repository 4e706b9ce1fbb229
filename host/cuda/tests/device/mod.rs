//! A device for a test.
#![allow(dead_code)] // each uses its part

use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver, devrt};
use std::sync::{Arc, Mutex, PoisonError};

/// Tests take turns: where one's kernel runs, no test loads code, and what another drops is not freed.
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
