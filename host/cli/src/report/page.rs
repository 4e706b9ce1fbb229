//! Shared parts of report pages: no script, no fetched resource, light and dark.

use anyhow::{Context, Result};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plotters::style::RGBColor;
use std::path::Path;

use super::charts::frame::{Screen, Svg};
use super::provenance::Provenance;
use crate::usage::misuse;

/// Colours for light and dark mode. Charts draw ink as #010101 and grid lines as #020202, which the page replaces.
const COLOURS: &str = "
:root { color-scheme: light dark; --ink: #1f2937; --dim: #6b7280; --line: #e2e5ea; --page: #f6f7f9; --card: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --dim: #9ca3af; --line: #343b47; --page: #14181f; --card: #1c222b; }
}
svg text { font-family: inherit; paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
svg [fill='#010101'] { fill: var(--ink); }
svg [stroke='#010101'] { stroke: var(--dim); }
svg [stroke='#020202'] { stroke: var(--line); }
";

const STYLE: &str = "
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 20px 48px; max-width: 1160px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 18px; }
h2 { font-size: 17px; margin: 0 0 10px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin: 0 0 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(122px, 1fr)); gap: 12px; margin: 0 0 18px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.tile b { display: block; font-size: 21px; font-weight: 600; line-height: 1.3; }
.tile span, .note, footer { color: var(--dim); font-size: 13px; }
.bad b { color: #ef4444; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 5px 8px; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr:last-child td { border-bottom: 0; }
th { color: var(--dim); font-weight: 500; }
.settings td { text-align: left; overflow-wrap: anywhere; }
.settings td:first-child { color: var(--dim); width: 30%; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; color: var(--dim); font-size: 13px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
p { margin: 0 0 8px; }
footer { overflow-wrap: anywhere; }
pre { margin: 0; overflow-x: auto; font-size: 13px; }
svg { display: block; width: 100%; height: auto; }
.narrow { display: none; }
.choice input { position: absolute; opacity: 0; }
.choice label { display: inline-block; margin: 0 14px 8px 0; color: var(--dim); cursor: pointer; }
.choice input:checked + label { color: var(--ink); text-decoration: underline; text-underline-offset: 4px; }
.choice input:focus-visible + label { outline: 2px solid var(--dim); }
.choice .second, .choice input.two:checked ~ .first { display: none; }
.choice input.two:checked ~ .second { display: block; }
@media (max-width: 760px) {
  body { padding: 18px 10px 32px; }
  section { padding: 14px 12px; }
  .wide { display: none; }
  .narrow { display: block; max-width: 480px; margin: 0 auto; }
  .rows tr:first-child { display: none; }
  .rows tr { display: block; padding: 6px 0; border-bottom: 1px solid var(--line); }
  .rows tr:last-child { border-bottom: 0; }
  .rows td, .rows td:first-child { display: flex; justify-content: space-between; gap: 16px; padding: 1px 0; border: 0;
    text-align: right; overflow-wrap: anywhere; }
  .rows td::before { content: attr(data-label); color: var(--dim); flex: none; }
}
";

/// A whole document around a body, with the provenance of its figures at the end.
pub(crate) fn page(title: &str, body: &Markup, provenance: &Provenance) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(COLOURS)) (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
                footer id="provenance" { (provenance.in_words()) }
            }
        }
    }
    .into_string()
}

/// Whether a report's file has this extension, which determines the form of the report.
pub(crate) fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

/// An SVG file with the provenance of its figures as its description: readers of the file see it, the picture does not
/// show it.
pub(crate) fn described(svg: &str, provenance: &Provenance) -> String {
    let description = html! { desc id="provenance" { (provenance.in_words()) } }.into_string();
    // Inserted after the outermost element's start tag.
    match svg.find("<svg").and_then(|begin| svg[begin..].find('>').map(|end| begin + end + 1)) {
        Some(body) => format!("{}{description}{}", &svg[..body], &svg[body..]),
        None => svg.to_owned(),
    }
}

/// A chart as an SVG file, with a background, the legend at the upper left, colours for light and dark mode, and the
/// provenance of its figures.
///
/// # Errors
/// There is no data, or drawing fails.
pub(crate) fn svg_file(svg: Svg, legend: &[(&str, RGBColor)], provenance: &Provenance) -> Result<String> {
    let svg =
        svg.context("no data for a chart: nothing was completed")?.context("the chart could not be drawn")?;
    let (head, body) = svg.split_once('>').context("a chart without an element")?;
    let head = head.replace(" role=\"img\"", " role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"");
    let (left, top, line) = (118, 34, 22);
    let front = html! {
        style { (PreEscaped(COLOURS)) "svg { font-family: system-ui, sans-serif; background: var(--card); }" }
        rect width="100%" height="100%" style="fill: var(--card)" {}
    };
    let back = html! {
        @for (row, (label, RGBColor(r, g, b))) in legend.iter().enumerate() {
            rect x=(left) y=(top + line * row) width="12" height="12" rx="3" fill=(format!("rgb({r}, {g}, {b})")) {}
            text x=(left + 20) y=(top + 11 + line * row) font-size="14" fill="#010101" { (label) }
        }
    };
    let body = body.trim_end().strip_suffix("</svg>").context("a chart without an end")?;
    let file = format!("{head}>{}{body}{}</svg>\n", front.into_string(), back.into_string());
    Ok(described(&file, provenance))
}

/// Refuses a report's file whose extension stands for another form than the report has; without an extension it is
/// HTML.
///
/// # Errors
/// [`Misuse`](crate::usage::Misuse): an extension other than `.html` and those of `known`.
pub(crate) fn check_extension(path: &Path, known: &[&str]) -> Result<()> {
    let Some(extension) = path.extension() else { return Ok(()) };
    if ["html", "htm"].iter().chain(known).any(|known| extension.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err(misuse(format!(
        "--report {}: a report ends in .html, .{}; JSON is written by --json",
        path.display(),
        known.join(", .")
    )))
}

/// A table whose cells have lines of their own on a narrow page, each with its column's heading. Empty columns are left
/// out.
pub(crate) fn table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Markup {
    let rows: Vec<[String; COLUMNS]> = rows.into_iter().collect();
    let kept = |column: &usize| rows.iter().any(|row| !matches!(row[*column].as_str(), "" | "-"));
    let kept: Vec<usize> = (0..COLUMNS).filter(|column| rows.is_empty() || kept(column)).collect();
    html! {
        table.rows {
            tr { @for &column in &kept { th { (headings[column]) } } }
            @for row in &rows {
                tr { @for &column in &kept { td data-label=(headings[column]) { (row[column]) } } }
            }
        }
    }
}

/// A section with a chart and its legend.
pub(crate) fn chart(
    id: &str,
    title: &str,
    draw: impl Fn(Screen) -> Svg,
    legend: &[(&str, RGBColor)],
) -> Markup {
    html! { section id=(id) { h2 { (title) } (picture(draw, legend)) } }
}

pub(crate) fn picture(draw: impl Fn(Screen) -> Svg, legend: &[(&str, RGBColor)]) -> Markup {
    html! {
        @match (draw(Screen::Wide), draw(Screen::Narrow)) {
            (None, _) | (_, None) => p.note { "No data: nothing was completed, or this was not measured." },
            (Some(Err(error)), _) | (_, Some(Err(error))) => p.note { "The chart could not be drawn: " (error) },
            (Some(Ok(wide)), Some(Ok(narrow))) => {
                @if !legend.is_empty() {
                    div.legend {
                        @for (label, RGBColor(r, g, b)) in legend {
                            span { i style=(format!("background: rgb({r}, {g}, {b})")) {} (label) }
                        }
                    }
                }
                div.wide { (PreEscaped(wide)) }
                div.narrow { (PreEscaped(narrow)) }
            }
        }
    }
}
