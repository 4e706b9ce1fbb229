//! `ringcall count_mistakes`: how many shots of a file are decoded wrongly.
//!
//! Options, their spelling, their defaults and the line on standard output are those of `pymatching count_mistakes`.
//! Two differences are intended: a file of observables with more rows than shots is refused, like one with fewer;
//! without `--in_includes_appended_observables` or `--obs_in` the command ends with exit code 2.

use super::{Common, in_place, open, output_name, pipeline, show, tell_of_guesses};
use crate::output::Target;
use crate::signals::Signals;
use crate::usage::{misuse, tell};
use anyhow::{Context, Result, bail};
use ringcall_qec::shots::{ShotFormat, ShotLayout, ShotReader, ShotWriter};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Options of `ringcall count_mistakes`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// The format of the shots: 01, b8, r8, ptb64, hits or dets
    #[arg(long = "in_format", alias = "in-format", value_name = "FORMAT", default_value = "01")]
    in_format: ShotFormat,
    /// The true observables, one row per shot
    #[arg(
        long = "obs_in",
        alias = "obs-in",
        value_name = "FILE",
        conflicts_with = "in_includes_appended_observables"
    )]
    obs_in: Option<PathBuf>,
    /// The format of the observables: 01, b8, r8, ptb64, hits or dets
    #[arg(long = "obs_in_format", alias = "obs-in-format", value_name = "FORMAT", default_value = "01")]
    obs_in_format: ShotFormat,
    /// File for the counts, as `MISTAKES / SHOTS` (default: standard output)
    #[arg(long = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print on standard error how long decoding took
    #[arg(long)]
    time: bool,
}

/// Decodes every shot of the input, and counts wrong predictions.
pub(crate) fn run(args: &Args, signals: &Signals) -> Result<()> {
    let Args { common, obs_in, .. } = args;
    if !common.in_includes_appended_observables && obs_in.is_none() {
        bail!(misuse("give --obs_in FILE or --in_includes_appended_observables: nothing says what is right"));
    }
    let (model, decoders) = common.workers()?;
    signals.run_to_the_signal();
    let reader = common.reader(args.in_format, &model)?;
    let observables = ShotLayout::observables(model.num_observables);
    let truth_name = obs_in.as_deref().map_or_else(String::new, show);
    let truth = obs_in.as_deref().map(|path| {
        ShotReader::new(open(Some(path))?, args.obs_in_format, observables)
            .with_context(|| truth_name.clone())
    });
    let output = output_name(args.output.as_deref());
    let mut target =
        Target::open(args.output.as_deref()).with_context(|| format!("cannot write {output}"))?;
    let predictions = ShotWriter::new(std::io::sink(), ShotFormat::Text01, observables)?;
    let begin = Instant::now();
    let (_, counts) = pipeline::run(reader, truth.transpose()?, predictions, None, decoders)
        .map_err(|failure| in_place(failure, &common.input_name(), &output, &truth_name))?;
    let us = begin.elapsed().as_secs_f64() * 1e6;
    writeln!(target, "{} / {}", counts.rate.errors, counts.rate.shots)
        .and_then(|()| target.flush())
        .and_then(|()| target.commit())
        .with_context(|| format!("cannot write {output}"))?;
    if args.time {
        tell(&format!("total decoding time {us:.0} us, {:.3} us a shot", us / counts.shots.max(1) as f64));
    }
    tell_of_guesses(counts);
    Ok(())
}
