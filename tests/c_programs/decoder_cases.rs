//! Models and shots for `programs/decoder_answers.c`, with this library's answers and PyMatching's weights, which are committed beside the crates
//! that they are of.
//!
//! Numbers are apart by blanks, reals are their bits in hexadecimal. Answers: how many shots; with a stream, each detector's round;
//! each shot: how many detectors fired, which, the weight, the observables as a word, PyMatching's weight; then how many shots may
//! have another weight than PyMatching's: with correlations it follows from the first pass, which has ties.

use ringcall_qec::decode::{Decoder, DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::sample::Sampler;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[allow(dead_code)] // of the tests that it is of
#[path = "../../host/matching/tests/common/correlated.rs"]
mod correlated;
#[path = "../../host/qec/tests/cases/mod.rs"]
mod memory;
#[allow(dead_code)]
#[path = "../../host/matching/tests/common/mod.rs"]
mod plain;

/// The arguments of the program.
pub(crate) struct Case {
    pub(crate) arguments: Vec<String>,
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path of words").to_owned()
}

fn case(folder: &Path, kind: &str, model: &str, answers: &str, stream: bool) -> Case {
    let mut arguments = vec![kind.to_owned(), file(folder, "model", model), file(folder, "answers", answers)];
    arguments.extend(stream.then(|| "stream".to_owned()));
    Case { arguments }
}

fn bits(value: f64) -> String {
    format!("{:x}", value.to_bits())
}

/// A shot's line, with our answer.
fn line(decoder: &mut MatchingDecoder, defects: &[u32], theirs: f64) -> String {
    let mut observables = [0];
    let matched = decoder.decode(defects, &mut observables).expect("a correction");
    let list: String = defects.iter().map(|defect| format!("{defect} ")).collect();
    format!("{} {list}{} {} {}\n", defects.len(), bits(matched.weight), observables[0], bits(theirs))
}

fn decoder(model: &DetectorErrorModel, engine: MatchingEngine) -> MatchingDecoder {
    let graph = DecodingGraph::from_dem(model, ParallelEdges::Independent).expect("a graph");
    MatchingDecoder::new(&graph, engine).expect("a decoder")
}

/// A memory experiment of distance 5, with coordinates.
pub(crate) fn memory_experiment(folder: &Path) -> Case {
    let case = &memory::MEMORY[1];
    let model = case.model().expect("a model");
    let path = format!("{}/../qec/tests/data/decode/{}.memory.bin", env!("CARGO_MANIFEST_DIR"), case.name());
    let data = std::fs::read(&path).expect("the answers");
    let scale = f64::from_le_bytes(data[8..16].try_into().expect("eight bytes"));
    let mut sampler = Sampler::new(&model, case.seed()).expect("a sampler");
    let mut decoder = decoder(&model, MatchingEngine::SparseBlossom);
    let mut shot = sampler.new_shot();
    let mut answers = format!("{}\n", memory::SHOTS);
    for round in model.rounds().expect("coordinates") {
        let _ = write!(answers, "{round} ");
    }
    for number in 0..memory::SHOTS {
        sampler.sample_into(&mut shot).expect("a shot");
        let defects: Vec<u32> = shot.detectors.iter_ones().collect();
        let steps = u32::from_le_bytes(data[16 + 4 * number..][..4].try_into().expect("four bytes"));
        answers += &line(&mut decoder, &defects, f64::from(steps) / scale);
    }
    self::case(folder, "plain", &model.to_string(), &(answers + "0\n"), true)
}

/// Circuits as check matrices with priors.
pub(crate) fn matrices(folder: &Path) -> Vec<Case> {
    let lines = include_str!("../../host/matching/tests/data/circuits.txt").lines().enumerate();
    lines
        .map(|(number, text)| {
            let folder = folder.join(number.to_string());
            std::fs::create_dir(&folder).expect("a folder");
            let (graph, shots) = plain::parse(text);
            let (detectors, observables) = (graph.num_detectors() as u32, graph.num_observables() as u32);
            let mut matrix = format!("{detectors} {observables} {}\n", graph.num_edges());
            let mut ours = DecodingGraph::new(detectors, observables, ParallelEdges::Independent);
            for edge in graph.edges() {
                let p = edge.probability.expect("a probability");
                let ends: Vec<u32> = [Some(edge.u), edge.v].into_iter().flatten().collect();
                let _ = write!(matrix, "{}", bits(p));
                for list in [&ends, &edge.observables] {
                    let _ = write!(matrix, " {}", list.len());
                    list.iter().for_each(|row| {
                        let _ = write!(matrix, " {row}");
                    });
                }
                matrix.push('\n');
                ours.add_edge(edge.u, edge.v, ((1.0 - p) / p).ln(), &edge.observables).expect("an edge");
            }
            let mut decoder = MatchingDecoder::new(&ours, MatchingEngine::SparseBlossom).expect("a decoder");
            let mut answers = format!("{}\n", shots.len());
            for shot in &shots {
                let (theirs, _) = shot.answer.as_ref().expect("a correction");
                answers += &line(&mut decoder, &shot.defects, *theirs);
            }
            case(&folder, "matrix", &matrix, &(answers + "0\n"), false)
        })
        .collect()
}

/// A circuit of distance 5 whose errors have several parts.
pub(crate) fn correlated_circuit(folder: &Path) -> Case {
    let text = include_str!("../../host/matching/tests/data/correlated_circuits.txt");
    let (model, shots) = correlated::parse(text.lines().nth(1).expect("a second circuit"));
    let mut dem = String::new();
    for (p, parts) in &model.errors {
        let part = |(detectors, observables): &(Vec<u32>, Vec<u32>)| {
            let detectors = detectors.iter().map(|detector| format!(" D{detector}"));
            detectors.chain(observables.iter().map(|index| format!(" L{index}"))).collect::<String>()
        };
        let _ = writeln!(dem, "error({p:e}){}", parts.iter().map(part).collect::<Vec<_>>().join(" ^"));
    }
    let parsed: DetectorErrorModel = dem.parse().expect("a model");
    let mut decoder = decoder(&parsed, MatchingEngine::CorrelatedBlossom);
    let mut answers = format!("{}\n", shots.len());
    for shot in &shots {
        let theirs = shot.answer.as_ref().expect("a correction").weight;
        answers += &line(&mut decoder, &shot.defects, theirs);
    }
    let ties = shots.len() / 20;
    case(folder, "correlated", &dem, &format!("{answers}{ties}\n"), false)
}
