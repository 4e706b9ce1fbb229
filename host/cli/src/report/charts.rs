//! The charts, as SVG to be placed inside HTML.
//!
//! Each axis is mapped here (linear, logarithmic, or by nines) and handed to plotters as plain positions with
//! ticks of our choice, so that every tick falls on a round value.

use std::io;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

use super::{RunReport, TimelinePoint, number};

/// Colours that the page's style sheet replaces, to follow light and dark.
pub(super) const INK: RGBColor = RGBColor(1, 1, 1);
pub(super) const GRID: RGBColor = RGBColor(2, 2, 2);
/// Colours that read on light and on dark.
pub(crate) const BLUE: RGBColor = RGBColor(59, 130, 246);
pub(crate) const AMBER: RGBColor = RGBColor(217, 119, 6);
pub(crate) const RED: RGBColor = RGBColor(239, 68, 68);
pub(crate) const GREEN: RGBColor = RGBColor(22, 163, 74);

const WIDTH: u32 = 860;
/// plotters writes 1 / 1.24 of it into the SVG.
const FONT: (&str, i32) = ("sans-serif", 16);
/// From this ratio of largest to smallest on, an axis is logarithmic.
pub(crate) const LOG_FROM: f64 = 8.0;

pub(crate) type Failure = DrawingAreaErrorKind<io::Error>;
type Value = fn(&TimelinePoint) -> f64;
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Positions, Positions>>;

/// A chart's SVG; `None` if the report has nothing to draw in it.
pub(crate) type Svg = Option<Result<String, Failure>>;

/// How values become positions.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Log,
}

pub(crate) struct Axis {
    title: &'static str,
    scale: Scale,
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    pub(crate) fn linear(title: &'static str, from: f64, to: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let rough = (to - from) / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (from / step).ceil() as i64;
        let last = (to / step).floor() as i64;
        let ticks = (first..=last).map(|i| i as f64 * step).map(|v| (v, tick(v))).collect();
        Self { title, scale: Scale::Linear, from, to, ticks }
    }

    /// Both bounds positive.
    pub(crate) fn log(title: &'static str, from: f64, to: f64) -> Self {
        let (from, to) = (from.log10(), to.max(from * 1.1).log10());
        let steps: &[f64] = if to - from < 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = from.floor() as i32..=to.ceil() as i32;
        let values = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
        let ticks = values.map(|v| (v.log10(), tick(v))).filter(|(at, _)| (from..=to).contains(at)).collect();
        Self { title, scale: Scale::Log, from, to, ticks }
    }

    /// Logarithmic where the values span enough; room above in either case.
    pub(crate) fn fitted(title: &'static str, smallest: f64, largest: f64) -> Self {
        if smallest > 0.0 && largest / smallest >= LOG_FROM {
            Self::log(title, smallest * 0.85, largest * 1.2)
        } else {
            Self::linear(title, 0.0, largest * 1.1)
        }
    }

    /// Where a value is drawn.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let position = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        position.clamp(self.from, self.to)
    }

    /// How far it is from one end to the other, as values are drawn.
    pub(crate) fn span(&self) -> f64 {
        self.to - self.from
    }

    fn label(&self, position: f64) -> String {
        let nearest =
            self.ticks.iter().min_by(|a, b| (a.0 - position).abs().total_cmp(&(b.0 - position).abs()));
        nearest.map(|t| t.1.clone()).unwrap_or_default()
    }

    fn coordinate(&self) -> Positions {
        Positions { range: self.from..self.to, ticks: self.ticks.iter().map(|t| t.0).collect() }
    }
}

/// An axis as plotters sees it: linear, with exactly our ticks.
pub(crate) struct Positions {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Positions {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A tick's label: whole numbers whole, small ones by powers of ten.
fn tick(value: f64) -> String {
    match value.abs() {
        // Ticks are multiples of 1, 2 or 5 times a power of ten, and what floating point makes of them.
        v if v > 0.0 && v < 0.000_999 => {
            let exponent = (v.log10() + 1e-9).floor();
            format!("{}e{exponent}", trimmed(value / 10f64.powf(exponent)))
        }
        v if v > 0.0 && v < 0.1 => format!("{value:.5}").trim_end_matches('0').to_owned(),
        v if v >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        v if v >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Draws the axes and what `body` adds, without a background.
pub(crate) fn framed(
    height: u32,
    label_width: u32,
    x: &Axis,
    y: &Axis,
    body: impl FnOnce(&mut Chart<'_, '_>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let mut svg = String::new();
    {
        let area: DrawingArea<SVGBackend<'_>, Shift> =
            SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(48)
            .y_label_area_size(label_width)
            .build_cartesian_2d(x.coordinate(), y.coordinate())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(FONT.into_font().color(&INK))
            .axis_desc_style(FONT.into_font().color(&INK))
            .x_labels(32)
            .y_labels(32)
            .x_label_formatter(&|v| x.label(*v))
            .y_label_formatter(&|v| y.label(*v))
            .x_desc(x.title)
            .y_desc(y.title)
            .draw()?;
        body(&mut chart)?;
        area.present()?;
    }
    // Inside HTML the name space is understood, and the page shall not name any address.
    Ok(svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", " role=\"img\""))
}

/// Smallest positive and largest value.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.filter(|v| v.is_finite()).fold((f64::INFINITY, 0.0), |(least, most), v| {
        (if v > 0.0 { least.min(v) } else { least }, most.max(v))
    })
}

/// How many requests took how long.
pub(super) fn histogram(report: &RunReport) -> Svg {
    let usable =
        |bin: &&(f64, f64, u64)| bin.0.is_finite() && bin.1.is_finite() && bin.1 > bin.0 && bin.2 > 0;
    let bins: Vec<_> = report.histogram.iter().filter(usable).collect();
    let (left, right) = bins.iter().fold((f64::INFINITY, 0.0f64), |(l, r), b| (l.min(b.0), r.max(b.1)));
    let (least, most) = extent(bins.iter().map(|b| b.2 as f64));
    if bins.is_empty() || right <= left {
        return None;
    }
    let x = if left > 0.0 && right / left >= LOG_FROM {
        Axis::log("latency, us", left, right)
    } else {
        Axis::linear("latency, us", left, right)
    };
    let y = if most / least >= 100.0 {
        Axis::log("requests per bin", 0.5, most * 2.0)
    } else {
        Axis::linear("requests per bin", 0.0, most * 1.1)
    };
    Some(framed(340, 72, &x, &y, |chart| {
        let bars = bins.iter().map(|(lower, upper, count)| {
            let corners = [(x.at(*lower), y.from), (x.at(*upper), y.at(*count as f64))];
            Rectangle::new(corners, BLUE.mix(0.75).filled())
        });
        chart.draw_series(bars)?;
        let summary = &report.latency_us;
        for (name, value, colour) in [("p50", summary.p50, GREEN), ("p99", summary.p99, AMBER)] {
            if value.is_finite() && (left..=right).contains(&value) {
                let at = x.at(value);
                chart.draw_series([PathElement::new([(at, y.from), (at, y.to)], colour.stroke_width(2))])?;
                let text = format!("\u{a0}{name} {}", number(value));
                chart.draw_series([Text::new(text, (at, y.to), FONT.into_font().color(&colour))])?;
            }
        }
        Ok(())
    }))
}

/// Latency against percentile, the tail stretched: each step right is one more nine.
pub(super) fn percentiles(report: &RunReport) -> Svg {
    // The 100th percentile is infinitely many nines away; the tables have the maximum.
    let nines = |percentile: f64| -(1.0 - percentile / 100.0).log10();
    let points: Vec<(f64, f64)> = report
        .percentile_curve
        .iter()
        .filter(|(percentile, us)| (0.0..100.0).contains(percentile) && us.is_finite())
        .map(|(percentile, us)| (nines(*percentile), *us))
        .collect();
    let (_, furthest) = extent(points.iter().map(|p| p.0));
    let (least, most) = extent(points.iter().map(|p| p.1));
    if points.len() < 2 || most <= 0.0 {
        return None;
    }
    let marks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
    let x = Axis {
        title: "percentile",
        scale: Scale::Linear,
        from: 0.0,
        to: furthest.max(0.5),
        ticks: marks
            .iter()
            .map(|p| (nines(*p), format!("{p}%")))
            .filter(|t| t.0 <= furthest.max(0.5))
            .collect(),
    };
    let y = Axis::fitted("latency, us", least, most);
    Some(framed(320, 72, &x, &y, |chart| {
        let line = points.iter().map(|(nines, us)| (x.at(*nines), y.at(*us)));
        chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?;
        Ok(())
    }))
}

/// Where the time goes: median and 99th percentile of each stage.
pub(super) fn stages(report: &RunReport) -> Svg {
    let stages: Vec<_> = report.stages_us.iter().filter(|s| s.summary.p50.is_finite()).collect();
    let (_, longest) = extent(stages.iter().flat_map(|s| [s.summary.p50, s.summary.p99]));
    if longest <= 0.0 {
        return None;
    }
    let x = Axis::linear("time in the stage, us", 0.0, longest * 1.3);
    let middle = |i: usize| (stages.len() - i) as f64 - 0.5;
    let y = Axis {
        title: "",
        scale: Scale::Linear,
        from: 0.0,
        to: stages.len() as f64,
        ticks: stages.iter().enumerate().map(|(i, s)| (middle(i), s.name.to_owned())).collect(),
    };
    let height = 70 + 38 * u32::try_from(stages.len()).unwrap_or(1).min(40);
    Some(framed(height, 110, &x, &y, |chart| {
        for (i, stage) in stages.iter().enumerate() {
            let (p50, p99) = (stage.summary.p50, stage.summary.p99);
            let bar = |to: f64, half: f64, style: ShapeStyle| {
                Rectangle::new([(0.0, middle(i) - half), (x.at(to), middle(i) + half)], style)
            };
            let end = if p99.is_finite() { p99.max(p50) } else { p50 };
            chart.draw_series([bar(end, 0.14, AMBER.mix(0.75).filled()), bar(p50, 0.32, BLUE.filled())])?;
            let text = format!("\u{a0}{} | {}", number(p50), number(p99));
            let at = (x.at(end), middle(i) + 0.18);
            chart.draw_series([Text::new(text, at, FONT.into_font().color(&INK))])?;
        }
        Ok(())
    }))
}

/// Latency over the run.
pub(super) fn timeline(report: &RunReport) -> Svg {
    let points: Vec<_> = report.timeline.iter().filter(|p| p.t_s.is_finite()).collect();
    let (least, most) = extent(points.iter().flat_map(|p| [p.p50_us, p.p99_us, p.max_us]));
    let (_, end) = extent(points.iter().map(|p| p.t_s));
    if points.is_empty() || most <= 0.0 {
        return None;
    }
    let x = Axis::linear("time since the start, s", 0.0, end);
    let y = Axis::fitted("latency, us", least, most);
    Some(framed(300, 72, &x, &y, |chart| {
        let lines: [(Value, RGBColor); 3] =
            [(|p| p.max_us, RED), (|p| p.p99_us, AMBER), (|p| p.p50_us, BLUE)];
        for (value, colour) in lines {
            let line = points.iter().filter(|p| value(p).is_finite()).map(|p| (x.at(p.t_s), y.at(value(p))));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        }
        Ok(())
    }))
}

/// Completions over the run.
pub(super) fn completions(report: &RunReport) -> Svg {
    let points: Vec<_> = report.timeline.iter().filter(|p| p.t_s.is_finite()).collect();
    let (_, most) = extent(points.iter().map(|p| p.completed as f64));
    let (_, end) = extent(points.iter().map(|p| p.t_s));
    if points.is_empty() || most <= 0.0 {
        return None;
    }
    let x = Axis::linear("time since the start, s", 0.0, end);
    let y = Axis::linear("completed per interval", 0.0, most * 1.1);
    Some(framed(220, 72, &x, &y, |chart| {
        let line = points.iter().map(|p| (x.at(p.t_s), y.at(p.completed as f64)));
        chart.draw_series(AreaSeries::new(line, 0.0, GREEN.mix(0.25)).border_style(GREEN.stroke_width(2)))?;
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|t| t.1.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&Axis::linear("", 0.0, 10.0)), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&Axis::linear("", 0.0, 0.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(
            labels(&Axis::linear("", 0.0, 30_000.0)),
            ["0", "5000", "10k", "15k", "20k", "25k", "30k"]
        );
        assert_eq!(labels(&Axis::log("", 19.0, 330.0)), ["20", "50", "100", "200"]);
        assert_eq!(labels(&Axis::log("", 0.5, 1e5)), ["1", "10", "100", "1000", "10k", "100k"]);
        assert_eq!(
            labels(&Axis::log("", 2e-5, 2e-3)),
            ["2e-5", "5e-5", "1e-4", "2e-4", "5e-4", "0.001", "0.002"]
        );
        assert_eq!(
            labels(&Axis::linear("", 0.0, 0.0027)),
            ["0", "5e-4", "0.001", "0.0015", "0.002", "0.0025"]
        );
    }

    #[test]
    fn positions_stay_on_the_axis() {
        let axis = Axis::log("", 1.0, 100.0);
        assert_eq!([0.0, 10.0, 1e9].map(|v| axis.at(v)), [0.0, 1.0, 2.0]);
        assert_eq!(axis.label(1.01), "10");
    }
}
