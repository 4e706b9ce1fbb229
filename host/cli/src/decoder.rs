//! Options of the decoder: matching of either kind, belief propagation, or a plug-in.

use crate::number;
use crate::usage::Misuse;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ringcall_decoder_service::gpu::{GpuRelay, GpuRelayError};
use ringcall_decoder_service::{Problem, ProblemError};
use ringcall_deq::host::{Library, PluginFactory};
use ringcall_gpu_decoders::relay_bp::Bounds;
use ringcall_qec::decode::{
    BpConfig, DecodeError, DecoderFamily, DecoderOptions, MatchingEngine, ModelDecoders, OrderedStatistics,
};
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// A family of decoders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecoderArg {
    /// Minimum-weight perfect matching: for errors whose parts flip at most two detectors each.
    Matching,
    /// Relay-BP, belief propagation with memory in relayed legs: for errors that flip any number of detectors.
    Relay,
    /// The library of a plug-in for deq.
    Plugin(PathBuf),
}

impl FromStr for DecoderArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("plugin:")) {
            ("matching", _) => Ok(Self::Matching),
            ("relay", _) => Ok(Self::Relay),
            (_, Some("")) => Err("name the library: plugin:LIBRARY".to_owned()),
            (_, Some(library)) => Ok(Self::Plugin(library.into())),
            _ => Err("take matching, relay or plugin:LIBRARY".to_owned()),
        }
    }
}

impl DecoderArg {
    pub(crate) fn family(&self) -> DecoderFamily {
        match self {
            Self::Matching => DecoderFamily::Matching,
            Self::Relay => DecoderFamily::Relay,
            Self::Plugin(_) => DecoderFamily::Plugin,
        }
    }
}

/// A kind of matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatchingArg {
    /// In one pass
    Plain,
    /// In two passes, the second with lower weights for edges that share an error with those found first: fewer errors,
    /// more time
    Correlated,
    /// Correlated first, then up to nine more passes where they may help, put together by the likelihood of the errors that they
    /// stand for: the fewest errors, up to about twice the time
    Ensemble,
}

impl MatchingArg {
    /// The kind as an option's value.
    fn option(self) -> &'static str {
        match self {
            Self::Plain => "--matching plain",
            Self::Correlated => "--matching correlated",
            Self::Ensemble => "--matching ensemble",
        }
    }
}

impl From<MatchingArg> for MatchingEngine {
    fn from(kind: MatchingArg) -> Self {
        match kind {
            MatchingArg::Plain => Self::SparseBlossom,
            MatchingArg::Correlated => Self::CorrelatedBlossom,
            MatchingArg::Ensemble => Self::Ensemble,
        }
    }
}

/// The settings of Relay-BP; all others are as published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct RelayArgs {
    /// Relay-BP: solutions to look for, of which the lightest wins: fewer errors, more time [default: 1]
    #[arg(id = "relay_solutions", long = "relay-solutions", value_name = "N", value_parser = number::within::<u32>(1, 1000))]
    pub(crate) solutions: Option<u32>,
    /// Relay-BP: the most iterations of a shot, after which the answer is a best guess that says so [default: 18080, the
    /// published 80 and 300 times 60]
    #[arg(id = "relay_iterations", long = "relay-iterations", value_name = "N", value_parser = number::within::<u32>(1, u32::MAX.into()))]
    pub(crate) iterations: Option<u32>,
    /// Relay-BP: ordered statistics for what did not converge, which give an error that explains the syndrome: 0 (order 0), or cs:K, a
    /// combination sweep of order K, up to 1000: fewer errors, more time for such shots [default: none]
    #[arg(id = "relay_osd", long = "relay-osd", value_name = "ORDER")]
    pub(crate) ordered: Option<OrderedStatistics>,
    /// Racing lanes, if the command has an option for them.
    #[arg(skip)]
    pub(crate) lanes: Option<u32>,
}

impl RelayArgs {
    /// The settings in the decoder's form.
    pub(crate) fn config(self) -> BpConfig {
        let published = BpConfig::relay();
        BpConfig {
            solutions: self.solutions.unwrap_or(published.solutions),
            max_iterations: self.iterations.unwrap_or(published.max_iterations),
            lanes: self.lanes.unwrap_or(published.lanes),
            ordered_statistics: self.ordered,
            ..published
        }
    }

    fn given(self) -> Option<&'static str> {
        let options = [
            (self.solutions.is_some(), "--relay-solutions"),
            (self.iterations.is_some(), "--relay-iterations"),
            (self.ordered.is_some(), "--relay-osd"),
            (self.lanes.is_some(), "--relay-lanes"),
        ];
        options.into_iter().find_map(|(given, name)| given.then_some(name))
    }

    /// Refuses options that would be ignored.
    ///
    /// # Errors
    /// [`Misuse`]: an option is given although matching decodes.
    pub(crate) fn check(self, relay: bool) -> Result<()> {
        match self.given() {
            Some(option) if !relay => bail!(Misuse(format!(
                "{option} does not apply: it is for Relay-BP, which does not decode this model; give --decoder relay as well"
            ))),
            _ => Ok(()),
        }
    }
}

/// The options of a plug-in.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PluginArgs {
    /// Options of --decoder plugin:LIBRARY, which gets them as they are: a JSON object
    #[arg(id = "decoder_config", long = "decoder-config", value_name = "JSON")]
    config: Option<String>,
}

impl PluginArgs {
    /// Refuses the options unless a plug-in decodes.
    fn check(&self, family: Option<&DecoderArg>) -> Result<()> {
        if self.config.is_some() && !matches!(family, Some(DecoderArg::Plugin(_))) {
            bail!(Misuse("--decoder-config does not apply: it is for --decoder plugin:LIBRARY".to_owned()));
        }
        Ok(())
    }
}

/// Relay-BP of the problem on a GPU, for `--engine relay`.
///
/// # Errors
/// [`Misuse`]: the kernel does not support the problem. There is no GPU, or only one that the driver cannot use.
pub(crate) fn on_gpu(problem: &Problem, bounds: Bounds) -> Result<GpuRelay> {
    match GpuRelay::new(problem, bounds) {
        Err(GpuRelayError::NoGpu(why)) => {
            bail!("--engine relay needs a GPU (`ringcall doctor` says what is missing): {why}")
        }
        Err(why @ (GpuRelayError::Kernel(_) | GpuRelayError::LikelyError)) => {
            bail!(Misuse(format!("--engine relay: {why}")))
        }
        relay => relay.context("--engine relay"),
    }
}

/// The time limit of a decode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct DeadlineArgs {
    /// Cut matching off after so long, in us, from the begin of each decode: where the second pass does not end in time, the answer
    /// is the first one's; where that does not end, what is matched so far. Relay-BP's is then the best solution or guess so far. Such
    /// answers say that they are late [default: none]
    #[arg(long, alias = "deadline-us", value_name = "TIME", value_parser = number::microseconds)]
    pub(crate) deadline: Option<Duration>,
}

impl DeadlineArgs {
    /// The options' fields, for [`Given::refuse`](crate::usage::Given::refuse).
    pub(crate) const FIELDS: [&'static str; 1] = ["deadline"];

    /// Applies the deadline to the problem.
    ///
    /// # Errors
    /// [`Misuse`]: slices or a plug-in decode the problem, neither of which can be cut off.
    pub(crate) fn limit(self, problem: Problem) -> Result<Problem> {
        if self.deadline.is_none() {
            return Ok(problem);
        }
        if problem.family() == DecoderFamily::Slices {
            bail!(Misuse("--deadline does not apply to --slices, which is not cut off".to_owned()));
        }
        if problem.family() == DecoderFamily::Plugin {
            bail!(Misuse("--deadline does not apply to a plug-in, which is not cut off".to_owned()));
        }
        Ok(problem.with_deadline(self.deadline))
    }
}

/// The options of commands that decode one model.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DecoderArgs {
    /// What decodes: matching, relay (Relay-BP, for errors of any number of detectors), or plugin:LIBRARY, a shared library
    /// with the interface of deq's decoder plug-ins [default: matching where no part of the model's errors flips more than
    /// two detectors, else relay]
    #[arg(id = "decoder", long, value_name = "DECODER")]
    pub(crate) family: Option<DecoderArg>,
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    /// How syndromes are matched [default: correlated where the model has correlations to use (errors of several parts),
    /// else plain; after a network plain, which leaves as few errors there and takes a tenth of the time]
    #[arg(id = "matching", long, value_enum, value_name = "KIND")]
    pub(crate) kind: Option<MatchingArg>,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

impl DecoderArgs {
    /// The options' fields, for [`Given::refuse`](crate::usage::Given::refuse).
    pub(crate) const FIELDS: [&'static str; 6] =
        ["decoder", "decoder_config", "matching", "relay_solutions", "relay_iterations", "relay_osd"];

    /// These options, with plain matching if no decoder was given: the default after a network.
    pub(crate) fn or_plain(self) -> Self {
        match self.family {
            Some(DecoderArg::Relay | DecoderArg::Plugin(_)) => self,
            _ => Self { kind: self.kind.or(Some(MatchingArg::Plain)), ..self },
        }
    }

    /// These options for `--engine relay`.
    ///
    /// # Errors
    /// [`Misuse`]: another decoder than Relay-BP is asked for.
    pub(crate) fn by_relay(self) -> Result<Self> {
        let option = match self.family {
            _ if self.kind.is_some() => "--matching",
            Some(DecoderArg::Plugin(_)) => "--decoder plugin:LIBRARY",
            Some(DecoderArg::Matching) => "--decoder matching",
            None | Some(DecoderArg::Relay) => return Ok(Self { family: Some(DecoderArg::Relay), ..self }),
        };
        bail!(Misuse(format!("{option} does not apply to --engine relay, which decodes by Relay-BP")))
    }

    /// Whether the decoder may be correlated matching.
    pub(crate) fn may_correlate(&self) -> bool {
        self.kind != Some(MatchingArg::Plain)
    }

    pub(crate) fn is_relay_of(&self, model: &DetectorErrorModel) -> bool {
        match &self.family {
            Some(family) => *family == DecoderArg::Relay,
            None => self.kind.is_none() && !model.mechanisms.iter().all(Mechanism::is_graphlike),
        }
    }

    /// The requested decoder.
    ///
    /// # Errors
    /// [`Misuse`]: options that exclude each other.
    pub(crate) fn options(&self) -> Result<DecoderOptions> {
        self.plugin.check(self.family.as_ref())?;
        match &self.family {
            Some(family @ (DecoderArg::Relay | DecoderArg::Plugin(_))) if self.kind.is_some() => {
                let name = family.family().name();
                bail!(Misuse(format!("--matching does not apply to --decoder {name}")));
            }
            Some(DecoderArg::Plugin(_)) => self.relay.check(false)?,
            _ => {}
        }
        Ok(DecoderOptions {
            family: self.family.as_ref().map(DecoderArg::family),
            matching: self.kind.map(Into::into),
            relay: self.relay.config(),
        })
    }

    /// The plug-in's decoders of the model, if a plug-in decodes.
    ///
    /// # Errors
    /// The library cannot be loaded, or refuses the model or its options.
    pub(crate) fn plugin(&self, model: &DetectorErrorModel) -> Result<Option<ModelDecoders>> {
        let Some(DecoderArg::Plugin(path)) = &self.family else { return Ok(None) };
        let library = Library::open(path)?;
        let config = self.plugin.config.as_deref().unwrap_or("{}");
        let factory = PluginFactory::new(library, model, config)?;
        Ok(Some(ModelDecoders::Plugin(Arc::new(factory))))
    }

    /// The model with the decoder that the options select.
    ///
    /// # Errors
    /// [`Misuse`]: options that exclude each other or have no effect. Otherwise an error of the model: matching was
    /// asked for and cannot take it, or no decoder can.
    pub(crate) fn problem(&self, model: DetectorErrorModel) -> Result<Problem> {
        let options = self.options()?;
        if let Some(decoders) = self.plugin(&model)? {
            return Ok(Problem::decoded_by(model, decoders)?);
        }
        self.relay.check(self.is_relay_of(&model))?;
        match (Problem::with_decoder(model, &options), self.kind) {
            (Err(ProblemError::Decode(error @ DecodeError::Hyperedge { .. })), kind) => {
                let option = kind.map_or("--decoder matching", MatchingArg::option);
                Err(error).context(format!("{option} (--decoder relay takes any model)"))
            }
            (problem, Some(kind @ (MatchingArg::Correlated | MatchingArg::Ensemble))) => {
                problem.context(kind.option())
            }
            (problem, _) => Ok(problem?),
        }
    }
}
