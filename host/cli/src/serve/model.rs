//! Model services: a model alone, or with matching of its residual.

use super::{Args, ServiceArg};
use crate::decoder::{DeadlineArgs, DecoderArgs};
use crate::experiment::{ExperimentArgs, digest};
use crate::network::{Bound, Network, NetworkArg, NetworkFile};
use crate::number;
use crate::pinning;
use crate::run::for_network;
use crate::side::SideArgs;
use crate::usage::{Given, Misuse};
use anyhow::{Context, Result, bail};
use clap::builder::PossibleValue;
use clap::{Args as ClapArgs, ValueEnum};
use ringcall::dispatcher::HostDispatcherBuilder;
use ringcall::table::TableBuilder;
use ringcall::{FunctionId, FunctionTable};
use ringcall_decoder_service::gpu::MatchingStage;
use ringcall_decoder_service::{Inference, Problem};
use ringcall_infer::Model;
use ringcall_inference_service::{
    HostDecoderService, HostPredecoderService, HostServiceOptions, RunningPredecoder, Stage,
};
use ringcall_wire::function::names;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What runs a model, or decodes in the place of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineArg {
    Network(NetworkArg),
    /// Relay-BP on a GPU.
    Relay,
}

impl ValueEnum for EngineArg {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Network(NetworkArg::Cpu),
            Self::Network(NetworkArg::Gpu),
            Self::Network(NetworkArg::Onnxruntime),
            Self::Network(NetworkArg::OnnxruntimeCuda),
            Self::Network(NetworkArg::Tensorrt),
            Self::Relay,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Network(network) => network.to_possible_value(),
            Self::Relay => Some(PossibleValue::new("relay").help(
                "Relay-BP on a GPU of compute capability 9.0 or later, whose persistent kernel serves `decode_syndrome`; with --transport udp or roce",
            )),
        }
    }
}

/// The options of services of a model.
#[derive(Debug, Clone, ClapArgs)]
pub(super) struct ModelArgs {
    /// The model of --service decoder or predecoder: an ONNX file, or with --engine tensorrt an engine [default of predecoder: the
    /// committed predecoder_3x128_int8, which is built in]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// What runs the model, or with relay decodes without one
    #[arg(long, value_enum, default_value = "cpu")]
    engine: EngineArg,
    /// With --engine tensorrt: keep the engine that is built of --model in FILE, and read it from there if it is there [default: the
    /// user's cache, by what it is built of]
    #[arg(long, value_name = "FILE", requires = "model")]
    engine_save_path: Option<PathBuf>,
    /// Decoder: sizes of the model's open dimensions; given more than once, requests of several lengths are served, each by the shape that
    /// its own length chooses
    #[arg(long, value_name = "NAME=N,…", value_parser = sizes, requires = "model")]
    sizes: Vec<Sizes>,
    /// Threshold of a predecoder of any size [default: the model's own for this distance and noise]
    #[arg(long, value_name = "LOGIT")]
    threshold: Option<f32>,
    /// Predecoder: instances, each an engine on its own thread
    #[arg(long, default_value_t = 1, value_parser = number::within::<u32>(1, 256))]
    instances: u32,
    /// Predecoder: the most requests of an instance that wait for a worker, or are at one
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = number::within::<u32>(1, 4096))]
    queue_depth: u32,
    /// Predecoder: answer BACKPRESSURE where an instance whose queue is full finds no room in so many looks [default: requests wait in
    /// the ring]
    #[arg(long, value_name = "N", value_parser = number::within::<u64>(1, u64::MAX))]
    poll_limit: Option<u64>,
    /// Predecoder: workers that match [default: as many as there are cores to spare, at most 8]
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(1, 256))]
    match_workers: Option<u32>,
}

impl ModelArgs {
    pub(super) fn path(&self) -> Option<&Path> {
        self.model.as_deref()
    }

    /// Whether the engine is a library that is loaded at run time.
    pub(super) fn loads_a_library(&self) -> bool {
        !matches!(self.engine, EngineArg::Network(NetworkArg::Cpu))
    }

    /// Whether Relay-BP on a GPU decodes.
    pub(super) fn is_relay(&self) -> bool {
        self.engine == EngineArg::Relay
    }
}

/// Sizes of a model's open dimensions by name, which give one shape of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sizes(Vec<(String, usize)>);

/// Reads `NAME=N,NAME=N`.
fn sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes: Vec<(String, usize)> = Vec::new();
    for part in text.split(',') {
        let (name, n) = part.split_once('=').ok_or_else(|| format!("`{part}` is no NAME=N"))?;
        let n = number::within::<usize>(1, 1 << 20)(n).map_err(|why| format!("{name}: {why}"))?;
        if name.is_empty() || sizes.iter().any(|(other, _)| other == name) {
            return Err(format!("`{name}` is no name, or has two sizes"));
        }
        sizes.push((name.to_owned(), n));
    }
    Ok(Sizes(sizes))
}

impl ModelArgs {
    /// Fields of options that only apply to a model's service.
    pub(super) const FIELDS: [&'static str; 9] = [
        "model",
        "engine",
        "engine_save_path",
        "sizes",
        "threshold",
        "instances",
        "queue_depth",
        "poll_limit",
        "match_workers",
    ];
    /// The same without the engine, which may be of no model.
    const WITH_MODEL: [&'static str; 8] = [
        "model",
        "engine_save_path",
        "sizes",
        "threshold",
        "instances",
        "queue_depth",
        "poll_limit",
        "match_workers",
    ];
    /// Fields of options that only apply to a predecoder.
    const PREDECODER: [&'static str; 4] = ["instances", "queue_depth", "poll_limit", "match_workers"];
}

/// Refuses options that would be ignored.
pub(super) fn check(args: &Args, given: &Given<'_>) -> Result<()> {
    let misuse = |text: &str| Err(Misuse(text.to_owned()).into());
    match args.service {
        _ if args.model.is_relay() => {
            given.refuse(&ModelArgs::WITH_MODEL, "--engine relay, which runs no model")
        }
        ServiceArg::Syndromes => given.refuse(&ModelArgs::FIELDS, "--service syndromes, which runs no model"),
        _ if args.dispatcher == Some(super::DispatcherArg::Device) => misuse(
            "--service decoder and predecoder are served by the host's dispatcher: leave --dispatcher out",
        ),
        _ if args.model.engine == EngineArg::Network(NetworkArg::Gpu) => misuse(
            "--engine gpu runs in `ringcall run`: --service takes cpu, onnxruntime, onnxruntime-cuda and tensorrt",
        ),
        _ if args.model.engine_save_path.is_some()
            && args.model.engine != EngineArg::Network(NetworkArg::Tensorrt) =>
        {
            misuse("--engine-save-path is for --engine tensorrt, which builds an engine")
        }
        ServiceArg::Decoder if args.model.model.is_none() => misuse("--service decoder needs --model FILE"),
        ServiceArg::Decoder if !args.model.sizes.is_empty() && args.model.threshold.is_some() => {
            misuse("--threshold is for a model that --sizes leaves to the experiment: leave one of them out")
        }
        ServiceArg::Decoder if args.model.sizes.len() > 1 && args.model.engine_save_path.is_some() => misuse(
            "--engine-save-path keeps one engine, and several --sizes need one each: leave one of them out",
        ),
        ServiceArg::Decoder => {
            given.refuse(
                &ModelArgs::PREDECODER,
                "--service decoder, whose model answers on the dispatcher's thread",
            )?;
            let what = "--service decoder, whose requests are the model's inputs";
            given.refuse(&ExperimentArgs::FORMS, what)?;
            let what = "--service decoder, whose model decodes";
            given.refuse(&DecoderArgs::FIELDS, what)?;
            given.refuse(&DeadlineArgs::FIELDS, what)?;
            given.refuse(&SideArgs::FIELDS, what)?;
            if args.model.sizes.is_empty() {
                return Ok(());
            }
            given.refuse(&ExperimentArgs::FIELDS, "--sizes, which say what the model takes")
        }
        ServiceArg::Predecoder => {
            given.refuse(&["sizes"], "--service predecoder, whose sizes are the experiment's")?;
            given.refuse(&SideArgs::FIELDS, "--service predecoder, which serves decode_syndrome")?;
            args.experiment.require_surface("--service predecoder")?;
            if let super::Over::Own(own @ (super::TransportArg::Nic | super::TransportArg::Hsb)) =
                args.transport
            {
                return misuse(&format!(
                    "--service predecoder has workers, which --transport {} does not: give --transport roce",
                    own.name()
                ));
            }
            Ok(())
        }
    }
}

/// Functions that every service has.
pub(super) fn common(table: TableBuilder) -> TableBuilder {
    table.host_call(names::RPC_INCREMENT, |request: &[u8], result: &mut [u8]| {
        result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
        Ok(request.len())
    })
}

pub(super) enum ModelService {
    /// The model alone, on the dispatcher's thread.
    Decoder(HostDecoderService),
    /// A model whose residual workers match.
    Predecoder { service: Box<HostPredecoderService>, problem: Box<Problem>, workers: u32 },
}

impl ModelService {
    /// Opens the model; `None` if the service has none.
    pub(super) fn open(args: &Args, given: &Given<'_>, problem: Option<&Problem>) -> Result<Option<Self>> {
        let options = &args.model;
        if args.service == ServiceArg::Syndromes {
            return Ok(None);
        }
        let file = NetworkFile::read(options.model.as_deref())?;
        let shown = file.to_string();
        let EngineArg::Network(engine) = options.engine else { return Ok(None) };
        let network = Network::open_saving(file, engine, None, options.engine_save_path.as_deref())?;
        let host = HostServiceOptions {
            instances: options.instances,
            queue_depth: options.queue_depth,
            gated: options.poll_limit.is_none(),
            poll_limit: options.poll_limit.unwrap_or(HostServiceOptions::default().poll_limit),
            ..HostServiceOptions::default()
        };
        if !options.sizes.is_empty() {
            let shapes = options.sizes.iter().map(|Sizes(sizes)| network.sized(sizes));
            let service = HostDecoderService::with_shapes(shapes.collect::<Result<Vec<_>>>()?, &host);
            return Ok(Some(Self::Decoder(service.map_err(|why| Misuse(format!("--sizes: {why}")))?)));
        }
        if args.service == ServiceArg::Decoder
            && let Some(model) = network.alone()?
        {
            let what = format!("{shown}, whose sizes are its own");
            given.refuse(&ExperimentArgs::FIELDS, &what)?;
            given.refuse(&["threshold"], &what)?;
            return Ok(Some(Self::Decoder(HostDecoderService::new(model, &host)?)));
        }
        let experiment = args.experiment.surface()?;
        let Bound { inference, .. } = network.bind(experiment.as_ref(), options.threshold)?;
        let Inference::Model(model) = &inference else { bail!("{shown}: no model of tensors") };
        let model: Arc<dyn Model> = Arc::clone(model);
        if args.service == ServiceArg::Decoder {
            return Ok(Some(Self::Decoder(HostDecoderService::new(model, &host)?)));
        }
        let problem = problem.context("nothing to decode")?.clone();
        let problem = for_network(problem, &inference, experiment.as_ref())?;
        inference.check(&problem).with_context(|| shown.clone())?;
        let service = Box::new(HostPredecoderService::new(model, &host)?);
        // The requests are the model's input: a bit takes a byte, unless the model packs bits.
        let workers = options.match_workers.unwrap_or_else(pinning::workers);
        Ok(Some(Self::Predecoder { service, problem: Box::new(problem), workers }))
    }

    /// Adds its functions to those of every service.
    pub(super) fn functions(&self, table: TableBuilder) -> Result<TableBuilder> {
        Ok(match self {
            Self::Decoder(service) => {
                table.host_call_with_schema(names::DECODE_SYNDROME, service.schema(), service.handler()?)
            }
            Self::Predecoder { service, .. } => table.worker_call(names::DECODE_SYNDROME, service.schema()),
        })
    }

    pub(super) fn workers(&self, builder: HostDispatcherBuilder) -> HostDispatcherBuilder {
        match self {
            Self::Decoder(_) => builder,
            Self::Predecoder { service, .. } => service
                .workers(FunctionId::of(names::DECODE_SYNDROME))
                .fold(builder, HostDispatcherBuilder::worker),
        }
    }

    /// Starts its threads, which precedes the dispatcher's start.
    pub(super) fn start(
        &self,
        dispatcher: &ringcall::HostDispatcher<ringcall::dispatcher::Wired>,
    ) -> Result<Option<RunningPredecoder>> {
        let Self::Predecoder { service, problem, workers } = self else { return Ok(None) };
        let stage = || Ok(Box::new(MatchingStage::elements(problem, service.outputs())?) as Box<dyn Stage>);
        let stages = (0..*workers).map(|_| stage()).collect::<Result<Vec<_>>>()?;
        Ok(Some(service.start(dispatcher.ports(), stages)?))
    }

    /// Bytes of a slot for its requests and answers.
    pub(super) fn slot_bytes(&self) -> u32 {
        match self {
            Self::Decoder(service) => service.slot_bytes(),
            Self::Predecoder { service, problem, .. } => service.slot_bytes(problem.result_bytes()),
        }
    }

    pub(super) fn pairs(&self) -> String {
        match self {
            Self::Decoder(service) => {
                let shown = |bindings: &ringcall_inference_service::Bindings| {
                    bindings.bound().iter().map(|bound| bound.spec.name.clone()).collect::<Vec<_>>().join(",")
                };
                let lengths = |which: usize| {
                    let bytes = service.shapes().map(|ends| ends[which].bytes().to_string());
                    bytes.collect::<Vec<_>>().join(",")
                };
                let [inputs, outputs] =
                    service.shapes().next().map_or_else(Default::default, |ends| ends.map(shown));
                format!(
                    " model=decoder inputs={inputs} outputs={outputs} request_bytes={} answer_bytes={}",
                    lengths(0),
                    lengths(1)
                )
            }
            Self::Predecoder { service, problem, .. } => {
                let measured = problem.form().measurements().is_some();
                let matching = problem.matching().map(|_| format!(" matching={}", problem.decoder_name()));
                let matching = matching.unwrap_or_default();
                format!(
                    " model=predecoder experiment={}{matching} request_bytes={} answer_bytes={}{}{}{}",
                    digest(problem),
                    service.inputs().bytes(),
                    problem.result_bytes(),
                    if measured { " requests=measurements" } else { "" },
                    if problem.form().is_alone() { " decoder=slices" } else { "" },
                    if problem.form().is_confident() { " answers=confidence" } else { "" }
                )
            }
        }
    }

    /// A table of its functions and those of every service.
    pub(super) fn table(&self) -> Result<TableBuilder> {
        self.functions(common(FunctionTable::builder()))
    }
}
