//! The predecoder's volume against the one its networks are trained in (`training/oracles.py`), and against the error
//! model.

use ringcall_qec::QecError;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::predecoder::{PredecoderVolume, Thresholds};
use std::fmt::Write;

/// As `volume_text` in `training/oracles.py`.
fn text(volume: &PredecoderVolume) -> String {
    fn line<T: std::fmt::Display>(values: impl IntoIterator<Item = T>, out: &mut String) {
        let values: Vec<_> = values.into_iter().map(|value| value.to_string()).collect();
        writeln!(out, "{}", values.join(" ")).unwrap();
    }
    fn sorted(cells: &[u32]) -> Vec<u32> {
        let mut cells = cells.to_vec();
        cells.sort_unstable();
        cells
    }
    let mut out = String::new();
    line(volume.maps().iter().map(|map| (2.0 * map) as u32), &mut out);
    line(volume.places(), &mut out);
    line(sorted(volume.frame_cells()), &mut out);
    (0..volume.detectors()).for_each(|detector| line(sorted(volume.residual_cells(detector)), &mut out));
    out
}

fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

fn basis(name: &str) -> Basis {
    if name == "x" { Basis::X } else { Basis::Z }
}

#[test]
fn equals_the_volume_of_the_training() {
    let volume = |distance, rounds, basis| PredecoderVolume::new(distance, rounds, basis).unwrap();
    assert_eq!(text(&volume(3, 1, Basis::X)), include_str!("data/predecoder/d3_r1_x.txt"));
    assert_eq!(text(&volume(3, 3, Basis::Z)), include_str!("data/predecoder/d3_r3_z.txt"));
    let digests = include_str!("data/predecoder/digests.txt");
    for line in digests.lines() {
        let [distance, rounds, name, digest] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let volume = volume(distance.parse().unwrap(), rounds.parse().unwrap(), basis(name));
        assert_eq!(format!("{:016x}", fnv1a(&text(&volume))), digest, "{line}");
    }
    assert_eq!(digests.lines().count(), 10);
}

/// What one decision alone flips.
fn effect(volume: &PredecoderVolume, cell: usize) -> (Vec<u32>, bool) {
    let mut logits = vec![0.0; volume.maps().len()];
    logits[cell] = 1.0;
    let mut packed = vec![0_u8; volume.detectors().div_ceil(8)];
    let frame = volume.apply(&logits, 0.5, &mut packed);
    let set = |id: &u32| packed[*id as usize / 8] >> (id % 8) & 1 == 1;
    ((0..volume.detectors() as u32).filter(set).collect(), frame)
}

/// A data error at the start of a round and a wrong measurement are faults of the circuit too: the model of a circuit
/// with just these has the decisions' effects for mechanisms, one for one.
#[test]
fn decisions_are_the_mechanisms_of_phenomenological_noise() {
    for (distance, rounds, basis) in [(3, 1, Basis::Z), (3, 3, Basis::X), (5, 4, Basis::Z)] {
        let noise = CircuitNoise {
            before_round_data_depolarization: 0.01,
            before_measure_flip_probability: 0.01,
            ..CircuitNoise::default()
        };
        let model = MemoryExperiment { distance, rounds, basis, noise }.detector_error_model().unwrap();
        let mut expected: Vec<(Vec<u32>, bool)> = Vec::new();
        for mechanism in &model.mechanisms {
            for edge in mechanism.edges() {
                expected.push((edge.detectors.to_vec(), !edge.observables.is_empty()));
            }
        }
        let volume = PredecoderVolume::new(distance, rounds, basis).unwrap();
        let mut got: Vec<_> = (0..volume.maps().len())
            .map(|cell| effect(&volume, cell))
            .filter(|(set, _)| !set.is_empty())
            .collect();
        for list in [&mut expected, &mut got] {
            list.iter_mut().for_each(|(detectors, _)| detectors.sort_unstable());
            list.sort();
            list.dedup();
        }
        assert_eq!(got, expected, "{distance} {rounds} {basis:?}");
    }
}

#[test]
fn what_flips_no_detector_flips_nothing() {
    let volume = PredecoderVolume::new(5, 3, Basis::X).unwrap();
    for cell in 0..volume.maps().len() {
        let (set, frame) = effect(&volume, cell);
        assert!(set.len() <= 2 && (!frame || !set.is_empty()), "{cell}: {set:?} {frame}");
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    assert!(matches!(PredecoderVolume::new(4, 4, Basis::X), Err(QecError::Distance { distance: 4 })));
    assert!(matches!(PredecoderVolume::new(3, 0, Basis::X), Err(QecError::Rounds { rounds: 0, .. })));
    assert!(matches!(PredecoderVolume::new(3, u32::MAX, Basis::X), Err(QecError::Rounds { .. })));
}

#[test]
fn thresholds_that_cannot_be_read_are_passed_over() {
    let bad = [
        ("predecoder.threshold.d7.p0.003", "warm"),
        ("predecoder.threshold.d7.p0.003", "NaN"),
        ("predecoder.threshold.d7", "1.0"),
        ("predecoder.threshold.dx.p0.1", "1.0"),
        ("predecoder.threshold.d7.p-1", "1.0"),
        ("predecoder.threshold", "1.0"),
    ];
    assert_eq!(Thresholds::from_metadata(bad).nearest(7, 0.003), None);
    let good = Thresholds::from_metadata([
        ("predecoder.threshold.d7.p0.003", "1"),
        ("predecoder.threshold.d13.p0.003", "2"),
        ("predecoder.threshold.d13.p0.006", "3"),
    ]);
    assert_eq!(good.known().len(), 3);
    assert_eq!(
        [0.001, 0.003, 0.0059, 0.5, 0.0, f64::NAN].map(|p| good.nearest(11, p)),
        [Some(2.0), Some(2.0), Some(3.0), Some(3.0), Some(2.0), good.nearest(11, f64::NAN)]
    );
}
