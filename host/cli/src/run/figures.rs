//! Conversion of a run's summary to its report.

use super::inputs::NetworkInUse;
use super::options::{Args, CopiesArg, DispatcherArg, EngineArg, HandoffArg, PtpClockArg};
use crate::decoder::{DecoderArg, RelayArgs};
use crate::report::charts::axis::LOG_FROM;
use crate::report::{
    Breakdown, ConfidenceRow, Estimate, LatencySummary, Provenance, RunReport, SlowRequest, Stage,
    TimelinePoint,
};
use anyhow::Result;
use hdrhistogram::Histogram;
use ringcall_decoder_service::{Problem, ServiceConfig, Summary};
use ringcall_qec::circuit::Experiment;
use ringcall_qec::decode::{BpConfig, DecoderFamily, MatchingEngine};
use std::time::Duration;

const CONFIDENCE: f64 = 0.95;

pub(super) fn report(
    args: &Args,
    problem: &Problem,
    experiment: Option<&Experiment>,
    config: &ServiceConfig,
    network: Option<&NetworkInUse>,
    summary: &Summary,
) -> Result<RunReport> {
    let stats = &summary.stats;
    let rate = summary.rate;
    let interval = match rate.shots {
        0 => [f64::NAN; 2],
        _ => rate.clopper_pearson(CONFIDENCE).map(|interval| [interval.low, interval.high])?,
    };
    Ok(RunReport {
        settings: settings(args, problem, experiment, config, network),
        decoder: problem.family().name(),
        matching: problem.matching().map(MatchingEngine::name),
        submitted: stats.submitted,
        completed: stats.completed,
        refused: stats.refused,
        timed_out: stats.timed_out,
        stalls: stats.backpressure_stalls,
        lost: summary.lost(),
        matching_skipped: summary.matching_skipped,
        throughput_per_s: summary.throughput_per_s(),
        wall_time_s: summary.elapsed.as_secs_f64(),
        latency_us: latencies(&summary.latency),
        ptp_round_trip_us: latencies(&summary.round_trip),
        per_round_us: experiment
            .map_or(f64::NAN, |experiment| latencies(&summary.latency).mean / f64::from(experiment.rounds)),
        stages_us: summary
            .stages
            .iter()
            .map(|(name, times)| Stage { name, summary: latencies(times) })
            .collect(),
        stage_shares: shares(summary),
        density_in: summary.density_in,
        density_out: summary.density_out,
        shots: rate.shots,
        logical_errors: rate.errors,
        observable_errors: if rate.shots > 0 { summary.observable_errors.clone() } else { Vec::new() },
        unconverged: summary.unconverged,
        deadline_us: problem.deadline().map(|deadline| deadline.as_secs_f64() * 1e6),
        interval_us: Some(args.interval.as_nanos() as f64 / 1e3).filter(|us| *us > 0.0),
        late: summary.late,
        late_or_wrong: summary.late_or_wrong,
        confidences: ConfidenceRow::all(&summary.confidences, rate.shots > 0),
        logical_error_rate: Estimate { value: rate.rate(), interval, confidence: CONFIDENCE },
        histogram: bins(&summary.latency),
        percentile_curve: curve(&summary.latency),
        timeline: timeline(summary),
        breakdowns: breakdowns(summary),
        slowest: slowest(summary),
        provenance: Provenance::now(),
        slots: None,
    })
}

/// Each stage with its share of the sum of all; lateness before submission is not a stage.
fn shares(summary: &Summary) -> Vec<(&'static str, f64)> {
    let sum = |times: &Histogram<u64>| times.mean() * times.len() as f64;
    let on_the_way =
        || summary.stages.iter().filter(|(name, times)| *name != "injection" && !times.is_empty());
    let all: f64 = on_the_way().map(|(_, times)| sum(times)).sum();
    on_the_way().map(|(name, times)| (name, sum(times) / all)).collect()
}

fn settings(
    args: &Args,
    problem: &Problem,
    experiment: Option<&Experiment>,
    config: &ServiceConfig,
    network: Option<&NetworkInUse>,
) -> Vec<(String, String)> {
    let mut rows: Vec<(&str, String)> = Vec::new();
    match args.file.path() {
        Some(path) => rows.push(("model", path.display().to_string())),
        None => rows.extend(experiment.into_iter().flat_map(generated)),
    }
    rows.push(("detectors", problem.detectors().to_string()));
    rows.push(("observables", problem.observables().to_string()));
    match args.shots_in() {
        Some(path) => rows.push(("shots", path.display().to_string())),
        None => rows.push(("seed", args.seed.to_string())),
    }
    if let Some(DecoderArg::Plugin(library)) = &args.decoder.family {
        rows.push(("library", library.display().to_string()));
    }
    if problem.family() == DecoderFamily::Relay {
        let relay = RelayArgs { lanes: args.relay_lanes, ..args.decoder.relay };
        let BpConfig { solutions, max_iterations, first_iterations, leg_iterations, legs, lanes, .. } =
            relay.config();
        rows.push(("relay_solutions", solutions.to_string()));
        let most = first_iterations.saturating_add(leg_iterations.saturating_mul(legs)).min(max_iterations);
        rows.push(("relay_iterations", most.to_string()));
        rows.push(("relay_lanes", lanes.to_string()));
        rows.extend(relay.ordered.map(|order| ("relay_osd", order.to_string())));
        rows.extend(args.relay_deadline.map(|time| ("relay_deadline_us", us(time))));
    }
    let engine = match (args.engine, network) {
        (EngineArg::Matching, _) => format!("{} alone", problem.family().name()),
        (EngineArg::Tensorrt, None) => "passthrough (SKIP_TRT)".to_owned(),
        (EngineArg::Gpu, None) => "a copy on the GPU (SKIP_TRT)".to_owned(),
        (engine, None) => engine.name(),
        (engine, Some(network)) => format!("{} ({})", engine.name(), network.file),
    };
    rows.push(("engine", engine));
    if let Some(network) = network {
        let own = || "the model's own".to_owned();
        rows.push(("threshold", network.threshold.map_or_else(own, |threshold| threshold.to_string())));
    }
    if matches!(args.engine, EngineArg::Gpu | EngineArg::Relay) {
        rows.push(("dispatcher", format!("{:?}", args.dispatcher).to_lowercase()));
    }
    let flag = args.handoff == HandoffArg::Flag;
    if flag {
        rows.push(("handoff", "flag".to_owned()));
        rows.push(("copies", format!("{:?}", args.copies.unwrap_or(CopiesArg::Auto)).to_lowercase()));
    }
    if flag || args.dispatcher != DispatcherArg::Host {
        rows.push(("kernels", args.kernels.to_string()));
    }
    if problem.form().measurements().is_some() {
        rows.push(("requests", "measurements".to_owned()));
    }
    if args.ptp_clock != PtpClockArg::None {
        rows.push(("ptp_clock", args.ptp_clock.to_string()));
    }
    rows.extend(args.deadline.deadline.map(|time| ("deadline_us", us(time))));
    rows.push(("interval_us", us(args.interval)));
    rows.push(("workers", config.workers.to_string()));
    rows.push(("slots", config.slots.to_string()));
    rows.push(("pinned", config.cores.dispatcher.is_some().to_string()));
    rows.push(("machine", crate::machine::describe()));
    rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn us(time: Duration) -> String {
    (time.as_nanos() as f64 / 1e3).to_string()
}

fn generated(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let &Experiment { code, distance, rounds, basis, detectors, p } = experiment;
    let mut rows = vec![
        ("code", code.name().to_owned()),
        ("distance", distance.to_string()),
        ("rounds", rounds.to_string()),
    ];
    if code.has_basis() {
        rows.push(("basis", basis.to_string().to_lowercase()));
    }
    if code.has_detector_bases() {
        rows.push(("detector_bases", format!("{detectors:?}").to_lowercase()));
    }
    rows.push(("p", p.to_string()));
    rows
}

fn latencies(times: &Histogram<u64>) -> LatencySummary {
    if times.is_empty() {
        return LatencySummary::NONE;
    }
    let at = |q| times.value_at_quantile(q) as f64 / 1e3;
    LatencySummary {
        min: times.min() as f64 / 1e3,
        mean: times.mean() / 1e3,
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: times.max() as f64 / 1e3,
        stddev: times.stdev() / 1e3,
    }
}

/// Bins from the least to the 99.9th percentile, equally wide on the chart's axis. The last one includes all greater
/// latencies.
fn bins(times: &Histogram<u64>) -> Vec<(f64, f64, u64)> {
    const BINS: u32 = 60;
    if times.is_empty() {
        return Vec::new();
    }
    let low = times.min().max(1) as f64;
    let high = (times.value_at_quantile(0.999) as f64).max(low + f64::from(BINS));
    // The scale of the chart's axis, so that bins look equally wide.
    let logarithmic = high / low >= LOG_FROM;
    let edge = |i: u32| {
        let share = f64::from(i) / f64::from(BINS);
        if logarithmic { low * (high / low).powf(share) } else { low + (high - low) * share }
    };
    let place = |value: f64| {
        let share = if logarithmic { (value / low).log(high / low) } else { (value - low) / (high - low) };
        ((share * f64::from(BINS)).max(0.0) as u32).min(BINS - 1)
    };
    let mut bins: Vec<(f64, f64, u64)> = (0..BINS).map(|i| (edge(i) / 1e3, edge(i + 1) / 1e3, 0)).collect();
    for step in times.iter_recorded() {
        bins[place(step.value_iterated_to() as f64) as usize].2 += step.count_since_last_iteration();
    }
    bins
}

fn curve(times: &Histogram<u64>) -> Vec<(f64, f64)> {
    if times.is_empty() {
        return Vec::new();
    }
    times
        .iter_quantiles(5)
        .map(|step| (step.quantile_iterated_to() * 100.0, step.value_iterated_to() as f64 / 1e3))
        .collect()
}

/// At most 600 points: neighbouring intervals are merged, keeping the worst values.
fn timeline(summary: &Summary) -> Vec<TimelinePoint> {
    let join = summary.timeline.len().div_ceil(600).max(1);
    summary
        .timeline
        .chunks(join)
        .filter_map(|points| {
            let worst = |of: fn(&ringcall_decoder_service::TimelinePoint) -> u64| {
                points.iter().map(of).max().unwrap_or(0) as f64 / 1e3
            };
            Some(TimelinePoint {
                t_s: points.last()?.end.as_secs_f64(),
                p50_us: worst(|p| p.p50_ns),
                p99_us: worst(|p| p.p99_ns),
                max_us: worst(|p| p.max_ns),
                completed: points.iter().map(|p| p.completed).sum(),
                backlog: points.iter().map(|p| p.backlog).max().unwrap_or(0),
            })
        })
        .collect()
}

fn breakdowns(summary: &Summary) -> Vec<Breakdown> {
    let named = |breakdown: &ringcall_decoder_service::Breakdown| Breakdown {
        name: if breakdown.percentile < 99.0 { "p50" } else { "p99" },
        parts_us: breakdown.parts_ns.iter().map(|&(name, ns)| (name, ns / 1e3)).collect(),
    };
    summary.breakdowns.iter().map(named).collect()
}

fn slowest(summary: &Summary) -> Vec<SlowRequest> {
    let shown = |slow: &ringcall_decoder_service::SlowRequest| SlowRequest {
        request_id: slow.request_id,
        submitted_s: slow.submitted.as_secs_f64(),
        latency_us: slow.latency_ns as f64 / 1e3,
        parts_us: slow.parts_ns.iter().map(|&(name, ns)| (name, ns as f64 / 1e3)).collect(),
    };
    summary.slowest.iter().map(shown).collect()
}
