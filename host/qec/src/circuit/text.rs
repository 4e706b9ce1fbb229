//! Reader of Stim's circuit format, for instructions whose detector error model is exact.
//!
//! Signs do not matter to an error model, so each Clifford gate is read as a gate that equals it up to Paulis, and Paulis are
//! left out. Two-qubit gates, measurements of Pauli products, and resets and measurements in other bases become CX and one-qubit
//! gates. `!` before a target and qubit coordinates are skipped. Classically controlled gates, channels of disjoint errors
//! (`PAULI_CHANNEL_1` and the like, which Stim only approximates), and correlated and heralded errors are refused.

use super::instruction::{Circuit, Gate, Instruction};
use crate::dem::MAX_DETECTORS;

/// The most qubits, observables and gate targets of a circuit, counting each turn of a block.
const MAX_QUBITS: u32 = 1 << 20;
const MAX_OBSERVABLES: u64 = 1 << 16;
const MAX_TARGETS: u64 = 1 << 27;
/// The deepest nesting of blocks.
const MAX_DEPTH: usize = 64;

/// A fault in the text of a circuit, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct CircuitError {
    /// Number of the line, from 1.
    pub line: u64,
    /// The fault.
    pub reason: String,
}

impl std::str::FromStr for Circuit {
    type Err = CircuitError;

    /// Reads a circuit in Stim's format.
    ///
    /// ```
    /// use ringcall_qec::circuit::Circuit;
    /// let circuit: Circuit = "X_ERROR(0.1) 0\nMR 0\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]".parse()?;
    /// assert_eq!(circuit.detector_error_model()?.to_string(), "error(0.1) D0 L0\n");
    /// assert!("PAULI_CHANNEL_1(0.1, 0, 0) 0".parse::<Circuit>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, CircuitError> {
        let mut blocks = vec![Block::default()];
        let mut total = Counts::default();
        for (line, text) in (1..).zip(text.lines()) {
            read_line(text, &mut blocks, &mut total).map_err(|reason| CircuitError { line, reason })?;
            if let [.., block] = &mut blocks[..]
                && block.line == 0
            {
                block.line = line;
            }
        }
        match (blocks.pop(), blocks.is_empty()) {
            (Some(block), true) => Ok(block.circuit),
            (block, _) => Err(CircuitError {
                line: block.map_or(1, |block| block.line),
                reason: "the block opened here is never closed by `}`: is the file cut off?".to_owned(),
            }),
        }
    }
}

/// A block that is not closed yet.
#[derive(Default)]
struct Block {
    circuit: Circuit,
    /// The number of turns, and the line that states it.
    count: u32,
    line: u64,
    /// Counts of one turn.
    own: Counts,
}

/// Counts of what ran so far, in the first turn of each open block.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    measurements: u64,
    detectors: u64,
    targets: u64,
}

impl Counts {
    fn add(&mut self, other: Self, times: u64) -> Result<(), String> {
        let sum = |sum: u64, more: u64| sum.saturating_add(more.saturating_mul(times));
        self.measurements = sum(self.measurements, other.measurements);
        self.detectors = sum(self.detectors, other.detectors);
        self.targets = sum(self.targets, other.targets);
        if self.detectors > MAX_DETECTORS.into() {
            return Err(format!("more than {MAX_DETECTORS} detectors: check the counts of blocks"));
        }
        if self.targets > MAX_TARGETS {
            return Err(format!(
                "more than {MAX_TARGETS} targets are carried out: check the counts of blocks"
            ));
        }
        Ok(())
    }
}

fn read_line(text: &str, blocks: &mut Vec<Block>, total: &mut Counts) -> Result<(), String> {
    let text = text.split('#').next().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(());
    }
    if text == "}" {
        let (Some(mut block), Some(outer)) = (blocks.pop(), blocks.last_mut()) else {
            return Err("`}` closes no block".to_owned());
        };
        // A turn of an empty block takes time, too.
        block.own.targets = block.own.targets.max(1);
        total.add(block.own, u64::from(block.count) - 1)?;
        outer.own.add(block.own, block.count.into())?;
        let (count, body) = (block.count, block.circuit.instructions);
        outer.circuit.push(Instruction::Repeat { count, body });
        return Ok(());
    }
    let words = Words::of(text)?;
    if words.name == "REPEAT" {
        let [count, "{"] = words.targets[..] else { return Err("expected `REPEAT COUNT {`".to_owned()) };
        let count = count.parse::<u32>().ok().filter(|&count| count > 0);
        let count = count.ok_or("a block is repeated 1 to 4294967295 times")?;
        if blocks.len() > MAX_DEPTH {
            return Err(format!("blocks are nested deeper than {MAX_DEPTH}"));
        }
        blocks.push(Block { count, ..Block::default() });
        return Ok(());
    }
    let Some(block) = blocks.last_mut() else { return Ok(()) };
    let own = words.carry_out(&mut block.circuit, total.measurements)?;
    total.add(own, 1)?;
    block.own.add(own, 1)
}

/// The words of an instruction.
struct Words<'a> {
    name: String,
    arguments: Vec<f64>,
    targets: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        if let Some(tag) = rest.strip_prefix('[') {
            rest = tag.split_once(']').ok_or("a tag is not closed by `]`")?.1;
        }
        let mut arguments = Vec::new();
        if let Some(list) = rest.trim_start().strip_prefix('(') {
            let (list, after) = list.split_once(')').ok_or("arguments are not closed by `)`")?;
            rest = after;
            for argument in list.split(',').map(str::trim) {
                let value = argument.parse().ok().filter(|value: &f64| value.is_finite());
                arguments.push(value.ok_or_else(|| format!("`{argument}` is not a finite number"))?);
            }
        }
        if name.is_empty() || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
            return Err(format!(
                "expected an instruction, found `{}`",
                text.chars().take(40).collect::<String>()
            ));
        }
        Ok(Self { name: name.to_ascii_uppercase(), arguments, targets: rest.split_whitespace().collect() })
    }

    /// The probability of a channel or of a wrong result; 0 if none is given and `optional`.
    fn probability(&self, most: f64, optional: bool) -> Result<f64, String> {
        match self.arguments[..] {
            [] if optional => Ok(0.0),
            [p] if (0.0..=most).contains(&p) => Ok(p),
            [p] => Err(format!("{}({p}): give a probability from 0 to {most}", self.name)),
            _ => Err(format!("{} takes one argument, {} are given", self.name, self.arguments.len())),
        }
    }

    fn no_arguments(&self) -> Result<(), String> {
        match self.arguments.len() {
            0 => Ok(()),
            given => Err(format!("{} takes no arguments, {given} are given", self.name)),
        }
    }

    fn qubits(&self) -> Result<Vec<u32>, String> {
        self.targets.iter().map(|target| qubit(target)).collect()
    }

    fn pairs(&self) -> Result<Vec<[u32; 2]>, String> {
        let qubits = self.qubits()?;
        let pairs: Vec<_> =
            qubits.chunks(2).map(|pair| [pair[0], *pair.last().unwrap_or(&pair[0])]).collect();
        match pairs.iter().find(|[a, b]| a == b) {
            None => Ok(pairs),
            Some([a, _]) if qubits.len().is_multiple_of(2) => {
                Err(format!("{} of qubit {a} with itself", self.name))
            }
            Some(_) => Err(format!("{} takes pairs of qubits", self.name)),
        }
    }

    /// Distances back to earlier measurements, sorted, pairs cancelled.
    fn records(&self, measured: u64) -> Result<Vec<u32>, String> {
        let back = |target: &&str| {
            let digits = target.strip_prefix("rec[-").and_then(|rest| rest.strip_suffix(']'));
            let back = digits.and_then(|digits| digits.parse::<u32>().ok()).filter(|&back| back > 0);
            let back = back.ok_or_else(|| format!("expected a target such as rec[-1], found `{target}`"))?;
            if u64::from(back) <= measured {
                Ok(back)
            } else {
                Err(format!("{target} lies before the first of {measured} measurements"))
            }
        };
        let mut records = self.targets.iter().map(back).collect::<Result<Vec<u32>, String>>()?;
        crate::dem::cancel_pairs(&mut records);
        Ok(records)
    }

    /// Appends the instruction's operations. Returns their counts.
    fn carry_out(&self, circuit: &mut Circuit, measured: u64) -> Result<Counts, String> {
        let mut counts = Counts { targets: self.targets.len() as u64, ..Counts::default() };
        match self.name.as_str() {
            "TICK" => circuit.push(Instruction::Tick),
            "QUBIT_COORDS" => drop(self.qubits()?),
            "SHIFT_COORDS" => circuit.push(Instruction::ShiftCoordinates(self.arguments.clone())),
            "DETECTOR" => {
                let (coordinates, lookback) = (self.arguments.clone(), self.records(measured)?);
                counts.detectors = 1;
                circuit.push(Instruction::Detector { coordinates, lookback });
            }
            "OBSERVABLE_INCLUDE" => {
                let observable = match self.arguments[..] {
                    [id] if id >= 0.0 && id.fract() == 0.0 && id < MAX_OBSERVABLES as f64 => id as u32,
                    _ => return Err(format!("OBSERVABLE_INCLUDE takes a number below {MAX_OBSERVABLES}")),
                };
                circuit
                    .push(Instruction::ObservableInclude { observable, lookback: self.records(measured)? });
            }
            _ => counts.measurements = self.operate(circuit)?,
        }
        // Each instruction takes time, also one without targets.
        counts.targets = counts.targets.max(1);
        Ok(counts)
    }

    /// Appends a gate, a channel, a reset or measurements. Returns the number of measurements.
    fn operate(&self, circuit: &mut Circuit) -> Result<u64, String> {
        let name = self.name.as_str();
        if let Some(channel) = channel(name) {
            let (gate, most) = channel;
            let gate = gate(self.probability(most, false)?);
            let targets = if name == "DEPOLARIZE2" { self.pairs()?.concat() } else { self.qubits()? };
            circuit.noise(gate, &targets);
            return Ok(0);
        }
        if let Some((basis, measures, resets)) = collapse(name) {
            let p =
                if measures { self.probability(1.0, true)? } else { self.no_arguments().map(|()| 0.0)? };
            for qubit in self.qubits()? {
                if measures {
                    circuit.gate(measurement(basis, p), &[qubit]);
                }
                if resets {
                    circuit.gate(if basis == 'Z' { Gate::ResetZ } else { Gate::ResetX }, &[qubit]);
                    if basis == 'Y' {
                        circuit.gate(Gate::S, &[qubit]);
                    }
                }
            }
            return Ok(if measures { self.targets.len() as u64 } else { 0 });
        }
        if matches!(name, "MPP" | "MXX" | "MYY" | "MZZ") {
            let p = self.probability(1.0, true)?;
            let products = self.products()?;
            products.iter().try_for_each(|product| measure_product(circuit, product, p))?;
            return Ok(products.len() as u64);
        }
        if let Some(gates) = one_qubit(name) {
            self.no_arguments()?;
            let qubits = self.qubits()?;
            gates.iter().for_each(|&gate| circuit.gate(gate, &qubits));
            return Ok(0);
        }
        match two_qubit(name) {
            Some(steps) => {
                self.no_arguments()?;
                for pair in self.pairs()? {
                    for &(gate, at) in steps {
                        let targets: Vec<u32> = at.iter().map(|&place| pair[place]).collect();
                        circuit.gate(gate, &targets);
                    }
                }
                Ok(0)
            }
            None => Err(format!("`{name}` is not known, or leaves the error model inexact")),
        }
    }

    /// The Pauli products that are measured.
    fn products(&self) -> Result<Vec<Vec<(char, u32)>>, String> {
        if let Some(basis) = self.name.strip_prefix('M').filter(|&rest| rest != "PP") {
            let basis = basis.chars().next().unwrap_or('Z');
            return Ok(self.pairs()?.into_iter().map(|pair| pair.map(|q| (basis, q)).to_vec()).collect());
        }
        let factor = |text: &str| {
            let text = text.trim_start_matches('!');
            let pauli = text.chars().next().map(|c| c.to_ascii_uppercase()).filter(|c| "XYZ".contains(*c));
            let pauli = pauli.ok_or_else(|| format!("expected a product such as X1*Z2, found `{text}`"))?;
            Ok::<_, String>((pauli, qubit(&text[1..])?))
        };
        self.targets
            .iter()
            .map(|product| {
                let factors = product.split('*').map(factor).collect::<Result<Vec<_>, _>>()?;
                let mut qubits: Vec<u32> = factors.iter().map(|&(_, qubit)| qubit).collect();
                qubits.sort_unstable();
                match qubits.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => Err(format!("`{product}` names qubit {} twice", pair[0])),
                    None => Ok(factors),
                }
            })
            .collect()
    }
}

fn qubit(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('!').unwrap_or(text);
    let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None };
    match number {
        Some(qubit) if qubit < MAX_QUBITS => Ok(qubit),
        Some(qubit) => Err(format!("qubit {qubit}: at most {MAX_QUBITS} are taken")),
        None => Err(format!("expected a qubit, found `{text}`")),
    }
}

/// A noise channel of any strength, and its largest strength.
type Channel = (fn(f64) -> Gate, f64);

fn channel(name: &str) -> Option<Channel> {
    Some(match name {
        "X_ERROR" => (Gate::XError, 1.0),
        "Y_ERROR" => (Gate::YError, 1.0),
        "Z_ERROR" => (Gate::ZError, 1.0),
        "DEPOLARIZE1" => (Gate::Depolarize1, 0.75),
        "DEPOLARIZE2" => (Gate::Depolarize2, 15.0 / 16.0),
        _ => return None,
    })
}

/// Basis of a reset or measurement; whether it measures; whether it resets.
fn collapse(name: &str) -> Option<(char, bool, bool)> {
    Some(match name {
        "R" | "RZ" => ('Z', false, true),
        "RX" => ('X', false, true),
        "RY" => ('Y', false, true),
        "M" | "MZ" => ('Z', true, false),
        "MX" => ('X', true, false),
        "MY" => ('Y', true, false),
        "MR" | "MRZ" => ('Z', true, true),
        "MRX" => ('X', true, true),
        "MRY" => ('Y', true, true),
        _ => return None,
    })
}

fn measurement(basis: char, p: f64) -> Gate {
    match (basis, p > 0.0) {
        ('X', false) => Gate::MeasureX,
        ('X', true) => Gate::NoisyMeasureX(p),
        ('Y', false) => Gate::MeasureY,
        ('Y', true) => Gate::NoisyMeasureY(p),
        (_, false) => Gate::MeasureZ,
        (_, true) => Gate::NoisyMeasureZ(p),
    }
}

/// A one-qubit Clifford gate up to Paulis.
fn one_qubit(name: &str) -> Option<&'static [Gate]> {
    Some(match name {
        "I" | "X" | "Y" | "Z" => &[],
        "H" | "H_XZ" | "H_NXZ" | "SQRT_Y" | "SQRT_Y_DAG" => &[Gate::H],
        "S" | "S_DAG" | "SQRT_Z" | "SQRT_Z_DAG" | "H_XY" | "H_NXY" => &[Gate::S],
        "SQRT_X" | "SQRT_X_DAG" | "H_YZ" | "H_NYZ" => &[Gate::SqrtX],
        "C_XYZ" | "C_NXYZ" | "C_XNYZ" | "C_XYNZ" => &[Gate::CXyz],
        "C_ZYX" | "C_NZYX" | "C_ZNYX" | "C_ZYNX" => &[Gate::CZyx],
        _ => return None,
    })
}

/// Steps of a two-qubit Clifford gate up to Paulis: gates, and the qubit of the pair that each acts on.
type Steps = &'static [(Gate, &'static [usize])];

const CX: (Gate, &[usize]) = (Gate::Cx, &[0, 1]);
const XC: (Gate, &[usize]) = (Gate::Cx, &[1, 0]);
const H: [(Gate, &[usize]); 2] = [(Gate::H, &[0]), (Gate::H, &[1])];
const S: [(Gate, &[usize]); 2] = [(Gate::S, &[0]), (Gate::S, &[1])];
const V: [(Gate, &[usize]); 2] = [(Gate::SqrtX, &[0]), (Gate::SqrtX, &[1])];

fn two_qubit(name: &str) -> Option<Steps> {
    Some(match name {
        "CX" | "CNOT" | "ZCX" => &[CX],
        "CY" | "ZCY" => &[S[1], CX, S[1]],
        "CZ" | "ZCZ" => &[H[1], CX, H[1]],
        "XCX" => &[H[0], CX, H[0]],
        "XCY" => &[H[0], S[1], CX, S[1], H[0]],
        "XCZ" => &[XC],
        "YCX" => &[V[0], CX, V[0]],
        "YCY" => &[V[0], S[1], CX, S[1], V[0]],
        "YCZ" => &[S[0], XC, S[0]],
        "SWAP" => &[CX, XC, CX],
        "CXSWAP" => &[XC, CX],
        "SWAPCX" => &[CX, XC],
        "CZSWAP" | "SWAPCZ" => &[H[1], CX, H[1], CX, XC, CX],
        "ISWAP" | "ISWAP_DAG" => &[S[0], S[1], H[1], CX, H[1], CX, XC, CX],
        "SQRT_ZZ" | "SQRT_ZZ_DAG" => &[S[0], S[1], H[1], CX, H[1]],
        "SQRT_XX" | "SQRT_XX_DAG" => &[H[0], H[1], S[0], S[1], H[1], CX, H[1], H[0], H[1]],
        "SQRT_YY" | "SQRT_YY_DAG" => &[V[0], V[1], S[0], S[1], H[1], CX, H[1], V[0], V[1]],
        _ => return None,
    })
}

/// Measures a product on its first qubit, on which the other qubits are gathered before and released after.
fn measure_product(circuit: &mut Circuit, product: &[(char, u32)], p: f64) -> Result<(), String> {
    let [(_, first), others @ ..] = product else { return Err("an empty product".to_owned()) };
    let turn = |circuit: &mut Circuit| {
        for &(pauli, qubit) in product {
            match pauli {
                'X' => circuit.gate(Gate::H, &[qubit]),
                'Y' => circuit.gate(Gate::SqrtX, &[qubit]),
                _ => {}
            }
        }
    };
    let gather = |circuit: &mut Circuit| {
        others.iter().for_each(|&(_, qubit)| circuit.gate(Gate::Cx, &[qubit, *first]));
    };
    turn(circuit);
    gather(circuit);
    circuit.gate(measurement('Z', p), &[*first]);
    gather(circuit);
    turn(circuit);
    Ok(())
}
