//! Plot of logical error rates against noise: a line for each code, distance and arm, with error bars, and the
//! threshold.

use super::fits::Fits;
use super::lines::{all_arms, codes, pick};
use super::results::{ArmResult, PointResult};
use crate::report::charts::axis::Axis;
use crate::report::charts::frame::{Chart, Failure, Frame, Hover, Said, Screen, Svg, extent};
use crate::report::charts::{RED, colour};
use crate::report::rate;
use plotters::prelude::*;
use ringcall_decoder_service::study::Matching;
use ringcall_qec::stats::LogicalErrorRate;

/// The unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Per {
    Shot,
    Round,
}

impl Per {
    const fn axis(self) -> &'static str {
        match self {
            Self::Shot => "logical error rate per shot",
            Self::Round => "logical error rate per round",
        }
    }

    /// The plotted value of a rate per shot.
    fn of(self, rate: f64, rounds: u32) -> f64 {
        match self {
            Self::Shot => rate,
            Self::Round => {
                // Converted as a count out of so many shots that nothing is rounded away; a rate above a half has no
                // rate per round.
                const SHOTS: u64 = 1 << 52;
                let errors = (rate.clamp(0.0, 0.4999) * SHOTS as f64) as u64;
                LogicalErrorRate { shots: SHOTS, errors }.rate_per_round(rounds)
            }
        }
    }
}

/// The plot; `None` without any shot.
pub(super) fn svg(points: &[PointResult], fits: &Fits, per: Per, screen: Screen) -> Svg {
    let measured: Vec<&PointResult> =
        points.iter().filter(|point| point.shots > 0 && point.p > 0.0).collect();
    let arms = || measured.iter().flat_map(|point| point.arms.iter().map(|arm| (point.rounds, &arm.arm)));
    // A lower end close to 0 would leave no space for the rest.
    let lows = arms().map(|(rounds, arm)| match arm.logical_error_rate {
        0.0 => per.of(arm.logical_error_rate_ci[1] / 2.0, rounds),
        rate => per.of(arm.logical_error_rate_ci[0].max(rate / 4.0), rounds),
    });
    let highs = arms().map(|(rounds, arm)| per.of(arm.logical_error_rate_ci[1], rounds));
    let (least, most) = extent(lows.chain(highs));
    let (weakest, strongest) = extent(measured.iter().map(|point| point.p));
    if measured.is_empty() || most <= 0.0 {
        return None;
    }
    let x = Axis::log("noise p", weakest * 0.9, strongest * 1.1);
    let y = Axis::log(per.axis(), least * 0.8, most * 1.2);
    let frame = Frame { screen, height: screen.pick(480, 380), x: &x, y: &y };
    Some(frame.draw(|chart, said| {
        if per == Per::Shot {
            thresholds(chart, said, &frame, fits)?;
        }
        for (place, code) in codes(points).into_iter().enumerate() {
            for which @ (matching, dashed) in all_arms(&measured) {
                let mut line = Vec::new();
                let mut compared = false;
                for point in measured.iter().filter(|point| point.label() == code) {
                    if let Some((arm, twice)) = pick(point, which) {
                        line.push(Mark::new(point, arm, per, &code));
                        compared |= twice;
                    }
                }
                line.sort_by(|a, b| a.p.total_cmp(&b.p));
                let pale = compared && matching == Some(Matching::Plain.name());
                let colour = colour(place).mix(if pale { 0.4 } else { 1.0 });
                draw(chart, &frame, &line, colour, dashed)?;
                said.extend(line.into_iter().map(|mark| Hover {
                    at: (x.at(mark.p), y.at(if mark.rate > 0.0 { mark.rate } else { mark.ci[1] })),
                    text: mark.text,
                }));
            }
        }
        Ok(())
    }))
}

/// Each threshold as a band of one standard error, and the curves of its fit.
fn thresholds(
    chart: &mut Chart<'_, '_>,
    said: &mut Said,
    frame: &Frame<'_>,
    fits: &Fits,
) -> Result<(), Failure> {
    let &Frame { x, y, .. } = frame;
    for found in &fits.thresholds {
        let threshold = &found.threshold;
        let (p, error) = (threshold.p.value, threshold.p.error);
        let corners = [(x.at(p - error), y.from), (x.at(p + error), y.to)];
        chart.draw_series([Rectangle::new(corners, RED.mix(0.25).filled())])?;
        chart.draw_series([PathElement::new([(x.at(p), y.from), (x.at(p), y.to)], RED.stroke_width(1))])?;
        said.push(Hover { at: (x.at(p), y.to - y.span() / 20.0), text: found.in_words() });
        let [least, most] = threshold.range;
        for &(place, distance) in &found.distances {
            let curve = (0..=40).map(|i| least * (most / least).powf(f64::from(i) / 40.0));
            let curve = curve.map(|p| (x.at(p), y.at(threshold.rate(p, distance))));
            chart.draw_series(DashedLineSeries::new(curve, 2, 3, colour(place).mix(0.8).stroke_width(1)))?;
        }
    }
    Ok(())
}

struct Mark {
    p: f64,
    rate: f64,
    ci: [f64; 2],
    text: String,
}

impl Mark {
    fn new(point: &PointResult, arm: &ArmResult, per: Per, code: &str) -> Self {
        let of = |value| per.of(value, point.rounds);
        let (value, ci) = (of(arm.logical_error_rate), arm.logical_error_rate_ci.map(of));
        let text = format!(
            "{code}, p = {}: {} ({} to {}), {} of {} shots",
            point.p,
            rate(value),
            rate(ci[0]),
            rate(ci[1]),
            arm.errors,
            point.shots
        );
        Self { p: point.p, rate: value, ci, text }
    }
}

/// Draws one line. A point without errors has only an upper end.
fn draw(
    chart: &mut Chart<'_, '_>,
    frame: &Frame<'_>,
    line: &[Mark],
    colour: RGBAColor,
    dashed: bool,
) -> Result<(), Failure> {
    let &Frame { x, y, .. } = frame;
    let style = colour.stroke_width(2);
    let rates: Vec<(f64, f64)> =
        line.iter().filter(|mark| mark.rate > 0.0).map(|mark| (x.at(mark.p), y.at(mark.rate))).collect();
    if dashed {
        chart.draw_series(DashedLineSeries::new(rates.clone(), 7, 5, style))?;
    } else {
        chart.draw_series(LineSeries::new(rates.clone(), style))?;
    }
    let filled = if dashed { colour.stroke_width(2) } else { colour.filled() };
    chart.draw_series(rates.into_iter().map(|at| Circle::new(at, 4, filled)))?;
    let thin = colour.mix(0.7).stroke_width(1);
    let half = x.span() * 0.006;
    chart.draw_series(line.iter().flat_map(|mark| {
        let (at, [low, high]) = (x.at(mark.p), mark.ci.map(|end| y.at(end)));
        let cap = move |end| PathElement::new([(at - half, end), (at + half, end)], thin);
        [PathElement::new([(at, low), (at, high)], thin), cap(low), cap(high)]
    }))?;
    Ok(())
}
