//! `ringcall sweep`: logical error rates over distances and noises.

mod options;
mod page;
mod plot;
mod results;
mod state;
mod table;

use crate::signals::Signals;
use crate::{machine, output};
use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub(crate) use options::Args;
use results::{PointResult, Results, Settings};
use ringcall_decoder_service::study::{Arm, Point, Progress, State, StateError, Study, StudyError};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long after a signal a sweep may still work: threads that build a point's graph or decode a batch are not waited for.
const GRACE_PERIOD: Duration = Duration::from_millis(1500);

/// Studies, reports, and says by its exit code whether every point has enough.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    for path in [&args.json, &args.report].into_iter().flatten() {
        output::check_writable(path)?;
    }
    let signals = Signals::listen()?;
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
    };
    let (mut state, mut log) = match &args.state {
        Some(path) => {
            let (state, log) = state::open(path, study.setup())?;
            (state, Some(log))
        }
        None => (State::new(study.setup()), None),
    };
    let mut nowhere = io::sink();
    let lines: &mut dyn Write = log.as_mut().map_or(&mut nowhere, |log| log);
    let bar = progress_bar(&study);
    signals.run_bounded(GRACE_PERIOD);
    let complete = study.run(&mut state, lines, &mut |progress| {
        show(&bar, &study, progress);
        signals.received().is_none()
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
    publish(args, &results(args, &study, &state, complete)?)?;
    match signals.received().filter(|_| !complete) {
        Some(signal) => {
            let kept = if args.state.is_some() { "; the same command goes on from here" } else { "" };
            eprintln!("ringcall: stopped by signal {signal}{kept}");
            Ok(ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn results(args: &Args, study: &Study<'_>, state: &State, complete: bool) -> Result<Results> {
    let setup = state.setup().clone();
    let point = |point| PointResult::new(point, &state.outcome(point, &study.stop), args.confidence);
    Ok(Results {
        complete,
        settings: Settings {
            seed: setup.seed,
            batch_shots: setup.batch_shots,
            shots: study.stop.shots,
            max_errors: study.stop.errors,
            confidence: args.confidence,
            matching: setup.matching.name(),
            relay_solutions: setup.relay.solutions,
            relay_iterations: setup.relay.iterations,
            predecoder: setup.predecoder,
            threads: study.threads,
            machine: machine::describe(),
        },
        points: study.points.iter().map(point).collect::<Result<_, _>>()?,
    })
}

fn publish(args: &Args, results: &Results) -> Result<()> {
    if args.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        let mut out = std::io::stdout();
        out.write_all(table::to_text(results).as_bytes())
            .and_then(|()| out.flush())
            .context("standard output")?;
    }
    if let Some(path) = &args.json {
        output::write_json(path, results)?;
    }
    if let Some(path) = &args.report {
        let svg = crate::report::page::is_svg(path);
        output::write_text(path, &if svg { page::to_svg(results)? } else { page::to_html(results) })?;
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
