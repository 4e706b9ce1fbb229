//! What the tests on a device need. Each uses its part.
#![allow(dead_code)]

pub(crate) mod codes;
pub(crate) mod onnx;

use half::f16;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_gpu_decoders::predecoder::{GpuError, GpuModel, HalfLayer, Layer, Network, Wiring};
use ringcall_infer::{Engine, Model};
use std::ops::{AddAssign, Mul};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `test` on the first device if it is one that the network's kernels are for, or says why not.
pub(crate) fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    on_device_if(name, test, |context| {
        if context.device().capability() == (9, 0) {
            return Ok(());
        }
        let why = GpuModel::new("any", &network(1), context, 3, 3).expect_err("another architecture");
        assert!(matches!(why, GpuError::OtherDevice(_)), "{why}");
        Err(why.to_string())
    });
}

/// Runs `test` on the first device if it is one that the Relay-BP kernel is for, or says why not.
pub(crate) fn on_relay_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    on_device_if(name, test, |context| match context.device().capability() {
        capability if capability < (9, 0) => Err(format!("a device of compute capability {capability:?}")),
        _ => Ok(()),
    });
}

fn on_device_if(
    name: &str,
    test: impl FnOnce(&Arc<Context>),
    fits: impl FnOnce(&Arc<Context>) -> Result<(), String>,
) {
    // In turn: where one's kernel runs, no test loads code, and what another drops is not freed.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    match Driver::load().and_then(|driver| driver.device(0)?.context()) {
        Err(why @ (CudaError::NoDriver | CudaError::NoDevice | CudaError::DriverUnusable(_))) => {
            eprintln!("skipped: {name}: {why}");
        }
        Err(why) => panic!("{name}: {why}"),
        Ok(context) => match fits(&context) {
            Err(why) => eprintln!("skipped: {name}: {why}"),
            Ok(()) => {
                let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                test(&context);
                eprintln!("ran: {name}");
            }
        },
    }
}

/// The bytes of a committed network, from the folder that `RINGCALL_MODELS` names where this runs away from the repository.
pub(crate) fn committed(name: &str) -> Vec<u8> {
    let here = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models").to_owned();
    let folder = std::env::var("RINGCALL_MODELS").unwrap_or_else(|_| here());
    std::fs::read(format!("{folder}/{name}.onnx")).unwrap_or_else(|why| panic!("{name} in {folder}: {why}"))
}

/// Made-up weights of the one kernel's shape.
pub(crate) fn network(seed: u64) -> Network {
    network_of(seed, &[128, 128, 128])
}

/// Made-up weights that spread activations over 0..255, with some that are cut off at both ends, and sums that stay exact; hidden layers
/// of so many channels.
pub(crate) fn network_of(seed: u64, widths: &[usize]) -> Network {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    // A high power of a number from -1 to 1 is small most of the time: the sums of large weights have to be, too.
    let mut layer = |inputs: usize, outputs: usize, largest: f64, power: i32, input: f64, spread: f64| {
        let mut number = || rng.random::<f64>() * 2.0 - 1.0;
        let weights =
            (0..inputs * outputs * 27).map(|_| (number().powi(power) * largest).round() as i16).collect();
        let mean_square = largest * largest / f64::from(2 * power + 1);
        let usual = spread / (input * (inputs as f64 * 27.0 * mean_square).sqrt());
        let (mut factors, mut offsets) = (Vec::new(), Vec::new());
        for channel in 0..outputs {
            let (factor, offset) = (usual * (1.0 + 0.5 * number()), spread * 0.5 * number());
            // In some channels a power of two and a half more: there what is rounded is a tie now and then.
            let tied = channel % 4 == 1;
            factors.push(if tied { factor.log2().round().exp2() } else { factor } as f32);
            offsets.push(if tied { offset.round() + 0.5 } else { offset } as f32);
        }
        Layer { weights, factors, offsets }
    };
    let mut layers = vec![layer(4, widths[0], 511.0, 1, 1.0, 100.0)];
    for pair in widths.windows(2) {
        layers.push(layer(pair[0], pair[1], 127.0, if pair[0] > 128 { 7 } else { 3 }, 100.0, 100.0));
    }
    let last = widths[widths.len() - 1];
    layers.push(layer(last, 4, 511.0, if last > 128 { 31 } else { 19 }, 100.0, 4.0));
    Network::new(layers).expect("a network")
}

/// Made-up weights in halves that keep the size of activations from layer to layer; hidden layers of so many channels.
pub(crate) fn halves_of(seed: u64, widths: &[usize]) -> Network {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut layer = |inputs: usize, outputs: usize, scale: f32| {
        let mut number = || rng.random::<f32>() * 2.0 - 1.0;
        let largest = scale * (6.0 / (inputs as f32 * 27.0)).sqrt();
        let weights = (0..inputs * outputs * 27).map(|_| f16::from_f32(number() * largest)).collect();
        HalfLayer { weights, biases: (0..outputs).map(|_| 0.1 * number()).collect() }
    };
    let mut inputs = 4;
    let mut layers = Vec::new();
    for &width in widths {
        layers.push(layer(inputs, width, 1.0));
        inputs = width;
    }
    layers.push(layer(inputs, 4, 8.0));
    Network::in_halves(layers).expect("a network")
}

/// What a network in floating point makes of a volume, in double precision.
pub(crate) fn reference_of_halves(network: &Network, volume: &[f32], layers: usize, d: usize) -> Vec<f64> {
    let cells = layers * d * d;
    let mut values: Vec<f64> = volume.iter().copied().map(f64::from).collect();
    let all = network.half_layers();
    for (index, HalfLayer { weights, biases }) in all.iter().enumerate() {
        let inputs = values.len() / cells;
        let mut next = Vec::with_capacity(biases.len() * cells);
        for (output, &bias) in biases.iter().enumerate() {
            let mut sums = vec![f64::from(bias); cells];
            for input in 0..inputs {
                let plane = &values[input * cells..][..cells];
                for tap in 0..27 {
                    let weight = weights[(output * inputs + input) * 27 + tap].to_f64();
                    add_shifted(&mut sums, plane, weight, tap, layers, d);
                }
            }
            next.extend(sums.into_iter().map(|sum| if index + 1 < all.len() { sum.max(0.0) } else { sum }));
        }
        values = next;
    }
    values
}

/// What a network makes of a volume, one sum after the other, in integers: every engine has to leave these bits.
pub(crate) fn reference(network: &Network, volume: &[f32], layers: usize, d: usize) -> Vec<f32> {
    let cells = layers * d * d;
    let mut values: Vec<i64> = volume.iter().map(|value| (value * 2.0) as i64).collect();
    for (index, Layer { weights, factors, offsets }) in network.layers().iter().enumerate() {
        let inputs = values.len() / cells;
        let mut scaled = Vec::with_capacity(factors.len() * cells);
        for (output, (factor, offset)) in factors.iter().zip(offsets).enumerate() {
            let mut sums = vec![0; cells];
            for input in 0..inputs {
                let plane = &values[input * cells..][..cells];
                for tap in 0..27 {
                    match i64::from(weights[(output * inputs + input) * 27 + tap]) {
                        0 => (),
                        weight => add_shifted(&mut sums, plane, weight, tap, layers, d),
                    }
                }
            }
            scaled.extend(sums.into_iter().map(|sum| sum as f32 * factor + offset));
        }
        if index + 1 == network.layers().len() {
            return scaled;
        }
        values = scaled.into_iter().map(|value| value.round_ties_even().clamp(0.0, 255.0) as i64).collect();
    }
    Vec::new()
}

/// Adds what one tap of a convolution contributes.
fn add_shifted<T: Copy + AddAssign + Mul<Output = T>>(
    sums: &mut [T],
    plane: &[T],
    weight: T,
    tap: usize,
    layers: usize,
    d: usize,
) {
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

/// One run.
pub(crate) fn run(engine: &mut dyn Engine, input: &[u8]) -> Vec<u8> {
    let mut output = vec![0xFF; engine.outputs()[0].size_bytes()];
    engine.run(&[input], &mut [&mut output]).expect("a run");
    output
}

/// What a run takes on this machine, for people.
pub(crate) fn times(engine: &mut dyn Engine, inputs: &[Vec<u8>]) -> String {
    let mut output = vec![0; engine.outputs()[0].size_bytes()];
    let mut times = [Duration::ZERO; 500];
    for (time, input) in times.iter_mut().zip(inputs.iter().cycle()) {
        let begin = Instant::now();
        engine.run(&[input], &mut [&mut output]).expect("a run");
        *time = begin.elapsed();
    }
    times.sort_unstable();
    format!("p50 {:?}, p99 {:?}", times[250], times[495])
}

/// An engine for each input, each on its own thread, again and again at the same time: no answer is
/// another's, and each is what an engine by itself makes of it.
pub(crate) fn engines_of_many_threads_agree(model: &GpuModel, inputs: &[Vec<u8>], runs: usize) {
    let engine = || model.instantiate().expect("an engine");
    let mut alone = engine();
    let cases: Vec<_> = inputs.iter().map(|input| (input, run(&mut *alone, input), engine())).collect();
    for (i, (_, answer, _)) in cases.iter().enumerate() {
        assert!(
            cases[..i].iter().all(|(_, other, _)| other != answer),
            "inputs with the same answer prove nothing"
        );
    }
    std::thread::scope(|scope| {
        for (thread, (input, expected, mut engine)) in cases.into_iter().enumerate() {
            scope.spawn(move || {
                for number in 0..runs {
                    assert!(run(&mut *engine, input) == expected, "thread {thread}, run {number}");
                }
            });
        }
    });
}

/// A made-up wiring: a bit for every other element of the first two channels; each decision flips the bits of its cell's
/// neighbours, as far as there are such, and some flip the frame.
pub(crate) struct Lines {
    d: u32,
    layers: u32,
    input: Vec<f32>,
    elements: Vec<u32>,
    flipped_by: Vec<Vec<u32>>,
    frame: Vec<u32>,
}

impl Lines {
    pub(crate) fn new(d: u32, layers: u32) -> Self {
        let cells = d * d * layers;
        let input = (0..4 * cells).map(|i| [0.0, 0.5, 1.0][i as usize % 3]).collect();
        let elements: Vec<u32> =
            (0..2 * cells).filter(|element| element % 2 == 0 || element % 7 == 3).collect();
        // A decision two elements before a bit's element, and one in the upper channels: no decision more than twice.
        let by = |&element: &u32| [element.checked_sub(2), Some((element + 2 * cells) % (4 * cells))];
        let flipped_by = elements.iter().map(|element| by(element).into_iter().flatten().collect()).collect();
        let frame = (0..4 * cells).filter(|decision| decision % 11 == 0).collect();
        Self { d, layers, input, elements, flipped_by, frame }
    }

    pub(crate) fn wiring(&self, threshold: f32) -> Wiring {
        let Self { d, layers, input, elements, flipped_by, frame } = self;
        Wiring::new(*d, *layers, input, elements, |bit| &flipped_by[bit], frame, threshold).expect("fits")
    }

    pub(crate) fn request(&self, seed: u64) -> Vec<u8> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut request = vec![0; self.elements.len().div_ceil(8)];
        for bit in 0..self.elements.len() {
            request[bit / 8] |= u8::from(rng.random::<f32>() < 0.1) << (bit % 8);
        }
        request
    }

    /// The network's input for a request.
    pub(crate) fn volume(&self, request: &[u8]) -> Vec<f32> {
        let half = self.input.len() / 2;
        let mut volume: Vec<f32> =
            self.input.iter().enumerate().map(|(i, &v)| if i < half { 0.0 } else { v }).collect();
        for (bit, &element) in self.elements.iter().enumerate() {
            volume[element as usize] = f32::from(request[bit / 8] >> (bit % 8) & 1);
        }
        volume
    }

    /// What the answer has to be.
    pub(crate) fn answer(&self, request: &[u8], logits: &[u8], threshold: f32) -> Vec<u8> {
        let logits: Vec<f32> = logits.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let mut answer = request.to_vec();
        answer.push(0);
        let mut flip = |at: usize, decision: u32| {
            answer[at / 8] ^= u8::from(logits[decision as usize] > threshold) << (at % 8);
        };
        for (bit, decisions) in self.flipped_by.iter().enumerate() {
            decisions.iter().for_each(|&decision| flip(bit, decision));
        }
        self.frame.iter().for_each(|&decision| flip(8 * request.len(), decision));
        answer
    }
}

/// The index of the first byte that is another.
pub(crate) fn first_wrong(owed: &[u8], answer: &[u8]) -> Option<usize> {
    assert_eq!(answer.len(), owed.len());
    (0..answer.len()).find(|&i| answer[i] != owed[i])
}
