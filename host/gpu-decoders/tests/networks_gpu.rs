//! Networks of 3 x 64, 3 x 128 and 5 x 128 hidden channels on a device beside the CPU's engine (tract), at d = 7 and 13: 100 volumes each,
//! logit by logit. In integers every logit is the CPU's to the bit; in halves none is further from it than 1/256 of the volume's
//! largest. Skipped, with a line, where there is no device.

mod common;

use common::{
    bytes, committed, halves_of, network_of, on_device, onnx, reference, reference_of_halves, run, volume,
};
use ringcall_cuda::driver::Context;
use ringcall_gpu_decoders::predecoder::{GpuModel, Network};
use ringcall_infer::Model;
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use std::sync::Arc;

const VOLUMES: u64 = 100;
/// Distances and layers of cells, as experiments of as many rounds have them.
const SIZES: [(usize, usize); 2] = [(7, 8), (13, 14)];
/// What halves may be off, of a volume's largest logit: each hidden value is rounded to 11 bits.
const BOUND: f32 = 1.0 / 256.0;

/// The network of a file on the CPU, for one volume.
fn on_cpu(name: &str, file: &[u8], d: usize, layers: usize) -> OnnxModel {
    let sizes = [("layers", layers), ("height", d), ("width", d)];
    let options = sizes.into_iter().fold(OnnxOptions::new(), |all, (name, size)| all.with_symbol(name, size));
    OnnxModel::from_bytes(name, file, &options).expect("a network")
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

/// The logits of a file's network for each volume, on the device and on the CPU.
fn logits(
    context: &Arc<Context>,
    name: &str,
    file: &[u8],
    (d, layers): (usize, usize),
) -> Vec<[Vec<f32>; 2]> {
    let network = Network::from_onnx(file).expect("a network");
    let model = GpuModel::new(name, &network, context, d as u32, layers as u32).expect("on the device");
    let mut engine = model.instantiate().expect("an engine");
    let volumes: Vec<_> = (0..VOLUMES).map(|seed| bytes(&volume(seed, layers * d * d))).collect();
    let found: Vec<_> = volumes.iter().map(|volume| run(&mut *engine, volume)).collect();
    assert_ne!(found[0], found[1], "{name}: volumes of the same logits prove nothing");
    let cpu = on_cpu(name, file, d, layers);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let owed: Vec<_> = std::thread::scope(|scope| {
        let part = |volumes: &[Vec<u8>]| {
            let mut engine = cpu.instantiate().expect("an engine");
            volumes.iter().map(|volume| run(&mut *engine, volume)).collect::<Vec<_>>()
        };
        let parts = volumes.chunks(volumes.len().div_ceil(threads));
        let parts: Vec<_> = parts.map(|volumes| scope.spawn(move || part(volumes))).collect();
        parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect()
    });
    assert_eq!(found.len(), owed.len());
    found.iter().zip(&owed).map(|(found, owed)| [floats(found), floats(owed)]).collect()
}

#[test]
fn integers_are_the_cpu_engines_to_the_bit() {
    on_device("integers_are_the_cpu_engines_to_the_bit", |context| {
        let made_up = |widths: &[usize]| onnx::file(&network_of(11, widths));
        let networks = [
            ("3 x 64, made up", made_up(&[64; 3])),
            ("3 x 128, made up", made_up(&[128; 3])),
            ("3 x 128, trained", committed("predecoder_3x128_int8")),
            ("5 x 128, made up", made_up(&[128; 5])),
        ];
        for (name, file) in networks {
            for (d, layers) in SIZES {
                let mut compared = 0;
                for (index, [device, cpu]) in logits(context, name, &file, (d, layers)).iter().enumerate() {
                    assert_eq!(device.len(), 4 * layers * d * d);
                    compared += device.len();
                    let other = device.iter().zip(cpu).position(|(a, b)| a.to_bits() != b.to_bits());
                    if let Some(logit) = other {
                        let [device, cpu] = [device[logit], cpu[logit]];
                        panic!("{name}, d = {d}, volume {index}, logit {logit}: {device}, {cpu} on the CPU");
                    }
                }
                eprintln!(
                    "{name}, integers, d = {d}: {VOLUMES} volumes, {compared} logits, all the CPU's to the bit"
                );
            }
        }
    });
}

#[test]
fn halves_are_within_a_256th_of_the_cpu_engines() {
    on_device("halves_are_within_a_256th_of_the_cpu_engines", |context| {
        let networks = [
            ("3 x 64, trained", committed("predecoder_3x64")),
            ("3 x 128, trained", committed("predecoder_3x128")),
            ("5 x 128, made up", onnx::file(&halves_of(12, &[128; 5]))),
        ];
        for (name, file) in networks {
            for (d, layers) in SIZES {
                let mut worst = (0.0, 0.0);
                for (index, [device, cpu]) in logits(context, name, &file, (d, layers)).iter().enumerate() {
                    assert_eq!(device.len(), 4 * layers * d * d);
                    let (off, largest) = farthest(device, cpu);
                    assert!(
                        largest > 0.5 && off <= largest * BOUND,
                        "{name}, d = {d}, volume {index}: {off} of {largest} off"
                    );
                    if off / largest >= worst.0 / f32::max(worst.1, f32::MIN_POSITIVE) {
                        worst = (off, largest);
                    }
                }
                let (off, largest) = worst;
                eprintln!(
                    "{name}, halves, d = {d}: {VOLUMES} volumes, at most {off:.2e} of {largest:.1} off, 1/{:.0}",
                    largest / off
                );
            }
        }
    });
}

/// How far the logits are from the CPU's at most, and the CPU's largest. What is no number is as far as can be.
fn farthest(device: &[f32], cpu: &[f32]) -> (f32, f32) {
    assert_eq!(device.len(), cpu.len());
    let off = device.iter().zip(cpu).map(|(a, b)| (a - b).abs());
    let off = off.fold(0.0, |most: f32, off| if off.is_nan() { f32::INFINITY } else { most.max(off) });
    (off, cpu.iter().fold(0.0, |most: f32, logit| most.max(logit.abs())))
}

/// On the host alone: the files have the networks, and the CPU's engine is a judge, since its logits are those of convolutions that are
/// written out.
#[test]
fn the_cpu_engine_computes_the_networks() {
    let (d, layers) = (3, 4);
    let input = volume(5, layers * d * d);
    for widths in [&[64; 3][..], &[128; 5]] {
        let network = network_of(11, widths);
        let file = onnx::file(&network);
        assert_eq!(Network::from_onnx(&file).expect("a network"), network);
        let mut engine = on_cpu("integers", &file, d, layers).instantiate().expect("an engine");
        let found = floats(&run(&mut *engine, &bytes(&input)));
        assert_eq!(found, reference(&network, &input, layers, d), "{widths:?}");
    }
    let network = halves_of(12, &[128; 5]);
    let file = onnx::file(&network);
    assert_eq!(Network::from_onnx(&file).expect("a network"), network);
    let mut engine = on_cpu("halves", &file, d, layers).instantiate().expect("an engine");
    let found = floats(&run(&mut *engine, &bytes(&input)));
    let owed: Vec<f32> =
        reference_of_halves(&network, &input, layers, d).iter().map(|&logit| logit as f32).collect();
    let (off, largest) = farthest(&found, &owed);
    assert!(largest > 0.5 && off < largest * 1e-5, "{off} of {largest}");
}
