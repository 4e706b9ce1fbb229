//! Times plain and correlated matching on a detector error model and shots: `correlated_time DEM SHOTS.b8 [REPEATS [plain|correlated|both [observables [ANSWERS]]]]`.
//!
//! `tests/data/decode/correlated_time.py` makes both files, and runs this in turns with PyMatching. All shots are
//! decoded REPEATS (5) times; the CPU time is printed, in us a shot, with that of making the decoder. With `observables`, decoders are for
//! these alone, as `decode_batch` is without weights. ANSWERS is a file for the observables and the weight of every shot, by which two builds are
//! compared.

#[path = "common/cpu_time.rs"]
mod cpu_time;

use cpu_time::cpu_time;
use std::error::Error;
use std::io::Write;

use ringcall_qec::decode::{Decoder, DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
use ringcall_qec::dem::text;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "correlated_time DEM SHOTS.b8 [REPEATS [plain|correlated|both [observables [ANSWERS]]]]";
    let (dem, shots) = (args.next().ok_or(usage)?, args.next().ok_or(usage)?);
    let repeats = args.next().map_or(Ok(5), |n| n.parse::<usize>())?;
    let engines = match args.next().as_deref() {
        None | Some("both") => vec![MatchingEngine::SparseBlossom, MatchingEngine::CorrelatedBlossom],
        Some("plain") => vec![MatchingEngine::SparseBlossom],
        Some("correlated") => vec![MatchingEngine::CorrelatedBlossom],
        Some(_) => return Err(usage.into()),
    };
    let observables_only = args.next().as_deref() == Some("observables");
    let mut answers = args.next().map(std::fs::File::create).transpose()?.map(std::io::BufWriter::new);
    let model = text::parse(&std::fs::read_to_string(dem)?)?;
    let bytes = std::fs::read(shots)?;
    let width = (model.num_detectors as usize).div_ceil(8);
    let shots: Vec<Vec<u32>> = bytes
        .chunks_exact(width)
        .map(|row| (0..model.num_detectors).filter(|&d| row[d as usize / 8] >> (d % 8) & 1 == 1).collect())
        .collect();
    let mut observables = vec![0; (model.num_observables as usize).div_ceil(8)];
    let mut out = std::io::stdout().lock();
    for engine in engines {
        let begin = cpu_time()?;
        let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
        let make = if observables_only { MatchingDecoder::for_observables } else { MatchingDecoder::new };
        let mut decoder = make(&graph, engine)?;
        let made = cpu_time()? - begin;
        let (begin, mut weight) = (cpu_time()?, 0.0);
        for _ in 0..repeats {
            weight = 0.0;
            for defects in &shots {
                weight += decoder.decode(defects, &mut observables)?.weight;
            }
        }
        let each = (cpu_time()? - begin) / (repeats * shots.len().max(1)) as f64;
        if let Some(answers) = &mut answers {
            for defects in &shots {
                let weight = decoder.decode(defects, &mut observables)?.weight;
                answers.write_all(&observables)?;
                answers.write_all(&weight.to_le_bytes())?;
            }
        }
        write!(out, "{engine:?} {:.3} us, made in {made:.3} s, weight {weight:.4}; ", each * 1e6)?;
    }
    writeln!(out)?;
    Ok(())
}
