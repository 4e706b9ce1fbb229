//! Model, engine and shots, from options or files.

use super::options::{Args, BasisArg, EngineArg};
use anyhow::{Context, Result};
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_infer::{ElementType, Passthrough, TensorSpec};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::dem::text::{Limits, read};
use ringcall_service::{Inference, Problem, ShotSource};
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

pub(super) fn problem(args: &Args) -> Result<Problem> {
    let model = match &args.dem {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            read(BufReader::new(file), Limits::default()).with_context(|| path.display().to_string())?
        }
        None => {
            let basis = match args.basis {
                BasisArg::X => Basis::X,
                BasisArg::Z => Basis::Z,
            };
            let noise = CircuitNoise::uniform(args.p);
            let experiment =
                MemoryExperiment { distance: args.distance, rounds: args.rounds(), basis, noise };
            experiment.detector_error_model()?
        }
    };
    Ok(Problem::new(model)?)
}

pub(super) fn inference(args: &Args, problem: &Problem) -> Result<Inference> {
    match (args.engine, &args.model) {
        (EngineArg::Matching, _) => Ok(Inference::None),
        (EngineArg::Passthrough, _) => {
            let shape = vec![1, problem.detectors() as usize];
            let spec = TensorSpec::new("detectors", ElementType::U8, shape)?;
            Ok(Inference::Model(Arc::new(Passthrough::new("passthrough", vec![spec])?)))
        }
        (EngineArg::Cpu, path) => {
            let path = path.as_ref().context("--engine cpu needs --model FILE.onnx")?;
            let model =
                OnnxModel::load(path, &OnnxOptions::default()).with_context(|| path.display().to_string())?;
            Ok(Inference::Model(Arc::new(model)))
        }
    }
}

pub(super) fn source(args: &Args, problem: &Problem) -> Result<ShotSource> {
    match &args.shots {
        None => Ok(ShotSource::sampled(problem, args.seed)?),
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let format = args.shots_format.into();
            ShotSource::read(problem, BufReader::new(file), format, args.shots_with_observables)
                .with_context(|| path.display().to_string())
        }
    }
}
