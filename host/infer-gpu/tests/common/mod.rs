//! What both tests need. Each uses its part.
#![allow(dead_code)]

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_infer_gpu::{GpuError, GpuModel, Layer, Network};
use std::sync::Arc;

/// Runs `test` on the first device, or says why not.
pub(crate) fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    match Driver::load().and_then(|driver| driver.device(0)?.context()) {
        Err(why @ (CudaError::NoDriver | CudaError::NoDevice | CudaError::DriverUnusable(_))) => {
            eprintln!("skipped: {name}: {why}");
        }
        Err(why) => panic!("{name}: {why}"),
        Ok(context) if context.device().capability() != (9, 0) => {
            let why = GpuModel::new("any", &network(1), &context, 3, 3).expect_err("another architecture");
            assert!(matches!(why, GpuError::OtherDevice(_)), "{why}");
            eprintln!("skipped: {name}: {why}");
        }
        Ok(context) => {
            test(&context);
            eprintln!("ran: {name}");
        }
    }
}

/// Made-up weights that keep activations near 1, already rounded to 16 bits.
pub(crate) fn network(seed: u64) -> Network {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut layer = |inputs: usize, outputs: usize| {
        let scale = (6.0 / (inputs * 27) as f32).sqrt();
        let mut number = |scale: f32| half::f16::from_f32((rng.random::<f32>() * 2.0 - 1.0) * scale).to_f32();
        let weights = (0..inputs * outputs * 27).map(|_| number(scale)).collect();
        Layer { weights, biases: (0..outputs).map(|_| number(0.1)).collect() }
    };
    Network::new([layer(4, 128), layer(128, 128), layer(128, 128), layer(128, 4)]).expect("a network")
}

pub(crate) fn volume(seed: u64, cells: usize) -> Vec<f32> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut values: Vec<f32> =
        (0..2 * cells).map(|_| f32::from(u8::from(rng.random::<f32>() < 0.1))).collect();
    values.extend((0..2 * cells).map(|i| [0.0, 0.5, 1.0][i % 3]));
    values
}

pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
