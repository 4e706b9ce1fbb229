//! Matching on one core, one shot or one request of slices at a time, next to PyMatching's C++ core called directly and
//! the Python package, all on the same shots in the same run.
//!
//! The decoders take turns block by block, so that other work on the machine affects all of them alike. A stream gets
//! the syndrome round by round, and its time is from the last round to the answer; the other decoders decode the whole.

pub(super) mod endless;
mod ours;
pub(super) mod patches;
mod pool;
mod problem;
mod reference;

use super::measure::{cut_in_words, histogram, time};
use anyhow::{Context, Result};
use ours::Ours;
use problem::Problem;
use reference::{Answer, Start};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests that one decoder decodes before the next one's turn.
const BLOCK: usize = 1000;
/// How long a row may take if its number of requests is not given. With a free core it takes seconds.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Requests before each block that warm the caches and are not counted.
const WARM_UP: usize = 100;

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Memory experiments with as many rounds as the distance, at this error rate.
    Memory { distance: u32, per_mille: u32 },
    /// The same, round by round: the time from the last round.
    Stream { distance: u32, per_mille: u32 },
    /// The same of so many rounds at an error rate of 0.006, each solved on so many cores.
    Cores { distance: u32, rounds: u32, cores: NonZeroUsize },
    /// A request is two slices a round of independent defects.
    Slices { distance: u32, percent: u32 },
}

const ONE: NonZeroUsize = NonZeroUsize::MIN;
const TWO: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");
const FOUR: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not 0");
const EIGHT: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not 0");

/// Name and kind of each row, and how many requests take a few seconds.
const BENCHES: &[(&str, Kind, usize)] = &[
    ("matching/d7/p0.001", Kind::Memory { distance: 7, per_mille: 1 }, 50_000),
    ("matching/d7/p0.003", Kind::Memory { distance: 7, per_mille: 3 }, 50_000),
    ("matching/d13/p0.001", Kind::Memory { distance: 13, per_mille: 1 }, 20_000),
    ("matching/d13/p0.003", Kind::Memory { distance: 13, per_mille: 3 }, 20_000),
    ("matching/d21/p0.001", Kind::Memory { distance: 21, per_mille: 1 }, 10_000),
    ("matching/d21/p0.003", Kind::Memory { distance: 21, per_mille: 3 }, 5_000),
    ("matching/d31/p0.001", Kind::Memory { distance: 31, per_mille: 1 }, 3_000),
    ("matching/d31/p0.003", Kind::Memory { distance: 31, per_mille: 3 }, 3_000),
    ("matching/d31/p0.006", Kind::Memory { distance: 31, per_mille: 6 }, 1_000),
    ("matching/slices/d13", Kind::Slices { distance: 13, percent: 1 }, 20_000),
    ("matching/stream/d7/p0.003", Kind::Stream { distance: 7, per_mille: 3 }, 50_000),
    ("matching/stream/d13/p0.003", Kind::Stream { distance: 13, per_mille: 3 }, 20_000),
    ("matching/stream/d21/p0.003", Kind::Stream { distance: 21, per_mille: 3 }, 5_000),
    ("matching/1-core/d31/p0.006/31-rounds", Kind::Cores { distance: 31, rounds: 31, cores: ONE }, 1000),
    ("matching/2-cores/d31/p0.006/31-rounds", Kind::Cores { distance: 31, rounds: 31, cores: TWO }, 1000),
    ("matching/4-cores/d31/p0.006/31-rounds", Kind::Cores { distance: 31, rounds: 31, cores: FOUR }, 1000),
    ("matching/8-cores/d31/p0.006/31-rounds", Kind::Cores { distance: 31, rounds: 31, cores: EIGHT }, 1000),
    ("matching/1-core/d13/p0.006/400-rounds", Kind::Cores { distance: 13, rounds: 400, cores: ONE }, 300),
    ("matching/2-cores/d13/p0.006/400-rounds", Kind::Cores { distance: 13, rounds: 400, cores: TWO }, 300),
    ("matching/4-cores/d13/p0.006/400-rounds", Kind::Cores { distance: 13, rounds: 400, cores: FOUR }, 300),
    ("matching/8-cores/d13/p0.006/400-rounds", Kind::Cores { distance: 13, rounds: 400, cores: EIGHT }, 300),
    ("matching/1-core/d13/p0.006/1000-rounds", Kind::Cores { distance: 13, rounds: 1000, cores: ONE }, 100),
    ("matching/2-cores/d13/p0.006/1000-rounds", Kind::Cores { distance: 13, rounds: 1000, cores: TWO }, 100),
    ("matching/4-cores/d13/p0.006/1000-rounds", Kind::Cores { distance: 13, rounds: 1000, cores: FOUR }, 100),
    (
        "matching/8-cores/d13/p0.006/1000-rounds",
        Kind::Cores { distance: 13, rounds: 1000, cores: EIGHT },
        100,
    ),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    BENCHES.iter().map(|&(name, ..)| name)
}

/// How to measure, and the decoders to compare with.
#[derive(Debug)]
pub(super) struct DecodeOptions<'a> {
    /// Requests in each row; by default as many as take a few seconds.
    pub(super) shots: Option<usize>,
    /// How often each request is decoded; the shortest time counts.
    pub(super) rounds: usize,
    /// PyMatching's C++ core, if it is not next to this executable.
    pub(super) core: Option<&'a Path>,
    /// The machine's core on which all decoders run in turn; decoders on several cores are not pinned.
    pub(super) cpu: usize,
}

/// The times of another decoder on the same requests.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Beside {
    what: String,
    p50_ns: u64,
    p99_ns: u64,
    /// Ringcall's median divided by the other decoder's.
    p50_ratio: f64,
    p99_ratio: f64,
    weights_equal: u64,
    weights_differ: u64,
    predictions_differ: u64,
}

/// One line of results: nanoseconds a request.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    n: u64,
    /// The intended number of requests, if the time ran out earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_from: Option<u64>,
    detectors: u32,
    /// The mean number of defects in a request.
    defects: f64,
    p50_ns: u64,
    p99_ns: u64,
    /// PyMatching's C++ core.
    core: Option<Beside>,
    /// The Python package `pymatching`, called as its users call it.
    pip: Option<Beside>,
}

impl Row {
    pub(super) const HEADING: &'static str = "a request                          p50      p99";

    /// How many answers have another weight than the other decoders' answers. If there are any, a decoder is wrong.
    pub(super) fn wrong(&self) -> u64 {
        [&self.core, &self.pip].into_iter().flatten().map(|beside| beside.weights_differ).sum()
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [p50, p99] = [self.p50_ns, self.p99_ns].map(|ns| time(ns as f64));
        write!(f, "{:29} {p50:>8} {p99:>8}", self.name)?;
        if let Some(line) = cut_in_words(self.n, self.cut_from) {
            write!(f, "{line}")?;
        }
        for (name, beside) in [("core", &self.core), ("pip", &self.pip)] {
            if let Some(beside) = beside {
                let theirs = time(beside.p50_ns as f64);
                write!(f, "\n  {name}: p50 {theirs}, of which ours is {:.3}", beside.p50_ratio)?;
            }
        }
        for (name, beside) in [("core", &self.core), ("pip", &self.pip)] {
            if let Some(beside) = beside.as_ref().filter(|b| b.weights_differ + b.predictions_differ > 0) {
                let (weights, predictions) = (beside.weights_differ, beside.predictions_differ);
                write!(f, "\n  {name}: {weights} weights differ, and {predictions} predictions")?;
            }
        }
        Ok(())
    }
}

/// Measures the wanted rows and passes each to `each`. Returns which decoders were missing, and why.
pub(super) fn run(
    options: &DecodeOptions<'_>,
    wanted: &dyn Fn(&str) -> bool,
    mut each: impl FnMut(Row) -> Result<()> + Send,
) -> Result<Vec<(&'static str, String)>> {
    let mut absent = Vec::new();
    for &(name, kind, default) in BENCHES.iter().filter(|&&(name, ..)| wanted(name)) {
        let requests = options.shots.unwrap_or(default);
        // A process that a pinned thread starts is pinned alike.
        let (row, missing) = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    // Threads that a pinned thread starts would share its core.
                    if !matches!(kind, Kind::Cores { .. }) {
                        crate::pinning::pin("matching", options.cpu);
                    }
                    measure(name, kind, requests, options)
                })
                .join()
                .map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
        })
        .with_context(|| format!("benchmark {name}"))?;
        absent = missing;
        each(row)?;
    }
    Ok(absent)
}

/// One decoder's answers so far, each with its shortest time.
#[derive(Default)]
struct Side(Vec<Answer>);

impl Side {
    /// Records a block's answers in the first round, and shorter times in later rounds.
    fn take(&mut self, round: usize, answers: &[Answer]) {
        if round == 0 {
            self.0.extend_from_slice(answers);
            return;
        }
        let first = self.0.len() - answers.len();
        for (best, answer) in self.0[first..].iter_mut().zip(answers) {
            best.ns = best.ns.min(answer.ns);
        }
    }

    fn done(self) -> Result<Done> {
        let mut times = histogram()?;
        for answer in &self.0 {
            times.record(answer.ns.max(1))?;
        }
        Ok(Done { times, answers: self.0 })
    }
}

/// All of one decoder's answers.
struct Done {
    times: hdrhistogram::Histogram<u64>,
    answers: Vec<Answer>,
}

impl Done {
    fn at(&self, quantile: f64) -> u64 {
        self.times.value_at_quantile(quantile)
    }
}

fn measure(
    name: &'static str,
    kind: Kind,
    requests: usize,
    options: &DecodeOptions<'_>,
) -> Result<(Row, Vec<(&'static str, String)>)> {
    let problem = match kind {
        Kind::Memory { distance, per_mille } | Kind::Stream { distance, per_mille } => {
            Problem::memory(distance, distance, per_mille, requests)?
        }
        Kind::Cores { distance, rounds, .. } => Problem::memory(distance, rounds, 6, requests)?,
        Kind::Slices { distance, percent } => Problem::slices(distance, percent, requests)?,
    };
    let mut absent = Vec::new();
    let mut others = Vec::new();
    for (which, start) in
        [("core", reference::start_core(options.core, &problem)?), ("pip", reference::start_pip(&problem)?)]
    {
        match start {
            Start::Running(other) => others.push((which, other, Side::default())),
            Start::Absent(why) => absent.push((which, why)),
        }
    }
    let mut decoder = match kind {
        Kind::Memory { .. } | Kind::Slices { .. } => Ours::whole(&problem)?,
        Kind::Stream { .. } => Ours::stream(&problem)?,
        Kind::Cores { cores, .. } => Ours::cores(&problem, cores)?,
    };
    let mut ours = Side::default();
    let end = options.shots.is_none().then(|| Instant::now() + LIMIT);
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    let mut at = 0;
    while at < requests && (at == 0 || !is_over()) {
        let mut block = at..(at + BLOCK).min(requests);
        // There is nothing before the first block, so its own requests warm up.
        let warm_up = if at == 0 { 0..WARM_UP.min(requests) } else { at.saturating_sub(WARM_UP)..at };
        for round in 0..options.rounds {
            let mut answers = Vec::with_capacity(warm_up.len() + block.len());
            for request in warm_up.clone().chain(block.clone()) {
                // The first round determines how far the block goes; at least one request is decoded.
                if round == 0 && answers.len() > warm_up.len() && is_over() {
                    block.end = request;
                    break;
                }
                answers.push(decoder.decode(&problem, request)?);
            }
            ours.take(round, &answers[warm_up.len()..]);
            for (_, other, side) in &mut others {
                let answers = other.decode(&problem, warm_up.clone().chain(block.clone()))?;
                side.take(round, &answers[warm_up.len()..]);
            }
        }
        at = block.end;
    }
    let ours = ours.done()?;
    // The grid's step is 1 / scale.
    let step = 1.0 / problem.graph()?.scale();
    let mut row = Row {
        name,
        n: at as u64,
        cut_from: (at < requests).then_some(requests as u64),
        detectors: problem.detectors(),
        defects: problem.defects() as f64 / requests as f64,
        p50_ns: ours.at(0.5),
        p99_ns: ours.at(0.99),
        core: None,
        pip: None,
    };
    for (which, other, side) in others {
        let beside = compare(&ours, &side.done()?, step, other.name());
        *(if which == "core" { &mut row.core } else { &mut row.pip }) = Some(beside);
    }
    Ok((row, absent))
}

fn compare(ours: &Done, theirs: &Done, step: f64, what: &str) -> Beside {
    let (mut weights_equal, mut weights_differ, mut predictions_differ) = (0, 0, 0);
    for (a, b) in ours.answers.iter().zip(&theirs.answers) {
        let equal = (a.weight - b.weight).abs() < step / 2.0;
        *(if equal { &mut weights_equal } else { &mut weights_differ }) += 1;
        predictions_differ += u64::from(a.observables != b.observables);
    }
    let (p50_ns, p99_ns) = (theirs.at(0.5), theirs.at(0.99));
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    Beside {
        what: what.to_owned(),
        p50_ns,
        p99_ns,
        p50_ratio: ratio(ours.at(0.5), p50_ns),
        p99_ratio: ratio(ours.at(0.99), p99_ns),
        weights_equal,
        weights_differ,
        predictions_differ,
    }
}
