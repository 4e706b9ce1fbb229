//! Inputs of a run: model, engine and shots, from options or files.

use super::options::{Args, CopiesArg, DispatcherArg, EngineArg, HandoffArg};
use crate::decoder::on_gpu;
use crate::experiment::surface_for;
use crate::memory::Estimate;
use crate::network::{Bound, Network, NetworkFile, OnGpu};
use crate::usage::Misuse;
use anyhow::{Context, Result, bail};
use ringcall_decoder_service::{Inference, Problem, Service, ServiceConfig, ShotSource};
use ringcall_gpu_decoders::relay_bp::Bounds;
use ringcall_infer::{ElementType, Passthrough, TensorSpec};
use ringcall_qec::circuit::{Experiment, MemoryExperiment};
use ringcall_qec::decode::MatchingEngine;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

/// The problem to decode, and its generated experiment.
pub(super) fn problem(args: &Args) -> Result<(Problem, Option<Experiment>)> {
    let decoder = args.decoder()?;
    decoder.options()?;
    let model = match args.file.read(args.memory)? {
        Some(model) => {
            args.memory.admit(&around(args, Estimate::process().decoder_of(&model, &decoder), None))?;
            model
        }
        None => {
            let experiment = args.choice().experiment()?;
            if args.engine.network().is_some() && experiment.surface().is_none() {
                bail!(Misuse(format!(
                    "--engine {} is for the surface code, which its networks are for, not for --code {}",
                    args.engine.name(),
                    experiment.code.name()
                )));
            }
            let estimate = Estimate::process().experiment(&experiment).further(&decoder);
            // Options are checked before memory, since a refused command needs none.
            for (option, given) in [("--slices", args.slices), ("--measurements", args.measurements)] {
                if given {
                    surface_for(option, Some(&experiment))?;
                }
            }
            args.memory.admit(&around(args, estimate, Some(&experiment)))?;
            let measured =
                args.measurements.then(|| surface_for("--measurements", Some(&experiment))).transpose()?;
            let problem = if args.slices {
                Problem::by_slices(&surface_for("--slices", Some(&experiment))?)?.answering_alone()
            } else {
                args.deadline.limit(decoder.problem(experiment.detector_error_model()?)?)?
            };
            let problem =
                measured.map_or(Ok(problem.clone()), |surface| problem.with_measurements(&surface))?;
            return Ok((confident(problem), Some(experiment)));
        }
    };
    Ok((confident(args.deadline.limit(decoder.problem(model)?)?), None))
}

/// The problem with confidences in its answers if the decoder has them: the report shows them.
fn confident(problem: Problem) -> Problem {
    if problem.matching() == Some(MatchingEngine::Ensemble) { problem.with_confidence() } else { problem }
}

/// The pipeline's memory besides the decoder's tables.
fn around(args: &Args, decoding: Estimate, experiment: Option<&Experiment>) -> Estimate {
    // A request is a bit for each detector, and an answer is no longer; the rest is the pipeline's record of a request.
    let slot_bytes = 150 + decoding.detectors() / 8;
    let pipeline = decoding.workers(args.workers()).ring(args.slots(), slot_bytes);
    match (args.engine, experiment) {
        (EngineArg::Cpu | EngineArg::Onnxruntime, Some(Experiment { distance, rounds, .. })) => {
            pipeline.network(args.workers(), *distance, *rounds)
        }
        _ => pipeline,
    }
}

/// A pipeline, and the network in it for the report.
pub(super) struct Started {
    pub(super) service: Service,
    pub(super) network: Option<NetworkInUse>,
    /// The problem as it is served: with measurements as requests if the network takes them.
    pub(super) problem: Problem,
}

/// The network in use and its settings.
pub(super) struct NetworkInUse {
    pub(super) file: String,
    /// The logit above which the network decides for an error; `None` if the model contains its threshold.
    pub(super) threshold: Option<f32>,
}

pub(super) fn start(
    args: &Args,
    problem: &Problem,
    experiment: Option<&MemoryExperiment>,
    config: ServiceConfig,
) -> Result<Started> {
    if args.engine == EngineArg::Relay {
        return Ok(Started {
            service: relay(args, problem, config)?,
            network: None,
            problem: problem.clone(),
        });
    }
    let skipped = args.engine == EngineArg::Tensorrt && skip_network();
    if skipped {
        eprintln!("ringcall: SKIP_TRT is set: a copy runs in TensorRT's place");
    }
    let Some(engine) = args.engine.network().filter(|_| !skipped) else {
        let service = Service::start(problem, &without_network(args, problem)?, config)?;
        return Ok(Started { service, network: None, problem: problem.clone() });
    };
    let file = NetworkFile::read(args.model.as_deref())?;
    let shown = file.to_string();
    let mut served = problem.clone();
    let (service, threshold) = match args.dispatcher {
        DispatcherArg::Host if args.handoff == HandoffArg::Flag => {
            let experiment = experiment.context("--handoff flag is for the generated experiment")?;
            let predecoder = OnGpu::open(&file)?.bind(experiment, args.threshold)?;
            let copies = args.copies.unwrap_or(CopiesArg::Auto).into();
            if skip_network() {
                eprintln!("ringcall: SKIP_TRT is set: a copy on the GPU runs in the network's place");
                let inference = predecoder.launched_without(args.kernels, copies, config.slots)?;
                let service = Service::start(problem, &inference, config)?;
                return Ok(Started { service, network: None, problem: served });
            }
            let inference = predecoder.launched(args.kernels, copies, config.slots)?;
            (Service::start(problem, &inference, config)?, Some(predecoder.threshold()))
        }
        DispatcherArg::Host => {
            let network = Network::open_saving(file, engine, None, args.engine_save_path.as_deref())?;
            let Bound { inference, threshold } = network.bind(experiment, args.threshold)?;
            served = for_network(served, &inference, experiment)?;
            (Service::start(&served, &inference, config)?, threshold)
        }
        DispatcherArg::Device => {
            let experiment = experiment.context("--dispatcher device is for the generated experiment")?;
            let predecoder = OnGpu::open_for_dispatcher(&file)?.bind(experiment, args.threshold)?;
            let dispatcher = predecoder.dispatchers(config.slots, args.kernels)?;
            (Service::start_remote(problem, dispatcher, config)?, Some(predecoder.threshold()))
        }
        DispatcherArg::Graphs => {
            let experiment = experiment.context("--dispatcher graphs is for the generated experiment")?;
            let predecoder = OnGpu::open_for_dispatcher(&file)?.bind(experiment, args.threshold)?;
            let dispatcher = predecoder.graph_dispatcher(config.slots, args.kernels)?;
            (Service::start_remote(problem, dispatcher, config)?, Some(predecoder.threshold()))
        }
    };
    Ok(Started { service, network: Some(NetworkInUse { file: shown, threshold }), problem: served })
}

/// Whether a copy replaces the network, to measure the rest of the pipeline: the variable `SKIP_TRT` is set and not
/// `0`.
fn skip_network() -> bool {
    std::env::var_os("SKIP_TRT").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The problem with measurements as requests if the network takes them.
pub(crate) fn for_network(
    problem: Problem,
    inference: &Inference,
    experiment: Option<&MemoryExperiment>,
) -> Result<Problem> {
    let (Inference::Model(model), Some(experiment)) = (inference, experiment) else { return Ok(problem) };
    let measured = problem.clone().with_measurements(experiment)?;
    let takes = model.inputs().first().is_some_and(|input| {
        let layout = measured.form().measurements().map(|layout| layout.measurements());
        input.element == ElementType::I32 && layout == Some(input.elements())
    });
    Ok(if takes { measured } else { problem })
}

/// Starts the pipeline around Relay-BP on a GPU.
fn relay(args: &Args, problem: &Problem, config: ServiceConfig) -> Result<Service> {
    let bounds = Bounds { deadline: args.relay_deadline, ..Bounds::default() };
    let relay = on_gpu(problem, bounds)?;
    Ok(match args.dispatcher {
        DispatcherArg::Host => {
            Service::start(problem, &relay.inference().context("--engine relay")?, config)?
        }
        DispatcherArg::Device | DispatcherArg::Graphs => {
            let dispatcher = relay.dispatchers(config.slots, args.kernels).context("--engine relay")?;
            Service::start_remote_decoder(problem, dispatcher, config)?
        }
    })
}

fn without_network(args: &Args, problem: &Problem) -> Result<Inference> {
    if args.engine == EngineArg::Matching {
        return Ok(Inference::None);
    }
    let shape = vec![1, problem.detectors() as usize];
    let spec = TensorSpec::new("detectors", ElementType::U8, shape)?;
    Ok(Inference::Model(Arc::new(Passthrough::new("passthrough", vec![spec])?)))
}

pub(super) fn source(args: &Args, problem: &Problem) -> Result<ShotSource> {
    match args.shots_in() {
        None => Ok(ShotSource::sampled(problem, args.seed)?),
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let format = args.shots_format();
            ShotSource::read(problem, BufReader::new(file), format, args.shots_with_observables)
                .with_context(|| path.display().to_string())
        }
    }
}
