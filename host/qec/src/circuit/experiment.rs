//! Memory experiments of every code of this crate, by name and under uniform circuit noise.

use super::{
    BicycleMemory, Circuit, CircuitNoise, ColorMemory, DetectorBases, MemoryExperiment, OperationNoise,
};
use crate::QecError;
use crate::code::{BICYCLE_CODES, Basis, BicycleCode};
use crate::dem::DetectorErrorModel;

/// A code, or a family of codes of any distance, by its name in options and reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Code {
    /// `surface`: the rotated surface code of any odd distance.
    #[default]
    Surface,
    /// `color`: the triangular colour code on hexagons of any odd distance.
    Color,
    /// `bb72`: the bivariate bicycle code `[[72,12,6]]`.
    Bb72,
    /// `bb144`: the bivariate bicycle code `[[144,12,12]]`, the gross code.
    Bb144,
    /// `bb288`: the bivariate bicycle code `[[288,12,18]]`.
    Bb288,
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 5] = [Self::Surface, Self::Color, Self::Bb72, Self::Bb144, Self::Bb288];

    /// The code's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Surface => "surface",
            Self::Color => "color",
            Self::Bb72 => "bb72",
            Self::Bb144 => "bb144",
            Self::Bb288 => "bb288",
        }
    }

    /// The distance of a single code; `None` for a family.
    #[must_use]
    pub const fn distance(self) -> Option<u32> {
        match self {
            Self::Surface | Self::Color => None,
            Self::Bb72 => Some(6),
            Self::Bb144 => Some(12),
            Self::Bb288 => Some(18),
        }
    }

    /// The number of logical qubits, each of which has an observable.
    #[must_use]
    pub const fn observables(self) -> u32 {
        match self {
            Self::Surface | Self::Color => 1,
            Self::Bb72 | Self::Bb144 | Self::Bb288 => 12,
        }
    }

    /// Whether an experiment has a choice of basis. The colour code's goes through all three.
    #[must_use]
    pub const fn has_basis(self) -> bool {
        !matches!(self, Self::Color)
    }

    /// Whether an experiment has a choice of [`DetectorBases`].
    #[must_use]
    pub const fn has_detector_bases(self) -> bool {
        matches!(self, Self::Bb72 | Self::Bb144 | Self::Bb288)
    }

    /// The most detectors of a round, for the code of this distance.
    #[must_use]
    pub fn detectors_per_round(self, distance: u32) -> u64 {
        let d = u64::from(distance);
        let places = |name: &str| {
            let known = BICYCLE_CODES.iter().find(|(known, ..)| *known == name);
            known.map_or(0, |&(_, l, m, ..)| u64::from(l * m))
        };
        match self {
            Self::Surface => (d * d).saturating_sub(1),
            Self::Color => (3 * d * d + 1) / 8,
            Self::Bb72 | Self::Bb144 | Self::Bb288 => 2 * places(self.name()),
        }
    }
}

/// A memory experiment of a code by name, under circuit noise of one strength.
///
/// ```
/// use ringcall_qec::circuit::{Code, Experiment};
/// let experiment = Experiment { p: 0.003, ..Experiment::of(Code::Bb72) };
/// assert_eq!((experiment.distance, experiment.rounds), (6, 6));
/// assert_eq!(experiment.detector_error_model()?.num_observables, 12);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experiment {
    /// The code.
    pub code: Code,
    /// The distance: [`Code::distance`] for a single code.
    pub distance: u32,
    /// Rounds of syndrome extraction.
    pub rounds: u32,
    /// Basis in which the data qubits are prepared and measured; ignored unless [`Code::has_basis`].
    pub basis: Basis,
    /// The checks that have detectors; ignored unless [`Code::has_detector_bases`].
    pub detectors: DetectorBases,
    /// Strength of the noise: every rate of [`CircuitNoise`] or of [`OperationNoise`].
    pub p: f64,
}

impl Experiment {
    /// The experiment in the Z basis without noise, with as many rounds as the distance; a family has distance 7.
    #[must_use]
    pub fn of(code: Code) -> Self {
        let distance = code.distance().unwrap_or(7);
        let detectors = DetectorBases::Memory;
        Self { code, distance, rounds: distance, basis: Basis::Z, detectors, p: 0.0 }
    }

    /// The experiment as one of the surface code; `None` for another code.
    #[must_use]
    pub fn surface(&self) -> Option<MemoryExperiment> {
        let Self { code, distance, rounds, basis, p, .. } = *self;
        let noise = CircuitNoise::uniform(p);
        (code == Code::Surface).then_some(MemoryExperiment { distance, rounds, basis, noise })
    }

    /// Checks the parameters without making a circuit.
    ///
    /// # Errors
    /// As [`circuit`](Self::circuit).
    pub fn check(&self) -> Result<(), QecError> {
        match self.family()? {
            Family::Surface(memory) => memory.check(),
            Family::Color(memory) => memory.check(),
            Family::Bicycle(code) => self.bicycle(&code).check(),
        }
    }

    /// The circuit.
    ///
    /// # Errors
    /// [`QecError::Distance`], [`QecError::Rounds`], [`QecError::RoundsOf`], [`QecError::NoiseRate`]: the parameter out of
    /// range.
    pub fn circuit(&self) -> Result<Circuit, QecError> {
        match self.family()? {
            Family::Surface(memory) => memory.circuit(),
            Family::Color(memory) => memory.circuit(),
            Family::Bicycle(code) => self.bicycle(&code).circuit(),
        }
    }

    fn family(&self) -> Result<Family, QecError> {
        let Self { code, distance, rounds, basis, p, .. } = *self;
        if code.distance().is_some_and(|only| only != distance) {
            return Err(QecError::Distance { distance });
        }
        let noise = CircuitNoise::uniform(p);
        Ok(match code {
            Code::Surface => Family::Surface(MemoryExperiment { distance, rounds, basis, noise }),
            Code::Color => Family::Color(ColorMemory { distance, rounds, noise }),
            Code::Bb72 | Code::Bb144 | Code::Bb288 => Family::Bicycle(BicycleCode::named(code.name())?),
        })
    }

    fn bicycle<'a>(&self, code: &'a BicycleCode) -> BicycleMemory<'a> {
        let Self { rounds, basis, detectors, p, .. } = *self;
        BicycleMemory { code, rounds, basis, detectors, noise: OperationNoise::uniform(p) }
    }

    /// The detector error model: split into edges for the surface code, undecomposed for every other code.
    ///
    /// # Errors
    /// As [`circuit`](Self::circuit).
    pub fn detector_error_model(&self) -> Result<DetectorErrorModel, QecError> {
        match self.surface() {
            Some(surface) => surface.detector_error_model(),
            None => self.circuit()?.detector_error_model(),
        }
    }
}

/// An experiment of one code family.
enum Family {
    Surface(MemoryExperiment),
    Color(ColorMemory),
    Bicycle(BicycleCode),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detectors_of_a_round_are_those_of_the_model() {
        for code in Code::ALL {
            let detectors = DetectorBases::Both;
            let experiment = Experiment { rounds: 3, detectors, ..Experiment::of(code) };
            let model = experiment.detector_error_model().unwrap();
            let per_round = code.detectors_per_round(experiment.distance);
            assert_eq!(u64::from(model.num_detectors), 3 * per_round, "{code:?}");
        }
    }

    #[test]
    fn a_code_of_one_distance_has_no_other() {
        let error = Experiment { distance: 5, ..Experiment::of(Code::Bb72) }.circuit().unwrap_err();
        assert_eq!(error, QecError::Distance { distance: 5 });
    }

    #[test]
    fn a_check_refuses_what_a_circuit_refuses() {
        for code in Code::ALL {
            let good = Experiment::of(code);
            assert_eq!(good.check(), Ok(()));
            for bad in [Experiment { rounds: 0, ..good }, Experiment { p: 0.8, ..good }] {
                assert_eq!(bad.check(), bad.circuit().map(drop), "{bad:?}");
                assert!(bad.check().is_err(), "{bad:?}");
            }
        }
    }
}
