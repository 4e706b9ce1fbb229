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
    /// Takes X to Y and Y to X, Z to itself.
    S,
    /// Takes Y to Z and Z to Y, X to itself.
    SqrtX,
    /// Takes X to Y, Y to Z and Z to X.
    CXyz,
    /// Takes Z to Y, Y to X and X to Z.
    CZyx,
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
    /// Measure Z; the result is wrong with this probability.
    NoisyMeasureZ(f64),
    /// Measure X; the result is wrong with this probability.
    NoisyMeasureX(f64),
    /// Measure Y; the result is wrong with this probability.
    NoisyMeasureY(f64),
    /// X with this probability.
    XError(f64),
    /// Y with this probability.
    YError(f64),
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
        /// The gate or channel.
        gate: Gate,
        /// The qubits.
        targets: Vec<u32>,
    },
    /// End of a layer.
    Tick,
    /// Adds to the coordinates of the detectors that follow.
    ShiftCoordinates(Vec<f64>),
    /// A detector: the parity of earlier measurements, 1 being the most recent.
    Detector {
        /// Its coordinates, less what [`Instruction::ShiftCoordinates`] added before: in the circuits of this crate `x`, `y` and
        /// the time.
        coordinates: Vec<f64>,
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
        /// The number of turns, at least 1.
        count: u32,
        /// The block.
        body: Vec<Instruction>,
    },
}

/// A circuit; `Display` prints it in Stim's circuit format, `parse` reads it.
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

    /// Adds 1 to the time of the detectors that follow.
    pub(super) fn next_layer(&mut self) {
        self.push(Instruction::ShiftCoordinates(vec![0.0, 0.0, 1.0]));
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
            Self::S => "S",
            Self::SqrtX => "SQRT_X",
            Self::CXyz => "C_XYZ",
            Self::CZyx => "C_ZYX",
            Self::Cx => "CX",
            Self::MeasureZ | Self::NoisyMeasureZ(_) => "M",
            Self::MeasureX | Self::NoisyMeasureX(_) => "MX",
            Self::MeasureY | Self::NoisyMeasureY(_) => "MY",
            Self::MeasureResetZ => "MR",
            Self::XError(_) => "X_ERROR",
            Self::YError(_) => "Y_ERROR",
            Self::ZError(_) => "Z_ERROR",
            Self::Depolarize1(_) => "DEPOLARIZE1",
            Self::Depolarize2(_) => "DEPOLARIZE2",
        }
    }

    /// The probability of a noise channel or of a wrong result; `None` for everything else.
    pub fn probability(self) -> Option<f64> {
        match self {
            Self::XError(p)
            | Self::YError(p)
            | Self::ZError(p)
            | Self::Depolarize1(p)
            | Self::Depolarize2(p) => Some(p),
            Self::NoisyMeasureZ(p) | Self::NoisyMeasureX(p) | Self::NoisyMeasureY(p) => Some(p),
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
        use Gate::{
            MeasureResetZ, MeasureX, MeasureY, MeasureZ, NoisyMeasureX, NoisyMeasureY, NoisyMeasureZ,
        };
        matches!(
            self,
            MeasureZ
                | MeasureX
                | MeasureY
                | MeasureResetZ
                | NoisyMeasureZ(_)
                | NoisyMeasureX(_)
                | NoisyMeasureY(_)
        )
    }
}

/// A list in parentheses, or nothing.
struct Arguments<'a>(&'a [f64]);

impl Display for Arguments<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else { return Ok(()) };
        write!(f, "({first}")?;
        rest.iter().try_for_each(|value| write!(f, ", {value}"))?;
        f.write_str(")")
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
            Instruction::ShiftCoordinates(by) => write!(f, "SHIFT_COORDS{}", Arguments(by))?,
            Instruction::Detector { coordinates, lookback } => {
                write!(f, "DETECTOR{}", Arguments(coordinates))?;
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
