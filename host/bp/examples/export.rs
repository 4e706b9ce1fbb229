//! A problem, its shots and their answers as one file of 32-bit words, which programs for other machines check themselves against.
//!
//! ```sh
//! cargo run --release -p ringcall-bp --example export -- PROBLEM SHOTS SOLUTIONS LANES LIMIT OUT
//! ```
//!
//! PROBLEM and SHOTS are as `decode_bench` describes them. All words are little-endian. The file has a header (`RBP1`, checks,
//! observables, columns, shots, and the configuration's numbers in the order of its fields); for each column its prior, its
//! number of checks, the checks, its number of observables, the observables; for each shot its number of defects, the defects,
//! converged, solutions, iterations, weight, the 32 first observables as bits, the number of the error's columns, the columns.
#![allow(clippy::print_stdout)]

use std::error::Error;

use ringcall_bp::{BpConfig, BpDecoder};

#[allow(dead_code)]
#[path = "common/files.rs"]
mod files;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [problem, shots, solutions, lanes, limit, out] = &arguments[..] else {
        return Err("usage: export PROBLEM SHOTS SOLUTIONS LANES LIMIT OUT".into());
    };
    let graph = files::problem(problem)?;
    let mut shots = files::shots(shots, graph.observable_bytes())?;
    shots.truncate(limit.parse()?);
    let config = BpConfig { solutions: solutions.parse()?, lanes: lanes.parse()?, ..BpConfig::relay() };
    let mut decoder = BpDecoder::new(&graph, &config)?;

    let mut words = vec![u32::from_le_bytes(*b"RBP1")];
    let counts = [graph.num_checks(), graph.num_observables(), graph.num_columns(), shots.len()];
    words.extend(counts.map(|count| count as u32));
    words.extend(
        [config.first_memory, config.memory.0, config.memory.1, config.damping].map(|g| i32::from(g) as u32),
    );
    words.extend([config.first_iterations, config.leg_iterations, config.legs, config.solutions]);
    words.extend([config.max_iterations, config.seed, config.lanes, config.lane_delay]);
    let list = |words: &mut Vec<u32>, items: &[u32]| {
        words.push(items.len() as u32);
        words.extend_from_slice(items);
    };
    for column in 0..graph.num_columns() {
        words.push(graph.priors()[column].into());
        list(&mut words, graph.column_checks(column));
        list(&mut words, graph.column_observables(column));
    }
    let mut observables = vec![0; graph.observable_bytes()];
    let mut wrong = 0;
    for shot in &shots {
        let outcome = decoder.decode(&shot.defects, &mut observables)?;
        wrong += u32::from(observables != shot.observables);
        list(&mut words, &shot.defects);
        let bits = observables.iter().take(4).rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        words.extend([outcome.converged.into(), outcome.solutions, outcome.iterations, outcome.weight, bits]);
        list(&mut words, decoder.error());
    }
    std::fs::write(out, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())?;
    println!("{} shots, {wrong} logical errors", shots.len());
    Ok(())
}
