//! Tables of a sweep's results, for a terminal and for the page.

use super::found::Results;
use super::results::{ArmResult, ComparedResult, PointResult};
use crate::report::{count, number, rate};
use crate::style::{self, WIDTH};
use ringcall_decoder_service::study::Matching;
use std::collections::BTreeSet;
use std::fmt::Write;

pub(super) const COLUMNS: [&str; 10] = [
    "code",
    "p",
    "shots",
    "decoder",
    "errors",
    "error rate",
    "interval",
    "ratio",
    "density",
    "matching + inference, µs",
];
pub(super) const RATIO: usize = 7;

/// One row for each arm.
pub(super) fn rows(point: &PointResult) -> Vec<[String; COLUMNS.len()]> {
    let interval = |[low, high]: [f64; 2]| {
        if low.is_finite() && high.is_finite() {
            format!("{} to {}", rate(low), rate(high))
        } else {
            "-".to_owned()
        }
    };
    let shots = count(point.shots) + if point.complete { "" } else { " so far" };
    let row = |(place, compared): (usize, &ComparedResult)| {
        let ComparedResult { matching, predecoder, arm, ratio, ratio_ci, .. } = compared;
        let kind = matching.map_or_else(String::new, |kind| format!("{kind} "));
        let name = match (*matching == Some(Matching::Relay.name()), predecoder) {
            (true, false) => "relay".to_owned(),
            (true, true) => "relay with predecoder".to_owned(),
            (false, false) => kind + "matching alone",
            (false, true) => kind + "matching with predecoder",
        };
        let ratio = match (place, ratio_ci) {
            (0, _) => "-".to_owned(),
            (_, [low, high]) if low.is_finite() => {
                format!("{} ({} to {})", number(*ratio), number(*low), number(*high))
            }
            _ => number(*ratio),
        };
        let after = point.predecoder.as_ref().filter(|_| *predecoder);
        let inference = after.map_or_else(String::new, |after| format!(" + {}", number(after.inference_us)));
        [
            point.label(),
            noise(point),
            shots.clone(),
            name,
            count(arm.errors),
            rate(arm.logical_error_rate),
            interval(arm.logical_error_rate_ci),
            ratio,
            rate(after.map_or(point.density_in, |after| after.density_out)),
            number(arm.matching_us) + &inference,
        ]
    };
    point.arms.iter().enumerate().map(row).collect()
}

/// A table whose columns are as wide as their widest cells; the first column is cut if the line would be too long. A
/// row of one cell is a title. Empty columns are left out.
fn table(out: &mut String, headings: &[&str], rows: &[Vec<String>]) {
    let empty =
        |i: &usize| rows.iter().all(|row| row.get(*i).is_none_or(|cell| row.len() == 1 || cell == "-"));
    let kept: Vec<usize> = (0..headings.len()).filter(|i| *i == 0 || !empty(i)).collect();
    let headings: Vec<&str> = kept.iter().map(|&i| headings[i]).collect();
    let full = |row: &Vec<String>| match row.len() {
        1 => row.clone(),
        _ => kept.iter().map(|&i| row[i].clone()).collect(),
    };
    let rows: Vec<Vec<String>> = rows.iter().map(full).collect();
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = (0..headings.len())
        .map(|i| {
            rows.iter()
                .filter(|row| row.len() > 1)
                .map(|row| width(&row[i]))
                .chain([width(headings[i])])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    widths[0] = widths[0].min(WIDTH.saturating_sub(others).max(8));
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (place, (cell, width)) in cells.zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = match place {
                0 => write!(line, "{:width$}", style::cut(cell, *width)),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    };
    let _ = writeln!(out, "{}", style::styled(style::HEADING, &line(&mut headings.iter().copied())));
    for row in &rows {
        let _ = match &row[..] {
            [title] => writeln!(out, "{}", style::cut(title, WIDTH)),
            row => writeln!(out, "{}", line(&mut row.iter().map(String::as_str))),
        };
    }
}

/// An interval's ends, formatted as factors.
fn interval([low, high]: [f64; 2]) -> String {
    if low.is_finite() && high.is_finite() {
        format!("{} to {}", rate(low), rate(high))
    } else {
        "-".to_owned()
    }
}

/// A point's name within a sentence, without the noise if a file's name does not state it.
fn point_name(point: &PointResult) -> String {
    match noise(point).as_str() {
        "-" => point.label(),
        noise => format!("{}, p = {noise}", point.label()),
    }
}

/// A short name of an arm's decoder.
fn arm_name(arm: &ComparedResult) -> String {
    let with = if arm.predecoder { " + network" } else { "" };
    format!("{}{with}", arm.matching.unwrap_or("-"))
}

/// The table for a terminal, with its settings.
pub(super) fn to_text(results: &Results, verbose: bool) -> String {
    let mut out = String::new();
    let settings = &results.settings;
    let percent = settings.confidence * 100.0;
    let confidence = format!("{percent}% interval");
    if results.points.iter().all(|point| point.arms.len() == 1) {
        let decoders: BTreeSet<String> =
            results.points.iter().flat_map(|point| &point.arms).map(arm_name).collect();
        let mut columns = vec!["code", "p", "shots", "errors", "error rate", &confidence, "decode"];
        let several = decoders.len() > 1;
        if several {
            columns.insert(1, "decoder");
        }
        let row = |(point, arm): (&PointResult, &ComparedResult)| {
            let mut row = vec![
                point.label(),
                noise(point),
                count(point.shots),
                count(arm.arm.errors),
                rate(arm.arm.logical_error_rate),
                interval(arm.arm.logical_error_rate_ci),
                style::time(arm.arm.matching_us),
            ];
            if several {
                row.insert(1, arm_name(arm));
            }
            row
        };
        let arms = results.points.iter().flat_map(|point| point.arms.iter().map(move |arm| (point, arm)));
        table(&mut out, &columns, &arms.map(row).collect::<Vec<_>>());
        if let (false, Some(decoder)) = (several, decoders.first()) {
            out += &style::paragraph("", 0, &format!("Decoder: {decoder}."));
        }
    } else {
        let columns = ["decoder", "errors", "error rate", &confidence, "ratio", "decode"];
        let mut rows = Vec::new();
        for point in &results.points {
            let title = format!("{}, {} shots", point_name(point), count(point.shots));
            rows.push(vec![title]);
            rows.extend(point.arms.iter().map(|arm| {
                let ArmResult { errors, logical_error_rate, logical_error_rate_ci, matching_us, .. } =
                    arm.arm;
                let inference = point.predecoder.as_ref().filter(|_| arm.predecoder);
                vec![
                    format!("  {}", arm_name(arm)),
                    count(errors),
                    rate(logical_error_rate),
                    interval(logical_error_rate_ci),
                    if arm.ratio.is_finite() { format!("{:.2}", arm.ratio) } else { "-".to_owned() },
                    style::time(matching_us + inference.map_or(0.0, |after| after.inference_us)),
                ]
            }));
        }
        table(&mut out, &columns, &rows);
        out += &style::paragraph("", 0, "Ratio: errors for each of a point's first row, on the same shots.");
    }
    for found in &results.fits.thresholds {
        out += &style::paragraph("", 0, &format!("Of {}.", found.in_words()));
    }
    for point in results.points.iter().filter(|point| point.unconverged > 0) {
        let (open, shots) = (count(point.unconverged), count(point.shots));
        let line = format!("{}: {open} of {shots} shots did not converge", point_name(point));
        out += &style::paragraph("", 0, &line);
    }
    if !results.complete {
        let open = results.points.iter().filter(|point| !point.complete).count();
        let line = format!("Not complete: {open} of {} points have too few shots.", results.points.len());
        let _ = writeln!(out, "{}", style::styled(style::WARNING, &line));
    }
    if verbose {
        details(&mut out, results);
    }
    for point in &results.points {
        for arm in &point.arms {
            let (Some(late), Some(either), Some(kind)) = (arm.late, arm.late_or_wrong, arm.matching) else {
                continue;
            };
            let (label, shots) = (point.label(), count(point.shots));
            let (late, either) = (count(late), count(either));
            let _ = writeln!(
                out,
                "{label}, p = {}, {kind}: late {late}, late or wrong {either} of {shots} shots",
                point.p
            );
        }
    }
    out
}

/// The details, for `--verbose`.
fn details(out: &mut String, results: &Results) {
    out.push('\n');
    let row = |point: &PointResult| {
        let after = point.predecoder.as_ref();
        vec![
            point.label(),
            noise(point),
            rate(point.density_in),
            after.map_or_else(|| "-".to_owned(), |after| rate(after.density_out)),
            rate(point.alone.logical_error_rate_per_round),
            rate(point.error_rate_per_observable),
        ]
    };
    let rows: Vec<Vec<String>> = results.points.iter().map(row).collect();
    table(out, &["code", "p", "density", "after network", "rate per round", "per observable"], &rows);
    let settings = &results.settings;
    let mut words = format!("seed {}; matching {}", settings.seed, settings.matching);
    if let Some(predecoder) = &settings.predecoder {
        words += &format!("; predecoder {predecoder}");
    }
    if let Some(us) = settings.deadline_us {
        words += &format!("; late after {us} µs of processor time");
    }
    words += &format!("; on {}", settings.machine);
    if let Some(threads) = settings.threads {
        words += &format!(", {threads} threads");
    }
    *out += &style::paragraph("", 0, &style::plain(&words));
}

fn noise(point: &PointResult) -> String {
    if point.p.is_nan() { "-".to_owned() } else { point.p.to_string() }
}
