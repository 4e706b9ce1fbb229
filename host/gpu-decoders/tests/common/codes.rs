//! Memory experiments, their shots, and the answers of `ringcall-bp`.

use ringcall_bp::{BpConfig, BpDecoder, BpGraph, BpGraphBuilder};
use ringcall_gpu_decoders::relay_bp::{Answer, Ended};
use ringcall_qec::circuit::{Code, Experiment};
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::sample::Sampler;

/// How much a test does: a variable of the environment, or a number that is soon done.
pub(crate) fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

pub(crate) fn model(code: Code) -> DetectorErrorModel {
    model_of(Experiment::of(code))
}

/// The experiment's model at p = 0.003.
pub(crate) fn model_of(experiment: Experiment) -> DetectorErrorModel {
    Experiment { p: 0.003, ..experiment }.detector_error_model().expect("an experiment")
}

pub(crate) fn graph_of(model: &DetectorErrorModel) -> BpGraph {
    let mut builder = BpGraphBuilder::new(model.num_detectors, model.num_observables);
    for error in &model.mechanisms {
        builder.error(error.probability, &error.detectors, &error.observables).expect("in range");
    }
    builder.build().expect("small")
}

/// Defects of sampled shots.
pub(crate) fn shots(model: &DetectorErrorModel, seed: u64, count: usize) -> Vec<Vec<u32>> {
    let mut sampler = Sampler::new(model, seed).expect("a model");
    let mut shot = sampler.new_shot();
    let mut next = || {
        sampler.sample_into(&mut shot).expect("a shot");
        let mut defects = Vec::new();
        shot.detectors.ones_into(&mut defects);
        defects
    };
    (0..count).map(|_| next()).collect()
}

/// A request's bytes.
pub(crate) fn packed(checks: usize, defects: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; checks.div_ceil(8)];
    for &defect in defects {
        bytes[defect as usize / 8] |= 1 << (defect % 8);
    }
    bytes
}

/// The CPU's answers, decoded by two threads.
pub(crate) fn owed(graph: &BpGraph, config: &BpConfig, shots: &[Vec<u32>]) -> Vec<Answer> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let part = |shots: &[Vec<u32>]| {
            let mut decoder = BpDecoder::new(graph, config).expect("a decoder");
            let mut observables = vec![0; graph.observable_bytes()];
            shots.iter().map(|defects| answer(&mut decoder, defects, &mut observables)).collect::<Vec<_>>()
        };
        let chunk = shots.len().div_ceil(threads).max(1);
        let parts: Vec<_> = shots.chunks(chunk).map(|shots| scope.spawn(move || part(shots))).collect();
        parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect()
    })
}

fn answer(decoder: &mut BpDecoder, defects: &[u32], observables: &mut [u8]) -> Answer {
    let outcome = decoder.decode(defects, observables).expect("in range");
    let explicable = outcome.converged || outcome.iterations > 0;
    Answer {
        observables: observables.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte)),
        corrections: decoder.error().len() as u32,
        iterations: outcome.iterations,
        weight: outcome.weight,
        solutions: outcome.solutions,
        ended: match (outcome.converged, explicable) {
            (true, _) => Ended::Converged,
            (false, true) => Ended::Exhausted,
            (false, false) => Ended::Inexplicable,
        },
    }
}
