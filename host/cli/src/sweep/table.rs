//! The results for a terminal.

use super::found::Results;
use super::results::{ComparedResult, PointResult};
use crate::report::{count, number, rate};
use ringcall_decoder_service::study::Matching;
use std::fmt::Write;

/// The columns of the table, and of the page's.
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
    "matching + inference, us",
];

/// One row an arm.
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
            point.p.to_string(),
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

/// The table, and what it is of.
pub(super) fn to_text(results: &Results) -> String {
    let rows: Vec<_> = results.points.iter().flat_map(rows).collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|i| rows.iter().map(|row| row[i].len()).chain([COLUMNS[i].len()]).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    let mut line = |cells: &[&str]| {
        for (cell, width) in cells.iter().zip(&widths) {
            // Writing to a String cannot fail.
            let _ = write!(out, "{cell:>width$}  ");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    };
    line(&COLUMNS);
    for row in &rows {
        line(&row.each_ref().map(String::as_str));
    }
    for point in results.points.iter().filter(|point| point.unconverged > 0) {
        let (open, shots) = (count(point.unconverged), count(point.shots));
        let _ = writeln!(out, "{}, p = {}: {open} of {shots} shots did not converge", point.label(), point.p);
    }
    let settings = &results.settings;
    let _ = write!(out, "{}% intervals; seed {}", number(settings.confidence * 100.0), settings.seed);
    let _ = write!(out, "; matching {}", settings.matching);
    if let Some(predecoder) = &settings.predecoder {
        let _ = write!(out, "; predecoder {predecoder}");
    }
    let _ = write!(out, "; on {}", settings.machine);
    if let Some(threads) = settings.threads {
        let _ = write!(out, ", {threads} threads");
    }
    out.push('\n');
    out
}
