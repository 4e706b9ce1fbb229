//! `ringcall run`: a memory experiment through the whole pipeline, and a report.

mod figures;
mod inputs;
mod options;

use crate::signals::{self, Interrupt, Signals};
use crate::style::{self, Busy};
use crate::usage::misuse;
use crate::{output, report};
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
pub(crate) use inputs::for_network;
pub(crate) use options::Args;
use ringcall_decoder_service::{Progress, Summary};
use ringcall_qec::circuit::Experiment;
use ringcall_qec::decode::DecoderFamily;
use std::io::Write;
use std::time::Duration;

/// How long after a signal requests in flight are waited for.
const GRACE_PERIOD: Duration = Duration::from_millis(1500);

/// Runs and reports. The exit code says whether every request was answered.
pub(crate) fn run(args: &Args, signals: &Signals) -> Result<u8> {
    args.check()?;
    let (report, summary) = measure(args, signals)?;
    signals.came_to_an_end();
    publish(args, &report)?;
    if let Some(signal) = signals.received() {
        eprintln!("ringcall: stopped by signal {signal} after {} requests", summary.stats.submitted);
        return Ok(signals::status(signal));
    }
    exit_code(&summary)
}

/// A run's results for a caller: JSON and a page.
pub(crate) fn called(args: &Args, interrupt: &dyn Interrupt) -> Result<(String, String)> {
    args.check()?;
    let (report, summary) = measure(args, interrupt)?;
    if interrupt.received().is_none() {
        exit_code(&summary)?;
    }
    Ok((serde_json::to_string(&report)?, report::to_html(&report)))
}

/// Runs the experiment. Returns the report and the summary.
fn measure(args: &Args, interrupt: &dyn Interrupt) -> Result<(report::RunReport, Summary)> {
    if args.nvtx {
        ringcall_cuda::nvtx::enable().map_err(|why| misuse(format!("--nvtx: {why}")))?;
    }
    // Checked before the run, so that a path that cannot be written does not waste the run.
    for path in &args.report {
        report::page::check_extension(path, &["svg", "pdf"])?;
    }
    for path in args.json.iter().chain(&args.report) {
        output::check_writable(path)?;
    }
    let busy = Busy::new("building the decoder");
    let (problem, experiment) = inputs::problem(args)?;
    let source = inputs::source(args, &problem)?;
    let config = args.service_config(problem.family() != DecoderFamily::Matching)?;
    let surface = experiment.as_ref().and_then(Experiment::surface);
    let inputs::Started { service, network, problem } =
        inputs::start(args, &problem, surface.as_ref(), config)?;
    let service = match args.ptp_clock.clock()? {
        Some(clock) => service.with_ptp_clock(clock),
        None => service,
    };
    drop(busy);
    service.pins().iter().for_each(crate::pinning::tell);
    let monitor = service.monitor();
    let bar = progress_bar(args);
    interrupt.begin(Some(GRACE_PERIOD));
    let summary = service.drive(source, args.pace(), &mut |progress| {
        show(&bar, args, progress);
        interrupt.received().is_none()
    });
    bar.finish_and_clear();
    let summary = summary?;
    let mut report =
        figures::report(args, &problem, experiment.as_ref(), &config, network.as_ref(), &summary)?;
    if summary.lost() > 0 || summary.stop.as_ref().is_some_and(|stop| stop.unfinished.is_some()) {
        report.slots = Some(monitor.dump().to_string());
    }
    Ok((report, summary))
}

/// 0 if every request was answered by the intended stages.
fn exit_code(summary: &Summary) -> Result<u8> {
    let stats = &summary.stats;
    if summary.lost() > 0 {
        bail!("{} of {} requests were lost", summary.lost(), stats.submitted);
    }
    if stats.timed_out > 0 {
        bail!("{} of {} requests timed out", stats.timed_out, stats.submitted);
    }
    if stats.refused > 0 {
        bail!("{} of {} requests were refused", stats.refused, stats.submitted);
    }
    if summary.unstamped > 0 {
        bail!("{} answers did not echo their request's time stamp", summary.unstamped);
    }
    if summary.unexpected > 0 {
        bail!("{} answers belonged to no request", summary.unexpected);
    }
    if let Some(failure) = &summary.failure {
        bail!("the device's dispatcher did not end well: {failure}");
    }
    Ok(0)
}

fn publish(args: &Args, report: &report::RunReport) -> Result<()> {
    let json_on_stdout = args.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if !json_on_stdout {
        let mut out = anstream::stdout();
        out.write_all(report::to_text(report, args.verbose).as_bytes())
            .and_then(|()| out.flush())
            .context("standard output")?;
    }
    if let Some(path) = &args.json {
        output::write_json(path, report)?;
    }
    for path in &args.report {
        let is = |extension| report::page::has_extension(path, extension);
        let bytes = match () {
            () if is("svg") => report::to_svg(report)?.into_bytes(),
            () if is("pdf") => report::to_pdf(report)?,
            () => report::to_html(report).into_bytes(),
        };
        output::write_bytes(path, &bytes)?;
    }
    Ok(())
}

/// A progress bar on a terminal, hidden elsewhere.
fn progress_bar(args: &Args) -> ProgressBar {
    let (length, template) = match (args.most_requests(), args.run_time()) {
        (Some(requests), _) => (Some(requests), "{bar:20} {pos}/{len} requests  {wide_msg}"),
        (None, Some(duration)) => (Some(duration.as_millis() as u64), "{bar:20} {elapsed}  {wide_msg}"),
        (None, None) => (None, "{spinner} {elapsed}  {wide_msg}"),
    };
    style::bar(length, template)
}

fn show(bar: &ProgressBar, args: &Args, progress: &Progress) {
    let Progress { submitted, completed, logical_errors, elapsed, latest_us } = *progress;
    bar.set_position(if args.most_requests().is_some() { submitted } else { elapsed.as_millis() as u64 });
    let rate = completed as f64 / elapsed.max(Duration::from_millis(1)).as_secs_f64();
    let (rate, latest) = (style::per_second(rate), style::time(latest_us));
    bar.set_message(format!("{rate}  latest {latest}  {logical_errors} logical errors"));
}
