//! Axis of a chart: the positions of values, and which of them have a label.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::Ranged;
use std::ops::Range;

/// The ratio of largest to smallest value from which on an axis is logarithmic.
pub(crate) const LOG_FROM: f64 = 8.0;

/// The mapping of values to positions.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Log,
}

/// A labelled position on an axis.
struct Tick {
    at: f64,
    label: String,
    /// Whether the value is a power of ten, whose label stays when not all labels fit.
    decade: bool,
}

pub(crate) struct Axis {
    pub(crate) title: &'static str,
    scale: Scale,
    pub(crate) from: f64,
    pub(crate) to: f64,
    ticks: Vec<Tick>,
    /// Positions between ticks that have a mark without a label.
    pub(super) minor: Vec<f64>,
}

impl Axis {
    pub(crate) fn linear(title: &'static str, from: f64, to: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let rough = (to - from) / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let multiples = |step: f64| {
            let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
            (first..=last).map(move |i| i as f64 * step)
        };
        let ticks = multiples(step).map(|v| Tick { at: v, label: tick(v), decade: false }).collect();
        Self { title, scale: Scale::Linear, from, to, ticks, minor: multiples(step / 5.0).collect() }
    }

    /// A logarithmic axis with positive bounds.
    pub(crate) fn log(title: &'static str, from: f64, to: f64) -> Self {
        let (from, to) = (from.log10(), to.max(from * 1.1).log10());
        let steps: &[f64] = match to - from {
            // Within a third of a decade there may be none of 1, 2 and 5.
            few if few < 0.9 => &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            some if some < 2.2 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let on = |values: &[f64]| -> Vec<(f64, f64)> {
            let decades = from.floor() as i32..=to.ceil() as i32;
            let values = decades.flat_map(|d| values.iter().map(move |s| (*s, s * 10f64.powi(d))));
            values.filter(|(_, v)| (from..=to).contains(&v.log10())).collect()
        };
        let ticks = on(steps).into_iter().map(|(step, value)| Tick {
            at: value.log10(),
            label: tick(value),
            decade: step == 1.0,
        });
        let mut ticks: Vec<Tick> = ticks.collect();
        if ticks.len() < 2 {
            // Between two neighbours of these, the round values of a linear axis are used.
            let round = Self::linear(title, 10f64.powf(from), 10f64.powf(to)).ticks;
            ticks = round.into_iter().map(|tick| Tick { at: tick.at.log10(), ..tick }).collect();
        }
        let minor = on(match to - from {
            few if few < 0.9 => &[1.2, 1.4, 1.6, 1.8, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5],
            _ => &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        });
        let minor = minor.into_iter().map(|(_, value)| value.log10()).collect();
        Self { title, scale: Scale::Log, from, to, ticks, minor }
    }

    /// A logarithmic axis if the values span enough, else a linear one, with some space above the values.
    pub(crate) fn fitted(title: &'static str, smallest: f64, largest: f64) -> Self {
        if smallest > 0.0 && largest / smallest >= LOG_FROM {
            Self::log(title, smallest * 0.85, largest * 1.2)
        } else {
            Self::linear(title, 0.0, largest * 1.1)
        }
    }

    /// An axis for shares, logarithmic down to `least`, with ticks in percent.
    pub(crate) fn share(title: &'static str, least: f64) -> Self {
        let axis = Self::log(title, least.clamp(1e-12, 0.5), 1.0);
        let ticks = axis.ticks.into_iter().filter(|tick| tick.decade).collect();
        Self { ticks, ..axis }.labelled(|share| {
            let percent = share * 100.0;
            let digits = (-percent.log10()).ceil().max(0.0) as usize;
            format!("{percent:.digits$}%")
        })
    }

    /// The axis with the caller's labels for the values of its ticks.
    pub(crate) fn labelled(mut self, label: impl Fn(f64) -> String) -> Self {
        for tick in &mut self.ticks {
            tick.label = label(match self.scale {
                Scale::Linear => tick.at,
                Scale::Log => 10f64.powf(tick.at),
            });
        }
        self
    }

    /// Labelled rows from the top down.
    pub(crate) fn rows(labels: impl ExactSizeIterator<Item = String>) -> Self {
        let rows = labels.len();
        let tick = |(row, label)| Tick { at: Self::row(row, rows), label, decade: false };
        let ticks = labels.enumerate().map(tick).collect();
        Self { title: "", scale: Scale::Linear, from: 0.0, to: rows.max(1) as f64, ticks, minor: Vec::new() }
    }

    pub(crate) fn row(row: usize, rows: usize) -> f64 {
        (rows - row) as f64 - 0.5
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        let position = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        position.clamp(self.from, self.to)
    }

    /// The distance between the two ends in positions.
    pub(crate) fn span(&self) -> f64 {
        self.to - self.from
    }

    /// The labels that fit on an axis of `pixels`; `room` is the pixels that a label takes.
    pub(super) fn thinned(&self, pixels: f64, room: impl Fn(&str) -> f64) -> Vec<(f64, String)> {
        let fits = |ticks: &[&Tick]| {
            let scale = pixels / self.span();
            let gap = |pair: &[&Tick]| {
                (pair[1].at - pair[0].at).abs() * scale - (room(&pair[0].label) + room(&pair[1].label)) / 2.0
            };
            ticks.windows(2).all(|pair| gap(pair) >= 6.0)
        };
        let all: Vec<&Tick> = self.ticks.iter().collect();
        let decades: Vec<&Tick> = self.ticks.iter().filter(|tick| tick.decade).collect();
        let coarse = if decades.len() >= 2 { decades } else { all.clone() };
        let mut shown = all;
        let mut step = 1;
        while !fits(&shown) && step <= coarse.len() {
            shown = coarse.iter().copied().step_by(step).collect();
            step += 1;
        }
        shown.into_iter().map(|tick| (tick.at, tick.label.clone())).collect()
    }

    /// The axis for plotters on `pixels`; `room` is the pixels that a label takes.
    pub(crate) fn positions(&self, pixels: f64, room: impl Fn(&str) -> f64) -> Positions {
        Positions { range: self.from..self.to, ticks: self.thinned(pixels, room) }
    }

    #[cfg(test)]
    fn labels(&self) -> Vec<&str> {
        self.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }
}

/// An axis for plotters: linear, with exactly the given ticks.
#[derive(Clone)]
pub(crate) struct Positions {
    range: Range<f64>,
    ticks: Vec<(f64, String)>,
}

impl Positions {
    pub(crate) fn label(&self, position: f64) -> String {
        let distance = |tick: &(f64, String)| (tick.0 - position).abs();
        let nearest = self.ticks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.map(|tick| tick.1.clone()).unwrap_or_default()
    }
}

impl Ranged for Positions {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A tick's label: whole numbers without decimals, small numbers with powers of ten.
fn tick(value: f64) -> String {
    match value.abs() {
        // Ticks are multiples of 1, 2 or 5 times a power of ten, with rounding errors.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(Axis::linear("", 0.0, 10.0).labels(), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(Axis::linear("", 0.0, 0.0).labels(), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(
            Axis::linear("", 0.0, 30_000.0).labels(),
            ["0", "5000", "10k", "15k", "20k", "25k", "30k"]
        );
        assert_eq!(Axis::log("", 19.0, 330.0).labels(), ["20", "50", "100", "200"]);
        assert_eq!(Axis::log("", 0.0065, 0.0094).labels(), ["0.007", "0.008", "0.009"]);
        assert_eq!(Axis::log("", 1100.0, 1350.0).labels(), ["1100", "1150", "1200", "1250", "1300", "1350"]);
        assert_eq!(
            Axis::log("", 1.0, 60.0).labelled(|ns| format!("{ns:.0} ns")).labels(),
            ["1 ns", "2 ns", "5 ns", "10 ns", "20 ns", "50 ns"]
        );
        assert_eq!(Axis::log("", 0.5, 1e5).labels(), ["1", "10", "100", "1000", "10k", "100k"]);
        assert_eq!(
            Axis::log("", 2e-5, 2e-3).labels(),
            ["2e-5", "5e-5", "1e-4", "2e-4", "5e-4", "0.001", "0.002"]
        );
        assert_eq!(
            Axis::linear("", 0.0, 0.0027).labels(),
            ["0", "5e-4", "0.001", "0.0015", "0.002", "0.0025"]
        );
        assert_eq!(Axis::share("", 2e-5).labels(), ["0.01%", "0.1%", "1%", "10%", "100%"]);
    }

    #[test]
    fn positions_stay_on_the_axis() {
        let axis = Axis::log("", 1.0, 100.0);
        assert_eq!([0.0, 10.0, 1e9].map(|v| axis.at(v)), [0.0, 1.0, 2.0]);
        let positions = axis.positions(500.0, |_| 30.0);
        assert_eq!(positions.label(1.01), "10");
    }

    #[test]
    fn labels_that_have_no_room_go_and_decades_stay() {
        let shown = |axis: &Axis, pixels| -> Vec<String> {
            axis.thinned(pixels, |label| 8.0 * label.len() as f64).into_iter().map(|tick| tick.1).collect()
        };
        let axis = Axis::log("", 1.0, 100.0);
        assert_eq!(shown(&axis, 500.0).len(), 7);
        assert_eq!(shown(&axis, 150.0), ["1", "10", "100"]);
        assert_eq!(shown(&Axis::linear("", 0.0, 30_000.0), 150.0), ["0", "10k", "20k", "30k"]);
        assert_eq!(shown(&axis, 1.0).len(), 1);
    }
}
