//! Charts of a run's report.

use super::axis::{Axis, LOG_FROM};
use super::frame::{Chart, FONT, Failure, Frame, Hover, Screen, Svg, extent, plot_width, text_width};
use super::{AMBER, BLUE, GREEN, INK, RED, colour};
use crate::report::{RunReport, TimelinePoint, number};
use plotters::prelude::*;

type Value = fn(&TimelinePoint) -> f64;

const LATENCY: &str = "latency, µs";

pub(in crate::report) fn histogram(report: &RunReport, screen: Screen) -> Svg {
    let usable =
        |bin: &&(f64, f64, u64)| bin.0.is_finite() && bin.1.is_finite() && bin.1 > bin.0 && bin.2 > 0;
    let bins: Vec<_> = report.histogram.iter().filter(usable).collect();
    let (left, right) = bins.iter().fold((f64::INFINITY, 0.0f64), |(l, r), b| (l.min(b.0), r.max(b.1)));
    let (least, most) = extent(bins.iter().map(|b| b.2 as f64));
    if bins.is_empty() || right <= left {
        return None;
    }
    let x = if left > 0.0 && right / left >= LOG_FROM {
        Axis::log(LATENCY, left, right)
    } else {
        Axis::linear(LATENCY, left, right)
    };
    let y = if most / least >= 100.0 {
        Axis::log("requests per bin", 0.5, most * 4.0)
    } else {
        Axis::linear("requests per bin", 0.0, most * 1.2)
    };
    let frame = Frame { screen, height: 340, x: &x, y: &y };
    Some(frame.draw(|chart, said| {
        let bars = bins.iter().map(|(lower, upper, count)| {
            let corners = [(x.at(*lower), y.from), (x.at(*upper), y.at(*count as f64))];
            Rectangle::new(corners, BLUE.mix(0.75).filled())
        });
        chart.draw_series(bars)?;
        said.extend(bins.iter().map(|(lower, upper, count)| Hover {
            at: ((x.at(*lower) + x.at(*upper)) / 2.0, y.at(*count as f64)),
            text: format!("{} to {} µs: {count} requests", number(*lower), number(*upper)),
        }));
        let summary = &report.latency_us;
        for (row, (name, value, colour)) in
            [("p50", summary.p50, GREEN), ("p99", summary.p99, AMBER)].into_iter().enumerate()
        {
            if value.is_finite() && (left..=right).contains(&value) {
                let at = x.at(value);
                mark(chart, &frame, at, row, &format!("{name} {}", number(value)), colour)?;
            }
        }
        Ok(())
    }))
}

/// A labelled line from the bottom to the top. The label is to its right, or to its left if there is no room.
fn mark(
    chart: &mut Chart<'_, '_>,
    frame: &Frame<'_>,
    at: f64,
    row: usize,
    text: &str,
    colour: RGBColor,
) -> Result<(), Failure> {
    let &Frame { x, y, height, .. } = frame;
    chart.draw_series([PathElement::new([(at, y.from), (at, y.to)], colour.stroke_width(2))])?;
    let pixel = x.span() / frame.plot_width();
    let width = text_width(text) * pixel;
    let right = at + 5.0 * pixel;
    let left = if right + width > x.to { (at - 5.0 * pixel - width).max(x.from) } else { right };
    let down = row as f64 * 18.0 * y.span() / f64::from(height.saturating_sub(64).max(1));
    chart.draw_series([Text::new(text.to_owned(), (left, y.to - down), FONT.into_font().color(&colour))])?;
    Ok(())
}

/// The share of requests that took longer than a time, with the deadline as a line.
pub(in crate::report) fn ccdf(report: &RunReport, screen: Screen) -> Svg {
    let slower = |percentile: f64| 1.0 - percentile / 100.0;
    let points: Vec<(f64, f64)> = report
        .percentile_curve
        .iter()
        .filter(|(percentile, us)| (0.0..=100.0).contains(percentile) && us.is_finite())
        .map(|(percentile, us)| (*us, slower(*percentile)))
        .collect();
    let (least, most) = extent(points.iter().map(|point| point.0));
    if points.len() < 2 || most <= 0.0 {
        return None;
    }
    // The share of a single request, which is the longest.
    let last = 1.0 / report.completed.max(2) as f64;
    let limits = [
        (report.deadline_us, "deadline", RED),
        (report.interval_us.filter(|_| report.deadline_us.is_none()), "next request", AMBER),
    ];
    let limits = limits.into_iter().filter_map(|(us, name, colour)| Some((us?, name, colour)));
    let limits: Vec<(f64, &str, RGBColor)> = limits.filter(|limit| limit.0 > 0.0).collect();
    let far = limits.iter().map(|limit| limit.0 * 1.3).fold(most, f64::max);
    let near = limits.iter().map(|limit| limit.0 / 1.3).fold(least, f64::min);
    let x = Axis::fitted(LATENCY, near, far);
    let y = Axis::share("requests that took longer", last / 2.0);
    let frame = Frame { screen, height: 340, x: &x, y: &y };
    Some(frame.draw(|chart, said| {
        // The share is constant between two latencies.
        let mut steps = vec![(x.at(least), y.to)];
        for &(us, share) in &points {
            let before = steps.last().map_or(y.to, |step| step.1);
            steps.extend([(x.at(us), before), (x.at(us), y.at(share.max(last / 2.0)))]);
            said.push(Hover {
                at: (x.at(us), y.at(share.max(last / 2.0))),
                text: format!("{} µs: {}% took longer", number(us), number(share * 100.0)),
            });
        }
        chart.draw_series([PathElement::new(steps, BLUE.stroke_width(2))])?;
        for (row, (us, name, colour)) in limits.into_iter().enumerate() {
            let above = points.iter().rev().find(|point| point.0 <= us).map_or(1.0, |point| point.1);
            let share = number(above * 100.0);
            let text = match screen {
                Screen::Wide => format!("{name} {} µs: {share}% take longer", number(us)),
                Screen::Narrow => format!("{name}: {share}%"),
            };
            // Below the line at 100%.
            mark(chart, &frame, x.at(us), row + 1, &text, colour)?;
        }
        Ok(())
    }))
}

/// The legend of the stages' colours.
pub(in crate::report) fn stage_legend(report: &RunReport) -> Vec<(&'static str, RGBColor)> {
    report.parts().enumerate().map(|(place, name)| (name, colour(place))).collect()
}

/// The part of a bar for the time of a request that did not reach every stage.
const UNKNOWN: (&str, RGBColor) = ("refused, timed out or not measured", RGBColor(120, 128, 140));

fn colour_of(report: &RunReport, name: &str) -> RGBColor {
    let place = report.parts().position(|part| part == name);
    place.map_or(UNKNOWN.1, colour)
}

/// A bar's label, its parts, and the text after it.
type Bar = (String, Vec<(&'static str, f64)>, String);

/// Horizontal bars of named parts, each with a text after it.
fn stacked(report: &RunReport, rows: &[Bar], screen: Screen, title: &'static str) -> Svg {
    let whole = |parts: &[(&str, f64)]| parts.iter().map(|part| part.1).sum::<f64>();
    let (_, longest) = extent(rows.iter().map(|row| whole(&row.1)));
    if longest <= 0.0 {
        return None;
    }
    let y = Axis::rows(rows.iter().map(|row| row.0.clone()));
    let behind = rows.iter().map(|row| text_width(&row.2)).fold(0.0, f64::max);
    // The axis has room for the longest bar and the text after it.
    let words = ((behind + 14.0) / plot_width(screen, &y)).min(0.7);
    let x = Axis::linear(title, 0.0, longest / (1.0 - words));
    let height = 80 + 34 * u32::try_from(rows.len()).unwrap_or(1).min(40);
    let frame = Frame { screen, height, x: &x, y: &y };
    Some(frame.draw(|chart, said| {
        for (row, (name, parts, text)) in rows.iter().enumerate() {
            let middle = Axis::row(row, rows.len());
            let mut begin = 0.0;
            for &(part, us) in parts {
                let corners = [(x.at(begin), middle - 0.32), (x.at(begin + us), middle + 0.32)];
                chart.draw_series([Rectangle::new(corners, colour_of(report, part).filled())])?;
                said.push(Hover {
                    at: (x.at(begin + us / 2.0), middle),
                    text: format!("{name}: {part} {} µs", number(us)),
                });
                begin += us;
            }
            let pixel = x.span() / frame.plot_width();
            let at = (x.at(begin) + 6.0 * pixel, middle + 0.2);
            chart.draw_series([Text::new(text.clone(), at, FONT.into_font().color(&INK))])?;
        }
        Ok(())
    }))
}

/// The legend of the slowest requests, with the unknown part if there is one.
pub(in crate::report) fn slow_legend(report: &RunReport) -> Vec<(&'static str, RGBColor)> {
    let parts = report.parts().count();
    let unknown = report.slowest.iter().any(|slow| slow.parts_us.len() < parts);
    stage_legend(report).into_iter().chain(unknown.then_some(UNKNOWN)).collect()
}

/// The mean stages of requests around the median and around the 99th percentile.
pub(in crate::report) fn stages(report: &RunReport, screen: Screen) -> Svg {
    let rows: Vec<_> = report
        .breakdowns
        .iter()
        .map(|breakdown| {
            let whole: f64 = breakdown.parts_us.iter().map(|part| part.1).sum();
            (breakdown.name.to_owned(), breakdown.parts_us.clone(), format!("{} µs", number(whole)))
        })
        .collect();
    stacked(report, &rows, screen, "time since submission, µs")
}

pub(in crate::report) fn slowest(report: &RunReport, screen: Screen) -> Svg {
    let rows: Vec<_> = report
        .slowest
        .iter()
        .map(|slow| {
            let known: f64 = slow.parts_us.iter().map(|part| part.1).sum();
            let mut parts = slow.parts_us.clone();
            if known < slow.latency_us {
                parts.push((UNKNOWN.0, slow.latency_us - known));
            }
            let when = screen.pick(format!(", at {:.3} s", slow.submitted_s), String::new());
            (format!("#{}", slow.request_id), parts, format!("{} µs{when}", number(slow.latency_us)))
        })
        .collect();
    stacked(report, &rows, screen, "time since submission, µs")
}

pub(in crate::report) fn timeline(report: &RunReport, screen: Screen) -> Svg {
    let points: Vec<_> = report.timeline.iter().filter(|p| p.t_s.is_finite() && p.completed > 0).collect();
    let (least, most) = extent(points.iter().flat_map(|p| [p.p50_us, p.p99_us, p.max_us]));
    let (_, end) = extent(points.iter().map(|p| p.t_s));
    if points.is_empty() || most <= 0.0 {
        return None;
    }
    let x = Axis::linear("time since the start, s", 0.0, end);
    let y = Axis::fitted(LATENCY, least, most);
    Some(Frame { screen, height: 300, x: &x, y: &y }.draw(|chart, _| {
        let lines: [(Value, RGBColor); 3] =
            [(|p| p.max_us, RED), (|p| p.p99_us, AMBER), (|p| p.p50_us, BLUE)];
        for (value, colour) in lines {
            let line = points.iter().filter(|p| value(p).is_finite()).map(|p| (x.at(p.t_s), y.at(value(p))));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        }
        Ok(())
    }))
}

/// One value for every interval of the run, drawn from 0.
fn area(report: &RunReport, screen: Screen, title: &'static str, colour: RGBColor, value: Value) -> Svg {
    let points: Vec<_> = report.timeline.iter().filter(|p| p.t_s.is_finite()).collect();
    let (_, most) = extent(points.iter().map(|p| value(p)));
    let (_, end) = extent(points.iter().map(|p| p.t_s));
    if points.is_empty() || most <= 0.0 {
        return None;
    }
    let x = Axis::linear("time since the start, s", 0.0, end);
    let y = Axis::linear(title, 0.0, most * 1.1);
    Some(Frame { screen, height: 220, x: &x, y: &y }.draw(|chart, _| {
        let line = points.iter().map(|p| (x.at(p.t_s), y.at(value(p))));
        chart
            .draw_series(AreaSeries::new(line, 0.0, colour.mix(0.25)).border_style(colour.stroke_width(2)))?;
        Ok(())
    }))
}

/// Requests that were due and not yet answered, over the run.
pub(in crate::report) fn backlog(report: &RunReport, screen: Screen) -> Svg {
    area(report, screen, "due, not answered", AMBER, |point| point.backlog as f64)
}

pub(in crate::report) fn completions(report: &RunReport, screen: Screen) -> Svg {
    area(report, screen, "completed", GREEN, |point| point.completed as f64)
}
