//! JSON form of a report, for scripts. The keys are fixed, so that scripts keep working: docs/report.md lists them, and
//! a test compares (`tests/run.rs`).

use super::Stage;
use serde::ser::Serializer;

pub(super) fn settings<S: Serializer>(rows: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(rows.iter().map(|(key, value)| (key, value)))
}

pub(super) fn stages<S: Serializer>(stages: &[Stage], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().map(|stage| (stage.name, &stage.summary)))
}

pub(super) fn shares<S: Serializer>(
    shares: &[(&'static str, f64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(shares.iter().map(|(name, share)| (name, share)))
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn values_are_the_reports() {
        let report = sample::full();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["submitted"], report.submitted);
        assert_eq!(json["timed_out"], report.timed_out);
        assert_eq!(json["matching"], "correlated");
        for (read, written) in [
            (&json["latency_us"]["p999"], report.latency_us.p999),
            (&json["stages_us"]["dispatch"]["max"], report.stages_us[0].summary.max),
            (&json["stage_shares"]["dispatch"], report.stage_shares[0].1),
            (&json["wall_time_s"], report.wall_time_s),
            (&json["per_round_us"], report.per_round_us),
            (&json["logical_error_rate"], report.logical_error_rate.value),
            (&json["logical_error_rate_ci"][0], report.logical_error_rate.interval[0]),
            (&json["logical_error_rate_ci"][1], report.logical_error_rate.interval[1]),
        ] {
            assert_eq!(read.as_f64(), Some(written));
        }
        assert_eq!(json["settings"]["distance"], "13");
        assert_eq!(json["settings"]["note"], sample::HOSTILE);
    }

    #[test]
    fn an_empty_run_has_nulls() {
        let json = serde_json::to_value(sample::empty()).unwrap();
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
