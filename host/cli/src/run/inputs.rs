//! Model, engine and shots, from options or files.

use super::options::{Args, DispatcherArg, EngineArg};
use crate::network::{Engine, Network};
use anyhow::{Context, Result};
use ringcall_infer::{ElementType, Passthrough, TensorSpec};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::dem::text::{Limits, read};
use ringcall_service::{Inference, Problem, Service, ServiceConfig, ShotSource};
use ringcall_service_gpu::GpuPredecoder;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

pub(super) fn problem(args: &Args) -> Result<Problem> {
    let model = match &args.dem {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            read(BufReader::new(file), Limits::default()).with_context(|| path.display().to_string())?
        }
        None => experiment(args).detector_error_model()?,
    };
    Ok(Problem::new(model)?)
}

fn experiment(args: &Args) -> MemoryExperiment {
    let noise = CircuitNoise::uniform(args.p);
    MemoryExperiment { distance: args.distance, rounds: args.rounds(), basis: args.basis.into(), noise }
}

/// The predecoder of `--engine gpu`.
fn gpu(args: &Args) -> Result<GpuPredecoder> {
    let path = args.model.as_ref().context("--engine gpu needs --model FILE.onnx")?;
    Ok(GpuPredecoder::load(path, &experiment(args), args.threshold)?)
}

/// Starts the pipeline that the options ask for.
pub(super) fn service(args: &Args, problem: &Problem, config: ServiceConfig) -> Result<Service> {
    match args.dispatcher {
        DispatcherArg::Host => Ok(Service::start(problem, &inference(args, problem)?, config)?),
        DispatcherArg::Device => {
            let dispatcher = gpu(args)?.dispatchers(config.slots, args.kernels)?;
            Ok(Service::start_remote(problem, dispatcher, config)?)
        }
    }
}

fn inference(args: &Args, problem: &Problem) -> Result<Inference> {
    if let Some(engine) = args.engine.network() {
        let path =
            args.model.as_ref().with_context(|| format!("--engine {} needs --model", args.engine.name()))?;
        let experiment = args.dem.is_none().then(|| experiment(args));
        let network = Network::read(path, Engine::open(engine, None)?)?;
        return Ok(Inference::Model(network.bind(experiment.as_ref(), args.threshold)?));
    }
    if args.engine == EngineArg::Gpu {
        return Ok(gpu(args)?.inference()?);
    }
    if args.engine == EngineArg::Matching {
        return Ok(Inference::None);
    }
    let shape = vec![1, problem.detectors() as usize];
    let spec = TensorSpec::new("detectors", ElementType::U8, shape)?;
    Ok(Inference::Model(Arc::new(Passthrough::new("passthrough", vec![spec])?)))
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
