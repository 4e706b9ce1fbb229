//! The report for scripts. The keys are fixed: what reads them must not break.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{LatencySummary, RunReport, Stage};

#[derive(serde::Serialize)]
struct Json<'a> {
    settings: Settings<'a>,
    submitted: u64,
    completed: u64,
    refused: u64,
    timed_out: u64,
    stalls: u64,
    lost: u64,
    throughput_per_s: f64,
    latency_us: &'a LatencySummary,
    stages_us: Stages<'a>,
    density_in: f64,
    density_out: f64,
    shots: u64,
    logical_errors: u64,
    logical_error_rate: f64,
    logical_error_rate_ci: [f64; 2],
}

struct Settings<'a>(&'a [(String, String)]);

impl Serialize for Settings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

struct Stages<'a>(&'a [Stage]);

impl Serialize for Stages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for stage in self.0 {
            map.serialize_entry(stage.name, &stage.summary)?;
        }
        map.end()
    }
}

/// The report as indented JSON with a final newline. What is NaN or infinite is `null`.
pub(crate) fn to_json(report: &RunReport) -> String {
    let rate = report.logical_error_rate;
    let json = Json {
        settings: Settings(&report.settings),
        submitted: report.submitted,
        completed: report.completed,
        refused: report.refused,
        timed_out: report.timed_out,
        stalls: report.stalls,
        lost: report.lost,
        throughput_per_s: report.throughput_per_s,
        latency_us: &report.latency_us,
        stages_us: Stages(&report.stages_us),
        density_in: report.density_in,
        density_out: report.density_out,
        shots: report.shots,
        logical_errors: report.logical_errors,
        logical_error_rate: rate.value,
        logical_error_rate_ci: [rate.low, rate.high],
    };
    // Strings, numbers and string keys: nothing here can fail to serialise.
    let mut text = serde_json::to_string_pretty(&json).expect("plain values serialise");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::sample;
    use super::*;

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn set(names: &'static str) -> BTreeSet<&'static str> {
        names.split_whitespace().collect()
    }

    const SUMMARY: &str = "min mean p50 p90 p95 p99 p999 max stddev";

    #[test]
    fn keys_are_exactly_these() {
        let json: Value = serde_json::from_str(&to_json(&sample::full())).unwrap();
        assert_eq!(
            keys(&json),
            set(
                "settings submitted completed refused timed_out stalls lost throughput_per_s latency_us stages_us \
                 density_in density_out shots logical_errors logical_error_rate logical_error_rate_ci"
            )
        );
        assert_eq!(keys(&json["latency_us"]), set(SUMMARY));
        assert_eq!(keys(&json["stages_us"]), set("dispatch inference queueing matching harvest"));
        assert_eq!(keys(&json["stages_us"]["matching"]), set(SUMMARY));
    }

    #[test]
    fn values_are_the_reports() {
        let report = sample::full();
        let json: Value = serde_json::from_str(&to_json(&report)).unwrap();
        assert_eq!(json["submitted"], report.submitted);
        assert_eq!(json["timed_out"], report.timed_out);
        // serde_json's reader may be off by the last bit; its writer is exact.
        for (read, written) in [
            (&json["latency_us"]["p999"], report.latency_us.p999),
            (&json["stages_us"]["dispatch"]["max"], report.stages_us[0].summary.max),
            (&json["logical_error_rate"], report.logical_error_rate.value),
            (&json["logical_error_rate_ci"][0], report.logical_error_rate.low),
            (&json["logical_error_rate_ci"][1], report.logical_error_rate.high),
        ] {
            assert!((read.as_f64().unwrap() / written - 1.0).abs() < 1e-15, "{read} {written}");
        }
        assert_eq!(json["settings"]["distance"], "13");
        assert_eq!(json["settings"]["note"], sample::HOSTILE);
    }

    #[test]
    fn an_empty_run_has_nulls() {
        let json: Value = serde_json::from_str(&to_json(&sample::empty())).unwrap();
        assert_eq!(json["completed"], 0);
        for null in [
            &json["throughput_per_s"],
            &json["latency_us"]["p50"],
            &json["logical_error_rate"],
            &json["logical_error_rate_ci"][0],
            &json["density_out"],
        ] {
            assert!(null.is_null(), "{null}");
        }
        assert_eq!(json["stages_us"], serde_json::json!({}));
    }
}
