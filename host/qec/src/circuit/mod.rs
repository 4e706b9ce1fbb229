//! Memory experiments under circuit-level noise, and the detector error model of each.
//!
//! [`MemoryExperiment`] describes one experiment: a logical qubit of the rotated surface code is prepared, kept for a number of
//! rounds of syndrome extraction and measured, with Pauli noise in four places ([`CircuitNoise`]). [`MemoryExperiment::circuit`]
//! is its Clifford circuit. [`MemoryExperiment::detector_error_model`] lists the possible faults, with their symptoms, their
//! probabilities and their split into graph-like edges. Circuits, numbering of detectors, probabilities and decomposition are
//! those of Stim 1.16 (`stim.Circuit.generated` and `Circuit.detector_error_model`), which is not needed at run time.
//!
//! [`BicycleMemory`] and [`ColorMemory`] are memory experiments of bivariate bicycle codes, with the published circuit of depth
//! seven, and of triangular colour codes, with Stim's circuit. Their errors flip three and more detectors and have no
//! decomposition into edges, so their mechanisms stay whole ([`Circuit::detector_error_model`]). [`Experiment`] is the experiment
//! of any of these codes by name. `str::parse::<Circuit>` reads any other circuit from Stim's format.
//!
//! The model is found in one backward pass over the circuit, which keeps for each qubit the detectors and observables that an X
//! or a Z inserted at that point would flip. The pass takes time linear in the size of the circuit.

mod analyzer;
mod bicycle;
mod channel;
mod check_order;
mod color;
mod experiment;
mod instruction;
mod layout;
mod measured;
mod memory;
mod records;
mod text;

pub use bicycle::{BicycleMemory, DetectorBases, OperationNoise};
pub use color::ColorMemory;
pub use experiment::{Code, Experiment};
pub use instruction::{Circuit, Gate, Instruction};
pub use layout::{DetectorInfo, DetectorLayout};
pub use measured::MeasurementLayout;
pub use memory::{CircuitNoise, MemoryExperiment};
pub use text::CircuitError;

use crate::QecError;
use crate::dem::MAX_DETECTORS;

/// The most rounds that a memory experiment of this distance can have: its detectors are at most
/// [`MAX_DETECTORS`].
pub fn max_rounds(distance: u32) -> u32 {
    MAX_DETECTORS / distance.saturating_mul(distance).saturating_sub(1).max(1)
}

pub(crate) fn check_rounds(distance: u32, rounds: u32) -> Result<(), QecError> {
    let max = max_rounds(distance);
    if (1..=max).contains(&rounds) { Ok(()) } else { Err(QecError::Rounds { rounds, distance, max }) }
}

/// Checks rounds whose detectors are `per_round` each.
fn check_rounds_of(code: &'static str, rounds: u32, min: u32, per_round: u32) -> Result<(), QecError> {
    let max = MAX_DETECTORS / per_round.max(1);
    if (min..=max).contains(&rounds) { Ok(()) } else { Err(QecError::RoundsOf { code, rounds, min, max }) }
}

/// Checks noise rates, each with its name and the largest value that its channel allows.
fn check_rates<const N: usize>(rates: [(&'static str, f64, f64); N]) -> Result<(), QecError> {
    // Written so that NaN fails.
    match rates.into_iter().find(|(_, value, max)| !(0.0..=*max).contains(value)) {
        Some((name, value, max)) => Err(QecError::NoiseRate { name, value, max }),
        None => Ok(()),
    }
}
