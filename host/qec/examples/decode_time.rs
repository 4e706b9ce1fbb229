//! Times the matching decoder shot by shot: `decode_time [NAME...]`, all experiments by default.
//!
//! The shots are those on which `tests/data/decode/time_pymatching.py` times PyMatching. `dense` is the time from
//! packed bits to packed bits, `sparse` the time from a list of defects.

use std::io::Write;
use std::time::Instant;

use ringcall_qec::decode::{Decoder, MatchingDecoder, ShotDecoder};
use ringcall_qec::sample::Sampler;

#[path = "../tests/cases/mod.rs"]
mod cases;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for case in cases::MEMORY {
        if !wanted.is_empty() && !wanted.contains(&case.name()) {
            continue;
        }
        let model = case.model()?;
        let mut sampler = Sampler::new(&model, case.seed())?;
        let mut decoder = ShotDecoder::new(MatchingDecoder::from_dem(&model)?);
        let mut shots = vec![sampler.new_shot(); cases::SHOTS];
        for shot in &mut shots {
            sampler.sample_into(shot)?;
        }
        let mut predicted = shots[0].observables.clone();
        for shot in &shots[..200] {
            decoder.decode(&shot.detectors, &mut predicted)?;
        }
        let (mut dense, mut sparse) = (Vec::new(), Vec::new());
        for shot in &shots {
            let start = Instant::now();
            decoder.decode(&shot.detectors, &mut predicted)?;
            dense.push(start.elapsed());
        }
        let mut observables = vec![0; (model.num_observables as usize).div_ceil(8)];
        for shot in &shots {
            let defects: Vec<u32> = shot.detectors.iter_ones().collect();
            let start = Instant::now();
            decoder.get_mut().decode(&defects, &mut observables)?;
            sparse.push(start.elapsed());
        }
        let mut out = std::io::stdout().lock();
        write!(out, "{}", case.name())?;
        for (name, times) in [("dense", &mut dense), ("sparse", &mut sparse)] {
            times.sort_unstable();
            let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
            write!(out, "  {name} p50 {:8.2} us  p99 {:8.2} us", at(50), at(99))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
