//! The memory experiment of triangular colour codes, with the circuit of Stim's `color_code:memory_xyz`.
//!
//! Every round applies `C_XYZ` to the data qubits and then measures one check for each face, in the Z basis: three rounds measure
//! X, Y and Z of each face. Two consecutive outcomes determine the next one, so a detector compares three rounds.

use super::instruction::{Circuit, Gate, Instruction};
use super::{CircuitNoise, check_rounds_of};
use crate::QecError;
use crate::code::{ColorCode, Face};
use crate::dem::DetectorErrorModel;

/// The fewest rounds, since a detector compares three.
const MIN_ROUNDS: u32 = 2;

/// A memory experiment: the logical qubit of a triangular colour code kept for some rounds.
///
/// The data qubits start as |0>, an eigenstate of Z. Since every round applies `C_XYZ`, the read-out is in the basis Z, X or Y if
/// the rounds leave the remainder 0, 1 or 2 after division by 3.
///
/// ```
/// use ringcall_qec::circuit::{CircuitNoise, ColorMemory};
/// let memory = ColorMemory { distance: 5, rounds: 5, noise: CircuitNoise::uniform(0.001) };
/// let model = memory.detector_error_model()?;
/// assert_eq!((model.num_detectors, model.num_observables), (45, 1));
/// assert!(!model.mechanisms.iter().all(|mechanism| mechanism.is_graphlike()));
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColorMemory {
    /// Code distance, odd, at least 3.
    pub distance: u32,
    /// Rounds of syndrome extraction, at least 2.
    pub rounds: u32,
    /// Noise rates.
    pub noise: CircuitNoise,
}

impl ColorMemory {
    /// The circuit, equal to Stim's `stim.Circuit.generated("color_code:memory_xyz", ...)`.
    ///
    /// # Errors
    /// [`QecError::Distance`], [`QecError::RoundsOf`] or [`QecError::NoiseRate`] names the parameter out of range.
    pub fn circuit(&self) -> Result<Circuit, QecError> {
        let code = self.checked_code()?;
        Ok(Builder { memory: self, positions: code.positions().collect(), code: &code }.build())
    }

    /// Checks the parameters without making a circuit.
    ///
    /// # Errors
    /// As [`circuit`](Self::circuit).
    pub fn check(&self) -> Result<(), QecError> {
        self.checked_code().map(drop)
    }

    fn checked_code(&self) -> Result<ColorCode, QecError> {
        self.noise.validate()?;
        let code = ColorCode::new(self.distance)?;
        check_rounds_of(
            "a colour code of this distance",
            self.rounds,
            MIN_ROUNDS,
            code.faces().len() as u32,
        )?;
        Ok(code)
    }

    /// The detector error model of [`circuit`](Self::circuit), undecomposed: equal to Stim's. Coordinates are `(x, y, t)`.
    ///
    /// # Errors
    /// As [`circuit`](Self::circuit).
    pub fn detector_error_model(&self) -> Result<DetectorErrorModel, QecError> {
        self.circuit()?.detector_error_model()
    }
}

struct Builder<'a> {
    memory: &'a ColorMemory,
    code: &'a ColorCode,
    positions: Vec<(f64, f64)>,
}

impl Builder<'_> {
    fn build(&self) -> Circuit {
        let mut circuit = Circuit::default();
        for (qubit, &position) in (0..).zip(&self.positions) {
            circuit.push(Instruction::QubitCoordinates { qubit, position });
        }
        let all: Vec<u32> = (0..self.positions.len() as u32).collect();
        circuit.gate(Gate::ResetZ, &all);
        circuit.noise(Gate::XError(self.memory.noise.after_reset_flip_probability), &all);
        let mut two = Circuit::default();
        self.round(&mut two);
        let mut later = Circuit { instructions: two.instructions.clone() };
        circuit.push(Instruction::Repeat { count: MIN_ROUNDS, body: two.instructions });
        // The product of the first two rounds is known, or equals the second round's.
        self.detectors(&mut circuit, 2);
        later.next_layer();
        self.detectors(&mut later, 3);
        match self.memory.rounds - MIN_ROUNDS {
            0 => {}
            1 => circuit.instructions.append(&mut later.instructions),
            count => circuit.push(Instruction::Repeat { count, body: later.instructions }),
        }
        self.read_out(&mut circuit);
        circuit
    }

    fn round(&self, circuit: &mut Circuit) {
        let noise = &self.memory.noise;
        let data = self.code.data_places();
        circuit.push(Instruction::Tick);
        circuit.noise(Gate::Depolarize1(noise.before_round_data_depolarization), data);
        circuit.gate(Gate::CXyz, data);
        circuit.noise(Gate::Depolarize1(noise.after_clifford_depolarization), data);
        circuit.push(Instruction::Tick);
        // Stim's order within a layer: by column.
        let mut by_column: Vec<&Face> = self.code.faces().iter().collect();
        let column = |face: &&Face| self.positions[face.place as usize];
        by_column.sort_by(|a, b| column(a).partial_cmp(&column(b)).unwrap_or(std::cmp::Ordering::Equal));
        for layer in 0..6 {
            let pair = |face: &&Face| face.schedule[layer].map(|data| [data, face.place]);
            let pairs: Vec<u32> = by_column.iter().filter_map(pair).flatten().collect();
            circuit.gate(Gate::Cx, &pairs);
            circuit.noise(Gate::Depolarize2(noise.after_clifford_depolarization), &pairs);
            circuit.push(Instruction::Tick);
        }
        let faces: Vec<u32> = self.code.faces().iter().map(|face| face.place).collect();
        circuit.noise(Gate::XError(noise.before_measure_flip_probability), &faces);
        circuit.gate(Gate::MeasureResetZ, &faces);
        circuit.noise(Gate::XError(noise.after_reset_flip_probability), &faces);
    }

    /// How far back face `index` was measured `rounds` rounds ago, at the end of a round.
    fn lookback(&self, index: usize, rounds: usize) -> u32 {
        let faces = self.code.faces().len();
        ((rounds + 1) * faces - index) as u32
    }

    /// Compares each face over `rounds` rounds.
    fn detectors(&self, circuit: &mut Circuit, rounds: usize) {
        for (index, face) in self.code.faces().iter().enumerate() {
            let (x, y) = self.positions[face.place as usize];
            let lookback = (0..rounds).map(|ago| self.lookback(index, ago)).collect();
            circuit.push(Instruction::Detector { coordinates: vec![x, y, 0.0], lookback });
        }
    }

    /// Measures the data qubits in the basis that the rounds' rotations lead to.
    fn read_out(&self, circuit: &mut Circuit) {
        let p = self.memory.noise.before_measure_flip_probability;
        // The last rounds that measured the product that the read-out gives: Z, X, and Y = X Z.
        let (error, gate, rounds): (_, _, &[usize]) = match self.memory.rounds % 3 {
            0 => (Gate::XError(p), Gate::MeasureZ, &[0]),
            1 => (Gate::ZError(p), Gate::MeasureX, &[1]),
            _ => (Gate::XError(p), Gate::MeasureY, &[0, 1]),
        };
        let data = self.code.data_places();
        circuit.noise(error, data);
        circuit.gate(gate, data);
        let num_data = self.code.num_data();
        let of = |support: &[u32]| support.iter().rev().map(|data| num_data - data).collect::<Vec<u32>>();
        for (index, face) in self.code.faces().iter().enumerate() {
            let (x, y) = self.positions[face.place as usize];
            let mut lookback = of(&face.support);
            lookback.extend(rounds.iter().map(|&ago| num_data + self.lookback(index, ago)));
            circuit.push(Instruction::Detector { coordinates: vec![x, y, 1.0], lookback });
        }
        let lookback = of(&self.code.logical());
        circuit.push(Instruction::ObservableInclude { observable: 0, lookback });
    }
}
