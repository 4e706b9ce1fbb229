//! Shared parts of the benchmarks: cores, percentiles, the table of names.

use crate::pinning;
use crate::usage::misuse;
use anyhow::{Result, anyhow, bail};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall::pin;
use ringcall_gpu::clock;
use serde::Serialize;

/// How much to measure, and where.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) trips: u64,
    pub(super) requests: u64,
    pub(super) cores: Cores,
    /// The longest pause before a round trip with a device, ns.
    pub(super) spread_ns: u64,
}

impl Bench {
    /// The same with less to measure: for what takes long.
    pub(super) fn shorter(&self, by: u64) -> Self {
        let less = |n: u64| (n / by).max(1);
        Self {
            trips: less(self.trips),
            requests: less(self.requests),
            cores: self.cores.clone(),
            spread_ns: self.spread_ns,
        }
    }

    /// Pauses between round trips.
    pub(super) fn pause(&self) -> Pause {
        Pause { most_ns: self.spread_ns, random: Xoshiro256PlusPlus::seed_from_u64(1) }
    }

    /// Runs on its own thread, pinned to the client's core.
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

/// Random pauses: a client that asks again at once falls into step with the poller, and a little more or less
/// work on either side then makes a whole poll's difference, or none.
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

/// The cores that threads are pinned to, by role.
#[derive(Debug, Clone)]
pub(super) struct Cores(Vec<usize>);

impl Cores {
    /// The cores asked for, or those this process may run on.
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

    /// The dispatcher, or the worker that answers.
    pub(super) fn server(&self) -> usize {
        self.0[0]
    }

    /// The client that asks.
    pub(super) fn client(&self) -> usize {
        self.0[1]
    }

    /// A separate core for a third and a fourth thread, if there is one.
    pub(super) fn extra(&self, index: usize) -> Option<usize> {
        self.0.get(2 + index).copied()
    }
}

/// One line of results. Times are of one outstanding request, ns; `per_s` is with 64 slots in flight.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) n: u64,
    pub(super) min_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p90_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
    /// `null` where it is not measured.
    pub(super) per_s: Option<f64>,
    /// `null` where there is nothing to compare with.
    pub(super) ratio_to_floor: f64,
    /// What the arithmetic alone would take on the device that the bench is made for, and the floor of this row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arithmetic_floor_ns: Option<f64>,
    /// Of belief propagation.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) bp: Option<DecodeFigures>,
    pub(super) lost: u64,
    pub(super) wrong: u64,
    #[serde(skip)]
    pub(super) p9999_ns: u64,
    /// For the picture: from, to (ns), how many.
    #[serde(skip)]
    pub(super) bins: Vec<(u64, u64, u64)>,
}

/// The widest that bins of the picture get: each ends so many times as far out as the one before.
const BIN_RATIO: f64 = 1.03;

/// The recorded times in bins of one ratio.
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

/// A time in nanoseconds, with a unit that a person reads.
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

/// How often in a second.
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

/// What a row of belief propagation has beside its times.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct DecodeFigures {
    p9999_ns: u64,
    iterations_mean: f64,
    iterations_p50: u64,
    iterations_p99: u64,
    iterations_max: u64,
    /// From the request to the answer on the device, by its own clock.
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

/// Nanoseconds up to a minute, to three digits.
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
    fn a_row_fits_a_terminal() {
        let mut times = histogram().expect("a histogram");
        times.record(40_000_000).expect("recorded");
        let row = Row { name: "cooperative/132x256/512".into(), per_s: Some(1.5e6), ..Row::new(&times) };
        let text = format!("{}\n{row}", Row::HEADING);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
