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

use ringcall_bp::BpConfig;

#[allow(dead_code)]
#[path = "common/files.rs"]
mod files;
#[path = "common/words.rs"]
#[allow(unreachable_pub)]
mod words;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [problem, shots, solutions, lanes, limit, out] = &arguments[..] else {
        return Err("usage: export PROBLEM SHOTS SOLUTIONS LANES LIMIT OUT".into());
    };
    let graph = files::problem(problem)?;
    let mut shots = files::shots(shots, graph.observable_bytes())?;
    shots.truncate(limit.parse()?);
    let config = BpConfig { solutions: solutions.parse()?, lanes: lanes.parse()?, ..BpConfig::relay() };
    let defects: Vec<Vec<u32>> = shots.iter().map(|shot| shot.defects.clone()).collect();
    let mut wrong = 0;
    let bytes = words::file(&graph, &config, &defects, |shot, observables| {
        wrong += u32::from(observables != shots[shot].observables);
    })?;
    std::fs::write(out, bytes)?;
    println!("{} shots, {wrong} logical errors", shots.len());
    Ok(())
}
