//! Reports for the tests: a full one and an empty one.

use super::{
    Breakdown, ConfidenceRow, Estimate, LatencySummary, Provenance, RunReport, SlowRequest, Stage,
    TimelinePoint,
};

/// A setting that must not become markup.
pub(crate) const HOSTILE: &str = "<script src='https://example.org/x.js'>&\"";

fn summary(p50: f64) -> LatencySummary {
    LatencySummary {
        min: p50 * 0.7,
        mean: p50 * 1.06,
        p50,
        p90: p50 * 1.2,
        p95: p50 * 1.3,
        p99: p50 * 1.6,
        p999: p50 * 2.5,
        max: p50 * 9.0,
        stddev: p50 * 0.2,
    }
}

/// A report like that of a run at distance 13.
pub(crate) fn full() -> RunReport {
    let stages =
        [("dispatch", 4.2), ("inference", 14.8), ("queueing", 0.9), ("matching", 11.3), ("harvest", 1.4)];
    let histogram = (0..70).map(|i| {
        let lower = 22.0 + 2.0 * f64::from(i);
        let x = (lower - 32.0) / 4.0;
        let tail = 40.0 * (-(lower - 32.0) / 25.0).exp();
        (lower, lower + 2.0, (60_000.0 * (-x * x).exp() + if lower > 30.0 { tail } else { 0.0 }) as u64)
    });
    let percentiles = (0..60).map(|i| {
        let nines = f64::from(i) / 12.0;
        (100.0 * (1.0 - 10f64.powf(-nines)), 23.0 + 9.0 * (nines + 0.2).sqrt() + 1.4 * nines.powf(2.4))
    });
    let timeline = (1..=100).map(|i| {
        let wave = f64::from(i * 37 % 11) / 11.0;
        TimelinePoint {
            t_s: f64::from(i) / 10.0,
            p50_us: 32.0 + wave,
            p99_us: 50.0 + 4.0 * wave,
            max_us: if i % 31 == 0 { 290.0 } else { 70.0 + 20.0 * wave },
            completed: 3330 + (i % 7) as u64,
            backlog: 1 + (i % 5) as u64,
        }
    });
    let parts = |scale: f64| stages.map(|(name, us)| (name, us * scale)).to_vec();
    let breakdown = |(name, scale)| Breakdown { name, parts_us: parts(scale) };
    let slow = |request_id: u32| SlowRequest {
        request_id: u64::from(request_id) * 1009,
        submitted_s: 0.7 * f64::from(request_id),
        latency_us: 326.0 / f64::from(request_id + 1),
        parts_us: if request_id == 3 { vec![] } else { parts(10.0 / f64::from(request_id + 1)) },
    };
    let settings = [
        ("distance", "13"),
        ("rounds", "13"),
        ("engine", "gpu"),
        ("dispatcher", "host"),
        ("noise", "0.006"),
        ("workers", "8"),
        ("slots", "64"),
        ("rate", "30 us"),
        ("seconds", "10"),
        ("note", HOSTILE),
    ];
    RunReport {
        settings: settings.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
        decoder: "matching",
        matching: Some("correlated"),
        submitted: 333_333,
        completed: 333_330,
        refused: 0,
        timed_out: 2,
        stalls: 12,
        lost: 1,
        matching_skipped: 4321,
        throughput_per_s: 33_312.4,
        wall_time_s: 10.0062,
        latency_us: summary(32.6),
        ptp_round_trip_us: summary(33.1),
        per_round_us: 2.6582,
        stages_us: stages.map(|(name, p50)| Stage { name, summary: summary(p50) }).to_vec(),
        stage_shares: stages.map(|(name, p50)| (name, p50 / 32.6)).to_vec(),
        density_in: 0.0937,
        density_out: 0.0197,
        shots: 12_000,
        logical_errors: 157,
        observable_errors: vec![157],
        unconverged: 0,
        deadline_us: Some(60.0),
        interval_us: Some(30.0),
        late: 31,
        late_or_wrong: 180,
        confidences: vec![
            ConfidenceRow { from: None, to: Some(1.0), answers: 25, wrong: Some(11), expected_wrong: 10.4 },
            ConfidenceRow { from: None, to: None, answers: 333_305, wrong: Some(3), expected_wrong: 0.0 },
        ],
        logical_error_rate: Estimate { value: 0.01308, interval: [0.01113, 0.01527], confidence: 0.95 },
        histogram: histogram.collect(),
        percentile_curve: percentiles.chain([(100.0, 290.0)]).collect(),
        timeline: timeline.collect(),
        breakdowns: [("p50", 1.0), ("p99", 1.6)].map(breakdown).to_vec(),
        slowest: (0..10).map(slow).collect(),
        provenance: Provenance::now(),
        slots: Some("slot 3: rx 0, tx in flight <since> 0.4 s\nslot 4: idle".into()),
    }
}

/// A run in which nothing was submitted.
pub(crate) fn empty() -> RunReport {
    RunReport {
        settings: vec![],
        decoder: "matching",
        matching: Some("plain"),
        submitted: 0,
        completed: 0,
        refused: 0,
        timed_out: 0,
        stalls: 0,
        lost: 0,
        matching_skipped: 0,
        throughput_per_s: f64::NAN,
        wall_time_s: 0.0,
        latency_us: LatencySummary::NONE,
        ptp_round_trip_us: LatencySummary::NONE,
        per_round_us: f64::NAN,
        stages_us: vec![],
        stage_shares: vec![],
        density_in: f64::NAN,
        density_out: f64::NAN,
        shots: 0,
        logical_errors: 0,
        observable_errors: vec![],
        unconverged: 0,
        deadline_us: None,
        interval_us: None,
        late: 0,
        late_or_wrong: 0,
        confidences: vec![],
        logical_error_rate: Estimate { value: f64::NAN, interval: [f64::NAN; 2], confidence: 0.95 },
        histogram: vec![],
        percentile_curve: vec![],
        timeline: vec![],
        breakdowns: vec![],
        slowest: vec![],
        provenance: Provenance::now(),
        slots: None,
    }
}
