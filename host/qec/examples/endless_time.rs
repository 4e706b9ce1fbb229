//! Times runs without end: `endless_time D P ROUNDS RUNS plain|observables|correlated [REHEARSAL [BATCH]]`, P in thousandths;
//! or `endless_time D P ROUNDS RUNS shared|shared-correlated [CORES [OVERLAP [STEP]]]`, for the observables, on several cores (CPU time is that of
//! all threads).
//!
//! Runs of a rotated memory are drawn from the errors of a short one. Printed are the CPU time of a round and the wall time from the
//! last round to the answer, and that of a rehearsal. A run's end is rehearsed every REHEARSAL (0: never) rounds, and BATCH defects
//! are gathered.

#[path = "common/cpu_time.rs"]
mod cpu_time;

use cpu_time::cpu_time;
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_matching::{EndlessConfig, EndlessDecoder, SharedEndlessConfig, SharedEndlessDecoder};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
use ringcall_qec::dem::DetectorErrorModel;

/// The defects of each layer of a run: each mechanism of the layer in the middle in every layer that repeats it.
fn draw(
    model: &DetectorErrorModel,
    places: &[(u32, u32)],
    layers: u32,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<Vec<u32>> {
    let short = places.last().map_or(0, |place| place.0 + 1);
    let (longer, repeating) = (layers - short, (short - 1) / 2);
    let mut run: Vec<Vec<u32>> = vec![Vec::new(); layers as usize];
    for mechanism in &model.mechanisms {
        let of = |&detector: &u32| places[detector as usize];
        let Some(layer) = mechanism.detectors.iter().map(|d| of(d).0).min() else { continue };
        let (mut at, end) = match layer {
            layer if layer == repeating => (0, longer),
            layer if layer > repeating => (longer, longer),
            _ => (0, 0),
        };
        loop {
            let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            let without = uniform.ln() / (1.0 - mechanism.probability).ln();
            at = (f64::from(at) + without.floor()).min(1e9) as u32;
            if at > end {
                break;
            }
            for (layer, position) in mechanism.detectors.iter().map(of) {
                run[(layer + at) as usize].push(position);
            }
            at += 1;
        }
    }
    for defects in &mut run {
        defects.sort_unstable();
        let odd: Vec<u32> =
            defects.chunk_by(|a, b| a == b).filter(|same| same.len() % 2 == 1).map(|same| same[0]).collect();
        *defects = odd;
    }
    run
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [distance, per_mille, rounds, runs, kind, rest @ ..] = &args[..] else {
        return Err(
            "endless_time D P ROUNDS RUNS plain|observables|correlated [REHEARSAL [BATCH]], or shared|shared-correlated [CORES [OVERLAP [STEP]]]".into()
        );
    };
    let (distance, rounds, runs) = (distance.parse()?, rounds.parse::<u32>()?, runs.parse::<usize>()?);
    let rehearsal = rest.first().map_or(Ok(0), |n| n.parse::<usize>())?;
    let noise = CircuitNoise::uniform(per_mille.parse::<f64>()? / 1000.0);
    let experiment = MemoryExperiment { distance, rounds: 7, basis: Basis::Z, noise };
    let model = experiment.detector_error_model()?;
    let (mut sizes, mut places) = (Vec::new(), Vec::new());
    for detector in experiment.detector_layout()?.detectors() {
        sizes.resize(sizes.len().max(detector.layer as usize + 1), 0);
        places.push((detector.layer, sizes[detector.layer as usize]));
        sizes[detector.layer as usize] += 1;
    }
    let layer_of: Vec<u32> = places.iter().map(|place| place.0).collect();
    let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
    let engine = match kind.as_str() {
        "plain" | "observables" | "shared" => MatchingEngine::SparseBlossom,
        "correlated" | "shared-correlated" => MatchingEngine::CorrelatedBlossom,
        _ => return Err("plain, observables, correlated, shared or shared-correlated".into()),
    };
    let decoder = MatchingDecoder::new(&graph, engine)?;
    let mut config = EndlessConfig::default();
    config.correlations = kind == "correlated";
    config.observables_only = kind == "observables";
    config.batch = rest.get(1).map_or(Ok(config.batch), |n| n.parse())?;
    if kind.starts_with("shared") {
        let at = |i: usize| rest.get(i).map_or(Ok(0), |n| n.parse::<usize>());
        let mut config = SharedEndlessConfig::new(at(0)?.max(1).try_into()?);
        (config.overlap, config.step, config.observables_only) = (at(1)?, at(2)?, true);
        config.correlations = kind == "shared-correlated";
        let mut shared = SharedEndlessDecoder::new(decoder.engine().graph(), &layer_of, &config, |_| {})?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let (mut cpu, mut weight, mut forced, mut flips, mut ends) = (0.0, 0.0, 0, 0u64, Vec::new());
        for _ in 0..runs {
            let run = draw(&model, &places, rounds + 1, &mut rng);
            let (before, tail) = run.split_at(run.len() - shared.tail_rounds());
            let tail: Vec<&[u32]> = tail.iter().map(Vec::as_slice).collect();
            let begin = cpu_time()?;
            before.iter().try_for_each(|round| shared.push_round(round).map(drop))?;
            let last = Instant::now();
            flips = flips.wrapping_mul(3) ^ shared.finish(&tail)?[0];
            ends.push(last.elapsed().as_nanos());
            cpu += cpu_time()? - begin;
            weight += shared.weight();
            forced += shared.forced();
        }
        ends.sort_unstable();
        let end = |q: f64| ends[((ends.len() - 1) as f64 * q) as usize] as f64 / 1000.0;
        writeln!(
            std::io::stdout(),
            "d{distance} p{per_mille} {kind} {rest:?}: {:.3} us a round, end p50 {:.2} p90 {:.2} p99 {:.2} us, {forced} forced, \
             weight {weight:.3}, flips {flips:x}",
            cpu / (runs as f64 * f64::from(rounds)) * 1e6,
            end(0.5),
            end(0.9),
            end(0.99),
        )?;
        return Ok(());
    }
    let mut endless = EndlessDecoder::new(decoder.engine().graph(), &layer_of, &config)?;
    let layers = rounds + 1;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let (mut cpu, mut weight, mut forced, mut defects, mut flips) = (0.0, 0.0, 0, 0, 0u64);
    let mut ends = Vec::new();
    let (mut rehearsed, mut rehearsals) = (Duration::ZERO, 0);
    for _ in 0..runs {
        let run = draw(&model, &places, layers, &mut rng);
        defects += run.iter().map(Vec::len).sum::<usize>();
        let (before, tail) = run.split_at(run.len() - endless.tail_rounds());
        let tail: Vec<&[u32]> = tail.iter().map(Vec::as_slice).collect();
        let begin = cpu_time()?;
        for (t, round) in before.iter().enumerate() {
            endless.push_round(round)?;
            if rehearsal > 0 && t % rehearsal == 0 {
                let begin = Instant::now();
                endless.rehearse();
                rehearsed += begin.elapsed();
                rehearsals += 1;
            }
        }
        let last = Instant::now();
        flips = flips.wrapping_mul(3) ^ endless.finish(&tail)?[0];
        ends.push(last.elapsed().as_nanos());
        cpu += cpu_time()? - begin;
        weight += endless.weight();
        forced += endless.forced();
    }
    ends.sort_unstable();
    let end = |q: f64| ends[((ends.len() - 1) as f64 * q) as usize] as f64 / 1000.0;
    let all = runs as f64 * f64::from(rounds);
    writeln!(
        std::io::stdout(),
        "d{distance} p{per_mille} {kind}: {:.3} us a round, end p50 {:.2} p90 {:.2} p99 {:.2} us, {:.2} defects a round, {forced} forced, \
         weight {weight:.3}, flips {flips:x}, margin {}, rehearsal {:.2} us",
        cpu / all * 1e6,
        end(0.5),
        end(0.9),
        end(0.99),
        defects as f64 / all,
        endless.margin(),
        rehearsed.as_secs_f64() * 1e6 / f64::from(rehearsals.max(1)),
    )?;
    Ok(())
}
