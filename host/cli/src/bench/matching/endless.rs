//! Endless runs: the time from the last round of a long run to the answer.

use super::LIMIT;
use super::problem::engine_graph;
use crate::bench::measure::{cut_in_words, histogram, time};
use crate::runs::RunSource;
use anyhow::{Context, Result, ensure};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use ringcall_matching::{
    EndlessConfig, EndlessDecoder, EndlessRun, SharedEndlessConfig, SharedEndlessDecoder,
};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Runs of `rounds` rounds, which come as fast as they are decoded, or one in each microsecond.
#[derive(Debug, Clone, Copy)]
struct Endless {
    distance: u32,
    per_mille: u32,
    rounds: u32,
    paced: bool,
    correlated: bool,
    /// Threads that share a run.
    cores: NonZeroUsize,
}

const fn memory(distance: u32, per_mille: u32, rounds: u32, paced: bool) -> Endless {
    Endless { distance, per_mille, rounds, paced, correlated: false, cores: NonZeroUsize::MIN }
}

/// The same with correlated matching.
const fn correlated(distance: u32, per_mille: u32, rounds: u32, paced: bool) -> Endless {
    Endless { correlated: true, ..memory(distance, per_mille, rounds, paced) }
}

/// The same on so many cores, for the observables alone.
const fn shared(cores: usize, distance: u32, per_mille: u32, rounds: u32, paced: bool) -> Endless {
    Endless { cores: NonZeroUsize::new(cores).expect("not 0"), ..memory(distance, per_mille, rounds, paced) }
}

/// The same with correlated matching.
const fn shared_correlated(cores: usize, distance: u32, per_mille: u32, rounds: u32, paced: bool) -> Endless {
    Endless { correlated: true, ..shared(cores, distance, per_mille, rounds, paced) }
}

/// Name and kind of each row, and how many runs take a few seconds.
const BENCHES: &[(&str, Endless, usize)] = &[
    ("matching/endless/d5/p0.001", memory(5, 1, 10_000, false), 500),
    ("matching/endless/d5/p0.001/paced", memory(5, 1, 10_000, true), 300),
    ("matching/endless/d5/p0.003", memory(5, 3, 10_000, false), 300),
    ("matching/endless/d7/p0.001", memory(7, 1, 10_000, false), 300),
    ("matching/endless/d7/p0.001/paced", memory(7, 1, 10_000, true), 300),
    ("matching/endless/d7/p0.003", memory(7, 3, 10_000, false), 200),
    ("matching/endless/d13/p0.001", memory(13, 1, 10_000, false), 200),
    ("matching/endless/d13/p0.001/paced", memory(13, 1, 10_000, true), 300),
    ("matching/endless/d13/p0.001/million", memory(13, 1, 1_000_000, false), 3),
    ("matching/endless/d13/p0.003", memory(13, 3, 10_000, false), 100),
    ("matching/endless/d13/p0.003/paced", memory(13, 3, 10_000, true), 300),
    ("matching/endless/d13/p0.001/paced/3-cores", shared(3, 13, 1, 10_000, true), 300),
    ("matching/endless/d13/p0.003/2-cores", shared(2, 13, 3, 10_000, false), 200),
    ("matching/endless/d13/p0.003/3-cores", shared(3, 13, 3, 10_000, false), 200),
    ("matching/endless/d13/p0.003/paced/2-cores", shared(2, 13, 3, 10_000, true), 300),
    ("matching/endless/d13/p0.003/paced/3-cores", shared(3, 13, 3, 10_000, true), 300),
    ("matching/endless/d13/p0.003/paced/4-cores", shared(4, 13, 3, 10_000, true), 300),
    ("matching/endless/d5/p0.001/correlated", correlated(5, 1, 10_000, false), 500),
    ("matching/endless/d5/p0.001/correlated/paced", correlated(5, 1, 10_000, true), 300),
    ("matching/endless/d5/p0.003/correlated", correlated(5, 3, 10_000, false), 300),
    ("matching/endless/d7/p0.001/correlated", correlated(7, 1, 10_000, false), 300),
    ("matching/endless/d7/p0.001/correlated/paced", correlated(7, 1, 10_000, true), 300),
    ("matching/endless/d13/p0.001/correlated", correlated(13, 1, 10_000, false), 200),
    ("matching/endless/d13/p0.001/correlated/paced", correlated(13, 1, 10_000, true), 300),
    ("matching/endless/d13/p0.003/correlated", correlated(13, 3, 10_000, false), 100),
    ("matching/endless/d5/p0.001/correlated/paced/2-cores", shared_correlated(2, 5, 1, 10_000, true), 300),
    ("matching/endless/d13/p0.001/correlated/4-cores", shared_correlated(4, 13, 1, 10_000, false), 200),
    ("matching/endless/d13/p0.001/correlated/8-cores", shared_correlated(8, 13, 1, 10_000, false), 200),
    ("matching/endless/d13/p0.001/correlated/paced/4-cores", shared_correlated(4, 13, 1, 10_000, true), 300),
    ("matching/endless/d13/p0.001/correlated/paced/8-cores", shared_correlated(8, 13, 1, 10_000, true), 300),
    ("matching/endless/d13/p0.003/correlated/12-cores", shared_correlated(12, 13, 3, 10_000, false), 100),
];

/// Rounds between two rehearsals of a run's end, which keep its tables in the caches.
pub(super) const REHEARSAL: usize = 64;
/// How long a round takes in hardware.
pub(super) const ROUND: Duration = Duration::from_micros(1);
/// Rounds of the short experiment from whose beginning, middle and end a longer run is composed.
pub(super) const SHORT_ROUNDS: u32 = 7;

pub(in crate::bench) fn names() -> impl Iterator<Item = &'static str> {
    BENCHES.iter().map(|&(name, ..)| name)
}

/// One line of results. Times are nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub(in crate::bench) struct Row {
    pub(in crate::bench) name: &'static str,
    runs: u64,
    /// The intended number of runs, if the time ran out earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_from: Option<u64>,
    rounds: u32,
    /// The mean number of defects in a round.
    defects: f64,
    /// From the last round's defects to the answer.
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// Average time of an earlier round; in paced rows with the wait for the next one.
    round_ns: f64,
    /// The longest delay between a round's due time and its decoding; 0 if rounds are not paced.
    latest_ns: u64,
    /// Decisions that later rounds might have changed.
    forced: u64,
    /// Runs with a wrong prediction of the logical observable.
    errors: u64,
}

impl Row {
    pub(in crate::bench) const HEADING: &'static str =
        "from the last round to the answer      p50       p99     p99.9    a round";
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ns = [self.p50_ns as f64, self.p99_ns as f64, self.p999_ns as f64, self.round_ns];
        let [p50, p99, p999, round] = ns.map(time);
        let (name, runs, rounds) = (self.name, self.runs, self.rounds);
        writeln!(f, "{name}")?;
        write!(
            f,
            "{:33} {p50:>9} {p99:>9} {p999:>9} {round:>10}",
            format!("  {runs} runs of {rounds} rounds")
        )?;
        write!(f, "\n  {:.2} defects a round, {} forced, {} errors", self.defects, self.forced, self.errors)?;
        if self.latest_ns > 0 {
            write!(f, ", {} late at most", time(self.latest_ns as f64))?;
        }
        if let Some(line) = cut_in_words(self.runs, self.cut_from) {
            write!(f, "{line}")?;
        }
        Ok(())
    }
}

/// A decoder of this experiment for runs of any length.
pub(super) fn decoder(source: &RunSource, correlated: bool) -> Result<EndlessDecoder> {
    let edges = DecodingGraph::from_dem(source.model(), ParallelEdges::Independent)?;
    let rounds: Vec<u32> = source.places().iter().map(|&(layer, _)| layer).collect();
    let mut config = EndlessConfig::default();
    config.observables_only = true;
    if !correlated {
        return Ok(EndlessDecoder::new(&engine_graph(&edges)?, &rounds, &config)?);
    }
    config.correlations = true;
    let decoder = MatchingDecoder::new(&edges, MatchingEngine::CorrelatedBlossom)?;
    let endless = EndlessDecoder::new(decoder.engine().graph(), &rounds, &config)?;
    ensure!(endless.makes_second_pass(), "the model has no correlations to use");
    Ok(endless)
}

/// A decoder on the row's cores, whose helpers, if it has any, are pinned to `cpus`.
fn run_decoder(source: &RunSource, endless: Endless, cpus: Vec<usize>) -> Result<EndlessRun> {
    if endless.cores == NonZeroUsize::MIN {
        return Ok(decoder(source, endless.correlated)?.into());
    }
    let edges = DecodingGraph::from_dem(source.model(), ParallelEdges::Independent)?;
    let rounds: Vec<u32> = source.places().iter().map(|&(layer, _)| layer).collect();
    let mut config = SharedEndlessConfig::new(endless.cores);
    (config.correlations, config.observables_only) = (endless.correlated, true);
    let pin = move |helper: usize| {
        if let Some(&cpu) = cpus.get(helper - 1) {
            crate::pinning::pin("matching", cpu);
        }
    };
    if !endless.correlated {
        return Ok(SharedEndlessDecoder::new(&engine_graph(&edges)?, &rounds, &config, pin)?.into());
    }
    let decoder = MatchingDecoder::new(&edges, MatchingEngine::CorrelatedBlossom)?;
    let shared = SharedEndlessDecoder::new(decoder.engine().graph(), &rounds, &config, pin)?;
    ensure!(shared.makes_second_pass(), "the model has no correlations to use");
    Ok(shared.into())
}

/// Measures the wanted rows and passes each to `each`.
pub(in crate::bench) fn run(
    shots: Option<usize>,
    cpu: usize,
    wanted: &dyn Fn(&str) -> bool,
    mut each: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    for &(name, endless, default) in BENCHES.iter().filter(|&&(name, ..)| wanted(name)) {
        let runs = shots.unwrap_or(default);
        // Helpers get the cores after the measuring thread's.
        let allowed = ringcall::pin::pin_current("bench", None).got;
        let helpers: Vec<usize> = allowed.into_iter().filter(|&other| other > cpu).collect();
        let row = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                crate::pinning::pin("matching", cpu);
                measure(name, endless, helpers, runs, shots.is_none().then(|| Instant::now() + LIMIT))
            });
            measuring.join().map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
        });
        each(row.with_context(|| format!("benchmark {name}"))?)?;
    }
    Ok(())
}

/// Measures `runs` runs, or as many as there is time for, but at least one.
fn measure(
    name: &'static str,
    endless: Endless,
    helpers: Vec<usize>,
    runs: usize,
    end: Option<Instant>,
) -> Result<Row> {
    let Endless { distance, per_mille, rounds, paced, .. } = endless;
    let noise = CircuitNoise::uniform(f64::from(per_mille) / 1000.0);
    let experiment = MemoryExperiment { distance, rounds: SHORT_ROUNDS, basis: Basis::Z, noise };
    let source = RunSource::of(&experiment)?;
    let mut decoder = run_decoder(&source, endless, helpers)?;
    let layers = rounds + 1;
    ensure!(layers as usize >= decoder.least_rounds(), "a run of {rounds} rounds is too short");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(1000 * distance + per_mille));
    let mut times = histogram()?;
    let mut row = Row {
        name,
        runs: 0,
        cut_from: None,
        rounds,
        defects: 0.0,
        p50_ns: 0,
        p99_ns: 0,
        p999_ns: 0,
        round_ns: 0.0,
        latest_ns: 0,
        forced: 0,
        errors: 0,
    };
    let (mut defects, mut taken) = (0, Duration::ZERO);
    // The first run warms the caches and is not counted.
    for count in 0..=runs {
        if count > 1 && end.is_some_and(|end| Instant::now() >= end) {
            row.cut_from = Some(runs as u64);
            break;
        }
        let run = source.draw(layers, &mut rng);
        let before_tail = layers as usize - decoder.tail_rounds();
        let tail: Vec<&[u32]> = (before_tail..layers as usize).map(|t| run.round(t)).collect();
        let begin = Instant::now();
        let mut latest = Duration::ZERO;
        for t in 0..before_tail {
            let late = if paced { wait_until(begin + ROUND * t as u32) } else { Duration::ZERO };
            latest = latest.max(late);
            decoder.push_round(run.round(t))?;
            // A run that is behind schedule skips the rehearsal.
            if t % REHEARSAL == 0 && late.is_zero() {
                decoder.rehearse();
            }
        }
        if paced {
            latest = latest.max(wait_until(begin + ROUND * before_tail as u32));
        }
        let last = Instant::now();
        let flipped = decoder.finish(&tail)?[0] & 1 != 0;
        let took = last.elapsed();
        if count == 0 {
            continue;
        }
        // If decoding is behind schedule, the answer is late by that time, too: the last round came before it was
        // decoded.
        let behind = if paced {
            last.saturating_duration_since(begin + ROUND * before_tail as u32)
        } else {
            Duration::ZERO
        };
        times.record(((took + behind).as_nanos() as u64).max(1))?;
        taken += last - begin;
        defects += run.num_defects();
        row.latest_ns = row.latest_ns.max(latest.as_nanos() as u64);
        row.forced += decoder.forced();
        row.errors += u64::from(flipped != run.flips(0));
    }
    row.runs = times.len();
    let all_rounds = row.runs as f64 * f64::from(rounds);
    row.defects = defects as f64 / all_rounds;
    row.round_ns = taken.as_nanos() as f64 / all_rounds;
    [row.p50_ns, row.p99_ns, row.p999_ns] = [0.5, 0.99, 0.999].map(|q| times.value_at_quantile(q));
    Ok(row)
}

/// Polls until `due`. Returns how long that time had passed.
pub(super) fn wait_until(due: Instant) -> Duration {
    let now = Instant::now();
    if now >= due {
        return now - due;
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_matching::DecoderConfig;
    use ringcall_qec::sample::Sampler;

    fn experiment(rounds: u32) -> MemoryExperiment {
        MemoryExperiment { distance: 3, rounds, basis: Basis::Z, noise: CircuitNoise::uniform(0.01) }
    }

    /// Runs composed from a short experiment have as many defects in every layer as the long experiment's.
    #[test]
    fn drawn_runs_are_those_of_the_long_experiment() -> Result<()> {
        const ROUNDS: u32 = 20;
        const LAYERS: u32 = ROUNDS + 1;
        const SHOTS: u32 = 4000;
        let source = RunSource::of(&experiment(SHORT_ROUNDS))?;
        let long = RunSource::of(&experiment(ROUNDS))?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut sampler = Sampler::new(long.model(), 2)?;
        let mut shot = sampler.new_shot();
        let mut counts = vec![[0.0f64; 2]; LAYERS as usize];
        let mut fired = Vec::new();
        for _ in 0..SHOTS {
            let run = source.draw(LAYERS, &mut rng);
            for (t, count) in counts.iter_mut().enumerate() {
                count[0] += run.round(t).len() as f64;
            }
            sampler.sample_into(&mut shot)?;
            fired.clear();
            shot.detectors.ones_into(&mut fired);
            for &detector in &fired {
                counts[long.places()[detector as usize].0 as usize][1] += 1.0;
            }
        }
        for (layer, [drawn, sampled]) in counts.into_iter().enumerate() {
            // Five standard deviations of defects that come in pairs.
            let most = 5.0 * (2.0 * (drawn + sampled)).sqrt();
            assert!((drawn - sampled).abs() < most, "layer {layer}: {drawn} against {sampled}");
        }
        Ok(())
    }

    /// A long run decodes to the weight of the whole.
    #[test]
    fn the_answer_is_the_whole_runs() -> Result<()> {
        const ROUNDS: u32 = 60;
        const LAYERS: u32 = ROUNDS + 1;
        let source = RunSource::of(&experiment(SHORT_ROUNDS))?;
        let long = RunSource::of(&experiment(ROUNDS))?;
        let edges = DecodingGraph::from_dem(long.model(), ParallelEdges::Independent)?;
        let mut config = DecoderConfig::default();
        config.observables_only = true;
        let mut whole = ringcall_matching::MwpmDecoder::with_config(engine_graph(&edges)?, &config);
        let mut endless = decoder(&source, false)?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        // The detectors of each layer in the long model.
        let mut ids = vec![Vec::new(); LAYERS as usize];
        for (id, &(layer, _)) in (0u32..).zip(long.places()) {
            ids[layer as usize].push(id);
        }
        for _ in 0..300 {
            let run = source.draw(LAYERS, &mut rng);
            let layers = 0..LAYERS as usize;
            let mut defects: Vec<u32> = layers
                .flat_map(|t| run.round(t).iter().map(|&p| ids[t][p as usize]).collect::<Vec<_>>())
                .collect();
            defects.sort_unstable();
            let solution = whole.decode(&defects)?;
            let before_tail = LAYERS as usize - endless.tail_rounds();
            for t in 0..before_tail {
                endless.push_round(run.round(t))?;
            }
            let tail: Vec<&[u32]> = (before_tail..LAYERS as usize).map(|t| run.round(t)).collect();
            endless.finish(&tail)?;
            // The sums of probabilities of the same rounds differ in their last digits.
            let close = (endless.weight() - solution.weight()).abs() < 1e-3;
            assert!(close || endless.forced() > 0, "{} instead of {}", endless.weight(), solution.weight());
        }
        Ok(())
    }
}
