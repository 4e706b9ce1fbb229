//! The memory experiments of bicycle and colour codes that are compared with Stim: shared by the tests and by the example
//! that writes their circuits.
#![allow(dead_code)]

use ringcall_qec::QecError;
use ringcall_qec::circuit::{
    BicycleMemory, Circuit, CircuitNoise, ColorMemory, DetectorBases, OperationNoise,
};
use ringcall_qec::code::{Basis, BicycleCode};

/// All rates different, so that none can stand in for another.
const UNEVEN: OperationNoise = OperationNoise { cnot: 0.001, idle: 0.002, measure: 0.003, reset: 0.004 };

pub(crate) const UNEVEN_CIRCUIT: CircuitNoise = CircuitNoise {
    after_clifford_depolarization: 0.001,
    before_round_data_depolarization: 0.002,
    before_measure_flip_probability: 0.003,
    after_reset_flip_probability: 0.004,
};

/// The circuit of an experiment by its name, its words separated by `-`: `bb72-r6-z-both-uneven` or `color-d5-r4-even`.
pub(crate) fn circuit(name: &str) -> Result<Circuit, QecError> {
    let words: Vec<&str> = name.split('-').collect();
    let number = |word: &str| word[1..].parse().expect("a number");
    let even = words.last() == Some(&"even");
    if let ["color", distance, rounds, _] = words[..] {
        let noise = if even { CircuitNoise::uniform(0.003) } else { UNEVEN_CIRCUIT };
        return ColorMemory { distance: number(distance), rounds: number(rounds), noise }.circuit();
    }
    let [code, rounds, basis, detectors, _] = words[..] else { panic!("no experiment is named {name}") };
    BicycleMemory {
        code: &BicycleCode::named(code)?,
        rounds: number(rounds),
        basis: if basis == "x" { Basis::X } else { Basis::Z },
        detectors: if detectors == "both" { DetectorBases::Both } else { DetectorBases::Memory },
        noise: if even { OperationNoise::uniform(0.003) } else { UNEVEN },
    }
    .circuit()
}

/// All that are compared.
pub(crate) fn names() -> Vec<String> {
    let mut names = Vec::new();
    for basis in ["x", "z"] {
        for detectors in ["memory", "both"] {
            for rounds in [1, 2, 6] {
                names.push(format!("bb72-r{rounds}-{basis}-{detectors}-uneven"));
            }
            names.push(format!("bb144-r12-{basis}-{detectors}-uneven"));
        }
        names.push(format!("bb288-r18-{basis}-memory-uneven"));
    }
    names
        .extend(["bb72-r6-z-memory-even", "bb144-r12-z-memory-even", "bb288-r4-z-both-even"].map(Into::into));
    for distance in [3, 5, 7, 9] {
        for rounds in [2, 3, 4, distance, 12] {
            names.push(format!("color-d{distance}-r{rounds}-uneven"));
        }
        names.push(format!("color-d{distance}-r{distance}-even"));
    }
    names.sort();
    names.dedup();
    names
}
