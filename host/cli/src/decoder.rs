//! What decodes, as options: matching of either kind, or belief propagation.

use crate::usage::Misuse;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ringcall_decoder_service::{Problem, ProblemError};
use ringcall_qec::decode::{BpConfig, DecodeError, DecoderFamily, DecoderOptions, MatchingEngine};
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};

/// A family of decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecoderArg {
    /// Minimum-weight perfect matching: for errors whose parts flip at most two detectors each
    Matching,
    /// Relay-BP, belief propagation with memory in relayed legs: for errors that flip any number of detectors
    Relay,
}

impl From<DecoderArg> for DecoderFamily {
    fn from(decoder: DecoderArg) -> Self {
        match decoder {
            DecoderArg::Matching => Self::Matching,
            DecoderArg::Relay => Self::Relay,
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
}

impl From<MatchingArg> for MatchingEngine {
    fn from(kind: MatchingArg) -> Self {
        match kind {
            MatchingArg::Plain => Self::SparseBlossom,
            MatchingArg::Correlated => Self::CorrelatedBlossom,
        }
    }
}

/// The settings of Relay-BP; the rest is as published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct RelayArgs {
    /// Relay-BP: solutions to look for, of which the lightest wins: fewer errors, more time [default: 1]
    #[arg(id = "relay_solutions", long = "relay-solutions", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) solutions: Option<u32>,
    /// Relay-BP: the most iterations of a shot, after which the answer is a best guess that says so [default: 18080, the
    /// published 80 and 300 times 60]
    #[arg(id = "relay_iterations", long = "relay-iterations", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    /// Lanes that race, where a command has an option for them.
    #[arg(skip)]
    pub(crate) lanes: Option<u32>,
}

impl RelayArgs {
    /// As the decoder takes them.
    pub(crate) fn config(self) -> BpConfig {
        let published = BpConfig::relay();
        BpConfig {
            solutions: self.solutions.unwrap_or(published.solutions),
            max_iterations: self.iterations.unwrap_or(published.max_iterations),
            lanes: self.lanes.unwrap_or(published.lanes),
            ..published
        }
    }

    /// The first that was given.
    fn given(self) -> Option<&'static str> {
        let options = [
            (self.solutions, "--relay-solutions"),
            (self.iterations, "--relay-iterations"),
            (self.lanes, "--relay-lanes"),
        ];
        options.into_iter().find_map(|(value, name)| value.map(|_| name))
    }

    /// Refuses options that would be ignored.
    ///
    /// # Errors
    /// [`Misuse`]: an option is given, and matching decodes.
    pub(crate) fn check(self, relay: bool) -> Result<()> {
        match self.given() {
            Some(option) if !relay => bail!(Misuse(format!(
                "{option} does not apply to matching, which decodes this model: give --decoder relay as well"
            ))),
            _ => Ok(()),
        }
    }
}

/// The options of commands that decode one model.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct DecoderArgs {
    /// What decodes [default: matching where no part of the model's errors flips more than two detectors, else relay]
    #[arg(id = "decoder", long, value_enum, value_name = "DECODER")]
    pub(crate) family: Option<DecoderArg>,
    /// How syndromes are matched [default: correlated where the model has correlations to use (errors of several parts),
    /// else plain; after a network plain, which leaves as few errors there and takes a tenth of the time]
    #[arg(id = "matching", long, value_enum, value_name = "KIND")]
    pub(crate) kind: Option<MatchingArg>,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

impl DecoderArgs {
    /// The option whose fields [`Given::refuse`](crate::usage::Given::refuse) takes.
    pub(crate) const FIELDS: [&'static str; 4] =
        ["decoder", "matching", "relay_solutions", "relay_iterations"];

    /// Plain matching where no decoder was given: after a network.
    pub(crate) fn or_plain(self) -> Self {
        match self.family {
            Some(DecoderArg::Relay) => self,
            _ => Self { kind: self.kind.or(Some(MatchingArg::Plain)), ..self },
        }
    }

    /// Whether correlated matching may come of it.
    pub(crate) fn may_correlate(self) -> bool {
        self.kind != Some(MatchingArg::Plain)
    }

    /// Whether Relay-BP decodes this model.
    pub(crate) fn is_relay_of(self, model: &DetectorErrorModel) -> bool {
        match self.family {
            Some(family) => family == DecoderArg::Relay,
            None => self.kind.is_none() && !model.mechanisms.iter().all(Mechanism::is_graphlike),
        }
    }

    /// What is asked for.
    ///
    /// # Errors
    /// [`Misuse`]: options that exclude each other.
    pub(crate) fn options(self) -> Result<DecoderOptions> {
        if self.family == Some(DecoderArg::Relay) && self.kind.is_some() {
            bail!(Misuse("--matching does not apply to --decoder relay".to_owned()));
        }
        Ok(DecoderOptions {
            family: self.family.map(Into::into),
            matching: self.kind.map(Into::into),
            relay: self.relay.config(),
        })
    }

    /// The model, decoded as the options say.
    ///
    /// # Errors
    /// [`Misuse`]: options that exclude each other or would be ignored. Of the model: matching cannot take it, though it was
    /// asked for, or it cannot be decoded at all.
    pub(crate) fn problem(self, model: DetectorErrorModel) -> Result<Problem> {
        let options = self.options()?;
        self.relay.check(self.is_relay_of(&model))?;
        match (Problem::with_decoder(model, &options), self.kind) {
            (Err(ProblemError::Decode(error @ DecodeError::Hyperedge { .. })), kind) => {
                let option = match kind {
                    Some(MatchingArg::Plain) => "--matching plain",
                    Some(MatchingArg::Correlated) => "--matching correlated",
                    None => "--decoder matching",
                };
                Err(error).context(format!("{option} (--decoder relay takes any model)"))
            }
            (problem, Some(MatchingArg::Correlated)) => problem.context("--matching correlated"),
            (problem, _) => Ok(problem?),
        }
    }
}
