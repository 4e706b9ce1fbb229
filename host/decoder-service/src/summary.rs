//! Summary of a run: every answer accounted for, latencies, error rates.

use crate::confidence::Confidences;
use crate::form::Observables;
use crate::stages::Density;
use hdrhistogram::Histogram;
use ringcall_gpu::clock;
use ringcall_pipeline::{PipelineStopReport, StageTimes, Stats};
use ringcall_qec::stats::LogicalErrorRate;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// The parts of a request's path, in order, if its dispatcher is a thread of this process.
pub const STAGES: [&str; 6] = ["injection", "dispatch", "queueing", "inference", "matching", "harvest"];

/// The parts if the dispatcher is remote: between submission and the device's answer only the total time is known.
pub const REMOTE_STAGES: [&str; 4] = ["injection", "device", "matching", "harvest"];

/// A distribution of times for each part of a request's path, ns.
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

    /// The times of one part; `None` if the part is not measured.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Histogram<u64>> {
        self.iter().find_map(|(other, times)| (other == name).then_some(times))
    }

    /// Records `marks`, the beginning of the first part and the ends of all; 0 for a part that the request did not reach.
    fn record(&mut self, marks: &[u64]) {
        for (histogram, pair) in self.times.iter_mut().zip(marks.windows(2)) {
            if pair[0] != 0 && pair[1] >= pair[0] {
                histogram.saturating_record((pair[1] - pair[0]).max(1));
            }
        }
    }
}

/// The path of requests that took about equally long.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakdown {
    /// The percentile of their latencies, such as 99.
    pub percentile: f64,
    /// The number of these requests.
    pub requests: u64,
    /// Their mean time in each part after submission, ns. The parts add up to the mean latency.
    pub parts_ns: Vec<(&'static str, f64)>,
}

/// One of the requests that took longest.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowRequest {
    /// Its id: requests are numbered from 0.
    pub request_id: u64,
    /// The time of its submission, from the run's begin.
    pub submitted: Duration,
    /// From submission to harvest, ns.
    pub latency_ns: u64,
    /// Its time in each part after submission, ns, without parts that it did not reach.
    pub parts_ns: Vec<(&'static str, u64)>,
}

/// The times of one request in each part after submission; `None` for parts that it did not reach.
type Parts = [Option<u64>; STAGES.len() - 1];

/// Latency classes of a [`Profile`] in a factor of two: a class spans 4.4%.
const CLASSES_AN_OCTAVE: f64 = 16.0;

/// Sums of parts over the requests of one class of latencies.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    requests: u64,
    sums: [u64; STAGES.len() - 1],
}

/// Mean times of the parts, by latency.
#[derive(Debug, Clone, Default)]
struct Profile(Vec<Class>);

impl Profile {
    /// Records a request that passed every part.
    fn record(&mut self, latency_ns: u64, parts: &Parts) {
        let class = ((latency_ns.max(1) as f64).log2() * CLASSES_AN_OCTAVE) as usize;
        if self.0.len() <= class {
            self.0.resize(class + 1, Class::default());
        }
        let class = &mut self.0[class];
        class.requests += 1;
        for (sum, part) in class.sums.iter_mut().zip(parts) {
            *sum += part.unwrap_or(0);
        }
    }

    /// The requests at this percentile of latency; `None` without requests.
    fn at(&self, percentile: f64, names: &[&'static str]) -> Option<Breakdown> {
        let all: u64 = self.0.iter().map(|class| class.requests).sum();
        let rank = (all as f64 * percentile / 100.0).ceil().max(1.0) as u64;
        let mut below = 0;
        let class = self.0.iter().find(|class| {
            below += class.requests;
            below >= rank
        })?;
        let mean = |sum: u64| sum as f64 / class.requests.max(1) as f64;
        let parts_ns = names.iter().copied().zip(class.sums.map(mean)).collect();
        Some(Breakdown { percentile, requests: class.requests, parts_ns })
    }
}

/// The number of slowest requests that are kept.
const SLOWEST: usize = 10;

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Requests submitted.
    pub submitted: u64,
    /// Requests answered.
    pub completed: u64,
    /// Wrong answers.
    pub logical_errors: u64,
    /// Time since the run began.
    pub elapsed: Duration,
    /// The latest latency seen, µs.
    pub latest_us: f64,
}

/// The completion handler's report to the driver.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) request_id: u64,
    /// The prediction, if the request succeeded.
    pub(crate) predicted: Option<Predicted>,
    pub(crate) times: StageTimes,
    /// Whether the answer has a time stamp.
    pub(crate) stamped: bool,
    /// The time from its stamp to its answer by the stamps' clock, ns.
    pub(crate) round_trip: Option<u64>,
}

/// The contents of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Predicted {
    pub(crate) observables: Observables,
    /// Whether the correction explains the syndrome.
    pub(crate) converged: bool,
    /// Whether the decoder was cut off.
    pub(crate) late: bool,
    /// The decoder's confidence, if it reports one.
    pub(crate) confidence: Option<f64>,
}

/// One interval of the run.
#[derive(Debug, Clone, Copy)]
pub struct TimelinePoint {
    /// The interval's end, from the run's begin.
    pub end: Duration,
    /// Median latency of the requests answered in it, ns; 0 without any.
    pub p50_ns: u64,
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Requests answered in it.
    pub completed: u64,
    /// The most requests that were due and not answered at one moment of it.
    pub backlog: u64,
}

/// Up to a minute, to three digits: the library accepts these constants.
fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap_or_else(|_| {
        // Not reached with the constants above. A histogram that grows by itself would hold the same values.
        Histogram::new(3).unwrap_or_else(|_| unreachable!("three significant digits are within 0 to 5"))
    });
    histogram.auto(true);
    histogram
}

/// The times between marks; a mark of 0 was not reached.
fn parts(marks: &[u64]) -> Parts {
    let mut parts = Parts::default();
    for (part, pair) in parts.iter_mut().zip(marks.windows(2)) {
        *part = pair[1].checked_sub(pair[0]).filter(|_| pair[0] != 0 && pair[1] != 0);
    }
    parts
}

const POINT_NS: u64 = 100_000_000;
/// One day. After it the time line stops, and the other figures continue.
const MAX_POINTS: u64 = 864_000;

/// Requests in flight, and results of finished ones.
#[derive(Debug)]
pub(crate) struct Account {
    begin: u64,
    has_truth: bool,
    /// Whether the dispatcher is remote.
    remote: bool,
    /// Truth and due time by request id.
    open: HashMap<u64, (Observables, u64)>,
    latency: Histogram<u64>,
    round_trip: Histogram<u64>,
    stages: Stages,
    profile: Profile,
    slowest: Vec<SlowRequest>,
    timeline: Vec<TimelinePoint>,
    /// The current interval.
    current: Histogram<u64>,
    /// The most requests due and not answered in it.
    backlog: u64,
    rate: LogicalErrorRate,
    /// Wrong predictions of each observable.
    observable_errors: Vec<u64>,
    unconverged: u64,
    late: u64,
    late_or_wrong: u64,
    confidences: Confidences,
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
            round_trip: histogram(),
            stages: Stages::new(if remote { &REMOTE_STAGES } else { &STAGES }),
            profile: Profile::default(),
            slowest: Vec::with_capacity(SLOWEST + 1),
            timeline: Vec::new(),
            current: histogram(),
            backlog: 0,
            rate: LogicalErrorRate::default(),
            observable_errors: Vec::new(),
            unconverged: 0,
            late: 0,
            late_or_wrong: 0,
            confidences: Confidences::default(),
            completed: 0,
            unexpected: 0,
            unstamped: 0,
            latest_ns: 0,
            end: begin,
        }
    }

    /// Records that a request is about to be submitted at `now`, while `behind` others are due already.
    pub(crate) fn expect(&mut self, request_id: u64, truth: &Observables, due: u64, [now, behind]: [u64; 2]) {
        self.advance(now);
        self.open.insert(request_id, (truth.clone(), due));
        self.backlog = self.backlog.max(self.open.len() as u64 + behind);
    }

    /// Names of the parts after submission.
    fn part_names(&self) -> &'static [&'static str] {
        if self.remote { &REMOTE_STAGES[1..] } else { &STAGES[1..] }
    }

    /// Keeps a request if it is among the slowest so far.
    fn keep_slow(&mut self, request_id: u64, submitted: u64, parts: &Parts) {
        let slow = self.slowest.last().filter(|_| self.slowest.len() >= SLOWEST);
        if slow.is_some_and(|slow| slow.latency_ns >= self.latest_ns) {
            return;
        }
        let named = self.part_names().iter().copied().zip(parts);
        let request = SlowRequest {
            request_id,
            submitted: Duration::from_nanos(submitted.saturating_sub(self.begin)),
            latency_ns: self.latest_ns,
            parts_ns: named.filter_map(|(name, part)| Some((name, (*part)?))).collect(),
        };
        let place = self.slowest.partition_point(|other| other.latency_ns >= request.latency_ns);
        self.slowest.insert(place, request);
        self.slowest.truncate(SLOWEST);
    }

    /// Records an answer.
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
        if let Some(time) = outcome.round_trip {
            self.round_trip.saturating_record(time.max(1));
        }
        // A request that was refused or timed out did not pass every part.
        let parts = if self.remote {
            self.stages.record(&[due, submitted, inferred, processed, harvested]);
            parts(&[submitted, inferred, processed, harvested])
        } else {
            self.stages.record(&[due, submitted, accepted, started, inferred, processed, harvested]);
            parts(&[submitted, accepted, started, inferred, processed, harvested])
        };
        if parts.iter().flatten().count() == self.part_names().len() {
            self.profile.record(self.latest_ns, &parts);
        }
        self.keep_slow(outcome.request_id, submitted, &parts);
        // Answers come nearly in the order of their times. An answer of an interval that is closed already joins the current one.
        self.advance(harvested);
        self.current.saturating_record(self.latest_ns.max(1));
        let Some(Predicted { observables, converged, late, confidence }) = &outcome.predicted else { return };
        let late = *late;
        self.unconverged += u64::from(!converged);
        self.late += u64::from(late);
        let mut is_wrong = false;
        if self.has_truth {
            for (place, (answer, truth)) in observables.iter().zip(&truth).enumerate() {
                let mut wrong = answer ^ truth;
                is_wrong |= wrong != 0;
                while wrong != 0 {
                    let observable = 64 * place + wrong.trailing_zeros() as usize;
                    wrong &= wrong - 1;
                    if self.observable_errors.len() <= observable {
                        self.observable_errors.resize(observable + 1, 0);
                    }
                    self.observable_errors[observable] += 1;
                }
            }
            self.rate.record(is_wrong);
            self.late_or_wrong += u64::from(late || is_wrong);
        }
        if let Some(confidence) = confidence {
            self.confidences.record(*confidence, is_wrong);
        }
    }

    /// Closes the intervals that end before `now`.
    fn advance(&mut self, now: u64) {
        let point = now.saturating_sub(self.begin) / POINT_NS;
        while (self.timeline.len() as u64) < point.min(MAX_POINTS) {
            self.close_interval();
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
            backlog: self.backlog,
        });
        latency.reset();
        self.backlog = self.open.len() as u64;
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

/// The results of a run.
#[derive(Debug)]
pub struct Summary {
    /// Latency from submission to harvest, ns, of every answered request.
    pub latency: Histogram<u64>,
    /// From a request's PTP time stamp to its echo, by the stamps' clock, ns; empty without a clock.
    pub round_trip: Histogram<u64>,
    /// Latency by part. The first part, `injection`, is lateness before submission and not included in the latency.
    pub stages: Stages,
    /// The mean path of requests around the median and around the 99th percentile; empty without requests.
    pub breakdowns: Vec<Breakdown>,
    /// The ten requests that took longest, the slowest first.
    pub slowest: Vec<SlowRequest>,
    /// Ten points a second.
    pub timeline: Vec<TimelinePoint>,
    /// Right and wrong answers; no shots if the truth is unknown.
    pub rate: LogicalErrorRate,
    /// Wrong predictions of each of up to 64 observables; the shots are those of [`rate`](Self::rate).
    pub observable_errors: Vec<u64>,
    /// Answers whose correction does not explain the syndrome, by their own report: best guesses, right or wrong.
    pub unconverged: u64,
    /// Answers of decodes that were cut off: the best so far, right or wrong.
    pub late: u64,
    /// Answers that are late or wrong, among the shots of [`rate`](Self::rate).
    pub late_or_wrong: u64,
    /// Answers by the decoder's confidence; empty if [it reports none](crate::Problem::with_confidence).
    pub confidences: Confidences,
    /// Share of detectors set in requests; NaN without requests.
    pub density_in: f64,
    /// Share of detectors left for matching; NaN without requests.
    pub density_out: f64,
    /// The pipeline's own counts.
    pub stats: Stats,
    /// The report of the stop.
    pub stop: Option<PipelineStopReport>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Answers that match no outstanding request.
    pub unexpected: u64,
    /// Answers without a PTP time stamp to requests that had one.
    pub unstamped: u64,
    /// Requests whose residual was empty: matching was skipped.
    pub matching_skipped: u64,
    /// The failure of a remote dispatcher.
    pub failure: Option<String>,
    account: Account,
    counts: [u64; 3],
}

impl Summary {
    pub(crate) fn new(account: Account, submitted: u64) -> Self {
        Self {
            latency: histogram(),
            round_trip: histogram(),
            stages: Stages::new(&[]),
            breakdowns: Vec::new(),
            slowest: Vec::new(),
            timeline: Vec::new(),
            rate: LogicalErrorRate::default(),
            observable_errors: Vec::new(),
            unconverged: 0,
            late: 0,
            late_or_wrong: 0,
            confidences: Confidences::default(),
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

    /// Adds answers that came while the pipeline stopped.
    pub(crate) fn finish(
        &mut self,
        stop: PipelineStopReport,
        outcomes: &mpsc::Receiver<Outcome>,
        observables: u32,
    ) {
        while let Ok(outcome) = outcomes.try_recv() {
            self.account.settle(&outcome);
        }
        let now = clock::now_ns();
        let fresh = Account::new(now, false, false);
        let mut account = std::mem::replace(&mut self.account, fresh);
        account.close_interval();
        let names = account.part_names();
        self.breakdowns =
            [50.0, 99.0].into_iter().filter_map(|percentile| account.profile.at(percentile, names)).collect();
        self.slowest = account.slowest;
        (self.latency, self.round_trip) = (account.latency, account.round_trip);
        self.stages = account.stages;
        self.timeline = account.timeline;
        self.rate = account.rate;
        self.observable_errors = account.observable_errors;
        self.observable_errors.resize(observables as usize, 0);
        self.unconverged = account.unconverged;
        (self.late, self.late_or_wrong) = (account.late, account.late_or_wrong);
        self.confidences = account.confidences;
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

    /// Requests that were submitted and have no completion. If not 0, a part of the pipeline is broken.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(request_id: u64, times: [u64; 6]) -> Outcome {
        let [submitted, accepted, started, inferred, processed, harvested] = times;
        let times = StageTimes { submitted, accepted, started, inferred, processed, harvested };
        Outcome { request_id, predicted: None, times, stamped: false, round_trip: None }
    }

    /// A hundred requests: two wait a thousand times as long in the queue, and one is refused on arrival.
    fn account() -> Account {
        let mut account = Account::new(1000, false, false);
        for id in 0..100 {
            let begin = 1000 + id * 10_000_000;
            let queue = if id % 50 == 7 { 1_000_000 } else { 1000 };
            account.expect(id, &Observables::new(), begin, [begin, u64::from(id == 60) * 5]);
            let [accepted, started] = [begin + 10, begin + 10 + queue];
            account
                .settle(&outcome(id, [begin, accepted, started, started + 20, started + 300, started + 340]));
        }
        account.expect(100, &Observables::new(), 1000, [1000, 0]);
        account.settle(&outcome(100, [1000, 0, 0, 0, 0, 3_000_000]));
        account
    }

    #[test]
    fn the_parts_of_a_breakdown_add_up_to_what_requests_there_took() {
        let profile = account().profile;
        let whole = |percentile| {
            let breakdown = profile.at(percentile, &STAGES[1..]).expect("requests");
            let names: Vec<&str> = breakdown.parts_ns.iter().map(|part| part.0).collect();
            assert_eq!(names, STAGES[1..]);
            (breakdown.requests, breakdown.parts_ns.iter().map(|part| part.1).sum::<f64>())
        };
        assert_eq!(whole(50.0), (98, 1350.0));
        assert_eq!(whole(99.0), (2, 1_000_350.0));
        assert_eq!(Profile::default().at(50.0, &STAGES[1..]), None);
    }

    #[test]
    fn the_slowest_come_first_with_the_parts_that_they_reached() {
        let slowest = account().slowest;
        assert_eq!(slowest.len(), SLOWEST);
        let seen: Vec<(u64, u64)> = slowest.iter().map(|slow| (slow.request_id, slow.latency_ns)).collect();
        assert_eq!(seen[..3], [(100, 2_999_000), (7, 1_000_350), (57, 1_000_350)]);
        assert!(slowest[0].parts_ns.is_empty(), "it was refused: {:?}", slowest[0]);
        assert_eq!(slowest[1].parts_ns[1], ("queueing", 1_000_000));
        assert_eq!(slowest[1].submitted, Duration::from_millis(70));
    }

    #[test]
    fn the_backlog_is_the_most_of_its_interval() {
        let mut account = account();
        account.close_interval();
        let backlog: Vec<u64> = account.timeline.iter().map(|point| point.backlog).collect();
        assert_eq!(backlog, [1, 1, 1, 1, 1, 1, 6, 1, 1, 1]);
    }
}
