//! A fast, seeded sampler of detector error models.
//!
//! Mechanisms are rare, so the sampler does not draw for each of them whether it fires: it draws how many mechanisms to skip
//! until the next one that does. For that, mechanisms are sorted by falling probability and cut into *classes*, each from its
//! largest probability `p` down to, but not including, `p / 2`. Within a class the gap to the next candidate is geometric,
//! `floor(ln u / ln(1 - p))`, and a candidate less likely than `p` is accepted with the ratio of the two. A shot costs a little
//! per class and per fired mechanism, and allocates nothing.
//!
//! # The stream of random numbers
//! A seed gives the same shots on every platform and in every later version; a test holds some of them.
//! * Generator: xoshiro256++, its state filled from the 64-bit seed by SplitMix64 (`seed_from_u64` of
//!   `rand_xoshiro`). Stream `k` starts `k` jumps of 2^128 draws later, so workers never overlap.
//! * Order within a shot: classes by falling probability, members by falling probability, then by index.
//! * Gap: one draw `x`; `u = ((x >> 11) + 1) / 2^53`, in `(0, 1]`. The logarithms are those of the `libm` crate,
//!   which computes them in software alike everywhere. Probabilities below 2^-53 are therefore sampled as 2^-53.
//! * Acceptance: a ratio of 1 draws nothing; any other ratio draws one `x`, accepted if `x >> 11 < ratio * 2^53`.
//!
//! ```
//! use ringcall_qec::sample::Sampler;
//!
//! let model = ringcall_qec::dem::text::parse("error(0.25) D0 D1 L0\nerror(0.25) D1")?;
//! let mut sampler = Sampler::new(&model, 7)?;
//! let mut shot = sampler.new_shot();
//! let mut errors = 0;
//! for _ in 0..1000 {
//!     sampler.sample_into(&mut shot)?;
//!     assert_eq!(shot.detectors.get(0), shot.observables.get(0));
//!     errors += shot.observables.count_ones();
//! }
//! assert!((200..300).contains(&errors));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bulk;

pub use bulk::BulkSampler;

use std::sync::Arc;

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

use crate::QecError;
use crate::dem::DetectorErrorModel;
use crate::shots::{Shot, ShotError, ShotLayout};

/// The steps of a uniform draw: 53 bits fill the mantissa of an `f64` exactly.
const STEPS: f64 = (1u64 << 53) as f64;

/// Draws shots from a detector error model. See the [module](self).
#[derive(Debug, Clone)]
pub struct Sampler {
    tables: Arc<Tables>,
    origin: Xoshiro256PlusPlus,
    rng: Xoshiro256PlusPlus,
}

/// The tables that the samplers of all streams share.
#[derive(Debug)]
struct Tables {
    layout: ShotLayout,
    classes: Vec<Class>,
    members: Vec<Member>,
    /// The targets of all members, one after the other: detectors first, then observables.
    targets: Vec<u32>,
}

/// Members of similar probability: `members[start..end]`.
#[derive(Debug)]
struct Class {
    /// `1 / ln(1 - p)` of the largest probability `p`: negative, and -0 for 1.
    inverse_log: f64,
    start: usize,
    end: usize,
}

/// A mechanism in the sampler's form.
#[derive(Debug)]
struct Member {
    /// The number of draws, of 2^53, that accept it.
    accepted: u64,
    /// It flips the detectors `targets[detectors..observables]` and the observables `targets[observables..end]`.
    detectors: usize,
    observables: usize,
    end: usize,
}

impl Sampler {
    /// A sampler of the first stream of `seed`.
    ///
    /// # Errors
    /// The error of [`DetectorErrorModel::validate`].
    pub fn new(model: &DetectorErrorModel, seed: u64) -> Result<Self, QecError> {
        model.validate()?;
        let origin = Xoshiro256PlusPlus::seed_from_u64(seed);
        Ok(Self { tables: Arc::new(Tables::new(model)), rng: origin.clone(), origin })
    }

    /// A sampler of stream `index` of the same seed, at that stream's start; [`new`](Self::new) gives stream
    /// 0. The tables are shared, so one sampler per worker costs nothing.
    pub fn stream(&self, index: u32) -> Self {
        let mut rng = self.origin.clone();
        for _ in 0..index {
            rng.jump();
        }
        Self { tables: Arc::clone(&self.tables), origin: self.origin.clone(), rng }
    }

    /// A sampler of the first stream of another seed, as [`new`](Self::new) gives it; the tables are shared.
    pub fn reseeded(&self, seed: u64) -> Self {
        let origin = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { tables: Arc::clone(&self.tables), rng: origin.clone(), origin }
    }

    /// The shape of the shots.
    pub fn layout(&self) -> ShotLayout {
        self.tables.layout
    }

    /// A shot of the right shape, to sample into.
    pub fn new_shot(&self) -> Shot {
        Shot::new(self.layout())
    }

    /// Draws the next shot: detectors, and the observables that truly flipped.
    ///
    /// # Errors
    /// [`ShotError::Layout`] when `shot` is of another shape; no random number is drawn then.
    pub fn sample_into(&mut self, shot: &mut Shot) -> Result<(), ShotError> {
        let Self { tables, rng, .. } = self;
        shot.check(tables.layout)?;
        shot.clear();
        for class in &tables.classes {
            let mut at = class.start;
            loop {
                // The product is never negative; a gap past the end may be far past what fits an integer.
                let gap = libm::log(uniform(rng)) * class.inverse_log;
                if gap >= (class.end - at) as f64 {
                    break;
                }
                at += gap as usize;
                let member = &tables.members[at];
                if member.accepted == STEPS as u64 || rng.next_u64() >> 11 < member.accepted {
                    for &detector in &tables.targets[member.detectors..member.observables] {
                        shot.detectors.toggle(detector);
                    }
                    for &observable in &tables.targets[member.observables..member.end] {
                        shot.observables.toggle(observable);
                    }
                }
                at += 1;
                if at == class.end {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Derives a seed from a seed and a list of numbers (a distance, the bits of a probability, a batch), so that shots depend on the
/// numbers and not on the order of drawing. Each number in turn is combined by exclusive or with the result so far, and goes
/// through SplitMix64.
///
/// ```
/// use ringcall_qec::sample::derived_seed;
/// assert_ne!(derived_seed(1, &[7, 0]), derived_seed(1, &[7, 1]));
/// assert_ne!(derived_seed(1, &[7, 0]), derived_seed(1, &[0, 7]));
/// ```
pub fn derived_seed(seed: u64, of: &[u64]) -> u64 {
    of.iter().fold(seed, |seed, number| SplitMix64::seed_from_u64(seed ^ number).next_u64())
}

/// A uniform draw from `(0, 1]` in steps of 2^-53.
fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / STEPS
}

impl Tables {
    fn new(model: &DetectorErrorModel) -> Self {
        let mut order: Vec<_> =
            model.mechanisms.iter().filter(|mechanism| mechanism.probability > 0.0).collect();
        order.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let mut tables = Self {
            layout: ShotLayout::with_observables(model.num_detectors, model.num_observables),
            classes: Vec::new(),
            members: Vec::with_capacity(order.len()),
            targets: Vec::new(),
        };
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let largest = first.probability;
            let count = rest.partition_point(|mechanism| mechanism.probability > largest / 2.0);
            let start = tables.members.len();
            for mechanism in &rest[..count] {
                let detectors = tables.targets.len();
                tables.targets.extend(&mechanism.detectors);
                let observables = tables.targets.len();
                tables.targets.extend(&mechanism.observables);
                let end = tables.targets.len();
                let accepted = (mechanism.probability / largest * STEPS).round() as u64;
                tables.members.push(Member { accepted, detectors, observables, end });
            }
            let inverse_log = 1.0 / libm::log1p(-largest.max(1.0 / STEPS));
            tables.classes.push(Class { inverse_log, start, end: tables.members.len() });
            rest = &rest[count..];
        }
        tables
    }
}
