//! Memory experiments of bivariate bicycle codes, with the published syndrome circuit of depth seven.
//!
//! The circuit is that of Bravyi et al. (Nature 627, 778 (2024), arXiv:2308.07915, Table 5): eight layers a round, of which
//! seven have CNOTs. X check qubits are reset in the first layer and measured in the eighth, Z check qubits are measured in the
//! seventh and reset in the eighth, for the next round. Every operation is faulty, idling included.

use super::instruction::{Circuit, Gate, Instruction};
use super::{check_rates, check_rounds_of};
use crate::QecError;
use crate::code::{Basis, BicycleCode};
use crate::dem::DetectorErrorModel;

/// The monomial by which a check meets its data qubit in a layer: of `A` or of `B`, and which.
type Step = Option<(usize, usize)>;

const A: usize = 0;
const B: usize = 1;

/// What X checks and Z checks do in the seven layers with CNOTs: Table 5 of the paper.
const SCHEDULE: [(Step, Step); 7] = [
    (None, Some((A, 0))),
    (Some((A, 1)), Some((A, 2))),
    (Some((B, 1)), Some((B, 0))),
    (Some((B, 0)), Some((B, 1))),
    (Some((B, 2)), Some((B, 2))),
    (Some((A, 0)), Some((A, 1))),
    (Some((A, 2)), None),
];

/// Circuit-level noise by operation; a rate of 0 is no noise. In the paper's model all four rates are `p`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OperationNoise {
    /// Two-qubit depolarising after every CNOT. At most 15/16.
    pub cnot: f64,
    /// One-qubit depolarising of every data qubit in every layer in which it takes part in no CNOT. At most 0.75.
    pub idle: f64,
    /// A flip of every qubit just before its measurement. At most 1.
    pub measure: f64,
    /// A flip of every qubit just after its reset. At most 1.
    pub reset: f64,
}

impl OperationNoise {
    /// All four rates equal to `p`.
    pub fn uniform(p: f64) -> Self {
        Self { cnot: p, idle: p, measure: p, reset: p }
    }
}

/// Which checks have detectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DetectorBases {
    /// Those of the memory's basis: errors of the other basis flip no detector. This is the published decoding problem.
    #[default]
    Memory,
    /// Those of both bases: a larger model, which distinguishes Y errors from X and Z errors.
    Both,
}

/// A memory experiment: all logical qubits of a bivariate bicycle code are prepared in one basis, kept for some rounds and
/// measured.
///
/// Detectors come in layers: for each round the X checks, then the Z checks, each by place; then those that compare the read-out
/// of the data qubits with the last round. Checks of the other basis have no detectors in the first round and at the read-out.
/// Observable `i` is logical operator `i` of the memory's basis ([`CssCode::logical`](crate::code::CssCode::logical)).
///
/// ```
/// use ringcall_qec::circuit::{BicycleMemory, DetectorBases, OperationNoise};
/// use ringcall_qec::code::{Basis, BicycleCode};
/// let code = BicycleCode::named("bb72")?;
/// let noise = OperationNoise::uniform(0.003);
/// let detectors = DetectorBases::Memory;
/// let memory = BicycleMemory { code: &code, rounds: 6, basis: Basis::Z, detectors, noise };
/// let model = memory.detector_error_model()?;
/// assert_eq!((model.num_detectors, model.num_observables), (252, 12));
/// assert_eq!(model.mechanisms.len(), 2232);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BicycleMemory<'a> {
    /// The code.
    pub code: &'a BicycleCode,
    /// Rounds of syndrome extraction, at least 1.
    pub rounds: u32,
    /// Basis in which the data qubits are prepared and measured.
    pub basis: Basis,
    /// Which checks have detectors.
    pub detectors: DetectorBases,
    /// Noise rates.
    pub noise: OperationNoise,
}

impl BicycleMemory<'_> {
    /// Checks the parameters without making a circuit.
    ///
    /// # Errors
    /// [`QecError::RoundsOf`] or [`QecError::NoiseRate`] names the parameter out of range.
    pub fn check(&self) -> Result<(), QecError> {
        let OperationNoise { cnot, idle, measure, reset } = self.noise;
        check_rates([
            ("cnot", cnot, 15.0 / 16.0),
            ("idle", idle, 0.75),
            ("measure", measure, 1.0),
            ("reset", reset, 1.0),
        ])?;
        check_rounds_of("this code", self.rounds, 1, 2 * self.code.places())
    }

    /// The circuit. Qubits are the data qubits as [`BicycleCode`] numbers them, then the X checks, then the Z checks.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn circuit(&self) -> Result<Circuit, QecError> {
        self.check()?;
        Ok(self.build())
    }

    /// The detector error model of [`circuit`](Self::circuit), undecomposed: equal to Stim's. Coordinates are `(x, y, t)` with
    /// `x` and `y` even for X checks and odd for Z checks.
    ///
    /// # Errors
    /// As [`circuit`](Self::circuit).
    pub fn detector_error_model(&self) -> Result<DetectorErrorModel, QecError> {
        self.circuit()?.detector_error_model()
    }

    fn qubits(&self) -> Qubits {
        let places = self.code.places();
        let range = |from: u32| (from * places..(from + 1) * places).collect();
        Qubits { data: (0..2 * places).collect(), x: range(2), z: range(3) }
    }

    fn build(&self) -> Circuit {
        let qubits = self.qubits();
        let mut circuit = Circuit::default();
        self.qubit_coordinates(&mut circuit);
        self.reset(&mut circuit, self.basis, &qubits.data);
        self.reset(&mut circuit, Basis::Z, &qubits.z);
        circuit.push(Instruction::Tick);
        self.round(&mut circuit, &qubits);
        self.round_detectors(&mut circuit, true);
        let mut body = Circuit::default();
        self.round(&mut body, &qubits);
        self.round_detectors(&mut body, false);
        match self.rounds - 1 {
            0 => {}
            1 => circuit.instructions.append(&mut body.instructions),
            count => circuit.push(Instruction::Repeat { count, body: body.instructions }),
        }
        self.read_out(&mut circuit, &qubits);
        circuit
    }

    fn qubit_coordinates(&self, circuit: &mut Circuit) {
        // The left half lies between X checks along y, the right half along x.
        for (from, dx, dy) in [(0, 0, 1), (1, 1, 0), (2, 0, 0), (3, 1, 1)] {
            for place in 0..self.code.places() {
                let (x, y) = self.at(place);
                let position = (x + f64::from(dx), y + f64::from(dy));
                circuit.push(Instruction::QubitCoordinates {
                    qubit: from * self.code.places() + place,
                    position,
                });
            }
        }
    }

    /// The position of the X check at a place.
    fn at(&self, place: u32) -> (f64, f64) {
        let (_, m) = self.code.torus();
        (f64::from(2 * (place / m)), f64::from(2 * (place % m)))
    }

    fn reset(&self, circuit: &mut Circuit, basis: Basis, targets: &[u32]) {
        circuit.gate(Gate::reset(basis), targets);
        circuit.noise(Gate::flip(basis, self.noise.reset), targets);
    }

    fn measure(&self, circuit: &mut Circuit, basis: Basis, targets: &[u32]) {
        circuit.noise(Gate::flip(basis, self.noise.measure), targets);
        circuit.gate(Gate::measure(basis), targets);
    }

    /// One round of syndrome extraction: layers one to eight of the paper.
    fn round(&self, circuit: &mut Circuit, qubits: &Qubits) {
        let places = self.code.places();
        for (layer, (x_step, z_step)) in SCHEDULE.into_iter().enumerate() {
            if layer == 0 {
                self.reset(circuit, Basis::X, &qubits.x);
            }
            if z_step.is_none() {
                self.measure(circuit, Basis::Z, &qubits.z);
            }
            let mut pairs = Vec::with_capacity(4 * places as usize);
            let mut idle = vec![true; 2 * places as usize];
            for (basis, step) in [(Basis::X, x_step), (Basis::Z, z_step)] {
                let Some((polynomial, monomial)) = step else { continue };
                for place in 0..places {
                    let data = self.code.by_monomial(basis, place)[polynomial][monomial];
                    idle[data as usize] = false;
                    pairs.extend(match basis {
                        Basis::X => [qubits.x[place as usize], data],
                        Basis::Z => [data, qubits.z[place as usize]],
                    });
                }
            }
            circuit.gate(Gate::Cx, &pairs);
            circuit.noise(Gate::Depolarize2(self.noise.cnot), &pairs);
            let idle: Vec<u32> = qubits.data.iter().copied().filter(|&data| idle[data as usize]).collect();
            circuit.noise(Gate::Depolarize1(self.noise.idle), &idle);
            circuit.push(Instruction::Tick);
        }
        self.measure(circuit, Basis::X, &qubits.x);
        self.reset(circuit, Basis::Z, &qubits.z);
        circuit.noise(Gate::Depolarize1(self.noise.idle), &qubits.data);
        circuit.push(Instruction::Tick);
    }

    /// How far back the check qubit of a place was measured, at the end of a round: Z checks before X checks.
    fn lookback(&self, basis: Basis, place: u32) -> u32 {
        let places = self.code.places();
        match basis {
            Basis::X => places - place,
            Basis::Z => 2 * places - place,
        }
    }

    fn detector(&self, circuit: &mut Circuit, basis: Basis, place: u32, t: f64, lookback: Vec<u32>) {
        let (x, y) = self.at(place);
        let offset = if basis == Basis::X { 0.0 } else { 1.0 };
        circuit.push(Instruction::Detector { coordinates: vec![x + offset, y + offset, t], lookback });
    }

    /// The first round has detectors for the checks of the prepared basis; later rounds compare each check with the round before.
    fn round_detectors(&self, circuit: &mut Circuit, first: bool) {
        if !first {
            circuit.next_layer();
        }
        let watched =
            |basis: &Basis| *basis == self.basis || (self.detectors == DetectorBases::Both && !first);
        for basis in Basis::BOTH.into_iter().filter(watched) {
            for place in 0..self.code.places() {
                let back = self.lookback(basis, place);
                let before = (!first).then_some(back + 2 * self.code.places());
                let lookback = std::iter::once(back).chain(before).collect();
                self.detector(circuit, basis, place, 0.0, lookback);
            }
        }
    }

    /// Measures the data qubits, which determine the checks and the logical operators of that basis.
    fn read_out(&self, circuit: &mut Circuit, qubits: &Qubits) {
        let (basis, css) = (self.basis, self.code.css());
        self.measure(circuit, basis, &qubits.data);
        let num_data = css.num_data();
        let data = |support: &[u32]| support.iter().rev().map(|data| num_data - data).collect::<Vec<u32>>();
        for (place, check) in (0..).zip(css.checks(basis)) {
            let mut lookback = data(check);
            lookback.push(num_data + self.lookback(basis, place));
            self.detector(circuit, basis, place, 1.0, lookback);
        }
        for (observable, support) in (0..).zip(css.logical(basis)) {
            circuit.push(Instruction::ObservableInclude { observable, lookback: data(support) });
        }
    }
}

struct Qubits {
    data: Vec<u32>,
    x: Vec<u32>,
    z: Vec<u32>,
}
