//! The predecoder's network alone: on the CPU, as a captured graph, as a handler of the cooperative dispatcher.
//!
//! Volumes are `d` layers of `d` by `d` cells, batch 1, of the committed network. Detectors are set about as often as
//! in shots. The network's time does not depend on a volume's contents, but its decisions are applied on the device,
//! which takes about 2 µs more if half of them are errors.

mod device;

pub(super) use device::{graph, grid, unfit};

use super::measure::{Bench, Row, histogram};
use crate::network::{COMMITTED as ONNX, COMMITTED_NAME as NAME};
use anyhow::{Context, Result, anyhow};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_gpu::clock;
use ringcall_infer::onnx::{BUILT_IN, OnnxModel};
use ringcall_infer::{Model, OnnxOptions};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::predecoder::{PredecoderVolume, Thresholds};

/// Why this build has no engine for the network on the CPU, whose answers every row is compared with.
pub(super) fn no_engine() -> Option<String> {
    (!BUILT_IN).then(|| "no ONNX engine in this build (feature `onnx`)".to_owned())
}

/// The noise whose threshold is used.
const NOISE: f64 = 0.003;
/// One of this many detectors is set, which is about the density at that noise.
const RARITY: u64 = 20;
/// How long the CPU may take for one row; it always decodes a few volumes.
const CPU_NS: u64 = 1_000_000_000;
const WHOLE_NS: u64 = 10 * CPU_NS;
const CPU_RUNS: u64 = 3;

/// Multiply-adds of a cell with 27 taps each: 128 to 128 channels twice, in bytes; 4 to 128 and 128 to 4, in halves.
const MULTIPLY_ADDS: [u64; 2] = [27 * 2 * 128 * 128, 27 * (4 * 128 + 128 * 4)];
/// The nominal dense 8-bit and 16-bit rates of an H200, and the share of them that the best kernels sustain.
const PEAK_OP_S: [f64; 2] = [1_978.9e12, 989.4e12];
const KEPT_UP: f64 = 0.8;

/// The arithmetic's time for a volume on an H200, in ns: 0.4, 2.6, 11 and 35 µs for d = 7, 13, 21 and 31.
fn arithmetic_floor_ns(d: u32) -> f64 {
    let of_a_cell: f64 =
        MULTIPLY_ADDS.iter().zip(PEAK_OP_S).map(|(&adds, rate)| 2.0 * adds as f64 / rate).sum();
    f64::from(d).powi(3) * of_a_cell / KEPT_UP * 1e9
}

/// A request with its expected results.
struct Case {
    d: u32,
    /// Detectors, bit-packed.
    request: Vec<u8>,
    /// The detectors as the network's input: `[4, d, d, d]`.
    input: Vec<f32>,
    volume: PredecoderVolume,
    threshold: f32,
    model: OnnxModel,
}

/// The experiment whose `d - 1` rounds give `d` layers.
fn experiment(d: u32) -> MemoryExperiment {
    MemoryExperiment { distance: d, rounds: d - 1, basis: Basis::Z, noise: CircuitNoise::default() }
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

        let MemoryExperiment { distance, rounds, basis, .. } = experiment(d);
        let volume = PredecoderVolume::new(distance, rounds, basis)?;
        let (mut input, mut request) = (volume.maps().to_vec(), vec![0; volume.detectors().div_ceil(8)]);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(d));
        for (bit, &place) in volume.places().iter().enumerate() {
            if rng.next_u64() < u64::MAX / RARITY {
                input[place as usize] = 1.0;
                request[bit / 8] |= 1 << (bit % 8);
            }
        }
        Ok(Self { d, request, input, volume, threshold, model })
    }

    fn input_bytes(&self) -> Vec<u8> {
        self.input.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The logits as the CPU computes them.
    fn logits(&self) -> Result<Vec<u8>> {
        let mut logits = vec![0; 4 * self.input.len()];
        self.model.instantiate()?.run(&[&self.input_bytes()], &mut [&mut logits])?;
        Ok(logits)
    }

    /// The residual after these logits' decisions, and the frame in a byte of its own: the answer of every engine.
    fn answer(&self, logits: &[u8]) -> Vec<u8> {
        let mut answer = self.request.clone();
        let frame = self.volume.apply(&floats(logits), self.threshold, &mut answer);
        answer.push(u8::from(frame));
        answer
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The network on one core, by the built-in ONNX engine.
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
        // The first run warms up, and determines how many runs there is time for.
        let runs = (CPU_NS / run()?).max(CPU_RUNS).min(bench.trips);
        let end = clock::now_ns() + WHOLE_NS;
        for made in 0..runs {
            if made >= CPU_RUNS && clock::now_ns() >= end {
                break;
            }
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
        for (d, us) in [(7, 0.41), (13, 2.6), (21, 11.0), (31, 35.4)] {
            let found = arithmetic_floor_ns(d) / 1e3;
            assert!((found / us - 1.0).abs() < 0.02, "d = {d}: {found}");
        }
    }

    #[test]
    fn a_case_is_a_volume_that_the_network_decides_on() {
        let case = Case::new(5).unwrap();
        let set: u32 = case.request.iter().map(|byte| byte.count_ones()).sum();
        let ones = case.volume.places().iter().filter(|&&place| case.input[place as usize] == 1.0).count();
        assert!((1..50).contains(&ones) && ones == set as usize, "{ones}, {set}");
        let logits = case.logits().unwrap();
        let answer = case.answer(&logits);
        assert_eq!(answer.len(), case.request.len() + 1);
        assert_ne!(answer[..case.request.len()], case.request[..], "nothing is decided");
    }
}
