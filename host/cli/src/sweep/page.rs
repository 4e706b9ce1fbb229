//! The results as one HTML file.

use super::plot;
use super::results::Results;
use super::table::{COLUMNS, rows};
use crate::report::page;
use anyhow::Result;
use maud::html;
use plotters::style::RGBColor;
use ringcall_decoder_service::study::Matching;

/// The plot as an SVG file.
///
/// # Errors
/// No shot was taken.
pub(super) fn to_svg(results: &Results) -> Result<String> {
    let labels = plot::codes(&results.points);
    page::svg_file(plot::svg(&results.points), &legend(&labels))
}

fn legend(labels: &[String]) -> Vec<(&str, RGBColor)> {
    labels.iter().enumerate().map(|(place, label)| (label.as_str(), plot::colour(place))).collect()
}

/// The page.
pub(super) fn to_html(results: &Results) -> String {
    let settings = &results.settings;
    let labels = plot::codes(&results.points);
    let legend = legend(&labels);
    let body = html! {
        @if !results.complete { p.note { "Not complete: it was stopped before every point had enough shots." } }
        (page::chart("plot", "Logical error rate against noise", plot::svg(&results.points), &legend))
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
        section id="points" {
            h2 { "Points" }
            div.wide { table {
                tr { @for heading in COLUMNS { th { (heading) } } }
                @for row in results.points.iter().flat_map(rows) {
                    tr { @for cell in row { td { (cell) } } }
                }
            } }
            p.note { "Ratio: logical errors for each of a point's first row, on the same shots. Density: \
                share of detectors that fired, or that the predecoder left. Times: means over shots." }
        }
        section id="settings" {
            h2 { "Settings" }
            table.settings {
                @for (key, value) in [
                    ("seed", settings.seed.to_string()),
                    ("most shots a point", settings.shots.to_string()),
                    ("errors that end a point", settings.max_errors.map_or("-".to_owned(), |n| n.to_string())),
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
    page::page("Ringcall sweep", &body)
}
