//! Errors of codes, circuits and detector error models.

use crate::dem::text::DemTextError;

/// Why a code, a circuit or a detector error model could not be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QecError {
    /// Rotated surface codes and triangular colour codes exist here for odd distances only.
    #[error("distance {distance} is not an odd number between 3 and {max}", max = crate::limits::MAX_DISTANCE)]
    Distance {
        /// The distance asked for.
        distance: u32,
    },
    /// A memory experiment needs at least one round, and its detectors must fit in 32 bits.
    #[error("{rounds} rounds at distance {distance}: give at least 1, and at most {max}")]
    Rounds {
        /// The rounds asked for.
        rounds: u32,
        /// The distance they were asked for.
        distance: u32,
        /// The most rounds that this distance can have.
        max: u32,
    },
    /// The checks do not make a code.
    #[error("{reason}")]
    Code {
        /// The fault that was found.
        reason: String,
    },
    /// A memory experiment of a code other than the surface code has too few or too many rounds.
    #[error("{rounds} rounds of {code}: give {min} to {max}")]
    RoundsOf {
        /// The code.
        code: &'static str,
        /// The rounds asked for.
        rounds: u32,
        /// The fewest.
        min: u32,
        /// The most rounds whose detectors fit.
        max: u32,
    },
    /// A noise rate is not a probability that its channel can have.
    #[error("{name} is {value}: give a number between 0 and {max}")]
    NoiseRate {
        /// The rate's name.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The largest value: beyond it a depolarising channel mixes more than fully.
        max: f64,
    },
    /// No configuration has this name.
    #[error("no configuration is named `{name}`; the known ones are {known}")]
    Configuration {
        /// The name asked for.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// A detector error model that contradicts itself.
    #[error("mechanism {mechanism}: {reason}")]
    Model {
        /// Its index in [`DetectorErrorModel::mechanisms`](crate::dem::DetectorErrorModel::mechanisms).
        mechanism: usize,
        /// The fault that was found.
        reason: String,
    },
    /// Coordinates of detectors that do not fit their model.
    #[error("coordinates: {reason}")]
    Coordinates {
        /// The fault that was found.
        reason: String,
    },
    /// A detector or observable that is random even without noise.
    #[error(
        "{kind} {index} is random without any noise: it anticommutes with a reset or measurement of qubit {qubit}"
    )]
    RandomDetector {
        /// `detector` or `observable`.
        kind: &'static str,
        /// Its index.
        index: u32,
        /// The qubit whose reset or measurement makes it random.
        qubit: u32,
    },
    /// A mechanism that flips more than two detectors and does not split into parts of its noise channel.
    #[error(
        "an error that flips detectors {detectors:?} and observables {observables:?} does not decompose into \
         parts of the same noise channel that flip at most two detectors each"
    )]
    Undecomposable {
        /// The detectors that it flips.
        detectors: Vec<u32>,
        /// The observables that it flips.
        observables: Vec<u32>,
    },
    /// The text of a detector error model could not be read.
    #[error(transparent)]
    Parse(#[from] DemTextError),
}
