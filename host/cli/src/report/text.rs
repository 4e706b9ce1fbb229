//! Text form of a report for a terminal: the important lines, or all lines on request.

use super::{ConfidenceRow, LatencySummary, RunReport, count, per_observable, rate, reduction};
use crate::style::{self, HEADING, PALE, WARNING, paragraph, plain, styled, time};
use std::fmt::Write;

/// Column at which the second column starts.
const LABEL: usize = 12;
/// Column at which it starts in the details.
const DETAIL: usize = 18;

/// The report as lines of text with colours; with `verbose`, including the details.
pub(crate) fn to_text(report: &RunReport, verbose: bool) -> String {
    let mut out = styled(HEADING, &subject(report));
    out += &labelled("requests", &requests(report));
    out += &labelled("latency", &latency(&report.latency_us));
    if report.shots > 0 {
        out += &labelled("errors", &errors(report));
    }
    if report.matching.is_none() && report.unconverged > 0 {
        let (open, all) = (count(report.unconverged), count(report.completed));
        out += &labelled("guesses", &format!("{open} of {all} answers did not converge: best guesses"));
    }
    if report.deadline_us.is_some() {
        out += &labelled("late", &late(report));
    }
    if let Some(warning) = oversubscribed(report) {
        out += &styled(WARNING, &paragraph("note", LABEL, &warning));
    }
    if verbose {
        details(&mut out, report);
    }
    if let Some(slots) = &report.slots {
        out.push_str("\nslots\n");
        for row in slots.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {}", style::cut(&plain(row), style::WIDTH - 2));
        }
    }
    out
}

fn labelled(label: &str, words: &str) -> String {
    let text = paragraph(label, LABEL, words);
    // Only the label has a style, because columns are counted without one.
    match text.strip_prefix(label) {
        Some(rest) => styled(PALE, label) + rest,
        None => text,
    }
}

fn setting<'a>(report: &'a RunReport, name: &str) -> Option<&'a str> {
    report.settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The experiment and its decoder.
fn subject(report: &RunReport) -> String {
    let of = |name| setting(report, name).map(plain);
    let mut words = match (of("model"), of("code")) {
        (Some(file), _) => file,
        (None, Some(code)) => {
            let part = |name, what| of(name).map_or_else(String::new, |value| format!(", {what}{value}"));
            let parts = [
                part("distance", "distance "),
                part("rounds", "rounds "),
                part("basis", "basis "),
                part("p", "p = "),
            ];
            format!("{code} code{}", parts.concat())
        }
        (None, None) => "an experiment".to_owned(),
    };
    if let Some(detectors) = of("detectors") {
        words += &format!(", {detectors} detectors");
    }
    words += &match report.matching {
        Some(matching) => format!("; {matching} matching"),
        None => format!("; {}", report.decoder),
    };
    if let Some(engine) = of("engine").filter(|engine| !engine.ends_with(" alone")) {
        words += &format!(" after engine {engine}");
    }
    paragraph("", 0, &words)
}

/// The number and rate of requests, and how many were not answered.
fn requests(report: &RunReport) -> String {
    let mut words =
        format!("{} answered, {}", count(report.completed), style::per_second(report.throughput_per_s));
    let faults: Vec<String> =
        [("refused", report.refused), ("timed out", report.timed_out), ("lost", report.lost)]
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .map(|(name, number)| format!("{} {name}", count(number)))
            .collect();
    words += "; ";
    words += &if faults.is_empty() { "none lost".to_owned() } else { faults.join(", ") };
    if report.stalls > 0 {
        words += &format!("; {} waited for a free slot", count(report.stalls));
    }
    words
}

fn latency(summary: &LatencySummary) -> String {
    if summary.p50.is_nan() {
        return "none: no request was answered".to_owned();
    }
    let LatencySummary { p50, p99, p999, max, .. } = *summary;
    let parts = [("p50", p50), ("p99", p99), ("p99.9", p999), ("max", max)];
    parts.map(|(name, value)| format!("{name} {}", time(value))).join("   ")
}

fn errors(report: &RunReport) -> String {
    let estimate = report.logical_error_rate;
    let interval = estimate.in_words().map_or_else(String::new, |words| format!(" ({words})"));
    let (errors, shots) = (count(report.logical_errors), count(report.shots));
    format!("{errors} of {shots} shots: {}{interval}", rate(estimate.value))
}

fn late(report: &RunReport) -> String {
    let share = |part: u64, of: u64| match of {
        0 => "-".to_owned(),
        _ => rate(part as f64 / of as f64),
    };
    let mut words = format!(
        "{} of {} answers: {}",
        count(report.late),
        count(report.completed),
        share(report.late, report.completed)
    );
    if report.shots > 0 {
        let (wrong, shots) = (count(report.late_or_wrong), count(report.shots));
        words +=
            &format!("; late or wrong {wrong} of {shots}: {}", share(report.late_or_wrong, report.shots));
    }
    words
}

/// Polling threads besides the workers: dispatcher, consumer, driver.
const POLLING: usize = 3;

/// A warning if the machine rather than the decoder determines these times.
fn oversubscribed(report: &RunReport) -> Option<String> {
    let workers: usize = setting(report, "workers")?.parse().ok()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = workers + POLLING;
    (threads > cores).then(|| {
        let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        format!("{cores} for {threads} threads that poll: these times are the scheduler's (`ringcall help latency`)")
    })
}

fn details(out: &mut String, report: &RunReport) {
    out.push('\n');
    latencies(out, report);
    out.push('\n');
    let mut row = |label: &str, words: &str| *out += &paragraph(label, DETAIL, words);
    row(
        "requests",
        &report.request_counts().map(|(name, number)| format!("{name} {}", count(number))).join(", "),
    );
    if !report.stage_shares.is_empty() {
        let shares = report.stage_shares.iter().map(|(name, share)| format!("{name} {:.1}%", 100.0 * share));
        row("of the way", &shares.collect::<Vec<_>>().join(", "));
    }
    row("wall time", &time(1e6 * report.wall_time_s));
    if report.per_round_us.is_finite() {
        row("per round", &time(report.per_round_us));
    }
    if report.density_in.is_finite() {
        let (before, after) = (rate(report.density_in), rate(report.density_out));
        row("syndrome density", &format!("{before} in, {after} out (cut {})", reduction(report)));
    }
    if let Some(errors) = per_observable(report) {
        row("of observables", &errors.join(", "));
    }
    if !report.confidences.is_empty() {
        row("confidence", &ConfidenceRow::words(&report.confidences));
    }
    if report.matching.is_none() {
        let (open, all) = (count(report.unconverged), count(report.completed));
        row("unconverged", &format!("{open} of {all} answers"));
    }
    for (key, value) in &report.settings {
        row(&plain(key), &plain(value));
    }
}

/// The latency of the whole request and of its measured parts.
fn latencies(out: &mut String, report: &RunReport) {
    let headings = ["p50", "p90", "p99", "p99.9", "max", "mean"];
    let line = |name: &str, cells: [String; 6]| {
        let cells = cells.map(|cell| format!("{cell:>10}")).concat();
        format!("{name:DETAIL$}{cells}")
    };
    let values = |summary: &LatencySummary| {
        let LatencySummary { p50, p90, p99, p999, max, mean, .. } = *summary;
        [p50, p90, p99, p999, max, mean].map(time)
    };
    let rows = [
        ("whole request".to_owned(), &report.latency_us),
        ("by PTP stamps".to_owned(), &report.ptp_round_trip_us),
    ]
    .into_iter();
    // Lateness is not part of the request, so it is not among its stages.
    let stages = report.stages_us.iter().filter(|stage| stage.name != "injection");
    let rows = rows.chain(stages.map(|stage| (format!("  {}", stage.name), &stage.summary)));
    let late = report.stages_us.iter().filter(|stage| stage.name == "injection");
    let rows = rows.chain(late.map(|stage| ("driver's lateness".to_owned(), &stage.summary)));
    let _ = writeln!(out, "{}", styled(HEADING, &line("latency", headings.map(str::to_owned))));
    for (name, summary) in rows.filter(|(_, summary)| summary.p50.is_finite()) {
        let _ = writeln!(out, "{}", line(&name, values(summary)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::style::WIDTH;

    /// The text without colours, as in a file.
    fn shown(report: &RunReport, verbose: bool) -> String {
        let text = anstream::adapter::strip_str(&to_text(report, verbose)).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(!text.lines().any(|line| line.ends_with(' ')), "{text}");
        text
    }

    #[test]
    fn what_matters_comes_first_and_the_rest_on_demand() {
        let text = shown(&sample::full(), false);
        for words in [
            "correlated matching after engine gpu",
            "answered",
            "2 timed out, 1 lost",
            "p50 ",
            "157 of 12,000 shots: 0.0131 (95% confidence: 0.0111 to 0.0153)",
            "slot 3",
        ] {
            assert!(text.contains(words), "no `{words}` in\n{text}");
        }
        let all = shown(&sample::full(), true);
        assert!(all.starts_with(text.split("\nslots").next().unwrap()), "{all}");
        for words in [
            "submitted 333,333",
            "distance          13",
            "matching skipped 4,321",
            "0.0937 in, 0.0197 out (cut 4.8 x)",
        ] {
            assert!(all.contains(words), "no `{words}` in\n{all}");
        }
        let table = all.lines().skip_while(|line| !line.starts_with("latency  ") || !line.ends_with("mean"));
        let rows: Vec<&str> = table.take_while(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), 3 + sample::full().stages_us.len(), "{all}");
    }

    #[test]
    fn no_stage_is_shown_that_was_not_measured() {
        let text = shown(&sample::empty(), true);
        assert!(
            text.contains("none: no request") && !text.contains("NaN") && !text.contains("inf"),
            "{text}"
        );
        assert!(!text.contains("errors") && !text.contains(" - "), "{text}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut report = sample::empty();
        report.settings.push(("title".into(), "\x1b]0;owned\x07".into()));
        assert!(
            !to_text(&report, true).contains(['\x07', '\u{9b}']) && !to_text(&report, true).contains("\x1b]")
        );
    }
}
