//! Memory experiments against Stim and PyMatching; tests/data/dem/make.py makes the expected data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringcall_qec::QecError;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment, max_rounds};
use ringcall_qec::code::{Basis, SurfaceCode};
use ringcall_qec::dem::{DetectorErrorModel, MechanismPart, text};

mod digest;

use digest::Digest;

const UNEVEN: CircuitNoise = CircuitNoise {
    after_clifford_depolarization: 0.001,
    before_round_data_depolarization: 0.002,
    before_measure_flip_probability: 0.003,
    after_reset_flip_probability: 0.004,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dem").join(name)
}

fn load(name: &str) -> String {
    std::fs::read_to_string(data(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn basis(name: &str) -> Basis {
    if name == "x" { Basis::X } else { Basis::Z }
}

/// Every memory experiment whose expected file has this ending, with that file.
fn expected(ending: &str) -> Vec<(MemoryExperiment, String)> {
    let mut found = Vec::new();
    for (distance, rounds) in [(3, 1), (3, 2), (3, 3), (5, 2)] {
        for name in ["x", "z"] {
            let path = format!("memory/d{distance}_r{rounds}_{name}.{ending}");
            if data(&path).exists() {
                let basis = basis(name);
                found.push((MemoryExperiment { distance, rounds, basis, noise: UNEVEN }, load(&path)));
            }
        }
    }
    found
}

fn assert_close(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() <= 1e-12 * theirs.abs(), "{what}: {ours} against {theirs}");
}

fn assert_same(ours: &DetectorErrorModel, theirs: &DetectorErrorModel) {
    ours.validate().unwrap();
    assert_eq!((ours.num_detectors, ours.num_observables), (theirs.num_detectors, theirs.num_observables));
    assert_eq!(ours.coordinates, theirs.coordinates);
    assert_eq!(ours.mechanisms.len(), theirs.mechanisms.len());
    for (ours, theirs) in ours.mechanisms.iter().zip(&theirs.mechanisms) {
        assert_eq!((&ours.detectors, &ours.observables), (&theirs.detectors, &theirs.observables));
        assert_eq!(ours.components, theirs.components);
        assert_close(ours.probability, theirs.probability, &format!("{ours:?}"));
    }
}

#[test]
fn circuits_are_those_of_stim() {
    let all = expected("stim");
    assert_eq!(all.len(), 6);
    for (experiment, circuit) in all {
        assert_eq!(experiment.circuit().unwrap().to_string(), circuit, "{experiment:?}");
    }
}

#[test]
fn decomposed_models_are_those_of_stim() {
    let all = expected("dem");
    assert_eq!(all.len(), 8);
    for (experiment, model) in all {
        assert_same(&experiment.detector_error_model().unwrap(), &text::parse(&model).unwrap());
    }
}

#[test]
fn undecomposed_models_are_those_of_stim() {
    let all = expected("whole.dem");
    assert_eq!(all.len(), 4);
    for (experiment, model) in all {
        assert_same(&experiment.undecomposed_detector_error_model().unwrap(), &text::parse(&model).unwrap());
    }
}

#[test]
fn edges_are_those_that_pymatching_builds() {
    let all = expected("edges");
    assert_eq!(all.len(), 6);
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    for (experiment, edges) in all {
        let mut ours: BTreeMap<(String, String), f64> = BTreeMap::new();
        for mechanism in &experiment.detector_error_model().unwrap().mechanisms {
            for MechanismPart { detectors, observables } in mechanism.edges() {
                let p = ours.entry((list(detectors), list(observables))).or_default();
                *p = *p * (1.0 - mechanism.probability) + mechanism.probability * (1.0 - *p);
            }
        }
        assert_eq!(ours.len(), edges.lines().count());
        for line in edges.lines() {
            let [a, b, observables, p] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let ends = if b == "-" { a.to_owned() } else { format!("{a},{b}") };
            let observables = if observables == "-" { "" } else { observables };
            let ours = ours[&(ends, observables.to_owned())];
            // PyMatching keeps weights and derives the probability: nine digits survive.
            let theirs: f64 = p.parse().unwrap();
            assert!((ours - theirs).abs() <= 1e-9 * theirs, "{line}: {ours}");
        }
    }
}

#[test]
fn larger_models_have_the_digests_of_stim() {
    let mut lines = 0;
    for line in load("digests.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        let experiment = MemoryExperiment {
            distance: words[0].parse().unwrap(),
            rounds: words[1].parse().unwrap(),
            basis: basis(words[2]),
            noise: CircuitNoise {
                after_clifford_depolarization: number(3),
                before_round_data_depolarization: number(4),
                before_measure_flip_probability: number(5),
                after_reset_flip_probability: number(6),
            },
        };
        let model = match words[7] {
            "split" => experiment.detector_error_model(),
            _ => experiment.undecomposed_detector_error_model(),
        };
        let digest = Digest::of(&model.unwrap());
        assert_eq!(digest.count.to_string(), words[8], "{line}");
        assert_eq!(format!("{:016x}", digest.hashes), words[9], "{line}");
        for (at, sum) in digest.sums.into_iter().enumerate() {
            assert_close(sum, number(10 + at), line);
        }
        lines += 1;
    }
    assert_eq!(lines, 50);
}

#[test]
fn layout_agrees_with_the_coordinates_of_the_circuit() {
    for (distance, rounds) in [(3, 1), (3, 2), (5, 4), (7, 3)] {
        for basis in Basis::BOTH {
            let experiment = MemoryExperiment { distance, rounds, basis, noise: CircuitNoise::default() };
            let layout = experiment.detector_layout().unwrap();
            let model = experiment.detector_error_model().unwrap();
            assert!(model.mechanisms.is_empty());
            let found: Vec<Vec<f64>> = layout
                .detectors()
                .iter()
                .map(|detector| {
                    [detector.position.0, detector.position.1, detector.layer].map(f64::from).to_vec()
                })
                .collect();
            assert_eq!(found, model.coordinates);
        }
    }
}

#[test]
fn slices_cover_every_detector_once_in_the_order_of_the_checks() {
    let code = SurfaceCode::new(5).unwrap();
    for basis in Basis::BOTH {
        for rounds in [1, 2, 6] {
            let noise = CircuitNoise::default();
            let layout = MemoryExperiment { distance: 5, rounds, basis, noise }.detector_layout().unwrap();
            let mut seen = vec![false; 24 * rounds as usize];
            assert_eq!(layout.slices().count(), 2 * rounds as usize);
            for (basis, layer, slice) in layout.slices() {
                assert_eq!(slice.len(), 12);
                for (&detector, check) in slice.iter().zip(code.stabilizers(basis)) {
                    let info = layout.detectors()[detector as usize];
                    assert_eq!((info.basis, info.layer, info.position), (basis, layer, check.position));
                    assert!(!std::mem::replace(&mut seen[detector as usize], true));
                }
            }
            assert!(seen.into_iter().all(|seen| seen));
            assert_eq!(layout.layer(basis, rounds + 1), None);
            assert_eq!(layout.layer(basis.dual(), rounds), None);
        }
    }
}

/// Matching sees mechanisms with the detectors of their own basis alone: a data error is an edge within a layer.
#[test]
fn noise_on_data_alone_gives_the_edges_of_the_check_matrix() {
    let noise = CircuitNoise { before_round_data_depolarization: 0.01, ..CircuitNoise::default() };
    let experiment = MemoryExperiment { distance: 5, rounds: 3, basis: Basis::Z, noise };
    let (model, layout) = (experiment.detector_error_model().unwrap(), experiment.detector_layout().unwrap());
    let code = SurfaceCode::new(5).unwrap();
    let logical = code.logical(Basis::Z);
    for layer in 0..3 {
        let slice = layout.layer(Basis::Z, layer).unwrap();
        for (data, checks) in (0..).zip(code.checks_on_data(Basis::Z)) {
            let mut detectors: Vec<u32> = checks.iter().map(|&check| slice[check as usize]).collect();
            detectors.sort_unstable();
            let observables: &[u32] = if logical.contains(&data) { &[0] } else { &[] };
            let edge = MechanismPart { detectors: &detectors, observables };
            assert!(model.mechanisms.iter().any(|m| m.components.is_empty() && m.edges().any(|e| e == edge)));
        }
    }
}

#[test]
fn parameters_out_of_range_are_named() {
    let good =
        MemoryExperiment { distance: 3, rounds: 2, basis: Basis::X, noise: CircuitNoise::uniform(0.001) };
    for rounds in [0, max_rounds(3) + 1, u32::MAX] {
        let error = MemoryExperiment { rounds, ..good }.detector_error_model().unwrap_err();
        assert_eq!(error, QecError::Rounds { rounds, distance: 3, max: 2_097_152 });
    }
    let error = MemoryExperiment { distance: 6, ..good }.detector_layout().unwrap_err();
    assert_eq!(error, QecError::Distance { distance: 6 });
    let mut refused = 0;
    for bad in [-0.1, 0.76, 1.01, f64::NAN, f64::INFINITY] {
        let rates: [fn(&mut CircuitNoise) -> &mut f64; 4] = [
            |noise| &mut noise.after_clifford_depolarization,
            |noise| &mut noise.before_round_data_depolarization,
            |noise| &mut noise.before_measure_flip_probability,
            |noise| &mut noise.after_reset_flip_probability,
        ];
        for rate in rates {
            let mut noise = good.noise;
            *rate(&mut noise) = bad;
            match (MemoryExperiment { noise, ..good }).circuit() {
                Err(QecError::NoiseRate { value, .. }) if value.to_bits() == bad.to_bits() => refused += 1,
                Ok(_) if bad == 0.76 => {}
                other => panic!("{bad}: {other:?}"),
            }
        }
    }
    assert_eq!(refused, 18);
}
