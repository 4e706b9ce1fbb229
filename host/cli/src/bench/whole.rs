//! The whole pipeline: injector, ring, inference, matching, harvest, at one distance; matching alone, in one pass or two, and with
//! the predecoder on a GPU, under the host's dispatcher and under the device's own.

use super::measure::{per_second, time};
use crate::experiment::Preset;
use crate::network::{NetworkFile, OnGpu};
use anyhow::{Context, Result};
use ringcall_decoder_service::{Inference, Pace, Problem, Service, ServiceConfig, ShotSource};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::{Basis, Configuration};
use ringcall_qec::decode::MatchingEngine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Strength of the circuit noise, and the seed of the shots.
const P: f64 = 0.003;
const SEED: u64 = 1;
/// Interval between requests of the paced runs.
const PACE: Duration = Duration::from_micros(30);

/// Where inference runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// No inference: matching in one pass.
    Matching,
    /// No inference: correlated matching.
    Correlated,
    /// Graphs of the host's workers.
    GpuHost,
    /// This many dispatchers of the device.
    GpuDevice(u32),
    /// No inference: each basis and layer of time matched separately.
    Slices,
}

impl Shape {
    fn on_device(self) -> bool {
        matches!(self, Self::GpuHost | Self::GpuDevice(_))
    }

    fn matching(self) -> MatchingEngine {
        match self {
            Self::Correlated => MatchingEngine::CorrelatedBlossom,
            Self::Matching | Self::Slices | Self::GpuHost | Self::GpuDevice(_) => {
                MatchingEngine::SparseBlossom
            }
        }
    }
}

const BENCHES: &[(&str, u32, Shape)] = &[
    ("pipeline/d7", 7, Shape::Matching),
    ("pipeline/d7/correlated", 7, Shape::Correlated),
    ("pipeline/d7/slices", 7, Shape::Slices),
    ("pipeline/d7/gpu-host", 7, Shape::GpuHost),
    ("pipeline/d7/gpu-device", 7, Shape::GpuDevice(1)),
    ("pipeline/d7/gpu-device-2", 7, Shape::GpuDevice(2)),
    ("pipeline/d7/gpu-device-4", 7, Shape::GpuDevice(4)),
    ("pipeline/d13", 13, Shape::Matching),
    ("pipeline/d13/correlated", 13, Shape::Correlated),
    ("pipeline/d13/slices", 13, Shape::Slices),
    ("pipeline/d13/gpu-host", 13, Shape::GpuHost),
    ("pipeline/d13/gpu-device", 13, Shape::GpuDevice(1)),
    ("pipeline/d13/gpu-device-2", 13, Shape::GpuDevice(2)),
    ("pipeline/d13/gpu-device-3", 13, Shape::GpuDevice(3)),
    ("pipeline/d13/gpu-device-4", 13, Shape::GpuDevice(4)),
    ("pipeline/d21", 21, Shape::Matching),
    ("pipeline/d21/correlated", 21, Shape::Correlated),
    ("pipeline/d21/gpu-host", 21, Shape::GpuHost),
    ("pipeline/d21/gpu-device", 21, Shape::GpuDevice(1)),
    ("pipeline/d21/gpu-device-2", 21, Shape::GpuDevice(2)),
    ("pipeline/d31", 31, Shape::Matching),
    ("pipeline/d31/correlated", 31, Shape::Correlated),
    ("pipeline/d31/gpu-host", 31, Shape::GpuHost),
    ("pipeline/d31/gpu-device", 31, Shape::GpuDevice(1)),
];

/// The named configurations, matched whole and by slices, over rings of their size. They are measured only if asked
/// for.
const PRESETS: &[(&str, &str, Shape)] = &[
    ("preset/d7", "d7", Shape::Matching),
    ("preset/d7/slices", "d7", Shape::Slices),
    ("preset/d13", "d13", Shape::Matching),
    ("preset/d13/slices", "d13", Shape::Slices),
    ("preset/d21", "d21", Shape::Matching),
    ("preset/d21/slices", "d21", Shape::Slices),
    ("preset/d31", "d31", Shape::Matching),
    ("preset/d31/slices", "d31", Shape::Slices),
    ("preset/d13_r104", "d13_r104", Shape::Matching),
    ("preset/d13_r104/slices", "d13_r104", Shape::Slices),
    ("preset/d21_r42", "d21_r42", Shape::Matching),
    ("preset/d21_r42/slices", "d21_r42", Shape::Slices),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    BENCHES.iter().map(|&(name, ..)| name).chain(PRESETS.iter().map(|&(name, ..)| name))
}

/// A row's configuration.
struct Measured {
    name: &'static str,
    experiment: MemoryExperiment,
    slots: Option<u32>,
    shape: Shape,
}

fn rows() -> Result<Vec<Measured>> {
    let noise = CircuitNoise::uniform(P);
    let square = |&(name, distance, shape): &(&'static str, u32, Shape)| Measured {
        name,
        experiment: MemoryExperiment { distance, rounds: distance, basis: Basis::Z, noise },
        slots: None,
        shape,
    };
    let mut rows: Vec<_> = BENCHES.iter().map(square).collect();
    for &(name, preset, shape) in PRESETS {
        let Configuration { distance, rounds, basis, .. } = Configuration::named(preset)?;
        let experiment = MemoryExperiment { distance, rounds, basis, noise };
        rows.push(Measured { name, experiment, slots: Some(Preset::SLOTS), shape });
    }
    Ok(rows)
}

/// How long to measure, and with which network.
#[derive(Debug)]
pub(super) struct EndToEndOptions<'a> {
    /// Seconds of each run.
    pub(super) seconds: f64,
    /// The predecoder; without a file the built-in network.
    pub(super) model: Option<&'a Path>,
    /// Why no GPU can run it, if none can.
    pub(super) no_device: Option<&'a str>,
}

/// One line of results: µs from submission to harvest.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Interval between requests; 0: as fast as slots become free.
    interval_us: f64,
    requests: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    per_s: f64,
    /// The median of each stage, as in the report of `ringcall run`.
    stages_p50_us: BTreeMap<&'static str, f64>,
    /// Share of requests of which inference left no defects.
    matching_skipped: f64,
    density_in: f64,
    density_out: f64,
    logical_errors: u64,
    pinned: bool,
    lost: u64,
    /// Refused or timed-out requests.
    failed: u64,
}

impl Row {
    pub(super) const HEADING: &'static str =
        "a request                  every      p50      p99    p99.9      max      rate";

    /// Requests that were not answered by the intended stages.
    pub(super) fn wrong(&self) -> u64 {
        self.lost + self.failed
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pace = if self.interval_us > 0.0 { format!("{} µs", self.interval_us) } else { "-".to_owned() };
        let [p50, p99, p999, max] =
            [self.p50_us, self.p99_us, self.p999_us, self.max_us].map(|us| time(us * 1e3));
        let rate = per_second(self.per_s);
        write!(f, "{:25} {pace:>6} {p50:>8} {p99:>8} {p999:>8} {max:>8} {rate:>9}", self.name)?;
        let stages: Vec<String> =
            self.stages_p50_us.iter().map(|(name, us)| format!("{name} {}", time(us * 1e3))).collect();
        write!(f, "\n  p50 of {}", stages.join(", "))?;
        if self.matching_skipped > 0.0 {
            write!(f, "\n  {:.1}% had nothing to match", 100.0 * self.matching_skipped)?;
        }
        if self.wrong() > 0 {
            write!(f, "\n  LOST {} FAILED {}", self.lost, self.failed)?;
        }
        Ok(())
    }
}

/// Measures the requested rows, paced and not. Returns the rows that cannot be measured here, and why.
pub(super) fn run(
    options: &EndToEndOptions<'_>,
    asked: &dyn Fn(&str) -> bool,
    mut show: impl FnMut(Row) -> Result<()>,
) -> Result<Vec<(&'static str, String)>> {
    let mut absent = Vec::new();
    for row in rows()?.into_iter().filter(|row| asked(row.name)) {
        let Measured { name, shape, .. } = row;
        if let Some(why) = options.no_device.filter(|_| shape.on_device()) {
            absent.push((name, why.to_owned()));
            continue;
        }
        for interval in [PACE, Duration::ZERO] {
            let measured = measure(options, &row, interval);
            show(measured.with_context(|| format!("benchmark {name}"))?)?;
        }
    }
    Ok(absent)
}

fn measure(options: &EndToEndOptions<'_>, row: &Measured, interval: Duration) -> Result<Row> {
    let &Measured { name, experiment, slots, shape } = row;
    let problem = match shape {
        Shape::Slices => Problem::by_slices(&experiment)?.answering_alone(),
        _ => Problem::with_matching(experiment.detector_error_model()?, Some(shape.matching()))?,
    };
    let source = ShotSource::sampled(&problem, SEED)?;
    let workers = crate::pinning::workers();
    // With too few cores threads have to take turns, which pinned threads cannot.
    let cores = crate::pinning::auto(workers).unwrap_or_default();
    let default = ServiceConfig::default();
    let mut config = ServiceConfig { workers, cores, slots: slots.unwrap_or(default.slots), ..default };
    if let Shape::GpuDevice(kernels) = shape {
        // Each has an equal part of the ring, in whole sectors of four flags.
        config.slots -= config.slots % (4 * kernels);
    }
    let predecoder = || {
        let file = NetworkFile::read(options.model)?;
        OnGpu::open(&file)?.bind(&experiment, None)
    };
    let service = match shape {
        Shape::Matching | Shape::Correlated | Shape::Slices => {
            Service::start(&problem, &Inference::None, config)?
        }
        Shape::GpuHost => Service::start(&problem, &predecoder()?.inference()?, config)?,
        Shape::GpuDevice(kernels) => {
            let dispatcher = predecoder()?.dispatchers(config.slots, kernels)?;
            Service::start_remote(&problem, dispatcher, config)?
        }
    };
    service.pins().iter().for_each(crate::pinning::tell);
    let pinned = cores.worker_base.is_some() && service.pins().iter().all(ringcall::pin::PinReport::took);
    let duration = Some(Duration::from_secs_f64(options.seconds));
    let summary = service.drive(source, Pace { requests: None, duration, interval }, &mut |_| true)?;
    let us = |times: &hdrhistogram::Histogram<u64>, q| times.value_at_quantile(q) as f64 / 1e3;
    let stats = &summary.stats;
    Ok(Row {
        name,
        interval_us: interval.as_secs_f64() * 1e6,
        requests: stats.submitted,
        p50_us: us(&summary.latency, 0.5),
        p99_us: us(&summary.latency, 0.99),
        p999_us: us(&summary.latency, 0.999),
        max_us: summary.latency.max() as f64 / 1e3,
        per_s: summary.throughput_per_s(),
        stages_p50_us: summary.stages.iter().map(|(name, times)| (name, us(times, 0.5))).collect(),
        matching_skipped: summary.matching_skipped as f64 / stats.completed.max(1) as f64,
        density_in: summary.density_in,
        density_out: summary.density_out,
        logical_errors: summary.rate.errors,
        pinned,
        lost: summary.lost(),
        failed: stats.refused + stats.timed_out,
    })
}
