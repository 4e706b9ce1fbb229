//! Chart of round-trip times: one panel a benchmark, one axis for all panels.

use super::measure::{Row, time};
use crate::report::charts::axis::Axis;
use crate::report::charts::frame::{FONT, text_width};
use crate::report::{Provenance, page};
use anyhow::{Result, anyhow};
use plotters::prelude::*;

const WIDTH: u32 = 900;
const PANEL: u32 = 112;
/// Margin on either side of the bars, for half of the axis's outermost label.
const SIDE: u32 = 34;
/// Height of a panel's title.
const TITLE: u32 = 26;
/// Height of the axis below the last panel.
const FOOT: u32 = 48;
const BARS: RGBColor = RGBColor(59, 130, 246);
const MEDIAN: RGBColor = RGBColor(217, 119, 6);

/// An SVG of every row with timed round trips, and the machine that timed them; `None` if there is no such row.
///
/// # Errors
/// The drawing library's error.
pub(super) fn svg(rows: &[Row], provenance: &Provenance) -> Result<Option<String>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| !row.bins.is_empty()).collect();
    let ends = rows.iter().flat_map(|row| [row.min_ns, row.max_ns]);
    let (Some(least), Some(most)) = (ends.clone().min(), ends.max()) else { return Ok(None) };
    let x = Axis::log("round trip", least.max(1) as f64 * 0.9, most.max(2) as f64 * 1.1).labelled(time);
    let mut text = String::new();
    {
        let size = (WIDTH, PANEL * rows.len() as u32 + FOOT);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&root, &rows, &x).map_err(|error| anyhow!("drawing the histogram: {error}"))?;
    }
    Ok(Some(page::described(&text, provenance)))
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw<'a>(
    root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    rows: &[&Row],
    x: &Axis,
) -> Result<(), Failure<'a>> {
    root.fill(&WHITE)?;
    let across = x.positions(f64::from(WIDTH - 2 * SIDE), text_width);
    for (index, row) in rows.iter().enumerate() {
        let last = index + 1 == rows.len();
        let top = PANEL * index as u32;
        let height = if last { PANEL + FOOT } else { PANEL };
        let panel = root.clone().shrink((0, top), (WIDTH, height));
        let peak = row.bins.iter().map(|bin| bin.2).max().unwrap_or(1) as f64;
        let mut chart = ChartBuilder::on(&panel)
            .margin_left(SIDE)
            .margin_right(SIDE)
            .margin_top(TITLE)
            .x_label_area_size(if last { FOOT } else { 0 })
            .build_cartesian_2d(across.clone(), 0.0..1.05)?;
        let label = |at: &f64| across.label(*at);
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(32).x_label_formatter(&label);
        mesh.disable_y_mesh().disable_y_axis().light_line_style(TRANSPARENT).bold_line_style(BLACK.mix(0.15));
        if last {
            let font = FONT.into_font().color(&BLACK);
            mesh.x_desc(x.title).label_style(font.clone()).axis_desc_style(font);
        }
        mesh.draw()?;
        chart.draw_series(row.bins.iter().map(|&(from, to, count)| {
            let [from, to] = [from, to.max(from)].map(|ns| x.at(ns as f64));
            Rectangle::new([(from, 0.0), (to, count as f64 / peak)], BARS.filled())
        }))?;
        let p50 = x.at(row.p50_ns as f64);
        chart.draw_series([PathElement::new([(p50, 0.0), (p50, 1.05)], MEDIAN.stroke_width(2))])?;
        let [p50, p99, p999] = [row.p50_ns, row.p99_ns, row.p999_ns].map(|ns| time(ns as f64));
        let title = format!("{}: p50 {p50}, p99 {p99}, p99.9 {p999}, {} trips", row.name, row.n);
        // Left-aligned above the bars, because the longest title takes half of the picture's width.
        panel.draw_text(&title, &FONT.into_font().color(&BLACK), (12, 6))?;
    }
    root.present()
}

#[cfg(test)]
mod tests {
    use super::super::measure::histogram;
    use super::*;

    #[test]
    fn every_timed_benchmark_has_a_panel() {
        let mut times = histogram().unwrap();
        for ns in [900, 1000, 1000, 1100, 40_000] {
            times.record(ns).unwrap();
        }
        let row = |name: &str| Row { name: name.to_owned(), ..Row::new(&times) };
        let bins: u64 = row("a").bins.iter().map(|bin| bin.2).sum();
        assert_eq!(bins, 5, "every trip is in a bin");
        let made = Provenance::now();
        let svg = svg(&[row("first/32"), row("second/32")], &made).unwrap().unwrap();
        assert!(svg.contains("first/32: p50 1.00 µs") && svg.contains("second/32"), "{svg}");
        assert!(
            svg.contains("<desc id=\"provenance\">Made by ringcall") && svg.contains(&made.date),
            "{svg}"
        );
        assert_eq!(super::svg(&[], &made).unwrap(), None);
    }

    /// Times within less than a decade, and across a decade's end, where every unit has a tick.
    #[test]
    fn labels_of_the_axis_have_room() {
        for (least, most) in [(4_700, 10_800), (3_400, 33_000), (900, 1_100), (1_100, 1_150), (50, 9_000_000)]
        {
            let mut times = histogram().unwrap();
            times.record(least).unwrap();
            times.record(most).unwrap();
            let svg = svg(&[Row { name: "x".to_owned(), ..Row::new(&times) }], &Provenance::now())
                .unwrap()
                .unwrap();
            let texts = svg.split("<text ").skip(1).filter(|text| text.contains("text-anchor=\"middle\""));
            let attribute = |text: &str, name: &str| {
                text.split(name).nth(1).unwrap().split('"').next().unwrap().to_owned()
            };
            let mut labels: Vec<(f64, f64)> = texts
                .filter(|text| text.contains("s\n"))
                .map(|text| {
                    let words = text.split('>').nth(1).unwrap().split('<').next().unwrap().trim();
                    (attribute(text, "x=\"").parse().unwrap(), text_width(words))
                })
                .collect();
            labels.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(labels.len() >= 2, "{least} to {most}: {svg}");
            for pair in labels.windows(2) {
                assert!(
                    pair[1].0 - pair[0].0 >= (pair[0].1 + pair[1].1) / 2.0,
                    "{least} to {most}: {pair:?}"
                );
            }
            let (first, last) = (labels[0], labels[labels.len() - 1]);
            assert!(
                first.0 >= first.1 / 2.0 && last.0 + last.1 / 2.0 <= f64::from(WIDTH),
                "{first:?} {last:?}"
            );
        }
    }
}
