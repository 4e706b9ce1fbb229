//! Many patches: endless runs of several logical qubits at once, one round of each in every microsecond, on the
//! available cores.

use super::endless::{REHEARSAL, ROUND, SHORT_ROUNDS, decoder, wait_until};
use crate::bench::measure::{histogram, time};
use crate::runs::{Run, RunSource};
use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use ringcall_matching::EndlessDecoder;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Rounds of a run.
const ROUNDS: u32 = 10_000;
/// Runs that are drawn beforehand; patches take turns with them.
const DRAWN: usize = 16;
/// Between here and the first round all threads start.
const START: Duration = Duration::from_millis(100);

/// What a row decodes.
#[derive(Debug, Clone, Copy)]
struct Patches {
    count: usize,
    distance: u32,
    correlated: bool,
}

/// Name, what it is, and how many runs each patch makes.
const BENCHES: &[(&str, Patches, usize)] = &[
    ("matching/endless/patches/1xd5", Patches { count: 1, distance: 5, correlated: false }, 100),
    ("matching/endless/patches/10xd5", Patches { count: 10, distance: 5, correlated: false }, 50),
    ("matching/endless/patches/100xd5", Patches { count: 100, distance: 5, correlated: false }, 20),
    ("matching/endless/patches/10xd5/correlated", Patches { count: 10, distance: 5, correlated: true }, 50),
    ("matching/endless/patches/100xd5/correlated", Patches { count: 100, distance: 5, correlated: true }, 20),
];

/// The names of all rows.
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
    /// Runs that were answered, of all patches.
    runs: u64,
    /// From when the last round of a run was due to its answer.
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// The longest that a round was taken in after it was due.
    latest_ns: u64,
    forced: u64,
    /// Runs whose logical observable was predicted wrongly.
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

/// Measures the wanted rows and hands each to `each`. Threads are pinned to all cores of `cpus` but the first, which is the system's.
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

/// What a thread found.
struct Found {
    times: Histogram<u64>,
    latest: Duration,
    forced: u64,
    errors: u64,
}

/// A logical qubit.
struct Patch {
    decoder: EndlessDecoder,
    /// The microsecond of its run's first round, how many runs were before, and how many are left with this one.
    start: usize,
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
    let begin = Instant::now() + START;
    let found = std::thread::scope(|scope| {
        let work = (0..threads).map(|thread| {
            let (drawn, cpu) = (&drawn, cpus.get(thread).copied());
            let own = (thread..count).step_by(threads);
            // Runs of different patches end at different times, as those of a program do.
            let stagger = |patch: usize| patch * (ROUNDS as usize + 1) / count;
            let patches = own
                .map(|patch| Patch {
                    decoder: prototype.clone(),
                    start: stagger(patch),
                    run: 0,
                    runs_left: runs + 1,
                })
                .collect::<Vec<_>>();
            scope.spawn(move || {
                if let Some(cpu) = cpu {
                    crate::pinning::pin("matching", cpu);
                }
                serve(patches, drawn, begin)
            })
        });
        let work = work.collect::<Vec<_>>();
        let joined =
            work.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        joined.collect::<Result<Vec<_>>>()
    })?;
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

/// Takes in a round of every patch each microsecond, until all their runs are over. The first run of each warms the caches and is not
/// counted.
fn serve(mut patches: Vec<Patch>, drawn: &[Run], begin: Instant) -> Result<Found> {
    let mut found = Found { times: histogram()?, latest: Duration::ZERO, forced: 0, errors: 0 };
    let layers = ROUNDS as usize + 1;
    let mut tail: Vec<&[u32]> = Vec::with_capacity(layers);
    for tick in 0_usize.. {
        let due = begin + ROUND * u32::try_from(tick)?;
        let late = wait_until(due);
        let mut going_on = false;
        for patch in patches.iter_mut().filter(|patch| tick >= patch.start && patch.runs_left > 0) {
            let Patch { decoder, start, run, runs_left } = patch;
            let (now, round) = (&drawn[*run % drawn.len()], tick - *start);
            let before_tail = layers - decoder.tail_rounds();
            if round < before_tail {
                decoder.push_round(now.round(round))?;
                // In turns, so that a microsecond has one at most.
                if (round + *start).is_multiple_of(REHEARSAL * 8) {
                    decoder.rehearse();
                }
            } else if round + 1 == layers {
                tail.clear();
                tail.extend((before_tail..layers).map(|t| now.round(t)));
                let flipped = decoder.finish(&tail)?[0] & 1 != 0;
                if *run > 0 {
                    found.times.record((due.elapsed().as_nanos() as u64).max(1))?;
                    found.forced += decoder.forced();
                    found.errors += u64::from(flipped != now.flips(0));
                }
                (*start, *run, *runs_left) = (tick + 1, *run + 1, *runs_left - 1);
            }
            going_on |= *run > 0;
        }
        if going_on {
            found.latest = found.latest.max(late);
        }
        if patches.iter().all(|patch| patch.runs_left == 0) {
            break;
        }
    }
    Ok(found)
}
