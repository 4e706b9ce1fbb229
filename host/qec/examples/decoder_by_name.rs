//! Decoders by name: ours, and one of this program's own, on shots of the surface code.
//!
//! ```sh
//! cargo run --release -p ringcall-qec --example decoder_by_name -- pymatching
//! cargo run --release -p ringcall-qec --example decoder_by_name -- nothing
//! ```

#![allow(clippy::print_stdout)] // a program: standard output is its user interface

use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{DecodeError, Decoder, DecoderFactory, DecoderInput, Matched, Params, Registry};
use ringcall_qec::sample::Sampler;
use std::sync::Arc;

/// Predicts that no observable flipped: any other decoder is better.
#[derive(Clone, Copy)]
struct Nothing {
    detectors: u32,
    observables: u32,
}

impl Decoder for Nothing {
    fn num_detectors(&self) -> u32 {
        self.detectors
    }

    fn num_observables(&self) -> u32 {
        self.observables
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        observables.fill(0);
        Ok(Matched {
            weight: 0.0,
            corrections: 0,
            converged: defects.is_empty(),
            late: false,
            confidence: None,
        })
    }
}

impl DecoderFactory for Nothing {
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        Ok(Box::new(*self))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::new();
    registry.register("nothing", |input, params| {
        params.expect(&[])?;
        let (detectors, observables) = match input {
            DecoderInput::Model(model) => (model.num_detectors, model.num_observables),
            DecoderInput::Checks { rows, .. } => (rows.len() as u32, 0),
        };
        Ok(Arc::new(Nothing { detectors, observables }))
    })?;
    let name = std::env::args().nth(1).unwrap_or_else(|| "pymatching".to_owned());
    let noise = CircuitNoise::uniform(0.005);
    let model = MemoryExperiment { distance: 5, rounds: 5, basis: Basis::Z, noise }.detector_error_model()?;
    let mut decoder = registry.get(&name, DecoderInput::Model(&model), &Params::new())?.build()?;
    let mut sampler = Sampler::new(&model, 1)?;
    let (mut shot, mut defects, mut errors) = (sampler.new_shot(), Vec::new(), 0);
    let shots = 10_000;
    for _ in 0..shots {
        sampler.sample_into(&mut shot)?;
        defects.clear();
        shot.detectors.ones_into(&mut defects);
        let mut predicted = [0];
        decoder.decode(&defects, &mut predicted)?;
        errors += u32::from(predicted[0] & 1 != shot.observables.words()[0] as u8 & 1);
    }
    println!("{name}: {errors} logical errors in {shots} shots");
    Ok(())
}
