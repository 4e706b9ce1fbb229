//! Logical errors and time of plain matching, correlated matching and the ensemble, on the same shots:
//! `ensemble_errors DISTANCE P SHOTS [SEED]`, a line of JSON for each basis.
//!
//! Memory experiments with as many rounds as the distance, noise P on every operation. `fixed` and `broken` count the shots that the
//! ensemble gets right where correlated matching does not, and the other way round. Times are CPU time of one thread, in us a shot, taken
//! in turns of 4,000 shots.

#[path = "common/cpu_time.rs"]
mod cpu_time;

use cpu_time::cpu_time;
use std::error::Error;
use std::io::Write;

use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{Decoder, DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
use ringcall_qec::sample::Sampler;

const ENGINES: [MatchingEngine; 3] =
    [MatchingEngine::SparseBlossom, MatchingEngine::CorrelatedBlossom, MatchingEngine::Ensemble];
const TURN: usize = 4000;

/// One number for each engine, as JSON.
fn named(name: &str, numbers: [impl std::fmt::Display; 3]) -> String {
    let pairs: Vec<String> = ENGINES
        .iter()
        .zip(numbers)
        .map(|(engine, number)| format!("\"{}\": {number}", engine.name()))
        .collect();
    format!("\"{name}\": {{{}}}", pairs.join(", "))
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| args.get(at).ok_or("ensemble_errors DISTANCE P SHOTS [SEED]");
    let (distance, p): (u32, f64) = (argument(0)?.parse()?, argument(1)?.parse()?);
    let shots: usize = argument(2)?.parse()?;
    let seed: u64 = argument(3).map_or(Ok(1), |seed| seed.parse())?;
    let mut out = std::io::stdout().lock();
    for basis in [Basis::Z, Basis::X] {
        let experiment =
            MemoryExperiment { distance, rounds: distance, basis, noise: CircuitNoise::uniform(p) };
        let model = experiment.detector_error_model()?;
        let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
        let mut decoders = Vec::new();
        for engine in ENGINES {
            decoders.push(MatchingDecoder::new(&graph, engine)?);
        }
        let mut sampler = Sampler::new(&model, seed)?;
        let mut shot = sampler.new_shot();
        let (mut seconds, mut errors) = ([0.0; 3], [0u64; 3]);
        let (mut fixed, mut broken) = (0u64, 0u64);
        for begin in (0..shots).step_by(TURN) {
            let mut batch = Vec::new();
            for _ in begin..shots.min(begin + TURN) {
                sampler.sample_into(&mut shot)?;
                let mut defects = Vec::new();
                shot.detectors.ones_into(&mut defects);
                batch.push((defects, shot.observables.get(0) == Some(true)));
            }
            let mut wrong = vec![[false; 3]; batch.len()];
            for (at, decoder) in decoders.iter_mut().enumerate() {
                let start = cpu_time()?;
                for ((defects, flipped), wrong) in batch.iter().zip(&mut wrong) {
                    let mut observables = [0u8];
                    decoder.decode(defects, &mut observables)?;
                    wrong[at] = (observables[0] & 1 == 1) != *flipped;
                }
                seconds[at] += cpu_time()? - start;
            }
            for [plain, correlated, ensemble] in wrong {
                let all = [plain, correlated, ensemble];
                errors.iter_mut().zip(all).for_each(|(sum, wrong)| *sum += u64::from(wrong));
                fixed += u64::from(correlated && !ensemble);
                broken += u64::from(ensemble && !correlated);
            }
        }
        let us = seconds.map(|seconds| (seconds / shots as f64 * 1e8).round() / 100.0);
        writeln!(
            out,
            "{{\"distance\": {distance}, \"p\": {p}, \"basis\": \"{basis:?}\", \"shots\": {shots}, \"seed\": {seed}, {}, {}, \"fixed\": {fixed}, \"broken\": {broken}}}",
            named("errors", errors),
            named("us", us),
        )?;
    }
    Ok(())
}
