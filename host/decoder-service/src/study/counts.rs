//! Counts of a study's point, and its stop rule.

use super::plain::{common, is_zero, lateness};
use super::{Matching, PlainCounts};
use ringcall_qec::stats::{LogicalErrorRate, PairedErrors, SyndromeDensity};
use serde::{Deserialize, Serialize};

/// Counts over shots that were decoded by matching alone and perhaps by a predecoder and matching as well. If both kinds of
/// matching are compared, these counts are those of correlated matching, and [`plain`](Self::plain) has the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShotCounts {
    /// Whether correlated matching was used: false if the model has no correlations, or before the first shot.
    pub correlated: bool,
    /// Whether an ensemble of correlated matchings was used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ensemble: bool,
    /// Whether Relay-BP took the place of matching.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relay: bool,
    /// Whether each basis and layer of time was matched separately.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slices: bool,
    /// Shots.
    pub shots: u64,
    /// Detectors of all shots.
    pub detectors: u64,
    /// Detectors that fired among these.
    pub fired: u64,
    /// Shots that matching alone got wrong.
    pub errors: u64,
    /// Observables that matching alone predicted wrongly, all shots together.
    pub observable_errors: u64,
    /// Shots whose correction does not explain their syndrome: best guesses, right or wrong.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unconverged: u64,
    /// Shots whose decoding took longer than the study's deadline, in processor time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Shots that were late, wrong, or both.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_or_wrong: u64,
    /// Processor time of matching alone, all shots together, ns.
    pub matching_ns: u64,
    /// The other arm, on the same shots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecoder: Option<PredecoderCounts>,
    /// Both arms by plain matching, if it is compared with correlated matching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<PlainCounts>,
}

/// Counts of the arm with a predecoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredecoderCounts {
    /// Detectors that the predecoder left for matching.
    pub fired: u64,
    /// Shots that the predecoder and matching got wrong.
    pub errors: u64,
    /// Shots among `errors` that matching alone got wrong as well.
    pub both: u64,
    /// Wall-clock time of inference, ns.
    pub inference_ns: u64,
    /// Processor time of matching the residual, ns.
    pub matching_ns: u64,
}

/// Counts of one arm, on the shots of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmCounts {
    /// The kind of matching: [`Matching::Plain`], [`Matching::Correlated`], or none: [`Matching::Relay`].
    pub matching: Matching,
    /// Whether a predecoder ran first.
    pub predecoder: bool,
    /// Shots that the arm got wrong.
    pub errors: u64,
    /// Shots among `errors` that the first arm got wrong as well.
    pub both: u64,
    /// Processor time of matching, ns.
    pub matching_ns: u64,
    /// Shots that exceeded the study's deadline, and shots that did or are wrong; `None` with a predecoder, whose inference takes
    /// a part of the time.
    pub late: Option<[u64; 2]>,
}

impl ShotCounts {
    /// No shots yet.
    pub(super) fn new(predecoder: bool) -> Self {
        Self { predecoder: predecoder.then(PredecoderCounts::default), ..Self::default() }
    }

    /// Adds another batch of the same arms.
    pub(super) fn add(&mut self, other: &Self) {
        // Counts of a file may be any that `check` accepts; sums that no study reaches saturate.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        self.correlated |= other.correlated;
        self.ensemble |= other.ensemble;
        self.relay |= other.relay;
        self.slices |= other.slices;
        add(&mut self.shots, other.shots);
        add(&mut self.detectors, other.detectors);
        add(&mut self.fired, other.fired);
        add(&mut self.errors, other.errors);
        add(&mut self.observable_errors, other.observable_errors);
        add(&mut self.unconverged, other.unconverged);
        add(&mut self.late, other.late);
        add(&mut self.late_or_wrong, other.late_or_wrong);
        add(&mut self.matching_ns, other.matching_ns);
        if let (Some(sum), Some(more)) = (&mut self.predecoder, &other.predecoder) {
            add(&mut sum.fired, more.fired);
            add(&mut sum.errors, more.errors);
            add(&mut sum.both, more.both);
            add(&mut sum.inference_ns, more.inference_ns);
            add(&mut sum.matching_ns, more.matching_ns);
        }
        if let Some(more) = &other.plain {
            self.plain.get_or_insert_default().add(more);
        }
    }

    /// Whether the counts are equal, ignoring times.
    pub(super) fn same_counts(&self, other: &Self) -> bool {
        let untimed_counts = |counts: &Self| {
            let untimed = |p: PredecoderCounts| PredecoderCounts { inference_ns: 0, matching_ns: 0, ..p };
            let (predecoder, plain) =
                (counts.predecoder.map(untimed), counts.plain.map(PlainCounts::untimed));
            Self { matching_ns: 0, late: 0, late_or_wrong: 0, predecoder, plain, ..*counts }
        };
        untimed_counts(self) == untimed_counts(other)
    }

    /// Checks that these can be the counts of a batch.
    pub(super) fn check(&self, shots: u32, matching: Matching, predecoder: bool) -> Result<(), String> {
        let expect = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
        let plain = matching == Matching::Plain;
        expect(!(plain && self.correlated), "counts of correlated matching".to_owned())?;
        expect(matching != Matching::Relay || self.relay, "counts of matching".to_owned())?;
        expect(
            self.ensemble == (matching == Matching::Ensemble && !self.relay),
            "counts of another matching".to_owned(),
        )?;
        expect(!(self.relay && self.correlated), "counts of two decoders in one".to_owned())?;
        expect((matching == Matching::Slices) == self.slices, "counts of another matching".to_owned())?;
        let compared = matching == Matching::Both && self.correlated;
        expect(
            compared == self.plain.is_some(),
            format!("counts {} plain matching", if compared { "without" } else { "of" }),
        )?;
        expect(self.shots == u64::from(shots), format!("{} shots, a batch has {shots}", self.shots))?;
        expect(self.errors <= self.shots, format!("{} errors in {} shots", self.errors, self.shots))?;
        let (errors, observables) = (self.errors, self.observable_errors);
        // A wrong shot has at least one wrong observable.
        expect(
            observables >= errors && (errors > 0 || observables == 0),
            format!("{observables} wrong observables in {errors} wrong shots"),
        )?;
        expect(
            self.unconverged <= self.shots,
            format!("{} unconverged of {} shots", self.unconverged, self.shots),
        )?;
        lateness(self.late, self.late_or_wrong, self.shots)?;
        let fired =
            |fired| expect(fired <= self.detectors, format!("{fired} of {} detectors", self.detectors));
        fired(self.fired)?;
        expect(
            predecoder == self.predecoder.is_some(),
            format!("counts {} a predecoder", if predecoder { "without" } else { "of" }),
        )?;
        if let Some(arm) = self.predecoder {
            fired(arm.fired)?;
            common(arm.both, self.errors, arm.errors, self.shots)?;
        }
        let after = self.predecoder.map(|arm| arm.errors);
        self.plain.map_or(Ok(()), |plain| plain.check(self.shots, self.errors, after))
    }

    /// Every arm. The others are compared with the first: matching alone, by plain matching if that ran.
    #[must_use]
    pub fn arms(&self) -> Vec<ArmCounts> {
        let kind = self.kind();
        let arm = |matching, predecoder, errors, both, matching_ns| ArmCounts {
            matching,
            predecoder,
            errors,
            both,
            matching_ns,
            late: None,
        };
        let alone =
            |arm: ArmCounts, late, late_or_wrong| ArmCounts { late: Some([late, late_or_wrong]), ..arm };
        let after = self.predecoder;
        let Some(plain) = self.plain else {
            let first = arm(kind, false, self.errors, self.errors, self.matching_ns);
            return [alone(first, self.late, self.late_or_wrong)]
                .into_iter()
                .chain(after.map(|after| arm(kind, true, after.errors, after.both, after.matching_ns)))
                .collect();
        };
        let first = arm(Matching::Plain, false, plain.errors, plain.errors, plain.matching_ns);
        let second = arm(kind, false, self.errors, plain.both, self.matching_ns);
        let mut arms =
            vec![alone(first, plain.late, plain.late_or_wrong), alone(second, self.late, self.late_or_wrong)];
        if let (Some(plain), Some(after)) = (plain.predecoder, after) {
            arms.push(arm(Matching::Plain, true, plain.errors, plain.both, plain.matching_ns));
            arms.push(arm(kind, true, after.errors, plain.correlated_both, after.matching_ns));
        }
        arms
    }

    /// The kind of matching used; `None` without a shot.
    #[must_use]
    pub fn matching(&self) -> Option<Matching> {
        (self.shots > 0).then_some(self.kind())
    }

    fn kind(&self) -> Matching {
        match (self.relay, self.correlated) {
            _ if self.slices => Matching::Slices,
            (true, _) => Matching::Relay,
            _ if self.ensemble => Matching::Ensemble,
            (false, true) => Matching::Correlated,
            (false, false) => Matching::Plain,
        }
    }

    /// Logical errors of matching alone.
    #[must_use]
    pub fn alone(&self) -> LogicalErrorRate {
        LogicalErrorRate { shots: self.shots, errors: self.errors }
    }

    /// Both arms: first matching alone, then with the predecoder; `None` without a predecoder.
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

    /// Share of detectors that a predecoder left; `None` without a predecoder.
    #[must_use]
    pub fn density_out(&self) -> Option<SyndromeDensity> {
        let density = |arm: PredecoderCounts| SyndromeDensity { fired: arm.fired, detectors: self.detectors };
        self.predecoder.map(density)
    }

    /// The mean of a time over shots, µs; NaN without shots.
    #[must_use]
    pub fn mean_us(&self, total_ns: u64) -> f64 {
        total_ns as f64 / 1e3 / self.shots as f64
    }
}

/// The stop rule of a point. It is checked after each whole batch, so shots are rounded up to batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The most shots.
    pub shots: u64,
    /// The number of logical errors of each arm that ends a point early. (The rate is then biased upwards by a fraction of about
    /// one over that number: a study of ten errors says little anyway.)
    pub errors: Option<u64>,
}

impl Stop {
    /// Whether the counts are enough.
    #[must_use]
    pub fn met(&self, counts: &ShotCounts) -> bool {
        let errors = counts.arms().iter().map(|arm| arm.errors).min().unwrap_or(0);
        counts.shots >= self.shots || self.errors.is_some_and(|enough| errors >= enough)
    }

    /// The largest number of batches.
    pub(super) fn batches(&self, batch_shots: u32) -> u64 {
        self.shots.div_ceil(batch_shots.max(1).into())
    }
}
