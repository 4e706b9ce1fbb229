//! What both tests need. Each uses its part.
#![allow(dead_code)]

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_infer::{Engine, Model};
use ringcall_infer_gpu::{GpuError, GpuModel, Layer, Network, Wiring};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `test` on the first device, or says why not.
pub(crate) fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    // In turn: where one's kernel runs, nobody loads code, and what another drops is not freed.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
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
            let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

/// An engine for each input, each on a thread of its own, again and again at the same time: no answer is another's, and each
/// is what an engine by itself makes of it.
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
    places: Vec<u32>,
    flipped_by: Vec<Vec<u32>>,
    frame: Vec<u32>,
}

impl Lines {
    pub(crate) fn new(d: u32, layers: u32) -> Self {
        let cells = d * d * layers;
        let input = (0..4 * cells).map(|i| [0.0, 0.5, 1.0][i as usize % 3]).collect();
        let places: Vec<u32> = (0..2 * cells).filter(|place| place % 2 == 0 || place % 7 == 3).collect();
        // A decision two elements before a bit's place, and one in the upper channels: no decision more than twice.
        let by = |&place: &u32| [place.checked_sub(2), Some((place + 2 * cells) % (4 * cells))];
        let flipped_by = places.iter().map(|place| by(place).into_iter().flatten().collect()).collect();
        let frame = (0..4 * cells).filter(|decision| decision % 11 == 0).collect();
        Self { d, layers, input, places, flipped_by, frame }
    }

    pub(crate) fn wiring(&self, threshold: f32) -> Wiring {
        let Self { d, layers, input, places, flipped_by, frame } = self;
        Wiring::new(*d, *layers, input, places, |bit| &flipped_by[bit], frame, threshold).expect("fits")
    }

    pub(crate) fn request(&self, seed: u64) -> Vec<u8> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut request = vec![0; self.places.len().div_ceil(8)];
        for bit in 0..self.places.len() {
            request[bit / 8] |= u8::from(rng.random::<f32>() < 0.1) << (bit % 8);
        }
        request
    }

    /// The network's input for a request.
    pub(crate) fn volume(&self, request: &[u8]) -> Vec<f32> {
        let half = self.input.len() / 2;
        let mut volume: Vec<f32> =
            self.input.iter().enumerate().map(|(i, &v)| if i < half { 0.0 } else { v }).collect();
        for (bit, &place) in self.places.iter().enumerate() {
            volume[place as usize] = f32::from(request[bit / 8] >> (bit % 8) & 1);
        }
        volume
    }

    /// What the answer has to be; bits are left open where a logit is closer than `close` to the threshold.
    pub(crate) fn answer(&self, request: &[u8], logits: &[u8], threshold: f32, close: f32) -> Owed {
        let logits: Vec<f32> = logits.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let mut owed = Owed { known: vec![0xFF; request.len() + 1], bits: request.to_vec() };
        owed.bits.push(0);
        let mut flip = |at: usize, decision: u32| {
            let logit = logits[decision as usize];
            if (logit - threshold).abs() < close {
                owed.known[at / 8] &= !(1 << (at % 8));
            }
            owed.bits[at / 8] ^= u8::from(logit > threshold) << (at % 8);
        };
        for (bit, decisions) in self.flipped_by.iter().enumerate() {
            decisions.iter().for_each(|&decision| flip(bit, decision));
        }
        self.frame.iter().for_each(|&decision| flip(8 * request.len(), decision));
        owed
    }
}

/// An answer, as far as it is known.
pub(crate) struct Owed {
    known: Vec<u8>,
    bits: Vec<u8>,
}

impl Owed {
    /// The first byte that is another.
    pub(crate) fn first_wrong(&self, answer: &[u8]) -> Option<usize> {
        assert_eq!(answer.len(), self.bits.len());
        (0..answer.len()).find(|&i| (answer[i] ^ self.bits[i]) & self.known[i] != 0)
    }
}
