//! How long requests were under way, in buckets: one writer, readable by anybody at any time.

use crate::stats::Count;
use std::time::Duration;

/// Buckets: two an octave, from a microsecond to seventeen seconds, and one for all above.
pub const BUCKETS: usize = 48;

/// The unit of the buckets' bounds: 1,024 ns, so that a shift finds a bucket.
const UNIT_BITS: u32 = 10;

/// The bucket of a time.
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

/// Counts of a link, which its thread alone writes.
#[derive(Debug)]
pub(crate) struct LiveLatencies {
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
    pub(crate) fn record(&self, ns: u64) {
        self.buckets[bucket(ns)].one();
        self.sum_ns.add(ns);
    }

    pub(crate) fn counts(&self) -> Latencies {
        let mut counts = [0; BUCKETS];
        counts.iter_mut().zip(&self.buckets).for_each(|(count, live)| *count = live.get());
        Latencies { counts, sum_ns: self.sum_ns.get() }
    }
}

/// How many answers took how long: from a request's slot being written until its answer was taken out of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latencies {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Latencies {
    /// Each bucket's upper bound, and how many answers are in it; the last has no bound. The bounds never change.
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

    /// These answers and others, such as those of another transport.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        let mut sum = *self;
        sum.counts.iter_mut().zip(more.counts).for_each(|(count, more)| *count += more);
        sum.sum_ns += more.sum_ns;
        sum
    }

    /// The times of all answers together.
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
            let place = buckets.iter().position(|bucket| bucket.1 == 1).expect("a bucket");
            let time = Duration::from_nanos(ns);
            assert!(buckets[place].0.is_none_or(|bound| time < bound), "{ns} is in bucket {place}");
            assert!(place == 0 || buckets[place - 1].0.is_some_and(|bound| time >= bound), "{ns}, {place}");
            assert_eq!(counts.sum(), time);
        }
    }
}
