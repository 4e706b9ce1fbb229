//! Chart of round-trip times: one panel a benchmark, one axis for all panels.

use super::measure::{Row, time};
use crate::report::{Provenance, page};
use anyhow::{Result, anyhow};
use plotters::prelude::*;

const WIDTH: u32 = 900;
const PANEL: u32 = 112;
/// Room for what a panel says.
const TITLE: u32 = 26;
/// Room for the axis below the last panel.
const FOOT: u32 = 48;
const BARS: RGBColor = RGBColor(59, 130, 246);
const MEDIAN: RGBColor = RGBColor(217, 119, 6);

/// An SVG of every row that timed round trips, with where they were timed; `None` if there is none.
///
/// # Errors
/// The drawing library's.
pub(super) fn svg(rows: &[Row], provenance: &Provenance) -> Result<Option<String>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| !row.bins.is_empty()).collect();
    let ends = rows.iter().flat_map(|row| [row.min_ns, row.max_ns]);
    let (Some(least), Some(most)) = (ends.clone().min(), ends.max()) else { return Ok(None) };
    let range = least.max(1) as f64 * 0.9..(most.max(2) as f64 * 1.1);
    let mut text = String::new();
    {
        let size = (WIDTH, PANEL * rows.len() as u32 + FOOT);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&root, &rows, &range).map_err(|error| anyhow!("drawing the histogram: {error}"))?;
    }
    Ok(Some(page::described(&text, provenance)))
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw<'a>(
    root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    rows: &[&Row],
    range: &std::ops::Range<f64>,
) -> Result<(), Failure<'a>> {
    root.fill(&WHITE)?;
    for (index, row) in rows.iter().enumerate() {
        let last = index + 1 == rows.len();
        let top = PANEL * index as u32;
        let height = if last { PANEL + FOOT } else { PANEL };
        let panel = root.clone().shrink((0, top), (WIDTH, height));
        let peak = row.bins.iter().map(|bin| bin.2).max().unwrap_or(1) as f64;
        let mut chart = ChartBuilder::on(&panel)
            .margin_left(10)
            .margin_right(20)
            .margin_top(TITLE)
            .x_label_area_size(if last { FOOT } else { 0 })
            .build_cartesian_2d(range.clone().log_scale(), 0.0..1.05)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().disable_y_axis().light_line_style(TRANSPARENT).bold_line_style(BLACK.mix(0.15));
        if last {
            let font = ("sans-serif", 16).into_font().color(&BLACK);
            mesh.x_desc("round trip").label_style(font.clone()).axis_desc_style(font);
            mesh.x_label_formatter(&|ns| time(*ns));
        }
        mesh.draw()?;
        chart.draw_series(row.bins.iter().map(|&(from, to, count)| {
            let from = (from as f64).max(range.start);
            Rectangle::new([(from, 0.0), ((to as f64).max(from), count as f64 / peak)], BARS.filled())
        }))?;
        let p50 = row.p50_ns as f64;
        chart.draw_series([PathElement::new([(p50, 0.0), (p50, 1.05)], MEDIAN.stroke_width(2))])?;
        let [p50, p99, p999] = [row.p50_ns, row.p99_ns, row.p999_ns].map(|ns| time(ns as f64));
        let title = format!("{}: p50 {p50}, p99 {p99}, p99.9 {p999}, {} trips", row.name, row.n);
        // From the left, above the bars: the longest title is as wide as half of the picture.
        panel.draw_text(&title, &("sans-serif", 16).into_font().color(&BLACK), (12, 6))?;
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
}
