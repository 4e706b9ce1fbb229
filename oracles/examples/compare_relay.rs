//! Relay-BP in integers against the crate `relay-bp` in single precision: logical errors, iterations and shots a second, on
//! the same shots, with the same memory strengths, in turns of a few shots on one thread.
//!
//! ```sh
//! cargo run --release --example compare_relay -- PROBLEM SHOTS SOLUTIONS LIMIT
//! ```
//! The files are those of `ringcall-bp`'s example `relay_bp_bench`. Prints one line of JSON.

#[path = "../../host/bp/examples/common/files.rs"]
mod files;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use ndarray::{Array1, Array2};
use relay_bp::bp::min_sum::MinSumDecoderConfig;
use relay_bp::bp::relay::{RelayDecoder, RelayDecoderConfig, StoppingCriterion};
use relay_bp::decoder::Decoder;
use ringcall_bp::{BpConfig, BpDecoder, BpGraph};
use sprs::TriMat;

/// The decoder of `relay-bp` with a configuration's settings and memory strengths.
fn other(graph: &BpGraph, config: &BpConfig) -> RelayDecoder<f32> {
    let columns = graph.num_columns();
    let mut matrix = TriMat::new((graph.num_checks(), columns));
    for column in 0..columns {
        for &check in graph.column_checks(column) {
            matrix.add_triplet(check as usize, column, 1u8);
        }
    }
    let factor = |strength: i16| f64::from(strength) / 128.0;
    let min_sum = MinSumDecoderConfig {
        error_priors: Array1::from(graph.probabilities().to_vec()),
        gamma0: Some(factor(config.first_memory)),
        ..MinSumDecoderConfig::default()
    };
    let strengths = |(leg, column)| factor(config.memory_strength(0, leg as u32, column as u32));
    let relay = RelayDecoderConfig {
        pre_iter: config.first_iterations as usize,
        num_sets: config.legs as usize,
        set_max_iter: config.leg_iterations as usize,
        explicit_gammas: Some(Array2::from_shape_fn((config.legs as usize + 1, columns), strengths)),
        stopping_criterion: StoppingCriterion::NConv { stop_after: config.solutions as usize },
        ..RelayDecoderConfig::default()
    };
    RelayDecoder::new(Arc::new(matrix.to_csc()), Arc::new(min_sum), Arc::new(relay))
}

/// What one decoder did.
#[derive(Default)]
struct Side {
    time: Duration,
    errors: u32,
    unconverged: u32,
    iterations: Vec<u32>,
}

impl Side {
    fn json(&mut self) -> String {
        self.iterations.sort_unstable();
        let shots = self.iterations.len();
        let rank = |share: f64| self.iterations[((shots - 1) as f64 * share) as usize];
        let total: f64 = self.iterations.iter().map(|&n| f64::from(n)).sum();
        format!(
            "{{\"shots_per_s\": {:.1}, \"errors\": {}, \"unconverged\": {}, \"us_per_iteration\": {:.2}, \"iterations\": \
             {{\"mean\": {:.2}, \"p50\": {}, \"p99\": {}, \"max\": {}}}}}",
            shots as f64 / self.time.as_secs_f64(),
            self.errors,
            self.unconverged,
            self.time.as_secs_f64() * 1e6 / total,
            total / shots as f64,
            rank(0.5),
            rank(0.99),
            rank(1.0),
        )
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [problem, shots, solutions, limit] = &arguments[..] else {
        return Err(anyhow!("usage: compare_relay PROBLEM SHOTS SOLUTIONS LIMIT"));
    };
    let config = BpConfig { solutions: solutions.parse()?, ..BpConfig::relay() };
    let graph = files::problem(problem).map_err(|error| anyhow!("{error}"))?;
    let mut shots = files::shots(shots, graph.observable_bytes()).map_err(|error| anyhow!("{error}"))?;
    shots.truncate(limit.parse()?);
    let mut ours = BpDecoder::new(&graph, &config)?;
    let mut theirs = other(&graph, &config);
    let (mut integers, mut singles) = (Side::default(), Side::default());
    let (mut only_integers, mut only_singles) = (0, 0);
    let mut observables = vec![0; graph.observable_bytes()];
    for shot in &shots {
        let mut detectors = Array1::<u8>::zeros(graph.num_checks());
        for &defect in &shot.defects {
            detectors[defect as usize] = 1;
        }
        let begun = Instant::now();
        let outcome = ours.decode(&shot.defects, &mut observables)?;
        integers.time += begun.elapsed();
        let begun = Instant::now();
        let result = theirs.decode_detailed(detectors.view());
        singles.time += begun.elapsed();

        let mut flipped = vec![0; observables.len()];
        for column in (0..graph.num_columns()).filter(|&column| result.decoding[column] == 1) {
            for &o in graph.column_observables(column) {
                flipped[o as usize / 8] ^= 1 << (o % 8);
            }
        }
        let wrong = (observables != shot.observables, flipped != shot.observables);
        ensure!(observables.len() == flipped.len());
        integers.errors += u32::from(wrong.0);
        singles.errors += u32::from(wrong.1);
        only_integers += u32::from(wrong.0 && !wrong.1);
        only_singles += u32::from(wrong.1 && !wrong.0);
        integers.unconverged += u32::from(!outcome.converged);
        singles.unconverged += u32::from(!result.success);
        integers.iterations.push(outcome.iterations);
        singles.iterations.push(result.iterations as u32);
    }
    println!(
        "{{\"checks\": {}, \"columns\": {}, \"shots\": {}, \"solutions\": {}, \"ringcall_bp\": {}, \"relay_bp\": {}, \
         \"errors_of_ringcall_bp_alone\": {only_integers}, \"errors_of_relay_bp_alone\": {only_singles}}}",
        graph.num_checks(),
        graph.num_columns(),
        shots.len(),
        config.solutions,
        integers.json(),
        singles.json(),
    );
    Ok(())
}
