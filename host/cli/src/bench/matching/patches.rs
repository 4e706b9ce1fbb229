//! Many patches: endless runs of several logical qubits at once, one round of each in every microsecond, on the
//! available cores.

use super::endless::{REHEARSAL, ROUND, SHORT_ROUNDS, decoder};
use super::pool::{self, Job};
use crate::bench::measure::{histogram, time};
use crate::runs::{Run, RunSource};
use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use ringcall_matching::EndlessDecoder;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use serde::Serialize;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 10_000;
/// Runs drawn in advance, which the patches use in turn.
const DRAWN: usize = 16;
/// Rounds between two rehearsals of a patch's end.
const REHEARSALS: u64 = 4 * REHEARSAL as u64;
/// The most rounds that a patch may be behind and still rehearse a run's end.
const ON_TIME: u64 = 2;

/// What a row decodes.
#[derive(Debug, Clone, Copy)]
struct Patches {
    count: usize,
    distance: u32,
    correlated: bool,
}

/// Name and kind of each row, and the runs of each patch.
const BENCHES: &[(&str, Patches, usize)] = &[
    ("matching/endless/patches/1xd5", Patches { count: 1, distance: 5, correlated: false }, 100),
    ("matching/endless/patches/10xd5", Patches { count: 10, distance: 5, correlated: false }, 50),
    ("matching/endless/patches/100xd5", Patches { count: 100, distance: 5, correlated: false }, 20),
    ("matching/endless/patches/10xd5/correlated", Patches { count: 10, distance: 5, correlated: true }, 50),
    ("matching/endless/patches/100xd5/correlated", Patches { count: 100, distance: 5, correlated: true }, 20),
];

pub(in crate::bench) fn names() -> impl Iterator<Item = &'static str> {
    BENCHES.iter().map(|&(name, ..)| name)
}

/// One line of results. Times are nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub(in crate::bench) struct Row {
    pub(in crate::bench) name: &'static str,
    patches: usize,
    threads: usize,
    rounds: u32,
    /// Answered runs of all patches.
    runs: u64,
    /// From a run's last round being due to its answer.
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// The longest delay between a round's due time and its decoding, in whole rounds.
    latest_ns: u64,
    forced: u64,
    /// Runs with a wrong prediction of the logical observable.
    errors: u64,
}

impl Row {
    pub(in crate::bench) const HEADING: &'static str =
        "from the last round to the answer      p50       p99     p99.9    latest";
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, patches, threads, runs, forced, errors, .. } = self;
        let ns = [self.p50_ns, self.p99_ns, self.p999_ns, self.latest_ns];
        let [p50, p99, p999, latest] = ns.map(|ns| time(ns as f64));
        writeln!(f, "{name}")?;
        let runs = format!("  {runs} runs, {patches} patches");
        writeln!(f, "{runs:33} {p50:>9} {p99:>9} {p999:>9} {latest:>9}")?;
        write!(f, "  {threads} threads, {forced} forced, {errors} errors")
    }
}

/// Measures the wanted rows and passes each to `each`. Threads are pinned to all cores of `cpus` but the first, which
/// is left to the system.
pub(in crate::bench) fn run(
    runs: Option<usize>,
    cpus: &[usize],
    wanted: &dyn Fn(&str) -> bool,
    mut each: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    for &(name, patches, default) in BENCHES.iter().filter(|&&(name, ..)| wanted(name)) {
        each(
            measure(name, patches, runs.unwrap_or(default), cpus)
                .with_context(|| format!("benchmark {name}"))?,
        )?;
    }
    Ok(())
}

struct Found {
    times: Histogram<u64>,
    latest: Duration,
    forced: u64,
    errors: u64,
}

struct Patch<'a> {
    decoder: EndlessDecoder,
    drawn: &'a [Run],
    tail: Vec<&'a [u32]>,
    /// The microsecond of the next round, and the round's number in its run.
    tick: u64,
    round: usize,
    /// An offset that makes patches rehearse at different ticks.
    turn: u64,
    /// Completed runs, and the runs left including this one.
    run: usize,
    runs_left: usize,
}

fn measure(name: &'static str, patches: Patches, runs: usize, cpus: &[usize]) -> Result<Row> {
    let Patches { count, distance, correlated } = patches;
    let experiment = MemoryExperiment {
        distance,
        rounds: SHORT_ROUNDS,
        basis: Basis::Z,
        noise: CircuitNoise::uniform(0.001),
    };
    let source = RunSource::of(&experiment)?;
    let prototype = decoder(&source, correlated)?;
    ensure!(ROUNDS as usize >= prototype.least_rounds(), "a run is too short");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let drawn: Vec<Run> = (0..DRAWN).map(|_| source.draw(ROUNDS + 1, &mut rng)).collect();
    let cpus = if cpus.len() > 1 { &cpus[1..] } else { cpus };
    let threads = cpus.len().clamp(1, count);
    let start = |thread: usize| {
        if let Some(&cpu) = cpus.get(thread) {
            crate::pinning::pin("matching", cpu);
        }
        Ok(Found { times: histogram()?, latest: Duration::ZERO, forced: 0, errors: 0 })
    };
    // Runs of different patches end at different times, as in a program.
    let stagger = |patch: usize| patch * (ROUNDS as usize + 1) / count;
    let build = |patch: usize| {
        let turn = (patch as u64 * REHEARSALS) / count as u64;
        Patch::warm(prototype.clone(), &drawn, stagger(patch) as u64, turn, runs)
    };
    let found = pool::serve(count, threads, ROUND, start, build)?;
    let mut times = histogram()?;
    let (mut latest, mut forced, mut errors) = (Duration::ZERO, 0, 0);
    for of_thread in found {
        times.add(&of_thread.times)?;
        latest = latest.max(of_thread.latest);
        (forced, errors) = (forced + of_thread.forced, errors + of_thread.errors);
    }
    ensure!(times.len() == (count * runs) as u64, "{} of {} runs were answered", times.len(), count * runs);
    let [p50_ns, p99_ns, p999_ns] = [0.5, 0.99, 0.999].map(|q| times.value_at_quantile(q));
    let latest_ns = latest.as_nanos() as u64;
    let runs = times.len();
    Ok(Row {
        name,
        patches: count,
        threads,
        rounds: ROUNDS,
        runs,
        p50_ns,
        p99_ns,
        p999_ns,
        latest_ns,
        forced,
        errors,
    })
}

impl<'a> Patch<'a> {
    /// A patch whose first run begins in microsecond `tick`. Here it decodes one run to warm the caches. The first of
    /// the following `runs + 1` runs is not counted.
    fn warm(decoder: EndlessDecoder, drawn: &'a [Run], tick: u64, turn: u64, runs: usize) -> Result<Self> {
        let tail = Vec::with_capacity(decoder.tail_rounds());
        let mut patch = Self { decoder, drawn, tail, tick: 0, round: 0, turn, run: 0, runs_left: 1 };
        while patch.runs_left > 0 {
            patch.take_round(false)?;
        }
        Ok(Self { tick, run: 0, runs_left: runs + 1, ..patch })
    }

    /// Takes in the next round, or with the last round the tail. Then there is an answer, and this returns whether it
    /// is right.
    fn take_round(&mut self, rehearses: bool) -> Result<Option<bool>> {
        let layers = ROUNDS as usize + 1;
        let Self { decoder, drawn, tail, tick, round, run, runs_left, .. } = self;
        let (now, t) = (&drawn[*run % drawn.len()], *round);
        let before_tail = layers - decoder.tail_rounds();
        *tick += 1;
        *round += 1;
        if t < before_tail {
            decoder.push_round(now.round(t))?;
            if rehearses {
                decoder.rehearse();
            }
        }
        if *round < layers {
            return Ok(None);
        }
        tail.clear();
        tail.extend((before_tail..layers).map(|t| now.round(t)));
        let flipped = decoder.finish(tail)?[0] & 1 != 0;
        (*round, *run, *runs_left) = (0, *run + 1, *runs_left - 1);
        Ok(Some(flipped == now.flips(0)))
    }
}

impl Job for Patch<'_> {
    type Found = Found;

    fn next(&self) -> Option<u64> {
        (self.runs_left > 0).then_some(self.tick)
    }

    fn serve(&mut self, due: u64, begin: Instant, found: &mut Found) -> Result<()> {
        let due_at = |tick: u64| begin + ROUND * u32::try_from(tick).unwrap_or(u32::MAX);
        // Reading the clock for each patch would take as long as a round.
        if self.run > 0 {
            found.latest = found.latest.max(ROUND * u32::try_from(due - 1 - self.tick)?);
        }
        while self.tick < due && self.runs_left > 0 {
            let (tick, counts) = (self.tick, self.run > 0);
            let rehearses = (tick + self.turn).is_multiple_of(REHEARSALS) && tick + ON_TIME >= due;
            let Some(is_right) = self.take_round(rehearses)? else { continue };
            if counts {
                found.times.record((due_at(tick).elapsed().as_nanos() as u64).max(1))?;
                found.forced += self.decoder.forced();
                found.errors += u64::from(!is_right);
            }
        }
        Ok(())
    }
}
