//! What is counted, and when it is enough.

use super::Matching;
use ringcall_qec::stats::{LogicalErrorRate, PairedErrors, SyndromeDensity};
use serde::{Deserialize, Serialize};

/// Counts over shots that were decoded by matching alone, and perhaps by a predecoder and matching as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Whether correlated matching was used: not where the model has no correlations, nor where there was no shot yet.
    pub correlated: bool,
    /// Shots.
    pub shots: u64,
    /// Detectors of all shots.
    pub detectors: u64,
    /// Of these, the ones that fired.
    pub fired: u64,
    /// Shots that matching alone got wrong.
    pub errors: u64,
    /// Time of matching alone, all shots together, ns.
    pub matching_ns: u64,
    /// The other arm, on the same shots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecoder: Option<PredecoderTally>,
}

/// Counts of the arm with a predecoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredecoderTally {
    /// Detectors that it left for matching.
    pub fired: u64,
    /// Shots that it and matching got wrong.
    pub errors: u64,
    /// Of these, the ones that matching alone got wrong as well.
    pub both: u64,
    /// Time of its inference, ns.
    pub inference_ns: u64,
    /// Time of matching what it left, ns.
    pub matching_ns: u64,
}

impl Tally {
    /// No shots yet.
    pub(super) fn new(predecoder: bool) -> Self {
        Self { predecoder: predecoder.then(PredecoderTally::default), ..Self::default() }
    }

    /// Adds another batch, of the same arms.
    pub(super) fn add(&mut self, other: &Self) {
        // Counts of a file may be anything below what `check` lets through; sums that no study reaches stay at the top.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        self.correlated |= other.correlated;
        add(&mut self.shots, other.shots);
        add(&mut self.detectors, other.detectors);
        add(&mut self.fired, other.fired);
        add(&mut self.errors, other.errors);
        add(&mut self.matching_ns, other.matching_ns);
        if let (Some(sum), Some(more)) = (&mut self.predecoder, &other.predecoder) {
            add(&mut sum.fired, more.fired);
            add(&mut sum.errors, more.errors);
            add(&mut sum.both, more.both);
            add(&mut sum.inference_ns, more.inference_ns);
            add(&mut sum.matching_ns, more.matching_ns);
        }
    }

    /// The same counts, times apart?
    pub(super) fn same_counts(&self, other: &Self) -> bool {
        let counts = |tally: &Self| {
            let untimed = |p: PredecoderTally| PredecoderTally { inference_ns: 0, matching_ns: 0, ..p };
            Self { matching_ns: 0, predecoder: tally.predecoder.map(untimed), ..*tally }
        };
        counts(self) == counts(other)
    }

    /// Could these be the counts of a batch?
    pub(super) fn check(&self, shots: u32, matching: Matching, predecoder: bool) -> Result<(), String> {
        let expect = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
        let plain = matching == Matching::Plain;
        expect(!(plain && self.correlated), "counts of correlated matching".to_owned())?;
        expect(self.shots == u64::from(shots), format!("{} shots, a batch has {shots}", self.shots))?;
        expect(self.errors <= self.shots, format!("{} errors in {} shots", self.errors, self.shots))?;
        let fired =
            |fired| expect(fired <= self.detectors, format!("{fired} of {} detectors", self.detectors));
        fired(self.fired)?;
        expect(
            predecoder == self.predecoder.is_some(),
            format!("counts {} a predecoder", if predecoder { "without" } else { "of" }),
        )?;
        let Some(arm) = self.predecoder else { return Ok(()) };
        fired(arm.fired)?;
        expect(arm.errors <= self.shots, format!("{} errors in {} shots", arm.errors, self.shots))?;
        let either = (self.errors + arm.errors).checked_sub(arm.both);
        expect(
            arm.both <= self.errors.min(arm.errors) && either.is_some_and(|n| n <= self.shots),
            format!("{} errors in common of {} and {}", arm.both, self.errors, arm.errors),
        )
    }

    /// Which matching was used; `None` without a shot.
    #[must_use]
    pub fn matching(&self) -> Option<Matching> {
        let kind = if self.correlated { Matching::Correlated } else { Matching::Plain };
        (self.shots > 0).then_some(kind)
    }

    /// Logical errors of matching alone.
    #[must_use]
    pub fn alone(&self) -> LogicalErrorRate {
        LogicalErrorRate { shots: self.shots, errors: self.errors }
    }

    /// Both arms: first matching alone, second with the predecoder. `None` without one.
    #[must_use]
    pub fn paired(&self) -> Option<PairedErrors> {
        self.predecoder.map(|arm| PairedErrors {
            shots: self.shots,
            first: self.errors,
            second: arm.errors,
            both: arm.both,
        })
    }

    /// Share of detectors that fired.
    #[must_use]
    pub fn density(&self) -> SyndromeDensity {
        SyndromeDensity { fired: self.fired, detectors: self.detectors }
    }

    /// Share of detectors that a predecoder left. `None` without one.
    #[must_use]
    pub fn density_out(&self) -> Option<SyndromeDensity> {
        let density = |arm: PredecoderTally| SyndromeDensity { fired: arm.fired, detectors: self.detectors };
        self.predecoder.map(density)
    }

    /// The mean of a time over shots, µs; NaN without shots.
    #[must_use]
    pub fn mean_us(&self, total_ns: u64) -> f64 {
        total_ns as f64 / 1e3 / self.shots as f64
    }
}

/// When a point has enough shots. It is asked after each whole batch, so shots are rounded up to batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The most shots.
    pub shots: u64,
    /// Fewer, once each arm has made so many logical errors. (The rate is then biased upwards by a share of about one in
    /// so many: a study of ten errors says little anyway.)
    pub errors: Option<u64>,
}

impl Stop {
    /// Is this enough?
    #[must_use]
    pub fn met(&self, tally: &Tally) -> bool {
        let errors = tally.predecoder.map_or(tally.errors, |arm| arm.errors.min(tally.errors));
        tally.shots >= self.shots || self.errors.is_some_and(|enough| errors >= enough)
    }

    /// The batches that there are at most.
    pub(super) fn batches(&self, batch_shots: u32) -> u64 {
        self.shots.div_ceil(batch_shots.max(1).into())
    }
}
