//! The memory experiment of the rotated surface code: its noise, its circuit, its detector error model.

use super::check_order::{by_column, by_row};
use super::instruction::{Circuit, Gate, Instruction};
use super::layout::DetectorLayout;
use super::{analyzer, check_rates, check_rounds};
use crate::QecError;
use crate::code::{Basis, Stabilizer, SurfaceCode};
use crate::dem::DetectorErrorModel;

/// Circuit-level noise: the four rates of Stim's generated circuits; a rate of 0 is no noise.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CircuitNoise {
    /// Depolarising after every gate: one-qubit after H, two-qubit after CX. At most 0.75.
    pub after_clifford_depolarization: f64,
    /// One-qubit depolarising of every data qubit at the start of every round. At most 0.75.
    pub before_round_data_depolarization: f64,
    /// A flip of every measured qubit just before its measurement. At most 1.
    pub before_measure_flip_probability: f64,
    /// A flip of every reset qubit just after its reset. At most 1.
    pub after_reset_flip_probability: f64,
}

impl CircuitNoise {
    /// All four rates equal to `p`.
    pub fn uniform(p: f64) -> Self {
        Self {
            after_clifford_depolarization: p,
            before_round_data_depolarization: p,
            before_measure_flip_probability: p,
            after_reset_flip_probability: p,
        }
    }

    pub(super) fn validate(&self) -> Result<(), QecError> {
        check_rates([
            ("after_clifford_depolarization", self.after_clifford_depolarization, 0.75),
            ("before_round_data_depolarization", self.before_round_data_depolarization, 0.75),
            ("before_measure_flip_probability", self.before_measure_flip_probability, 1.0),
            ("after_reset_flip_probability", self.after_reset_flip_probability, 1.0),
        ])
    }
}

/// A memory experiment: a logical qubit of the rotated surface code kept for some rounds.
///
/// ```
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// let noise = CircuitNoise::uniform(0.001);
/// let experiment = MemoryExperiment { distance: 5, rounds: 5, basis: Basis::Z, noise };
/// let model = experiment.detector_error_model()?;
/// assert_eq!((model.num_detectors, model.num_observables), (120, 1));
/// assert!(model.mechanisms.iter().all(|mechanism| mechanism.is_graphlike()));
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryExperiment {
    /// Code distance, odd, at least 3.
    pub distance: u32,
    /// Rounds of syndrome extraction, at least 1.
    pub rounds: u32,
    /// Basis in which the data qubits are prepared and measured.
    pub basis: Basis,
    /// Noise rates.
    pub noise: CircuitNoise,
}

impl MemoryExperiment {
    /// The circuit, equal to Stim's `stim.Circuit.generated("surface_code:rotated_memory_x|z", ...)`.
    ///
    /// # Errors
    /// [`QecError::Distance`], [`QecError::Rounds`] or [`QecError::NoiseRate`] names the parameter out of range.
    pub fn circuit(&self) -> Result<Circuit, QecError> {
        let code = self.checked_code()?;
        Ok(Builder::new(self, &code).build())
    }

    /// The detector error model with every mechanism split into edges of at most two detectors, equal to Stim's
    /// with `decompose_errors=True, flatten_loops=True`. Mechanisms that flip the same but split differently stay
    /// apart. Coordinates are `(x, y, t)`.
    ///
    /// # Errors
    /// As [`Self::circuit`].
    pub fn detector_error_model(&self) -> Result<DetectorErrorModel, QecError> {
        analyzer::detector_error_model(&self.circuit()?, true)
    }

    /// The detector error model with one undecomposed mechanism for each set of symptoms, equal to Stim's with
    /// `decompose_errors=False, flatten_loops=True`. Coordinates are `(x, y, t)`.
    ///
    /// # Errors
    /// As [`Self::circuit`].
    pub fn undecomposed_detector_error_model(&self) -> Result<DetectorErrorModel, QecError> {
        analyzer::detector_error_model(&self.circuit()?, false)
    }

    /// The check and the layer of time of each detector.
    ///
    /// # Errors
    /// As [`Self::circuit`].
    pub fn detector_layout(&self) -> Result<DetectorLayout, QecError> {
        Ok(DetectorLayout::new(&self.checked_code()?, self.rounds, self.basis))
    }

    /// Checks the parameters without making a circuit.
    ///
    /// # Errors
    /// As [`Self::circuit`].
    pub fn check(&self) -> Result<(), QecError> {
        self.checked_code().map(drop)
    }

    fn checked_code(&self) -> Result<SurfaceCode, QecError> {
        self.noise.validate()?;
        let code = SurfaceCode::new(self.distance)?;
        check_rounds(self.distance, self.rounds)?;
        Ok(code)
    }
}

struct Builder<'a> {
    experiment: &'a MemoryExperiment,
    code: &'a SurfaceCode,
    /// Every check in the order of measurement.
    checks: Vec<&'a Stabilizer>,
    data: Vec<u32>,
    ancillas: Vec<u32>,
    x_ancillas: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(experiment: &'a MemoryExperiment, code: &'a SurfaceCode) -> Self {
        let checks: Vec<_> = by_row(code).into_iter().map(|(_, check)| check).collect();
        let qubit = |position| qubit_at(code.distance(), position);
        let mut x_ancillas: Vec<u32> = code.stabilizers(Basis::X).iter().map(|c| qubit(c.position)).collect();
        x_ancillas.sort_unstable();
        Self {
            experiment,
            code,
            data: (0..code.num_data()).filter_map(|data| code.data_position(data)).map(qubit).collect(),
            ancillas: checks.iter().map(|check| qubit(check.position)).collect(),
            x_ancillas,
            checks,
        }
    }

    fn build(&self) -> Circuit {
        let mut circuit = Circuit::default();
        self.qubit_coordinates(&mut circuit);
        self.reset(&mut circuit, self.experiment.basis, &self.data);
        self.reset(&mut circuit, Basis::Z, &self.ancillas);
        self.round(&mut circuit);
        self.first_detectors(&mut circuit);
        let mut body = Circuit::default();
        self.round(&mut body);
        self.later_detectors(&mut body);
        match self.experiment.rounds - 1 {
            0 => {}
            1 => circuit.instructions.append(&mut body.instructions),
            count => circuit.push(Instruction::Repeat { count, body: body.instructions }),
        }
        self.read_out(&mut circuit);
        circuit
    }

    fn qubit_coordinates(&self, circuit: &mut Circuit) {
        let data = (0..self.code.num_data()).filter_map(|data| self.code.data_position(data));
        let mut qubits: Vec<_> = data
            .chain(self.checks.iter().map(|check| check.position))
            .map(|position| (qubit_at(self.code.distance(), position), position))
            .collect();
        qubits.sort_unstable();
        for (qubit, position) in qubits {
            let position = (f64::from(position.0), f64::from(position.1));
            circuit.push(Instruction::QubitCoordinates { qubit, position });
        }
    }

    fn reset(&self, circuit: &mut Circuit, basis: Basis, targets: &[u32]) {
        circuit.gate(Gate::reset(basis), targets);
        let p = self.experiment.noise.after_reset_flip_probability;
        circuit.noise(Gate::flip(basis, p), targets);
    }

    /// One round of syndrome extraction: Hadamards around four layers of controlled X, then a measurement of all ancillas.
    fn round(&self, circuit: &mut Circuit) {
        let noise = &self.experiment.noise;
        let hadamards = |circuit: &mut Circuit| {
            circuit.gate(Gate::H, &self.x_ancillas);
            circuit.noise(Gate::Depolarize1(noise.after_clifford_depolarization), &self.x_ancillas);
            circuit.push(Instruction::Tick);
        };
        circuit.push(Instruction::Tick);
        circuit.noise(Gate::Depolarize1(noise.before_round_data_depolarization), &self.data);
        hadamards(circuit);
        for layer in 0..4 {
            let pairs = self.pairs(layer);
            circuit.gate(Gate::Cx, &pairs);
            circuit.noise(Gate::Depolarize2(noise.after_clifford_depolarization), &pairs);
            circuit.push(Instruction::Tick);
        }
        hadamards(circuit);
        let before_measure = Gate::XError(noise.before_measure_flip_probability);
        circuit.noise(before_measure, &self.ancillas);
        circuit.gate(Gate::MeasureResetZ, &self.ancillas);
        circuit.noise(Gate::XError(noise.after_reset_flip_probability), &self.ancillas);
    }

    /// Controls and targets of one layer: an X check's ancilla controls, a Z check's is controlled.
    fn pairs(&self, layer: usize) -> Vec<u32> {
        let mut pairs = Vec::with_capacity(2 * self.checks.len());
        for basis in Basis::BOTH {
            for (_, check) in by_column(self.code, basis) {
                if let Some(data) = check.schedule[layer] {
                    let ancilla = qubit_at(self.code.distance(), check.position);
                    let data = self.data[data as usize];
                    pairs.extend(match basis {
                        Basis::X => [ancilla, data],
                        Basis::Z => [data, ancilla],
                    });
                }
            }
        }
        pairs
    }

    /// How far back the ancilla of the check at `position` was measured, at the end of a round.
    fn lookback(&self, position: (u32, u32)) -> u32 {
        let (x, y) = position;
        let index = self.checks.partition_point(|check| (check.position.1, check.position.0) < (y, x));
        (self.checks.len() - index) as u32
    }

    /// Detectors of the first round: the checks of the prepared basis alone.
    fn first_detectors(&self, circuit: &mut Circuit) {
        for (_, check) in by_column(self.code, self.experiment.basis) {
            let (x, y) = at(check);
            let lookback = vec![self.lookback(check.position)];
            circuit.push(Instruction::Detector { coordinates: vec![x, y, 0.0], lookback });
        }
    }

    /// Detectors of later rounds: each check is compared with the round before.
    fn later_detectors(&self, circuit: &mut Circuit) {
        circuit.next_layer();
        let per_round = self.checks.len() as u32;
        for (back, check) in (1..=per_round).rev().zip(&self.checks) {
            let (x, y) = at(check);
            let lookback = vec![back, back + per_round];
            circuit.push(Instruction::Detector { coordinates: vec![x, y, 0.0], lookback });
        }
    }

    /// Measures the data qubits, which determine the checks of that basis.
    fn read_out(&self, circuit: &mut Circuit) {
        let basis = self.experiment.basis;
        let p = self.experiment.noise.before_measure_flip_probability;
        circuit.noise(Gate::flip(basis, p), &self.data);
        circuit.gate(Gate::measure(basis), &self.data);
        let num_data = self.code.num_data();
        for (_, check) in by_column(self.code, basis) {
            let (x, y) = at(check);
            let mut lookback: Vec<u32> = check.support.iter().rev().map(|data| num_data - data).collect();
            lookback.push(num_data + self.lookback(check.position));
            circuit.push(Instruction::Detector { coordinates: vec![x, y, 1.0], lookback });
        }
        let lookback = self.code.logical(basis).iter().rev().map(|data| num_data - data).collect();
        circuit.push(Instruction::ObservableInclude { observable: 0, lookback });
    }
}

/// The position of a check, as coordinates.
fn at(check: &Stabilizer) -> (f64, f64) {
    (f64::from(check.position.0), f64::from(check.position.1))
}

/// The number of the qubit at a position in Stim's generated circuits: row by row over the lattice, with gaps.
fn qubit_at(distance: u32, (x, y): (u32, u32)) -> u32 {
    x + (y - x % 2) / 2 * (2 * distance + 1)
}
