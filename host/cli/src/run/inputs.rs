//! Model, engine and shots, from options or files.

use super::options::{Args, BasisArg, DispatcherArg, EngineArg};
use anyhow::{Context, Result, bail};
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_infer::{ElementType, InferError, Model, Passthrough, TensorSpec};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::dem::text::{Limits, read};
use ringcall_service::{Inference, Predecoder, Problem, Service, ServiceConfig, ShotSource};
use ringcall_service_gpu::GpuPredecoder;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
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
    let basis = match args.basis {
        BasisArg::X => Basis::X,
        BasisArg::Z => Basis::Z,
    };
    let noise = CircuitNoise::uniform(args.p);
    MemoryExperiment { distance: args.distance, rounds: args.rounds(), basis, noise }
}

/// A network bound to a problem, or one of any size, which is bound to the experiment of the options.
fn network(args: &Args, path: &Path) -> Result<Arc<dyn Model>> {
    match OnnxModel::load(path, &OnnxOptions::default()) {
        Err(InferError::DynamicDimension { .. }) if args.dem.is_none() => {
            let experiment = experiment(args);
            let sizes = Predecoder::sizes(&experiment);
            let options =
                sizes.into_iter().fold(OnnxOptions::new(), |all, (name, n)| all.with_symbol(name, n));
            let network = Arc::new(OnnxModel::load(path, &options)?);
            Ok(Arc::new(Predecoder::new(network, &experiment, args.threshold)?))
        }
        Ok(_) if args.threshold.is_some() => bail!("--threshold: this model has its own built in"),
        model => Ok(Arc::new(model?)),
    }
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
            let dispatcher = gpu(args)?.dispatcher(config.slots)?;
            Ok(Service::start_remote(problem, dispatcher, config)?)
        }
    }
}

fn inference(args: &Args, problem: &Problem) -> Result<Inference> {
    match (args.engine, &args.model) {
        (EngineArg::Matching, _) => Ok(Inference::None),
        (EngineArg::Passthrough, _) => {
            let shape = vec![1, problem.detectors() as usize];
            let spec = TensorSpec::new("detectors", ElementType::U8, shape)?;
            Ok(Inference::Model(Arc::new(Passthrough::new("passthrough", vec![spec])?)))
        }
        (EngineArg::Gpu, _) => Ok(gpu(args)?.inference()?),
        (EngineArg::Cpu, path) => {
            let path = path.as_ref().context("--engine cpu needs --model FILE.onnx")?;
            Ok(Inference::Model(network(args, path).with_context(|| path.display().to_string())?))
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
