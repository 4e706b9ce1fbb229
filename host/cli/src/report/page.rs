//! What all pages share: no script, nothing fetched, light and dark.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plotters::style::RGBColor;

use super::charts::Svg;

/// The colours the charts leave to the page are matched by their attribute.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1f2937; --dim: #6b7280; --line: #e2e5ea; --page: #f6f7f9; --card: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --dim: #9ca3af; --line: #343b47; --page: #14181f; --card: #1c222b; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 20px 48px; max-width: 960px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 18px; }
h2 { font-size: 17px; margin: 0 0 10px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin: 0 0 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(138px, 1fr)); gap: 12px; margin: 0 0 18px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.tile b { display: block; font-size: 21px; font-weight: 600; line-height: 1.3; }
.tile span, .note { color: var(--dim); font-size: 13px; }
.bad b { color: #ef4444; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr:last-child td { border-bottom: 0; }
th { color: var(--dim); font-weight: 500; }
.settings td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.settings td:first-child { color: var(--dim); width: 30%; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; color: var(--dim); font-size: 13px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
p { margin: 0 0 8px; }
pre { margin: 0; overflow-x: auto; font-size: 13px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit; }
svg [fill='#010101'] { fill: var(--ink); }
svg [stroke='#010101'] { stroke: var(--dim); }
svg [stroke='#020202'] { stroke: var(--line); }
";

/// A whole document around a body.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    }
    .into_string()
}

/// A section with a chart in it, and its legend.
pub(crate) fn chart(id: &str, title: &str, svg: Svg, legend: &[(&str, RGBColor)]) -> Markup {
    html! {
        section id=(id) {
            h2 { (title) }
            @match svg {
                None => p.note { "No data: nothing was completed, or this was not measured." },
                Some(Err(error)) => p.note { "The chart could not be drawn: " (error) },
                Some(Ok(svg)) => {
                    @if !legend.is_empty() {
                        div.legend {
                            @for (label, RGBColor(r, g, b)) in legend {
                                span { i style=(format!("background: rgb({r}, {g}, {b})")) {} (label) }
                            }
                        }
                    }
                    (PreEscaped(svg))
                }
            }
        }
    }
}
