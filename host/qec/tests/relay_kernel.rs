//! The GPU's belief propagation kernel, its phases run one thread after another on a CPU with the tables of `ringcall_bp::kernel`,
//! against `ringcall-bp` on the same shots.
#![allow(clippy::print_stdout)]

use ringcall_bp::kernel::{SHAPES, Tables};
use ringcall_bp::{BpConfig, BpGraph, BpGraphBuilder};
use ringcall_qec::circuit::{BicycleMemory, DetectorBases, OperationNoise};
use ringcall_qec::code::{Basis, BicycleCode};
use ringcall_qec::sample::Sampler;
use std::path::Path;
use std::process::Command;

#[allow(unreachable_pub)]
#[path = "../../bp/examples/common/words.rs"]
mod words;

const SHOTS: usize = 30;

#[test]
fn phases_of_the_kernel_give_the_decoders_answers_to_the_bit() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-cu/relay");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("emulate");
    let mut compile = Command::new("c++");
    compile.args(["-std=c++20", "-O1", "-o"]).arg(&program).arg(sources.join("emulate.cpp"));
    match compile.status() {
        Ok(status) => assert!(status.success(), "emulate.cpp does not compile"),
        Err(error) => return println!("skipped: no C++ compiler `c++`: {error}"),
    }

    let code = BicycleCode::named("bb72").unwrap();
    let (detectors, noise) = (DetectorBases::Memory, OperationNoise::uniform(0.003));
    let memory = BicycleMemory { code: &code, rounds: 6, basis: Basis::Z, detectors, noise };
    let model = memory.detector_error_model().unwrap();
    let mut builder = BpGraphBuilder::new(model.num_detectors, model.num_observables);
    for error in &model.mechanisms {
        builder.error(error.probability, &error.detectors, &error.observables).unwrap();
    }
    let graph = builder.build().unwrap();
    let mut sampler = Sampler::new(&model, 3).unwrap();
    let mut shot = sampler.new_shot();
    let mut shots = Vec::new();
    for _ in 0..SHOTS {
        sampler.sample_into(&mut shot).unwrap();
        let mut defects = Vec::new();
        shot.detectors.ones_into(&mut defects);
        shots.push(defects);
    }
    let (odd_graph, odd_shots) = long_columns();
    for (number, shape) in SHAPES.iter().enumerate() {
        // An emulated iteration of 16 blocks takes a while.
        let (graph, solutions, max_iterations, shots) = match number {
            0 => (&graph, 5, u32::MAX, &shots[..]),
            4 => (&odd_graph, 2, 150, &odd_shots[..]),
            _ => (&graph, 1, u32::MAX, &shots[..6]),
        };
        let config = BpConfig { solutions, max_iterations, ..BpConfig::relay() };
        let problem = folder.path().join(shape.name);
        let tables = Tables::new(graph, shape).unwrap();
        std::fs::write(&problem, words::file(graph, &tables, &config, shots, |_, _| ()).unwrap()).unwrap();
        let output =
            Command::new(&program).arg(shape.name).arg(&problem).arg(SHOTS.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let equal = text.contains(&format!("0 of {} answers differ", shots.len()));
        assert!(output.status.success() && equal, "{}: {text}{output:?}", shape.name);
    }
    println!("ran");
}

/// Columns of up to 8 checks, priors down to the least, a check without columns, and syndromes that nothing explains.
fn long_columns() -> (BpGraph, Vec<Vec<u32>>) {
    let mut builder = BpGraphBuilder::new(61, 20);
    for number in 0..400_u32 {
        let checks: Vec<u32> = (0..=number % 8).map(|k| (number * 7 + k * (3 + number % 5)) % 60).collect();
        let probability = if number % 50 == 0 { 0.5 } else { 0.001 * f64::from(number % 9 + 1) };
        builder.error(probability, &checks, &[number % 20]).unwrap();
    }
    let shots = (0..10).map(|shot| (0..61).filter(|check| (check * 5 + shot * 3) % 11 < shot % 4).collect());
    (builder.build().unwrap(), shots.chain([vec![60], vec![]]).collect())
}
