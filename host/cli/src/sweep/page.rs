//! HTML page of a sweep's results, and its plot as SVG and PDF.

use super::fits::{Fits, Suppression};
use super::found::Results;
use super::lines;
use super::plot::{self, Per};
use super::table::{COLUMNS, RATIO, rows};
use crate::report::charts::{colour, frame::Screen};
use crate::report::{page, pdf};
use anyhow::Result;
use maud::{Markup, html};
use plotters::style::RGBColor;
use ringcall_decoder_service::study::Matching;
use std::fmt::Write;

/// The plot as an SVG file.
///
/// # Errors
/// No shot was taken.
pub(super) fn to_svg(results: &Results) -> Result<String> {
    let labels = lines::codes(&results.points);
    let plot = plot::svg(&results.points, &results.fits, Per::Shot, Screen::Wide);
    page::svg_file(plot, &legend(&labels), &results.provenance)
}

/// The plot as a PDF.
///
/// # Errors
/// No shot was taken.
pub(super) fn to_pdf(results: &Results) -> Result<Vec<u8>> {
    pdf::from_svg(&to_svg(results)?, "Ringcall sweep", &results.provenance.in_words())
}

/// The points as comma-separated values, a row for each arm.
pub(super) fn to_csv(results: &Results) -> String {
    let mut out =
        "code,distance,rounds,p,matching,predecoder,shots,errors,rate_per_shot,low,high,rate_per_round\n"
            .to_owned();
    for point in &results.points {
        for compared in &point.arms {
            let arm = &compared.arm;
            let [low, high] = arm.logical_error_rate_ci;
            // Numbers that a file's name does not state are left empty.
            let rounds = if point.rounds == 0 { String::new() } else { point.rounds.to_string() };
            let said = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{low},{high},{}",
                point.code,
                point.distance,
                rounds,
                said(point.p),
                compared.matching.unwrap_or_default(),
                compared.predecoder,
                point.shots,
                arm.errors,
                arm.logical_error_rate,
                said(arm.logical_error_rate_per_round)
            );
        }
    }
    out
}

fn legend(labels: &[String]) -> Vec<(&str, RGBColor)> {
    labels.iter().enumerate().map(|(place, label)| (label.as_str(), colour(place))).collect()
}

/// The plot, by shot or by round as the reader chooses; only by shot if files do not state their rounds.
fn plots(results: &Results, legend: &[(&str, RGBColor)]) -> Markup {
    let picture =
        |per| page::picture(|screen| plot::svg(&results.points, &results.fits, per, screen), legend);
    let rounds = results.points.iter().all(|point| point.rounds > 0);
    html! {
        section id="plot" {
            h2 { "Logical error rate against noise" }
            @if rounds {
                div.choice {
                    input.one type="radio" name="per" id="per-shot" checked;
                    label for="per-shot" { "per shot" }
                    input.two type="radio" name="per" id="per-round";
                    label for="per-round" { "per round" }
                    div.first { (picture(Per::Shot)) }
                    div.second { (picture(Per::Round)) }
                }
            } @else {
                (picture(Per::Shot))
            }
        }
    }
}

/// Thresholds and Λ, if there are several distances.
fn fits(fits: &Fits) -> Markup {
    html! {
        section id="fits" {
            h2 { "Threshold and suppression" }
            @for found in &fits.thresholds { p { (found.in_words()) } }
            @if fits.thresholds.is_empty() {
                p.note { "No threshold: the curves of the least and the largest distance do not cross where they were measured, or \
                    fewer than six points are near." }
            } @else {
                p.note { "A quadratic in (p - threshold) d^(1/ν) is fitted to the points near the crossing (dotted); the error is one \
                    standard deviation, the band in the plot." }
            }
            @if !fits.suppressions.is_empty() {
                (page::table(Suppression::COLUMNS, fits.suppressions.iter().map(Suppression::row)))
                p.note { "Λ: how many times fewer errors per round with a distance larger by 2." }
            }
        }
    }
}

pub(super) fn to_html(results: &Results) -> String {
    let settings = &results.settings;
    let labels = lines::codes(&results.points);
    let all: Vec<_> = results.points.iter().flat_map(rows).collect();
    let compared = all.iter().any(|row| row[RATIO] != "-");
    let body = html! {
        @if !results.complete { p.note { "Not complete: it was stopped before every point had enough shots." } }
        (plots(results, &legend(&labels)))
        p.note {
            "Bars are " (format!("{}", settings.confidence * 100.0)) "% Clopper-Pearson intervals; a bar alone is a point "
            "without errors."
            @if settings.predecoder.is_some() {
                " Full lines: matching alone. Dashed lines and rings: predecoder and matching, on the same shots."
            }
            @if settings.matching == Matching::Both.name() {
                " Pale: plain matching. Full colour: correlated matching, on the same shots."
            }
        }
        (fits(&results.fits))
        section id="points" {
            h2 { "Points" }
            (page::table(COLUMNS, all))
            p.note {
                @if compared { "Ratio: logical errors for each of a point's first row, on the same shots. " }
                "Density: share of detectors that fired, or that the predecoder left. Times: means over shots."
            }
        }
        section id="settings" {
            h2 { "Settings" }
            table.settings {
                @for (key, value) in [
                    ("seed", settings.seed.to_string()),
                    ("most shots a point", settings.shots.to_string()),
                    ("errors that end a point", settings.max_errors.map_or("any number".to_owned(), |n| n.to_string())),
                    ("shots of a batch", settings.batch_shots.to_string()),
                    ("matching", settings.matching.to_owned()),
                    ("predecoder", settings.predecoder.clone().unwrap_or_else(|| "none".to_owned())),
                    ("threads", settings.threads.map_or_else(|| "several shards'".to_owned(), |n| n.to_string())),
                    ("machine", settings.machine.clone()),
                ] {
                    tr { td { (key) } td { (value) } }
                }
            }
        }
    };
    page::page("Ringcall sweep", &body, &results.provenance)
}
