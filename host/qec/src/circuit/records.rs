//! The detectors and observables that each measurement of a circuit is a part of.

use super::instruction::{Circuit, Instruction};
use crate::dem::{Component, cancel_pairs};

impl Circuit {
    /// For each measurement, in the order of the record, the detectors and observables that a wrong outcome flips.
    ///
    /// ```
    /// use ringcall_qec::circuit::Circuit;
    /// let circuit: Circuit = "M 0 1\nDETECTOR rec[-2] rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]\nDETECTOR rec[-1]".parse()?;
    /// let flips = circuit.measurement_flips();
    /// assert_eq!(flips.iter().map(|flips| flips.detectors.as_slice()).collect::<Vec<_>>(), [&[0][..], &[0, 1]]);
    /// assert_eq!(flips[1].observables, [0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn measurement_flips(&self) -> Vec<Component> {
        let mut records = Records::default();
        records.block(self.instructions());
        for flips in &mut records.flips {
            cancel_pairs(&mut flips.detectors);
            cancel_pairs(&mut flips.observables);
        }
        records.flips
    }
}

#[derive(Default)]
struct Records {
    flips: Vec<Component>,
    detectors: u32,
}

impl Records {
    fn block(&mut self, block: &[Instruction]) {
        for instruction in block {
            match instruction {
                Instruction::Gate { gate, targets } if gate.measures() => {
                    self.flips.resize(self.flips.len() + targets.len(), Component::default());
                }
                Instruction::Detector { lookback, .. } => {
                    let detector = self.detectors;
                    self.detectors += 1;
                    self.each(lookback, |flips| flips.detectors.push(detector));
                }
                Instruction::ObservableInclude { observable, lookback } => {
                    self.each(lookback, |flips| flips.observables.push(*observable));
                }
                Instruction::Repeat { count, body } => (0..*count).for_each(|_| self.block(body)),
                Instruction::Gate { .. }
                | Instruction::QubitCoordinates { .. }
                | Instruction::Tick
                | Instruction::ShiftCoordinates(_) => {}
            }
        }
    }

    /// No circuit refers to measurements before its first.
    fn each(&mut self, lookback: &[u32], mut enter: impl FnMut(&mut Component)) {
        for &back in lookback {
            let place = self.flips.len().checked_sub(back as usize);
            if let Some(flips) = place.and_then(|place| self.flips.get_mut(place)) {
                enter(flips);
            }
        }
    }
}
