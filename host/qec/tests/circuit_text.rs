//! Circuits in Stim's format against Stim's own models of them; tests/data/circuits/make.py makes the expected data.

use proptest::prelude::*;
use ringcall_qec::circuit::{Circuit, CircuitNoise, Code, Experiment, MemoryExperiment};
use ringcall_qec::code::Basis;
use std::path::Path;

mod digest;

use digest::Digest;

#[test]
fn models_of_circuits_are_those_of_stim() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/circuits");
    let mut lines = 0;
    for line in include_str!("data/circuits/digests.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let text = std::fs::read_to_string(folder.join(format!("{}.stim", words[0]))).unwrap();
        let circuit: Circuit = text.parse().unwrap();
        // The printed circuit is the same up to Paulis.
        let printed: Circuit = circuit.to_string().parse().unwrap();
        assert_eq!(printed, circuit, "{}", words[0]);
        let model = circuit.detector_error_model().unwrap();
        model.validate().unwrap();
        assert_eq!(model.num_detectors.to_string(), words[1], "{line}");
        assert_eq!(model.num_observables.to_string(), words[2], "{line}");
        let digest = Digest::of(&model);
        assert_eq!(
            (digest.count.to_string().as_str(), format!("{:016x}", digest.hashes).as_str()),
            (words[3], words[4]),
            "{}",
            words[0]
        );
        for (sum, word) in digest.sums.into_iter().zip(&words[5..]) {
            let theirs: f64 = word.parse().unwrap();
            assert!((sum - theirs).abs() <= 1e-12 * theirs, "{line}: {sum}");
        }
        lines += 1;
    }
    assert_eq!(lines, 7);
}

#[test]
fn our_own_circuits_are_read_back() {
    for code in Code::ALL {
        let experiment = Experiment { p: 0.002, rounds: 4, ..Experiment::of(code) };
        let circuit = experiment.circuit().unwrap();
        let again: Circuit = circuit.to_string().parse().unwrap();
        assert_eq!(
            again.detector_error_model().unwrap(),
            circuit.detector_error_model().unwrap(),
            "{code:?}"
        );
    }
    let surface =
        MemoryExperiment { distance: 3, rounds: 5, basis: Basis::X, noise: CircuitNoise::uniform(0.01) };
    let again: Circuit = surface.circuit().unwrap().to_string().parse().unwrap();
    assert_eq!(again.split_detector_error_model().unwrap(), surface.detector_error_model().unwrap());
}

#[test]
fn a_circuit_splits_wholly_or_not_at_all() {
    let text = "X_ERROR(0.1) 0\nCX 0 1 0 2\nM 0 1 2\nDETECTOR rec[-1]\nDETECTOR rec[-2]\nDETECTOR rec[-3]";
    let model = text.parse::<Circuit>().unwrap().split_detector_error_model().unwrap();
    assert_eq!(model.mechanisms[0].detectors, [0, 1, 2]);
    assert!(model.mechanisms[0].components.is_empty() && model.coordinates.is_empty());
}

#[test]
fn faults_are_named_with_their_line() {
    for (text, words) in [
        ("M 0\nDETECTOR rec[-2]", "line 2: rec[-2] lies before the first of 1 measurements"),
        ("FROB 0", "line 1: `FROB` is not known"),
        ("PAULI_CHANNEL_1(0.1, 0, 0) 0", "leaves the error model inexact"),
        ("\nE(0.1) X1", "line 2: `E` is not known"),
        ("CX rec[-1] 0", "expected a qubit, found `rec[-1]`"),
        ("CX 0 1 2", "CX takes pairs of qubits"),
        ("CX 3 3", "CX of qubit 3 with itself"),
        ("DEPOLARIZE1(0.8) 0", "DEPOLARIZE1(0.8): give a probability from 0 to 0.75"),
        ("X_ERROR 0", "X_ERROR takes one argument, 0 are given"),
        ("M(NaN) 0", "`NaN` is not a finite number"),
        ("M(2) 0", "M(2): give a probability from 0 to 1"),
        ("R(0.1) 0", "R takes no arguments, 1 are given"),
        ("H 1048576", "qubit 1048576: at most 1048576 are taken"),
        ("H -1", "expected a qubit, found `-1`"),
        ("REPEAT 2 {\nH 0", "line 1: the block opened here is never closed"),
        ("}", "`}` closes no block"),
        ("REPEAT 0 {\n}", "repeated 1 to"),
        ("REPEAT 4294967295 {\nDETECTOR\n}", "more than 16777216 detectors"),
        ("REPEAT 4294967295 {\n}", "targets are carried out"),
        ("MPP X0*X0", "names qubit 0 twice"),
        ("MPP Q1", "expected a product such as X1*Z2"),
        ("OBSERVABLE_INCLUDE(0.5) rec[-1]", "OBSERVABLE_INCLUDE takes a number"),
        ("OBSERVABLE_INCLUDE(0) X1", "expected a target such as rec[-1], found `X1`"),
        ("H[tag 0", "a tag is not closed"),
        ("H( 0", "arguments are not closed"),
        ("\u{1F600} 0", "expected an instruction"),
    ] {
        let error = text.parse::<Circuit>().unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let deep = "REPEAT 1 {\n".repeat(70);
    assert!(deep.parse::<Circuit>().unwrap_err().to_string().contains("nested deeper than 64"));
    assert_eq!("".parse::<Circuit>().unwrap(), Circuit::default());
}

proptest! {
    /// Any text is read or refused, and a circuit that is read has a model or an error.
    #[test]
    fn any_text_ends(
        lines in proptest::collection::vec(
            "(H|CX|M|MR|MPP|REPEAT|DETECTOR|OBSERVABLE_INCLUDE|X_ERROR|\\}|S|Ä)(\\(0?\\.?[0-9]\\))?( ?[0-9{}XZ*!]| rec\\[-[0-3]\\]){0,4}",
            0..12,
        ),
    ) {
        if let Ok(circuit) = lines.join("\n").parse::<Circuit>() {
            let _ = circuit.detector_error_model();
        }
    }
}
