//! What both tests on a device need.
#![allow(dead_code)] // each uses its part

use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use std::sync::Arc;

/// The committed model, so that a test needs nothing but itself.
pub(crate) const MODEL: &[u8] = include_bytes!("../../../../training/models/predecoder_3x128.onnx");

/// Runs `test` on the first device, or says why not.
pub(crate) fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    match Driver::load().and_then(|driver| driver.device(0)?.context()) {
        Err(why @ (CudaError::NoDriver | CudaError::NoDevice | CudaError::DriverUnusable(_))) => {
            eprintln!("skipped: {name}: {why}");
        }
        Err(why) => panic!("{name}: {why}"),
        Ok(context) if context.device().capability() != (9, 0) => {
            eprintln!("skipped: {name}: the kernels are for compute capability 9.0");
        }
        Ok(context) => {
            test(&context);
            eprintln!("ran: {name}");
        }
    }
}

pub(crate) fn experiment(distance: u32, p: f64) -> MemoryExperiment {
    MemoryExperiment { distance, rounds: distance, basis: Basis::Z, noise: CircuitNoise::uniform(p) }
}

/// A number from the environment: the GPU bundle asks for more than a test by itself does.
pub(crate) fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
