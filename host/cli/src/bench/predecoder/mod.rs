//! The predecoder's network alone: on the CPU, as a captured graph, as a handler of the cooperative dispatcher.
//!
//! Volumes are `d` layers of `d` by `d` cells, batch 1, of the committed network, which is compiled in. Its time does not
//! depend on what is in them.

mod device;

pub(super) use device::{graph, grid, unfit};

use super::measure::{Bench, Row, histogram};
use anyhow::{Context, Result, anyhow};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_gpu::clock;
use ringcall_infer::onnx::OnnxModel;
use ringcall_infer::{Model, OnnxOptions};
use ringcall_qec::code::Basis;
use ringcall_qec::predecoder::{CHANNELS, PredecoderVolume, Thresholds};

const NAME: &str = "predecoder_3x128";
const ONNX: &[u8] = include_bytes!("../../../../../training/models/predecoder_3x128.onnx");
/// Noise whose threshold is used.
const NOISE: f64 = 0.003;
/// One detector in so many is set: about the density at that noise.
const RARITY: u64 = 20;
/// How long the CPU may take for one row; but it always runs a few times.
const CPU_NS: u64 = 1_000_000_000;
const CPU_RUNS: u64 = 3;

/// Multiply-adds of a cell: 27 taps of 4 to 128, 128 to 128 twice, and 128 to 4 channels.
const MULTIPLY_ADDS: u64 = 27 * (4 * 128 + 2 * 128 * 128 + 128 * 4);
/// The dense 16-bit rate that an H200 is sold with, and the part of it that the best kernels keep up.
const PEAK_FLOP_S: f64 = 989.4e12;
const KEPT_UP: f64 = 0.8;

/// What the arithmetic of a volume takes on an H200, ns: 0.8, 5.1, 21 and 69 µs for d = 7, 13, 21 and 31.
fn arithmetic_floor_ns(d: u32) -> f64 {
    let cells = f64::from(d).powi(3);
    2.0 * MULTIPLY_ADDS as f64 * cells / (PEAK_FLOP_S * KEPT_UP) * 1e9
}

/// An input, and what belongs to it.
struct Case {
    d: u32,
    /// `[4, d, d, d]`.
    input: Vec<f32>,
    /// Where checks are, the same in every layer, as the handler takes it.
    maps: Vec<f32>,
    threshold: f32,
    model: OnnxModel,
}

impl Case {
    fn new(d: u32) -> Result<Self> {
        let size = d as usize;
        let options = ["layers", "height", "width"]
            .into_iter()
            .fold(OnnxOptions::new(), |o, name| o.with_symbol(name, size));
        let model = OnnxModel::from_bytes(NAME, ONNX, &options)?;
        let entries = model.metadata().iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let threshold = Thresholds::from_metadata(entries).nearest(d, NOISE).context("no threshold")?;

        // `d` layers belong to `d - 1` rounds.
        let volume = PredecoderVolume::new(d, d - 1, Basis::Z)?;
        let (square, cells) = (size * size, size.pow(3));
        let mut input = vec![0.0; CHANNELS * cells];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(d));
        for &place in volume.places() {
            input[place as usize] = if rng.next_u64() < u64::MAX / RARITY { 1.0 } else { 0.0 };
        }
        let mut maps = Vec::with_capacity(2 * square);
        for channel in 2..CHANNELS {
            let middle = channel * cells + size / 2 * square;
            maps.extend(&volume.maps()[middle..middle + square]);
        }
        for (place, value) in input[2 * cells..].iter_mut().enumerate() {
            *value = maps[place / cells * square + place % square];
        }
        Ok(Self { d, input, maps, threshold, model })
    }

    fn cells(&self) -> usize {
        self.input.len() / CHANNELS
    }

    fn input_bytes(&self) -> Vec<u8> {
        self.input.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The logits, by the CPU.
    fn logits(&self) -> Result<Vec<u8>> {
        let mut logits = vec![0; 4 * self.input.len()];
        self.model.instantiate()?.run(&[&self.input_bytes()], &mut [&mut logits])?;
        Ok(logits)
    }

    /// For each cell, the bits whose logit is above the threshold; first which of them are clear of it.
    fn decisions(&self, logits: &[u8]) -> Vec<(u8, u8)> {
        /// Far above what 16-bit arithmetic changes.
        const CLEAR: f32 = 0.1;
        let cells = self.cells();
        let logits: Vec<f32> = logits.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let bit = |cell: usize, channel: usize| {
            let above = logits[channel * cells + cell] - self.threshold;
            (u8::from(above.abs() > CLEAR) << channel, u8::from(above > 0.0) << channel)
        };
        let both = |cell| {
            (0..CHANNELS).map(|channel| bit(cell, channel)).fold((0, 0), |a, b| (a.0 | b.0, a.1 | b.1))
        };
        (0..cells).map(both).collect()
    }
}

/// Whether decisions are the expected ones, wherever those are clear.
fn agree(expected: &[(u8, u8)], found: impl ExactSizeIterator<Item = u8>) -> bool {
    expected.len() == found.len()
        && expected.iter().zip(found).all(|(&(clear, bits), got)| (bits ^ got) & clear == 0)
}

/// The network on one core, by the ONNX engine that is built in.
pub(super) fn cpu(bench: &Bench, d: u32) -> Result<Row> {
    let case = Case::new(d)?;
    bench.on_client_core(|| {
        let mut engine = case.model.instantiate()?;
        let (input, mut logits) = (case.input_bytes(), vec![0; 4 * case.input.len()]);
        let mut times = histogram()?;
        let mut run = || -> Result<u64> {
            let begin = clock::now_ns();
            engine.run(&[&input], &mut [&mut logits])?;
            Ok((clock::now_ns() - begin).max(1))
        };
        // The first one warms up, and says how many there is time for.
        let runs = (CPU_NS / run()?).max(CPU_RUNS).min(bench.trips);
        for _ in 0..runs {
            times.record(run()?).map_err(|_| anyhow!("a run of more than a minute"))?;
        }
        Ok(Row { ratio_to_floor: f64::NAN, ..Row::new(&times) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_what_the_documentation_says() {
        for (d, us) in [(7, 0.8), (13, 5.1), (21, 21.0), (31, 69.0)] {
            let found = arithmetic_floor_ns(d) / 1e3;
            assert!((found / us - 1.0).abs() < 0.02, "d = {d}: {found}");
        }
    }

    #[test]
    fn a_case_is_a_volume_that_the_network_decides_on() {
        let case = Case::new(5).unwrap();
        assert_eq!((case.cells(), case.maps.len()), (125, 50));
        let ones = case.input[..250].iter().filter(|&&v| v == 1.0).count();
        assert!((1..50).contains(&ones), "{ones}");
        assert!(case.input[250..].iter().all(|v| [0.0, 0.5, 1.0].contains(v)));
        assert!((0..5).all(|layer| case.input[250 + 25 * layer..][..25] == case.maps[..25]));
        let expected = case.decisions(&case.logits().unwrap());
        let right: Vec<u8> = expected.iter().map(|&(_, bits)| bits).collect();
        assert!(agree(&expected, right.iter().copied()));
        let clear = expected.iter().position(|&(clear, _)| clear & 1 != 0).unwrap();
        let wrong = |cell| right.iter().enumerate().map(move |(at, bits)| bits ^ u8::from(at == cell));
        assert!(!agree(&expected, wrong(clear)));
        assert!(!agree(&expected[1..], right.iter().copied()));
    }
}
