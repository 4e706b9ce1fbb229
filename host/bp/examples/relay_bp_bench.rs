//! Shots a second, iterations and logical errors of a decoder, from a file of columns and a file of shots.
//!
//! ```sh
//! cargo run --release -p ringcall-bp --example relay_bp_bench -- PROBLEM SHOTS [SOLUTIONS] [LANES] [LIMIT]
//! ```
//!
//! The first line of PROBLEM says how many checks and observables there are, and each further line is an error:
//! `probability checks... | observables...`. A line of SHOTS is `defects... | observables...`. The shots are decoded one at a time
//! on one thread. Prints one line of JSON.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use ringcall_bp::{BpConfig, BpDecoder};

#[path = "common/files.rs"]
mod files;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(problem), Some(shots)) = (arguments.next(), arguments.next()) else {
        return Err("usage: relay_bp_bench PROBLEM SHOTS [SOLUTIONS] [LANES] [LIMIT]".into());
    };
    let solutions = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let lanes = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let limit = arguments.next().map_or(Ok(usize::MAX), |n| n.parse())?;
    let graph = files::problem(&problem)?;
    let mut shots = files::shots(&shots, graph.observable_bytes())?;
    shots.truncate(limit);
    let mut decoder = BpDecoder::new(&graph, &BpConfig { solutions, lanes, ..BpConfig::relay() })?;

    let mut observables = vec![0; graph.observable_bytes()];
    let (mut wrong, mut unconverged) = (0u32, 0u32);
    let mut iterations = Vec::with_capacity(shots.len());
    let mut nanoseconds = Vec::with_capacity(shots.len());
    let begun = Instant::now();
    for shot in &shots {
        let one = Instant::now();
        let outcome = decoder.decode(&shot.defects, &mut observables)?;
        nanoseconds.push(one.elapsed().as_nanos() as u64);
        iterations.push(u64::from(outcome.iterations));
        unconverged += u32::from(!outcome.converged);
        wrong += u32::from(observables != shot.observables);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let total: u64 = iterations.iter().sum();
    iterations.sort_unstable();
    nanoseconds.sort_unstable();
    let rank = |sorted: &[u64], share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    println!(
        "{{\"checks\": {}, \"columns\": {}, \"edges\": {}, \"shots\": {}, \"solutions\": {solutions}, \"lanes\": {lanes}, \"shots_per_s\": {:.1}, \
         \"us_per_iteration\": {:.3}, \"errors\": {wrong}, \"unconverged\": {unconverged}, \"iterations\": {{\"mean\": {:.2}, \
         \"p50\": {}, \"p99\": {}, \"max\": {}}}, \"us\": {{\"p50\": {:.1}, \"p99\": {:.1}, \"p999\": {:.1}}}}}",
        graph.num_checks(),
        graph.num_columns(),
        graph.num_edges(),
        shots.len(),
        shots.len() as f64 / seconds,
        seconds * 1e6 / total as f64,
        total as f64 / shots.len() as f64,
        rank(&iterations, 0.5),
        rank(&iterations, 0.99),
        rank(&iterations, 1.0),
        rank(&nanoseconds, 0.5) as f64 / 1e3,
        rank(&nanoseconds, 0.99) as f64 / 1e3,
        rank(&nanoseconds, 0.999) as f64 / 1e3,
    );
    Ok(())
}
