//! The engine on a device, against convolutions written out. Skipped, with a line, where there is no device.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_infer::conformance::{self, Tolerance};
use ringcall_infer::Model;
use ringcall_infer_gpu::{GpuError, GpuModel, Layer, Network};
use std::sync::Arc;

/// Runs `test` on the first device, or says why not.
fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
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
fn network(seed: u64) -> Network {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut layer = |inputs: usize, outputs: usize| {
        let scale = (6.0 / (inputs * 27) as f32).sqrt();
        let mut number = |scale: f32| half::f16::from_f32((rng.random::<f32>() * 2.0 - 1.0) * scale).to_f32();
        let weights = (0..inputs * outputs * 27).map(|_| number(scale)).collect();
        Layer { weights, biases: (0..outputs).map(|_| number(0.1)).collect() }
    };
    Network::new([layer(4, 128), layer(128, 128), layer(128, 128), layer(128, 4)]).expect("a network")
}

/// The network, one sum at a time.
fn reference(network: &Network, volume: &[f32], layers: usize, d: usize) -> Vec<f32> {
    let cells = layers * d * d;
    let mut values = volume.to_vec();
    for (place, layer) in network.layers().iter().enumerate() {
        let inputs = values.len() / cells;
        let mut next = Vec::with_capacity(layer.biases.len() * cells);
        for (output, bias) in layer.biases.iter().enumerate() {
            let mut sums = vec![*bias; cells];
            for input in 0..inputs {
                let plane = &values[input * cells..][..cells];
                for tap in 0..27 {
                    let weight = layer.weights[(output * inputs + input) * 27 + tap];
                    add_shifted(&mut sums, plane, weight, tap, layers, d);
                }
            }
            next.extend(sums.into_iter().map(|v| if place < 3 { v.max(0.0) } else { v }));
        }
        values = next;
    }
    values
}

/// Adds what one tap of a convolution contributes.
fn add_shifted(sums: &mut [f32], plane: &[f32], weight: f32, tap: usize, layers: usize, d: usize) {
    let reach = |at: usize, shift: usize, end: usize| (at + shift).checked_sub(1).filter(|&v| v < end);
    for t in 0..layers {
        let Some(from_t) = reach(t, tap / 9, layers) else { continue };
        for y in 0..d {
            let Some(from_y) = reach(y, tap / 3 % 3, d) else { continue };
            for x in 0..d {
                let Some(from_x) = reach(x, tap % 3, d) else { continue };
                sums[(t * d + y) * d + x] += weight * plane[(from_t * d + from_y) * d + from_x];
            }
        }
    }
}

fn volume(seed: u64, cells: usize) -> Vec<f32> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut values: Vec<f32> = (0..2 * cells).map(|_| f32::from(u8::from(rng.random::<f32>() < 0.1))).collect();
    values.extend((0..2 * cells).map(|i| [0.0, 0.5, 1.0][i % 3]));
    values
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn logits_are_those_of_convolutions() {
    on_device("logits_are_those_of_convolutions", |context| {
        // One volume for each shape of the kernel, and odd ones; the largest takes the reference a while.
        for (d, layers) in [(3, 1), (3, 4), (5, 5), (7, 7), (7, 8), (9, 3), (13, 13), (13, 14), (21, 4)] {
            let network = network(u64::from(d * 100 + layers));
            let model = GpuModel::new("made up", &network, context, d, layers).expect("on the device");
            let cells = (d * d * layers) as usize;
            let input = volume(u64::from(d), cells);
            let expected = reference(&network, &input, layers as usize, d as usize);
            let close = Tolerance::Close { absolute: 2e-2, relative: 2e-2 };
            conformance::check_case(&model, &[bytes(&input)], &[bytes(&expected)], close)
                .unwrap_or_else(|why| panic!("{d} x {d} x {layers}, {:?}: {why}", model.outputs()));
        }
    });
}

#[test]
fn an_engine_like_any_other() {
    on_device("an_engine_like_any_other", |context| {
        let model = GpuModel::new("made up", &network(5), context, 5, 5).expect("on the device");
        conformance::check(&model).expect("the contract");
    });
}

#[test]
fn a_volume_that_does_not_fit_is_refused() {
    on_device("a_volume_that_does_not_fit_is_refused", |context| {
        let why = GpuModel::new("made up", &network(5), context, 101, 101).expect_err("too large");
        assert!(matches!(why, GpuError::TooLarge { d: 101, .. }), "{why}");
    });
}
