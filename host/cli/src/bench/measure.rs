//! Shared parts of the benchmarks: cores, round trips, percentiles, rows.

use crate::pinning;
use crate::usage::misuse;
use anyhow::{Result, anyhow, bail};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall::pin;
use ringcall_gpu::clock;
use serde::Serialize;
use std::time::Duration;

/// How much to measure, and where.
#[derive(Debug, Clone)]
pub(super) struct Bench {
    pub(super) trips: u64,
    pub(super) requests: u64,
    pub(super) cores: Cores,
    /// The longest pause before a round trip with a device, in ns.
    pub(super) spread_ns: u64,
    /// How long a row's timed round trips, and its throughput measurement, may take.
    pub(super) limits: Limits,
}

/// Limits by the clock, which end a measurement on a machine without free cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) trips_ns: u64,
    pub(super) requests_ns: u64,
}

impl Limits {
    /// Time for one round trip, many times longer than on a machine with free cores.
    const TRIP_NS: u64 = 100_000;
    const REQUEST_NS: u64 = 10_000;
    const LEAST_NS: u64 = 10_000_000_000;

    pub(super) fn new(trips: u64, requests: u64) -> Self {
        let limit = |count: u64, each_ns: u64| count.saturating_mul(each_ns).max(Self::LEAST_NS);
        Self { trips_ns: limit(trips, Self::TRIP_NS), requests_ns: limit(requests, Self::REQUEST_NS) }
    }
}

impl Bench {
    /// The same with less to measure, for slow benchmarks.
    pub(super) fn shorter(&self, by: u64) -> Self {
        let less = |n: u64| (n / by).max(1);
        Self { trips: less(self.trips), requests: less(self.requests), ..self.clone() }
    }

    /// The round trips of a row, after a tenth as many for the warm-up.
    pub(super) fn all_trips(&self) -> Trips {
        self.trips_after(self.trips / 10, self.trips)
    }

    /// `timed` round trips after `warm_up` others.
    pub(super) fn trips_after(&self, warm_up: u64, timed: u64) -> Trips {
        Trips::new(warm_up, timed, Duration::from_nanos(self.limits.trips_ns), clock::now_ns())
    }

    /// Pauses between round trips.
    pub(super) fn pause(&self) -> Pause {
        Pause { most_ns: self.spread_ns, random: Xoshiro256PlusPlus::seed_from_u64(1) }
    }

    /// Runs `run` on a thread of its own, pinned to the client's core.
    pub(super) fn on_client_core<T: Send>(&self, run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    pinning::pin("client", self.cores.client());
                    run()
                })
                .join()
                .map_err(|_| anyhow!("the client thread panicked"))?
        })
    }
}

/// Round trips in order: the warm-up, then the timed ones. Either part ends early when its time is up, but at least one
/// trip is timed.
#[derive(Debug)]
pub(super) struct Trips {
    number: u64,
    warm_up_left: u64,
    timed: u64,
    timed_left: u64,
    limit_ns: u64,
    /// The end of the warm-up; later the end of the timed trips.
    end_ns: u64,
    is_timing: bool,
}

/// One round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trip {
    /// The trip's number, from 0.
    pub(super) number: u64,
    pub(super) is_timed: bool,
}

impl Trips {
    fn new(warm_up: u64, timed: u64, limit: Duration, now_ns: u64) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = now_ns.saturating_add(limit_ns / 10);
        Self {
            number: 0,
            warm_up_left: warm_up,
            timed,
            timed_left: timed,
            limit_ns,
            end_ns,
            is_timing: false,
        }
    }

    /// The next trip, if any. `now_ns` is the caller's, because reading the clock is part of what the caller measures.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Trip> {
        let is_over = now_ns >= self.end_ns;
        if !self.is_timing && (self.warm_up_left == 0 || is_over) {
            self.is_timing = true;
            self.end_ns = now_ns.saturating_add(self.limit_ns);
        } else if self.is_timing && is_over {
            return None;
        }
        let left = if self.is_timing { &mut self.timed_left } else { &mut self.warm_up_left };
        *left = left.checked_sub(1)?;
        let number = self.number;
        self.number += 1;
        Some(Trip { number, is_timed: self.is_timing })
    }

    /// The intended number of timed trips, if the time ran out earlier.
    pub(super) fn cut_from(&self) -> Option<u64> {
        (self.timed_left > 0).then_some(self.timed)
    }
}

/// Random pauses: a client that asks again at once falls into step with the poller, so that a little more or less work
/// on either side changes the time by a whole poll or not at all.
#[derive(Debug)]
pub(super) struct Pause {
    most_ns: u64,
    random: Xoshiro256PlusPlus,
}

impl Pause {
    /// Waits.
    pub(super) fn wait(&mut self) {
        if self.most_ns > 0 {
            let end = clock::now_ns() + self.random.next_u64() % (self.most_ns.saturating_add(1));
            while clock::now_ns() < end {}
        }
    }
}

/// The cores to which threads are pinned, by role.
#[derive(Debug, Clone)]
pub(super) struct Cores(Vec<usize>);

impl Cores {
    /// The requested cores, or the cores on which this process may run.
    pub(super) fn choose(asked: &[usize]) -> Result<Self> {
        let allowed = pin::pin_current("bench", None).got;
        if allowed.len() < 2 {
            bail!("a benchmark needs two cores, one a thread; this process may use {}", allowed.len());
        }
        if asked.is_empty() {
            return Ok(Self(allowed.into_iter().take(4).collect()));
        }
        if let Some(core) = asked.iter().find(|core| !allowed.contains(core)) {
            bail!(misuse(format!(
                "--cores: core {core} is not among those this process may use: {allowed:?}"
            )));
        }
        if asked.len() < 2 {
            bail!(misuse("--cores: give at least two, dispatcher and client"));
        }
        Ok(Self(asked.to_vec()))
    }

    pub(super) fn all(&self) -> &[usize] {
        &self.0
    }

    /// The core of the dispatcher, or of the worker that answers.
    pub(super) fn server(&self) -> usize {
        self.0[0]
    }

    /// The core of the client.
    pub(super) fn client(&self) -> usize {
        self.0[1]
    }

    /// The core of a third or fourth thread, if there is one.
    pub(super) fn extra(&self, index: usize) -> Option<usize> {
        self.0.get(2 + index).copied()
    }
}

/// One line of results. Times are of one outstanding request, ns; `per_s` is with 64 slots in flight.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) n: u64,
    /// The intended number, if the time ran out earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cut_from: Option<u64>,
    pub(super) min_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p90_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
    /// `null` if not measured.
    pub(super) per_s: Option<f64>,
    /// `null` if there is no baseline.
    pub(super) ratio_to_floor: f64,
    /// The arithmetic's time on the device for which the benchmark is made, which is this row's baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arithmetic_floor_ns: Option<f64>,
    /// Figures of belief propagation.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) bp: Option<DecodeFigures>,
    pub(super) lost: u64,
    pub(super) wrong: u64,
    #[serde(skip)]
    pub(super) p9999_ns: u64,
    /// Bins of the picture: from, to (ns), count.
    #[serde(skip)]
    pub(super) bins: Vec<(u64, u64, u64)>,
}

/// Ratio of a bin's end to its begin, at most.
const BIN_RATIO: f64 = 1.03;

/// The recorded times in bins of a constant ratio.
fn bins(times: &Histogram<u64>) -> Vec<(u64, u64, u64)> {
    let mut bins: Vec<(u64, u64, u64)> = Vec::new();
    let mut from = 0;
    for step in times.iter_log(times.min().max(32), BIN_RATIO) {
        let to = step.value_iterated_to();
        if step.count_since_last_iteration() > 0 {
            bins.push((from, to, step.count_since_last_iteration()));
        }
        from = to;
    }
    bins
}

impl Row {
    pub(super) const HEADING: &'static str =
        "a round trip                 p50       p99     p99.9      max  × floor      rate";

    pub(super) fn new(times: &Histogram<u64>) -> Self {
        let at = |q| times.value_at_quantile(q);
        Self {
            name: String::new(),
            n: times.len(),
            cut_from: None,
            min_ns: times.min(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: times.max(),
            per_s: None,
            ratio_to_floor: 1.0,
            arithmetic_floor_ns: None,
            bp: None,
            p9999_ns: at(0.9999),
            lost: 0,
            wrong: 0,
            bins: bins(times),
        }
    }
}

/// A time in nanoseconds, in a unit for people.
pub(super) fn time(ns: f64) -> String {
    match ns {
        few if few < 1e3 => format!("{few:.0} ns"),
        some if some < 1e5 => format!("{:.2} µs", some / 1e3),
        many if many < 1e6 => format!("{:.0} µs", many / 1e3),
        more if more < 1e8 => format!("{:.2} ms", more / 1e6),
        long if long < 1e9 => format!("{:.0} ms", long / 1e6),
        most => format!("{:.2} s", most / 1e9),
    }
}

/// A rate per second, in a unit for people.
pub(super) fn per_second(rate: f64) -> String {
    match rate {
        few if few < 1e4 => format!("{few:.0} /s"),
        some if some < 1e6 => format!("{:.0} k/s", some / 1e3),
        many => format!("{:.2} M/s", many / 1e6),
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ratio =
            if self.ratio_to_floor.is_nan() { "-".to_owned() } else { format!("{:.2}", self.ratio_to_floor) };
        let rate = self.per_s.map_or_else(|| "-".to_owned(), per_second);
        let [p50, p99, p999, max] =
            [self.p50_ns, self.p99_ns, self.p999_ns, self.max_ns].map(|ns| time(ns as f64));
        write!(f, "{:23} {p50:>8} {p99:>9} {p999:>9} {max:>8} {ratio:>8} {rate:>9}", self.name)?;
        if let Some(line) = cut_in_words(self.n, self.cut_from) {
            write!(f, "{line}")?;
        }
        if let Some(floor) = self.arithmetic_floor_ns {
            let share = floor / self.p50_ns as f64 * 100.0;
            write!(f, "\n  arithmetic alone {} on an H200: {share:.0}% of p50", time(floor))?;
        }
        if let Some(figures) = self.bp {
            write!(f, "{figures}")?;
        }
        if self.lost + self.wrong > 0 {
            write!(f, "\n  LOST {} WRONG {}", self.lost, self.wrong)?;
        }
        Ok(())
    }
}

/// A line for a row that was cut short.
pub(super) fn cut_in_words(n: u64, cut_from: Option<u64>) -> Option<String> {
    cut_from.map(|all| {
        format!(
            "\n  {} of {}: this machine had no time for more",
            crate::report::count(n),
            crate::report::count(all)
        )
    })
}

/// Figures of a row of belief propagation besides its times.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct DecodeFigures {
    p9999_ns: u64,
    iterations_mean: f64,
    iterations_p50: u64,
    iterations_p99: u64,
    iterations_max: u64,
    /// From the request to the answer by the device's own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside_ns: Option<Inside>,
}

/// Quantiles.
#[derive(Debug, Clone, Copy, Serialize)]
struct Inside {
    p50: u64,
    p99: u64,
    p999: u64,
}

impl std::fmt::Display for DecodeFigures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "\n  p99.99 {}, iterations mean {:.1}, p50 {}, p99 {}, max {}",
            time(self.p9999_ns as f64),
            self.iterations_mean,
            self.iterations_p50,
            self.iterations_p99,
            self.iterations_max
        )?;
        if let Some(Inside { p50, p99, p999 }) = self.inside_ns {
            write!(f, "\n  inside the device p50 {p50} ns, p99 {p99}, p99.9 {p999}")?;
        }
        Ok(())
    }
}

impl DecodeFigures {
    pub(super) fn new(p9999_ns: u64, iterations: &Histogram<u64>, inside: Option<&Histogram<u64>>) -> Self {
        Self {
            p9999_ns,
            iterations_mean: iterations.mean(),
            iterations_p50: iterations.value_at_quantile(0.5),
            iterations_p99: iterations.value_at_quantile(0.99),
            iterations_max: iterations.max(),
            inside_ns: inside.map(|times| Inside {
                p50: times.value_at_quantile(0.5),
                p99: times.value_at_quantile(0.99),
                p999: times.value_at_quantile(0.999),
            }),
        }
    }
}

/// A histogram of nanoseconds up to a minute, to three digits.
pub(super) fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000_000, 3)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_units() {
        let shown = [12.0, 1234.0, 234_567.0, 3.6e6, 4.2e9].map(time);
        assert_eq!(shown, ["12 ns", "1.23 µs", "235 µs", "3.60 ms", "4.20 s"]);
        assert_eq!([512.0, 45_600.0, 1.23e6].map(per_second), ["512 /s", "46 k/s", "1.23 M/s"]);
    }

    #[test]
    fn trips_are_as_many_as_there_is_time_for() {
        let limit = Duration::from_nanos(100);
        let made = |mut trips: Trips, each_ns: u64| {
            let mut now_ns = 0;
            let mut made = [0, 0];
            while let Some(Trip { number, is_timed }) = trips.next(now_ns) {
                assert_eq!(number, made[0] + made[1], "numbers follow each other");
                made[usize::from(is_timed)] += 1;
                now_ns += each_ns;
            }
            (made, trips.cut_from())
        };
        assert_eq!(made(Trips::new(2, 5, limit, 0), 1), ([2, 5], None));
        // A tenth of the time is for the warm-up.
        assert_eq!(made(Trips::new(20, 500, limit, 0), 2), ([5, 50], Some(500)));
        // However slow the machine is, at least one time is reported.
        assert_eq!(made(Trips::new(3, 5, limit, 0), 1000), ([1, 1], Some(5)));
        assert_eq!(made(Trips::new(0, 1, limit, 0), 1000), ([0, 1], None));
    }

    #[test]
    fn limits_grow_with_what_is_asked_for() {
        let limits = |trips, requests| {
            let Limits { trips_ns, requests_ns } = Limits::new(trips, requests);
            [trips_ns, requests_ns].map(|ns| ns / 1_000_000_000)
        };
        assert_eq!(limits(1, 1), [10, 10]);
        assert_eq!(limits(200_000, 2_000_000), [20, 20]);
        assert_eq!(limits(u64::MAX, u64::MAX), [u64::MAX / 1_000_000_000; 2]);
    }

    #[test]
    fn a_row_fits_a_terminal() {
        let mut times = histogram().expect("a histogram");
        times.record(40_000_000).expect("recorded");
        let cut_from = Some(10_000_000_000);
        let row =
            Row { name: "cooperative/132x256/512".into(), per_s: Some(1.5e6), cut_from, ..Row::new(&times) };
        let text = format!("{}\n{row}", Row::HEADING);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
