//! Logical error rate against noise, a line for each code, distance and arm, with error bars.

use super::results::{ArmResult, ComparedResult, PointResult};
use crate::report::charts::{AMBER, Axis, BLUE, Chart, Failure, GREEN, RED, Svg, extent, framed};
use plotters::prelude::*;
use ringcall_decoder_service::study::Matching;

/// One a code and distance, over again after the last.
const COLOURS: [RGBColor; 7] =
    [BLUE, AMBER, GREEN, RED, RGBColor(147, 51, 234), RGBColor(8, 145, 178), RGBColor(219, 39, 119)];

/// The colour of the code at this place in the list.
pub(super) fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// The codes and their distances, each once, as they come.
pub(super) fn codes(points: &[PointResult]) -> Vec<String> {
    let mut found = Vec::new();
    for label in points.iter().map(PointResult::label) {
        if !found.contains(&label) {
            found.push(label);
        }
    }
    found
}

/// Which arm: by which matching, and whether after a predecoder.
type Which = (Option<&'static str>, bool);

/// The arms of all points, each once.
fn all_arms(points: &[&PointResult]) -> Vec<Which> {
    let mut found: Vec<Which> =
        points.iter().flat_map(|point| &point.arms).map(|arm| (arm.matching, arm.predecoder)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The same arm of one point, and whether the point has it by the other kind of matching as well.
fn pick(point: &PointResult, (matching, predecoder): Which) -> Option<(&ArmResult, bool)> {
    let same = |arm: &&ComparedResult| arm.predecoder == predecoder;
    let arm = point.arms.iter().filter(same).find(|arm| arm.matching == matching)?;
    Some((&arm.arm, point.arms.iter().filter(same).count() > 1))
}

/// `None` without a shot.
pub(super) fn svg(points: &[PointResult]) -> Svg {
    let measured: Vec<&PointResult> =
        points.iter().filter(|point| point.shots > 0 && point.p > 0.0).collect();
    let arms = || measured.iter().flat_map(|point| point.arms.iter().map(|arm| &arm.arm));
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
    let x = Axis::log("noise p", weakest * 0.9, strongest * 1.1);
    let y = Axis::log("logical error rate per shot", least * 0.8, most * 1.2);
    Some(framed(460, 86, &x, &y, |chart| {
        for (place, code) in codes(points).into_iter().enumerate() {
            for which @ (matching, dashed) in all_arms(&measured) {
                let mut line = Vec::new();
                let mut compared = false;
                for point in measured.iter().filter(|point| point.label() == code) {
                    if let Some((arm, twice)) = pick(point, which) {
                        line.push((point.p, arm));
                        compared |= twice;
                    }
                }
                line.sort_by(|a: &(f64, &ArmResult), b| a.0.total_cmp(&b.0));
                let pale = compared && matching == Some(Matching::Plain.name());
                draw(chart, &x, &y, &line, colour(place).mix(if pale { 0.4 } else { 1.0 }), dashed)?;
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
    colour: RGBAColor,
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
