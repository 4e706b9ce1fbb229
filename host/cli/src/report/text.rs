//! The report for a terminal: aligned, about a hundred columns, no colour.

use std::fmt::Write;

use super::{LatencySummary, RunReport, count, number, per_observable, rate, reduction};

/// Where the second column starts.
const LABEL: usize = 18;
/// How wide a column of times is.
const CELL: usize = 9;
/// How wide a wrapped line gets.
const WIDTH: usize = 100;

/// The report as lines of text.
pub(crate) fn to_text(report: &RunReport) -> String {
    let mut out = String::new();
    if !report.settings.is_empty() {
        wrapped(
            &mut out,
            "settings",
            report.settings.iter().map(|(k, v)| format!("{}={}", plain(k), plain(v))),
        );
    }
    match report.matching {
        Some(matching) => line(&mut out, "matching", matching),
        None => line(&mut out, "decoder", report.decoder),
    }
    wrapped(
        &mut out,
        "requests",
        [
            ("submitted", report.submitted),
            ("completed", report.completed),
            ("refused", report.refused),
            ("timed out", report.timed_out),
            ("lost", report.lost),
            ("stalls", report.stalls),
            ("matching skipped", report.matching_skipped),
        ]
        .map(|(name, value)| format!("{name} {}", count(value))),
    );
    let throughput = format!("{} /s over {} s", number(report.throughput_per_s), number(report.wall_time_s));
    line(&mut out, "throughput", &throughput);
    out.push('\n');
    latencies(&mut out, report);
    out.push('\n');
    if !report.stage_shares.is_empty() {
        let share = |(name, share): &(&str, f64)| format!("{name} {:.1}%", 100.0 * share);
        wrapped(&mut out, "of the way", report.stage_shares.iter().map(share));
    }
    if report.per_round_us.is_finite() {
        line(&mut out, "per round", &format!("{} us", number(report.per_round_us)));
    }
    let density = format!(
        "{} in, {} out (cut {})",
        rate(report.density_in),
        rate(report.density_out),
        reduction(report)
    );
    line(&mut out, "syndrome density", &density);
    let estimate = report.logical_error_rate;
    let interval = estimate.in_words().map_or_else(String::new, |words| format!(" ({words})"));
    let errors = format!(
        "{} of {} shots: {}{interval}",
        count(report.logical_errors),
        count(report.shots),
        rate(estimate.value)
    );
    line(&mut out, "logical errors", &errors);
    if let Some(errors) = per_observable(report) {
        wrapped(&mut out, "of observables", errors);
    }
    if report.matching.is_none() {
        let guesses = if report.unconverged > 0 { ", best guesses" } else { "" };
        let guesses =
            format!("{} of {} answers{guesses}", count(report.unconverged), count(report.completed));
        line(&mut out, "unconverged", &guesses);
    }
    if report.deadline {
        let share = |part: u64, of: u64| rate(part as f64 / of as f64);
        let late = format!(
            "{} of {} answers: {}; late or wrong {} of {} shots: {}",
            count(report.late),
            count(report.completed),
            share(report.late, report.completed),
            count(report.late_or_wrong),
            count(report.shots),
            share(report.late_or_wrong, report.shots)
        );
        line(&mut out, "late", &late);
    }
    if let Some(slots) = &report.slots {
        out.push_str("\nslots\n");
        for row in slots.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {}", plain(row));
        }
    }
    out
}

fn line(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "{label:<LABEL$}{text}");
}

/// Items two blanks apart, continued under the first.
fn wrapped(out: &mut String, label: &str, items: impl IntoIterator<Item = String>) {
    let (mut label, mut row) = (label, String::new());
    for item in items {
        if !row.is_empty() && LABEL + row.len() + 2 + item.len() > WIDTH {
            line(out, label, &row);
            label = "";
            row.clear();
        }
        if !row.is_empty() {
            row.push_str("  ");
        }
        row.push_str(&item);
    }
    line(out, label, &row);
}

fn latencies(out: &mut String, report: &RunReport) {
    let row = |out: &mut String, name: &str, cells: [String; 9]| {
        let _ = write!(out, "{name:<LABEL$}");
        for cell in cells {
            let _ = write!(out, "{cell:>CELL$}");
        }
        out.push('\n');
    };
    let values = |summary: &LatencySummary| summary.columns().map(|(_, value)| cell(value));
    row(out, "latency, us", LatencySummary::NONE.columns().map(|(heading, _)| heading.to_owned()));
    row(out, "whole request", values(&report.latency_us));
    for stage in &report.stages_us {
        row(out, &format!("  {}", stage.name), values(&stage.summary));
    }
}

/// A number that leaves a blank before it.
fn cell(value: f64) -> String {
    let text = number(value);
    if text.len() < CELL { text } else { format!("{value:.2e}") }
}

/// Without control characters, which a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_is_missing() {
        let text = to_text(&sample::full());
        let table: Vec<&str> = text
            .lines()
            .skip_while(|l| !l.starts_with("latency, us"))
            .take_while(|l| !l.is_empty())
            .collect();
        assert_eq!(table.len(), 2 + 5, "{text}");
        assert!(table.iter().all(|l| l.len() == LABEL + 9 * CELL), "{text}");
        for words in [
            "submitted 333,333",
            "timed out 2",
            "lost 1",
            "matching skipped 4,321",
            "33,312 /s over 10.01 s",
            "dispatch 12.9%  inference 45.4%",
            "per round         2.66 us",
            "distance=13",
            "matching          correlated",
            "0.0937 in, 0.0197 out (cut 4.8 x)",
            "157 of 12,000 shots: 0.0131 (95% confidence: 0.0111 to 0.0153)",
            "slot 3",
        ] {
            assert!(text.contains(words), "no `{words}` in\n{text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn seconds_leave_a_blank_between_columns() {
        let mut report = sample::full();
        report.latency_us.max = 1_009_779.0;
        report.latency_us.p999 = 999_999.0;
        let text = to_text(&report);
        let row = text.lines().find(|line| line.starts_with("whole request")).unwrap();
        assert!(row.split_whitespace().count() == 2 + 9 && row.contains("  999,999   1.01e6"), "{row}");
    }

    #[test]
    fn an_empty_run_shows_dashes() {
        let text = to_text(&sample::empty());
        assert!(text.contains("completed 0") && !text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(text.contains("0 of 0 shots: -\n"), "{text}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut report = sample::empty();
        report.settings.push(("title".into(), "\x1b]0;owned\x07".into()));
        assert!(!to_text(&report).contains(['\x1b', '\x07']));
    }
}
