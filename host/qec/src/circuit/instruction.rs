//! A small intermediate representation for noisy Clifford circuits, printed in Stim's circuit format.

use std::fmt::{self, Display, Formatter};

use crate::code::Basis;

/// A gate, a measurement, a reset or a noise channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gate {
    /// Reset to |0>.
    ResetZ,
    /// Reset to |+>.
    ResetX,
    /// Hadamard.
    H,
    /// Takes X to Y, Y to Z and Z to X.
    CXyz,
    /// Controlled X; targets come in pairs, control first.
    Cx,
    /// Measure Z.
    MeasureZ,
    /// Measure X.
    MeasureX,
    /// Measure Y.
    MeasureY,
    /// Measure Z, then reset to |0>.
    MeasureResetZ,
    /// X with this probability.
    XError(f64),
    /// Z with this probability.
    ZError(f64),
    /// One of the 3 non-identity Paulis, with this probability in total, evenly.
    Depolarize1(f64),
    /// One of the 15 non-identity two-qubit Paulis, with this probability in total, evenly; targets come in pairs.
    Depolarize2(f64),
}

/// One line of a circuit.
#[derive(Debug, Clone, PartialEq)]
pub enum Instruction {
    /// Names the position of a qubit.
    QubitCoordinates {
        /// The qubit.
        qubit: u32,
        /// Its position.
        position: (f64, f64),
    },
    /// A gate or channel applied to each target (or pair of targets), in order.
    Gate {
        /// What is applied.
        gate: Gate,
        /// To which qubits.
        targets: Vec<u32>,
    },
    /// End of a layer.
    Tick,
    /// Adds 1 to the time of the detectors that follow.
    NextLayer,
    /// A detector: the parity of earlier measurements, 1 being the most recent.
    Detector {
        /// Its `x`, `y` and its time since the last [`Instruction::NextLayer`].
        coordinates: [f64; 3],
        /// How far back each measurement lies, sorted.
        lookback: Vec<u32>,
    },
    /// Adds earlier measurements to an observable.
    ObservableInclude {
        /// The observable.
        observable: u32,
        /// How far back each measurement lies, sorted.
        lookback: Vec<u32>,
    },
    /// Repeats a block.
    Repeat {
        /// How often, at least once.
        count: u32,
        /// The block.
        body: Vec<Instruction>,
    },
}

/// A circuit; `Display` prints it in Stim's circuit format.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circuit {
    pub(super) instructions: Vec<Instruction>,
}

impl Circuit {
    /// Its instructions, in order.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Appends a gate, joined to the last instruction if that is the same gate; no targets, no instruction.
    pub(super) fn gate(&mut self, gate: Gate, targets: &[u32]) {
        match self.instructions.last_mut() {
            _ if targets.is_empty() => {}
            Some(Instruction::Gate { gate: last, targets: before }) if *last == gate => {
                before.extend_from_slice(targets);
            }
            _ => self.push(Instruction::Gate { gate, targets: targets.to_vec() }),
        }
    }

    /// Appends a noise channel; one of probability 0 is left out.
    pub(super) fn noise(&mut self, channel: Gate, targets: &[u32]) {
        if channel.probability().is_some_and(|p| p > 0.0) {
            self.gate(channel, targets);
        }
    }

    pub(super) fn push(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }
}

impl Gate {
    /// Its name in Stim's circuit format.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResetZ => "R",
            Self::ResetX => "RX",
            Self::H => "H",
            Self::CXyz => "C_XYZ",
            Self::Cx => "CX",
            Self::MeasureZ => "M",
            Self::MeasureX => "MX",
            Self::MeasureY => "MY",
            Self::MeasureResetZ => "MR",
            Self::XError(_) => "X_ERROR",
            Self::ZError(_) => "Z_ERROR",
            Self::Depolarize1(_) => "DEPOLARIZE1",
            Self::Depolarize2(_) => "DEPOLARIZE2",
        }
    }

    /// The probability of a noise channel; `None` for everything else.
    pub fn probability(self) -> Option<f64> {
        match self {
            Self::XError(p) | Self::ZError(p) | Self::Depolarize1(p) | Self::Depolarize2(p) => Some(p),
            _ => None,
        }
    }

    /// The reset to the +1 state of `basis`.
    pub(super) fn reset(basis: Basis) -> Self {
        match basis {
            Basis::X => Self::ResetX,
            Basis::Z => Self::ResetZ,
        }
    }

    /// The measurement of `basis`.
    pub(super) fn measure(basis: Basis) -> Self {
        match basis {
            Basis::X => Self::MeasureX,
            Basis::Z => Self::MeasureZ,
        }
    }

    /// The error that flips a state of `basis`.
    pub(super) fn flip(basis: Basis, probability: f64) -> Self {
        match basis {
            Basis::X => Self::ZError(probability),
            Basis::Z => Self::XError(probability),
        }
    }

    pub(super) fn measures(self) -> bool {
        matches!(self, Self::MeasureZ | Self::MeasureX | Self::MeasureY | Self::MeasureResetZ)
    }
}

impl Display for Circuit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_block(&self.instructions, 0, f)
    }
}

fn write_block(block: &[Instruction], indent: usize, f: &mut Formatter<'_>) -> fmt::Result {
    for instruction in block {
        write!(f, "{:indent$}", "")?;
        match instruction {
            Instruction::QubitCoordinates { qubit, position: (x, y) } => {
                write!(f, "QUBIT_COORDS({x}, {y}) {qubit}")?;
            }
            Instruction::Gate { gate, targets } => {
                f.write_str(gate.name())?;
                if let Some(p) = gate.probability() {
                    write!(f, "({p})")?;
                }
                targets.iter().try_for_each(|target| write!(f, " {target}"))?;
            }
            Instruction::Tick => f.write_str("TICK")?,
            Instruction::NextLayer => f.write_str("SHIFT_COORDS(0, 0, 1)")?,
            Instruction::Detector { coordinates: [x, y, t], lookback } => {
                write!(f, "DETECTOR({x}, {y}, {t})")?;
                lookback.iter().try_for_each(|back| write!(f, " rec[-{back}]"))?;
            }
            Instruction::ObservableInclude { observable, lookback } => {
                write!(f, "OBSERVABLE_INCLUDE({observable})")?;
                lookback.iter().try_for_each(|back| write!(f, " rec[-{back}]"))?;
            }
            Instruction::Repeat { count, body } => {
                writeln!(f, "REPEAT {count} {{")?;
                write_block(body, indent + 4, f)?;
                write!(f, "{:indent$}}}", "")?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
}
