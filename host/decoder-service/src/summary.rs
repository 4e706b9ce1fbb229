//! Every answer accounted for, and the figures of a run.

use crate::stages::Density;
use hdrhistogram::Histogram;
use ringcall_gpu::clock;
use ringcall_pipeline::{StageTimes, Stats, StopReport};
use ringcall_qec::stats::LogicalErrorRate;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// The parts of a request's way, in order, where its dispatcher is a thread of this process.
pub const STAGES: [&str; 6] = ["injection", "dispatch", "queueing", "inference", "matching", "harvest"];

/// The same where its dispatcher is elsewhere: of what happens between submission and the answer there only the sum is known.
pub const REMOTE_STAGES: [&str; 4] = ["injection", "device", "matching", "harvest"];

/// A distribution of times for each part of a request's way, ns.
#[derive(Debug, Clone)]
pub struct Stages {
    names: &'static [&'static str],
    times: Vec<Histogram<u64>>,
}

impl Stages {
    fn new(names: &'static [&'static str]) -> Self {
        Self { names, times: names.iter().map(|_| histogram()).collect() }
    }

    /// The times by name, in the order of [`STAGES`] or [`REMOTE_STAGES`].
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Histogram<u64>)> {
        self.names.iter().copied().zip(&self.times)
    }

    /// The times of one part; `None` if it is not measured here.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Histogram<u64>> {
        self.iter().find_map(|(other, times)| (other == name).then_some(times))
    }

    /// `marks` are the ends of the parts, the first one's begin before them; 0 where the request did not get there.
    fn record(&mut self, marks: &[u64]) {
        for (histogram, pair) in self.times.iter_mut().zip(marks.windows(2)) {
            if pair[0] != 0 && pair[1] >= pair[0] {
                histogram.saturating_record((pair[1] - pair[0]).max(1));
            }
        }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Requests submitted.
    pub submitted: u64,
    /// Requests whose answer came.
    pub completed: u64,
    /// Wrong answers.
    pub logical_errors: u64,
    /// Since the run began.
    pub elapsed: Duration,
    /// The latest latency seen, µs.
    pub latest_us: f64,
}

/// What the completion handler tells the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) request_id: u64,
    /// What was predicted, if the request succeeded.
    pub(crate) predicted: Option<Predicted>,
    pub(crate) times: StageTimes,
    /// Whether it has a time stamp.
    pub(crate) stamped: bool,
}

/// What an answer says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Predicted {
    /// A bit for each observable.
    pub(crate) observables: u64,
    /// Whether the correction explains the syndrome.
    pub(crate) converged: bool,
    /// Whether time was up before the decoder came to its end.
    pub(crate) late: bool,
}

/// What happened in one interval of the run.
#[derive(Debug, Clone, Copy)]
pub struct TimelinePoint {
    /// The interval's end, from the run's begin.
    pub end: Duration,
    /// Median latency of the requests whose answer came in it, ns; 0 without any.
    pub p50_ns: u64,
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Requests whose answer came in it.
    pub completed: u64,
}

/// Up to a minute, to three digits: bounds and digits are constants that the library accepts.
fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap_or_else(|_| {
        // Not reached with the constants above; a histogram that grows by itself holds the same values.
        Histogram::new(3).unwrap_or_else(|_| unreachable!("three significant digits are within 0 to 5"))
    });
    histogram.auto(true);
    histogram
}

const POINT_NS: u64 = 100_000_000;
/// A day: beyond that the time line stands still and the figures go on.
const MAX_POINTS: u64 = 864_000;

/// Requests under way, and results of finished ones.
#[derive(Debug)]
pub(crate) struct Account {
    begin: u64,
    has_truth: bool,
    /// Whether the dispatcher is elsewhere.
    remote: bool,
    /// Truth and due time by request id.
    open: HashMap<u64, (u64, u64)>,
    latency: Histogram<u64>,
    stages: Stages,
    timeline: Vec<TimelinePoint>,
    /// The interval that is being filled.
    current: Histogram<u64>,
    rate: LogicalErrorRate,
    /// Wrong predictions of each observable.
    observable_errors: [u64; 64],
    unconverged: u64,
    late: u64,
    late_or_wrong: u64,
    completed: u64,
    unexpected: u64,
    unstamped: u64,
    latest_ns: u64,
    end: u64,
}

impl Account {
    pub(crate) fn new(begin: u64, has_truth: bool, remote: bool) -> Self {
        Self {
            begin,
            has_truth,
            remote,
            open: HashMap::with_capacity(1 << 14),
            latency: histogram(),
            stages: Stages::new(if remote { &REMOTE_STAGES } else { &STAGES }),
            timeline: Vec::new(),
            current: histogram(),
            rate: LogicalErrorRate::default(),
            observable_errors: [0; 64],
            unconverged: 0,
            late: 0,
            late_or_wrong: 0,
            completed: 0,
            unexpected: 0,
            unstamped: 0,
            latest_ns: 0,
            end: begin,
        }
    }

    /// A request is about to be submitted.
    pub(crate) fn expect(&mut self, request_id: u64, truth: u64, due: u64) {
        self.open.insert(request_id, (truth, due));
    }

    /// An answer came.
    pub(crate) fn settle(&mut self, outcome: &Outcome) {
        let Some((truth, due)) = self.open.remove(&outcome.request_id) else {
            self.unexpected += 1;
            return;
        };
        let StageTimes { submitted, accepted, started, inferred, processed, harvested } = outcome.times;
        self.completed += 1;
        self.unstamped += u64::from(!outcome.stamped);
        self.end = self.end.max(harvested);
        self.latest_ns = harvested.saturating_sub(submitted);
        self.latency.saturating_record(self.latest_ns.max(1));
        // A request that was refused or timed out did not pass every stage.
        if self.remote {
            self.stages.record(&[due, submitted, inferred, processed, harvested]);
        } else {
            self.stages.record(&[due, submitted, accepted, started, inferred, processed, harvested]);
        }
        // Answers come nearly in order of their time: one that belongs to an interval already closed joins this one.
        let point = harvested.saturating_sub(self.begin) / POINT_NS;
        while (self.timeline.len() as u64) < point.min(MAX_POINTS) {
            self.close_interval();
        }
        self.current.saturating_record(self.latest_ns.max(1));
        let Some(Predicted { observables, converged, late }) = outcome.predicted else { return };
        self.unconverged += u64::from(!converged);
        self.late += u64::from(late);
        if self.has_truth {
            let wrong = observables ^ truth;
            self.rate.record(wrong != 0);
            self.late_or_wrong += u64::from(late || wrong != 0);
            for (place, errors) in self.observable_errors.iter_mut().enumerate() {
                *errors += wrong >> place & 1;
            }
        }
    }

    fn close_interval(&mut self) {
        let latency = &mut self.current;
        let end = Duration::from_nanos((self.timeline.len() as u64 + 1) * POINT_NS);
        self.timeline.push(TimelinePoint {
            end,
            p50_ns: latency.value_at_quantile(0.5),
            p99_ns: latency.value_at_quantile(0.99),
            max_ns: latency.max(),
            completed: latency.len(),
        });
        latency.reset();
    }

    pub(crate) fn progress(&self, submitted: u64, now: u64) -> Progress {
        Progress {
            submitted,
            completed: self.completed,
            logical_errors: self.rate.errors,
            elapsed: Duration::from_nanos(now.saturating_sub(self.begin)),
            latest_us: self.latest_ns as f64 / 1e3,
        }
    }
}

/// The figures of a run.
#[derive(Debug)]
pub struct Summary {
    /// From submission to harvest, ns, of every request whose answer came.
    pub latency: Histogram<u64>,
    /// Where that time went; the first, `injection`, is lateness before submission and not part of it.
    pub stages: Stages,
    /// Ten points a second.
    pub timeline: Vec<TimelinePoint>,
    /// Right and wrong answers; no shots where the truth is unknown.
    pub rate: LogicalErrorRate,
    /// Wrong predictions of each observable, of up to 64; the shots are those of [`rate`](Self::rate).
    pub observable_errors: Vec<u64>,
    /// Answers that say that their correction does not explain the syndrome: best guesses, right or wrong.
    pub unconverged: u64,
    /// Answers that say that time was up: the best so far, right or wrong.
    pub late: u64,
    /// Answers that are late or wrong, of the shots of [`rate`](Self::rate).
    pub late_or_wrong: u64,
    /// Share of detectors set in requests; NaN without requests.
    pub density_in: f64,
    /// Share of detectors left for matching; NaN without requests.
    pub density_out: f64,
    /// The pipeline's own counts.
    pub stats: Stats,
    /// How it stopped.
    pub stop: Option<StopReport>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Answers to no outstanding request.
    pub unexpected: u64,
    /// Answers without a PTP time stamp, where requests had one.
    pub unstamped: u64,
    /// Requests of which inference left nothing: matching was skipped.
    pub matching_skipped: u64,
    /// What was wrong with a dispatcher that is elsewhere.
    pub failure: Option<String>,
    account: Account,
    counts: [u64; 3],
}

impl Summary {
    pub(crate) fn new(account: Account, submitted: u64) -> Self {
        Self {
            latency: histogram(),
            stages: Stages::new(&[]),
            timeline: Vec::new(),
            rate: LogicalErrorRate::default(),
            observable_errors: Vec::new(),
            unconverged: 0,
            late: 0,
            late_or_wrong: 0,
            density_in: f64::NAN,
            density_out: f64::NAN,
            stats: Stats { submitted, ..Stats::default() },
            stop: None,
            elapsed: Duration::ZERO,
            unexpected: 0,
            unstamped: 0,
            matching_skipped: 0,
            failure: None,
            account,
            counts: [0; 3],
        }
    }

    /// Takes in what was answered while the pipeline stopped.
    pub(crate) fn finish(&mut self, stop: StopReport, outcomes: &mpsc::Receiver<Outcome>, observables: u32) {
        while let Ok(outcome) = outcomes.try_recv() {
            self.account.settle(&outcome);
        }
        let now = clock::now_ns();
        let fresh = Account::new(now, false, false);
        let mut account = std::mem::replace(&mut self.account, fresh);
        account.close_interval();
        self.latency = account.latency;
        self.stages = account.stages;
        self.timeline = account.timeline;
        self.rate = account.rate;
        self.observable_errors =
            account.observable_errors.iter().copied().take(observables as usize).collect();
        self.unconverged = account.unconverged;
        (self.late, self.late_or_wrong) = (account.late, account.late_or_wrong);
        self.unexpected = account.unexpected;
        self.unstamped = account.unstamped;
        self.elapsed = Duration::from_nanos(account.end.saturating_sub(account.begin));
        self.stats = stop.stats;
        self.stop = Some(stop);
    }

    pub(crate) fn add_density(&mut self, density: &Density, detectors: u32) {
        let [before, after, requests] = &mut self.counts;
        *before += density.before.load(Ordering::Relaxed);
        *after += density.after.load(Ordering::Relaxed);
        *requests += density.requests.load(Ordering::Relaxed);
        self.matching_skipped += density.empty.load(Ordering::Relaxed);
        let all = *requests as f64 * f64::from(detectors);
        self.density_in = *before as f64 / all;
        self.density_out = *after as f64 / all;
    }

    /// Requests that were submitted and have no completion: 0, or something is broken.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.stats.submitted.saturating_sub(self.stats.completed)
    }

    /// Answers a second, from the first request to the last answer; NaN without any.
    #[must_use]
    pub fn throughput_per_s(&self) -> f64 {
        self.latency.len() as f64 / self.elapsed.as_secs_f64()
    }
}
