//! Pipeline benchmark for any program: counts of requests, latencies, and each part's share of the time.

use crate::stage::{CompletedRequest, StageTimes};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use std::fmt::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The parts of a request's path, in order.
pub const PARTS: [&str; 5] = ["dispatch", "queueing", "inference", "cpu stage", "harvest"];

/// Time stamps of one request, ns; 0: not yet.
#[derive(Debug, Default)]
struct Mark {
    submitted: DeviceU64,
    completed: DeviceU64,
}

/// Measures the requests of a pipeline, numbered from 0, and reports their latencies.
///
/// [`new`](Self::new) allocates everything. Any thread may mark, so the submitting thread and the completion handler share one
/// benchmark. Latencies are exact: each request has its own two time stamps.
///
/// ```
/// use ringcall::FunctionId;
/// use ringcall::wire::schema::HandlerSchema;
/// use ringcall_pipeline::{Pipeline, PipelineBenchmark, RequestView, StageConfig, WorkerResources};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let requests = 100;
/// let bench = Arc::new(PipelineBenchmark::new("copy", requests).with_rounds(7));
/// let marks = Arc::clone(&bench);
/// let pipeline = Pipeline::builder()
///     .config(StageConfig { workers: 1, ..StageConfig::default() })
///     .gpu_stage(|_| {
///         let copy = |request: RequestView<'_>, output: &mut [u8]| {
///             output[..request.payload.len()].copy_from_slice(request.payload);
///             Ok(request.payload.len())
///         };
///         Ok(WorkerResources::inline("copy", HandlerSchema::new(), 64, copy))
///     })
///     .on_completion(move |completion| marks.record(completion))
///     .build()?
///     .start()?;
///
/// let mut injector = pipeline.injector().expect("the first");
/// bench.start();
/// for request in 0..requests {
///     bench.mark_submit(request);
///     injector.submit(FunctionId::of("copy"), &[7; 42], request)?;
/// }
/// pipeline.stop(Duration::from_secs(5));
/// bench.stop();
///
/// let summary = bench.summary();
/// assert_eq!((summary.submitted, summary.completed, summary.timed_out), (100, 100, 0));
/// assert!(summary.latency.p50_us <= summary.latency.p99_us);
/// println!("{}", bench.report());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PipelineBenchmark {
    label: String,
    rounds: Option<u32>,
    marks: Box<[Mark]>,
    begin: DeviceU64,
    end: DeviceU64,
    /// Total time of each part over completed requests, ns.
    parts: [DeviceU64; PARTS.len()],
    /// Completed requests that `parts` includes.
    split: DeviceU64,
    /// Marks of numbers that no request has.
    stray: DeviceU64,
}

impl PipelineBenchmark {
    /// A benchmark of `requests` requests.
    #[must_use]
    pub fn new(label: impl Into<String>, requests: u64) -> Self {
        Self {
            label: label.into(),
            rounds: None,
            marks: (0..requests).map(|_| Mark::default()).collect(),
            begin: DeviceU64::new(0),
            end: DeviceU64::new(0),
            parts: Default::default(),
            split: DeviceU64::new(0),
            stray: DeviceU64::new(0),
        }
    }

    /// Sets the rounds of syndrome extraction in a request: the report then includes the time of one round.
    #[must_use]
    pub fn with_rounds(self, rounds: u32) -> Self {
        Self { rounds: (rounds > 0).then_some(rounds), ..self }
    }

    /// Starts the measured time.
    pub fn start(&self) {
        self.begin.store(clock::now_ns(), Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
    }

    /// Ends the measured time.
    pub fn stop(&self) {
        self.end.store(clock::now_ns(), Ordering::Relaxed);
    }

    /// Marks request `request` as about to be submitted.
    pub fn mark_submit(&self, request: u64) {
        self.mark(request, |mark| &mark.submitted, clock::now_ns());
    }

    /// Marks request `request` as answered.
    pub fn mark_complete(&self, request: u64) {
        self.mark(request, |mark| &mark.completed, clock::now_ns());
    }

    /// Marks the request of a successful completion as complete and adds the parts of its path. The request of a
    /// failed completion stays open and counts as timed out.
    pub fn record(&self, completion: &CompletedRequest<'_>) {
        if !completion.is_success() {
            return;
        }
        let StageTimes { submitted, accepted, started, inferred, processed, harvested } = completion.times;
        let seen = if harvested > 0 { harvested } else { clock::now_ns() };
        if !self.mark(completion.request_id, |mark| &mark.completed, seen) {
            return;
        }
        let marks = [submitted, accepted, started, inferred, processed, harvested];
        // A request of an external ring or without a CPU stage lacks some stamps.
        if marks.windows(2).all(|pair| pair[0] > 0 && pair[1] >= pair[0]) {
            for (sum, pair) in self.parts.iter().zip(marks.windows(2)) {
                sum.fetch_add(pair[1] - pair[0], Ordering::Relaxed);
            }
            self.split.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sets a stamp once. Returns whether this call set the stamp.
    fn mark(&self, request: u64, stamp: impl Fn(&Mark) -> &DeviceU64, now: u64) -> bool {
        let mark = usize::try_from(request).ok().and_then(|request| self.marks.get(request));
        let fresh = mark.is_some_and(|mark| {
            stamp(mark).compare_exchange(0, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if !fresh {
            self.stray.fetch_add(1, Ordering::Relaxed);
        }
        fresh
    }

    /// The results so far. Latencies are those of completed requests alone.
    #[must_use]
    pub fn summary(&self) -> BenchmarkSummary {
        let stamp = |word: &DeviceU64| word.load(Ordering::Relaxed);
        let mut submitted = 0;
        let mut latencies = Vec::with_capacity(self.marks.len());
        for mark in &self.marks {
            let (from, to) = (stamp(&mark.submitted), stamp(&mark.completed));
            submitted += u64::from(from > 0);
            if from > 0 && to > 0 {
                latencies.push(to.saturating_sub(from));
            }
        }
        latencies.sort_unstable();
        let completed = latencies.len() as u64;
        let begin = stamp(&self.begin);
        let end = match stamp(&self.end) {
            0 => clock::now_ns(),
            end => end,
        };
        let wall = Duration::from_nanos(if begin > 0 { end.saturating_sub(begin) } else { 0 });
        let latency = LatencyQuantiles::of(&latencies);
        let sums = self.parts.each_ref().map(stamp);
        let (all, split) = (sums.iter().sum::<u64>() as f64, stamp(&self.split));
        let part = |(name, sum): (&'static str, u64)| PathPart {
            name,
            mean_us: sum as f64 / 1e3 / split.max(1) as f64,
            share: if all > 0.0 { sum as f64 / all } else { f64::NAN },
        };
        BenchmarkSummary {
            label: self.label.clone(),
            submitted,
            completed,
            timed_out: submitted.saturating_sub(completed),
            stray: stamp(&self.stray),
            wall_s: wall.as_secs_f64(),
            throughput_per_s: completed as f64 / wall.as_secs_f64(),
            per_round_us: self.rounds.map(|rounds| latency.mean_us / f64::from(rounds)),
            latency,
            parts: if split > 0 { PARTS.into_iter().zip(sums).map(part).collect() } else { Vec::new() },
        }
    }

    /// The summary as lines of text.
    #[must_use]
    pub fn report(&self) -> String {
        self.summary().to_string()
    }
}

/// A distribution of latencies, µs. Every field is NaN if no request completed.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct LatencyQuantiles {
    /// The shortest.
    pub min_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// The standard deviation.
    pub stddev_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 95th percentile.
    pub p95_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

impl LatencyQuantiles {
    /// The distribution of ascending times, ns.
    fn of(sorted: &[u64]) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let [first, .., last] = sorted else {
            let one = sorted.first().map_or(f64::NAN, |&ns| us(ns));
            let stddev_us = if sorted.is_empty() { f64::NAN } else { 0.0 };
            return Self {
                min_us: one,
                max_us: one,
                mean_us: one,
                stddev_us,
                p50_us: one,
                p90_us: one,
                p95_us: one,
                p99_us: one,
            };
        };
        let count = sorted.len() as f64;
        let mean_us = sorted.iter().map(|&ns| us(ns)).sum::<f64>() / count;
        let variance = sorted.iter().map(|&ns| (us(ns) - mean_us).powi(2)).sum::<f64>() / count;
        // The least time that this share of the requests does not exceed.
        let at = |share: f64| us(sorted[((share * count).ceil() as usize).clamp(1, sorted.len()) - 1]);
        Self {
            min_us: us(*first),
            max_us: us(*last),
            mean_us,
            stddev_us: variance.sqrt(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
        }
    }
}

/// One part of a request's path.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct PathPart {
    /// The part's name, from [`PARTS`].
    pub name: &'static str,
    /// The part's mean time, µs.
    pub mean_us: f64,
    /// The part's share of the whole path, 0 to 1.
    pub share: f64,
}

/// Results of a benchmark. Its `Display` is the report; it serialises with these names.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BenchmarkSummary {
    /// The benchmark's name.
    pub label: String,
    /// Requests that were submitted.
    pub submitted: u64,
    /// Submitted requests that were completed.
    pub completed: u64,
    /// Submitted requests that are not completed yet.
    pub timed_out: u64,
    /// Marks of a number that no request has, and second marks of one request. If not 0, the program that marks has a bug.
    pub stray: u64,
    /// From start to stop, s; 0 without a start.
    pub wall_s: f64,
    /// Completed requests per second of `wall_s`.
    pub throughput_per_s: f64,
    /// From submission to completion.
    pub latency: LatencyQuantiles,
    /// The mean latency divided by the rounds of a request, µs; `None` if the rounds are unknown.
    pub per_round_us: Option<f64>,
    /// Each part's mean time, in order; empty if completions had no time stamps of their parts.
    pub parts: Vec<PathPart>,
}

impl fmt::Display for BenchmarkSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, submitted, completed, timed_out, latency, .. } = self;
        let mut row = |name: &str, value: f64, unit: &str| {
            if value.is_finite() {
                writeln!(f, "  {name:<18}{value:>12.1} {unit}")
            } else {
                writeln!(f, "  {name:<18}{:>12} {unit}", "-")
            }
        };
        // A program chose the label: keep it on one line.
        let mut plain = String::with_capacity(label.len());
        for c in label.chars() {
            plain.write_char(if c.is_control() { '\u{fffd}' } else { c })?;
        }
        let mut parts = String::new();
        for PathPart { name, mean_us, share } in &self.parts {
            writeln!(parts, "  {name:<18}{mean_us:>12.1} us  ({:.1}%)", 100.0 * share)?;
        }
        row("min", latency.min_us, "us")?;
        row("p50", latency.p50_us, "us")?;
        row("mean", latency.mean_us, "us")?;
        row("p90", latency.p90_us, "us")?;
        row("p95", latency.p95_us, "us")?;
        row("p99", latency.p99_us, "us")?;
        row("max", latency.max_us, "us")?;
        row("stddev", latency.stddev_us, "us")?;
        if let Some(us) = self.per_round_us {
            row("per round", us, "us")?;
        }
        row("wall time", 1e3 * self.wall_s, "ms")?;
        row("throughput", self.throughput_per_s, "requests/s")?;
        write!(f, "{parts}")?;
        writeln!(f, "  {plain}: {submitted} submitted, {completed} completed, {timed_out} timed out")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall::Status;

    fn completion(request_id: u64, status: Status, times: StageTimes) -> CompletedRequest<'static> {
        CompletedRequest { request_id, slot: 0, status, error: None, ptp_timestamp: 0, result: None, times }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times: Vec<u64> = (1..=100).map(|us| us * 1000).collect();
        let latency = LatencyQuantiles::of(&times);
        let found =
            [latency.min_us, latency.p50_us, latency.p90_us, latency.p95_us, latency.p99_us, latency.max_us];
        assert_eq!(found, [1.0, 50.0, 90.0, 95.0, 99.0, 100.0]);
        assert!(
            (latency.mean_us - 50.5).abs() < 1e-9 && (latency.stddev_us - 833.25_f64.sqrt()).abs() < 1e-9
        );
        assert!(LatencyQuantiles::of(&[]).p50_us.is_nan());
        assert_eq!(LatencyQuantiles::of(&[2500]).p99_us, 2.5);
    }

    #[test]
    fn requests_without_an_answer_count_as_timed_out_and_strays_are_reported() {
        let bench = PipelineBenchmark::new("three\nlines", 3).with_rounds(2);
        bench.start();
        (0..3).for_each(|request| bench.mark_submit(request));
        bench.mark_complete(0);
        let stamps = StageTimes {
            submitted: 10,
            accepted: 20,
            started: 30,
            inferred: 60,
            processed: 100,
            harvested: 110,
        };
        // Refused; then answered; then of a request that there is none, and once more.
        bench.record(&completion(1, Status::BACKPRESSURE, stamps));
        bench.record(&completion(2, Status::OK, stamps));
        bench.record(&completion(3, Status::OK, stamps));
        bench.mark_complete(0);
        bench.stop();
        let summary = bench.summary();
        assert_eq!((summary.submitted, summary.completed, summary.timed_out, summary.stray), (3, 2, 1, 2));
        let shares: Vec<f64> = summary.parts.iter().map(|part| part.share).collect();
        assert_eq!(shares, [0.1, 0.1, 0.3, 0.4, 0.1]);
        let text = bench.report();
        assert!(
            text.contains("(40.0%)") && text.contains("per round") && text.contains("1 timed out"),
            "{text}"
        );
        assert!(!text.contains("three\nlines"), "{text}");
    }
}
