//! Detector error models: independent errors, their probabilities, and the detectors and observables that they flip.
//!
//! A *detector* is a parity of measurements that is 0 when nothing goes wrong; an *observable* is a parity that
//! holds the logical answer. A [`DetectorErrorModel`] lists independent [`Mechanism`]s. A shot fires each with its
//! own probability, and detector `d` reads 1 when an odd number of the fired mechanisms contain `d`.
//!
//! [`text`] reads and writes Stim's `.dem` format; [`circuit`](crate::circuit) builds the model of a memory
//! experiment.
//!
//! ```
//! use ringcall_qec::dem::DetectorErrorModel;
//! let model = ringcall_qec::dem::text::parse("error(0.01) D0 D1 ^ D2 L0\nerror(0.02) D0 L0")?;
//! assert_eq!((model.num_detectors, model.num_observables), (3, 1));
//! let edges: Vec<_> = model.mechanisms[0].edges().map(|edge| edge.detectors.to_vec()).collect();
//! assert_eq!(edges, [vec![0, 1], vec![2]]);
//! assert_eq!(model.mechanisms[1].edges().count(), 1); // undecomposed: itself
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod text;

use std::collections::HashMap;

use crate::QecError;

/// The most detectors of a model that this crate builds, or reads unless told otherwise: 2^24.
pub const MAX_DETECTORS: u32 = 1 << 24;

/// One independent error mechanism: fires with `probability`, flips these detectors and observables.
#[derive(Debug, Clone, PartialEq)]
pub struct Mechanism {
    /// Chance to fire in a shot, in `0..=1`.
    pub probability: f64,
    /// The detectors that it flips, sorted and unique.
    pub detectors: Vec<u32>,
    /// The observables that it flips, sorted and unique.
    pub observables: Vec<u32>,
    /// Graph-like parts as suggested by a decomposition (`^` in the text format), whose symmetric difference is
    /// the mechanism; empty when undecomposed.
    pub components: Vec<Component>,
}

/// One part of a decomposed [`Mechanism`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Component {
    /// The detectors that it flips, sorted and unique.
    pub detectors: Vec<u32>,
    /// The observables that it flips, sorted and unique.
    pub observables: Vec<u32>,
}

/// One part of a mechanism, borrowed: a component, or the whole of an undecomposed mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MechanismPart<'a> {
    /// The detectors that it flips, sorted and unique.
    pub detectors: &'a [u32],
    /// The observables that it flips, sorted and unique.
    pub observables: &'a [u32],
}

/// A list of independent error mechanisms over numbered detectors and observables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DetectorErrorModel {
    /// Detectors are `0..num_detectors`, whether or not a mechanism flips them.
    pub num_detectors: u32,
    /// Observables are `0..num_observables`.
    pub num_observables: u32,
    /// The mechanisms, in the order of their source.
    pub mechanisms: Vec<Mechanism>,
    /// The coordinates of each detector. An inner list is empty for a detector without coordinates; the outer list has
    /// `num_detectors` entries or none.
    pub coordinates: Vec<Vec<f64>>,
}

impl Mechanism {
    /// The components, or the mechanism itself as one component if it has none.
    pub fn edges(&self) -> impl Iterator<Item = MechanismPart<'_>> {
        let whole = MechanismPart { detectors: &self.detectors, observables: &self.observables };
        let undecomposed = self.components.is_empty().then_some(whole);
        undecomposed.into_iter().chain(
            self.components
                .iter()
                .map(|part| MechanismPart { detectors: &part.detectors, observables: &part.observables }),
        )
    }

    /// Whether every edge flips at most two detectors, as a matching decoder needs.
    pub fn is_graphlike(&self) -> bool {
        self.edges().all(|edge| edge.detectors.len() <= 2)
    }
}

impl DetectorErrorModel {
    /// Checks the invariants that the fields' documentation states.
    ///
    /// # Errors
    /// [`QecError::Model`] names the first mechanism whose probability is not in `0..=1`, whose lists are
    /// unsorted, repeat or leave the declared range, or whose components do not add up to it;
    /// [`QecError::Coordinates`] names the fault of the coordinates.
    pub fn validate(&self) -> Result<(), QecError> {
        for (index, mechanism) in self.mechanisms.iter().enumerate() {
            let fail = |reason: String| Err(QecError::Model { mechanism: index, reason });
            if !(0.0..=1.0).contains(&mechanism.probability) {
                return fail(format!("probability {} is not between 0 and 1", mechanism.probability));
            }
            let whole =
                MechanismPart { detectors: &mechanism.detectors, observables: &mechanism.observables };
            for edge in std::iter::once(whole).chain(mechanism.edges()) {
                for (kind, list, count) in [
                    ("detector", edge.detectors, self.num_detectors),
                    ("observable", edge.observables, self.num_observables),
                ] {
                    if !list.is_sorted_by(|a, b| a < b) {
                        return fail(format!("{kind}s {list:?} are not sorted and unique"));
                    }
                    if let Some(&last) = list.last().filter(|&&last| last >= count) {
                        return fail(format!("{kind} {last} is out of range: the model has {count}"));
                    }
                }
            }
            if !mechanism.components.is_empty() {
                let parts = &mechanism.components;
                if !is_symmetric_sum(&mechanism.detectors, parts, |part| &part.detectors)
                    || !is_symmetric_sum(&mechanism.observables, parts, |part| &part.observables)
                {
                    return fail("its components do not add up to it".to_owned());
                }
            }
        }
        let given = self.coordinates.len();
        if given != 0 && given != self.num_detectors as usize {
            let reason = format!("given for {given} detectors, but the model has {}", self.num_detectors);
            return Err(QecError::Coordinates { reason });
        }
        if let Some(detector) = self.coordinates.iter().position(|list| !list.iter().all(|x| x.is_finite())) {
            let reason = format!("those of detector {detector} are not finite");
            return Err(QecError::Coordinates { reason });
        }
        Ok(())
    }
}

impl DetectorErrorModel {
    /// The round of each detector, from its last coordinate, the time: detectors of the smallest time are in round 0, those of
    /// the next in round 1, and so on without gaps.
    ///
    /// ```
    /// let text = "error(0.1) D0 D1\ndetector(1, 0, 0.5) D0\ndetector(1, 0, 3) D1\ndetector(5, 0, 0.5) D2";
    /// assert_eq!(ringcall_qec::dem::text::parse(text)?.rounds()?, [0, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`QecError::Coordinates`] names the first detector without coordinates, or whose last one is not finite.
    pub fn rounds(&self) -> Result<Vec<u32>, QecError> {
        let time = |detector: usize| match self.coordinates.get(detector).and_then(|list| list.last()) {
            Some(time) if time.is_finite() => Ok(*time),
            found => {
                let found = if found.is_some() { "a time that is not finite" } else { "no coordinates" };
                let reason = format!("detector {detector} has {found}, so its round is not known");
                Err(QecError::Coordinates { reason })
            }
        };
        let times = (0..self.num_detectors as usize).map(time).collect::<Result<Vec<f64>, _>>()?;
        let mut rounds = times.clone();
        rounds.sort_unstable_by(f64::total_cmp);
        // By value: 0 and -0 are the same time.
        rounds.dedup();
        Ok(times.iter().map(|&time| rounds.partition_point(|&other| other < time) as u32).collect())
    }
}

impl DetectorErrorModel {
    /// The model of some detectors alone, for drawing shots: of every mechanism what it flips among those that `keeps` names, and
    /// observables. Mechanisms that flip the same then are one. The joint distribution of those detectors and all observables is that of
    /// this model; the other detectors keep their numbers and never fire. Mechanisms have no components.
    ///
    /// ```
    /// let model = ringcall_qec::dem::text::parse("error(0.1) D0 L0\nerror(0.2) D0 D1 L0\nerror(0.3) D1")?;
    /// let kept = model.marginal(|detector| detector == 0);
    /// assert_eq!((kept.num_detectors, kept.mechanisms.len()), (2, 1));
    /// assert!((kept.mechanisms[0].probability - (0.1 * 0.8 + 0.9 * 0.2)).abs() < 1e-15);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn marginal(&self, mut keeps: impl FnMut(u32) -> bool) -> Self {
        let kept: Vec<bool> = (0..self.num_detectors).map(&mut keeps).collect();
        let mut places = HashMap::new();
        let mut mechanisms: Vec<Mechanism> = Vec::new();
        for mechanism in &self.mechanisms {
            let is_kept = |&detector: &u32| kept.get(detector as usize).is_some_and(|&kept| kept);
            let detectors: Vec<u32> = mechanism.detectors.iter().copied().filter(is_kept).collect();
            if detectors.is_empty() && mechanism.observables.is_empty() {
                continue;
            }
            let (p, observables) = (mechanism.probability, mechanism.observables.clone());
            let next = mechanisms.len();
            let at = *places.entry((detectors.clone(), observables.clone())).or_insert(next);
            match mechanisms.get_mut(at) {
                Some(Mechanism { probability: q, .. }) => *q = p * (1.0 - *q) + *q * (1.0 - p),
                None => {
                    let components = Vec::new();
                    mechanisms.push(Mechanism { probability: p, detectors, observables, components });
                }
            }
        }
        Self { mechanisms, coordinates: self.coordinates.clone(), ..*self }
    }
}

/// Whether `whole` holds the elements that occur in an odd number of the parts' lists. All lists are sorted and unique.
fn is_symmetric_sum(whole: &[u32], parts: &[Component], list: fn(&Component) -> &[u32]) -> bool {
    /// Lists of at least this length are sorted rather than searched.
    const MANY: usize = 16;
    let lists = || parts.iter().map(list);
    if lists().map(<[u32]>::len).sum::<usize>() > MANY {
        let mut all: Vec<u32> = lists().flatten().copied().collect();
        cancel_pairs(&mut all);
        return all == whole;
    }
    let odd = |x: &u32| lists().filter(|list| list.contains(x)).count() % 2 == 1;
    whole.iter().all(odd) && lists().flatten().all(|x| odd(x) == whole.contains(x))
}

/// Sorts `list` and keeps one of each value that occurs an odd number of times.
pub(crate) fn cancel_pairs(list: &mut Vec<u32>) {
    list.sort_unstable();
    let mut kept = 0;
    for at in 0..list.len() {
        if kept > 0 && list[kept - 1] == list[at] {
            kept -= 1;
        } else {
            list[kept] = list[at];
            kept += 1;
        }
    }
    list.truncate(kept);
}
