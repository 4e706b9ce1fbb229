//! `ringcall predict`: which observables each shot of a file flipped, by matching, belief propagation or a plug-in.
//!
//! The options, their spelling and their defaults are those of `pymatching predict`, so that scripts can use either:
//! shots come from `--in` or standard input in `--in_format` (default `b8`), predictions go to `--out` or standard
//! output in `--out_format` (default `01`), one row of observables for each shot, in order. These differences are
//! intended: any fault ends in exit code 1 and one line on standard error; `--out` appears complete or not at all; if
//! the true observables are in the input, a line on standard error counts the logical errors; a `b8` output for a model
//! without observables is refused, since its length could not tell the number of shots.
//!
//! The formats are those of [`ringcall_qec::shots`], all six of Stim's.

pub(crate) mod mistakes;
mod pipeline;

use crate::decoder::{DecoderArg, DecoderArgs, MatchingArg, PluginArgs, RelayArgs};
use crate::memory::{Estimate, MemoryLimit};
use crate::number;
use crate::output::Target;
use crate::signals::Signals;
use crate::style::Busy;
use crate::usage::{Misuse, tell};
use anyhow::{Context, Result, anyhow, bail};
use pipeline::{Counts, Failure};
use ringcall_qec::decode::{
    DecodeError, DecoderFactory, DecoderOptions, MatchingEngine, ModelDecoders, ShotDecoder,
};
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::dem::text::{self, Limits};
use ringcall_qec::shots::{ShotError, ShotFormat, ShotLayout, ShotReader, ShotWriter};
use ringcall_qec::stats::LogicalErrorRate;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Options of `ringcall predict`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// The format of the shots: 01, b8, r8, ptb64, hits or dets
    #[arg(long = "in_format", alias = "in-format", value_name = "FORMAT", default_value = "b8")]
    in_format: ShotFormat,
    /// Where the predicted observables go (default: standard output)
    #[arg(long = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of the predictions: 01, b8, r8, ptb64, hits or dets
    #[arg(long = "out_format", alias = "out-format", value_name = "FORMAT", default_value = "01")]
    out_format: ShotFormat,
    /// File for the decoder's confidences, with --matching ensemble: a line for each shot, the natural logarithm of the odds
    /// that the prediction is right (inf if no other one was seen)
    #[arg(long, value_name = "FILE")]
    confidence: Option<PathBuf>,
}

/// What `predict` and `count_mistakes` have in common.
#[derive(Debug, clap::Args)]
struct Common {
    /// The detector error model to decode with, in Stim's .dem format
    #[arg(long, value_name = "FILE")]
    dem: PathBuf,
    /// The shots: detectors, one row per shot (default: standard input)
    #[arg(long = "in", value_name = "FILE")]
    input: Option<PathBuf>,
    /// The true observables follow the detectors in each shot; logical errors are then counted
    #[arg(long = "in_includes_appended_observables", alias = "in-includes-appended-observables")]
    in_includes_appended_observables: bool,
    /// Match twice, the second time with lower weights for edges that share an error with those found first: more
    /// accurate where the model decomposes errors into several parts (`^`)
    #[arg(long = "enable_correlations", alias = "enable-correlations")]
    enable_correlations: bool,
    /// How syndromes are matched [default: plain, as PyMatching does; correlated with --enable_correlations]
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "enable_correlations")]
    matching: Option<MatchingArg>,
    /// What decodes: matching, relay (Relay-BP, for errors of any number of detectors), or plugin:LIBRARY, a shared library
    /// with the interface of deq's decoder plug-ins [default: matching where no part of the model's errors flips more than
    /// two detectors, else relay]
    #[arg(long, value_name = "DECODER")]
    decoder: Option<DecoderArg>,
    #[command(flatten)]
    plugin: PluginArgs,
    #[command(flatten)]
    relay: RelayArgs,
    /// Threads that decode (default: the cores this process may use)
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1, 1024))]
    threads: Option<u16>,
    #[command(flatten)]
    memory: MemoryLimit,
}

impl Common {
    /// The requested decoder.
    fn decoder(&self) -> Result<DecoderArgs> {
        let family = self.decoder.as_ref().map(|decoder| decoder.family().name());
        let kind = self.matching.or(self.enable_correlations.then_some(MatchingArg::Correlated));
        if let Some(name) = family.filter(|name| kind.is_some() && *name != "matching") {
            let option = if self.matching.is_some() { "--matching" } else { "--enable_correlations" };
            bail!(Misuse(format!("{option} does not apply to --decoder {name}")));
        }
        Ok(DecoderArgs { family: self.decoder.clone(), plugin: self.plugin.clone(), kind, relay: self.relay })
    }

    /// The model, and a decoder for each thread.
    fn workers(&self) -> Result<(DetectorErrorModel, Vec<pipeline::Worker>)> {
        let _busy = Busy::new("building the decoder");
        let decoder = self.decoder()?;
        decoder.options()?;
        let model = read_model(&self.dem, self.memory.of_model())?;
        let threads = self.threads.map_or_else(available_threads, usize::from);
        let relay = decoder.is_relay_of(&model);
        self.relay.check(relay)?;
        if relay && self.decoder.is_none() {
            tell("decoding by relay: an error of the model flips more than two detectors");
        }
        let estimate = Estimate::process().decoder_of(&model, &decoder);
        self.memory.admit(&estimate.workers(u32::try_from(threads).unwrap_or(u32::MAX)))?;
        // PyMatching's default, not the best one.
        let matching = decoder.kind.map_or(MatchingEngine::default(), Into::into);
        let options = DecoderOptions { matching: (!relay).then_some(matching), ..decoder.options()? };
        let made = match decoder.plugin(&model)? {
            Some(decoders) => Ok(decoders),
            None => ModelDecoders::new(&model, &options),
        };
        let made = made.with_context(|| self.dem.display().to_string())?;
        if matching == MatchingEngine::Ensemble && made.matching() != Some(matching) {
            bail!(Misuse(format!(
                "{}: no error of the model makes another likelier: leave --matching out",
                self.dem.display()
            )));
        }
        let decoders = workers(&made, threads).with_context(|| self.dem.display().to_string())?;
        Ok((model, decoders))
    }

    /// A reader of shots in this format.
    fn reader(&self, format: ShotFormat, model: &DetectorErrorModel) -> Result<ShotReader<Box<dyn Read>>> {
        let observables = if self.in_includes_appended_observables { model.num_observables } else { 0 };
        let layout = ShotLayout::with_observables(model.num_detectors, observables);
        ShotReader::new(open(self.input.as_deref())?, format, layout).with_context(|| self.input_name())
    }

    fn input_name(&self) -> String {
        self.input.as_deref().map_or_else(|| "standard input".to_owned(), show)
    }
}

/// Decodes every shot of the input.
pub(crate) fn run(args: &Args, signals: &Signals) -> Result<()> {
    if args.confidence.is_some() && args.common.matching != Some(MatchingArg::Ensemble) {
        bail!(Misuse("--confidence does not apply: it is for --matching ensemble".to_owned()));
    }
    let output = args.output.as_deref().unwrap_or(Path::new("-"));
    if args.confidence.as_deref().is_some_and(|path| path == output) {
        bail!(Misuse(
            "--confidence and the predictions go to different places: give another file".to_owned()
        ));
    }
    let (model, decoders) = args.common.workers()?;
    signals.run_to_the_signal();
    let truth = args.common.in_includes_appended_observables;
    let reader = args.common.reader(args.in_format, &model)?;
    let (input_name, output_name) = (args.common.input_name(), output_name(args.output.as_deref()));
    let target =
        Target::open(args.output.as_deref()).with_context(|| format!("cannot write {output_name}"))?;
    let predictions = ShotLayout::observables(model.num_observables);
    let writer =
        ShotWriter::new(target, args.out_format, predictions).with_context(|| output_name.clone())?;

    let mut confidences = args.confidence.as_deref().map(confidence_file).transpose()?;
    let lines = confidences.as_mut().map(|lines| lines as &mut (dyn Write + Send));
    let done = match pipeline::run(reader, None::<ShotReader<Box<dyn Read>>>, writer, lines, decoders) {
        Ok((target, counts)) => target
            .commit()
            .map_err(|error| Failure::Output(ShotError::Io(error)))
            .and_then(|()| commit_confidences(confidences))
            .map(|()| counts),
        Err(failure) => Err(failure),
    };
    match done {
        Ok(counts) => {
            if truth {
                tell(&summary(counts.rate));
            }
            tell_of_guesses(counts);
            Ok(())
        }
        // The reader of the output has closed it: end quietly, as filters do. An earlier file of confidences stays.
        Err(Failure::Output(ShotError::Io(error))) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(failure) => Err(in_place(failure, &input_name, &output_name, "")),
    }
}

fn confidence_file(path: &Path) -> Result<BufWriter<Target>> {
    let target = Target::open(Some(path)).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(target))
}

fn commit_confidences(lines: Option<BufWriter<Target>>) -> Result<(), Failure> {
    let Some(lines) = lines else { return Ok(()) };
    let target = lines.into_inner().map_err(|error| Failure::Confidence(error.into_error()))?;
    target.commit().map_err(Failure::Confidence)
}

fn output_name(path: Option<&Path>) -> String {
    path.map_or_else(|| "standard output".to_owned(), show)
}

fn tell_of_guesses(Counts { shots, unconverged, .. }: Counts) {
    if unconverged > 0 {
        tell(&format!("{unconverged} of {shots} shots did not converge: their predictions are best guesses"));
    }
}

/// A failure with the name of its file.
fn in_place(failure: Failure, input: &str, output: &str, truth: &str) -> anyhow::Error {
    match failure {
        Failure::Output(ShotError::Io(error)) => anyhow!("cannot write {output}: {error}"),
        Failure::Output(error) => anyhow!(error).context(output.to_owned()),
        Failure::Confidence(error) => anyhow!("cannot write the confidences: {error}"),
        Failure::Input(ShotError::Io(error)) => anyhow!("cannot read {input}: {error}"),
        Failure::Input(error) => anyhow!(error).context(input.to_owned()),
        Failure::Truth(ShotError::Io(error)) => anyhow!("cannot read {truth}: {error}"),
        Failure::Truth(error) => anyhow!(error).context(truth.to_owned()),
        Failure::Unpaired { shots: true } => anyhow!("{truth} ends before the shots of {input}"),
        Failure::Unpaired { shots: false } => anyhow!("{input} ends before the observables of {truth}"),
        Failure::Decode { shot, error } => {
            anyhow!(error).context(format!("{input}, shot {shot} (counted from 0)"))
        }
    }
}

fn read_model(path: &Path, limits: Limits) -> Result<DetectorErrorModel> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    text::read(BufReader::new(file), limits).with_context(|| path.display().to_string())
}

fn workers(decoders: &ModelDecoders, threads: usize) -> Result<Vec<pipeline::Worker>, DecodeError> {
    (0..threads).map(|_| Ok(ShotDecoder::new(decoders.build()?))).collect()
}

fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The input: a file, or standard input for none and for `-`.
fn open(path: Option<&Path>) -> Result<Box<dyn Read>> {
    match path.filter(|path| path.as_os_str() != "-") {
        None => Ok(Box::new(std::io::stdin())),
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok(Box::new(file))
        }
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

fn summary(rate: LogicalErrorRate) -> String {
    let LogicalErrorRate { shots, errors } = rate;
    let interval = rate.clopper_pearson(0.95).map_or_else(
        |_| String::new(), // no shots, no rate
        |interval| {
            format!(
                ", logical error rate {:.3e} (95 % interval {:.3e} to {:.3e})",
                rate.rate(),
                interval.low,
                interval.high
            )
        },
    );
    format!("{shots} shots, {errors} logical errors{interval}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_rate_only_where_there_are_shots() {
        assert_eq!(summary(LogicalErrorRate::default()), "0 shots, 0 logical errors");
        // SciPy: beta.ppf(0.025, 12, 9989) and beta.ppf(0.975, 13, 9988).
        assert_eq!(
            summary(LogicalErrorRate { shots: 10_000, errors: 12 }),
            "10000 shots, 12 logical errors, logical error rate 1.200e-3 (95 % interval 6.202e-4 to 2.095e-3)"
        );
    }
}
