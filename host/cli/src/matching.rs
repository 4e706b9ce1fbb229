//! How syndromes are matched, as an option.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ringcall_decoder_service::Problem;
use ringcall_qec::decode::MatchingEngine;
use ringcall_qec::dem::DetectorErrorModel;

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

/// The option of commands that decode one model.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Matching {
    /// How syndromes are matched [default: correlated where the model has correlations to use (errors of several parts),
    /// else plain; after a network plain, which leaves as few errors there and takes a tenth of the time]
    #[arg(id = "matching", long, value_enum, value_name = "KIND")]
    pub(crate) kind: Option<MatchingArg>,
}

impl Matching {
    /// Plain where the option was not given.
    pub(crate) fn or_plain(self) -> Self {
        Self { kind: self.kind.or(Some(MatchingArg::Plain)) }
    }

    /// The model, decoded as the option says.
    pub(crate) fn problem(self, model: DetectorErrorModel) -> Result<Problem> {
        let problem = Problem::with_matching(model, self.kind.map(Into::into));
        match self.kind {
            Some(MatchingArg::Correlated) => problem.context("--matching correlated"),
            _ => Ok(problem?),
        }
    }
}
