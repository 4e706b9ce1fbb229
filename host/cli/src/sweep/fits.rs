//! Fits to the points of a sweep: thresholds, and Λ.

use super::lines::{Which, all_arms, codes, pick};
use super::results::PointResult;
use ringcall_qec::circuit::Code;
use ringcall_qec::stats::{LogicalErrorRate, Measured, ScalingPoint, Threshold, suppression, threshold};
use serde::Serialize;

/// The code of a file's model.
const MODEL: &str = "model";

/// Fits for the codes with several distances.
#[derive(Debug, Default, Serialize)]
pub(super) struct Fits {
    pub(super) thresholds: Vec<Crossing>,
    pub(super) suppressions: Vec<Suppression>,
}

/// The threshold of one code and arm.
#[derive(Debug, Serialize)]
pub(super) struct Crossing {
    code: &'static str,
    matching: Option<&'static str>,
    predecoder: bool,
    /// The threshold with one standard deviation.
    #[serde(serialize_with = "value_and_error")]
    #[serde(rename = "p")]
    pub(super) threshold: Threshold,
    /// Indices and values of its distances among the codes of the plot.
    #[serde(skip)]
    pub(super) distances: Vec<(usize, u32)>,
}

/// Λ of one code, arm and noise.
#[derive(Debug, Serialize)]
pub(super) struct Suppression {
    code: &'static str,
    matching: Option<&'static str>,
    predecoder: bool,
    p: f64,
    lambda: f64,
    lambda_error: f64,
}

fn value_and_error<S: serde::Serializer>(threshold: &Threshold, serializer: S) -> Result<S::Ok, S::Error> {
    let Threshold { p: Measured { value, error }, reduced_chi2, .. } = threshold;
    serializer.collect_map([("value", value), ("error", error), ("reduced_chi2", reduced_chi2)])
}

/// An arm in words.
fn arm(matching: Option<&str>, predecoder: bool) -> String {
    let matching = matching.unwrap_or("no");
    format!("{matching} matching{}", if predecoder { " with predecoder" } else { "" })
        .replace("relay matching", "relay")
}

impl Crossing {
    pub(super) fn in_words(&self) -> String {
        let Self { code, matching, predecoder, threshold, .. } = self;
        let arm = arm(*matching, *predecoder);
        format!(
            "{code}, {arm}: threshold {}, reduced χ² {:.1}",
            with_error(threshold.p),
            threshold.reduced_chi2
        )
    }
}

impl Suppression {
    pub(super) const COLUMNS: [&'static str; 4] = ["code", "decoder", "p", "Λ"];

    pub(super) fn row(&self) -> [String; 4] {
        let &Self { code, matching, predecoder, p, lambda, lambda_error } = self;
        let lambda = with_error(Measured { value: lambda, error: lambda_error });
        [code.to_owned(), arm(matching, predecoder), p.to_string(), lambda]
    }
}

/// A value with the digits that correspond to two digits of its error.
fn with_error(Measured { value, error }: Measured) -> String {
    let digits = (1.0 - error.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$} ± {error:.digits$}")
}

impl Fits {
    /// Fits for every code with several distances.
    pub(super) fn of(points: &[PointResult]) -> Self {
        let measured: Vec<&PointResult> = points.iter().filter(|point| point.shots > 0).collect();
        let mut fits = Self::default();
        let labels = codes(points);
        let families = Code::ALL.iter().filter(|code| code.distance().is_none()).map(|code| code.name());
        // A user's models are a family, too, if their files' names state distance and noise.
        for code in families.chain([MODEL]) {
            for which in all_arms(&measured) {
                fits.add(code, which, &measured, &labels);
            }
        }
        fits
    }

    fn add(&mut self, code: &'static str, which: Which, measured: &[&PointResult], labels: &[String]) {
        let (matching, predecoder) = which;
        let known = |point: &&&PointResult| point.code == code && point.distance > 0 && point.p > 0.0;
        let family: Vec<&&PointResult> = measured.iter().filter(known).collect();
        let points: Vec<ScalingPoint> = family
            .iter()
            .filter_map(|point| {
                let (arm, _) = pick(point, which)?;
                let rate = LogicalErrorRate { shots: point.shots, errors: arm.errors };
                // If a file's name does not state its rounds, the rate is per shot.
                let rounds = point.rounds.max(1);
                Some(ScalingPoint { distance: point.distance, rounds, p: point.p, rate })
            })
            .collect();
        if let Some(threshold) = threshold(&points) {
            let place = |label: String| labels.iter().position(|other| *other == label);
            let mut distances: Vec<(usize, u32)> =
                family.iter().filter_map(|point| Some((place(point.label())?, point.distance))).collect();
            distances.sort_unstable();
            distances.dedup();
            self.thresholds.push(Crossing { code, matching, predecoder, threshold, distances });
        }
        let mut noises: Vec<f64> = points.iter().map(|point| point.p).collect();
        noises.sort_by(f64::total_cmp);
        noises.dedup();
        for p in noises {
            let at: Vec<ScalingPoint> = points.iter().copied().filter(|point| point.p == p).collect();
            if let Some(Measured { value: lambda, error: lambda_error }) = suppression(&at) {
                self.suppressions.push(Suppression { code, matching, predecoder, p, lambda, lambda_error });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_two_digits() {
        let shown = [(0.010_123, 0.000_123), (2.345, 0.21), (40.0, 12.0)]
            .map(|(value, error)| with_error(Measured { value, error }));
        assert_eq!(shown, ["0.01012 ± 0.00012", "2.35 ± 0.21", "40 ± 12"]);
        assert_eq!(arm(Some("relay"), false), "relay");
        assert_eq!(arm(Some("plain"), true), "plain matching with predecoder");
    }
}
