//! Memory experiments of bicycle and colour codes against Stim; tests/data/codes/stim_oracle.py makes the expected data.

use ringcall_qec::QecError;
use ringcall_qec::circuit::{BicycleMemory, CircuitNoise, ColorMemory, DetectorBases, OperationNoise};
use ringcall_qec::code::{BICYCLE_CODES, Basis, BicycleCode, ColorCode, CssCode};

mod codes;
mod digest;

use digest::{Digest, fnv1a};

#[test]
fn models_have_the_digests_of_stim() {
    let expected = include_str!("data/codes/digests.txt");
    let names: Vec<&str> = expected.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, codes::names());
    for line in expected.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let circuit = codes::circuit(words[0]).unwrap();
        assert_eq!(format!("{:016x}", fnv1a(&circuit.to_string())), words[1], "{line}");
        let model = circuit.detector_error_model().unwrap();
        model.validate().unwrap();
        assert_eq!(model.num_detectors.to_string(), words[2], "{line}");
        assert_eq!(model.num_observables.to_string(), words[3], "{line}");
        let digest = Digest::of(&model);
        assert_eq!(digest.count.to_string(), words[4], "{line}");
        assert_eq!(format!("{:016x}", digest.hashes), words[5], "{line}");
        for (sum, word) in digest.sums.into_iter().zip(&words[6..]) {
            let theirs: f64 = word.parse().unwrap();
            assert!((sum - theirs).abs() <= 1e-12 * theirs, "{line}: {sum}");
        }
    }
}

/// Mechanism by mechanism, where the digests sum: a model of each family as Stim writes it.
#[test]
fn small_models_are_those_of_stim() {
    for (name, text) in [
        ("bb72-r1-x-memory-uneven", include_str!("data/codes/bb72-r1-x-memory-uneven.dem")),
        ("color-d3-r4-uneven", include_str!("data/codes/color-d3-r4-uneven.dem")),
    ] {
        let theirs = ringcall_qec::dem::text::parse(text).unwrap();
        let ours = codes::circuit(name).unwrap().detector_error_model().unwrap();
        assert_eq!(ours.coordinates, theirs.coordinates, "{name}");
        assert_eq!(ours.mechanisms.len(), theirs.mechanisms.len(), "{name}");
        for (ours, theirs) in ours.mechanisms.iter().zip(&theirs.mechanisms) {
            assert_eq!((&ours.detectors, &ours.observables), (&theirs.detectors, &theirs.observables));
            assert!((ours.probability - theirs.probability).abs() <= 1e-12 * theirs.probability, "{ours:?}");
        }
    }
}

#[test]
fn bicycle_codes_have_twelve_logical_qubits_and_paired_operators() {
    for (name, l, m, ..) in BICYCLE_CODES {
        let code = BicycleCode::named(name).unwrap();
        let css = code.css();
        assert_eq!((css.num_data(), css.num_logical()), (2 * l * m, 12), "{name}");
        for basis in Basis::BOTH {
            assert_eq!(css.checks(basis).len() as u32, l * m);
            assert!(css.checks(basis).iter().all(|check| check.len() == 6));
            for data in 0..css.num_data() {
                let on_data = css.checks(basis).iter().filter(|check| check.contains(&data)).count();
                assert_eq!(on_data, 3, "{name}: data qubit {data}");
            }
            for logical in css.logical(basis) {
                assert!(
                    css.checks(basis.dual()).iter().all(|check| overlap(check, logical).is_multiple_of(2))
                );
            }
        }
        for (i, x) in css.logical(Basis::X).iter().enumerate() {
            for (j, z) in css.logical(Basis::Z).iter().enumerate() {
                assert_eq!(overlap(x, z) % 2 == 1, i == j, "{name}: logical X {i}, logical Z {j}");
            }
        }
    }
}

fn overlap(a: &[u32], b: &[u32]) -> usize {
    a.iter().filter(|data| b.contains(data)).count()
}

#[test]
fn colour_codes_are_css_codes_with_their_bottom_row_as_logical_operator() {
    for distance in [3, 5, 7, 9, 11] {
        let code = ColorCode::new(distance).unwrap();
        assert_eq!(code.num_data(), (3 * distance * distance + 1) / 4);
        let checks: Vec<Vec<u32>> = code.faces().iter().map(|face| face.support.clone()).collect();
        assert!(checks.iter().all(|check| [4, 6].contains(&check.len())));
        let css = CssCode::new(code.num_data(), &checks, &checks).unwrap();
        assert_eq!(css.num_logical(), 1);
        assert!(checks.iter().all(|check| overlap(check, &code.logical()).is_multiple_of(2)));
        // The row commutes with all checks and, being odd, anticommutes with itself in the other basis: it is no product of checks.
        assert_eq!(code.logical().len() % 2, 1);
    }
}

/// Without noise on the gates, an error of the memory's basis alone is a column of the check matrix.
#[test]
fn noise_of_the_read_out_gives_the_columns_of_the_check_matrix() {
    let code = BicycleCode::named("bb72").unwrap();
    for basis in Basis::BOTH {
        let noise = OperationNoise { measure: 0.01, ..OperationNoise::default() };
        let memory = BicycleMemory { code: &code, rounds: 1, basis, detectors: DetectorBases::Both, noise };
        let model = memory.detector_error_model().unwrap();
        // Detectors of round 0, then those of the read-out.
        for data in 0..code.css().num_data() {
            let with_data = |list: &[Vec<u32>]| {
                (0..).zip(list).filter(|(_, l)| l.contains(&data)).map(|(i, _)| i).collect::<Vec<u32>>()
            };
            let detectors: Vec<u32> =
                with_data(code.css().checks(basis)).iter().map(|check| check + code.places()).collect();
            let observables = with_data(code.css().logical(basis));
            assert!(
                model.mechanisms.iter().any(|m| m.detectors == detectors && m.observables == observables),
                "data qubit {data}"
            );
        }
    }
}

#[test]
fn parameters_out_of_range_are_named() {
    let code = BicycleCode::named("bb144").unwrap();
    let noise = OperationNoise::uniform(0.001);
    let detectors = DetectorBases::Memory;
    let good = BicycleMemory { code: &code, rounds: 1, basis: Basis::Z, detectors, noise };
    for rounds in [0, u32::MAX] {
        let error = BicycleMemory { rounds, ..good }.circuit().unwrap_err();
        assert!(matches!(error, QecError::RoundsOf { min: 1, max: 116_508, .. }), "{error}");
    }
    for bad in [-0.1, f64::NAN, 1.5] {
        let rates: [fn(&mut OperationNoise) -> &mut f64; 4] =
            [|n| &mut n.cnot, |n| &mut n.idle, |n| &mut n.measure, |n| &mut n.reset];
        for rate in rates {
            let mut noise = noise;
            *rate(&mut noise) = bad;
            let error = BicycleMemory { noise, ..good }.circuit().unwrap_err();
            assert!(matches!(error, QecError::NoiseRate { .. }), "{error}");
        }
    }
    let color = ColorMemory { distance: 3, rounds: 2, noise: CircuitNoise::uniform(0.001) };
    assert!(matches!(
        ColorMemory { distance: 4, ..color }.circuit(),
        Err(QecError::Distance { distance: 4 })
    ));
    let error = ColorMemory { rounds: 1, ..color }.circuit().unwrap_err();
    assert_eq!(error.to_string(), "1 rounds of a colour code of this distance: give 2 to 5592405");
    assert!(ColorMemory { noise: CircuitNoise::uniform(0.8), ..color }.circuit().is_err());
    assert!(matches!(BicycleCode::named("bb73"), Err(QecError::Configuration { .. })));
    for (l, m, a) in [(0, 6, (3, 0)), (6, 6, (0, 1)), (6, 6, (6, 1)), (2049, 1, (3, 0))] {
        let error = BicycleCode::new(l, m, [a, (0, 1), (0, 2)], [(0, 3), (1, 0), (2, 0)]).unwrap_err();
        assert!(matches!(error, QecError::Code { .. }), "{error}");
    }
}
