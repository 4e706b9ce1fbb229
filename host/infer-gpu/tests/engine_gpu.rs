//! The engine on a device, against convolutions written out. Skipped, with a line, where there is no device.

mod common;

use common::{bytes, network, on_device, volume};
use ringcall_infer::Model;
use ringcall_infer::conformance::{self, Tolerance};
use ringcall_infer_gpu::{GpuError, GpuModel, Network};

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
