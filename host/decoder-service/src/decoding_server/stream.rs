//! Runs of any length: measurements become rounds as they come, and the last rounds are decoded when corrections are asked for.
//!
//! The configuration describes a short run: its first rounds, one that repeats, and its last ones. Only a client's request for
//! corrections shows which measurements are the last of a run, so that many measurements are held back.

use super::arguments::Rounds;
use super::config::DecoderConfig;
use ringcall_matching::{
    EndlessConfig, EndlessDecoder, EndlessRun, MatchingGraph, SharedEndlessConfig, SharedEndlessDecoder,
};
use std::num::NonZeroUsize;

/// The most rounds at a run's end that are decoded together.
const MAX_TAIL: usize = 8;

/// Rounds between two rehearsals of a run's end, which keep its tables in the caches.
const REHEARSAL: usize = 64;

/// A round: its number of measurements, and its detectors.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Round {
    measurements: u64,
    /// The measurements of each detector, counted from the first of the round.
    detectors: Vec<Vec<i64>>,
}

/// The division of measurements into rounds.
#[derive(Debug)]
struct Plan {
    head: Vec<Round>,
    /// The round that repeats.
    bulk: Round,
    tail: Vec<Round>,
    /// Measurements of the tail.
    tail_measurements: u64,
}

impl Plan {
    /// Divides the measurements of the short run into rounds; the last `tail` of them end the run.
    fn new(config: &DecoderConfig, starts: &[u32], tail: usize) -> Result<Self, String> {
        let count = starts.len() - 1;
        let mut rounds = Vec::with_capacity(count);
        let mut first = 0;
        for (t, bounds) in starts.windows(2).enumerate() {
            let detectors = &config.detector_measurements()[bounds[0] as usize..bounds[1] as usize];
            let newest = detectors.iter().flatten().max().map_or(0, |&newest| newest + 1);
            let end = if t + 1 == count { config.measurements() as u32 } else { newest.max(first) };
            let offset = |&measurement: &u32| i64::from(measurement) - i64::from(first);
            let detectors = detectors.iter().map(|row| row.iter().map(offset).collect()).collect();
            rounds.push(Round { measurements: u64::from(end - first), detectors });
            first = end;
        }
        let tail = rounds.split_off(count - tail);
        let bulk = rounds.pop().ok_or("no round repeats")?;
        let repeats = rounds.iter().rev().take_while(|&round| *round == bulk).count();
        if repeats == 0 || bulk.measurements == 0 {
            return Err("no two neighbouring rounds in the middle have the same measurements in D_sparse: give a run of a few \
                        more rounds"
                .to_owned());
        }
        rounds.truncate(rounds.len() - repeats);
        let tail_measurements = tail.iter().map(|round| round.measurements).sum();
        Ok(Self { head: rounds, bulk, tail, tail_measurements })
    }

    fn round(&self, t: usize) -> &Round {
        self.head.get(t).unwrap_or(&self.bulk)
    }

    /// The most measurements in use at a time: those of a round, those held back, and those that detectors look back to.
    fn window(&self) -> u64 {
        let all = || self.head.iter().chain([&self.bulk]).chain(&self.tail);
        let back = all().flat_map(|round| round.detectors.iter().flatten()).min().map_or(0, |&least| -least);
        let most = all().map(|round| round.measurements).max().unwrap_or(0);
        back.max(0) as u64 + most + 2 * self.tail_measurements
    }
}

/// The latest measurements of a run.
#[derive(Debug)]
struct Measured {
    /// One byte each, at index number modulo length, which is a power of two.
    bits: Vec<u8>,
    count: u64,
}

impl Measured {
    fn push(&mut self, bit: u8) {
        let mask = self.bits.len() as u64 - 1;
        self.bits[(self.count & mask) as usize] = bit;
        self.count += 1;
    }

    /// Appends the positions of the detectors that fired in a round that begins with measurement `first`.
    fn fired(&self, round: &Round, first: u64, defects: &mut Vec<u32>) {
        let mask = self.bits.len() as u64 - 1;
        for (position, offsets) in (0..).zip(&round.detectors) {
            let bit = |&offset: &i64| self.bits[(first.wrapping_add_signed(offset) & mask) as usize];
            if offsets.iter().fold(0, |parity, offset| parity ^ bit(offset)) != 0 {
                defects.push(position);
            }
        }
    }
}

/// A run that lasts as long as measurements come. A round allocates nothing.
#[derive(Debug)]
pub(super) struct Stream {
    decoder: EndlessRun,
    plan: Plan,
    measured: Measured,
    /// The number of rounds decoded, and the first measurement of the next.
    rounds: usize,
    first: u64,
    defects: Vec<u32>,
    forced: u64,
}

impl Stream {
    pub(super) fn new(
        config: &DecoderConfig,
        graph: &MatchingGraph,
        rounds: Rounds,
        endless: &EndlessConfig,
        cores: NonZeroUsize,
    ) -> Result<Self, String> {
        let starts = rounds.starts(config.detectors() as u32);
        let of = Rounds::of_detectors(&starts);
        let decoder = if cores == NonZeroUsize::MIN {
            EndlessDecoder::new(graph, &of, endless).map(EndlessRun::from)
        } else {
            let mut shared = SharedEndlessConfig::new(cores);
            (shared.correlations, shared.observables_only) = (endless.correlations, endless.observables_only);
            SharedEndlessDecoder::new(graph, &of, &shared, |_| {}).map(EndlessRun::from)
        };
        let decoder = decoder.map_err(|why| why.to_string())?;
        let tail = decoder.tail_rounds();
        if tail > MAX_TAIL || tail >= starts.len() - 1 {
            return Err(format!(
                "the last {tail} rounds are unlike those before: {MAX_TAIL} at most are served"
            ));
        }
        let plan = Plan::new(config, &starts, tail)?;
        let bits = usize::try_from(plan.window().next_power_of_two()).map_err(|error| error.to_string())?;
        Ok(Self {
            decoder,
            plan,
            measured: Measured { bits: vec![0; bits], count: 0 },
            rounds: 0,
            first: 0,
            defects: Vec::with_capacity(config.detectors()),
            forced: 0,
        })
    }

    /// The fewest rounds of a run.
    pub(super) fn least_rounds(&self) -> usize {
        self.decoder.least_rounds()
    }

    /// The number of decisions in all runs so far that later rounds might have changed, or of windows joined without a proof.
    pub(super) fn forced(&self) -> u64 {
        // Between two runs, the decoder counts the last one, which is added already.
        if self.rounds == 0 { self.forced } else { self.forced + self.decoder.forced() }
    }

    /// Threads that died.
    pub(super) fn lost(&self) -> usize {
        self.decoder.lost()
    }

    /// Takes `count` measurements, and decodes the rounds that they complete.
    pub(super) fn push(&mut self, count: usize, bits: &[u8]) -> Result<(), Unexplained> {
        for at in 0..count {
            self.measured.push(bits[at / 8] >> (at % 8) & 1);
            let Self { decoder, plan, measured, rounds, first, defects, .. } = self;
            let round = plan.round(*rounds);
            // More measurements than a run's end has: the round is not one of the last.
            if measured.count - *first > round.measurements + plan.tail_measurements - 1 {
                defects.clear();
                measured.fired(round, *first, defects);
                decoder.push_round(defects).map_err(|_| Unexplained)?;
                *first += round.measurements;
                *rounds += 1;
                if rounds.is_multiple_of(REHEARSAL) {
                    decoder.rehearse();
                }
            }
        }
        Ok(())
    }

    /// Ends the run if its measurements are complete, and writes the observables that its correction flips. Returns false if they
    /// are not.
    pub(super) fn finish(&mut self, observables: &mut [u8]) -> Result<bool, Unexplained> {
        let Self { decoder, plan, measured, rounds, first, defects, forced } = self;
        if measured.count - *first != plan.tail_measurements
            || *rounds + plan.tail.len() < decoder.least_rounds()
        {
            return Ok(false);
        }
        defects.clear();
        let mut ends = [0; MAX_TAIL];
        for (round, end) in plan.tail.iter().zip(&mut ends) {
            measured.fired(round, *first, defects);
            *first += round.measurements;
            *end = defects.len();
        }
        let mut parts: [&[u32]; MAX_TAIL] = [&[]; MAX_TAIL];
        let mut begin = 0;
        for (part, &end) in parts.iter_mut().zip(&ends[..plan.tail.len()]) {
            *part = &defects[begin..end];
            begin = end;
        }
        let flipped = decoder.finish(&parts[..plan.tail.len()]).map_err(|_| Unexplained)?;
        pack(flipped, observables);
        *forced += decoder.forced();
        self.restart();
        Ok(true)
    }

    /// Whether no run is under way.
    pub(super) const fn is_between_runs(&self) -> bool {
        self.measured.count == 0
    }

    /// Abandons an unfinished run.
    pub(super) fn restart(&mut self) {
        self.decoder.restart();
        (self.measured.count, self.rounds, self.first) = (0, 0, 0);
    }
}

/// No correction explains a syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unexplained;

/// Observables in words as bytes.
pub(super) fn pack(words: &[u64], bytes: &mut [u8]) {
    for (bytes, word) in bytes.chunks_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}
