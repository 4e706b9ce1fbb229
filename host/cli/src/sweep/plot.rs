//! Logical error rate against noise, a line for each distance and arm, with error bars.

use super::results::{ArmResult, PointResult};
use crate::report::charts::{AMBER, Axis, BLUE, Chart, Failure, GREEN, RED, Svg, extent, framed};
use plotters::prelude::*;

/// One a distance, over again after the last.
const COLOURS: [RGBColor; 7] =
    [BLUE, AMBER, GREEN, RED, RGBColor(147, 51, 234), RGBColor(8, 145, 178), RGBColor(219, 39, 119)];

/// The colour of the distance at this place in the list.
pub(super) fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// The distances, each once, as they come.
pub(super) fn distances(points: &[PointResult]) -> Vec<u32> {
    let mut found = Vec::new();
    for point in points {
        if !found.contains(&point.distance) {
            found.push(point.distance);
        }
    }
    found
}

type Pick = fn(&PointResult) -> Option<&ArmResult>;

/// The arms, and whether their lines are dashed.
const ARMS: [(Pick, bool); 2] =
    [(|point| Some(&point.alone), false), (|point| point.predecoder.as_ref().map(|p| &p.arm), true)];

/// `None` without a shot.
pub(super) fn svg(points: &[PointResult]) -> Svg {
    let measured: Vec<&PointResult> = points.iter().filter(|point| point.shots > 0).collect();
    let arms = || ARMS.iter().flat_map(|(pick, _)| measured.iter().filter_map(|point| pick(point)));
    // A lower end of next to nothing would leave no room for the rest.
    let lows = arms().map(|arm| match arm.logical_error_rate {
        0.0 => arm.logical_error_rate_ci[1] / 2.0,
        rate => arm.logical_error_rate_ci[0].max(rate / 4.0),
    });
    let (least, most) = extent(lows.chain(arms().map(|arm| arm.logical_error_rate_ci[1])));
    let (weakest, strongest) = extent(measured.iter().map(|point| point.p));
    if measured.is_empty() || most <= 0.0 {
        return None;
    }
    let x = Axis::fitted("noise p", weakest, strongest);
    let y = Axis::log("logical error rate per shot", least * 0.8, most * 1.2);
    Some(framed(460, 86, &x, &y, |chart| {
        for (place, distance) in distances(points).into_iter().enumerate() {
            for (pick, dashed) in ARMS {
                let mut line: Vec<(f64, &ArmResult)> = measured
                    .iter()
                    .filter(|point| point.distance == distance)
                    .filter_map(|point| Some((point.p, pick(point)?)))
                    .collect();
                line.sort_by(|a, b| a.0.total_cmp(&b.0));
                draw(chart, &x, &y, &line, colour(place), dashed)?;
            }
        }
        Ok(())
    }))
}

/// One line. A point without errors has an upper end alone.
fn draw(
    chart: &mut Chart<'_, '_>,
    x: &Axis,
    y: &Axis,
    line: &[(f64, &ArmResult)],
    colour: RGBColor,
    dashed: bool,
) -> Result<(), Failure> {
    let style = colour.stroke_width(2);
    let rates: Vec<(f64, f64)> = line
        .iter()
        .filter(|(_, arm)| arm.errors > 0)
        .map(|(p, arm)| (x.at(*p), y.at(arm.logical_error_rate)))
        .collect();
    if dashed {
        chart.draw_series(DashedLineSeries::new(rates.clone(), 7, 5, style))?;
    } else {
        chart.draw_series(LineSeries::new(rates.clone(), style))?;
    }
    let filled = if dashed { colour.stroke_width(2) } else { colour.filled() };
    chart.draw_series(rates.into_iter().map(|at| Circle::new(at, 4, filled)))?;
    let thin = colour.mix(0.7).stroke_width(1);
    let half = x.span() * 0.006;
    chart.draw_series(line.iter().flat_map(|(p, arm)| {
        let (at, [low, high]) = (x.at(*p), arm.logical_error_rate_ci.map(|end| y.at(end)));
        let cap = move |end| PathElement::new([(at - half, end), (at + half, end)], thin);
        [PathElement::new([(at, low), (at, high)], thin), cap(low), cap(high)]
    }))?;
    Ok(())
}
