//! Circuit analysis: from a noisy Clifford circuit to its detector error model, in one backward pass.

use std::collections::HashMap;

use super::channel::{self, Mechanisms, OBSERVABLE, Products, SEPARATOR, add_symptoms};
use super::instruction::{Circuit, Gate, Instruction};
use crate::QecError;
use crate::dem::{Component, DetectorErrorModel, Mechanism, cancel_pairs};

impl Circuit {
    /// The detector error model with one undecomposed mechanism for each set of symptoms: as Stim's
    /// `Circuit.detector_error_model(flatten_loops=True)`. A mechanism may flip any number of detectors.
    ///
    /// # Errors
    /// [`QecError::RandomDetector`] for a detector or observable that is random without noise.
    pub fn detector_error_model(&self) -> Result<DetectorErrorModel, QecError> {
        detector_error_model(self, false)
    }

    /// The same model with every mechanism split into edges of at most two detectors, for matching. If some mechanism does not
    /// split into parts of its own noise channel, no mechanism is split.
    ///
    /// # Errors
    /// As [`detector_error_model`](Self::detector_error_model).
    pub fn split_detector_error_model(&self) -> Result<DetectorErrorModel, QecError> {
        match detector_error_model(self, true) {
            Err(QecError::Undecomposable { .. }) => self.detector_error_model(),
            split => split,
        }
    }
}

/// The detector error model of `circuit`, with its mechanisms split into edges if `decompose`.
///
/// # Errors
/// [`QecError::RandomDetector`] for a detector or observable that is random without noise;
/// [`QecError::Undecomposable`] for a mechanism that does not split into edges.
pub(super) fn detector_error_model(
    circuit: &Circuit,
    decompose: bool,
) -> Result<DetectorErrorModel, QecError> {
    let totals = Totals::of(&circuit.instructions);
    let mut analyzer = Analyzer {
        x: vec![Vec::new(); totals.qubits as usize],
        z: vec![Vec::new(); totals.qubits as usize],
        records: HashMap::new(),
        measurements: totals.measurements,
        detectors: totals.detectors,
        decompose,
        mechanisms: Mechanisms::new(totals.detectors, totals.observables),
        products: Products::default(),
        scratch: Vec::new(),
    };
    analyzer.undo_block(&circuit.instructions)?;
    // Every qubit starts as |0>.
    (0..totals.qubits as usize).try_for_each(|qubit| analyzer.undo_reset(qubit, Gate::ResetZ))?;
    let mechanisms = analyzer
        .mechanisms
        .iter()
        .map(|(symptoms, probability)| mechanism(symptoms, probability))
        .collect::<Vec<_>>();
    if decompose && let Some(hyperedge) = mechanisms.iter().find(|mechanism| !mechanism.is_graphlike()) {
        return Err(QecError::Undecomposable {
            detectors: hyperedge.detectors.clone(),
            observables: hyperedge.observables.clone(),
        });
    }
    let mut coordinates = Vec::with_capacity(totals.detectors as usize);
    detector_coordinates(&circuit.instructions, &mut Vec::new(), &mut coordinates);
    // A model has coordinates of all detectors or of none.
    if coordinates.iter().all(Vec::is_empty) {
        coordinates.clear();
    }
    Ok(DetectorErrorModel {
        num_detectors: totals.detectors,
        num_observables: totals.observables,
        mechanisms,
        coordinates,
    })
}

fn mechanism(symptoms: &[u32], probability: f64) -> Mechanism {
    let component = |symptoms: &[u32]| {
        let (detectors, observables) = symptoms.split_at(symptoms.partition_point(|&s| s < OBSERVABLE));
        Component {
            detectors: detectors.to_vec(),
            observables: observables.iter().map(|observable| observable ^ OBSERVABLE).collect(),
        }
    };
    if !symptoms.contains(&SEPARATOR) {
        let Component { detectors, observables } = component(symptoms);
        return Mechanism { probability, detectors, observables, components: Vec::new() };
    }
    let mut whole: Vec<u32> = symptoms.iter().copied().filter(|&symptom| symptom != SEPARATOR).collect();
    cancel_pairs(&mut whole);
    let Component { detectors, observables } = component(&whole);
    let components = symptoms.split(|&symptom| symptom == SEPARATOR).map(component).collect();
    Mechanism { probability, detectors, observables, components }
}

fn detector_coordinates(block: &[Instruction], shift: &mut Vec<f64>, coordinates: &mut Vec<Vec<f64>>) {
    for instruction in block {
        match instruction {
            Instruction::ShiftCoordinates(by) => {
                shift.resize(shift.len().max(by.len()), 0.0);
                shift.iter_mut().zip(by).for_each(|(sum, by)| *sum += by);
            }
            Instruction::Detector { coordinates: own, .. } => {
                let shift = shift.iter().chain(std::iter::repeat(&0.0));
                coordinates.push(own.iter().zip(shift).map(|(own, by)| own + by).collect());
            }
            Instruction::Repeat { count, body } => {
                (0..*count).for_each(|_| detector_coordinates(body, shift, coordinates));
            }
            _ => {}
        }
    }
}

/// The sizes of a circuit.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    qubits: u32,
    measurements: u64,
    detectors: u32,
    observables: u32,
}

impl Totals {
    fn of(block: &[Instruction]) -> Self {
        let mut totals = Self::default();
        for instruction in block {
            match instruction {
                Instruction::Gate { gate, targets } => {
                    totals.qubits = targets.iter().fold(totals.qubits, |most, &target| most.max(target + 1));
                    totals.measurements += if gate.measures() { targets.len() as u64 } else { 0 };
                }
                Instruction::Detector { .. } => totals.detectors += 1,
                Instruction::ObservableInclude { observable, .. } => {
                    totals.observables = totals.observables.max(observable + 1);
                }
                Instruction::Repeat { count, body } => {
                    let body = Self::of(body);
                    totals.qubits = totals.qubits.max(body.qubits);
                    totals.observables = totals.observables.max(body.observables);
                    totals.measurements += u64::from(*count) * body.measurements;
                    totals.detectors += count * body.detectors;
                }
                Instruction::QubitCoordinates { .. }
                | Instruction::Tick
                | Instruction::ShiftCoordinates(_) => {}
            }
        }
        totals
    }
}

struct Analyzer {
    /// Per qubit, the symptoms that hold an X there at this point: a Z flips them.
    x: Vec<Vec<u32>>,
    /// Per qubit, the symptoms that hold a Z there at this point: an X flips them.
    z: Vec<Vec<u32>>,
    /// Per earlier measurement, the symptoms that contain it.
    records: HashMap<u64, Vec<u32>>,
    /// Measurements before this point.
    measurements: u64,
    /// Detectors before this point.
    detectors: u32,
    decompose: bool,
    mechanisms: Mechanisms,
    products: Products,
    scratch: Vec<u32>,
}

impl Analyzer {
    fn undo_block(&mut self, block: &[Instruction]) -> Result<(), QecError> {
        for instruction in block.iter().rev() {
            match instruction {
                Instruction::Gate { gate, targets } => self.undo_gate(*gate, targets)?,
                Instruction::Detector { lookback, .. } => {
                    self.detectors -= 1;
                    self.include(self.detectors, lookback);
                }
                Instruction::ObservableInclude { observable, lookback } => {
                    self.include(OBSERVABLE | observable, lookback);
                }
                Instruction::Repeat { count, body } => {
                    (0..*count).try_for_each(|_| self.undo_block(body))?;
                }
                Instruction::QubitCoordinates { .. }
                | Instruction::Tick
                | Instruction::ShiftCoordinates(_) => {}
            }
        }
        Ok(())
    }

    fn include(&mut self, symptom: u32, lookback: &[u32]) {
        for &back in lookback {
            let record = self.records.entry(self.measurements - u64::from(back)).or_default();
            add_symptoms(record, &[symptom], &mut self.scratch);
        }
    }

    fn undo_gate(&mut self, gate: Gate, targets: &[u32]) -> Result<(), QecError> {
        let mut singles = targets.iter().rev().map(|&target| target as usize);
        // Only paired gates have an even number of targets.
        let pairs = targets.chunks_exact(2).rev().map(|pair| (pair[0] as usize, pair[1] as usize));
        match gate {
            Gate::H => singles.for_each(|qubit| std::mem::swap(&mut self.x[qubit], &mut self.z[qubit])),
            Gate::S => {
                singles.for_each(|qubit| add_symptoms(&mut self.z[qubit], &self.x[qubit], &mut self.scratch));
            }
            Gate::SqrtX => {
                singles.for_each(|qubit| add_symptoms(&mut self.x[qubit], &self.z[qubit], &mut self.scratch));
            }
            Gate::CXyz => singles.for_each(|qubit| self.undo_c_xyz(qubit)),
            Gate::CZyx => singles.for_each(|qubit| self.undo_c_zyx(qubit)),
            Gate::Cx => pairs.for_each(|(control, target)| self.undo_cx(control, target)),
            Gate::ResetZ | Gate::ResetX => singles.try_for_each(|qubit| self.undo_reset(qubit, gate))?,
            Gate::MeasureZ | Gate::MeasureX => {
                singles.try_for_each(|qubit| self.undo_measure(qubit, gate))?;
            }
            Gate::NoisyMeasureZ(p) | Gate::NoisyMeasureX(p) | Gate::NoisyMeasureY(p) => {
                let exact = match gate {
                    Gate::NoisyMeasureZ(_) => Gate::MeasureZ,
                    Gate::NoisyMeasureX(_) => Gate::MeasureX,
                    _ => Gate::MeasureY,
                };
                singles.try_for_each(|qubit| {
                    if let Some(record) = self.records.get(&(self.measurements - 1)) {
                        self.mechanisms.add(p, record);
                    }
                    self.undo_gate(exact, &[qubit as u32])
                })?;
            }
            Gate::MeasureY => singles.try_for_each(|qubit| self.undo_measure_y(qubit))?,
            Gate::MeasureResetZ => singles.try_for_each(|qubit| {
                self.undo_reset(qubit, Gate::ResetZ)?;
                self.undo_measure(qubit, Gate::MeasureZ)
            })?,
            Gate::XError(p) => singles.for_each(|qubit| self.mechanisms.add(p, &self.z[qubit])),
            Gate::YError(p) => singles.for_each(|qubit| {
                let mut symptoms = self.x[qubit].clone();
                add_symptoms(&mut symptoms, &self.z[qubit], &mut self.scratch);
                self.mechanisms.add(p, &symptoms);
            }),
            Gate::ZError(p) => singles.for_each(|qubit| self.mechanisms.add(p, &self.x[qubit])),
            Gate::Depolarize1(p) => {
                let part = channel::depolarize1_part(p);
                singles.for_each(|a| {
                    let faults = [self.x[a].as_slice(), &self.z[a]];
                    self.products.add_to(&mut self.mechanisms, part, &faults, self.decompose);
                });
            }
            Gate::Depolarize2(p) => {
                let part = channel::depolarize2_part(p);
                pairs.for_each(|(a, b)| {
                    let faults = [self.x[a].as_slice(), &self.z[a], &self.x[b], &self.z[b]];
                    self.products.add_to(&mut self.mechanisms, part, &faults, self.decompose);
                });
            }
        }
        Ok(())
    }

    /// An X on the control spreads to the target, a Z on the target to the control.
    fn undo_cx(&mut self, control: usize, target: usize) {
        add_symptoms_at(&mut self.x, target, control, &mut self.scratch);
        add_symptoms_at(&mut self.z, control, target, &mut self.scratch);
    }

    /// A Z after the gate was an X + Z = Y before it, an X a Z.
    fn undo_c_xyz(&mut self, qubit: usize) {
        let (x, z) = (&mut self.x[qubit], &mut self.z[qubit]);
        std::mem::swap(x, z);
        add_symptoms(z, x, &mut self.scratch);
    }

    /// An X after the gate was a Y before it, a Z an X.
    fn undo_c_zyx(&mut self, qubit: usize) {
        let (x, z) = (&mut self.x[qubit], &mut self.z[qubit]);
        std::mem::swap(x, z);
        add_symptoms(x, z, &mut self.scratch);
    }

    fn undo_reset(&mut self, qubit: usize, gate: Gate) -> Result<(), QecError> {
        let (kept, random) = self.along_and_across(qubit, gate);
        kept.clear();
        random.first().map_or(Ok(()), |&symptom| Err(random_detector(symptom, qubit)))
    }

    fn undo_measure(&mut self, qubit: usize, gate: Gate) -> Result<(), QecError> {
        self.measurements -= 1;
        let record = self.records.remove(&self.measurements).unwrap_or_default();
        let mut scratch = std::mem::take(&mut self.scratch);
        let (kept, random) = self.along_and_across(qubit, gate);
        add_symptoms(kept, &record, &mut scratch);
        let result = random.first().map_or(Ok(()), |&symptom| Err(random_detector(symptom, qubit)));
        self.scratch = scratch;
        result
    }

    fn undo_measure_y(&mut self, qubit: usize) -> Result<(), QecError> {
        self.measurements -= 1;
        let record = self.records.remove(&self.measurements).unwrap_or_default();
        let (x, z) = (&mut self.x[qubit], &mut self.z[qubit]);
        // A symptom that holds a Y is in both lists. A symptom in one list alone anticommutes with Y.
        let mut across = x.clone();
        add_symptoms(&mut across, z, &mut self.scratch);
        add_symptoms(x, &record, &mut self.scratch);
        add_symptoms(z, &record, &mut self.scratch);
        across.first().map_or(Ok(()), |&symptom| Err(random_detector(symptom, qubit)))
    }

    /// The symptoms of the Pauli that a reset fixes or a measurement reads, and those of the Pauli that it scrambles.
    fn along_and_across(&mut self, qubit: usize, gate: Gate) -> (&mut Vec<u32>, &mut Vec<u32>) {
        let (x, z) = (&mut self.x[qubit], &mut self.z[qubit]);
        if matches!(gate, Gate::ResetX | Gate::MeasureX) { (x, z) } else { (z, x) }
    }
}

/// Adds the symptoms of qubit `from` to those of qubit `to`, two different qubits.
fn add_symptoms_at(all: &mut [Vec<u32>], to: usize, from: usize, scratch: &mut Vec<u32>) {
    if let Ok([to, from]) = all.get_disjoint_mut([to, from]) {
        add_symptoms(to, from, scratch);
    }
}

fn random_detector(symptom: u32, qubit: usize) -> QecError {
    let kind = if symptom < OBSERVABLE { "detector" } else { "observable" };
    QecError::RandomDetector { kind, index: symptom & !OBSERVABLE, qubit: qubit as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detector(lookback: &[u32]) -> Instruction {
        Instruction::Detector { coordinates: vec![0.0; 3], lookback: lookback.to_vec() }
    }

    fn targets(mechanism: &Mechanism) -> (&[u32], &[u32]) {
        (&mechanism.detectors, &mechanism.observables)
    }

    #[test]
    fn a_repetition_of_measurements_sees_each_flip_twice() {
        // Two rounds of an ancilla that checks one data qubit, which is then read out.
        let mut body = Circuit::default();
        body.gate(Gate::XError(0.25), &[0]);
        body.gate(Gate::Cx, &[0, 1]);
        body.gate(Gate::MeasureResetZ, &[1]);
        body.push(detector(&[1]));
        let mut circuit = Circuit::default();
        circuit.push(Instruction::Repeat { count: 2, body: body.instructions });
        circuit.gate(Gate::MeasureZ, &[0]);
        circuit.push(Instruction::ObservableInclude { observable: 2, lookback: vec![1] });
        let model = detector_error_model(&circuit, true).unwrap();
        assert_eq!((model.num_detectors, model.num_observables), (2, 3));
        let found: Vec<_> = model.mechanisms.iter().map(targets).collect();
        assert_eq!(found, [(&[0, 1][..], &[2][..]), (&[1], &[2])]);
    }

    #[test]
    fn a_detector_that_is_random_without_noise_is_refused() {
        let mut circuit = Circuit::default();
        circuit.gate(Gate::H, &[3]);
        circuit.gate(Gate::MeasureZ, &[3]);
        circuit.push(detector(&[1]));
        let error = detector_error_model(&circuit, false).unwrap_err();
        assert_eq!(error, QecError::RandomDetector { kind: "detector", index: 0, qubit: 3 });
        // The same through a measurement: Z after X is random.
        let mut circuit = Circuit::default();
        circuit.gate(Gate::ResetX, &[0]);
        circuit.gate(Gate::MeasureX, &[0]);
        circuit.gate(Gate::MeasureZ, &[0]);
        circuit.push(Instruction::ObservableInclude { observable: 1, lookback: vec![1] });
        let error = detector_error_model(&circuit, false).unwrap_err();
        assert_eq!(error, QecError::RandomDetector { kind: "observable", index: 1, qubit: 0 });
    }

    #[test]
    fn y_is_read_out_after_one_turn_of_x_and_two_of_z() {
        for (reset, turns) in [(Gate::ResetX, 1), (Gate::ResetZ, 2)] {
            let model = |error| {
                let mut circuit = Circuit::default();
                circuit.gate(reset, &[0]);
                (0..turns).for_each(|_| circuit.gate(Gate::CXyz, &[0]));
                circuit.gate(error, &[0]);
                circuit.gate(Gate::MeasureY, &[0]);
                circuit.push(detector(&[1]));
                detector_error_model(&circuit, false).unwrap()
            };
            assert_eq!(model(Gate::XError(0.25)).mechanisms.len(), 1);
            assert_eq!(model(Gate::ZError(0.25)).mechanisms.len(), 1);
            // Of the three Paulis, Y alone flips nothing.
            let both = model(Gate::Depolarize1(0.75));
            assert!((both.mechanisms[0].probability - 0.5).abs() < 1e-12);
        }
        for reset in [Gate::ResetX, Gate::ResetZ] {
            let mut circuit = Circuit::default();
            circuit.gate(reset, &[4]);
            circuit.gate(Gate::MeasureY, &[4]);
            circuit.push(detector(&[1]));
            let error = detector_error_model(&circuit, false).unwrap_err();
            assert_eq!(error, QecError::RandomDetector { kind: "detector", index: 0, qubit: 4 });
        }
    }

    #[test]
    fn an_error_that_does_not_split_is_refused_only_when_asked_to_split() {
        let mut circuit = Circuit::default();
        circuit.gate(Gate::XError(0.125), &[0]);
        circuit.gate(Gate::Cx, &[0, 1, 0, 2]);
        circuit.gate(Gate::MeasureZ, &[0, 1, 2]);
        (1..=3).for_each(|back| circuit.push(detector(&[back])));
        let whole = detector_error_model(&circuit, false).unwrap();
        assert_eq!(whole.mechanisms.iter().map(targets).collect::<Vec<_>>(), [(&[0, 1, 2][..], &[][..])]);
        let error = detector_error_model(&circuit, true).unwrap_err();
        assert_eq!(error, QecError::Undecomposable { detectors: vec![0, 1, 2], observables: vec![] });
    }
}
