//! Latency histograms by function, with one writer and readers on any thread.

use crate::stats::Count;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_wire::function::FunctionId;
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of buckets: two an octave from a microsecond to seventeen seconds, and one for longer times.
pub const BUCKETS: usize = 48;

/// The unit of the buckets' bounds: 1,024 ns, so that a shift finds a bucket.
const UNIT_BITS: u32 = 10;

const fn bucket(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    if units < 2 {
        return units as usize;
    }
    let octave = units.ilog2();
    let half = units >> (octave - 1) & 1;
    let bucket = 2 * octave as usize + half as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The most functions whose answers are counted apart; answers of further functions are counted together.
pub const FUNCTIONS: usize = 32;

/// Counters of some of a link's answers. Only the link's thread writes them.
#[derive(Debug)]
struct LiveLatencies {
    buckets: [Count; BUCKETS],
    sum_ns: Count,
}

impl Default for LiveLatencies {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| Count::default()), sum_ns: Count::default() }
    }
}

impl LiveLatencies {
    #[inline]
    fn record(&self, ns: u64) {
        self.buckets[bucket(ns)].one();
        self.sum_ns.add(ns);
    }

    fn counts(&self) -> Latencies {
        let mut counts = [0; BUCKETS];
        counts.iter_mut().zip(&self.buckets).for_each(|(count, live)| *count = live.get());
        Latencies { counts, sum_ns: self.sum_ns.get() }
    }
}

#[derive(Debug, Default)]
struct LiveAnswers {
    latencies: LiveLatencies,
    refused: Count,
}

impl LiveAnswers {
    fn answers(&self, function: Option<FunctionId>) -> FunctionAnswers {
        FunctionAnswers { function, latencies: self.latencies.counts(), refused: self.refused.get() }
    }
}

/// Counters of a link's answers by function.
#[derive(Debug)]
pub(crate) struct LiveFunctions {
    /// The function of each entry, plus one; 0 for a free entry.
    ids: [DeviceU64; FUNCTIONS],
    entries: [LiveAnswers; FUNCTIONS],
    /// Answers of functions without an entry.
    others: LiveAnswers,
}

impl Default for LiveFunctions {
    fn default() -> Self {
        Self {
            ids: std::array::from_fn(|_| DeviceU64::new(0)),
            entries: std::array::from_fn(|_| LiveAnswers::default()),
            others: LiveAnswers::default(),
        }
    }
}

impl LiveFunctions {
    /// Counts an answer. A function gets an entry only if it runs, or if its schema refuses a request, so no peer can
    /// fill the entries with invented ids.
    #[inline]
    pub(crate) fn record(&self, function: u32, status: i32, ns: u64) {
        let wanted = u64::from(function) + 1;
        let mut entry = &self.others;
        for (id, its) in self.ids.iter().zip(&self.entries) {
            let id_there = id.load(Ordering::Relaxed);
            if id_there == wanted {
                entry = its;
                break;
            }
            if id_there == 0 {
                if status >= 0 || status == Status::SCHEMA_MISMATCH.0 {
                    id.store(wanted, Ordering::Relaxed);
                    entry = its;
                }
                break;
            }
        }
        entry.latencies.record(ns);
        if status != Status::OK.0 {
            entry.refused.one();
        }
    }

    pub(crate) fn functions(&self) -> Vec<FunctionAnswers> {
        let named = self.ids.iter().zip(&self.entries).map_while(|(id, entry)| {
            let id = id.load(Ordering::Relaxed).checked_sub(1)?;
            Some(entry.answers(Some(FunctionId(id as u32))))
        });
        let others = self.others.answers(None);
        named.chain((others.latencies.count() > 0).then_some(others)).collect()
    }

    pub(crate) fn counts(&self) -> Latencies {
        let entries = self
            .entries
            .iter()
            .zip(&self.ids)
            .map_while(|(entry, id)| (id.load(Ordering::Relaxed) != 0).then(|| entry.latencies.counts()));
        entries.fold(self.others.latencies.counts(), |sum, more| sum.plus(&more))
    }
}

/// Counters of a function's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionAnswers {
    /// The function; `None` for all functions without an entry: unknown ones, and those after the first [`FUNCTIONS`].
    pub function: Option<FunctionId>,
    /// Latencies of all answers, refusals included.
    pub latencies: Latencies,
    /// Answers with a status other than `OK`.
    pub refused: u64,
}

impl FunctionAnswers {
    /// The sum of these answers and others of the same function, such as those of another transport.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        let latencies = self.latencies.plus(&more.latencies);
        Self { function: self.function, latencies, refused: self.refused + more.refused }
    }
}

/// A histogram of latencies, each from the moment a request was written to its slot until its answer was taken out of
/// the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latencies {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Latencies {
    /// Each bucket's upper bound, and its number of answers; the last bucket has no bound. The bounds never change.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bound = |bucket: usize| {
            let units = match (bucket / 2, bucket % 2) {
                (0, odd) => 1 + odd as u64,
                (octave, 0) => 3 << (octave - 1),
                (octave, _) => 2 << octave,
            };
            (bucket + 1 < BUCKETS).then(|| Duration::from_nanos(units << UNIT_BITS))
        };
        self.counts.iter().enumerate().map(move |(bucket, &count)| (bound(bucket), count))
    }

    /// The sum of these answers and others, such as those of another transport.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        let mut sum = *self;
        sum.counts.iter_mut().zip(more.counts).for_each(|(count, more)| *count += more);
        sum.sum_ns += more.sum_ns;
        sum
    }

    /// The number of answers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all latencies.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_says_so() {
        for ns in (0..200_000).chain((20..60).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 3 << (bit - 1)])) {
            let live = LiveLatencies::default();
            live.record(ns);
            let counts = live.counts();
            let buckets: Vec<(Option<Duration>, u64)> = counts.buckets().collect();
            let index = buckets.iter().position(|bucket| bucket.1 == 1).expect("a bucket");
            let time = Duration::from_nanos(ns);
            assert!(buckets[index].0.is_none_or(|bound| time < bound), "{ns} is in bucket {index}");
            assert!(index == 0 || buckets[index - 1].0.is_some_and(|bound| time >= bound), "{ns}, {index}");
            assert_eq!(counts.sum(), time);
        }
    }

    #[test]
    fn functions_that_run_are_counted_apart_and_made_up_ones_together() {
        let live = LiveFunctions::default();
        let made_up = 1000..1000 + FUNCTIONS as u32;
        made_up.for_each(|id| live.record(id, Status::UNKNOWN_FUNCTION.0, 5));
        live.record(7, Status::OK.0, 5_000);
        live.record(7, Status::OK.0, 50_000);
        live.record(7, 3, 5);
        live.record(0, Status::SCHEMA_MISMATCH.0, 5);
        let seen = live.functions();
        let counts =
            |answers: &FunctionAnswers| (answers.function, answers.latencies.count(), answers.refused);
        let (named, other) = ([(Some(FunctionId(7)), 3, 1), (Some(FunctionId(0)), 1, 1)], (None, 32, 32));
        assert!(seen.iter().map(counts).eq(named.into_iter().chain([other])), "{seen:?}");
        assert_eq!(seen[0].latencies.sum(), Duration::from_nanos(55_005));
        assert_eq!(live.counts().count(), 36);
        // Once every place is taken, the rest is counted together.
        (0..2 * FUNCTIONS as u32).for_each(|id| live.record(id, Status::OK.0, 5));
        let seen = live.functions();
        assert_eq!((seen.len(), seen[FUNCTIONS].latencies.count()), (FUNCTIONS + 1, 64));
        assert_eq!(live.counts().count(), 36 + 64);
        let twice = seen[0].plus(&seen[0]);
        assert_eq!((twice.latencies.count(), twice.refused), (2 * seen[0].latencies.count(), 2));
    }
}
