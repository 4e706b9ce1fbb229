//! One point of a study, and the seeds of its shots.

use ringcall_qec::circuit::{Code, DetectorBases, Experiment};
use ringcall_qec::code::Basis;
use ringcall_qec::sample::derived_seed;

/// A memory experiment under uniform circuit noise, or a given error model. It displays as its name in a state: `d7/r7/z/p0.003`
/// for the surface code, `color/d5/r5/p0.003`, `bb144/r12/z/p0.003`, `bb144/r12/z/both/p0.003` with detectors of both bases;
/// `model/00f1e2d3c4b5a697/o1/d5/r5/p0.003` for a given model, without the numbers that are unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The experiment. For a given model, the numbers that describe it: distance, rounds and noise, each 0 if unknown.
    pub experiment: Experiment,
    /// The error model that replaces the experiment's.
    pub given: Option<GivenModel>,
}

/// An error model of [`Study::models`](super::Study::models).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenModel {
    /// The model's identity: a digest of its text.
    pub digest: u64,
    /// The number of observables.
    pub observables: u32,
}

impl From<Experiment> for Point {
    fn from(experiment: Experiment) -> Self {
        Self { experiment, given: None }
    }
}

impl std::ops::Deref for Point {
    type Target = Experiment;

    fn deref(&self) -> &Experiment {
        &self.experiment
    }
}

impl Point {
    /// A point of the surface code.
    #[must_use]
    pub fn surface(distance: u32, rounds: u32, basis: Basis, p: f64) -> Self {
        Experiment { distance, rounds, basis, p, ..Experiment::of(Code::Surface) }.into()
    }

    /// A point of a given model with these numbers, each 0 if unknown.
    #[must_use]
    pub fn of_model(model: GivenModel, distance: u32, rounds: u32, p: f64) -> Self {
        Self { given: Some(model), ..Self::surface(distance, rounds, Basis::Z, p) }
    }

    /// The number of observables of the point's model.
    #[must_use]
    pub fn observables(&self) -> u32 {
        self.given.map_or_else(|| self.code.observables(), |model| model.observables)
    }

    /// The seed of one batch: its shots are the first ones of `Sampler::new(&model, seed)`, regardless of the study's other
    /// points.
    #[must_use]
    pub fn seed(&self, seed: u64, batch: u64) -> u64 {
        if let Some(GivenModel { digest, .. }) = self.given {
            return derived_seed(seed, &[digest, batch]);
        }
        let basis = match self.basis {
            Basis::X => 0,
            Basis::Z => 1,
        };
        let (distance, rounds, p) = (self.distance.into(), self.rounds.into(), self.p.to_bits());
        // The numbers of codes are fixed, so that a code's shots never change.
        let code = match self.code {
            Code::Surface => return derived_seed(seed, &[distance, rounds, basis, p, batch]),
            Code::Color => 1,
            Code::Bb72 => 2,
            Code::Bb144 => 3,
            Code::Bb288 => 4,
        };
        let both = u64::from(self.detectors == DetectorBases::Both);
        derived_seed(seed, &[distance, rounds, basis, p, batch, code, both])
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Experiment { code, distance, rounds, basis, detectors, p } = self.experiment;
        if let Some(GivenModel { digest, observables }) = self.given {
            write!(f, "model/{digest:016x}/o{observables}")?;
            for (letter, number) in [('d', distance), ('r', rounds)] {
                if number > 0 {
                    write!(f, "/{letter}{number}")?;
                }
            }
            return if p > 0.0 { write!(f, "/p{p}") } else { Ok(()) };
        }
        if code != Code::Surface {
            write!(f, "{}/", code.name())?;
        }
        if code.distance().is_none() {
            write!(f, "d{distance}/")?;
        }
        write!(f, "r{rounds}/")?;
        if code.has_basis() {
            write!(f, "{}/", if basis == Basis::X { 'x' } else { 'z' })?;
        }
        if code.has_detector_bases() && detectors == DetectorBases::Both {
            f.write_str("both/")?;
        }
        // The shortest decimal that reads back as this number: two points have one name only if they are equal.
        write!(f, "p{p}")
    }
}
