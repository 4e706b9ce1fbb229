//! Logical errors and times of Relay-BP's settings on the same shots of a bicycle code: solutions, iterations, ordered statistics.
//!
//! ```sh
//! cargo run --release -p ringcall-qec --example relay_settings -- bb144 12 0.003 SEED SECONDS SOLUTIONS:ITERATIONS:ORDER ...
//! ```
//!
//! ITERATIONS is the most of a shot, `all` as published, or `plain` for 100 iterations of min-sum without memory and legs. ORDER is `none`,
//! `0` or `cs:K`. Memory in the Z basis with detectors of that basis. Every setting decodes each shot in turn, until the time is
//! over.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use ringcall_qec::circuit::{BicycleMemory, DetectorBases, OperationNoise};
use ringcall_qec::code::{Basis, BicycleCode};
use ringcall_qec::decode::{BpConfig, RelayDecoder, ShotDecoder};
use ringcall_qec::sample::Sampler;

struct Arm {
    name: String,
    decoder: ShotDecoder<RelayDecoder>,
    wrong: u32,
    /// Shots that no leg explained.
    open: u32,
    nanoseconds: Vec<u64>,
    /// Those of shots that no leg explained.
    left: Duration,
}

fn config(text: &str) -> Result<BpConfig, Box<dyn Error>> {
    let [solutions, iterations, order] = text.splitn(3, ':').collect::<Vec<_>>()[..] else {
        return Err("a setting is SOLUTIONS:ITERATIONS:ORDER".into());
    };
    let base = match iterations {
        "plain" => BpConfig::min_sum(100),
        "all" => BpConfig::relay(),
        most => BpConfig { max_iterations: most.parse()?, ..BpConfig::relay() },
    };
    let ordered_statistics = if order == "none" { None } else { Some(order.parse()?) };
    Ok(BpConfig { solutions: solutions.parse()?, ordered_statistics, ..base })
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [code, rounds, p, seed, seconds, settings @ ..] = &arguments[..] else {
        return Err("usage: relay_settings CODE ROUNDS P SEED SECONDS SETTING ...".into());
    };
    let code = BicycleCode::named(code)?;
    let (detectors, noise) = (DetectorBases::Memory, OperationNoise::uniform(p.parse()?));
    let memory = BicycleMemory { code: &code, rounds: rounds.parse()?, basis: Basis::Z, detectors, noise };
    let model = memory.detector_error_model()?;
    let mut sampler = Sampler::new(&model, seed.parse()?)?;
    let mut shot = sampler.new_shot();
    let mut predicted = shot.observables.clone();
    let mut arms = Vec::new();
    for text in settings {
        let decoder = ShotDecoder::new(RelayDecoder::from_dem(&model, &config(text)?)?);
        let (name, nanoseconds) = (text.clone(), Vec::new());
        arms.push(Arm { name, decoder, wrong: 0, open: 0, nanoseconds, left: Duration::ZERO });
    }
    let (begun, most) = (Instant::now(), Duration::from_secs(seconds.parse()?));
    while begun.elapsed() < most {
        sampler.sample_into(&mut shot)?;
        for arm in &mut arms {
            let one = Instant::now();
            let _ = arm.decoder.decode(&shot.detectors, &mut predicted)?;
            let time = one.elapsed();
            let open = arm.decoder.get_mut().outcome().is_some_and(|outcome| outcome.solutions == 0);
            arm.nanoseconds.push(time.as_nanos() as u64);
            arm.wrong += u32::from(predicted != shot.observables);
            arm.open += u32::from(open);
            arm.left += if open { time } else { Duration::ZERO };
        }
    }
    for arm in &mut arms {
        arm.nanoseconds.sort_unstable();
        let (name, shots) = (&arm.name, arm.nanoseconds.len());
        let at = |share: f64| arm.nanoseconds[((shots - 1) as f64 * share) as usize] as f64 / 1e3;
        let mean = arm.nanoseconds.iter().sum::<u64>() as f64 / shots as f64 / 1e3;
        println!(
            "{name}: {shots} shots, {} wrong, {} unexplained by legs ({:.0} us each); mean {mean:.0} us, p50 {:.0}, p99 {:.0}, max {:.0}",
            arm.wrong,
            arm.open,
            arm.left.as_secs_f64() * 1e6 / f64::from(arm.open.max(1)),
            at(0.5),
            at(0.99),
            at(1.0),
        );
    }
    Ok(())
}
