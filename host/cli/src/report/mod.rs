//! Report of `ringcall run`: as JSON, as a table for a terminal, and as one HTML file.
//!
//! The structs here are plain values that the run fills in; this module measures nothing. Times are in microseconds
//! unless the name says otherwise. A value that was not measured is NaN: `null` in JSON, a dash elsewhere.
//!
//! - [`RunReport`], serialised: stable keys, for scripts.
//! - [`to_text`]: the text for a terminal.
//! - [`to_html`]: self-contained (no script, no fetched resource), light and dark; [`to_svg`], [`to_pdf`]: its first
//!   chart.
//! - [`Provenance`]: the program, time and place of the measurement.

pub(crate) mod charts;
mod html;
mod json;
pub(crate) mod page;
pub(crate) mod pdf;
mod provenance;
mod text;

#[cfg(test)]
pub(crate) mod sample;

pub(crate) use html::{to_html, to_pdf, to_svg};
pub(crate) use provenance::Provenance;
pub(crate) use text::to_text;

use ringcall_decoder_service::{ConfidenceBin, Confidences};
use serde::Serialize;

/// A distribution of times in microseconds; every field is NaN without samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LatencySummary {
    pub(crate) min: f64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    pub(crate) stddev: f64,
}

impl LatencySummary {
    pub(crate) const NONE: Self = Self {
        min: f64::NAN,
        mean: f64::NAN,
        p50: f64::NAN,
        p90: f64::NAN,
        p95: f64::NAN,
        p99: f64::NAN,
        p999: f64::NAN,
        max: f64::NAN,
        stddev: f64::NAN,
    };

    /// The columns of every table of latencies, with their headings.
    fn columns(&self) -> [(&'static str, f64); 9] {
        [
            ("min", self.min),
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
            ("p99.9", self.p999),
            ("max", self.max),
            ("stddev", self.stddev),
        ]
    }
}

/// One stage of a request: dispatch, inference, matching, harvest, queueing. With the device's dispatcher, `device`
/// replaces all stages before matching. Names are unique within a report.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) summary: LatencySummary,
}

/// A logical error rate per shot with the two ends of its confidence interval; `confidence` is a share, such as 0.95.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Estimate {
    #[serde(rename = "logical_error_rate")]
    pub(crate) value: f64,
    #[serde(rename = "logical_error_rate_ci")]
    pub(crate) interval: [f64; 2],
    #[serde(skip)]
    pub(crate) confidence: f64,
}

impl Estimate {
    /// The interval in words, if there is one.
    fn in_words(&self) -> Option<String> {
        let Self { interval: [low, high], confidence, .. } = *self;
        let words = || format!("{:.0}% confidence: {} to {}", confidence * 100.0, rate(low), rate(high));
        (low.is_finite() && high.is_finite()).then(words)
    }
}

/// The events of one interval of the run, which ends at `t_s` seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimelinePoint {
    pub(crate) t_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    pub(crate) completed: u64,
    /// The most requests that were due and not answered at any moment of the interval.
    pub(crate) backlog: u64,
}

/// Mean times of the stages of requests with similar latencies; the parts add up to the latency.
#[derive(Clone, Debug)]
pub(crate) struct Breakdown {
    /// A name such as `p99`.
    pub(crate) name: &'static str,
    pub(crate) parts_us: Vec<(&'static str, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct SlowRequest {
    pub(crate) request_id: u64,
    /// Seconds since the start of the run.
    pub(crate) submitted_s: f64,
    pub(crate) latency_us: f64,
    pub(crate) parts_us: Vec<(&'static str, f64)>,
}

/// Answers with similar confidences: the natural logarithm of the odds that they are right.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConfidenceRow {
    /// The lower end; `None` for the first bin, and for answers whose decoder saw no alternative.
    pub(crate) from: Option<f64>,
    /// The upper end, exclusive; `None` for the last two bins.
    pub(crate) to: Option<f64>,
    pub(crate) answers: u64,
    /// Wrong answers, if the truth is known.
    pub(crate) wrong: Option<u64>,
    /// The expected number of wrong answers if the confidences are right.
    pub(crate) expected_wrong: f64,
}

impl ConfidenceRow {
    /// All bins, the least confident first; none if no answer has a confidence.
    pub(crate) fn all(confidences: &Confidences, has_truth: bool) -> Vec<Self> {
        if confidences.is_empty() {
            return Vec::new();
        }
        let end = |end: f64| end.is_finite().then_some(end);
        let row = |(from, to, bin): (f64, f64, &ConfidenceBin)| Self {
            from: end(from),
            to: end(to),
            answers: bin.answers,
            wrong: has_truth.then_some(bin.wrong),
            expected_wrong: bin.expected_wrong,
        };
        confidences.iter().map(row).collect()
    }

    /// The bins in one line, without empty ones.
    pub(crate) fn words(rows: &[Self]) -> String {
        let bin = |row: &Self| {
            let name = match (row.from, row.to) {
                (None, Some(to)) => format!("below {to}"),
                (Some(from), Some(to)) => format!("{from} to {to}"),
                (Some(from), None) => format!("{from} and more"),
                (None, None) => "no alternative".to_owned(),
            };
            let wrong = row.wrong.map_or_else(String::new, |wrong| format!(" ({} wrong)", count(wrong)));
            format!("{name}: {}{wrong}", count(row.answers))
        };
        rows.iter().filter(|row| row.answers > 0).map(bin).collect::<Vec<_>>().join(", ")
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunReport {
    /// Settings of the run in the order in which they are shown; keys are unique.
    #[serde(serialize_with = "json::settings")]
    pub(crate) settings: Vec<(String, String)>,
    /// The decoder: matching or relay.
    pub(crate) decoder: &'static str,
    /// The kind of matching: plain or correlated; `None` for Relay-BP.
    pub(crate) matching: Option<&'static str>,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) refused: u64,
    pub(crate) timed_out: u64,
    /// How often the injector found no free slot.
    pub(crate) stalls: u64,
    /// Requests that were submitted and never completed.
    pub(crate) lost: u64,
    /// Requests of which inference left no defects to match.
    pub(crate) matching_skipped: u64,
    pub(crate) throughput_per_s: f64,
    /// From the first request to the last answer.
    pub(crate) wall_time_s: f64,
    pub(crate) latency_us: LatencySummary,
    /// From the requests' PTP time stamps to their echoes, if there is a clock.
    pub(crate) ptp_round_trip_us: LatencySummary,
    /// The mean latency divided by the rounds of the experiment.
    pub(crate) per_round_us: f64,
    #[serde(serialize_with = "json::stages")]
    pub(crate) stages_us: Vec<Stage>,
    /// The stages' shares of the total time of all requests, 0 to 1; `injection` is not part of that time and has none.
    #[serde(serialize_with = "json::shares")]
    pub(crate) stage_shares: Vec<(&'static str, f64)>,
    /// Shares of detectors set before and after the predecoder.
    pub(crate) density_in: f64,
    pub(crate) density_out: f64,
    pub(crate) shots: u64,
    pub(crate) logical_errors: u64,
    /// Wrong predictions of each observable; empty if the truth is unknown.
    pub(crate) observable_errors: Vec<u64>,
    /// Answers whose correction does not explain the syndrome: best guesses.
    pub(crate) unconverged: u64,
    /// The decode deadline, if there was one.
    #[serde(skip)]
    pub(crate) deadline_us: Option<f64>,
    /// Interval between requests, if they were paced.
    #[serde(skip)]
    pub(crate) interval_us: Option<f64>,
    /// Answers that say that the time was up, and shots whose answer was late or wrong.
    pub(crate) late: u64,
    pub(crate) late_or_wrong: u64,
    /// Answers by confidence; empty if the decoder reports none.
    pub(crate) confidences: Vec<ConfidenceRow>,
    #[serde(flatten)]
    pub(crate) logical_error_rate: Estimate,
    /// Bins of the latency: lower and upper edge in microseconds, and number of requests.
    #[serde(skip)]
    pub(crate) histogram: Vec<(f64, f64, u64)>,
    /// Percentiles from 0 to 100 with their latencies in microseconds.
    #[serde(skip)]
    pub(crate) percentile_curve: Vec<(f64, f64)>,
    #[serde(skip)]
    pub(crate) timeline: Vec<TimelinePoint>,
    /// Requests around the median and the 99th percentile.
    #[serde(skip)]
    pub(crate) breakdowns: Vec<Breakdown>,
    /// The slowest requests, the slowest first.
    #[serde(skip)]
    pub(crate) slowest: Vec<SlowRequest>,
    /// The state of the ring's slots, if it was requested or a request was lost.
    #[serde(skip)]
    pub(crate) slots: Option<String>,
    pub(crate) provenance: Provenance,
}

impl RunReport {
    /// The counts of requests, and their headings.
    fn request_counts(&self) -> [(&'static str, u64); 7] {
        [
            ("submitted", self.submitted),
            ("completed", self.completed),
            ("refused", self.refused),
            ("timed out", self.timed_out),
            ("lost", self.lost),
            ("stalls", self.stalls),
            ("matching skipped", self.matching_skipped),
        ]
    }

    /// The stages of a request after its submission, in order: all but `injection`.
    fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.stages_us.iter().map(|stage| stage.name).filter(|name| *name != "injection")
    }
}

/// A time or a ratio in about four digits; a dash if it was not measured.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        "-".into()
    } else if magnitude >= 10_000.0 {
        grouped(value.round())
    } else if magnitude >= 1000.0 {
        format!("{value:.0}")
    } else if magnitude >= 100.0 {
        format!("{value:.1}")
    } else if magnitude >= 1.0 || value == 0.0 {
        format!("{value:.2}")
    } else if magnitude >= 0.1 {
        format!("{value:.3}")
    } else if magnitude >= 0.001 {
        format!("{value:.4}")
    } else {
        format!("{value:.2e}")
    }
}

/// A rate, in scientific notation below 0.01.
pub(crate) fn rate(value: f64) -> String {
    if value.is_finite() && value != 0.0 && value.abs() < 0.01 {
        format!("{value:.2e}")
    } else {
        number(value)
    }
}

/// A count with separated thousands.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn grouped(value: f64) -> String {
    // Beyond u64 the digits have no meaning.
    if value.abs() < 1e15 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(value.abs() as u64))
    } else {
        format!("{value:.3e}")
    }
}

/// Wrong predictions of each observable, out of how many, and their mean share; `None` if there is only one observable,
/// whose rate is the shot's.
fn per_observable(report: &RunReport) -> Option<[String; 3]> {
    let errors = &report.observable_errors;
    let (sum, shots) = (errors.iter().sum::<u64>(), report.shots * errors.len() as u64);
    let listed = || errors.iter().map(|&errors| count(errors)).collect::<Vec<_>>().join(" ");
    let parts = || {
        [
            listed(),
            format!("of {} each", count(report.shots)),
            format!("mean {}", rate(sum as f64 / shots as f64)),
        ]
    };
    (errors.len() > 1).then(parts)
}

/// The density's reduction, such as `4.8 x`; a dash if it is not a number.
fn reduction(report: &RunReport) -> String {
    let factor = report.density_in / report.density_out;
    if factor.is_finite() { format!("{factor:.1} x") } else { "-".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits() {
        let shown =
            [f64::NAN, 0.0, 0.00001234, 0.0937, 0.84, 4.1899, 43.857, 409.98, 4099.2, 35_464.4, -1_234_567.0]
                .map(number);
        assert_eq!(
            shown,
            [
                "-",
                "0.00",
                "1.23e-5",
                "0.0937",
                "0.840",
                "4.19",
                "43.86",
                "410.0",
                "4099",
                "35,464",
                "-1,234,567"
            ]
        );
        assert_eq!([0, 999, 1000, 12_345_678].map(count), ["0", "999", "1,000", "12,345,678"]);
        assert_eq!([0.00123, 0.05, 0.0, f64::NAN].map(rate), ["1.23e-3", "0.0500", "0.00", "-"]);
    }
}
