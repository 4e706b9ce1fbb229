//! The GPU kernel's tables of a problem, its shots and their answers as one file of 32-bit words, for programs that check the kernel.
//!
//! ```sh
//! cargo run --release -p ringcall-bp --example export -- PROBLEM SHOTS SOLUTIONS LANES LIMIT SHAPE OUT
//! ```
//!
//! PROBLEM and SHOTS are as `relay_bp_bench` describes them; SHAPE is a name in `ringcall_bp::kernel`. All words are little-endian. The file has
//! a header (`RBP2`, checks, observables, columns, shots, and the configuration's numbers in the order of its fields); the number of the
//! tables' words, the tables; for each shot its number of defects, the defects, converged, solutions, iterations, weight, the 32 first
//! observables as bits, the number of the error's columns, the columns.
#![allow(clippy::print_stdout)]

use std::error::Error;

use ringcall_bp::BpConfig;
use ringcall_bp::kernel::{MEASURED, SHAPES, Tables};

#[allow(dead_code)]
#[path = "common/files.rs"]
mod files;
#[path = "common/words.rs"]
#[allow(unreachable_pub)]
mod words;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [problem, shots, solutions, lanes, limit, shape, out] = &arguments[..] else {
        return Err("usage: export PROBLEM SHOTS SOLUTIONS LANES LIMIT SHAPE OUT".into());
    };
    let graph = files::problem(problem)?;
    let mut shots = files::shots(shots, graph.observable_bytes())?;
    shots.truncate(limit.parse()?);
    let config = BpConfig { solutions: solutions.parse()?, lanes: lanes.parse()?, ..BpConfig::relay() };
    let defects: Vec<Vec<u32>> = shots.iter().map(|shot| shot.defects.clone()).collect();
    let mut wrong = 0;
    let shape = SHAPES.iter().chain(&MEASURED).find(|known| known.name == shape).ok_or("no such shape")?;
    let tables = Tables::new(&graph, shape)?;
    let bytes = words::file(&graph, &tables, &config, &defects, |shot, observables| {
        wrong += u32::from(observables != shots[shot].observables);
    })?;
    std::fs::write(out, bytes)?;
    println!("{} shots, {wrong} logical errors", shots.len());
    Ok(())
}
