//! `ringcall sweep`: logical error rates over distances and noises. `ringcall merge`: the same from shards.

mod fits;
mod found;
mod grid;
mod lines;
pub(crate) mod merge;
mod options;
mod outputs;
mod page;
mod plot;
mod results;
mod shards;
mod sinter;
mod state;
mod table;

use crate::report::{Provenance, count};
use crate::signals::{self, Interrupt, Signals};
use crate::usage::{Given, in_words, misuse, tell};
use crate::{machine, output, style};
use anyhow::{Context, Result, anyhow, bail};
use fits::Fits;
use found::Results;
use grid::{Grid, Names};
use indicatif::ProgressBar;
pub(crate) use options::Args;
use outputs::Outputs;
use results::{PointResult, Settings};
use ringcall_decoder_service::study::{
    Arm, Outcome, Point, Progress, Setup, Shard, State, StateError, StateFile, Study, StudyError,
};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long after a signal a sweep may still work. Threads that then still build a point's graph or decode a batch are
/// abandoned, and the results counted before are reported.
const GRACE_PERIOD: Duration = Duration::from_millis(200);

/// Studies and reports. The exit code says whether every point has enough shots.
pub(crate) fn run(args: &Args, given: &Given<'_>, signals: &Signals) -> Result<u8> {
    if args.shard.is_some() {
        given.refuse(&Outputs::FIELDS, "one --shard: `ringcall merge` has it for all of them")?;
    }
    args.outputs.check()?;
    let Found { complete, whole } = study(args, signals)?;
    signals.came_to_an_end();
    if let Some(whole) = whole {
        whole.publish(&args.outputs, args.verbose, complete)?;
    } else if let (Some(shard), Some(folder)) = (args.shard, &args.state) {
        say(shard, folder, complete)?;
    }
    match signals.received().filter(|_| !complete) {
        Some(signal) => {
            let kept = if args.state.is_some() { "; the same command goes on from here" } else { "" };
            tell(&format!("stopped by signal {signal}{kept}"));
            Ok(signals::status(signal))
        }
        None => Ok(0),
    }
}

/// The results of a sweep, complete or interrupted.
struct Found {
    complete: bool,
    /// `None` for a shard, whose counts are not results.
    whole: Option<Whole>,
}

#[derive(Clone)]
struct Whole {
    setup: Setup,
    outcomes: Vec<(Point, Outcome)>,
    settings: Settings,
    names: Names,
}

/// A sweep's results for a caller: JSON and a page; `None` for a shard.
pub(crate) fn called(args: &Args, interrupt: &dyn Interrupt) -> Result<Option<(String, String)>> {
    args.outputs.check()?;
    let Found { complete, whole } = study(args, interrupt)?;
    let page = |whole: Whole| {
        let results = whole.results(&args.outputs, complete)?;
        Ok((serde_json::to_string(&results)?, page::to_html(&results)))
    };
    whole.map(page).transpose()
}

/// Studies until every point has enough shots, or until it is interrupted.
fn study(args: &Args, interrupt: &dyn Interrupt) -> Result<Found> {
    let Grid { points, models, names } = args.grid()?;
    let network = args.network()?;
    let generated = |point: &Point| point.surface().filter(|_| point.given.is_none());
    // Mistakes in the last point are found before hours are spent on the first one.
    if let Some((network, _)) = &network {
        points.iter().filter_map(generated).try_for_each(|experiment| network.check(&experiment))?;
        if args.threshold.is_some() && network.alone()?.is_some() {
            bail!(misuse("--threshold does not apply to this model, which has its own built in"));
        }
    }
    let bind = |point: &Point| {
        let (network, _) = network.as_ref().ok_or("no model")?;
        let generated = generated(point);
        Ok(network.bind(generated.as_ref(), args.threshold)?.inference)
    };
    let study = Study {
        program: args.state.as_ref().map(|_| state::program()).transpose()?.unwrap_or_default(),
        seed: args.seed,
        batch_shots: args.batch_shots(),
        matching: args.matching(),
        relay: args.relay(),
        predecoder: network.as_ref().map(|(_, label)| Arm { label: label.clone(), bind: &bind }),
        points,
        models,
        stop: args.stop(),
        deadline: args.deadline,
        threads: args.threads(),
        shard: args.shard,
    };
    let setup = study.setup();
    let (mut state, mut log, mut others) = match (&args.state, &setup.part) {
        (Some(path), None) => {
            let (state, log) = state::open(path, setup)?;
            (state, Some(log), None)
        }
        (Some(folder), Some(part)) => {
            let (state, log, others) = shards::open(folder, &setup, part)?;
            (state, Some(log), Some(others))
        }
        (None, _) => (State::new(setup), None, None),
    };
    let mut nowhere = io::sink();
    let lines: &mut dyn Write = log.as_mut().map_or(&mut nowhere, |log| log);
    let bar = progress_bar(&study);
    let settings = Settings {
        threads: Some(study.threads),
        machine: machine::describe(),
        ..Settings::new(state.setup(), &study.stop, args.outputs.confidence)
    };
    let found = Whole {
        setup: state.setup().clone(),
        outcomes: results::outcomes(&state, &study.points, &study.stop),
        settings,
        names,
    };
    let latest = Arc::new(Mutex::new(found));
    if args.shard.is_none() {
        let (latest, bar) = (Arc::clone(&latest), bar.clone());
        let (outputs, verbose) = (args.outputs.clone(), args.verbose);
        interrupt.at_the_end_of_time(Box::new(move || {
            bar.finish_and_clear();
            let found = latest.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = found.publish(&outputs, verbose, false) {
                tell(&in_words(&error));
            }
        }));
    }
    interrupt.begin(Some(GRACE_PERIOD));
    let mut poll = |state: &mut State| others.iter_mut().for_each(|others| others.poll(state));
    let complete = study.run_beside(&mut state, lines, &mut poll, &mut |progress| {
        show(&bar, &study, progress);
        let mut found = latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, outcome)) = found.outcomes.get_mut(progress.index) {
            *outcome = progress.outcome;
        }
        interrupt.received().is_none()
    });
    bar.finish_and_clear();
    let unwritten = |error: io::Error| {
        anyhow!(
            "the state {} cannot be written: {error}; it keeps what was finished before, and the same command goes on from there",
            args.state.as_deref().unwrap_or(Path::new("-")).display()
        )
    };
    let complete = complete.map_err(|error| match error {
        StudyError::State(StateError::Io(error)) => unwritten(error),
        error => error.into(),
    })?;
    log.map_or(Ok(()), StateFile::finish).map_err(unwritten)?;
    if args.shard.is_some() {
        return Ok(Found { complete, whole: None });
    }
    let latest = latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let outcomes = results::outcomes(&state, &study.points, &study.stop);
    Ok(Found { complete, whole: Some(Whole { outcomes, ..latest }) })
}

/// Prints a shard's progress, since it has no results without the other shards.
fn say(shard: Shard, folder: &Path, complete: bool) -> Result<()> {
    let folder = folder.display();
    let text = if complete {
        format!("shard {shard} is complete; once all are, `ringcall merge {folder}` reports")
    } else {
        format!("shard {shard} is not complete")
    };
    writeln!(io::stdout(), "{text}").context("standard output")
}

impl Whole {
    fn results(&self, outputs: &Outputs, complete: bool) -> Result<Results> {
        let timed = self.settings.deadline_us.is_some();
        let result = |(point, outcome): &(Point, Outcome)| {
            PointResult::new(point, outcome, outputs.confidence, &self.names, timed)
        };
        let points = self.outcomes.iter().map(result).collect::<Result<Vec<_>, _>>()?;
        let (settings, fits) = (self.settings.clone(), Fits::of(&points));
        Ok(Results { complete, settings, fits, points, provenance: Provenance::now() })
    }

    fn publish(&self, outputs: &Outputs, verbose: bool, complete: bool) -> Result<()> {
        let results = self.results(outputs, complete)?;
        let to_stdout =
            |path: &Option<std::path::PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
        if !to_stdout(&outputs.json) && !to_stdout(&outputs.sinter_csv) {
            let mut out = anstream::stdout();
            out.write_all(table::to_text(&results, verbose).as_bytes())
                .and_then(|()| out.flush())
                .context("standard output")?;
        }
        if let Some(path) = &outputs.json {
            output::write_json(path, &results)?;
        }
        if let Some(path) = &outputs.sinter_csv {
            output::write_text(path, &sinter::to_csv(&self.setup, &self.outcomes, &self.names)?)?;
        }
        for path in &outputs.report {
            let is = |extension| crate::report::page::has_extension(path, extension);
            let bytes = match () {
                () if is("svg") => page::to_svg(&results)?.into_bytes(),
                () if is("pdf") => page::to_pdf(&results)?,
                () if is("csv") => page::to_csv(&results).into_bytes(),
                () => page::to_html(&results).into_bytes(),
            };
            output::write_bytes(path, &bytes)?;
        }
        Ok(())
    }
}

/// A progress bar on a terminal, hidden elsewhere.
fn progress_bar(study: &Study<'_>) -> ProgressBar {
    let length = study.stop.shots * study.points.len() as u64;
    let bar = style::bar(Some(length), "{spinner} {bar:20} {elapsed} of about {duration}  {wide_msg}");
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn show(bar: &ProgressBar, study: &Study<'_>, progress: &Progress) {
    let Progress { point, index, outcome } = progress;
    let counts = &outcome.counts;
    bar.set_position(*index as u64 * study.stop.shots + counts.shots.min(study.stop.shots));
    let with = counts.predecoder.map_or_else(String::new, |arm| format!(", {} with the network", arm.errors));
    bar.set_message(match counts.shots {
        0 => format!("{point}: building the decoder"),
        shots => format!("{point}: {} shots, {} errors{with}", count(shots), count(counts.errors)),
    });
}
