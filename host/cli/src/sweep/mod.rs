//! `ringcall sweep`: logical error rates over distances and noises. `ringcall merge`: those of a sweep in shards.

mod fits;
mod found;
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

use crate::report::Provenance;
use crate::signals::{self, Interrupt, Signals};
use crate::usage::Given;
use crate::{machine, output};
use anyhow::{Context, Result, anyhow};
use fits::Fits;
use found::Results;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub(crate) use options::Args;
use outputs::Outputs;
use results::{PointResult, Settings};
use ringcall_decoder_service::study::{
    Arm, Outcome, Point, Progress, Setup, Shard, State, StateError, Study, StudyError,
};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// How long after a signal a sweep may still work: threads that build a point's graph or decode a batch are not waited for.
const GRACE_PERIOD: Duration = Duration::from_millis(1500);

/// Studies, reports, and says by its exit code whether every point has enough.
pub(crate) fn run(args: &Args, given: &Given<'_>) -> Result<u8> {
    if args.shard.is_some() {
        given.refuse(&Outputs::FIELDS, "one --shard: `ringcall merge` has it for all of them")?;
    }
    args.outputs.check()?;
    let signals = Signals::listen()?;
    let Found { complete, whole } = study(args, &signals)?;
    if let Some(Whole { setup, outcomes, settings }) = whole {
        publish(&args.outputs, &setup, &outcomes, settings, complete)?;
    } else if let (Some(shard), Some(folder)) = (args.shard, &args.state) {
        say(shard, folder, complete)?;
    }
    match signals.received().filter(|_| !complete) {
        Some(signal) => {
            let kept = if args.state.is_some() { "; the same command goes on from here" } else { "" };
            eprintln!("ringcall: stopped by signal {signal}{kept}");
            Ok(signals::status(signal))
        }
        None => Ok(0),
    }
}

/// What a sweep found, complete or as far as it came.
struct Found {
    complete: bool,
    /// `None` of a shard, whose counts are no results.
    whole: Option<Whole>,
}

struct Whole {
    setup: Setup,
    outcomes: Vec<(Point, Outcome)>,
    settings: Settings,
}

/// A sweep's results for a caller: JSON and a page; `None` of a shard.
pub(crate) fn called(args: &Args, interrupt: &dyn Interrupt) -> Result<Option<(String, String)>> {
    args.outputs.check()?;
    let Found { complete, whole } = study(args, interrupt)?;
    let page = |Whole { outcomes, settings, .. }| {
        let results = results(&args.outputs, &outcomes, settings, complete)?;
        Ok((serde_json::to_string(&results)?, page::to_html(&results)))
    };
    whole.map(page).transpose()
}

/// Studies until every point has enough, or until it is interrupted.
fn study(args: &Args, interrupt: &dyn Interrupt) -> Result<Found> {
    let points = args.points()?;
    let network = args.network()?;
    let bind = |point: &Point| {
        let (network, _) = network.as_ref().ok_or("no model")?;
        Ok(network.bind(point.surface().as_ref(), args.threshold)?.inference)
    };
    let study = Study {
        program: args.state.as_ref().map(|_| state::program()).transpose()?.unwrap_or_default(),
        seed: args.seed,
        batch_shots: args.batch_shots(),
        matching: args.matching(),
        relay: args.relay(),
        predecoder: network.as_ref().map(|(_, label)| Arm { label: label.clone(), bind: &bind }),
        points,
        stop: args.stop(),
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
    interrupt.begin(Some(GRACE_PERIOD));
    let mut look = |state: &mut State| others.iter_mut().for_each(|others| others.look(state));
    let complete = study.run_beside(&mut state, lines, &mut look, &mut |progress| {
        show(&bar, &study, progress);
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
    log.map_or(Ok(()), state::Log::finish).map_err(unwritten)?;
    if args.shard.is_some() {
        return Ok(Found { complete, whole: None });
    }
    let settings = Settings {
        threads: Some(study.threads),
        machine: machine::describe(),
        ..Settings::new(state.setup(), &study.stop, args.outputs.confidence)
    };
    let outcomes = results::outcomes(&state, &study.points, &study.stop);
    let whole = Some(Whole { setup: state.setup().clone(), outcomes, settings });
    Ok(Found { complete, whole })
}

/// Everything that is reported of these outcomes.
fn results(
    outputs: &Outputs,
    outcomes: &[(Point, Outcome)],
    settings: Settings,
    complete: bool,
) -> Result<Results> {
    let points = outcomes.iter().map(|(point, outcome)| PointResult::new(point, outcome, outputs.confidence));
    let points = points.collect::<Result<Vec<_>, _>>()?;
    Ok(Results { complete, settings, fits: Fits::of(&points), points, provenance: Provenance::now() })
}

/// What a shard says instead of results, which are none without the other shards.
fn say(shard: Shard, folder: &Path, complete: bool) -> Result<()> {
    let folder = folder.display();
    let text = if complete {
        format!("shard {shard} is complete; once all are, `ringcall merge {folder}` reports")
    } else {
        format!("shard {shard} is not complete")
    };
    writeln!(io::stdout(), "{text}").context("standard output")
}

/// Writes results where they are asked for.
fn publish(
    outputs: &Outputs,
    setup: &Setup,
    outcomes: &[(Point, Outcome)],
    settings: Settings,
    complete: bool,
) -> Result<()> {
    let results = results(outputs, outcomes, settings, complete)?;
    let to_stdout =
        |path: &Option<std::path::PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if !to_stdout(&outputs.json) && !to_stdout(&outputs.sinter_csv) {
        let mut out = std::io::stdout();
        out.write_all(table::to_text(&results).as_bytes())
            .and_then(|()| out.flush())
            .context("standard output")?;
    }
    if let Some(path) = &outputs.json {
        output::write_json(path, &results)?;
    }
    if let Some(path) = &outputs.sinter_csv {
        output::write_text(path, &sinter::to_csv(setup, outcomes)?)?;
    }
    for path in &outputs.report {
        let is = |extension| crate::report::page::has_extension(path, extension);
        let text = match () {
            () if is("svg") => page::to_svg(&results)?,
            () if is("csv") => page::to_csv(&results),
            () => page::to_html(&results),
        };
        output::write_text(path, &text)?;
    }
    Ok(())
}

/// On a terminal only; quiet otherwise.
fn progress_bar(study: &Study<'_>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let length = study.stop.shots * study.points.len() as u64;
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    // A template that does not parse leaves the library's own style.
    ProgressStyle::with_template("{bar:30} {elapsed} of about {duration}  {msg}")
        .map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style))
}

fn show(bar: &ProgressBar, study: &Study<'_>, progress: &Progress) {
    let Progress { point, index, outcome } = progress;
    let counts = &outcome.counts;
    bar.set_position(*index as u64 * study.stop.shots + counts.shots.min(study.stop.shots));
    let with =
        counts.predecoder.map_or_else(String::new, |arm| format!(", {} with the predecoder", arm.errors));
    bar.set_message(format!("{point}: {} shots, {} errors{with}", counts.shots, counts.errors));
}
