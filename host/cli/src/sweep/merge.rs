//! `ringcall merge`: joins the results of a sweep in shards.

use super::grid::Names;
use super::outputs::Outputs;
use super::results::{self, Settings};
use super::{Whole, shards};
use crate::machine;
use anyhow::Result;
use std::path::PathBuf;

/// Joins the shards of a sweep, and reports as the whole sweep would have.
///
/// DIR is what --state of `ringcall sweep --shard i/n` named. Counts are those of the same sweep without --shard. A merge
/// is refused, with status 2, where shards or batches are missing or there twice, and where shards were counted by
/// different programs or models or with different options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder with the states of all shards
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
    /// Show all that was measured: density of syndromes, rates per round, settings
    #[arg(long, short)]
    verbose: bool,
}

/// Joins the shards, and reports.
pub(crate) fn run(args: &Args) -> Result<()> {
    args.outputs.check()?;
    let merged = shards::join(&args.folder)?;
    let settings = Settings {
        threads: None,
        machine: match &merged.machines[..] {
            [] => machine::describe(),
            machines => machines.join("; "),
        },
        ..Settings::new(merged.state.setup(), &merged.stop, args.outputs.confidence)
    };
    let outcomes = results::outcomes(&merged.state, &merged.points, &merged.stop);
    // States identify models of files only by their digests.
    let names = Names::new();
    Whole { setup: merged.state.setup().clone(), outcomes, settings, names }.publish(
        &args.outputs,
        args.verbose,
        true,
    )
}
