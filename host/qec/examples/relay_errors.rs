//! Which shots of a bicycle code Relay-BP decodes wrongly, with other settings on the same shots.
//!
//! ```sh
//! cargo run --release -p ringcall-qec --example relay_errors -- bb144 12 z 0.003 SEED SECONDS wrong|all SETTING ...
//! ```
//!
//! A setting is `published`, or changes to the published ones with commas between them: `solutions=5`, `legs=600`, `leg=60` (iterations
//! of a leg), `first=80` (of leg 0), `gamma0=16`, `low=-31`, `high=84` (in 128ths), `seed=1`, `osd=cs:10`. The first setting decodes
//! every shot. The others decode `all` of them, or those that the first one decodes wrongly (`wrong`), which takes little time where
//! wrong shots are rare, and says how many of them a setting mends, but not which others it decodes wrongly.
//!
//! A wrong answer is `unexplained` (no leg converged), `lighter` (than the error that happened, or as light: a better search would not have
//! helped) or `heavier` (the search missed a lighter error). Prints one line of JSON.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_qec::circuit::{BicycleMemory, DetectorBases, OperationNoise};
use ringcall_qec::code::{Basis, BicycleCode};
use ringcall_qec::decode::{BpConfig, Decoder, RelayDecoder};

/// Draws errors of a graph: a random number against a threshold for each column.
struct Errors {
    rng: SplitMix64,
    thresholds: Vec<u64>,
}

impl Errors {
    fn draw(&mut self, columns: &mut Vec<usize>) {
        columns.clear();
        for column in 0..self.thresholds.len() {
            if self.rng.next_u64() < self.thresholds[column] {
                columns.push(column);
            }
        }
    }
}

/// Wrong answers by kind.
#[derive(Default, Clone, Copy)]
struct Wrong {
    unexplained: u32,
    lighter: u32,
    heavier: u32,
}

impl Wrong {
    fn all(self) -> u32 {
        self.unexplained + self.lighter + self.heavier
    }

    fn json(self) -> String {
        let Self { unexplained, lighter, heavier } = self;
        format!(
            "{{\"all\": {}, \"unexplained\": {unexplained}, \"lighter\": {lighter}, \"heavier\": {heavier}}}",
            self.all()
        )
    }
}

struct Arm {
    name: String,
    decoder: RelayDecoder,
    wrong: Wrong,
    decoded: u32,
    time: Duration,
}

fn config(text: &str) -> Result<BpConfig, Box<dyn Error>> {
    let mut config = BpConfig::relay();
    for change in text.split(',').filter(|&change| change != "published") {
        let (key, value) = change.split_once('=').ok_or("a change is KEY=VALUE")?;
        match key {
            "solutions" => config.solutions = value.parse()?,
            "legs" => config.legs = value.parse()?,
            "leg" => config.leg_iterations = value.parse()?,
            "first" => config.first_iterations = value.parse()?,
            "gamma0" => config.first_memory = value.parse()?,
            "low" => config.memory.0 = value.parse()?,
            "high" => config.memory.1 = value.parse()?,
            "seed" => config.seed = value.parse()?,
            "osd" => config.ordered_statistics = Some(value.parse()?),
            _ => return Err(format!("no setting is called {key}").into()),
        }
    }
    Ok(config)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [code, rounds, basis, p, seed, seconds, others, settings @ ..] = &arguments[..] else {
        return Err("usage: relay_errors CODE ROUNDS BASIS P SEED SECONDS wrong|all SETTING ...".into());
    };
    let code_of = BicycleCode::named(code)?;
    let basis_of = if basis == "x" { Basis::X } else { Basis::Z };
    let (detectors, noise) = (DetectorBases::Memory, OperationNoise::uniform(p.parse()?));
    let memory = BicycleMemory { code: &code_of, rounds: rounds.parse()?, basis: basis_of, detectors, noise };
    let model = memory.detector_error_model()?;
    let mut arms = Vec::new();
    for text in settings {
        let decoder = RelayDecoder::from_dem(&model, &config(text)?)?;
        let (name, wrong) = (text.clone(), Wrong::default());
        arms.push(Arm { name, decoder, wrong, decoded: 0, time: Duration::ZERO });
    }
    let first = arms.first().ok_or("give a setting")?;
    let graph = first.decoder.engine().graph().clone();
    let thresholds = graph.probabilities().iter().map(|p| (p * 2f64.powi(64)) as u64).collect();
    let state = seed.parse::<u64>()?.wrapping_mul(0xD134_2543_DE82_EF95);
    let mut errors = Errors { rng: SplitMix64::seed_from_u64(state), thresholds };
    let all = match others.as_str() {
        "all" => true,
        "wrong" => false,
        _ => return Err("the other settings decode `wrong` or `all` shots".into()),
    };
    let (mut columns, mut fired) = (Vec::new(), vec![false; graph.num_checks()]);
    let mut predicted = vec![0; graph.observable_bytes()];
    let (begun, most) = (Instant::now(), Duration::from_secs(seconds.parse()?));
    while begun.elapsed() < most {
        errors.draw(&mut columns);
        let mut truth = vec![0; graph.observable_bytes()];
        fired.fill(false);
        for &column in &columns {
            graph.column_checks(column).iter().for_each(|&check| fired[check as usize] ^= true);
            graph.column_observables(column).iter().for_each(|&o| truth[o as usize / 8] ^= 1 << (o % 8));
        }
        let defects: Vec<u32> =
            (0..).zip(&fired).filter_map(|(check, &fired)| fired.then_some(check)).collect();
        let weight: f64 = columns.iter().map(|&column| f64::from(graph.priors()[column]) / 8.0).sum();
        for (at, arm) in arms.iter_mut().enumerate() {
            let one = Instant::now();
            let matched = arm.decoder.decode(&defects, &mut predicted)?;
            arm.time += one.elapsed();
            arm.decoded += 1;
            let wrong = predicted != truth;
            arm.wrong.unexplained += u32::from(wrong && !matched.converged);
            arm.wrong.lighter += u32::from(wrong && matched.converged && matched.weight <= weight);
            arm.wrong.heavier += u32::from(wrong && matched.converged && matched.weight > weight);
            if at == 0 && !wrong && !all {
                break;
            }
        }
    }
    let mut rows = Vec::new();
    for Arm { name, wrong, decoded, time, .. } in &arms {
        let ms = time.as_secs_f64() * 1e3 / f64::from((*decoded).max(1));
        rows.push(format!(
            "{{\"setting\": \"{name}\", \"shots\": {decoded}, \"wrong\": {}, \"mean_ms\": {ms:.2}}}",
            wrong.json()
        ));
    }
    println!(
        "{{\"code\": \"{code}\", \"rounds\": {rounds}, \"basis\": \"{basis}\", \"p\": {p}, \"seed\": {seed}, \"others\": \"{others}\", \"rows\": [{}]}}",
        rows.join(", ")
    );
    Ok(())
}
