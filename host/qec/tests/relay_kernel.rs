//! The GPU's belief propagation kernel, its phases run one thread after another on a CPU, against `ringcall-bp` on the same shots.
#![allow(clippy::print_stdout)]

use ringcall_bp::{BpConfig, BpGraphBuilder};
use ringcall_qec::circuit::{BicycleMemory, DetectorBases, OperationNoise};
use ringcall_qec::code::{Basis, BicycleCode};
use ringcall_qec::sample::Sampler;
use std::path::Path;
use std::process::Command;

#[allow(unreachable_pub)]
#[path = "../../bp/examples/common/words.rs"]
mod words;

const SHOTS: usize = 60;

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
    for (shape, solutions) in [("bb72_8", 1), ("bb72_8n", 5)] {
        let config = BpConfig { solutions, ..BpConfig::relay() };
        let problem = folder.path().join(shape);
        std::fs::write(&problem, words::file(&graph, &config, &shots, |_, _| ()).unwrap()).unwrap();
        let output = Command::new(&program).arg(shape).arg(&problem).arg(SHOTS.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("0 of 60 answers differ"), "{shape}: {text}");
    }
    println!("ran");
}
